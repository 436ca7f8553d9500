//! `identity/entity-alias`: the names of entities at auth methods.

use super::call::{PermittedCall, RequestFields};
use super::identity_entity::map;
use super::identity_shown::{self as shown, IdentityListing};
use super::reply::{Reply, ReplyBody};
use super::row::{self, Endpoint, field};
use bulkhead_access::identity::{self, Alias, AliasChange, entity};
use bulkhead_core::Core;
use bulkhead_store::Unit;
use bulkhead_wire::description::{Field, FieldKind};
use bulkhead_wire::failure::Failure;
use serde_json::json;

const BY_ID: &str = "identity/entity-alias/id/{id}";

/// Returns the rows of this file.
pub(super) fn rows() -> Vec<Endpoint> {
    vec![
        row::write("identity/entity-alias", "write an alias of an entity")
            .fields([id()])
            .fields(settings())
            .handled_by(write),
        row::list("identity/entity-alias/id", "ids of all aliases of entities")
            .fields(shown::paging_fields())
            .handled_by(list),
        row::read(BY_ID, "an alias of an entity").fields([id()]).handled_by(read),
        row::write(BY_ID, "change an alias of an entity")
            .fields([id()])
            .fields(settings())
            .handled_by(write),
        row::delete(BY_ID, "delete an alias of an entity").fields([id()]).handled_by(delete),
    ]
}

fn id() -> Field {
    field("id", FieldKind::String, "id of the alias")
}

fn settings() -> Vec<Field> {
    let canonical = "id of the entity; a new alias without the id makes an entity";
    vec![
        field("name", FieldKind::String, "name of the entity at the mount"),
        field("mount_accessor", FieldKind::String, "accessor of the mount"),
        field("canonical_id", FieldKind::String, canonical),
        field("entity_id", FieldKind::String, "old name of canonical_id")
            .old_name_of("canonical_id"),
        field("custom_metadata", FieldKind::Map, "names and values kept with the alias"),
    ]
}

/// `POST identity/entity-alias`, also by id. Fields that are not sent keep their values (decision
/// A6).
async fn write(call: PermittedCall<'_>) -> Result<Reply, Failure> {
    let PermittedCall { core, unit, fields, .. } = call;
    let change = alias_change(core, unit, fields).await?;
    let (alias, entity) = identity::change_entity_alias(unit, core.store.now(), change).await?;
    Ok(alias_reply(&alias, &entity))
}

/// Returns the sent fields of an alias of an entity or group. An empty text counts as not sent.
pub(super) async fn alias_change(
    core: &Core,
    unit: &mut Unit,
    fields: RequestFields<'_>,
) -> Result<AliasChange, Failure> {
    let sent = |name: &str| Some(fields.text(name).to_owned()).filter(|text| !text.is_empty());
    let mount = match sent("mount_accessor") {
        Some(accessor) => Some(core.mounts.for_alias(unit, &accessor).await?),
        None => None,
    };
    Ok(AliasChange {
        id: sent("id"),
        name: sent("name"),
        mount,
        canonical_id: sent("canonical_id").or_else(|| sent("entity_id")),
        custom_metadata: fields.has("custom_metadata").then(|| map(fields, "custom_metadata")),
    })
}

/// Builds the answer to a write of an alias.
pub(super) fn alias_reply(alias: &Alias, canonical_id: &str) -> Reply {
    let members = [("canonical_id", json!(canonical_id)), ("id", json!(alias.id))];
    ReplyBody::Data(shown::members(members)).into()
}

/// `GET identity/entity-alias/id/:id`.
async fn read(call: PermittedCall<'_>) -> Result<Reply, Failure> {
    let PermittedCall { core, unit, fields, .. } = call;
    let id = fields.text("id");
    let entity = entity::by_alias_id(unit, id).await?.ok_or_else(Failure::absent)?;
    let alias = entity.aliases.iter().find(|alias| alias.id == id);
    let alias = alias.ok_or_else(Failure::absent)?;
    Ok(ReplyBody::Data(shown::alias_of(core, alias, &entity.id)).into())
}

/// `DELETE identity/entity-alias/id/:id`; succeeds even if there is no such alias.
async fn delete(call: PermittedCall<'_>) -> Result<Reply, Failure> {
    identity::delete_entity_alias(call.unit, call.fields.text("id")).await?;
    Ok(ReplyBody::Nothing.into())
}

/// `LIST identity/entity-alias/id`.
async fn list(call: PermittedCall<'_>) -> Result<Reply, Failure> {
    let core = call.core;
    let mut listing = IdentityListing::by_id(core, "entity-alias/", call.fields)?;
    while let Some(address) = listing.next().await? {
        let id = address.key.rsplit('/').next().unwrap_or_default();
        let entity = entity::by_alias_id(&mut core.store.begin(), id).await?;
        let Some(entity) = entity else { continue };
        if let Some(alias) = entity.aliases.iter().find(|alias| alias.id == id) {
            let info = || shown::listed_alias(core, alias, &entity.id);
            listing.add((id, ""), info).await?;
        }
    }
    listing.reply()
}

//! `identity/entity`: the people and machines behind logins.

use super::call::{PermittedCall, RequestFields};
use super::identity_shown::{self as shown, IdentityListing};
use super::reply::{Reply, ReplyBody};
use super::row::{self, Endpoint, field, required};
use bulkhead_access::identity::{self, Entity, EntityMerge, IdentityChange, entity};
use bulkhead_core::Core;
use bulkhead_store::Address;
use bulkhead_wire::description::{Field, FieldKind};
use bulkhead_wire::failure::{Failure, quoted};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;

const BY_ID: &str = "identity/entity/id/{id}";
const BY_NAME: &str = "identity/entity/name/{name+}";

/// Returns the rows of this file.
pub(super) fn rows() -> Vec<Endpoint> {
    vec![
        row::write("identity/entity", "write an entity")
            .fields([id(), name()])
            .fields(settings())
            .handled_by(write),
        row::list("identity/entity/id", "ids of all entities")
            .fields(shown::paging_fields())
            .handled_by(list_ids),
        row::read(BY_ID, "an entity").fields([id()]).handled_by(read_by_id),
        row::write(BY_ID, "change an entity")
            .fields([id(), name()])
            .fields(settings())
            .handled_by(write),
        row::delete(BY_ID, "delete an entity").fields([id()]).handled_by(delete_by_id),
        row::list("identity/entity/name", "names of all entities")
            .fields(shown::paging_fields())
            .handled_by(list_names),
        row::read(BY_NAME, "an entity").fields([name()]).handled_by(read_by_name),
        row::write(BY_NAME, "write an entity")
            .fields([name()])
            .fields(settings())
            .handled_by(write),
        row::delete(BY_NAME, "delete an entity").fields([name()]).handled_by(delete_by_name),
        row::write("identity/entity/batch-delete", "delete entities")
            .fields([required("entity_ids", FieldKind::CommaList, "their ids")])
            .handled_by(batch_delete),
        row::write("identity/entity/merge", "merge entities")
            .fields(merge_fields())
            .handled_by(merge),
    ]
}

fn id() -> Field {
    field("id", FieldKind::String, "id of the entity")
}

fn name() -> Field {
    field("name", FieldKind::String, "name of the entity, for people")
}

fn settings() -> Vec<Field> {
    vec![
        field("metadata", FieldKind::Map, "names and values kept with the entity"),
        field(
            "policies",
            FieldKind::CommaList,
            "policies of the entity's tokens, in addition to each token's own",
        ),
        field("disabled", FieldKind::Bool, "whether tokens of the entity are refused"),
    ]
}

fn merge_fields() -> Vec<Field> {
    vec![
        required(
            "from_entity_ids",
            FieldKind::CommaList,
            "ids of the entities to merge into to_entity_id",
        ),
        required("to_entity_id", FieldKind::String, "id of the remaining entity"),
        field(
            "force",
            FieldKind::Bool,
            "keep the alias of to_entity_id if several entities have an alias at a mount",
        ),
        field(
            "conflicting_alias_ids_to_keep",
            FieldKind::CommaList,
            "ids of aliases to keep if several have an alias at a mount",
        ),
    ]
}

/// `POST identity/entity`, also by id and by name: changes the named entity, or creates an entity.
/// Fields that are not sent keep their values (decision A6).
async fn write(call: PermittedCall<'_>) -> Result<Reply, Failure> {
    let PermittedCall { core, unit, fields, .. } = call;
    let (id, name) = (fields.text("id"), fields.text("name"));
    let stored_entity = match (id, name) {
        ("", "") => None,
        ("", name) => entity::by_name(unit, name).await?,
        (id, _) => Some(entity::read(unit, id).await?.ok_or_else(|| {
            Failure::invalid(format!("invalid id: there is no entity with the id {}", quoted(id)))
        })?),
    };
    let is_new = stored_entity.is_none();
    let disabled = fields.has("disabled").then(|| fields.flag("disabled", false));
    let change = (change(fields), disabled);
    let entity = identity::change_entity(unit, core.store.now(), stored_entity, change).await?;
    if !is_new {
        return Ok(ReplyBody::Nothing.into());
    }
    let members =
        [("id", json!(entity.id)), ("name", json!(entity.name)), ("aliases", Value::Null)];
    Ok(ReplyBody::Data(shown::members(members)).into())
}

/// Returns the fields shared by entities and groups, as far as sent by the caller. An empty name
/// counts as not sent.
pub(super) fn change(fields: RequestFields<'_>) -> IdentityChange {
    IdentityChange {
        name: Some(fields.text("name").to_owned()).filter(|name| !name.is_empty()),
        metadata: fields.has("metadata").then(|| map(fields, "metadata")),
        policies: fields.has("policies").then(|| fields.list("policies")),
    }
}

/// Returns the texts of an object.
pub(super) fn map(fields: RequestFields<'_>, name: &str) -> BTreeMap<String, String> {
    let pairs = fields.object(name).into_iter().flatten();
    pairs
        .map(|(name, value)| (name.clone(), value.as_str().unwrap_or_default().to_owned()))
        .collect()
}

/// `GET identity/entity/id/:id`.
async fn read_by_id(call: PermittedCall<'_>) -> Result<Reply, Failure> {
    let found = entity::read(call.unit, call.fields.text("id")).await?;
    show(call, found).await
}

/// `GET identity/entity/name/:name`.
async fn read_by_name(call: PermittedCall<'_>) -> Result<Reply, Failure> {
    let found = entity::by_name(call.unit, call.fields.text("name")).await?;
    show(call, found).await
}

async fn show(call: PermittedCall<'_>, found: Option<Arc<Entity>>) -> Result<Reply, Failure> {
    let entity = found.ok_or_else(Failure::absent)?;
    Ok(ReplyBody::Data(shown::entity(call.core, call.unit, &entity).await?).into())
}

/// `DELETE identity/entity/id/:id`; succeeds even if there is no such entity.
async fn delete_by_id(call: PermittedCall<'_>) -> Result<Reply, Failure> {
    let found = entity::read(call.unit, call.fields.text("id")).await?;
    delete(call, found)
}

/// `DELETE identity/entity/name/:name`; succeeds even if there is no such entity.
async fn delete_by_name(call: PermittedCall<'_>) -> Result<Reply, Failure> {
    let found = entity::by_name(call.unit, call.fields.text("name")).await?;
    delete(call, found)
}

fn delete(call: PermittedCall<'_>, found: Option<Arc<Entity>>) -> Result<Reply, Failure> {
    if let Some(entity) = found {
        entity::delete(call.unit, &entity)?;
    }
    Ok(ReplyBody::Nothing.into())
}

/// `POST identity/entity/batch-delete`; skips ids without an entity.
async fn batch_delete(call: PermittedCall<'_>) -> Result<Reply, Failure> {
    for id in call.fields.list("entity_ids") {
        if let Some(entity) = entity::read(call.unit, &id).await? {
            entity::delete(call.unit, &entity)?;
        }
    }
    Ok(ReplyBody::Nothing.into())
}

/// `POST identity/entity/merge`.
async fn merge(call: PermittedCall<'_>) -> Result<Reply, Failure> {
    let PermittedCall { core, unit, fields, .. } = call;
    let merge = EntityMerge {
        from: fields.list("from_entity_ids").into_iter().collect(),
        to: fields.text("to_entity_id").to_owned(),
        is_forced: fields.flag("force", false),
        keep: fields.list("conflicting_alias_ids_to_keep").into_iter().collect(),
    };
    identity::merge(unit, core.store.now(), &merge).await?;
    Ok(ReplyBody::Nothing.into())
}

/// `LIST identity/entity/id`.
async fn list_ids(call: PermittedCall<'_>) -> Result<Reply, Failure> {
    let core = call.core;
    let mut listing = IdentityListing::by_id(core, "entity/", call.fields)?;
    while let Some(address) = listing.next().await? {
        let Some(entity) = at(&call, &address).await? else { continue };
        listing.add((&entity.id, ""), || describe_entity(core, &entity)).await?;
    }
    listing.reply()
}

/// Shows an entity in the listing of ids.
fn describe_entity(core: &Core, entity: &Entity) -> Map<String, Value> {
    let aliases = entity.aliases.iter().map(|alias| shown::brief_alias(core, alias));
    let aliases: Vec<Value> = aliases.map(Value::Object).collect();
    let mut info = shown::members([("name", json!(entity.name))]);
    if !aliases.is_empty() {
        info.insert("aliases".to_owned(), Value::Array(aliases));
    }
    info
}

/// `LIST identity/entity/name`.
async fn list_names(call: PermittedCall<'_>) -> Result<Reply, Failure> {
    let mut listing = IdentityListing::by_name(call.core, "entity/", call.fields)?;
    while let Some(address) = listing.next().await? {
        if let Some(entity) = at(&call, &address).await? {
            listing.add(("", &entity.name), Map::new).await?;
        }
    }
    listing.reply()
}

/// Reads the entity at `address` in a separate unit, so that a listing need not restart whenever
/// an entity comes or goes.
async fn at(call: &PermittedCall<'_>, address: &Address) -> Result<Option<Arc<Entity>>, Failure> {
    let id = address.key.rsplit('/').next().unwrap_or_default();
    entity::read(&mut call.core.store.begin(), id).await
}

//! `identity/group-alias`: the names of external groups at auth methods.

use super::after_commit::AfterCommit;
use super::call::PermittedCall;
use super::identity_entity_alias::{alias_change, alias_reply};
use super::identity_shown::{self as shown, IdentityListing};
use super::reply::{Reply, ReplyBody};
use super::row::{self, Endpoint, field};
use bulkhead_access::identity::{self, group};
use bulkhead_wire::description::{Field, FieldKind};
use bulkhead_wire::failure::Failure;

const BY_ID: &str = "identity/group-alias/id/{id}";

/// Returns the rows of this file.
pub(super) fn rows() -> Vec<Endpoint> {
    vec![
        row::write("identity/group-alias", "write the alias of an external group")
            .fields([id()])
            .fields(settings())
            .handled_by(write),
        row::list("identity/group-alias/id", "ids of all aliases of groups")
            .fields(shown::paging_fields())
            .handled_by(list),
        row::read(BY_ID, "the alias of a group").fields([id()]).handled_by(read),
        row::write(BY_ID, "change the alias of a group")
            .fields([id()])
            .fields(settings())
            .handled_by(write),
        row::delete(BY_ID, "delete the alias of a group").fields([id()]).handled_by(delete),
    ]
}

fn id() -> Field {
    field("id", FieldKind::String, "id of the alias")
}

fn settings() -> Vec<Field> {
    let canonical = "id of the external group; a new alias without the id makes a group";
    vec![
        field("name", FieldKind::String, "name of the group at the mount"),
        field("mount_accessor", FieldKind::String, "accessor of the mount"),
        field("canonical_id", FieldKind::String, canonical),
    ]
}

/// `POST identity/group-alias`, also by id. Fields that are not sent keep their values (decision
/// A6).
async fn write(call: PermittedCall<'_>) -> Result<Reply, Failure> {
    let PermittedCall { core, unit, fields, .. } = call;
    let change = alias_change(core, unit, fields).await?;
    let (alias, group) = identity::change_group_alias(unit, core.store.now(), change).await?;
    Ok(alias_reply(&alias, &group).after_commit(AfterCommit::LetMembersLeave))
}

/// `GET identity/group-alias/id/:id`.
async fn read(call: PermittedCall<'_>) -> Result<Reply, Failure> {
    let PermittedCall { core, unit, fields, .. } = call;
    let id = fields.text("id");
    let group = group::by_alias_id(unit, id).await?.ok_or_else(Failure::absent)?;
    let alias = group.alias.as_ref().ok_or_else(Failure::absent)?;
    Ok(ReplyBody::Data(shown::alias_of(core, alias, &group.id)).into())
}

/// `DELETE identity/group-alias/id/:id`; succeeds even if there is no such alias. Entities that
/// joined the group by a login leave the group.
async fn delete(call: PermittedCall<'_>) -> Result<Reply, Failure> {
    identity::delete_group_alias(call.unit, call.fields.text("id")).await?;
    Ok(Reply::from(ReplyBody::Nothing).after_commit(AfterCommit::LetMembersLeave))
}

/// `LIST identity/group-alias/id`.
async fn list(call: PermittedCall<'_>) -> Result<Reply, Failure> {
    let core = call.core;
    let mut listing = IdentityListing::by_id(core, "group-alias/", call.fields)?;
    while let Some(address) = listing.next().await? {
        let id = address.key.rsplit('/').next().unwrap_or_default();
        let Some(group) = group::by_alias_id(&mut core.store.begin(), id).await? else { continue };
        if let Some(alias) = &group.alias {
            let info = || shown::listed_alias(core, alias, &group.id);
            listing.add((id, ""), info).await?;
        }
    }
    listing.reply()
}

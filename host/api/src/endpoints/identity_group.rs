//! `identity/group`: sets of entities and of other groups.

use super::after_commit::AfterCommit;
use super::call::{PermittedCall, RequestFields};
use super::identity_entity::change;
use super::identity_shown::{self as shown, IdentityListing};
use super::reply::{Reply, ReplyBody};
use super::row::{self, Endpoint, field};
use bulkhead_access::identity::{self, Group, GroupChange, GroupKind, group, membership};
use bulkhead_store::Address;
use bulkhead_wire::description::{Field, FieldKind};
use bulkhead_wire::failure::{Failure, quoted};
use serde_json::{Map, json};
use std::collections::BTreeSet;
use std::sync::Arc;

const BY_ID: &str = "identity/group/id/{id}";
const BY_NAME: &str = "identity/group/name/{name+}";

/// Returns the rows of this file.
pub(super) fn rows() -> Vec<Endpoint> {
    vec![
        row::write("identity/group", "write a group")
            .fields([id(), name()])
            .fields(settings())
            .handled_by(write),
        row::list("identity/group/id", "ids of all groups")
            .fields(shown::paging_fields())
            .handled_by(list_ids),
        row::read(BY_ID, "a group").fields([id()]).handled_by(read_by_id),
        row::write(BY_ID, "change a group")
            .fields([id(), name()])
            .fields(settings())
            .handled_by(write),
        row::delete(BY_ID, "delete a group").fields([id()]).handled_by(delete_by_id),
        row::list("identity/group/name", "names of all groups")
            .fields(shown::paging_fields())
            .handled_by(list_names),
        row::read(BY_NAME, "a group").fields([name()]).handled_by(read_by_name),
        row::write(BY_NAME, "write a group").fields([name()]).fields(settings()).handled_by(write),
        row::delete(BY_NAME, "delete a group").fields([name()]).handled_by(delete_by_name),
    ]
}

fn id() -> Field {
    field("id", FieldKind::String, "id of the group")
}

fn name() -> Field {
    field("name", FieldKind::String, "name of the group, for people")
}

fn settings() -> Vec<Field> {
    let member_groups = "ids of groups; their members also belong to this group";
    vec![
        field("type", FieldKind::String, "internal, or external for a group filled by logins"),
        field("metadata", FieldKind::Map, "names and values kept with the group"),
        field(
            "policies",
            FieldKind::CommaList,
            "policies of tokens of members, in addition to each token's own",
        ),
        field("member_group_ids", FieldKind::CommaList, member_groups),
        field("member_entity_ids", FieldKind::CommaList, "ids of its entities"),
    ]
}

/// `POST identity/group`, also by id and by name: changes the named group, or creates a group.
/// Fields that are not sent keep their values (decision A6).
async fn write(call: PermittedCall<'_>) -> Result<Reply, Failure> {
    let PermittedCall { core, unit, fields, .. } = call;
    let (id, name) = (fields.text("id"), fields.text("name"));
    let stored_group = match (id, name) {
        ("", "") => None,
        ("", name) => group::by_name(unit, name).await?,
        (id, _) => Some(group::read(unit, id).await?.ok_or_else(|| {
            Failure::invalid(format!("invalid id: there is no group with the id {}", quoted(id)))
        })?),
    };
    let is_new = stored_group.is_none();
    let change = group_change(fields)?;
    let group = identity::change_group(unit, core.store.now(), stored_group, change).await?;
    if !is_new {
        return Ok(ReplyBody::Nothing.into());
    }
    let members = [("id", json!(group.id)), ("name", json!(group.name))];
    Ok(ReplyBody::Data(shown::members(members)).into())
}

fn group_change(fields: RequestFields<'_>) -> Result<GroupChange, Failure> {
    let ids = |name: &str| -> Option<BTreeSet<String>> {
        fields.has(name).then(|| fields.list(name).into_iter().collect())
    };
    let kind = Some(fields.text("type")).filter(|kind| !kind.is_empty());
    Ok(GroupChange {
        common: change(fields),
        kind: kind.map(GroupKind::parse).transpose()?,
        entities: ids("member_entity_ids"),
        groups: ids("member_group_ids"),
    })
}

/// `GET identity/group/id/:id`.
async fn read_by_id(call: PermittedCall<'_>) -> Result<Reply, Failure> {
    let found = group::read(call.unit, call.fields.text("id")).await?;
    show(call, found).await
}

/// `GET identity/group/name/:name`.
async fn read_by_name(call: PermittedCall<'_>) -> Result<Reply, Failure> {
    let found = group::by_name(call.unit, call.fields.text("name")).await?;
    show(call, found).await
}

async fn show(call: PermittedCall<'_>, found: Option<Arc<Group>>) -> Result<Reply, Failure> {
    let group = found.ok_or_else(Failure::absent)?;
    let (data, warning) = shown::group(call.core, &group).await?;
    Ok(Reply::from(ReplyBody::Data(data)).with_warnings(warning))
}

/// `DELETE identity/group/id/:id`; succeeds even if there is no such group.
async fn delete_by_id(call: PermittedCall<'_>) -> Result<Reply, Failure> {
    let found = group::read(call.unit, call.fields.text("id")).await?;
    delete(call, found).await
}

/// `DELETE identity/group/name/:name`; succeeds even if there is no such group.
async fn delete_by_name(call: PermittedCall<'_>) -> Result<Reply, Failure> {
    let found = group::by_name(call.unit, call.fields.text("name")).await?;
    delete(call, found).await
}

async fn delete(call: PermittedCall<'_>, found: Option<Arc<Group>>) -> Result<Reply, Failure> {
    let Some(group) = found else { return Ok(ReplyBody::Nothing.into()) };
    identity::delete_group(call.unit, &group).await?;
    Ok(Reply::from(ReplyBody::Nothing).after_commit(AfterCommit::LetMembersLeave))
}

/// `LIST identity/group/id`.
async fn list_ids(call: PermittedCall<'_>) -> Result<Reply, Failure> {
    let core = call.core;
    let mut listing = IdentityListing::by_id(core, "group/", call.fields)?;
    while let Some(address) = listing.next().await? {
        let Some(group) = at(&call, &address).await? else { continue };
        let entities = membership::count(&core.store, &group.id).await?;
        let mut info = shown::members([
            ("name", json!(group.name)),
            ("num_member_entities", json!(entities)),
            ("num_parent_groups", json!(group.parents.len())),
        ]);
        if let Some(alias) = &group.alias {
            info.insert("alias".to_owned(), json!(shown::brief_alias(core, alias)));
        }
        listing.add((&group.id, ""), || info).await?;
    }
    listing.reply()
}

/// `LIST identity/group/name`.
async fn list_names(call: PermittedCall<'_>) -> Result<Reply, Failure> {
    let mut listing = IdentityListing::by_name(call.core, "group/", call.fields)?;
    while let Some(address) = listing.next().await? {
        if let Some(group) = at(&call, &address).await? {
            listing.add(("", &group.name), Map::new).await?;
        }
    }
    listing.reply()
}

/// Reads the group at `address` in a separate unit.
async fn at(call: &PermittedCall<'_>, address: &Address) -> Result<Option<Arc<Group>>, Failure> {
    let id = address.key.rsplit('/').next().unwrap_or_default();
    group::read(&mut call.core.store.begin(), id).await
}

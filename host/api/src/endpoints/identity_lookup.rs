//! `identity/lookup`: finds an entity or a group by id, by name or by alias.

use super::call::{PermittedCall, RequestFields};
use super::identity_shown as shown;
use super::reply::{Reply, ReplyBody};
use super::row::{self, Endpoint, field};
use bulkhead_access::identity::{entity, group};
use bulkhead_wire::description::{Field, FieldKind};
use bulkhead_wire::failure::Failure;

/// Returns the rows of this file.
pub(super) fn rows() -> Vec<Endpoint> {
    vec![
        row::write("identity/lookup/entity", "find an entity")
            .fields(questions("entity"))
            .handled_by(lookup_entity),
        row::write("identity/lookup/group", "find a group")
            .fields(questions("group"))
            .handled_by(lookup_group),
    ]
}

fn questions(of: &str) -> [Field; 5] {
    let alias_accessor = "accessor of the mount of alias_name";
    [
        field("id", FieldKind::String, &format!("id of the {of}")),
        field("name", FieldKind::String, &format!("name of the {of}")),
        field("alias_id", FieldKind::String, &format!("id of an alias of the {of}")),
        field("alias_name", FieldKind::String, "name at a mount"),
        field("alias_mount_accessor", FieldKind::String, alias_accessor),
    ]
}

/// Search key of a lookup.
enum LookupKey<'a> {
    Id(&'a str),
    Name(&'a str),
    AliasId(&'a str),
    Alias { accessor: &'a str, name: &'a str },
}

/// Returns the search key. The caller must send exactly 1.
fn read_lookup_key(fields: RequestFields<'_>) -> Result<LookupKey<'_>, Failure> {
    let (accessor, name) = (fields.text("alias_mount_accessor"), fields.text("alias_name"));
    let alias = match (accessor, name) {
        ("", "") => None,
        ("", _) | (_, "") => {
            return Err(Failure::invalid(
                "alias_name and alias_mount_accessor must be supplied together",
            ));
        }
        (accessor, name) => Some(LookupKey::Alias { accessor, name }),
    };
    let sent = |name: &str| Some(fields.text(name)).filter(|text| !text.is_empty());
    let keys = [
        sent("id").map(LookupKey::Id),
        sent("name").map(LookupKey::Name),
        sent("alias_id").map(LookupKey::AliasId),
        alias,
    ];
    let mut keys = keys.into_iter().flatten();
    match (keys.next(), keys.next()) {
        (Some(only), None) => Ok(only),
        (None, _) => Err(Failure::invalid(
            "query parameter not supplied: give id, name, alias_id, or alias_name with \
             alias_mount_accessor",
        )),
        (Some(_), Some(_)) => Err(Failure::invalid(
            "several query parameters were supplied: give only id, name, alias_id, or alias_name \
             with alias_mount_accessor",
        )),
    }
}

/// `POST identity/lookup/entity`; 204 if there is no such entity.
async fn lookup_entity(call: PermittedCall<'_>) -> Result<Reply, Failure> {
    let PermittedCall { core, unit, fields, .. } = call;
    let found = match read_lookup_key(fields)? {
        LookupKey::Id(id) => entity::read(unit, id).await?,
        LookupKey::Name(name) => entity::by_name(unit, name).await?,
        LookupKey::AliasId(id) => entity::by_alias_id(unit, id).await?,
        LookupKey::Alias { accessor, name } => entity::by_alias(unit, accessor, name).await?,
    };
    let Some(entity) = found else { return Ok(ReplyBody::Nothing.into()) };
    Ok(ReplyBody::Data(shown::entity(core, unit, &entity).await?).into())
}

/// `POST identity/lookup/group`; 204 if there is no such group.
async fn lookup_group(call: PermittedCall<'_>) -> Result<Reply, Failure> {
    let PermittedCall { core, unit, fields, .. } = call;
    let found = match read_lookup_key(fields)? {
        LookupKey::Id(id) => group::read(unit, id).await?,
        LookupKey::Name(name) => group::by_name(unit, name).await?,
        LookupKey::AliasId(id) => group::by_alias_id(unit, id).await?,
        LookupKey::Alias { accessor, name } => group::by_alias(unit, accessor, name).await?,
    };
    let Some(group) = found else { return Ok(ReplyBody::Nothing.into()) };
    let (data, warning) = shown::group(core, &group).await?;
    Ok(Reply::from(ReplyBody::Data(data)).with_warnings(warning))
}

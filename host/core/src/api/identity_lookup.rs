//! `identity/lookup`: finds an entity or a group by id, by name or by alias.

use super::call::{Call, Fields};
use super::identity_shown as shown;
use super::reply::{Body, Reply};
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
    let alias_accessor = "accessor of the mount at which it is called alias_name";
    [
        field("id", FieldKind::String, &format!("id of the {of}")),
        field("name", FieldKind::String, &format!("name of the {of}")),
        field("alias_id", FieldKind::String, &format!("id of an alias of the {of}")),
        field("alias_name", FieldKind::String, "what it is called at a mount"),
        field("alias_mount_accessor", FieldKind::String, alias_accessor),
    ]
}

/// Search key of a lookup.
enum Question<'a> {
    Id(&'a str),
    Name(&'a str),
    AliasId(&'a str),
    Alias { accessor: &'a str, name: &'a str },
}

/// Returns the search key. The caller must send exactly 1.
fn question(fields: Fields<'_>) -> Result<Question<'_>, Failure> {
    let (accessor, name) = (fields.text("alias_mount_accessor"), fields.text("alias_name"));
    let alias = match (accessor, name) {
        ("", "") => None,
        ("", _) | (_, "") => {
            return Err(Failure::invalid(
                "alias_name and alias_mount_accessor must be supplied together",
            ));
        }
        (accessor, name) => Some(Question::Alias { accessor, name }),
    };
    let sent = |name: &str| Some(fields.text(name)).filter(|text| !text.is_empty());
    let asked = [
        sent("id").map(Question::Id),
        sent("name").map(Question::Name),
        sent("alias_id").map(Question::AliasId),
        alias,
    ];
    let mut asked = asked.into_iter().flatten();
    match (asked.next(), asked.next()) {
        (Some(only), None) => Ok(only),
        (None, _) => Err(Failure::invalid(
            "query parameter not supplied: give one of id, name, alias_id, and alias_name with \
             alias_mount_accessor",
        )),
        (Some(_), Some(_)) => Err(Failure::invalid(
            "several query parameters were supplied: give one of id, name, alias_id, and \
             alias_name with alias_mount_accessor",
        )),
    }
}

/// `POST identity/lookup/entity`; 204 if there is no such entity.
async fn lookup_entity(call: Call<'_>) -> Result<Reply, Failure> {
    let Call { core, unit, fields, .. } = call;
    let found = match question(fields)? {
        Question::Id(id) => entity::read(unit, id).await?,
        Question::Name(name) => entity::by_name(unit, name).await?,
        Question::AliasId(id) => entity::by_alias_id(unit, id).await?,
        Question::Alias { accessor, name } => entity::by_alias(unit, accessor, name).await?,
    };
    let Some(entity) = found else { return Ok(Body::Nothing.into()) };
    Ok(Body::Data(shown::entity(core, unit, &entity).await?).into())
}

/// `POST identity/lookup/group`; 204 if there is no such group.
async fn lookup_group(call: Call<'_>) -> Result<Reply, Failure> {
    let Call { core, unit, fields, .. } = call;
    let found = match question(fields)? {
        Question::Id(id) => group::read(unit, id).await?,
        Question::Name(name) => group::by_name(unit, name).await?,
        Question::AliasId(id) => group::by_alias_id(unit, id).await?,
        Question::Alias { accessor, name } => group::by_alias(unit, accessor, name).await?,
    };
    let Some(group) = found else { return Ok(Body::Nothing.into()) };
    let (data, warning) = shown::group(core, &group).await?;
    Ok(Reply::from(Body::Data(data)).with_warnings(warning))
}

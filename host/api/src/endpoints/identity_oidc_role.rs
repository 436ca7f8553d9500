//! `identity/oidc/role`: roles for tokens. With such a token, callers prove their identity to
//! others.

use super::call::{PermittedCall, RequestFields};
use super::reply::{Reply, ReplyBody};
use super::row::{self, Endpoint, field};
use bulkhead_access::oidc::{self, ROLE_EXISTENCE, Role};
use bulkhead_access::random;
use bulkhead_wire::description::{Field, FieldKind};
use bulkhead_wire::failure::Failure;
use serde_json::{Map, Value, json};

/// Number of letters and digits in a generated client id.
const CLIENT_ID: usize = 26;
/// Default lifetime of tokens, in seconds.
const USUAL_TTL: u64 = 86_400;

/// Returns the rows of this file.
pub(super) fn rows() -> Vec<Endpoint> {
    let one = "identity/oidc/role/{name}";
    let name = || [field("name", FieldKind::Name, "name of the role")];
    vec![
        row::list("identity/oidc/role", "names of all roles").handled_by(list),
        row::read(one, "a role").fields(name()).handled_by(read),
        row::write(one, "write a role")
            .fields(name())
            .fields(settings())
            .existence(ROLE_EXISTENCE)
            .handled_by(write),
        row::delete(one, "delete a role").fields(name()).handled_by(delete),
    ]
}

fn settings() -> [Field; 4] {
    let template = "JSON, maybe in base64, with places such as {{identity.entity.name}}";
    [
        field("key", FieldKind::Name, "the signing key at identity/oidc/key"),
        field("client_id", FieldKind::String, "audience of the tokens; default: a random id"),
        field("template", FieldKind::String, template),
        field("ttl", FieldKind::Duration, "lifetime of the tokens"),
    ]
}

/// `LIST identity/oidc/role`.
async fn list(call: PermittedCall<'_>) -> Result<Reply, Failure> {
    let names = oidc::role_names(call.unit).await?;
    if names.is_empty() {
        return Err(Failure::absent());
    }
    Ok(ReplyBody::Data(Map::from_iter([("keys".to_owned(), json!(names))])).into())
}

/// `GET identity/oidc/role/:name`.
async fn read(call: PermittedCall<'_>) -> Result<Reply, Failure> {
    let role = Role::read(call.unit, call.fields.text("name")).await?;
    Ok(ReplyBody::Data(show(&role.ok_or_else(Failure::absent)?)).into())
}

fn show(role: &Role) -> Map<String, Value> {
    let members = [
        ("client_id", json!(role.client_id)),
        ("key", json!(role.key)),
        ("template", json!(role.template)),
        ("ttl", json!(role.ttl)),
    ];
    members.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}

/// `POST identity/oidc/role/:name`. Fields that are not sent keep their values (decision A6).
async fn write(call: PermittedCall<'_>) -> Result<Reply, Failure> {
    let PermittedCall { unit, fields, .. } = call;
    let name = fields.text("name");
    let role = match Role::read(unit, name).await? {
        Some(role) => role,
        None => new_role()?,
    };
    let role = changed(role, fields);
    if role.key.is_empty() {
        return Err(Failure::invalid("key is required: name a key of identity/oidc/key"));
    }
    role.check()?;
    oidc::check_named(unit, &role.key).await?;
    role.put(unit, name)?;
    Ok(ReplyBody::Nothing.into())
}

fn new_role() -> Result<Role, Failure> {
    let client_id = random::base62(CLIENT_ID)?;
    Ok(Role { key: String::new(), client_id, template: String::new(), ttl: USUAL_TTL })
}

fn changed(mut role: Role, sent: RequestFields<'_>) -> Role {
    let texts = [
        ("key", &mut role.key),
        ("client_id", &mut role.client_id),
        ("template", &mut role.template),
    ];
    // An empty client id asks for the default, which a role has from its creation.
    let is_default = |name: &str| name == "client_id" && sent.text(name).is_empty();
    for (name, text) in texts.into_iter().filter(|(name, _)| sent.has(name) && !is_default(name)) {
        sent.text(name).clone_into(text);
    }
    if sent.has("ttl") {
        role.ttl = sent.seconds("ttl");
    }
    role
}

/// `DELETE identity/oidc/role/:name`.
async fn delete(call: PermittedCall<'_>) -> Result<Reply, Failure> {
    oidc::delete_role(call.unit, call.fields.text("name"));
    Ok(ReplyBody::Nothing.into())
}

//! The AppRole auth method. A chosen secret id replaces generated ids, so that each run sends the
//! same requests.

use super::{EndpointCall, row};
use serde_json::{Value, json};

const ROLE: &str = "auth/approle/role/web";
const SECRET_ID: &str = "a-secret-id-of-our-own-choice";

pub(super) fn rows() -> Vec<EndpointCall> {
    let mut rows = of_role();
    rows.extend(settings());
    rows.extend(token_settings());
    rows.extend(secret_ids());
    rows.push(row("auth-approle-role-role_name.delete", ROLE, Value::Null, 204));
    rows
}

fn of_role() -> Vec<EndpointCall> {
    let role = json!({
        "policies": "dev", "token_ttl": "10m", "secret_id_ttl": "1h", "secret_id_num_uses": 40,
    });
    let id = "auth/approle/role/web/role-id";
    vec![
        row("auth-approle-role-role_name.write", ROLE, role, 204),
        row("auth-approle-role-role_name.read", ROLE, Value::Null, 200),
        row("auth-approle-role.list", "auth/approle/role", Value::Null, 200),
        row("auth-approle-role-role_name-role-id.write", id, json!({ "role_id": "of-web" }), 204),
        row("auth-approle-role-role_name-role-id.read", id, Value::Null, 200),
    ]
}

/// A row about a setting, whose path is in the name of the golden file.
fn setting(golden: &'static str, body: Value) -> EndpointCall {
    let named = golden.strip_prefix("auth-approle-role-role_name-").unwrap_or_default();
    let (segment, operation) = named.rsplit_once('.').unwrap_or_default();
    let path = format!("{ROLE}/{segment}").leak();
    row(golden, path, body, if operation == "read" { 200 } else { 204 })
}

fn settings() -> Vec<EndpointCall> {
    vec![
        setting("auth-approle-role-role_name-local-secret-ids.read", Value::Null),
        setting("auth-approle-role-role_name-policies.write", json!({ "token_policies": "dev" })),
        setting("auth-approle-role-role_name-policies.read", Value::Null),
        setting("auth-approle-role-role_name-policies.delete", Value::Null),
        setting(
            "auth-approle-role-role_name-bind-secret-id.write",
            json!({ "bind_secret_id": true }),
        ),
        setting("auth-approle-role-role_name-bind-secret-id.read", Value::Null),
        setting("auth-approle-role-role_name-bind-secret-id.delete", Value::Null),
        setting(
            "auth-approle-role-role_name-bound-cidr-list.write",
            json!({ "bound_cidr_list": "127.0.0.0/8" }),
        ),
        setting("auth-approle-role-role_name-bound-cidr-list.read", Value::Null),
        setting("auth-approle-role-role_name-bound-cidr-list.delete", Value::Null),
        setting(
            "auth-approle-role-role_name-secret-id-bound-cidrs.write",
            json!({ "secret_id_bound_cidrs": "127.0.0.0/8" }),
        ),
        setting("auth-approle-role-role_name-secret-id-bound-cidrs.read", Value::Null),
        setting("auth-approle-role-role_name-secret-id-bound-cidrs.delete", Value::Null),
        setting(
            "auth-approle-role-role_name-secret-id-num-uses.write",
            json!({ "secret_id_num_uses": 40 }),
        ),
        setting("auth-approle-role-role_name-secret-id-num-uses.read", Value::Null),
        setting("auth-approle-role-role_name-secret-id-num-uses.delete", Value::Null),
        setting(
            "auth-approle-role-role_name-secret-id-ttl.write",
            json!({ "secret_id_ttl": "1h" }),
        ),
        setting("auth-approle-role-role_name-secret-id-ttl.read", Value::Null),
        setting("auth-approle-role-role_name-secret-id-ttl.delete", Value::Null),
    ]
}

fn token_settings() -> Vec<EndpointCall> {
    vec![
        setting(
            "auth-approle-role-role_name-token-bound-cidrs.write",
            json!({ "token_bound_cidrs": "127.0.0.0/8" }),
        ),
        setting("auth-approle-role-role_name-token-bound-cidrs.read", Value::Null),
        setting("auth-approle-role-role_name-token-bound-cidrs.delete", Value::Null),
        setting("auth-approle-role-role_name-token-num-uses.write", json!({ "token_num_uses": 0 })),
        setting("auth-approle-role-role_name-token-num-uses.read", Value::Null),
        setting("auth-approle-role-role_name-token-num-uses.delete", Value::Null),
        setting("auth-approle-role-role_name-token-ttl.write", json!({ "token_ttl": "10m" })),
        setting("auth-approle-role-role_name-token-ttl.read", Value::Null),
        setting("auth-approle-role-role_name-token-ttl.delete", Value::Null),
        setting(
            "auth-approle-role-role_name-token-max-ttl.write",
            json!({ "token_max_ttl": "1h" }),
        ),
        setting("auth-approle-role-role_name-token-max-ttl.read", Value::Null),
        setting("auth-approle-role-role_name-token-max-ttl.delete", Value::Null),
        setting("auth-approle-role-role_name-token-period.write", json!({ "token_period": 0 })),
        setting("auth-approle-role-role_name-token-period.read", Value::Null),
        setting("auth-approle-role-role_name-token-period.delete", Value::Null),
        setting("auth-approle-role-role_name-period.write", json!({ "period": 0 })),
        setting("auth-approle-role-role_name-period.read", Value::Null),
        setting("auth-approle-role-role_name-period.delete", Value::Null),
    ]
}

fn secret_ids() -> Vec<EndpointCall> {
    let secret_id = || json!({ "secret_id": SECRET_ID });
    let accessor = || json!({ "secret_id_accessor": "{secret_id_accessor}" });
    let chosen =
        json!({ "secret_id": SECRET_ID, "metadata": r#"{"owner": "web"}"#, "num_uses": 9 });
    let login = json!({ "role_id": "of-web", "secret_id": SECRET_ID });
    let generated = json!({ "metadata": { "owner": "web" }, "cidr_list": ["127.0.0.0/8"] });
    let of = |end: &str| -> &'static str { format!("{ROLE}/{end}").leak() };
    let name = |end: &str| -> &'static str { format!("auth-approle-role-role_name-{end}").leak() };
    vec![
        row(name("custom-secret-id.write"), of("custom-secret-id"), chosen, 200),
        row("auth-approle-login.write", "auth/approle/login", login, 200),
        row(name("secret-id-lookup.write"), of("secret-id/lookup"), secret_id(), 200),
        row(name("secret-id-destroy.write"), of("secret-id/destroy"), secret_id(), 204),
        row(
            name("secret-id-destroy.delete"),
            of("secret-id/destroy?secret_id=another"),
            Value::Null,
            204,
        ),
        row(name("secret-id.write"), of("secret-id"), generated, 200),
        row(name("secret-id.list"), of("secret-id"), Value::Null, 200),
        row(
            name("secret-id-accessor-lookup.write"),
            of("secret-id-accessor/lookup"),
            accessor(),
            200,
        ),
        row(
            name("secret-id-accessor-destroy.write"),
            of("secret-id-accessor/destroy"),
            accessor(),
            204,
        ),
        row(
            name("secret-id-accessor-destroy.delete"),
            of("secret-id-accessor/destroy?secret_id_accessor=another"),
            Value::Null,
            404,
        ),
        row("auth-approle-tidy-secret-id.write", "auth/approle/tidy/secret-id", json!({}), 200),
    ]
}

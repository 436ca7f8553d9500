//! The settings of a mount as clients send them: inside `config` when the mount is enabled, at the
//! top level when the mount is tuned.
//!
//! This file prevents a restriction that is accepted but not applied. A setting is refused if
//! ignoring the setting would widen access; a setting without effect is stored with a warning.

use super::grants;
use super::subject::TuneTarget;
use super::version;
use crate::endpoints::row::field;
use bulkhead_access::oidc;
use bulkhead_core::mounts::instance_reuse;
use bulkhead_core::mounts::{
    BuiltinMount, ListingVisibility, LoginTokenType, MountClass, MountSettings,
};
use bulkhead_store::Unit;
use bulkhead_wire::description::{Field, FieldKind, Route, Verb};
use bulkhead_wire::duration;
use bulkhead_wire::failure::{Failure, quoted};
use bulkhead_wire::fields;
use serde_json::{Map, Value};

/// Headers that `passthrough_request_headers` must not name, because each can carry a credential.
const TOKEN_HEADERS: [&str; 7] = [
    "authorization",
    "cookie",
    "x-vault-token",
    "x-bulkhead-token",
    "x-secrets-token",
    "x-scheduler-token",
    "x-nomad-token",
];

/// Settings that are stored without effect, each with the reason.
const WITHOUT_EFFECT: [(&str, &str); 4] = [
    ("force_no_cache", "a mount's data is cached only in the mount's storage"),
    ("passthrough_request_headers", "this version hands no header to a plugin"),
    ("allowed_response_headers", "this version takes no header from a plugin"),
    ("delegated_auth_accessors", "no plugin of this version delegates authentication"),
];

/// Settings that can be tuned at a built-in part of the server.
const OF_BUILTINS: [&str; 4] = [
    "description",
    "audit_non_hmac_request_keys",
    "audit_non_hmac_response_keys",
    "listing_visibility",
];

/// The setting with the rules for locking names after failed logins.
const LOCKOUT: &str = "user_lockout_config";

/// The fields of tuning, which are also the keys of `config`.
pub(super) fn fields() -> Vec<Field> {
    let lifetime = "a duration, or \"system\" for the system's; empty changes nothing";
    let settings = vec![
        field(
            "default_lease_ttl",
            FieldKind::Any,
            &format!("lifetime of leases and tokens without a requested lifetime: {lifetime}"),
        ),
        field("max_lease_ttl", FieldKind::Any, &format!("longest lifetime: {lifetime}")),
        field("description", FieldKind::String, "one sentence for people"),
        options("texts for the plugin; an empty text removes the key"),
        field("force_no_cache", FieldKind::Bool, "stored, without effect"),
        field(
            "audit_non_hmac_request_keys",
            FieldKind::CommaList,
            "keys of requests shown in the clear by audit",
        )
        .needs_sudo(),
        field(
            "audit_non_hmac_response_keys",
            FieldKind::CommaList,
            "keys of responses shown in the clear by audit",
        )
        .needs_sudo(),
        field("listing_visibility", FieldKind::String, "\"unauth\" lists the mount to everybody"),
        field("passthrough_request_headers", FieldKind::CommaList, "stored, without effect yet"),
        field("allowed_response_headers", FieldKind::CommaList, "stored, without effect yet"),
        field(
            "token_type",
            FieldKind::String,
            "of auth methods: default-service, default-batch, service or batch",
        )
        .needs_sudo(),
        field(
            "identity_token_key",
            FieldKind::String,
            "the signing key of the mount's identity tokens, at identity/oidc/key",
        )
        .needs_sudo(),
        field("delegated_auth_accessors", FieldKind::CommaList, "stored, without effect yet"),
        lockout(),
        grants::whole(),
    ];
    settings.into_iter().chain(version::fields()).collect()
}

/// The field with the rules for locking names after failed logins.
fn lockout() -> Field {
    let reset = field(
        "lockout_counter_reset",
        FieldKind::Any,
        "seconds without a failure after which failures are forgotten",
    );
    let members = vec![
        field(
            "lockout_threshold",
            FieldKind::Any,
            "number of failed logins until a name is locked",
        ),
        field("lockout_duration", FieldKind::Any, "seconds until a locked name is unlocked"),
        Field { aliases: vec!["lockout_counter_reset_duration".to_owned()], ..reset },
        field("lockout_disable", FieldKind::Any, "whether no name is locked"),
    ];
    let about = "for auth methods: the lock of names after failed logins";
    field(LOCKOUT, FieldKind::Any, about).with_members(members).needs_sudo()
}

/// The field for the options of a mount. The host interprets a single option, the reuse of
/// instances.
pub(super) fn options(about: &str) -> Field {
    let about_reuse = "whether an instance serves several calls: fresh, the default, or bounded";
    let reuse = field(instance_reuse::OPTION, FieldKind::String, about_reuse).needs_sudo();
    field("options", FieldKind::Map, about).with_members(vec![reuse])
}

/// Settings with the empty text as a possible value: no description, the default visibility, no own
/// version, the default key, and empty lists. An empty text takes the value back, because going
/// back to the default has no special word.
const MAY_BE_EMPTY: [&str; 9] = [
    "description",
    "listing_visibility",
    "plugin_version",
    "identity_token_key",
    "audit_non_hmac_request_keys",
    "audit_non_hmac_response_keys",
    "passthrough_request_headers",
    "allowed_response_headers",
    "delegated_auth_accessors",
];

/// Returns the entries of `values` that the body `sent` sets. An empty text sets nothing where the
/// default has a special word ("system", "auto", "default-service") or is a flag: the Go clients
/// send both lifetimes as empty texts with each new description, and an empty text must not remove
/// a limit. `"system"`, `0`, `false`, `[]` and `{}` set a value.
pub(super) fn said(values: &Map<String, Value>, sent: &Map<String, Value>) -> Map<String, Value> {
    let is_empty = |name: &str| {
        let text = sent.get(name).and_then(Value::as_str);
        text.is_some_and(|text| text.trim().is_empty()) && !MAY_BE_EMPTY.contains(&name)
    };
    let said = values.iter().filter(|(name, _)| !is_empty(name));
    said.map(|(name, value)| (name.clone(), value.clone())).collect()
}

/// Reads the members of `config` with the fields of tuning. Also returns a warning about unknown
/// members.
///
/// # Errors
/// 400 if `config` is not an object, or a value does not fit its field.
pub(super) fn of_config(
    config: Option<&Value>,
) -> Result<(Map<String, Value>, Option<String>), Failure> {
    let config = match config {
        None | Some(Value::Null) => return Ok((Map::new(), None)),
        // A form, or a tool that sends every empty value as a text.
        Some(Value::String(text)) if text.is_empty() => return Ok((Map::new(), None)),
        Some(Value::Object(config)) => config,
        Some(_) => {
            return Err(Failure::invalid(
                "config must be an object, e.g. {\"max_lease_ttl\": \"24h\"}",
            ));
        }
    };
    let route = Route { fields: fields(), ..Route::new(Verb::Write, "config", "") };
    let folded = fields::fold_names(&route, config, &[])
        .map_err(|failure| Failure { message: format!("config.{}", failure.message), ..failure })?;
    let unknown: Vec<String> = folded.unknown.iter().map(|name| format!("config.{name}")).collect();
    let warning =
        format!("Endpoint ignored these unrecognized parameters: [{}]", unknown.join(" "));
    Ok((folded.values, (!unknown.is_empty()).then_some(warning)))
}

/// Changes the settings named in `values` and keeps the rest (decision A6). Returns warnings.
///
/// # Errors
/// 400 with the name of the field. `settings` may then be partly changed.
pub(super) fn change(
    settings: &mut MountSettings,
    values: &Map<String, Value>,
    subject: &TuneTarget<'_>,
) -> Result<Vec<String>, Failure> {
    check_tunable(values, subject)?;
    version::change(settings, values, subject)?;
    let text = |name: &str| values.get(name).and_then(Value::as_str);
    let list = |name: &str| {
        let items = values.get(name)?.as_array()?.iter();
        Some(items.filter_map(Value::as_str).map(str::to_owned).collect::<Vec<String>>())
    };
    replace(&mut settings.default_ttl, lifetime(values, "default_lease_ttl")?);
    replace(&mut settings.max_ttl, lifetime(values, "max_lease_ttl")?);
    settings.check(subject.system)?;
    replace(&mut settings.description, text("description").map(str::to_owned));
    replace(&mut settings.force_no_cache, values.get("force_no_cache").and_then(Value::as_bool));
    replace(&mut settings.audit_non_hmac_request_keys, list("audit_non_hmac_request_keys"));
    replace(&mut settings.audit_non_hmac_response_keys, list("audit_non_hmac_response_keys"));
    replace(
        &mut settings.listing_visibility,
        text("listing_visibility").map(ListingVisibility::of_word).transpose()?,
    );
    replace(&mut settings.passthrough_request_headers, list("passthrough_request_headers"));
    check_headers(&settings.passthrough_request_headers)?;
    replace(&mut settings.allowed_response_headers, list("allowed_response_headers"));
    replace(&mut settings.token_type, text("token_type").map(LoginTokenType::of_word).transpose()?);
    replace(&mut settings.identity_token_key, text("identity_token_key").map(str::to_owned));
    replace(&mut settings.delegated_auth_accessors, list("delegated_auth_accessors"));
    if let Some((_, members)) = given(values).find(|(name, _)| *name == LOCKOUT) {
        let lockout = settings.user_lockout.unwrap_or_default().changed_by(members)?;
        settings.user_lockout = Some(lockout);
    }
    add_options(settings, values);
    instance_reuse::check(&settings.options)?;
    if subject.builtin.is_none() {
        grants::change(&mut settings.grants, values, subject.kind, subject.running)?;
    }
    Ok(warnings(values))
}

fn replace<T>(slot: &mut T, value: Option<T>) {
    if let Some(value) = value {
        *slot = value;
    }
}

fn lifetime(values: &Map<String, Value>, name: &str) -> Result<Option<u64>, Failure> {
    match values.get(name) {
        None => Ok(None),
        Some(Value::String(word)) if word.trim() == "system" => Ok(Some(0)),
        Some(value) => duration::seconds(value)
            .map(Some)
            .map_err(|why| Failure::invalid(format!("{name}: {why}, or \"system\""))),
    }
}

/// Adds to the present options: a client that sets a single option does not know the others.
fn add_options(settings: &mut MountSettings, values: &Map<String, Value>) {
    let options = values.get("options").and_then(Value::as_object).into_iter().flatten();
    for (name, value) in options {
        match value.as_str().unwrap_or_default() {
            "" => settings.options.remove(name),
            text => settings.options.insert(name.clone(), text.to_owned()),
        };
    }
}

fn check_tunable(values: &Map<String, Value>, subject: &TuneTarget<'_>) -> Result<(), Failure> {
    if let Some(builtin) = subject.builtin {
        let is_lifetime =
            |name: &str| builtin == BuiltinMount::Token && name.ends_with("_lease_ttl");
        let may = |name: &str| OF_BUILTINS.contains(&name) || is_lifetime(name);
        if let Some((name, _)) = given(values).find(|(name, _)| !may(name)) {
            let path = builtin.path();
            return Err(Failure::invalid(format!(
                "{name} cannot be tuned at {path}, which is part of the server"
            )));
        }
    }
    if subject.class == MountClass::Secret && given(values).any(|(name, _)| name == "token_type") {
        return Err(Failure::invalid(
            "token_type can be set at auth methods only: a secrets engine gives no tokens",
        ));
    }
    if subject.class == MountClass::Secret && given(values).any(|(name, _)| name == LOCKOUT) {
        return Err(Failure::invalid(
            "user_lockout_config can be set at auth methods only: nothing logs in to a secrets \
             engine",
        ));
    }
    Ok(())
}

/// Refuses a missing key. The unit remembers the key, so that the key does not go meanwhile.
///
/// # Errors
/// 400 with the name of the key.
pub(super) async fn check_identity_token_key(
    unit: &mut Unit,
    settings: &MountSettings,
) -> Result<(), Failure> {
    match settings.identity_token_key.as_str() {
        "" => Ok(()),
        name => oidc::check_named(unit, name).await.map_err(|failure| Failure {
            message: format!("identity_token_key: {}", failure.message),
            ..failure
        }),
    }
}

fn check_headers(names: &[String]) -> Result<(), Failure> {
    let carries_token =
        |name: &&String| TOKEN_HEADERS.contains(&name.to_ascii_lowercase().as_str());
    match names.iter().find(carries_token) {
        Some(name) => Err(Failure::invalid(format!(
            "passthrough_request_headers: no plugin ever sees {}, which can carry a token; remove \
             the header",
            quoted(name)
        ))),
        None => Ok(()),
    }
}

fn warnings(values: &Map<String, Value>) -> Vec<String> {
    let without = given(values)
        .filter_map(|(name, _)| WITHOUT_EFFECT.iter().find(|(setting, _)| *setting == name));
    without.map(|(name, why)| format!("{name} is stored and has no effect: {why}")).collect()
}

/// Returns the fields with a value that is not empty: clients also send unset fields as empty
/// values.
fn given(values: &Map<String, Value>) -> impl Iterator<Item = (&str, &Value)> {
    let is_empty = |value: &Value| match value {
        Value::Null | Value::Bool(false) => true,
        Value::String(text) => text.is_empty(),
        Value::Array(list) => list.is_empty(),
        Value::Object(map) => map.is_empty(),
        Value::Number(number) => number.as_f64() == Some(0.0),
        Value::Bool(true) => false,
    };
    let settings = values.iter().filter(|(name, _)| *name != "path");
    settings.filter(move |(_, value)| !is_empty(value)).map(|(name, value)| (name.as_str(), value))
}

#[cfg(test)]
mod tests;

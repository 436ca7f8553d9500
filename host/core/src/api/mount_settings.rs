//! The settings of a mount as clients send them: inside `config` when it is enabled, at the top
//! level when it is tuned.
//!
//! The attack this file stops: a restriction that is taken and not kept. What would widen access by
//! being ignored is refused; what has no effect yet is stored, with a warning that says so.

use super::mount_grants;
use super::row::field;
use crate::lifetimes::Lifetimes;
use crate::mounts::instance_reuse;
use crate::mounts::{Builtin, Class, Running, Settings, TokenType, Visibility};
use bulkhead_wire::description::{Field, FieldKind, Route, Verb};
use bulkhead_wire::duration;
use bulkhead_wire::failure::{Failure, quoted};
use bulkhead_wire::fields;
use serde_json::{Map, Value};

/// Headers that no component ever sees: each carries what opens a door.
const TOKEN_HEADERS: [&str; 6] = [
    "authorization",
    "cookie",
    "x-vault-token",
    "x-secrets-token",
    "x-scheduler-token",
    "x-nomad-token",
];

/// What is stored and does nothing, and why.
const WITHOUT_EFFECT: [(&str, &str); 5] = [
    ("force_no_cache", "nothing of a mount is cached outside of its storage"),
    ("passthrough_request_headers", "this version hands no header to a plugin"),
    ("allowed_response_headers", "this version takes no header from a plugin"),
    ("identity_token_key", "this version has no identity tokens"),
    ("delegated_auth_accessors", "no plugin of this version delegates its authentication"),
];

/// What can be tuned of a part of the server.
const OF_BUILTINS: [&str; 4] = [
    "description",
    "audit_non_hmac_request_keys",
    "audit_non_hmac_response_keys",
    "listing_visibility",
];

/// The fields of tuning, which are also the keys of `config`.
pub(super) fn fields() -> Vec<Field> {
    let lifetime = "a duration, or \"system\" for the system's";
    vec![
        field(
            "default_lease_ttl",
            FieldKind::Any,
            &format!("lifetime of what asks for none: {lifetime}"),
        ),
        field("max_lease_ttl", FieldKind::Any, &format!("longest lifetime: {lifetime}")),
        field("description", FieldKind::String, "one sentence for people"),
        field("options", FieldKind::Map, "texts for the plugin; an empty one removes its key"),
        field("force_no_cache", FieldKind::Bool, "stored, without effect"),
        field(
            "audit_non_hmac_request_keys",
            FieldKind::CommaList,
            "keys of requests that audit shows in the clear",
        ),
        field(
            "audit_non_hmac_response_keys",
            FieldKind::CommaList,
            "keys of responses that audit shows in the clear",
        ),
        field("listing_visibility", FieldKind::String, "\"unauth\" lists the mount to everybody"),
        field("passthrough_request_headers", FieldKind::CommaList, "stored, without effect yet"),
        field("allowed_response_headers", FieldKind::CommaList, "stored, without effect yet"),
        field(
            "token_type",
            FieldKind::String,
            "of auth methods: default-service, default-batch, service or batch",
        ),
        field("plugin_name", FieldKind::String, "the plugin, where the type is \"plugin\""),
        field("plugin_version", FieldKind::String, "empty, or the version that runs"),
        field("identity_token_key", FieldKind::String, "stored, without effect yet"),
        field("delegated_auth_accessors", FieldKind::CommaList, "stored, without effect yet"),
        field("user_lockout_config", FieldKind::Any, "refused: no auth method has a lock-out yet"),
        mount_grants::whole(),
    ]
}

/// The members of `config`, by the same fields, and a warning about those that nobody knows.
///
/// # Errors
/// 400 when it is no object, or a value does not fit.
pub(super) fn of_config(
    config: Option<&Value>,
) -> Result<(Map<String, Value>, Option<String>), Failure> {
    let config = match config {
        None | Some(Value::Null) => return Ok((Map::new(), None)),
        // A form, or a tool that writes every empty value as a text.
        Some(Value::String(text)) if text.is_empty() => return Ok((Map::new(), None)),
        Some(Value::Object(config)) => config,
        Some(_) => {
            return Err(Failure::invalid(
                "config must be an object, e.g. {\"max_lease_ttl\": \"24h\"}",
            ));
        }
    };
    let route = Route { fields: fields(), ..Route::new(Verb::Write, "config", "") };
    let folded = fields::fold(&route, config, &[])
        .map_err(|failure| Failure { message: format!("config.{}", failure.message), ..failure })?;
    let unknown: Vec<String> = folded.unknown.iter().map(|name| format!("config.{name}")).collect();
    let warning =
        format!("Endpoint ignored these unrecognized parameters: [{}]", unknown.join(" "));
    Ok((folded.values, (!unknown.is_empty()).then_some(warning)))
}

/// A mount whose settings are changed.
#[derive(Clone, Copy)]
pub(super) struct Subject<'a> {
    pub(super) class: Class,
    /// `None` for an engine or auth method.
    pub(super) builtin: Option<Builtin>,
    /// Its type.
    pub(super) kind: &'a str,
    pub(super) running: Running<'a>,
    pub(super) system: Lifetimes,
}

/// Changes what `values` names and keeps the rest (decision A6). Returns warnings.
///
/// # Errors
/// 400 that names the field; `settings` may be half-changed then.
pub(super) fn change(
    settings: &mut Settings,
    values: &Map<String, Value>,
    subject: &Subject<'_>,
) -> Result<Vec<String>, Failure> {
    check_tunable(values, subject)?;
    check_plugin(values, subject)?;
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
        text("listing_visibility").map(Visibility::of_word).transpose()?,
    );
    replace(&mut settings.passthrough_request_headers, list("passthrough_request_headers"));
    check_headers(&settings.passthrough_request_headers)?;
    replace(&mut settings.allowed_response_headers, list("allowed_response_headers"));
    replace(&mut settings.token_type, text("token_type").map(TokenType::of_word).transpose()?);
    replace(&mut settings.identity_token_key, text("identity_token_key").map(str::to_owned));
    replace(&mut settings.delegated_auth_accessors, list("delegated_auth_accessors"));
    add_options(settings, values);
    instance_reuse::check(&settings.options)?;
    let mut warnings = warnings(values);
    if subject.builtin.is_none() {
        warnings.extend(mount_grants::change(&mut settings.grants, values, subject)?);
    }
    Ok(warnings)
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

/// Adds to what is there: a client that sets one option does not know the others.
fn add_options(settings: &mut Settings, values: &Map<String, Value>) {
    let given = values.get("options").and_then(Value::as_object).into_iter().flatten();
    for (name, value) in given {
        match value.as_str().unwrap_or_default() {
            "" => settings.options.remove(name),
            text => settings.options.insert(name.clone(), text.to_owned()),
        };
    }
}

fn check_tunable(values: &Map<String, Value>, subject: &Subject<'_>) -> Result<(), Failure> {
    if let Some(builtin) = subject.builtin {
        let is_lifetime = |name: &str| builtin == Builtin::Token && name.ends_with("_lease_ttl");
        let may = |name: &str| OF_BUILTINS.contains(&name) || is_lifetime(name);
        if let Some((name, _)) = given(values).find(|(name, _)| !may(name)) {
            let path = builtin.path();
            return Err(Failure::invalid(format!(
                "{name} cannot be tuned at {path}, which is part of the server"
            )));
        }
    }
    if subject.class == Class::Secret && given(values).any(|(name, _)| name == "token_type") {
        return Err(Failure::invalid(
            "token_type can be set at auth methods only: a secrets engine gives no tokens",
        ));
    }
    if given(values).any(|(name, _)| name == "user_lockout_config") {
        let message = "user_lockout_config is not available: no auth method of this version locks users out; leave it out";
        return Err(Failure::invalid(message));
    }
    Ok(())
}

/// A mount runs the version that its plugin has, which is asked for by leaving it out.
fn check_plugin(values: &Map<String, Value>, subject: &Subject<'_>) -> Result<(), Failure> {
    let text = |name: &str| values.get(name).and_then(Value::as_str).unwrap_or_default();
    let (name, version, Subject { kind, running, .. }) =
        (text("plugin_name"), text("plugin_version"), subject);
    if !name.is_empty() && name != *kind {
        let name = quoted(name);
        return Err(Failure::invalid(format!(
            "plugin_name {name} is not the type of the mount, {kind}; leave it out"
        )));
    }
    if !version.is_empty() && version.trim_start_matches('v') != running.version {
        let (version, there_is) = (quoted(version), running.version);
        return Err(Failure::invalid(format!(
            "plugin_version {version} of {kind} is not in the catalog; there is {there_is}: give that, or leave it out"
        )));
    }
    Ok(())
}

fn check_headers(names: &[String]) -> Result<(), Failure> {
    let carries_token =
        |name: &&String| TOKEN_HEADERS.contains(&name.to_ascii_lowercase().as_str());
    match names.iter().find(carries_token) {
        Some(name) => Err(Failure::invalid(format!(
            "passthrough_request_headers: no plugin ever sees {}, which can carry a token; remove it",
            quoted(name)
        ))),
        None => Ok(()),
    }
}

fn warnings(values: &Map<String, Value>) -> Vec<String> {
    let without = given(values)
        .filter_map(|(name, _)| WITHOUT_EFFECT.iter().find(|(known, _)| *known == name));
    without.map(|(name, why)| format!("{name} is stored and has no effect: {why}")).collect()
}

/// The fields that say something: clients also write what they leave open, as empty texts.
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
mod tests {
    use super::*;
    use serde_json::json;

    const ENGINE: Subject<'_> = Subject {
        class: Class::Secret,
        builtin: None,
        kind: "database",
        running: Running { version: "1.2.3", digest: "", usual: &[], ceiling: None },
        system: Lifetimes { default: 100, max: 1_000 },
    };
    const TOKEN: Subject<'_> =
        Subject { class: Class::Auth, builtin: Some(Builtin::Token), kind: "token", ..ENGINE };
    const SYSTEM: Subject<'_> =
        Subject { builtin: Some(Builtin::System), kind: "system", ..ENGINE };

    fn changed(subject: &Subject<'_>, config: Value) -> Result<(Settings, Vec<String>), Failure> {
        let (values, _) = of_config(Some(&config))?;
        let mut settings = Settings::default();
        let warnings = change(&mut settings, &values, subject)?;
        Ok((settings, warnings))
    }

    fn refused(subject: &Subject<'_>, config: Value) -> String {
        changed(subject, config).unwrap_err().message
    }

    #[test]
    fn lifetimes_come_in_every_form_that_clients_use() {
        for (value, seconds) in [
            (json!("10m"), 600),
            (json!(600), 600),
            (json!("600"), 600),
            (json!("system"), 0),
            (json!(""), 0),
        ] {
            let (settings, _) = changed(&ENGINE, json!({ "max_lease_ttl": value })).unwrap();
            assert_eq!(settings.max_ttl, seconds, "{value}");
        }
        for (value, says) in
            [(json!(-1), "-1"), (json!("9999999999h"), "9999999999h"), (json!([1]), "a list")]
        {
            let why = refused(&ENGINE, json!({ "default_lease_ttl": value }));
            assert!(
                why.starts_with("default_lease_ttl: ")
                    && why.contains(says)
                    && why.contains("system"),
                "{why}"
            );
        }
        assert!(
            refused(&ENGINE, json!({ "default_lease_ttl": 1_001 })).contains("system's maximum")
        );
        assert!(
            changed(&ENGINE, json!({ "default_lease_ttl": 1_001, "max_lease_ttl": 2_000 })).is_ok()
        );
    }

    #[test]
    fn what_is_not_named_stays_and_options_are_added() {
        let (mut settings, _) =
            changed(&ENGINE, json!({ "options": {"a": 1, "b": "x"}, "max_lease_ttl": 9 })).unwrap();
        let (values, _) =
            of_config(Some(&json!({ "options": {"b": "", "c": true}, "description": "d" })))
                .unwrap();
        assert!(change(&mut settings, &values, &ENGINE).unwrap().is_empty());
        assert_eq!((settings.max_ttl, settings.description.as_str()), (9, "d"));
        assert_eq!(json!(settings.options), json!({"a": "1", "c": "true"}));
    }

    #[test]
    fn what_has_no_effect_is_stored_with_a_warning_and_empty_values_say_nothing() {
        let (settings, warnings) = changed(
            &ENGINE,
            json!({
                "passthrough_request_headers": "X-Trace, X-Team", "force_no_cache": true, "identity_token_key": "k",
                "allowed_response_headers": ["X-A"], "delegated_auth_accessors": ["auth_x_1"],
            }),
        )
        .unwrap();
        assert_eq!(settings.passthrough_request_headers, ["X-Trace", "X-Team"]);
        assert_eq!(warnings.len(), 5, "{warnings:?}");
        assert!(warnings.iter().all(|warning| warning.contains("has no effect")), "{warnings:?}");
        let empty = json!({
            "passthrough_request_headers": [], "force_no_cache": false, "token_type": "", "user_lockout_config": {},
            "plugin_version": "", "plugin_name": "", "default_lease_ttl": "", "options": null,
        });
        for subject in [&ENGINE, &TOKEN, &SYSTEM] {
            let (settings, warnings) = changed(subject, empty.clone()).unwrap();
            assert_eq!((settings, warnings), (Settings::default(), Vec::new()));
        }
    }

    #[test]
    fn what_would_widen_access_by_being_ignored_is_refused() {
        for name in ["Authorization", "X-Vault-Token", "cookie", "x-nomad-token"] {
            let why = refused(&ENGINE, json!({ "passthrough_request_headers": ["X-Ok", name] }));
            assert!(why.contains(name), "{why}");
        }
        let lockout = json!({ "user_lockout_config": {"lockout_threshold": 3} });
        assert!(refused(&ENGINE, lockout).contains("user_lockout_config"));
        assert!(refused(&ENGINE, json!({ "token_type": "batch" })).contains("auth methods only"));
        assert!(refused(&ENGINE, json!({ "listing_visibility": "all" })).contains("\"all\""));
    }

    #[test]
    fn a_mount_runs_the_version_there_is_and_its_own_plugin() {
        for version in ["1.2.3", "v1.2.3", ""] {
            assert!(
                changed(&ENGINE, json!({ "plugin_version": version, "plugin_name": "database" }))
                    .is_ok()
            );
        }
        assert!(refused(&ENGINE, json!({ "plugin_version": "v9" })).contains("there is 1.2.3"));
        assert!(refused(&ENGINE, json!({ "plugin_name": "kv" })).contains("\"kv\""));
    }

    #[test]
    fn parts_of_the_server_are_tuned_in_what_they_have() {
        let (settings, _) = changed(
            &TOKEN,
            json!({
                "default_lease_ttl": "5m", "max_lease_ttl": 900, "description": "d", "listing_visibility": "unauth",
                "audit_non_hmac_request_keys": "a,b", "audit_non_hmac_response_keys": ["c"],
            }),
        )
        .unwrap();
        assert_eq!((settings.default_ttl, settings.max_ttl), (300, 900));
        assert_eq!(settings.audit_non_hmac_request_keys, ["a", "b"]);
        assert_eq!(settings.listing_visibility, Visibility::Unauth);
        for (subject, config) in [
            (&SYSTEM, json!({ "max_lease_ttl": 9 })),
            (&TOKEN, json!({ "token_type": "batch" })),
            (&TOKEN, json!({ "options": {"a": "b"} })),
            (&SYSTEM, json!({ "grants": ["limit:log=1KiB"] })),
            (&SYSTEM, json!({ "passthrough_request_headers": "x" })),
        ] {
            let why = refused(subject, config);
            assert!(why.contains("part of the server"), "{why}");
        }
    }

    #[test]
    fn a_config_is_an_object_whose_unknown_members_are_told() {
        for nothing in
            [None, Some(json!(null)), Some(json!("")), Some(json!({ "max_lease_ttl": null }))]
        {
            assert_eq!(of_config(nothing.as_ref()).unwrap(), (Map::new(), None));
        }
        let (values, warning) =
            of_config(Some(&json!({ "zeta": 1, "alpha": null, "force_no_cache": "true" })))
                .unwrap();
        assert_eq!(Value::Object(values), json!({ "force_no_cache": true }));
        assert_eq!(
            warning.unwrap(),
            "Endpoint ignored these unrecognized parameters: [config.zeta]"
        );
        for wrong in [json!([1]), json!("x"), json!(7)] {
            assert!(
                of_config(Some(&wrong)).unwrap_err().message.contains("config must be an object")
            );
        }
        let why = of_config(Some(&json!({ "force_no_cache": "perhaps" }))).unwrap_err().message;
        assert!(why.starts_with("config.force_no_cache: \"perhaps\""), "{why}");
    }
}

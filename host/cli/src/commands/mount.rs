//! Common parts of `bulkhead secrets` and `bulkhead auth`: mounts at 2 paths of the API.

use crate::client::{Answer, Call};
use crate::commands::listing::{self, Column};
use crate::commands::paths::below;
use crate::option::Opt;
use crate::problem::Problem;
use crate::session::Session;
use crate::terminal::visible;
use hyper::Method;
use serde_json::{Map, Value, json};

/// The kind of a mount.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// A secrets engine, below `sys/mounts`.
    SecretsEngine,
    /// An auth method, below `sys/auth`.
    AuthMethod,
}

impl Kind {
    fn base(self) -> &'static str {
        match self {
            Self::SecretsEngine => "sys/mounts",
            Self::AuthMethod => "sys/auth",
        }
    }

    /// Returns the path of the mount's requests, which a move takes.
    fn full_path(self, path: &str) -> String {
        let path = path.trim_matches('/');
        match self {
            Self::AuthMethod if !path.starts_with("auth/") => format!("auth/{path}"),
            Self::AuthMethod | Self::SecretsEngine => path.to_owned(),
        }
    }

    fn noun(self) -> &'static str {
        match self {
            Self::SecretsEngine => "secrets engine",
            Self::AuthMethod => "auth method",
        }
    }
}

/// Options of `list`.
pub(super) const LISTED: [Opt; 1] =
    [Opt::switch("detailed", "also lifetimes, options, versions and digests")];

/// Options of `enable` only.
pub(super) const NEW: [Opt; 5] = [
    Opt::text("path", "PATH", "path of the mount; the type without this option"),
    Opt::switch("local", "stored and shown, without effect").fills("local"),
    Opt::switch("seal-wrap", "stored and shown, without effect").fills("seal_wrap"),
    Opt::switch("external-entropy-access", "stored and shown, without effect")
        .fills("external_entropy_access"),
    Opt::list(
        "grant",
        "LINE",
        "a grant to the plugin, such as limit:memory=64MiB; may be repeated",
    )
    .fills("grants"),
];

/// An option of `enable` for key-value engines.
pub(super) const VERSION: [Opt; 1] =
    [Opt::number("version", "version of the key-value API: 2 keeps versions of secrets")];

/// Options of `tune` only. They change the list of grants, so that an operator can add a grant
/// without knowing the others.
pub(super) const REGRANTED: [Opt; 2] = [
    Opt::list("grant", "LINE", "a grant to add, such as limit:memory=64MiB; may be repeated")
        .fills("add_grants"),
    Opt::list("revoke-grant", "LINE", "a grant to remove; may be repeated").fills("remove_grants"),
];

/// Options of `enable` and `tune` for the mount's own fields.
pub(super) const MOUNT: [Opt; 2] = [
    Opt::text("description", "TEXT", "a description").fills("description"),
    Opt::pairs("options", "an option of the plugin; may be repeated").fills("options"),
];

/// Options of `enable` and `tune` for the mount's configuration.
pub(super) const CONFIG: [Opt; 13] = [
    Opt::text(
        "default-lease-ttl",
        "TIME",
        "lifetime of leases whose role sets none: 3600, 1h, system",
    )
    .fills("default_lease_ttl"),
    Opt::text("max-lease-ttl", "TIME", "maximum lifetime of leases, with all renewals")
        .fills("max_lease_ttl"),
    Opt::text(
        "listing-visibility",
        "hidden|unauth",
        "unauth shows the mount to those without a token",
    )
    .fills("listing_visibility"),
    Opt::names(
        "audit-non-hmac-request-keys",
        "KEY",
        "logged in the clear where requests have it; several with commas, may be repeated",
    )
    .fills("audit_non_hmac_request_keys"),
    Opt::names(
        "audit-non-hmac-response-keys",
        "KEY",
        "logged in the clear where answers have it; several with commas, may be repeated",
    )
    .fills("audit_non_hmac_response_keys"),
    Opt::names(
        "passthrough-request-headers",
        "HEADER",
        "headers that the plugin gets, separated by commas",
    )
    .fills("passthrough_request_headers"),
    Opt::names(
        "allowed-response-headers",
        "HEADER",
        "headers that the plugin may set, separated by commas",
    )
    .fills("allowed_response_headers"),
    Opt::text("plugin-version", "VERSION", "the version of the plugin").fills("plugin_version"),
    Opt::switch("override-pinned-version", "use -plugin-version even if another version is pinned")
        .fills("override_pinned_version"),
    Opt::text(
        "plugin-rollback",
        "auto|off",
        "auto: go back to the last version if a new version crashes",
    )
    .fills("plugin_rollback"),
    Opt::text("plugin-probation", "TIME", "how long a new version is watched: 60s")
        .fills("plugin_probation"),
    Opt::text("identity-token-key", "KEY", "signs the identity tokens of the plugin")
        .fills("identity_token_key"),
    Opt::switch("force-no-cache", "stored and shown, without effect").fills("force_no_cache"),
];

/// An option of auth methods for their configuration.
pub(super) const TOKEN_TYPE: [Opt; 1] = [Opt::text(
    "token-type",
    "TYPE",
    "of the tokens that logins get: service, batch, default-service, default-batch",
)
.fills("token_type")];

const BRIEF: [Column; 3] = [
    Column { head: "Type", at: "/type" },
    Column { head: "Accessor", at: "/accessor" },
    Column { head: "Description", at: "/description" },
];

const DETAILED: [Column; 11] = [
    Column { head: "Type", at: "/type" },
    Column { head: "Accessor", at: "/accessor" },
    Column { head: "Default TTL", at: "/config/default_lease_ttl" },
    Column { head: "Max TTL", at: "/config/max_lease_ttl" },
    Column { head: "Token Type", at: "/config/token_type" },
    Column { head: "Options", at: "/options" },
    Column { head: "UUID", at: "/uuid" },
    Column { head: "Version", at: "/plugin_version" },
    Column { head: "Running Version", at: "/running_plugin_version" },
    Column { head: "Running SHA256", at: "/running_sha256" },
    Column { head: "Description", at: "/description" },
];

/// Runs `list`.
pub(super) fn list(session: &mut Session<'_, '_>, kind: Kind) -> Result<u8, Problem> {
    let [] = session.words()?;
    let noun = kind.noun();
    let answer =
        session.ask(&format!("listing every {noun}"), &Call::new(Method::GET, kind.base()))?;
    let columns = if session.options.switch("detailed") { &DETAILED[..] } else { &BRIEF };
    listing::show(session, &answer, columns, &format!("there is no {noun}"))
}

/// Runs `enable TYPE`.
pub(super) fn enable(session: &mut Session<'_, '_>, kind: Kind) -> Result<u8, Problem> {
    let [plugin] = session.words()?;
    let path = session.options.value("path").unwrap_or(&plugin).trim_matches('/').to_owned();
    let target = below(kind.base(), &path, "the mount")?;
    let mut body = session.options.fields(&[&NEW[..], &MOUNT].concat());
    body.insert("type".to_owned(), json!(plugin));
    if let Some(version) = session.options.number("version") {
        let options = body.entry("options").or_insert_with(|| json!({}));
        if let Some(options) = options.as_object_mut() {
            options.insert("version".to_owned(), json!(version.to_string()));
        }
    }
    let config = config_fields(session);
    if !config.is_empty() {
        body.insert("config".to_owned(), Value::Object(config));
    }
    let noun = kind.noun();
    let call = Call::new(Method::POST, target).with_fields(Value::Object(body));
    let answer = session.ask(&format!("enabling {noun} {plugin} at {path}/"), &call)?;
    session.show_or(&answer, &format!("enabled {noun} {plugin} at {path}/"))
}

/// Runs `tune PATH`.
pub(super) fn tune(session: &mut Session<'_, '_>, kind: Kind) -> Result<u8, Problem> {
    let [path] = session.words()?;
    let target = below(kind.base(), &path, "the mount")?;
    let mut body = session.options.fields(&[&MOUNT[..], &REGRANTED].concat());
    body.extend(config_fields(session));
    reset_what_is_empty(&mut body);
    if body.is_empty() {
        return Err(Problem::usage(
            "there is nothing to change; give an option, such as -max-lease-ttl=24h",
        ));
    }
    let noun = kind.noun();
    let call = Call::new(Method::POST, format!("{target}/tune")).with_fields(Value::Object(body));
    let answer = session.ask(&format!("tuning {noun} {path}"), &call)?;
    session.show_or(&answer, &format!("tuned {noun} {path}"))
}

/// Replaces empty values by the API's words for the default, because the server ignores an empty
/// text.
fn reset_what_is_empty(body: &mut Map<String, Value>) {
    let words = [
        ("default_lease_ttl", "system"),
        ("max_lease_ttl", "system"),
        ("token_type", "default-service"),
    ];
    for (name, word) in words {
        if let Some(value) = body.get_mut(name).filter(|value| value.as_str() == Some("")) {
            *value = word.into();
        }
    }
}

/// Runs `disable PATH`.
pub(super) fn disable(session: &mut Session<'_, '_>, kind: Kind) -> Result<u8, Problem> {
    let [path] = session.words()?;
    let noun = kind.noun();
    let call = Call::new(Method::DELETE, below(kind.base(), &path, "the mount")?);
    let answer = session.ask(&format!("disabling {noun} {path}"), &call)?;
    session.show_or(
        &answer,
        &format!(
            "disabled {noun} {path}, if it existed: its leases are revoked, its data are gone"
        ),
    )
}

/// Runs `move SOURCE TARGET` and waits for the end of the move.
pub(super) fn relocate(session: &mut Session<'_, '_>, kind: Kind) -> Result<u8, Problem> {
    let typed = session.words::<2>()?;
    if typed.iter().any(|path| path.trim_matches('/').is_empty()) {
        return Err(session.misuse());
    }
    let [from, to] = typed.map(|path| kind.full_path(&path));
    let doing = format!("moving {from}/ to {to}/");
    let call = Call::new(Method::POST, "sys/remount").with_fields(json!({"from": from, "to": to}));
    let started = session.ask(&doing, &call)?;
    let Some(id) = started.body.pointer("/data/migration_id").and_then(Value::as_str) else {
        return Err(Problem::refused(
            &doing,
            "the answer names no migration whose end could be awaited",
        ));
    };
    session.note(&format!("{doing}; should this end early: bulkhead read sys/remount/status/{id}"));
    let call = Call::new(Method::GET, format!("sys/remount/status/{id}"));
    let ended = session.ask_until(&doing, &call, |answer| status(answer) != "in-progress")?;
    match status(&ended) {
        "success" => session.show_part(
            &ended,
            &ended.body,
            &format!("{}\n", visible(&format!("moved {from}/ to {to}/"))),
        ),
        other => Err(Problem::refused(
            &doing,
            format!("it ended as {other:?}; the log of the server says why"),
        )),
    }
}

fn status(answer: &Answer) -> &str {
    answer.body.pointer("/data/migration_info/status").and_then(Value::as_str).unwrap_or_default()
}

fn config_fields(session: &Session<'_, '_>) -> Map<String, Value> {
    session.options.fields(&[&CONFIG[..], &TOKEN_TYPE].concat())
}

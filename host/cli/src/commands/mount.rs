//! Common parts of `bulkhead secrets` and `bulkhead auth`: mounts at 2 paths of the API.

use crate::client::{ServerAnswer, ServerRequest};
use crate::commands::listing::{self, TableColumn};
use crate::commands::paths::join_path;
use crate::option::CommandOption;
use crate::problem::CommandProblem;
use crate::session::Session;
use crate::terminal::escape_controls;
use hyper::Method;
use serde_json::{Map, Value, json};

/// The kind of a mount.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum MountKind {
    /// A secrets engine, below `sys/mounts`.
    SecretsEngine,
    /// An auth method, below `sys/auth`.
    AuthMethod,
}

impl MountKind {
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

/// Reason against a wrapped answer of `move`.
pub(super) const MOVE_IS_AWAITED: &str =
    "the command reads the answers to await the end of the move, and shows no secret";

/// Options of `list`.
pub(super) const LISTED: [CommandOption; 1] =
    [CommandOption::switch("detailed", "also lifetimes, options, versions and digests")];

/// Options of `enable` only.
pub(super) const NEW: [CommandOption; 5] = [
    CommandOption::text("path", "PATH", "path of the mount; the type without this option"),
    CommandOption::switch("local", "stored and shown, without effect").with_field("local"),
    CommandOption::switch("seal-wrap", "stored and shown, without effect").with_field("seal_wrap"),
    CommandOption::switch("external-entropy-access", "stored and shown, without effect")
        .with_field("external_entropy_access"),
    CommandOption::list(
        "grant",
        "LINE",
        "a grant to the plugin, such as limit:memory=64MiB; may be repeated",
    )
    .with_field("grants"),
];

/// An option of `enable` and `tune` for key-value engines.
pub(super) const VERSION: [CommandOption; 1] =
    [CommandOption::number("version", "version of the key-value API: 2 keeps versions of secrets")];

/// Options of `tune` only. They change the list of grants, so that an operator can add a grant
/// without knowing the others.
pub(super) const REGRANTED: [CommandOption; 2] = [
    CommandOption::list(
        "grant",
        "LINE",
        "a grant to add, such as limit:memory=64MiB; may be repeated",
    )
    .with_field("add_grants"),
    CommandOption::list("revoke-grant", "LINE", "a grant to remove; may be repeated")
        .with_field("remove_grants"),
];

/// Options of `enable` and `tune` for the mount's own fields.
pub(super) const MOUNT: [CommandOption; 2] = [
    CommandOption::text("description", "TEXT", "a description").with_field("description"),
    CommandOption::pairs("options", "an option of the plugin; may be repeated")
        .with_field("options"),
];

/// Options of `enable` and `tune` for the mount's configuration.
pub(super) const CONFIG: [CommandOption; 14] = [
    CommandOption::text(
        "default-lease-ttl",
        "TIME",
        "lifetime of leases if the role sets none: 3600, 1h, system",
    )
    .with_field("default_lease_ttl"),
    CommandOption::text("max-lease-ttl", "TIME", "maximum lifetime of leases, with all renewals")
        .with_field("max_lease_ttl"),
    CommandOption::text(
        "listing-visibility",
        "hidden|unauth",
        "unauth shows the mount to callers without a token",
    )
    .with_field("listing_visibility"),
    CommandOption::names(
        "audit-non-hmac-request-keys",
        "KEY",
        "logged in the clear in requests; several with commas, may be repeated",
    )
    .with_field("audit_non_hmac_request_keys"),
    CommandOption::names(
        "audit-non-hmac-response-keys",
        "KEY",
        "logged in the clear in answers; several with commas, may be repeated",
    )
    .with_field("audit_non_hmac_response_keys"),
    CommandOption::names(
        "passthrough-request-headers",
        "HEADER",
        "request headers for the plugin, separated by commas",
    )
    .with_field("passthrough_request_headers"),
    CommandOption::names(
        "allowed-response-headers",
        "HEADER",
        "allowed headers of the plugin's answers, separated by commas",
    )
    .with_field("allowed_response_headers"),
    CommandOption::text("plugin-version", "VERSION", "the version of the plugin")
        .with_field("plugin_version"),
    CommandOption::switch(
        "override-pinned-version",
        "use -plugin-version even if another version is pinned",
    )
    .with_field("override_pinned_version"),
    CommandOption::text(
        "plugin-rollback",
        "auto|off",
        "auto: go back to the last version if a new version crashes",
    )
    .with_field("plugin_rollback"),
    CommandOption::text("plugin-probation", "TIME", "how long a new version is watched: 60s")
        .with_field("plugin_probation"),
    CommandOption::text("identity-token-key", "KEY", "signs the identity tokens of the plugin")
        .with_field("identity_token_key"),
    CommandOption::names("delegated-auth-accessors", "ACCESSOR", "stored and shown")
        .with_field("delegated_auth_accessors"),
    CommandOption::switch("force-no-cache", "stored and shown, without effect")
        .with_field("force_no_cache"),
];

/// An option of auth methods for their configuration.
pub(super) const TOKEN_TYPE: [CommandOption; 1] = [CommandOption::text(
    "token-type",
    "TYPE",
    "type of the tokens of logins: service, batch, default-service, default-batch",
)
.with_field("token_type")];

/// Options of auth methods for names that are locked after failed logins.
pub(super) const LOCKOUT: [CommandOption; 4] = [
    CommandOption::number("user-lockout-threshold", "number of failed logins to lock a name")
        .with_field("lockout_threshold"),
    CommandOption::text("user-lockout-duration", "TIME", "how long a name is locked: 15m")
        .with_field("lockout_duration"),
    CommandOption::text(
        "user-lockout-counter-reset-duration",
        "TIME",
        "failed logins older than this do not count: 15m",
    )
    .with_field("lockout_counter_reset"),
    CommandOption::switch("user-lockout-disable", "lock no name").with_field("lockout_disable"),
];

const BRIEF: [TableColumn; 3] = [
    TableColumn { head: "Type", at: "/type" },
    TableColumn { head: "Accessor", at: "/accessor" },
    TableColumn { head: "Description", at: "/description" },
];

/// The last column of mounts that do not serve as usual.
const STATUS: TableColumn = TableColumn { head: "Status", at: "/status" };

/// The last columns of the detailed list if a mount does not serve as usual.
const DETAILED_STATUS: [TableColumn; 3] = [
    STATUS,
    TableColumn { head: "Since", at: "/status_since" },
    TableColumn { head: "Reason", at: "/status_reason" },
];

const DETAILED: [TableColumn; 11] = [
    TableColumn { head: "Type", at: "/type" },
    TableColumn { head: "Accessor", at: "/accessor" },
    TableColumn { head: "Default TTL", at: "/config/default_lease_ttl" },
    TableColumn { head: "Max TTL", at: "/config/max_lease_ttl" },
    TableColumn { head: "Token Type", at: "/config/token_type" },
    TableColumn { head: "Options", at: "/options" },
    TableColumn { head: "UUID", at: "/uuid" },
    TableColumn { head: "Version", at: "/plugin_version" },
    TableColumn { head: "Running Version", at: "/running_plugin_version" },
    TableColumn { head: "Running SHA256", at: "/running_sha256" },
    TableColumn { head: "Description", at: "/description" },
];

/// Runs `list`.
pub(super) fn list(session: &mut Session<'_, '_>, kind: MountKind) -> Result<u8, CommandProblem> {
    let [] = session.words()?;
    let noun = kind.noun();
    let answer = session
        .ask(&format!("listing every {noun}"), &ServerRequest::new(Method::GET, kind.base()))?;
    let (usual, status) = match session.options.switch("detailed") {
        true => (&DETAILED[..], &DETAILED_STATUS[..]),
        false => (&BRIEF[..], &[STATUS][..]),
    };
    let status = if all_serve(&answer) { &[] } else { status };
    let columns = [usual, status].concat();
    listing::show(session, &answer, &columns, &format!("there is no {noun}"))
}

/// Returns true if all mounts serve as usual. The table then has the columns of published clients,
/// which scripts know.
fn all_serve(answer: &ServerAnswer) -> bool {
    let data = answer.body.get("data").and_then(Value::as_object);
    let is_serving = |mount: &Value| {
        let status = mount.get("status").and_then(Value::as_str);
        status.is_none_or(|status| status == "serving")
    };
    data.into_iter().flatten().all(|(_, mount)| is_serving(mount))
}

/// Runs `enable TYPE`.
pub(super) fn enable(session: &mut Session<'_, '_>, kind: MountKind) -> Result<u8, CommandProblem> {
    let [plugin] = session.words()?;
    let path = session.options.value("path").unwrap_or(&plugin).trim_matches('/').to_owned();
    let target = join_path(kind.base(), &path, "the mount")?;
    let mut body = session.options.fields(&[&NEW[..], &MOUNT].concat());
    body.insert("type".to_owned(), json!(plugin));
    set_version(session, &mut body);
    let config = config_fields(session);
    if !config.is_empty() {
        body.insert("config".to_owned(), Value::Object(config));
    }
    let noun = kind.noun();
    let call = ServerRequest::new(Method::POST, target).with_fields(Value::Object(body));
    let answer = session.ask(&format!("enabling {noun} {plugin} at {path}/"), &call)?;
    session.show_or(&answer, &format!("enabled {noun} {plugin} at {path}/"))
}

/// Adds the version of the key-value API to the options of the plugin.
fn set_version(session: &Session<'_, '_>, body: &mut Map<String, Value>) {
    let Some(version) = session.options.number("version") else { return };
    let options = body.entry("options").or_insert_with(|| json!({}));
    if let Some(options) = options.as_object_mut() {
        options.insert("version".to_owned(), json!(version.to_string()));
    }
}

/// Runs `tune PATH`.
pub(super) fn tune(session: &mut Session<'_, '_>, kind: MountKind) -> Result<u8, CommandProblem> {
    let [path] = session.words()?;
    let target = join_path(kind.base(), &path, "the mount")?;
    let mut body = session.options.fields(&[&MOUNT[..], &REGRANTED].concat());
    set_version(session, &mut body);
    body.extend(config_fields(session));
    reset_what_is_empty(&mut body);
    if body.is_empty() {
        return Err(CommandProblem::usage(
            "there is nothing to change; give an option, such as -max-lease-ttl=24h",
        ));
    }
    let noun = kind.noun();
    let call =
        ServerRequest::new(Method::POST, format!("{target}/tune")).with_fields(Value::Object(body));
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
pub(super) fn disable(
    session: &mut Session<'_, '_>,
    kind: MountKind,
) -> Result<u8, CommandProblem> {
    let [path] = session.words()?;
    let noun = kind.noun();
    let place = join_path(kind.base(), &path, "the mount")?;
    let doing = format!("disabling {noun} {path}");
    if session.is_interactive() && !agrees_to_loss(session, &place, &doing)? {
        return Err(CommandProblem::refused(&doing, "nothing was changed"));
    }
    let answer = session.ask(&doing, &ServerRequest::new(Method::DELETE, place))?;
    session.show_or(
        &answer,
        &format!(
            "disabled {noun} {path}, if present: the mount's leases are revoked, the mount's \
             data are gone"
        ),
    )
}

/// Asks the person at the terminal if the mount alone knows secrets of targets. A server that does
/// not show the mount tells of the secrets after the removal, as warnings.
fn agrees_to_loss(
    session: &mut Session<'_, '_>,
    place: &str,
    doing: &str,
) -> Result<bool, CommandProblem> {
    let Ok(Some(shown)) = session.find_before(doing, &ServerRequest::new(Method::GET, place))
    else {
        return Ok(true);
    };
    let only_copies = shown.body.pointer("/data/only_copies").and_then(Value::as_array);
    let secrets: Vec<String> =
        only_copies.into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect();
    if secrets.is_empty() {
        return Ok(true);
    }
    for secret in secrets {
        session.note(&format!("only this mount knows {secret}, which will be lost"));
    }
    session.agrees("Type yes to disable the mount nevertheless")
}

/// Runs `move SOURCE TARGET` and waits for the end of the move.
pub(super) fn relocate(
    session: &mut Session<'_, '_>,
    kind: MountKind,
) -> Result<u8, CommandProblem> {
    let typed = session.words::<2>()?;
    if typed.iter().any(|path| path.trim_matches('/').is_empty()) {
        return Err(session.usage_problem());
    }
    let [from, to] = typed.map(|path| kind.full_path(&path));
    let doing = format!("moving {from}/ to {to}/");
    let call = ServerRequest::new(Method::POST, "sys/remount")
        .with_fields(json!({"from": from, "to": to}));
    let started = session.ask(&doing, &call)?;
    let Some(id) = started.body.pointer("/data/migration_id").and_then(Value::as_str) else {
        return Err(CommandProblem::refused(&doing, "the answer names no migration to wait for"));
    };
    session.note(&format!("{doing}; should this end early: bulkhead read sys/remount/status/{id}"));
    let call = ServerRequest::new(Method::GET, format!("sys/remount/status/{id}"));
    let ended = session.ask_until(&doing, &call, |answer| status(answer) != "in-progress")?;
    match status(&ended) {
        "success" => session.show_part(
            &ended,
            &ended.body,
            &format!("{}\n", escape_controls(&format!("moved {from}/ to {to}/"))),
        ),
        other => Err(CommandProblem::refused(
            &doing,
            format!("the move ended as {other:?}; the log of the server says why"),
        )),
    }
}

fn status(answer: &ServerAnswer) -> &str {
    answer.body.pointer("/data/migration_info/status").and_then(Value::as_str).unwrap_or_default()
}

fn config_fields(session: &Session<'_, '_>) -> Map<String, Value> {
    let mut fields = session.options.fields(&[&CONFIG[..], &TOKEN_TYPE].concat());
    let lockout = session.options.fields(&LOCKOUT);
    if !lockout.is_empty() {
        fields.insert("user_lockout_config".to_owned(), Value::Object(lockout));
    }
    fields
}

//! `config/{name}`: connections. The connection's plugin tests a write before anything is stored. A
//! read shows no secret.

mod destination;
mod removal;

use crate::connection::{Connection, PASSWORD, about};
use crate::kept_password::{self, KeptPassword};
use crate::redaction::{SECRET_SETTINGS, without_secrets};
use crate::root_rotation;
use crate::statements;
use crate::target;
use crate::version::is_version;
use bulkhead_sdk::rotation::{self, RotationBounds};
use bulkhead_sdk::table::Field;
use bulkhead_sdk::trusted_certificates;
use bulkhead_sdk::wire::description::DatabaseDescription;
use bulkhead_sdk::wire::duration::show;
use bulkhead_sdk::wire::failure::quoted;
use bulkhead_sdk::{Answer, Call, Failure, FailureKind, Host};
pub(crate) use removal::{FIELDS as REMOVAL_FIELDS, delete};
use serde_json::{Map, Value, json};

/// Fields of the engine. Every other field of a write is a setting of the database plugin.
pub(crate) const FIELDS: &[Field] = &[
    Field::text("plugin_name", "the database plugin to use, such as postgresql-database-plugin")
        .required(),
    Field::text(
        "plugin_version",
        "a semantic version of the plugin; empty for the pinned or newest version",
    )
    .needs_sudo(),
    Field::flag(
        "override_pinned_version",
        "whether plugin_version counts although another version is pinned",
    )
    .needs_sudo(),
    Field::flag("verify_connection", "check the login before the connection is stored")
        .or_flag(true),
    Field::words(
        "allowed_roles",
        "roles allowed to use the connection; * admits any, none is the default",
    ),
    Field::texts(
        "root_rotation_statements",
        "statements to change the password of the connection's own user",
    ),
    Field::text("password_policy", "the policy for passwords of this connection's users"),
    Field::flag("skip_static_role_import_rotation", "do not change passwords of imported accounts"),
    Field::flag(
        "force",
        "replace the password made by a rotation, although the given password does not log in",
    ),
];

/// Fields of the rotation schedule of the connection's own user.
pub(crate) const ROTATION_FIELDS: &[Field] = rotation::CONFIG_FIELDS;

/// Creates or changes a connection.
pub(crate) fn write(host: &dyn Host, call: &Call) -> Result<Answer, Failure> {
    let name = call.text("name");
    let settings = settings_given(call);
    check_certificates(host, &settings)?;
    let found = Connection::find(host, name)?;
    let is_new = found.is_none();
    let before = found.unwrap_or_default();
    let mut connection = apply_changes(host, call, before.clone(), &settings)?;
    if connection.times.due.is_some() {
        connection.check_rotatable(name)?;
    }
    let keeps_version = !is_new && !connection.chooses_otherwise(&before);
    let plugin = connection.choose_version(host, name, keeps_version)?;
    // The targets are unknown for now. The first check keeps stored credentials from another
    // plugin: `configure` hands the settings to the plugin.
    connection.targets = None;
    destination::check(call, &before, &connection, &plugin)?;
    let configured =
        host.databases().configure(&connection.for_host(name)).map_err(|why| about(name, why))?;
    connection.settings = configured.settings;
    connection.targets = Some(configured.targets.clone());
    // `configure` dialled nothing, but `verify` below dials the targets.
    destination::check(call, &before, &connection, &plugin)?;
    let lost_window = connection.rotation.lost_window(&before.rotation);
    statements::check_root(host, name, &connection)?;
    let replacement = kept_password::check_replacement(host, call, name, (&before, &connection))?;
    let lacking = if connection.is_verified() {
        host.databases().verify(&connection.for_host(name)).map_err(|why| about(name, why))?
    } else {
        Vec::new()
    };
    connection.store(host, name)?;
    if !matches!(replacement, KeptPassword::ForLaterWrites(_)) {
        root_rotation::try_kept(host, name, &connection)?;
    }

    let before = before.targets.unwrap_or_default();
    let stranded = target::warning(host, name, &before, &configured.targets)?;
    let codes = configured.warnings.iter().chain(&lacking);
    let sentences = codes.map(|code| sentence(&plugin, code, name));
    let mut warnings: Vec<String> = replacement
        .warning()
        .into_iter()
        .chain(stranded)
        .chain(sentences)
        .chain(lost_window)
        .collect();
    warnings.extend(unknown_settings(&plugin, &settings));
    if connection.allowed_roles.is_empty() {
        let name = quoted(name);
        warnings.push(format!(
            "no role may use connection {name}: name roles in allowed_roles, or \"*\" for all"
        ));
    }
    Ok(Answer::nothing().warn(warnings))
}

/// Shows a connection without its secrets.
pub(crate) fn read(host: &dyn Host, call: &Call) -> Result<Answer, Failure> {
    let name = call.text("name");
    let connection = Connection::find(host, name)?.ok_or_else(Failure::absent)?;
    // Only the plugin knows which settings are secret. Without the plugin, none is shown.
    let (details, running, warning) = match host.databases().running(&connection.for_host(name)) {
        Ok(found) => (details(&connection, &found.description), found.version, None),
        Err(why) if why.kind == FailureKind::NotFound => (
            Map::new(),
            String::new(),
            Some(format!("connection_details are left out: {}", why.message)),
        ),
        Err(why) => return Err(why),
    };
    let mut shown = connection.rotation.show();
    let more = json!({
        "plugin_name": connection.plugin_name,
        "plugin_version": connection.plugin_version,
        "override_pinned_version": connection.override_pinned_version,
        "running_plugin_version": running,
        "connection_details": details,
        "allowed_roles": connection.allowed_roles,
        "root_credentials_rotate_statements": connection.root_rotation_statements,
        "password_policy": connection.password_policy,
        "verify_connection": connection.verify_connection,
        "skip_static_role_import_rotation": connection.skip_static_role_import_rotation,
    });
    shown.extend(more.as_object().cloned().unwrap_or_default());
    Ok(Answer::data(&shown)?.warn(warning).warn(silence(host, name)?))
}

/// Returns a warning if the connection's database does not answer, with the number of leases that
/// wait.
fn silence(host: &dyn Host, name: &str) -> Result<Option<String>, Failure> {
    let Some(rest) = host.clock().rest(name)? else { return Ok(None) };
    let (waiting, next) = (host.leases().count(name)?, show(rest.div_ceil(1_000)));
    Ok(Some(format!(
        "the database of connection {} does not answer; the next attempt is in {next}, and waiting \
         work (live leases: {waiting}) continues once the database answers",
        quoted(name)
    )))
}

/// Returns the connection with the changes of the call.
fn apply_changes(
    host: &dyn Host,
    call: &Call,
    mut connection: Connection,
    settings: &Map<String, Value>,
) -> Result<Connection, Failure> {
    call.merge("plugin_name", &mut connection.plugin_name)?;
    call.merge("plugin_version", &mut connection.plugin_version)?;
    call.merge("override_pinned_version", &mut connection.override_pinned_version)?;
    if connection.plugin_version.is_empty() && !call.is_given("override_pinned_version") {
        // The operator gives the choice back to the server.
        connection.override_pinned_version = false;
    }
    call.merge("verify_connection", &mut connection.verify_connection)?;
    call.merge("allowed_roles", &mut connection.allowed_roles)?;
    call.merge("root_rotation_statements", &mut connection.root_rotation_statements)?;
    call.merge("password_policy", &mut connection.password_policy)?;
    call.merge(
        "skip_static_role_import_rotation",
        &mut connection.skip_static_role_import_rotation,
    )?;
    if connection.rotation.merge(call, RotationBounds::CONFIG)? {
        connection.times = connection.rotation.changed_at(&connection.times, host.clock().now())?;
    }
    if settings.contains_key(PASSWORD) {
        connection.has_own_password = false;
    }
    connection.has_forced_password = call.flag("force");
    connection.settings.extend(settings.clone());
    connection.begin_generation(host);
    if connection.plugin_name.is_empty() {
        return Err(Failure::invalid(
            "plugin_name is required: name the database plugin of the connection",
        ));
    }
    if !connection.plugin_version.is_empty() && !is_version(&connection.plugin_version) {
        let version = quoted(&connection.plugin_version);
        return Err(Failure::invalid(format!(
            "plugin_version {version} is not a semantic version, such as 1.2.3"
        )));
    }
    Ok(connection)
}

/// Refuses certificates that have ended, in whatever setting the plugin has for certificates.
fn check_certificates(host: &dyn Host, settings: &Map<String, Value>) -> Result<(), Failure> {
    let texts = settings.iter().filter_map(|(name, value)| Some((name, value.as_str()?)));
    for (name, text) in texts.filter(|(_, text)| trusted_certificates::is_certificate(text)) {
        trusted_certificates::check(host, name, text)?;
    }
    Ok(())
}

fn settings_given(call: &Call) -> Map<String, Value> {
    let mut settings = call.undeclared_fields(FIELDS);
    settings.remove("name");
    settings.retain(|name, _| ROTATION_FIELDS.iter().all(|field| field.name() != name));
    settings
}

fn details(connection: &Connection, plugin: &DatabaseDescription) -> Map<String, Value> {
    let always: Vec<&str> = SECRET_SETTINGS.iter().map(Field::name).collect();
    without_secrets(&connection.settings, &plugin.settings, &always)
}

/// Returns the sentence for a warning code. A code without a sentence is a mistake of the plugin;
/// the caller then gets the bare code.
fn sentence(plugin: &DatabaseDescription, code: &str, connection: &str) -> String {
    let sentence = plugin.warnings.get(code).map_or(code, String::as_str);
    sentence.replace("{connection}", &quoted(connection))
}

/// Returns a warning about settings that the plugin does not know. Any name is accepted as a
/// setting, so a mistyped name would otherwise be ignored silently.
fn unknown_settings(plugin: &DatabaseDescription, settings: &Map<String, Value>) -> Option<String> {
    let is_known = |name: &str| {
        plugin
            .settings
            .iter()
            .any(|field| field.name == name || field.aliases.iter().any(|alias| alias == name))
    };
    let unknown: Vec<String> =
        settings.keys().filter(|name| !is_known(name)).map(|name| quoted(name)).collect();
    let (names, plugin) = (unknown.join(", "), quoted(&plugin.name));
    (!unknown.is_empty()).then(|| {
        format!("kept, although plugin {plugin} knows no setting {names}; check the spelling")
    })
}

#[cfg(test)]
mod tests;

//! A stored connection: the database plugin, the plugin's settings, and the roles that may use the
//! connection.

use bulkhead_sdk::host::{DatabaseConnection as HostConnection, VersionChoice};
use bulkhead_sdk::only_copy;
use bulkhead_sdk::rotation::{RotationSettings, RotationTimes};
use bulkhead_sdk::wire::description::DatabaseDescription;
use bulkhead_sdk::wire::failure::quoted;
use bulkhead_sdk::wire::glob;
use bulkhead_sdk::{Failure, FailureKind, Host, stored};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// Prefix of the keys of rotation timers.
const TIMER: &str = "rotate-root/";

/// The setting that holds the password of the connection's own user.
pub(crate) const PASSWORD: &str = "password";

/// A connection. No `Debug`: the settings hold the password.
#[derive(Clone, Default, Serialize, Deserialize)]
pub(crate) struct Connection {
    pub(crate) plugin_name: String,
    /// The version as the operator wrote the version. Empty: the operator left the choice to the
    /// server.
    pub(crate) plugin_version: String,
    /// `plugin_version` counts although another version is pinned.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) override_pinned_version: bool,
    /// The settings as returned by the plugin's `configure`.
    pub(crate) settings: Map<String, Value>,
    pub(crate) allowed_roles: Vec<String>,
    pub(crate) verify_connection: bool,
    pub(crate) root_rotation_statements: Vec<String>,
    pub(crate) password_policy: String,
    pub(crate) skip_static_role_import_rotation: bool,
    /// The rotation schedule of the connection's own user.
    #[serde(flatten)]
    pub(crate) rotation: RotationSettings,
    #[serde(flatten)]
    pub(crate) times: RotationTimes,
    /// The servers that the plugin dials for the connection. `None`: an earlier release stored the
    /// connection and did not ask for the servers.
    #[serde(default)]
    pub(crate) targets: Option<Vec<String>>,
    /// Only the engine knows the password of the connection's own user, because a rotation
    /// generated the password.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) has_own_password: bool,
    /// The last write gave its password with `force`: no kept password replaces it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) has_forced_password: bool,
    /// A number that grows with every change, even if the connection is removed and created again
    /// under the same name.
    pub(crate) generation: u64,
}

stored!(Connection, "connection", reads_stored_connections);

impl Connection {
    /// Returns the storage key of the connection `name`.
    pub(crate) fn key(name: &str) -> String {
        format!("config/{name}")
    }

    /// Returns the connection `name`, if the connection exists. Allows as many parallel revocations
    /// and rotations as the connection may have sessions.
    pub(crate) fn find(host: &dyn Host, name: &str) -> Result<Option<Self>, Failure> {
        let found: Option<Self> = host.storage().get(&Self::key(name))?;
        if let Some(sessions) = found.as_ref().and_then(Self::sessions) {
            host.clock().widen(name, sessions)?;
        }
        Ok(found)
    }

    /// Returns the maximum number of sessions in the settings. A negative number means no limit.
    fn sessions(&self) -> Option<u32> {
        let sessions: Option<i64> = match self.settings.get("max_open_connections")? {
            Value::Number(number) => number.as_i64().or(number.is_u64().then_some(i64::MAX)),
            Value::String(text) => text.trim().parse().ok(),
            _ => None,
        };
        let few = |sessions: i64| u32::try_from(sessions).unwrap_or(u32::MAX);
        sessions.filter(|sessions| *sessions != 0).map(few)
    }

    /// Stores the connection and schedules the next rotation of the connection's own user.
    pub(crate) fn store(&self, host: &dyn Host, name: &str) -> Result<(), Failure> {
        host.storage().put(&Self::key(name), self)?;
        only_copy::set_note(host, &Self::key(name), self.only_copy(name))?;
        match self.times.due {
            Some(due) => host.clock().schedule(&timer(name), due, name),
            None => host.clock().cancel(&timer(name)),
        }
    }

    pub(crate) fn remove(host: &dyn Host, name: &str) -> Result<(), Failure> {
        host.storage().delete(&Self::key(name))?;
        only_copy::set_note(host, &Self::key(name), None)?;
        host.clock().cancel(&timer(name))
    }

    /// Describes the password of the connection's own user if only the engine knows the password.
    fn only_copy(&self, name: &str) -> Option<String> {
        self.has_own_password.then(|| {
            let user = quoted(self.setting("username"));
            format!("the password of user {user} of connection {}", quoted(name))
        })
    }

    /// Begins a new generation of the connection, with new sessions. The number is at least the
    /// store time. Therefore a connection that is removed and written again never reuses the
    /// sessions of the removed connection.
    pub(crate) fn begin_generation(&mut self, host: &dyn Host) {
        self.generation = self.generation.saturating_add(1).max(host.clock().now());
    }

    /// Refuses to rotate the password of the connection's own user if the engine does not store the
    /// password, or if a new password would not reach the database.
    ///
    /// # Errors
    /// Invalid request that names the setting.
    pub(crate) fn check_rotatable(&self, name: &str) -> Result<(), Failure> {
        let refused = |why: &str| {
            let name = quoted(name);
            Err(Failure::invalid(format!(
                "unable to rotate root credentials of connection {name}: {why}"
            )))
        };
        if self.is_self_managed() {
            return refused("a self_managed connection has no user");
        }
        if self.setting("username").is_empty() {
            return refused(
                "no username in configuration; give username in addition to connection_url",
            );
        }
        if self.setting(PASSWORD).is_empty() {
            return refused(
                "no password in configuration; give password in addition to connection_url",
            );
        }
        let url = self.setting("connection_url");
        if !url.is_empty() && !url.contains("{{password}}") {
            return refused(
                "connection_url must template {{password}}, or the new password would not reach \
                 the connection",
            );
        }
        Ok(())
    }

    /// Returns the connection in the form that each call of the host needs.
    pub(crate) fn for_host(&self, name: &str) -> HostConnection {
        HostConnection {
            plugin: self.plugin_name.clone(),
            version: self.version_number().to_owned(),
            name: name.to_owned(),
            generation: self.generation,
            settings: self.settings.clone(),
        }
    }

    /// Returns true if the choice of the version differs from the choice of `before`. A write that
    /// repeats the choice must not exchange the version, and a pin waits for a reload (decision
    /// H75).
    pub(crate) fn chooses_otherwise(&self, before: &Self) -> bool {
        let choice = |one: &Self| {
            let version = one.version_number().to_owned();
            (one.plugin_name.clone(), version, one.override_pinned_version)
        };
        choice(self) != choice(before)
    }

    /// Returns `plugin_version` without a leading `v`.
    fn version_number(&self) -> &str {
        self.plugin_version.strip_prefix('v').unwrap_or(&self.plugin_version)
    }

    /// Returns the description of the plugin that serves the connection.
    ///
    /// # Errors
    /// Invalid request if the catalog has no such plugin, because the caller named the plugin.
    pub(crate) fn plugin(
        &self,
        host: &dyn Host,
        name: &str,
    ) -> Result<DatabaseDescription, Failure> {
        let resolved = host.databases().running(&self.for_host(name));
        resolved.map(|resolved| resolved.description).map_err(|why| about(name, why))
    }

    /// Lets the host choose the version that serves the connection, or record the version that
    /// serves the connection already. Returns the description of that version.
    ///
    /// # Errors
    /// Invalid request if the catalog has no such plugin or version, or if another version is
    /// pinned.
    pub(crate) fn choose_version(
        &mut self,
        host: &dyn Host,
        name: &str,
        keeps: bool,
    ) -> Result<DatabaseDescription, Failure> {
        let choice = VersionChoice {
            plugin: &self.plugin_name,
            version: self.version_number(),
            overrides_pin: self.override_pinned_version,
            keeps,
        };
        let chosen = host.databases().choose(name, choice).map_err(|why| about(name, why))?;
        if chosen.is_built_in {
            // The version changes with the server, and the next server would not have this one.
            (self.plugin_version, self.override_pinned_version) = (String::new(), false);
        }
        Ok(chosen.description)
    }

    /// Lets the host choose the version again, by the stored choice. Returns a warning if no
    /// version can be chosen; the connection then keeps its version.
    pub(crate) fn choose_again(&self, host: &dyn Host, name: &str) -> Option<String> {
        let failure = self.clone().choose_version(host, name, false).err();
        failure.map(|why| format!("{}; the version stays", why.message))
    }

    /// Returns the servers that hold the users of the connection.
    ///
    /// # Errors
    /// Errors of the plugin or the catalog, for a connection that an earlier release stored.
    pub(crate) fn targets(&self, host: &dyn Host, name: &str) -> Result<Vec<String>, Failure> {
        match &self.targets {
            Some(targets) => Ok(targets.clone()),
            None => Ok(host.databases().configure(&self.for_host(name))?.targets),
        }
    }

    /// Returns the connection `name`, which a caller of the mount `mount` named.
    ///
    /// # Errors
    /// Invalid request if the connection does not exist.
    pub(crate) fn named(host: &dyn Host, name: &str, mount: &str) -> Result<Self, Failure> {
        let shown = quoted(name);
        Self::find(host, name)?.ok_or_else(|| {
            Failure::invalid(format!(
                "there is no connection {shown}; write {mount}config/{name} first"
            ))
        })
    }

    /// Returns the connection `name`, for the role `role` of the mount `mount`.
    ///
    /// # Errors
    /// Invalid request if the connection does not exist, because the role names the connection.
    /// Permission denied if the connection does not admit the role.
    pub(crate) fn admitting(
        host: &dyn Host,
        name: &str,
        role: &str,
        mount: &str,
    ) -> Result<Self, Failure> {
        let connection = Self::find(host, name)?.ok_or_else(|| missing(name, role, mount))?;
        admit(&connection.allowed_roles, name, role)?;
        Ok(connection)
    }

    /// Returns `true` if each account changes its own credential, and no user changes the
    /// credentials of other accounts.
    pub(crate) fn is_self_managed(&self) -> bool {
        match self.settings.get("self_managed") {
            Some(Value::Bool(flag)) => *flag,
            Some(Value::String(text)) => matches!(text.as_str(), "true" | "t" | "1" | "True"),
            _ => false,
        }
    }

    /// Returns `true` if the engine logs in to the database before the connection is stored and
    /// after the connection is reset. A self-managed connection has no user for such a login.
    pub(crate) fn is_verified(&self) -> bool {
        self.verify_connection && !self.is_self_managed()
    }

    /// Returns a setting that is a text; empty if the setting is absent.
    pub(crate) fn setting(&self, name: &str) -> &str {
        self.settings.get(name).and_then(Value::as_str).unwrap_or_default()
    }
}

/// The part of a stored connection that names the roles that may use the connection.
#[derive(Deserialize)]
struct AllowedRoles {
    allowed_roles: Vec<String>,
}

/// Checks that the role `role` of the mount `mount` may use the connection `name`, without reading
/// the rest of the connection.
///
/// # Errors
/// As [`Connection::admitting`].
pub(crate) fn check_admission(
    host: &dyn Host,
    name: &str,
    role: &str,
    mount: &str,
) -> Result<(), Failure> {
    let found = host.storage().part::<Connection, AllowedRoles>(&Connection::key(name))?;
    let admission = found.ok_or_else(|| missing(name, role, mount))?;
    admit(&admission.allowed_roles, name, role)
}

/// Refuses a role that may not use the connection `name`. Callers check each use, and never the
/// write of a role (decision C7).
fn admit(allowed_roles: &[String], name: &str, role: &str) -> Result<(), Failure> {
    if allowed_roles.iter().any(|pattern| glob::matches(pattern, role)) {
        return Ok(());
    }
    Err(Failure::denied(format!(
        "role {} may not use connection {}; add the role to the connection's allowed_roles",
        quoted(role),
        quoted(name)
    )))
}

fn missing(name: &str, role: &str, mount: &str) -> Failure {
    let (role, shown) = (quoted(role), quoted(name));
    Failure::invalid(format!(
        "role {role} needs connection {shown}, which does not exist; write {mount}config/{name} \
         first"
    ))
}

/// Returns the connection that belongs to `timer`.
pub(crate) fn name_of(timer: &str) -> Option<&str> {
    timer.strip_prefix(TIMER)
}

pub(crate) fn timer(name: &str) -> String {
    format!("{TIMER}{name}")
}

/// Adds the name of the connection to an error of the plugin or database. Turns "not found" from
/// the catalog into an invalid request: the connection is wrong, not the URL.
pub(crate) fn about(name: &str, why: Failure) -> Failure {
    let kind =
        if why.kind == FailureKind::NotFound { FailureKind::InvalidRequest } else { why.kind };
    let named = quoted(name);
    let message = if why.message.contains(&named) {
        why.message
    } else {
        format!("connection {named}: {}", why.message)
    };
    Failure { kind, message, ..why }
}

#[cfg(test)]
mod tests {
    use super::{Connection, about, admit};
    use bulkhead_sdk::{Failure, FailureKind};

    fn admits(patterns: &[&str], role: &str) -> bool {
        let allowed_roles: Vec<String> = patterns.iter().map(|one| (*one).to_owned()).collect();
        admit(&allowed_roles, "orders", role).is_ok()
    }

    #[test]
    fn empty_list_admits_nobody_and_star_everybody() {
        assert!(!admits(&[], "reader"));
        assert!(admits(&["*"], "reader"));
        assert!(admits(&["writer", "read*"], "reader"));
        assert!(!admits(&["read"], "reader"));
        assert!(!admits(&["READER"], "reader"));
    }

    #[test]
    fn a_failure_names_the_connection_once() {
        let plain =
            about("orders", Failure::new(FailureKind::Unreachable, "no answer from db:5432"));
        assert_eq!(plain.message, "connection \"orders\": no answer from db:5432");
        assert_eq!(plain.kind, FailureKind::Unreachable);
        let named =
            about("orders", Failure::invalid("check the password of connection \"orders\""));
        assert_eq!(named.message, "check the password of connection \"orders\"");
    }

    #[test]
    fn plugin_missing_from_catalog_is_caller_error() {
        let failure =
            about("orders", Failure::new(FailureKind::NotFound, "there is no plugin \"x\""));
        assert_eq!(failure.kind, FailureKind::InvalidRequest);
    }

    #[test]
    fn catalog_request_omits_version_letter() {
        let connection =
            Connection { plugin_version: "v1.2.3".to_owned(), ..Connection::default() };
        assert_eq!(connection.for_host("orders").version, "1.2.3");
    }
}

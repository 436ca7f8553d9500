//! A connection as it is stored: which database plugin, with which settings, for which roles.

use bulkhead_sdk::host::Connection as HostConnection;
use bulkhead_sdk::rotation::{Settings, Times};
use bulkhead_sdk::wire::description::DatabaseDescription;
use bulkhead_sdk::wire::failure::quoted;
use bulkhead_sdk::wire::glob;
use bulkhead_sdk::{Failure, Host, Kind, stored};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// What the keys of the timers of rotations begin with.
const TIMER: &str = "rotate-root/";

/// A connection. No `Debug`: its settings hold the password.
#[derive(Clone, Default, Serialize, Deserialize)]
pub(crate) struct Connection {
    pub(crate) plugin_name: String,
    /// As it was written; empty for the version that the catalog chooses.
    pub(crate) plugin_version: String,
    /// As the plugin's `configure` returned them.
    pub(crate) settings: Map<String, Value>,
    pub(crate) allowed_roles: Vec<String>,
    pub(crate) verify_connection: bool,
    pub(crate) root_rotation_statements: Vec<String>,
    pub(crate) password_policy: String,
    pub(crate) skip_static_role_import_rotation: bool,
    /// When the password of its own user is changed, and when that was done.
    #[serde(flatten)]
    pub(crate) rotation: Settings,
    #[serde(flatten)]
    pub(crate) times: Times,
    /// The servers that the plugin dials for it. `None`: an earlier release stored it, which did
    /// not ask.
    #[serde(default)]
    pub(crate) targets: Option<Vec<String>>,
    /// Only the engine knows the password of its own user: a rotation made it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) has_own_password: bool,
    /// Grows with every change, also over removal and creation under the same name.
    pub(crate) generation: u64,
}

stored!(Connection, "connection", reads_stored_connections);

impl Connection {
    /// Where the connection `name` is stored.
    pub(crate) fn key(name: &str) -> String {
        format!("config/{name}")
    }

    /// The connection `name`, if there is one. As many of its revocations and rotations run at once
    /// as it may have sessions.
    pub(crate) fn find(host: &dyn Host, name: &str) -> Result<Option<Self>, Failure> {
        let found: Option<Self> = host.storage().get(&Self::key(name))?;
        if let Some(sessions) = found.as_ref().and_then(Self::sessions) {
            host.clock().widen(name, sessions)?;
        }
        Ok(found)
    }

    /// Maximum number of its sessions, if its settings name one; a number below zero is no limit.
    fn sessions(&self) -> Option<u32> {
        let sessions: Option<i64> = match self.settings.get("max_open_connections")? {
            Value::Number(number) => number.as_i64().or(number.is_u64().then_some(i64::MAX)),
            Value::String(text) => text.trim().parse().ok(),
            _ => None,
        };
        let few = |sessions: i64| u32::try_from(sessions).unwrap_or(u32::MAX);
        sessions.filter(|sessions| *sessions != 0).map(few)
    }

    /// Stores the connection, and has its own user rotated when that is due.
    pub(crate) fn store(&self, host: &dyn Host, name: &str) -> Result<(), Failure> {
        host.storage().put(&Self::key(name), self)?;
        match self.times.due {
            Some(due) => host.clock().schedule(&timer(name), due, name),
            None => host.clock().cancel(&timer(name)),
        }
    }

    /// Removes the connection.
    pub(crate) fn remove(host: &dyn Host, name: &str) -> Result<(), Failure> {
        host.storage().delete(&Self::key(name))?;
        host.clock().cancel(&timer(name))
    }

    /// Makes the next generation of the connection, whose sessions are others. Store time, so that
    /// a connection that is removed and written again never meets the sessions of its forerunner.
    pub(crate) fn begin_generation(&mut self, host: &dyn Host) {
        self.generation = self.generation.saturating_add(1).max(host.clock().now());
    }

    /// Refuses what would change the password of the connection's own user, where it has none of
    /// which the engine knows how it reaches the database.
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
            return refused("it is self_managed and has no user of its own");
        }
        if self.setting("username").is_empty() {
            return refused("no username in configuration; give it beside connection_url");
        }
        if self.setting("password").is_empty() {
            return refused("no password in configuration; give it beside connection_url");
        }
        let url = self.setting("connection_url");
        if !url.is_empty() && !url.contains("{{password}}") {
            return refused(
                "its connection_url must template {{password}}, or the new password would not \
                 reach it",
            );
        }
        Ok(())
    }

    /// The connection as the host wants it named in each call.
    pub(crate) fn for_host(&self, name: &str) -> HostConnection {
        HostConnection {
            plugin: self.plugin_name.clone(),
            version: self
                .plugin_version
                .strip_prefix('v')
                .unwrap_or(&self.plugin_version)
                .to_owned(),
            name: name.to_owned(),
            generation: self.generation,
            settings: self.settings.clone(),
        }
    }

    /// What the connection's plugin says of itself.
    ///
    /// # Errors
    /// Invalid request when the catalog has no such plugin: the caller named it.
    pub(crate) fn plugin(
        &self,
        host: &dyn Host,
        name: &str,
    ) -> Result<DatabaseDescription, Failure> {
        let called = self.for_host(name);
        let resolved = host.databases().resolve(&called.plugin, &called.version);
        resolved.map(|resolved| resolved.description).map_err(|why| about(name, why))
    }

    /// The servers on which its users are.
    ///
    /// # Errors
    /// What the plugin or the catalog refuses, where an earlier release stored the connection.
    pub(crate) fn targets(&self, host: &dyn Host, name: &str) -> Result<Vec<String>, Failure> {
        match &self.targets {
            Some(targets) => Ok(targets.clone()),
            None => Ok(host.databases().configure(&self.for_host(name))?.targets),
        }
    }

    /// The connection `name`, which the caller of the mount `mount` names.
    ///
    /// # Errors
    /// Invalid request where there is none.
    pub(crate) fn named(host: &dyn Host, name: &str, mount: &str) -> Result<Self, Failure> {
        let shown = quoted(name);
        Self::find(host, name)?.ok_or_else(|| {
            Failure::invalid(format!(
                "there is no connection {shown}; write {mount}config/{name} first"
            ))
        })
    }

    /// The connection `name`, for the role `role` of the mount `mount`.
    ///
    /// # Errors
    /// Invalid request where there is none: the role names it. Permission denied where it does not
    /// admit the role.
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

    /// Whether each account of it changes its own credential, and there is no user that changes
    /// those of others.
    pub(crate) fn is_self_managed(&self) -> bool {
        match self.settings.get("self_managed") {
            Some(Value::Bool(flag)) => *flag,
            Some(Value::String(text)) => matches!(text.as_str(), "true" | "t" | "1" | "True"),
            _ => false,
        }
    }

    /// Whether it is logged in to before it is stored and when it is opened anew. Where each
    /// account logs in as itself there is nothing to try it with.
    pub(crate) fn is_verified(&self) -> bool {
        self.verify_connection && !self.is_self_managed()
    }

    /// A setting that is a text; empty where it is absent.
    pub(crate) fn setting(&self, name: &str) -> &str {
        self.settings.get(name).and_then(Value::as_str).unwrap_or_default()
    }
}

/// What of a connection says who may use it.
#[derive(Deserialize)]
struct Admission {
    allowed_roles: Vec<String>,
}

/// Whether the role `role` of the mount `mount` may use the connection `name`, of which nothing
/// else is needed.
///
/// # Errors
/// As [`Connection::admitting`].
pub(crate) fn check_admission(
    host: &dyn Host,
    name: &str,
    role: &str,
    mount: &str,
) -> Result<(), Failure> {
    let found = host.storage().part::<Connection, Admission>(&Connection::key(name))?;
    let admission = found.ok_or_else(|| missing(name, role, mount))?;
    admit(&admission.allowed_roles, name, role)
}

/// Refuses a role that may not use the connection `name`. Asked at each use, never when a role is
/// written (decision C7).
fn admit(allowed_roles: &[String], name: &str, role: &str) -> Result<(), Failure> {
    if allowed_roles.iter().any(|pattern| glob::matches(pattern, role)) {
        return Ok(());
    }
    Err(Failure::denied(format!(
        "role {} may not use connection {}; add it to the connection's allowed_roles",
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

/// The connection that the timer `timer` is about.
pub(crate) fn name_of(timer: &str) -> Option<&str> {
    timer.strip_prefix(TIMER)
}

fn timer(name: &str) -> String {
    format!("{TIMER}{name}")
}

/// Names the connection in a failure of its plugin or database that does not name it itself. What
/// the catalog did not find is a mistake in the connection, not a missing URL.
pub(crate) fn about(name: &str, why: Failure) -> Failure {
    let kind = if why.kind == Kind::NotFound { Kind::InvalidRequest } else { why.kind };
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
    use bulkhead_sdk::{Failure, Kind};

    fn admits(patterns: &[&str], role: &str) -> bool {
        let allowed_roles: Vec<String> = patterns.iter().map(|one| (*one).to_owned()).collect();
        admit(&allowed_roles, "orders", role).is_ok()
    }

    #[test]
    fn an_empty_list_admits_nobody_and_a_star_everybody() {
        assert!(!admits(&[], "reader"));
        assert!(admits(&["*"], "reader"));
        assert!(admits(&["writer", "read*"], "reader"));
        assert!(!admits(&["read"], "reader"));
        assert!(!admits(&["READER"], "reader"));
    }

    #[test]
    fn a_failure_names_the_connection_once() {
        let plain = about("orders", Failure::new(Kind::Unreachable, "no answer from db:5432"));
        assert_eq!(plain.message, "connection \"orders\": no answer from db:5432");
        assert_eq!(plain.kind, Kind::Unreachable);
        let named =
            about("orders", Failure::invalid("check the password of connection \"orders\""));
        assert_eq!(named.message, "check the password of connection \"orders\"");
    }

    #[test]
    fn a_plugin_that_is_not_in_the_catalog_is_the_callers_mistake() {
        let failure = about("orders", Failure::new(Kind::NotFound, "there is no plugin \"x\""));
        assert_eq!(failure.kind, Kind::InvalidRequest);
    }

    #[test]
    fn the_catalog_is_asked_for_a_version_without_the_letter() {
        let connection =
            Connection { plugin_version: "v1.2.3".to_owned(), ..Connection::default() };
        assert_eq!(connection.for_host("orders").version, "1.2.3");
    }
}

//! The database server in memory: its users, and the versions of its plugin.

use super::User;
use crate::database_plugin::{Account, ConnectionSettings, NewUser};
use crate::host::{DatabaseConnection, VersionChoice};
use bulkhead_wire::description::DatabaseDescription;
use bulkhead_wire::failure::{Failure, FailureKind};
use std::collections::BTreeMap;

/// The plugin and the users of all databases.
pub(super) struct Server {
    pub(super) plugin: DatabaseDescription,
    /// Newer versions of the plugin, the newest last.
    pub(super) newer: Vec<String>,
    /// The plugin belongs to the server.
    pub(super) is_built_in: bool,
    /// Chosen versions, by connection.
    pub(super) chosen: BTreeMap<String, String>,
    pub(super) warnings: Vec<String>,
    /// Warning codes that `verify` answers.
    pub(super) lacking: Vec<String>,
    pub(super) users: BTreeMap<(String, String), User>,
    pub(super) planned: u32,
    pub(super) created: u32,
    /// The next failed creation reports that nothing was made.
    pub(super) keeps_nothing: bool,
    /// Fixed answers about logins, by user.
    pub(super) told_logins: BTreeMap<String, Option<bool>>,
}

impl Server {
    /// Returns the version that the connection `name` gets by `choice`.
    pub(super) fn version_for(
        &self,
        name: &str,
        choice: VersionChoice<'_>,
    ) -> Result<String, Failure> {
        let oldest = &self.plugin.version;
        if choice.keeps {
            return Ok(self.chosen.get(name).unwrap_or(oldest).clone());
        }
        let versions: Vec<&str> =
            [oldest].into_iter().chain(&self.newer).map(String::as_str).collect();
        let newest = versions.last().copied().unwrap_or_default();
        let version = if choice.version.is_empty() { newest } else { choice.version };
        if versions.contains(&version) {
            return Ok(version.to_owned());
        }
        let (plugin, versions) = (choice.plugin, versions.join(", "));
        let message =
            format!("database plugin {plugin:?} has no version {version:?}; there is {versions}");
        Err(Failure::new(FailureKind::NotFound, message))
    }

    /// Creates the account `name` with the credential of `user`.
    pub(super) fn create(
        &mut self,
        connection: &DatabaseConnection,
        name: String,
        user: &NewUser,
        statements: &[String],
    ) -> Account {
        self.created += 1;
        let database_user = User {
            credential: user.credential.clone(),
            expires: user.expires,
            statements: statements.to_vec(),
            identity: format!("identity-{}", self.created),
        };
        let account = Account { identity: database_user.identity.clone(), ..Account::named(&name) };
        self.users.insert((connection.name.clone(), name), database_user);
        account
    }

    pub(super) fn user_mut(
        &mut self,
        connection: &DatabaseConnection,
        username: &str,
    ) -> Result<&mut User, Failure> {
        let gone = || Failure::invalid(format!("the database has no user {username:?}"));
        self.users.get_mut(&(connection.name.clone(), username.to_owned())).ok_or_else(gone)
    }
}

/// Returns the names of the accounts that `creation` makes for `username`.
pub(super) fn account_names(username: &str, creation: &[String]) -> Vec<String> {
    let extra = creation.iter().filter(|statement| statement.contains("EXTRA"));
    let extra = extra.map(|_| format!("{username}_extra"));
    std::iter::once(username.to_owned()).chain(extra).collect()
}

/// Returns `test://db:5432` for the server in the setting `connection_url`: the text between `@`
/// and the next `/`.
pub(super) fn targets(settings: &ConnectionSettings) -> Vec<String> {
    let url = settings.get("connection_url").and_then(serde_json::Value::as_str);
    let server = url.and_then(|url| url.rsplit_once('@')?.1.split('/').next());
    server.map(|server| format!("test://{server}")).into_iter().collect()
}

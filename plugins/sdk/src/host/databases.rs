//! Database plugins as an engine reaches them, and the conversion of their refusals.

use crate::database_plugin::{
    Account, ConfiguredConnection, ConnectionSettings, CreatedUser, Credential, NewUser,
    StatementPurpose, StoreTime,
};
use bulkhead_wire::description::DatabaseDescription;
use bulkhead_wire::failure::{Failure, FailureKind};

/// A named connection to a database, with the plugin that serves the database. No `Debug`: the
/// settings hold a password.
#[derive(Clone, PartialEq)]
pub struct DatabaseConnection {
    /// The database plugin's name or alias.
    pub plugin: String,
    /// Semantic version, or empty. Counts only for a connection without a choice
    /// ([`Databases::choose`]); empty is then the oldest version of the catalog.
    pub version: String,
    /// The connection's name.
    pub name: String,
    /// Number that grows with every change of the connection, so that the host closes the sessions
    /// of older settings.
    pub generation: u64,
    /// Settings as `configure` returned them.
    pub settings: ConnectionSettings,
}

/// A database plugin as the catalog resolves it.
#[derive(Clone, Debug, PartialEq)]
pub struct ResolvedPlugin {
    /// The version that runs.
    pub version: String,
    /// The plugin's description of itself.
    pub description: DatabaseDescription,
    /// The plugin belongs to the server, and its version changes with the server.
    pub is_built_in: bool,
}

/// The version of a plugin that the writer of a connection asks for.
#[derive(Clone, Copy, Debug)]
pub struct VersionChoice<'a> {
    /// The database plugin's name or alias.
    pub plugin: &'a str,
    /// Semantic version; empty: the pinned version, or else the newest version.
    pub version: &'a str,
    /// `version` counts although another version is pinned.
    pub overrides_pin: bool,
    /// The connection keeps the version that serves the connection now.
    pub keeps: bool,
}

/// A failed creation, with the certainty that nothing was made.
#[derive(Debug)]
pub enum CreationFailure {
    /// The target itself said that nothing was made, so there is nothing to undo. A wrong `Surely`
    /// leaves a user behind; an unnecessary `Perhaps` only asks the target to remove a user that
    /// does not exist.
    Surely(Failure),
    /// The user, or a part of it, may have been made.
    Perhaps(Failure),
}

impl CreationFailure {
    /// Replaces the failure and keeps the certainty.
    #[must_use]
    pub fn map(self, change: impl FnOnce(Failure) -> Failure) -> Self {
        match self {
            Self::Surely(why) => Self::Surely(change(why)),
            Self::Perhaps(why) => Self::Perhaps(change(why)),
        }
    }
}

impl From<CreationFailure> for Failure {
    fn from(unmade: CreationFailure) -> Self {
        match unmade {
            CreationFailure::Surely(why) | CreationFailure::Perhaps(why) => why,
        }
    }
}

/// A failure without a statement of the target leaves the outcome unknown.
impl From<Failure> for CreationFailure {
    fn from(failure: Failure) -> Self {
        Self::Perhaps(failure)
    }
}

/// Database plugins, reached through the host. The methods from `configure` to `check_credential`
/// are the plugin's own functions.
///
/// A failure carries the plugin's sentence. A code that only database plugins use (`refused`,
/// `statement-failed`, `owns-objects` …) becomes an invalid request, because only the caller can
/// correct a request that the database refuses (decision P4).
pub trait Databases {
    /// Finds the plugin.
    ///
    /// # Errors
    /// Not found, with a message that lists the available plugins.
    fn resolve(&self, plugin: &str, version: &str) -> Result<ResolvedPlugin, Failure>;
    /// Chooses the version that serves the connection `name`. Buffered like a write; later calls
    /// for the connection, also in this call, have this version until the next choice.
    ///
    /// # Errors
    /// Not found, with a message that lists the available plugins or versions; invalid request if
    /// another version is pinned.
    fn choose(&self, name: &str, choice: VersionChoice<'_>) -> Result<ResolvedPlugin, Failure>;
    /// Finds the plugin that serves the connection: the version of the last choice, or else the
    /// connection's own plugin and version.
    ///
    /// # Errors
    /// As [`resolve`](Self::resolve).
    fn running(&self, connection: &DatabaseConnection) -> Result<ResolvedPlugin, Failure>;
    /// Ends the choice of a connection that is removed. Buffered like a write.
    ///
    /// # Errors
    /// Permission denied in a nested plugin.
    fn release(&self, name: &str) -> Result<(), Failure>;
    /// Checks and normalises the connection's settings. No I/O.
    ///
    /// # Errors
    /// Invalid request for settings that the plugin cannot use.
    fn configure(&self, connection: &DatabaseConnection) -> Result<ConfiguredConnection, Failure>;
    /// Checks that the plugin can read the statements and that each placeholder has a value for
    /// this purpose. Returns the index of the first of the purpose's passwords that can be put into
    /// all the statements. No I/O.
    ///
    /// # Errors
    /// Invalid request naming the statement.
    fn check_statements(
        &self,
        connection: &DatabaseConnection,
        statements: &[String],
        purpose: &StatementPurpose,
    ) -> Result<Option<u32>, Failure>;
    /// Logs in and runs harmless queries. Returns codes of the description's `warnings`:
    /// permissions that the connection's user lacks and will need.
    ///
    /// # Errors
    /// Unreachable or timed out; invalid request if the login is refused.
    fn verify(&self, connection: &DatabaseConnection) -> Result<Vec<String>, Failure>;
    /// Chooses a name for a new user, and names the accounts that `creation` will make as far as
    /// the plugin can tell. No I/O.
    ///
    /// # Errors
    /// Invalid request for a template that cannot be rendered.
    fn plan_accounts(
        &self,
        connection: &DatabaseConnection,
        display_name: &str,
        role_name: &str,
        creation: &[String],
    ) -> Result<CreatedUser, Failure>;
    /// Creates the user: all or nothing, if the database supports that. Returns the accounts that
    /// the creation made; empty if the plugin does not tell. An effect.
    ///
    /// # Errors
    /// As [`verify`](Self::verify); invalid request if a statement fails. Only the plugin can say
    /// that the user was certainly not made ([`CreationFailure`]); the kind of the failure never
    /// tells.
    fn create_accounts(
        &self,
        connection: &DatabaseConnection,
        user: &NewUser,
        statements: &[String],
        rollback: &[String],
    ) -> Result<Vec<Account>, CreationFailure>;
    /// Changes the credential of `username`. An effect.
    ///
    /// # Errors
    /// As [`create_accounts`](Self::create_accounts).
    fn change_credential(
        &self,
        connection: &DatabaseConnection,
        username: &str,
        credential: &Credential,
        current: Option<&Credential>,
        statements: &[String],
    ) -> Result<(), Failure>;
    /// Moves the date at which the database stops accepting the credential. An effect.
    ///
    /// # Errors
    /// As [`create_accounts`](Self::create_accounts).
    fn prolong_accounts(
        &self,
        connection: &DatabaseConnection,
        user: &CreatedUser,
        expires: StoreTime,
        statements: &[String],
    ) -> Result<(), Failure>;
    /// Removes the user's accounts, permissions and sessions; succeeds if the user does not exist.
    /// An effect.
    ///
    /// # Errors
    /// As [`create_accounts`](Self::create_accounts).
    fn remove_accounts(
        &self,
        connection: &DatabaseConnection,
        user: &CreatedUser,
        statements: &[String],
    ) -> Result<(), Failure>;
    /// Returns true if `username` can log in with `credential`; `None` if the database cannot tell.
    ///
    /// # Errors
    /// Unreachable or timed out.
    fn check_credential(
        &self,
        connection: &DatabaseConnection,
        username: &str,
        credential: &Credential,
    ) -> Result<Option<bool>, Failure>;
    /// Closes every session of this mount's connection `name`. A later call opens new sessions.
    fn close(&self, name: &str);
}

/// Returns the failure kind for a code of a database plugin. A code without a kind in the contract
/// is a refusal of the plugin or its database, which the caller must correct; `internal` stays a
/// fault.
#[cfg_attr(
    not(all(target_family = "wasm", feature = "secrets-engine")),
    allow(dead_code, reason = "only the imports of a secrets engine speak in codes")
)]
pub(crate) fn database_kind(code: &str) -> FailureKind {
    match FailureKind::of_code(code) {
        FailureKind::Internal if code != FailureKind::Internal.code() => {
            FailureKind::InvalidRequest
        }
        kind => kind,
    }
}

#[cfg(test)]
mod tests {
    use super::database_kind;
    use bulkhead_wire::failure::FailureKind;

    #[test]
    fn database_refusal_is_caller_error_unlike_database_fault() {
        for code in [
            "refused",
            "statement-failed",
            "owns-objects",
            "invalid-config",
            "unsupported",
            "its-own-code",
        ] {
            assert_eq!(database_kind(code), FailureKind::InvalidRequest, "{code}");
        }
        assert_eq!(database_kind("unreachable"), FailureKind::Unreachable);
        assert_eq!(database_kind("timed-out"), FailureKind::TimedOut);
        assert_eq!(database_kind("conflict"), FailureKind::Conflict);
        assert_eq!(database_kind("internal"), FailureKind::Internal);
    }
}

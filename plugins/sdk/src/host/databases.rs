//! Database plugins as an engine reaches them, and what their refusals become.

use crate::database_plugin::{Configured, Credential, NewUser, Purpose, Settings, StoreTime};
use bulkhead_wire::description::DatabaseDescription;
use bulkhead_wire::failure::{Failure, Kind};

/// The connection a call is about. No `Debug`: its settings hold a password.
#[derive(Clone, PartialEq)]
pub struct Connection {
    /// The database plugin's name or an alias of it.
    pub plugin: String,
    /// Semantic version; empty for the one that the catalog chooses.
    pub version: String,
    /// The connection's name.
    pub name: String,
    /// Grows with every change, so that the host retires the sessions of older settings.
    pub generation: u64,
    /// As `configure` returned them.
    pub settings: Settings,
}

/// A database plugin as it would be used.
#[derive(Clone, Debug, PartialEq)]
pub struct Resolved {
    /// The version that runs.
    pub version: String,
    /// What it says of itself.
    pub description: DatabaseDescription,
}

/// Why an effect gave no thing.
#[derive(Debug)]
pub enum Unmade {
    /// The target itself said that nothing was made: there is nothing to undo. A wrong `Surely`
    /// leaves a thing behind; a `Perhaps` too many merely asks the target to remove what is not
    /// there.
    Surely(Failure),
    /// It may have been made, or a part of it.
    Perhaps(Failure),
}

impl Unmade {
    /// The same, with another failure.
    #[must_use]
    pub fn map(self, change: impl FnOnce(Failure) -> Failure) -> Self {
        match self {
            Self::Surely(why) => Self::Surely(change(why)),
            Self::Perhaps(why) => Self::Perhaps(change(why)),
        }
    }
}

impl From<Unmade> for Failure {
    fn from(unmade: Unmade) -> Self {
        match unmade {
            Unmade::Surely(why) | Unmade::Perhaps(why) => why,
        }
    }
}

/// What no target has said is not known.
impl From<Failure> for Unmade {
    fn from(failure: Failure) -> Self {
        Self::Perhaps(failure)
    }
}

/// Database plugins, reached through the host; each method but the first and the last is the
/// plugin's own function.
///
/// Failures carry the plugin's sentence. A code that only database plugins use (`refused`,
/// `statement-failed`, `owns-objects` …) arrives as an invalid request: a refusal of an upstream is
/// the caller's to solve (decision P4).
pub trait Databases {
    /// Finds the plugin.
    ///
    /// # Errors
    /// Not found, with a message that says which there are.
    fn resolve(&self, plugin: &str, version: &str) -> Result<Resolved, Failure>;
    /// Checks and normalises the connection's settings. No I/O.
    ///
    /// # Errors
    /// Invalid request for settings that the plugin cannot use.
    fn configure(&self, connection: &Connection) -> Result<Configured, Failure>;
    /// Whether the plugin can read the statements, and each of their placeholders has a value for
    /// this purpose. Returns the place of the first of the purpose's passwords that can be put into
    /// all of them. No I/O.
    ///
    /// # Errors
    /// Invalid request naming the statement.
    fn check_statements(
        &self,
        connection: &Connection,
        statements: &[String],
        purpose: &Purpose,
    ) -> Result<Option<u32>, Failure>;
    /// Logs in and asks harmless questions. Returns codes of the description's `warnings`: rights
    /// that the connection's user lacks and will need.
    ///
    /// # Errors
    /// Unreachable or timed out; invalid request when the login is refused.
    fn verify(&self, connection: &Connection) -> Result<Vec<String>, Failure>;
    /// Chooses a new user's name. No I/O.
    ///
    /// # Errors
    /// Invalid request for a template that cannot be rendered.
    fn plan_username(
        &self,
        connection: &Connection,
        display_name: &str,
        role_name: &str,
    ) -> Result<String, Failure>;
    /// Creates the user, all or nothing where the database can. An effect.
    ///
    /// # Errors
    /// As [`verify`](Self::verify); invalid request when a statement fails. Whether the user may be
    /// there all the same is the plugin's to say, and never read from the kind of the failure.
    fn create_user(
        &self,
        connection: &Connection,
        user: &NewUser,
        statements: &[String],
        rollback: &[String],
    ) -> Result<(), Unmade>;
    /// Gives `username` a new credential. An effect.
    ///
    /// # Errors
    /// As [`create_user`](Self::create_user).
    fn change_credential(
        &self,
        connection: &Connection,
        username: &str,
        credential: &Credential,
        current: Option<&Credential>,
        statements: &[String],
    ) -> Result<(), Failure>;
    /// Moves the date at which the database stops accepting the credential. An effect.
    ///
    /// # Errors
    /// As [`create_user`](Self::create_user).
    fn set_expiration(
        &self,
        connection: &Connection,
        username: &str,
        expires: StoreTime,
        statements: &[String],
    ) -> Result<(), Failure>;
    /// Removes the user, what it holds and its sessions; a user that is gone is success. An effect.
    ///
    /// # Errors
    /// As [`create_user`](Self::create_user).
    fn delete_user(
        &self,
        connection: &Connection,
        username: &str,
        statements: &[String],
    ) -> Result<(), Failure>;
    /// Whether `username` can log in with `credential`; `None` where the database cannot tell.
    ///
    /// # Errors
    /// Unreachable or timed out.
    fn check_credential(
        &self,
        connection: &Connection,
        username: &str,
        credential: &Credential,
    ) -> Result<Option<bool>, Failure>;
    /// Closes every session of this mount's connection `name`. A later call opens new ones.
    fn close(&self, name: &str);
}

/// The kind behind a code from a database plugin. Those that the contract does not list with a
/// status are refusals of the plugin or of its database, for the caller to solve; `internal` stays
/// a fault.
#[cfg_attr(
    not(all(target_family = "wasm", feature = "secrets-engine")),
    allow(dead_code, reason = "only the imports of a secrets engine speak in codes")
)]
pub(crate) fn database_kind(code: &str) -> Kind {
    match Kind::of_code(code) {
        Kind::Internal if code != Kind::Internal.code() => Kind::InvalidRequest,
        kind => kind,
    }
}

#[cfg(test)]
mod tests {
    use super::database_kind;
    use bulkhead_wire::failure::Kind;

    #[test]
    fn a_refusal_of_the_database_is_the_callers_to_solve_and_a_fault_stays_a_fault() {
        for code in [
            "refused",
            "statement-failed",
            "owns-objects",
            "invalid-config",
            "unsupported",
            "its-own-code",
        ] {
            assert_eq!(database_kind(code), Kind::InvalidRequest, "{code}");
        }
        assert_eq!(database_kind("unreachable"), Kind::Unreachable);
        assert_eq!(database_kind("timed-out"), Kind::TimedOut);
        assert_eq!(database_kind("conflict"), Kind::Conflict);
        assert_eq!(database_kind("internal"), Kind::Internal);
    }
}

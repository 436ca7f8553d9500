//! The contract of a database plugin: the types of `wit/database-types.wit` in Rust, the trait that
//! a plugin implements, and the plugin's view of the host.
//!
//! A plugin keeps nothing between calls and never writes an error sentence at run time: a
//! [`Refusal`] is a code, and the sentence for each code stands in
//! [`bulkhead_wire::description::DatabaseDescription`].

pub use crate::accounts::{Account, CreatedUser, is_derived_name};
use bulkhead_wire::description::DatabaseDescription;
use serde_json::{Map, Value};

/// A connection's settings: a JSON object, as `configure` returned it.
pub type ConnectionSettings = Map<String, Value>;

/// Milliseconds of store time since 1970.
pub type StoreTime = u64;

/// A refusal of a database plugin: codes, positions and names only, never a credential.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Refusal {
    /// A kebab-case code with a sentence in the description's `codes`.
    pub code: String,
    /// The setting that is wrong, for codes about settings.
    pub setting: Option<String>,
    /// Index of the statement in the given list, from 0.
    pub statement: Option<u32>,
    /// The database's own code, such as an SQLSTATE.
    pub vendor_code: Option<String>,
    /// Values for the sentence, such as names of objects; never a credential.
    pub ext: Vec<(String, String)>,
}

/// Pair in a refusal which says that a creation left nothing behind.
const NOTHING_MADE: (&str, &str) = ("made", "nothing");

impl Refusal {
    /// Creates a refusal with only a code.
    #[must_use]
    pub fn of(code: &str) -> Self {
        Self { code: code.to_owned(), ..Self::default() }
    }

    /// Sets the setting that the refusal is about.
    #[must_use]
    pub fn about(self, setting: &str) -> Self {
        Self { setting: Some(setting.to_owned()), ..self }
    }

    /// Adds a value for the sentence.
    #[must_use]
    pub fn with(mut self, name: &str, value: impl Into<String>) -> Self {
        self.ext.push((name.to_owned(), value.into()));
        self
    }

    /// Marks the refusal of a creation that certainly left nothing behind: the database was not
    /// asked, or the database itself answered that nothing was kept. Without this mark, the host
    /// removes the user again.
    #[must_use]
    pub fn with_nothing_made(mut self) -> Self {
        let (name, value) = NOTHING_MADE;
        self.ext.push((name.to_owned(), value.to_owned()));
        self
    }
}

/// Returns true if the pairs of a refusal say that a creation left nothing behind.
#[cfg_attr(
    not(all(target_family = "wasm", feature = "secrets-engine")),
    allow(dead_code, reason = "only the imports of a secrets engine read the pairs of refusals")
)]
pub(crate) fn is_nothing_made(ext: &[(String, String)]) -> bool {
    ext.iter().any(|(name, value)| (name.as_str(), value.as_str()) == NOTHING_MADE)
}

/// Result of `configure`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ConfiguredConnection {
    /// The settings to store.
    pub settings: ConnectionSettings,
    /// Addresses that the plugin will dial: `postgres://db.example:5432`.
    pub targets: Vec<String>,
    /// Codes of the description's `warnings`.
    pub warnings: Vec<String>,
}

/// A credential to set or check. No `Debug`: the credential is a secret.
#[derive(Clone, PartialEq, Eq)]
pub enum Credential {
    /// A plaintext password.
    Password(String),
    /// A public key: SPKI in PEM.
    PublicKeyPem(String),
    /// The subject of a client certificate.
    SubjectDn(String),
}

/// The purpose of a list of statements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StatementAct {
    /// Creates a user.
    Creation,
    /// Undoes a failed creation.
    Rollback,
    /// Extends the expiration of a user.
    Renewal,
    /// Removes a user.
    Revocation,
    /// Changes the credential of an account.
    Rotation,
}

impl StatementAct {
    const WORDS: [(Self, &'static str); 5] = [
        (Self::Creation, "creation"),
        (Self::Rollback, "rollback"),
        (Self::Renewal, "renewal"),
        (Self::Revocation, "revocation"),
        (Self::Rotation, "rotation"),
    ];

    /// Returns the word for the act in the contract.
    #[must_use]
    pub fn word(self) -> &'static str {
        Self::WORDS.iter().find(|(act, _)| *act == self).map_or("", |(_, word)| word)
    }

    /// Returns the act for a word of the contract.
    #[must_use]
    pub fn of_word(word: &str) -> Option<Self> {
        Self::WORDS.iter().find(|(_, name)| *name == word).map(|(act, _)| *act)
    }
}

/// The purpose of a list of statements, with passwords to try in the statements. No `Debug`: the
/// passwords may later be in force.
#[derive(Clone, PartialEq, Eq)]
pub struct StatementPurpose {
    /// The act that the statements perform.
    pub act: StatementAct,
    /// Credential type in the role's words: `password`, `client_certificate` and so on.
    pub credential_type: String,
    /// Candidate passwords for the statements.
    pub passwords: Vec<String>,
}

/// A user to create. No `Debug`: the user has a credential.
#[derive(Clone)]
pub struct NewUser {
    /// Name as `plan_username` chose it.
    pub username: String,
    /// The user's credential.
    pub credential: Credential,
    /// Time at which the database itself should stop accepting the credential.
    pub expires: StoreTime,
}

/// A host and port to dial.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Endpoint {
    /// DNS name or address; IPv6 without brackets.
    pub host: String,
    /// TCP port.
    pub port: u16,
}

/// Authentication of the server by TLS.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DatabaseTls {
    /// `disable`, `prefer`, `require`, `verify-ca` or `verify-full`.
    pub mode: String,
    /// Trusted root certificates in PEM; `None` means the public roots.
    pub root_certificates: Option<String>,
    /// Client certificate in PEM, for servers that ask for a certificate.
    pub client_certificate: Option<String>,
    /// Private key of the client certificate, in PEM.
    pub client_key: Option<String>,
    /// Name that the certificate must have with `verify-full`; `None` means the host name.
    pub server_name: Option<String>,
}

/// Limits of a pool of sessions; durations in milliseconds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PoolLimits {
    /// Maximum number of concurrent sessions.
    pub max_connections: u32,
    /// Timeout for dialling and logging in.
    pub connect_timeout: u32,
    /// Maximum lifetime of a session; 0 means the lifetime of the pool.
    pub max_lifetime: u64,
}

/// Everything needed to log in; see `wit/sql.wit`. No `Debug`: the target holds the password.
#[derive(Clone, PartialEq, Eq)]
pub struct DatabaseTarget {
    /// `postgres` or `mysql`.
    pub driver: String,
    /// Addresses, tried in this order.
    pub endpoints: Vec<Endpoint>,
    /// True to skip read-only servers.
    pub writable: bool,
    /// Database name.
    pub database: String,
    /// Login name.
    pub username: String,
    /// Login password.
    pub password: String,
    /// Authentication of the server.
    pub tls: DatabaseTls,
    /// Limits of the pool.
    pub pool: PoolLimits,
    /// Further pairs for later versions of the contract.
    pub ext: Vec<(String, String)>,
}

/// Exactly one SQL statement.
#[derive(Clone, PartialEq, Eq)]
pub struct Statement {
    /// Text of the statement.
    pub text: String,
    /// True if the text contains a credential.
    pub secret: bool,
    /// True if a transaction of PostgreSQL continues after a failure of this statement.
    pub may_fail: bool,
}

impl Statement {
    /// Creates a statement without a secret that must succeed.
    #[must_use]
    pub fn plain(text: impl Into<String>) -> Self {
        Self { text: text.into(), secret: false, may_fail: false }
    }

    /// Lets the transaction continue if this statement fails.
    #[must_use]
    pub fn allow_failure(self) -> Self {
        Self { may_fail: true, ..self }
    }
}

/// A failure of the `sql` import.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SqlFailure {
    /// `unreachable`, `refused`, `timed-out`, `conflict`, `statement-failed`, `invalid-request`,
    /// `forbidden-address` or `permission-denied`.
    pub code: String,
    /// Message for the log; database plugins do not pass it on.
    pub message: String,
    /// Index of the failed statement, from 0.
    pub statement: Option<u32>,
    /// The server's own code: an SQLSTATE of PostgreSQL, an error number of MySQL.
    pub sqlstate: Option<String>,
    /// The reason why TLS failed with a server that answered. The host wrote the text, and database
    /// plugins pass it on.
    pub tls: Option<String>,
}

/// A database plugin's view of the host: the real imports in a component, a script in unit tests.
pub trait SqlHost {
    /// Logs in and runs `SELECT 1`.
    fn ping(&self, target: &DatabaseTarget) -> Result<(), SqlFailure>;
    /// Runs a read-only statement with bound text parameters (`$1`, `?`); every column is returned
    /// as text.
    fn query(
        &self,
        target: &DatabaseTarget,
        statement: &str,
        parameters: &[&str],
    ) -> Result<Vec<Vec<Option<String>>>, SqlFailure>;
    /// Runs a statement as [`query`](Self::query) does, and returns the values of the first column
    /// that are not null.
    fn query_column(
        &self,
        target: &DatabaseTarget,
        statement: &str,
        parameters: &[&str],
    ) -> Result<Vec<String>, SqlFailure> {
        let rows = self.query(target, statement, parameters)?;
        Ok(rows.into_iter().filter_map(|row| row.into_iter().next().flatten()).collect())
    }
    /// Runs all statements in one transaction, as far as the server supports transactions for these
    /// statements. The host retries conflicts.
    fn transact(&self, target: &DatabaseTarget, statements: &[Statement])
    -> Result<(), SqlFailure>;
    /// Runs a statement outside a transaction.
    fn execute(&self, target: &DatabaseTarget, statement: &Statement) -> Result<(), SqlFailure>;
    /// Returns the store time.
    fn now(&self) -> StoreTime;
    /// Returns random bytes of the host's secure generator, at most 4,096.
    fn random(&self, length: u32) -> Vec<u8>;
    /// Derives a key of 32 bytes by PBKDF2 with HMAC-SHA-256; 1 to 100,000 iterations.
    fn pbkdf2_sha256(&self, password: &str, salt: &[u8], iterations: u32) -> Vec<u8>;
}

/// A database plugin. The contract of each function is in `wit/database-types.wit`, interfaces
/// `database-users` and `database-accounts`.
pub trait DatabasePlugin {
    /// Returns the static facts: name, version, secret settings, and the sentence for every code.
    fn description() -> DatabaseDescription;
    /// Checks and normalises settings. Pure.
    fn configure(settings: &ConnectionSettings) -> Result<ConfiguredConnection, Refusal>;
    /// Checks that each element can be split into statements and that every placeholder has a value
    /// for this purpose. Returns the index of the first of the purpose's passwords that can be put
    /// into all the statements. Pure.
    fn check_statements(
        settings: &ConnectionSettings,
        statements: &[String],
        purpose: &StatementPurpose,
    ) -> Result<Option<u32>, Refusal>;
    /// Logs in and runs harmless queries. Returns codes of the description's `warnings`:
    /// permissions that the user lacks and will need.
    fn verify(host: &dyn SqlHost, settings: &ConnectionSettings) -> Result<Vec<String>, Refusal>;
    /// Chooses a name for a new user. No I/O.
    fn plan_username(
        host: &dyn SqlHost,
        settings: &ConnectionSettings,
        display_name: &str,
        role_name: &str,
    ) -> Result<String, Refusal>;
    /// Returns the accounts that `creation` will make for `username`, as far as the text of the
    /// statements shows it and the names follow from `username`; empty if unknown. No I/O.
    fn plan_accounts(
        _settings: &ConnectionSettings,
        _username: &str,
        _creation: &[String],
    ) -> Result<Vec<Account>, Refusal> {
        Ok(Vec::new())
    }
    /// Creates the user: all or nothing, if the database supports that. Returns the accounts that
    /// the creation made; empty if the plugin does not tell accounts apart.
    fn create_user(
        host: &dyn SqlHost,
        settings: &ConnectionSettings,
        user: &NewUser,
        statements: &[String],
        rollback: &[String],
    ) -> Result<Vec<Account>, Refusal>;
    /// Changes the credential of `username`. `current` is the present credential if the user must
    /// change the credential itself.
    fn change_credential(
        host: &dyn SqlHost,
        settings: &ConnectionSettings,
        username: &str,
        credential: &Credential,
        current: Option<&Credential>,
        statements: &[String],
    ) -> Result<(), Refusal>;
    /// Moves the date at which the database stops accepting the credential.
    fn set_expiration(
        host: &dyn SqlHost,
        settings: &ConnectionSettings,
        user: &CreatedUser,
        expires: StoreTime,
        statements: &[String],
    ) -> Result<(), Refusal>;
    /// Removes the user's accounts, permissions and sessions. Succeeds if the user does not exist.
    fn delete_user(
        host: &dyn SqlHost,
        settings: &ConnectionSettings,
        user: &CreatedUser,
        statements: &[String],
    ) -> Result<(), Refusal>;
    /// Returns true if `username` can log in with `credential`; `None` if the database cannot tell.
    fn check_credential(
        host: &dyn SqlHost,
        settings: &ConnectionSettings,
        username: &str,
        credential: &Credential,
    ) -> Result<Option<bool>, Refusal>;
}

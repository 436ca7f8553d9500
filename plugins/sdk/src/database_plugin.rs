//! What a database plugin is: the words of `wit/database-types.wit` as Rust types, the trait it
//! implements, and the host as it sees it.
//!
//! A plugin keeps nothing between calls and never words an error at run time: a [`Refusal`] is a
//! code, and the sentence for each code stands in
//! [`bulkhead_wire::description::DatabaseDescription`].

use bulkhead_wire::description::DatabaseDescription;
use serde_json::{Map, Value};

/// A connection's settings: one JSON object, as `configure` returned it.
pub type Settings = Map<String, Value>;

/// Milliseconds of store time since 1970.
pub type StoreTime = u64;

/// Why a database plugin did not do what it was asked: codes and numbers only.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Refusal {
    /// A kebab-case code with a sentence in the description's `codes`.
    pub code: String,
    /// The setting that is wrong, for codes about settings.
    pub setting: Option<String>,
    /// Position of the statement in the given list, from 0.
    pub statement: Option<u32>,
    /// The database's own code, e.g. an SQLSTATE.
    pub vendor_code: Option<String>,
    /// Names of objects and the like; never a credential.
    pub ext: Vec<(String, String)>,
}

/// The pair of a refusal by which it says that nothing came of a creation.
const NOTHING_MADE: (&str, &str) = ("made", "nothing");

impl Refusal {
    /// A refusal with nothing but its code.
    #[must_use]
    pub fn of(code: &str) -> Self {
        Self { code: code.to_owned(), ..Self::default() }
    }

    /// The same, of one setting.
    #[must_use]
    pub fn about(self, setting: &str) -> Self {
        Self { setting: Some(setting.to_owned()), ..self }
    }

    /// The same, with one more pair for its sentence.
    #[must_use]
    pub fn with(mut self, name: &str, value: impl Into<String>) -> Self {
        self.ext.push((name.to_owned(), value.into()));
        self
    }

    /// The refusal of a creation of which certainly nothing is left behind: the database was not
    /// asked, or answered itself that it kept nothing. Without this word the user is removed again.
    #[must_use]
    pub fn with_nothing_made(mut self) -> Self {
        let (name, value) = NOTHING_MADE;
        self.ext.push((name.to_owned(), value.to_owned()));
        self
    }
}

/// Whether the pairs of a refusal say that nothing came of a creation.
#[cfg_attr(
    not(all(target_family = "wasm", feature = "secrets-engine")),
    allow(dead_code, reason = "only the imports of a secrets engine read the pairs of refusals")
)]
pub(crate) fn is_nothing_made(ext: &[(String, String)]) -> bool {
    ext.iter().any(|(name, value)| (name.as_str(), value.as_str()) == NOTHING_MADE)
}

/// What `configure` made of the settings.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Configured {
    /// The settings to store.
    pub settings: Settings,
    /// What will be dialled: `postgres://db.example:5432`.
    pub targets: Vec<String>,
    /// Codes of the description's `warnings`.
    pub warnings: Vec<String>,
}

/// A credential to set or check. No `Debug`: it is a secret.
#[derive(Clone, PartialEq, Eq)]
pub enum Credential {
    /// A password in clear.
    Password(String),
    /// A public key, SPKI in PEM.
    PublicKeyPem(String),
    /// The subject of a client certificate.
    SubjectDn(String),
}

/// The use of one list of statements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Act {
    /// They make a user.
    Creation,
    /// They undo a creation that failed.
    Rollback,
    /// They move the end of a user.
    Renewal,
    /// They remove a user.
    Revocation,
    /// They change the credential of an account.
    Rotation,
}

impl Act {
    const WORDS: [(Self, &'static str); 5] = [
        (Self::Creation, "creation"),
        (Self::Rollback, "rollback"),
        (Self::Renewal, "renewal"),
        (Self::Revocation, "revocation"),
        (Self::Rotation, "rotation"),
    ];

    /// The word that travels.
    #[must_use]
    pub fn word(self) -> &'static str {
        Self::WORDS.iter().find(|(act, _)| *act == self).map_or("", |(_, word)| word)
    }

    /// The act that the word names.
    #[must_use]
    pub fn of_word(word: &str) -> Option<Self> {
        Self::WORDS.iter().find(|(_, known)| *known == word).map(|(act, _)| *act)
    }
}

/// The use of one list of statements, and passwords to try in it. No `Debug`: it may carry
/// passwords that will be in force.
#[derive(Clone, PartialEq, Eq)]
pub struct Purpose {
    /// The act that the statements are for.
    pub act: Act,
    /// As the role names it: `password`, `client_certificate` and the like.
    pub credential_type: String,
    /// Passwords, one of which is to stand in the statements.
    pub passwords: Vec<String>,
}

/// A user that is to be created. No `Debug`: it carries the credential.
#[derive(Clone)]
pub struct NewUser {
    /// As `plan_username` chose it.
    pub username: String,
    /// Its credential.
    pub credential: Credential,
    /// When the database itself should stop accepting the credential.
    pub expires: StoreTime,
}

/// A host and port to dial.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Endpoint {
    /// Name or address; IPv6 without brackets.
    pub host: String,
    /// TCP port.
    pub port: u16,
}

/// How the server's identity is checked.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tls {
    /// `disable`, `prefer`, `require`, `verify-ca` or `verify-full`.
    pub mode: String,
    /// PEM; `None` means the public roots.
    pub root_certificates: Option<String>,
    /// PEM of the certificate for servers that ask for one.
    pub client_certificate: Option<String>,
    /// PEM of its key.
    pub client_key: Option<String>,
    /// The name that the certificate has to bear with `verify-full`; `None` means the host's.
    pub server_name: Option<String>,
}

/// Sizes and times of a pool of sessions; durations in milliseconds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pool {
    /// Most sessions at once.
    pub max_connections: u32,
    /// Bound on dialling and logging in.
    pub connect_timeout: u32,
    /// 0: a session lives as long as its pool.
    pub max_lifetime: u64,
}

/// Everything needed to log in; see `wit/sql.wit`. No `Debug`: it carries the password.
#[derive(Clone, PartialEq, Eq)]
pub struct Target {
    /// `postgres` or `mysql`.
    pub driver: String,
    /// Tried in this order.
    pub endpoints: Vec<Endpoint>,
    /// Skip servers that are read-only.
    pub writable: bool,
    /// Database name.
    pub database: String,
    /// Login name.
    pub username: String,
    /// Its password.
    pub password: String,
    /// How the server proves itself.
    pub tls: Tls,
    /// The pool's bounds.
    pub pool: Pool,
    /// Room to grow.
    pub ext: Vec<(String, String)>,
}

/// Exactly one statement.
#[derive(Clone, PartialEq, Eq)]
pub struct Statement {
    /// Its text.
    pub text: String,
    /// The text carries a credential.
    pub secret: bool,
    /// In a transaction of PostgreSQL: where the database refuses it, the others go on.
    pub may_fail: bool,
}

impl Statement {
    /// A statement without a secret, that has to succeed.
    #[must_use]
    pub fn plain(text: impl Into<String>) -> Self {
        Self { text: text.into(), secret: false, may_fail: false }
    }

    /// The same, without which the others go on.
    #[must_use]
    pub fn or_else_nothing(self) -> Self {
        Self { may_fail: true, ..self }
    }
}

/// A failure of the `sql` import.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SqlFailure {
    /// `unreachable`, `refused`, `timed-out`, `conflict`, `statement-failed`, `invalid-request`,
    /// `permission-denied`.
    pub code: String,
    /// For the log; database plugins do not pass it on.
    pub message: String,
    /// Index of the failed statement.
    pub statement: Option<u32>,
    /// The server's code.
    pub sqlstate: Option<String>,
}

/// The host as a database plugin sees it: real imports in a component, a script in unit tests.
pub trait SqlHost {
    /// Logs in and asks `SELECT 1`.
    fn ping(&self, target: &Target) -> Result<(), SqlFailure>;
    /// One read-only statement with bound text parameters (`$1`, `?`); every column as text.
    fn query(
        &self,
        target: &Target,
        statement: &str,
        parameters: &[&str],
    ) -> Result<Vec<Vec<Option<String>>>, SqlFailure>;
    /// All statements in one transaction, as far as the server has such; conflicts are retried by
    /// the host.
    fn transact(&self, target: &Target, statements: &[Statement]) -> Result<(), SqlFailure>;
    /// One statement outside a transaction.
    fn execute(&self, target: &Target, statement: &Statement) -> Result<(), SqlFailure>;
    /// Store time.
    fn now(&self) -> StoreTime;
    /// Bytes of the host's secure generator, at most 4,096.
    fn random(&self, length: u32) -> Vec<u8>;
    /// PBKDF2 with HMAC-SHA-256, 32 bytes; 1 to 100,000 iterations.
    fn pbkdf2_sha256(&self, password: &str, salt: &[u8], iterations: u32) -> Vec<u8>;
}

/// A database plugin. See `wit/database-types.wit`, interface `database-users`, for each function's
/// contract.
pub trait DatabasePlugin {
    /// Static facts: name, version, secret settings, and the sentence for every code.
    fn description() -> DatabaseDescription;
    /// Checks and normalises settings. Pure.
    fn configure(settings: &Settings) -> Result<Configured, Refusal>;
    /// Whether the statements can be read: each element split, every placeholder one that has a
    /// value for this purpose. Returns the place of the first of the purpose's passwords that fits
    /// into all of them. Pure.
    fn check_statements(
        settings: &Settings,
        statements: &[String],
        purpose: &Purpose,
    ) -> Result<Option<u32>, Refusal>;
    /// Logs in and asks harmless questions. Returns codes of the description's `warnings`: rights
    /// that the user lacks and will need.
    fn verify(host: &dyn SqlHost, settings: &Settings) -> Result<Vec<String>, Refusal>;
    /// Chooses a new user's name.
    fn plan_username(
        host: &dyn SqlHost,
        settings: &Settings,
        display_name: &str,
        role_name: &str,
    ) -> Result<String, Refusal>;
    /// Creates the user, all or nothing.
    fn create_user(
        host: &dyn SqlHost,
        settings: &Settings,
        user: &NewUser,
        statements: &[String],
        rollback: &[String],
    ) -> Result<(), Refusal>;
    /// Gives `username` a new credential.
    fn change_credential(
        host: &dyn SqlHost,
        settings: &Settings,
        username: &str,
        credential: &Credential,
        current: Option<&Credential>,
        statements: &[String],
    ) -> Result<(), Refusal>;
    /// Moves the date at which the database stops accepting the credential.
    fn set_expiration(
        host: &dyn SqlHost,
        settings: &Settings,
        username: &str,
        expires: StoreTime,
        statements: &[String],
    ) -> Result<(), Refusal>;
    /// Removes the user, its sessions and what it holds.
    fn delete_user(
        host: &dyn SqlHost,
        settings: &Settings,
        username: &str,
        statements: &[String],
    ) -> Result<(), Refusal>;
    /// Whether `username` can log in with `credential`; `None` where the database cannot tell.
    fn check_credential(
        host: &dyn SqlHost,
        settings: &Settings,
        username: &str,
        credential: &Credential,
    ) -> Result<Option<bool>, Refusal>;
}

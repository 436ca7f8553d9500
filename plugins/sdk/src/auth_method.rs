//! What an auth method is.

use crate::answer::Answer;
use crate::call::{Call, Context};
use crate::database_plugin::StoreTime;
use crate::host::Host;
use crate::login::Login;
use crate::metric::Metric;
use crate::table::{self, Row};
use bulkhead_wire::description::Description;
use bulkhead_wire::failure::{Failure, Kind};
use bulkhead_wire::stored::Stored;
use std::collections::BTreeMap;

/// An auth method: who it is, its table, and whether its logins may live on.
///
/// Rows marked [`login`](Row::login) ask for no token and answer [`Answer::login`]. It has neither
/// leases nor database plugins: those faces of [`Host`] refuse. It keeps nothing between calls.
pub trait AuthMethod {
    /// Canonical name, also the type under which it is mounted.
    const NAME: &'static str;
    /// Other types under which it may be mounted, as clients of the field name them. For components
    /// of the server only.
    const ALIASES: &'static [&'static str] = &[];
    /// Semantic version; most say `env!("CARGO_PKG_VERSION")`.
    const VERSION: &'static str;
    /// Version of the stored data's shape. A change needs [`migrate`](Self::migrate).
    const SCHEMA: u32;
    /// Newest schema of stored data that this version reads, if later versions change the data in a
    /// way that this version tolerates. A mount can go back to this version from such a version.
    const READS_SCHEMA_UP_TO: Option<u32> = None;
    /// One sentence for people.
    const ABOUT: &'static str;
    /// What it wants to do beyond its own mount, as lines of grants, as in
    /// [`SecretsEngine::ASKS`](crate::SecretsEngine::ASKS).
    const ASKS: &'static [&'static str] = &[];
    /// What it may tell the operator in figures, by [`Host::metrics`].
    const METRICS: &'static [Metric] = &[];
    /// The API.
    const TABLE: &'static [Row];
    /// As [`SecretsEngine::INDEXED`](crate::SecretsEngine::INDEXED).
    const INDEXED: bool = false;

    /// What the host learns at registration.
    #[must_use]
    fn description() -> Description {
        Description {
            kind: "auth-method".to_owned(),
            name: Self::NAME.to_owned(),
            aliases: Self::ALIASES.iter().map(|name| (*name).to_owned()).collect(),
            version: Self::VERSION.to_owned(),
            schema: Self::SCHEMA,
            reads_schema_up_to: Self::READS_SCHEMA_UP_TO,
            indexed: Self::INDEXED,
            asks: Self::ASKS.iter().map(|line| (*line).to_owned()).collect(),
            metrics: Self::METRICS.iter().map(Metric::described).collect(),
            about: Self::ABOUT.to_owned(),
            routes: Self::TABLE.iter().map(Row::route).collect(),
            raw: None,
        }
    }

    /// Serves one request of the table.
    ///
    /// # Errors
    /// What the row's handler refused. A caller who cannot be proven is refused with permission
    /// denied or invalid request, never with internal.
    fn handle(host: &dyn Host, call: &Call) -> Result<Answer, Failure> {
        table::dispatch(Self::TABLE, host, call)
    }

    /// Proves again, from what was kept, that a login may live longer, and says what it would be
    /// now: the lifetimes count, the alias must be the same, and where the policies are others the
    /// host refuses the renewal. `increment` is what the caller asks for in seconds from now; the
    /// host applies it.
    ///
    /// # Errors
    /// Why it may not: the role is gone, the identity is not admitted any more. Unsupported, unless
    /// a method says otherwise.
    fn renew_login(
        _host: &dyn Host,
        _context: &Context,
        _held: &HeldLogin,
        _increment: u64,
    ) -> Result<Login, Failure> {
        let message = format!("{} does not renew its logins; log in again", Self::NAME);
        Err(Failure::new(Kind::UnsupportedOperation, message))
    }

    /// Which alias a login would be for, by what the caller says and without any proof: the name
    /// that a login which is refused counts against, and that is locked after too many of them. A
    /// method whose proof cannot be guessed, such as a signed token, leaves this as it is.
    ///
    /// # Errors
    /// Those of the host; none by default, as it tells nothing.
    fn alias_lookahead(_host: &dyn Host, _call: &Call) -> Result<Option<String>, Failure> {
        Ok(None)
    }

    /// As [`SecretsEngine::migrate`](crate::SecretsEngine::migrate).
    ///
    /// # Errors
    /// Internal, unless a method says otherwise, for any other schema than its own.
    fn migrate(_host: &dyn Host, _context: &Context, from: u32) -> Result<(), Failure> {
        if from == Self::SCHEMA {
            return Ok(());
        }
        let (name, version, schema) = (Self::NAME, Self::VERSION, Self::SCHEMA);
        Err(Failure::internal(format!(
            "{name} {version} stores data of schema {schema} and cannot read schema {from}; mount \
             a version that does"
        )))
    }

    /// As [`SecretsEngine::wake`](crate::SecretsEngine::wake).
    ///
    /// # Errors
    /// A failure means another attempt later. Internal, unless a method says otherwise.
    fn wake(_host: &dyn Host, _context: &Context, key: &str, _attempt: u32) -> Result<(), Failure> {
        Err(Failure::internal(format!(
            "{} was woken for {key:?}, but schedules nothing",
            Self::NAME
        )))
    }
}

/// A login that holds, as the host kept it. No `Debug`: what it kept may be a secret.
#[derive(Clone, PartialEq)]
pub struct HeldLogin {
    /// Who was proven.
    pub alias: String,
    /// Those that the login gave.
    pub policies: Vec<String>,
    /// As the login gave it.
    pub metadata: BTreeMap<String, String>,
    /// What the login kept, as it was written.
    pub internal: String,
    /// When it was issued.
    pub issued: StoreTime,
    /// When its token ends as things stand.
    pub expires: StoreTime,
}

impl HeldLogin {
    /// What the login kept, as the type it was made from.
    ///
    /// # Errors
    /// Internal when it is none of `T`, or of a later version.
    pub fn internal<T: Stored>(&self) -> Result<T, Failure> {
        T::from_bytes(self.internal.as_bytes()).map_err(|_| {
            Failure::internal("the login was made by another version and cannot be read")
        })
    }
}

//! The trait of an auth method.

use crate::answer::Answer;
use crate::call::{Call, Context};
use crate::database_plugin::StoreTime;
use crate::host::Host;
use crate::login::Login;
use crate::metric::Metric;
use crate::table::{self, Row};
use bulkhead_wire::description::ComponentDescription;
use bulkhead_wire::failure::{Failure, FailureKind, quoted};
use bulkhead_wire::stored::Stored;
use std::collections::BTreeMap;

/// An auth method: its name and version, its table, and the renewal of its logins.
///
/// Rows marked [`login`](Row::login) need no token and answer [`Answer::login`]. An auth method has
/// neither leases nor database plugins: these interfaces of [`Host`] refuse every call. An auth
/// method must keep nothing between calls.
pub trait AuthMethod {
    /// Canonical name, also a mount type.
    const NAME: &'static str;
    /// Further mount types, named as clients of the field name the method. Only for components that
    /// are part of the server.
    const ALIASES: &'static [&'static str] = &[];
    /// Semantic version; most methods use `env!("CARGO_PKG_VERSION")`.
    const VERSION: &'static str;
    /// Version of the stored data's shape. A change needs [`migrate`](Self::migrate).
    const SCHEMA: u32;
    /// Newest schema of stored data that this version reads, if later versions change the data in a
    /// way that this version tolerates. A mount can go back to this version from such a version.
    const READS_SCHEMA_UP_TO: Option<u32> = None;
    /// One sentence for people.
    const ABOUT: &'static str;
    /// Grants that the method needs beyond its own mount, as in
    /// [`SecretsEngine::ASKS`](crate::SecretsEngine::ASKS).
    const ASKS: &'static [&'static str] = &[];
    /// Metrics that the method reports by [`Host::metrics`].
    const METRICS: &'static [Metric] = &[];
    /// The routes of the API.
    const TABLE: &'static [Row];
    /// As [`SecretsEngine::INDEXED`](crate::SecretsEngine::INDEXED).
    const INDEXED: bool = false;

    /// Builds the description that the host reads at registration.
    #[must_use]
    fn description() -> ComponentDescription {
        ComponentDescription {
            kind: "auth-method".to_owned(),
            name: Self::NAME.to_owned(),
            aliases: Self::ALIASES.iter().map(|name| (*name).to_owned()).collect(),
            version: Self::VERSION.to_owned(),
            schema: Self::SCHEMA,
            reads_schema_up_to: Self::READS_SCHEMA_UP_TO,
            indexed: Self::INDEXED,
            upgrades_api: false,
            asks: Self::ASKS.iter().map(|line| (*line).to_owned()).collect(),
            metrics: Self::METRICS.iter().map(Metric::described).collect(),
            about: Self::ABOUT.to_owned(),
            routes: Self::TABLE.iter().map(Row::route).collect(),
            raw: None,
        }
    }

    /// Serves a request to a route of the table.
    ///
    /// # Errors
    /// The failure of the row's handler. A caller without a valid proof is refused with permission
    /// denied or invalid request, never with internal.
    fn handle(host: &dyn Host, call: &Call) -> Result<Answer, Failure> {
        table::dispatch(Self::TABLE, host, call)
    }

    /// Checks again, from the stored data, that a login may live longer, and returns the login in
    /// its present form. The host uses the lifetimes of this login. The alias must be the same; if
    /// the policies differ, the host refuses the renewal. `increment` is the lifetime that the
    /// caller asks for, in seconds from now; the host applies it.
    ///
    /// # Errors
    /// The reason against a renewal: the role is gone, or the identity is not admitted any more.
    /// Unsupported by default.
    fn renew_login(
        _host: &dyn Host,
        _context: &Context,
        _held: &HeldLogin,
        _increment: u64,
    ) -> Result<Login, Failure> {
        let message = format!("{} does not renew logins; log in again", Self::NAME);
        Err(Failure::new(FailureKind::UnsupportedOperation, message))
    }

    /// Returns the alias that a login would be for, from the caller's unproven input. Refused
    /// logins count against this alias, and too many refusals lock the alias. A method with a proof
    /// that cannot be guessed, such as a signed token, keeps the default.
    ///
    /// # Errors
    /// Those of the host; none by default, because the default returns `None`.
    fn alias_lookahead(_host: &dyn Host, _call: &Call) -> Result<Option<String>, Failure> {
        Ok(None)
    }

    /// Migrates stored data, as [`SecretsEngine::migrate`](crate::SecretsEngine::migrate).
    ///
    /// # Errors
    /// Internal by default, for any schema other than [`SCHEMA`](Self::SCHEMA).
    fn migrate(_host: &dyn Host, _context: &Context, from: u32) -> Result<(), Failure> {
        if from == Self::SCHEMA {
            return Ok(());
        }
        let (name, version, schema) = (Self::NAME, Self::VERSION, Self::SCHEMA);
        Err(Failure::internal(format!(
            "{name} {version} stores data of schema {schema} and cannot read schema {from}; mount \
             a version for this schema"
        )))
    }

    /// Runs a timer or guard, as [`SecretsEngine::wake`](crate::SecretsEngine::wake).
    ///
    /// # Errors
    /// Any failure leads to another attempt later. Internal by default.
    fn wake(_host: &dyn Host, _context: &Context, key: &str, _attempt: u32) -> Result<(), Failure> {
        Err(Failure::internal(format!(
            "{} was woken for {key:?}, but schedules nothing",
            Self::NAME
        )))
    }
}

/// A valid login, as the host stored it. No `Debug`: the internal data may be a secret.
#[derive(Clone, PartialEq)]
pub struct HeldLogin {
    /// Alias of the proven identity.
    pub alias: String,
    /// Policies that the login gave.
    pub policies: Vec<String>,
    /// Metadata that the login gave.
    pub metadata: BTreeMap<String, String>,
    /// Internal data of the login, as text.
    pub internal: String,
    /// Time of the login.
    pub issued: StoreTime,
    /// End of the login's token, unless renewed.
    pub expires: StoreTime,
}

impl HeldLogin {
    /// Reads the internal data of the login as a `T`.
    ///
    /// # Errors
    /// Internal if the data is not a `T`, or of a later version.
    pub fn internal<T: Stored>(&self) -> Result<T, Failure> {
        T::from_bytes(self.internal.as_bytes()).map_err(|_| {
            Failure::internal("the login was made by another version and cannot be read")
        })
    }

    /// Returns the role of the login for a renewal. `found` is the present role called `name`, if
    /// it is the role of the login and no later role of the same name.
    ///
    /// # Errors
    /// Invalid request without such a role.
    pub fn present_role<R>(found: Option<R>, name: &str) -> Result<R, Failure> {
        found.ok_or_else(|| {
            let name = quoted(name);
            Failure::invalid(format!("role {name} does not exist during renewal; log in again"))
        })
    }
}

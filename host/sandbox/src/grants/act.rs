//! An act of a component, as the first line of an import checks the act, and the grant for the act.

use super::host::{HostPattern, Origin, ServerHost};
use super::line::{AmbientValue, CryptoVerb, Grant};
use bulkhead_wire::failure::{Failure, quoted};
use std::fmt;

/// An act of a component.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Act<'a> {
    /// Access to the mount's own rows.
    Storage,
    /// Leases of the mount.
    Leases,
    /// The current time.
    Time,
    /// Wake-ups at a given time.
    Timers,
    /// Random bytes.
    Random,
    /// Keys derived from passwords, and hashes of passwords.
    Derive,
    /// Checks of signatures and certificates, parsing of keys, and digests.
    Verify,
    /// An operation with a private key, or the creation of a private key.
    Crypto(CryptoVerb),
    /// Generated passwords.
    Passwords,
    /// The cache shared by the mount's calls.
    Cache,
    /// Log lines for the operator.
    Log,
    /// Metrics for the operator.
    Metrics,
    /// Closing of the mount's own sessions.
    Close,
    /// A call to a database plugin, by the name under which a connection asks for the plugin.
    Database(&'a str),
    /// A session with a database server.
    Sql(SqlTarget<'a>),
    /// A request to a web server.
    Http(&'a Origin),
    /// A value of this machine's surroundings.
    Ambient(AmbientAct<'a>),
    /// A session with a directory.
    Ldap(&'a LdapServer),
    /// A token that proves the mount's identity to others.
    IdentityToken,
    /// Entities that the mount may see.
    Entities,
}

/// A value of this machine's surroundings.
#[derive(Clone, Copy, Debug)]
pub(crate) enum AmbientAct<'a> {
    /// A value of the environment.
    Environment(&'a str),
    /// A token of the machine's cloud identity.
    CloudToken,
    /// The address of the pod's cluster, and requests to the cluster in the pod's name.
    PodIdentity,
}

impl AmbientAct<'_> {
    /// Returns the grant for this value alone.
    pub(super) fn grant(self) -> Result<Grant, Failure> {
        Ok(Grant::Ambient(match self {
            Self::CloudToken => AmbientValue::CloudToken,
            Self::PodIdentity => AmbientValue::PodIdentity,
            Self::Environment(name) => AmbientValue::environment(name).map_err(Failure::denied)?,
        }))
    }
}

/// A database server in the component's own spelling.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SqlTarget<'a> {
    /// The kind of server.
    pub(crate) driver: &'a str,
    /// A name or an address.
    pub(crate) host: &'a str,
    /// The port.
    pub(crate) port: u16,
}

/// A directory's server. Displayed as `ldaps://dc1.example.com:636`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LdapServer {
    /// With TLS from the start.
    pub(crate) tls: bool,
    /// The host.
    pub(crate) host: ServerHost,
    /// The port.
    pub(crate) port: u16,
}

impl fmt::Display for LdapServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ldap{}://{}:{}", if self.tls { "s" } else { "" }, self.host, self.port)
    }
}

impl LdapServer {
    /// Returns the grant for this server alone.
    pub(super) fn grant(&self) -> Grant {
        Grant::Ldap { tls: self.tls, host: HostPattern::from(self.host.clone()), port: self.port }
    }
}

impl Origin {
    /// Returns the grant for this origin alone.
    pub(super) fn grant(&self) -> Grant {
        Grant::Http { tls: self.tls, host: HostPattern::from(self.host.clone()), port: self.port }
    }
}

impl SqlTarget<'_> {
    /// Returns the grant for this target alone.
    pub(super) fn grant(self) -> Result<Grant, Failure> {
        let Self { driver, host, port } = self;
        let line = ServerHost::parse(host).map(|host| format!("sql:{driver}://{host}:{port}"));
        line.and_then(|line| line.parse().ok()).ok_or_else(|| {
            let target = quoted(&format!("{driver}://{host}:{port}"));
            Failure::denied(format!(
                "{target} is not a target that a grant can allow: give a known driver, a host and \
                 a port"
            ))
        })
    }
}

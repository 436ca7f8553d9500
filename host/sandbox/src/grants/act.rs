//! One act of a component: what the first line of an import asks, and the grant that it needs.

use super::host::{Host, HostPattern, Origin};
use super::line::{Ambient, CryptoVerb, Grant};
use bulkhead_wire::failure::{Failure, quoted};
use std::fmt;

/// One act of a component, as the first line of an import asks for it.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Act<'a> {
    /// Its mount's own rows.
    Storage,
    /// Leases of its mount.
    Leases,
    /// What time it is.
    Time,
    /// Being woken.
    Timers,
    /// Random bytes.
    Random,
    /// Keys derived from passwords, and hashes of them.
    Derive,
    /// Signatures and certificates checked, keys read, digests.
    Verify,
    /// Something made with a private key, or such a key.
    Crypto(CryptoVerb),
    /// Generated passwords.
    Passwords,
    /// What its mount's calls keep for each other.
    Cache,
    /// Lines for the operator.
    Log,
    /// Figures for the operator.
    Metrics,
    /// Ending its mount's own sessions.
    Close,
    /// A database plugin, by the name under which a connection asks for it.
    Database(&'a str),
    /// A session with a database server.
    Sql(SqlTarget<'a>),
    /// A request to a web server.
    Http(&'a Origin),
    /// What this machine has from its surroundings.
    Ambient(AmbientAct<'a>),
    /// A session with a directory.
    Ldap(&'a LdapServer),
    /// A token by which the mount shows others who it is.
    IdentityToken,
    /// Entities that its mount may see.
    Entities,
}

/// What a component wants of this machine's surroundings.
#[derive(Clone, Copy, Debug)]
pub(crate) enum AmbientAct<'a> {
    /// A value of the environment.
    Environment(&'a str),
    /// A token of the machine in its cloud.
    CloudToken,
    /// Where the cluster is whose pod the machine is, and requests there in the pod's name.
    PodIdentity,
}

impl AmbientAct<'_> {
    /// The grant for this alone.
    pub(super) fn grant(self) -> Result<Grant, Failure> {
        Ok(Grant::Ambient(match self {
            Self::CloudToken => Ambient::CloudToken,
            Self::PodIdentity => Ambient::PodIdentity,
            Self::Environment(name) => Ambient::environment(name).map_err(Failure::denied)?,
        }))
    }
}

/// What a component wants to dial, as it spells it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SqlTarget<'a> {
    /// The kind of server.
    pub(crate) driver: &'a str,
    /// A name or an address.
    pub(crate) host: &'a str,
    /// Its port.
    pub(crate) port: u16,
}

/// A directory's server. Shown as `ldaps://dc1.example.com:636`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LdapServer {
    /// With TLS from the start.
    pub(crate) tls: bool,
    /// Where.
    pub(crate) host: Host,
    /// Its port.
    pub(crate) port: u16,
}

impl fmt::Display for LdapServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ldap{}://{}:{}", if self.tls { "s" } else { "" }, self.host, self.port)
    }
}

impl LdapServer {
    /// The grant for this server alone.
    pub(super) fn grant(&self) -> Grant {
        Grant::Ldap { tls: self.tls, host: HostPattern::from(self.host.clone()), port: self.port }
    }
}

impl Origin {
    /// The grant for this origin alone.
    pub(super) fn grant(&self) -> Grant {
        Grant::Http { tls: self.tls, host: HostPattern::from(self.host.clone()), port: self.port }
    }
}

impl SqlTarget<'_> {
    /// The grant for this target alone.
    pub(super) fn grant(self) -> Result<Grant, Failure> {
        let Self { driver, host, port } = self;
        let line = Host::parse(host).map(|host| format!("sql:{driver}://{host}:{port}"));
        line.and_then(|line| line.parse().ok()).ok_or_else(|| {
            let target = quoted(&format!("{driver}://{host}:{port}"));
            Failure::denied(format!(
                "{target} is no target that a grant is for: it takes a known driver, a host and a \
                 port"
            ))
        })
    }
}

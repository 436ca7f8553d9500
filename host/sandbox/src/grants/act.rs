//! An act of a component, as the first line of an import checks the act, and the grant for the act.

use super::line::{AmbientValue, CryptoVerb, Grant};
use bulkhead_outbound::addresses::{HostPattern, LdapServer, Origin, ServerHost};
use bulkhead_wire::failure::{Failure, quoted};

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

impl From<&LdapServer> for Grant {
    /// The grant for this server alone.
    fn from(server: &LdapServer) -> Self {
        let host = HostPattern::from(server.host.clone());
        Self::Ldap { tls: server.tls, host, port: server.port }
    }
}

impl From<&Origin> for Grant {
    /// The grant for this origin alone.
    fn from(origin: &Origin) -> Self {
        let host = HostPattern::from(origin.host.clone());
        Self::Http { tls: origin.tls, host, port: origin.port }
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
                "{target} is not a valid target of a grant: give a known driver, a host and a port"
            ))
        })
    }
}

//! How the SQL library is told to reach one vetted address, and by which name the server there has
//! to prove itself.

use super::failure::{SqlFailure, failed};
use super::relay::Relay;
use crate::bindings::database_plugin::bulkhead::plugin::sql::{Endpoint, Target};
use crate::grants::Host;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

/// How much of TLS is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mode {
    Disable,
    Prefer,
    Require,
    VerifyCa,
    VerifyFull,
}

/// How the library reaches one vetted address.
pub(super) struct Way {
    pub(super) mode: Mode,
    /// What a certificate is held against: the address itself, unless the connection has a name
    /// and asks that the certificate bears it.
    pub(super) name: String,
    pub(super) port: u16,
    /// Leads to the address where the name does not.
    pub(super) relay: Option<Arc<Relay>>,
}

impl Way {
    pub(super) fn to(
        address: SocketAddr,
        target: &Target,
        endpoint: &Endpoint,
        connect_timeout: Duration,
    ) -> Result<Self, SqlFailure> {
        let (mode, port) = (Mode::read(&target.tls.mode)?, address.port());
        let name = proven_name(mode, target, endpoint)?.filter(|name| *name != address.ip().into());
        let Some(name) = name else {
            return Ok(Self { mode, name: address.ip().to_string(), port, relay: None });
        };
        let relay = Relay::open(address, connect_timeout)
            .map_err(|error| failed("unreachable", format!("no relay opens: {error}")))?;
        Ok(Self { mode, name: bare(&name), port, relay: Some(Arc::new(relay)) })
    }

    /// Why the address could not be dialled: the library hears of a relay that closes.
    pub(super) fn fault(&self) -> Option<SqlFailure> {
        let kind = self.relay.as_ref()?.fault()?;
        Some(failed("unreachable", kind.to_string()))
    }
}

impl Mode {
    fn read(asked: &str) -> Result<Self, SqlFailure> {
        Ok(match asked {
            "disable" => Self::Disable,
            "prefer" => Self::Prefer,
            "require" => Self::Require,
            "verify-ca" => Self::VerifyCa,
            "verify-full" => Self::VerifyFull,
            other => {
                return Err(failed("invalid-request", format!("there is no TLS mode {other:?}")));
            }
        })
    }
}

/// As certificates write it.
fn bare(host: &Host) -> String {
    match host {
        Host::Name(name) => name.clone(),
        Host::Address(address) => address.to_string(),
    }
}

/// The name that a certificate has to bear; `None` where that is the address or no matter. A host
/// that is written as an address is that address, in whichever spelling.
fn proven_name(
    mode: Mode,
    target: &Target,
    endpoint: &Endpoint,
) -> Result<Option<Host>, SqlFailure> {
    match (&target.tls.server_name, Host::parse(&endpoint.host)) {
        _ if mode != Mode::VerifyFull => Ok(None),
        (Some(asked), _) => match Host::parse(asked) {
            Some(host) => Ok(Some(host)),
            None => Err(failed("invalid-request", format!("{asked:?} is no name of a server"))),
        },
        (None, Some(Host::Name(name))) => Ok(Some(Host::Name(name))),
        (None, _) => Ok(None),
    }
}

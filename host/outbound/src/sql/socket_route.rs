//! The route of the SQL library to a vetted address, and the name that the server's certificate
//! must bear.

use super::database_target::{DatabaseEndpoint, DatabaseTarget};
use super::failure::{SqlFailure, failed};
use super::gate::{ProtocolFilter, SqlFault, SqlProtocol, SqlTlsSettings, TlsRequirement};
use super::relay::TlsRelay;
use crate::addresses::ServerHost;
use crate::tls::{self, TlsConfigs, TrustSettings};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use zeroize::Zeroizing;

/// The TLS mode of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SqlTlsMode {
    Disable,
    Prefer,
    Require,
    VerifyCa,
    VerifyFull,
}

/// A target, and the TLS settings for reaching the target.
#[derive(Clone, Copy)]
pub(crate) struct DialTarget<'a> {
    pub(super) target: &'a DatabaseTarget,
    pub(super) tls: &'a TlsConfigs,
}

/// The route of the library to a vetted address.
pub(super) struct SocketRoute {
    /// Leads to the address. The library speaks in clear, because the relay terminates TLS.
    pub(super) relay: Arc<TlsRelay>,
    pub(super) port: u16,
}

impl SocketRoute {
    pub(super) fn open_route(
        address: SocketAddr,
        aim: DialTarget<'_>,
        endpoint: &DatabaseEndpoint,
        connect_timeout: Duration,
    ) -> Result<Self, SqlFailure> {
        let speech = match aim.target.driver.as_str() {
            "postgres" => SqlProtocol::Postgres,
            "mysql" => SqlProtocol::Mysql,
            other => {
                return Err(failed("invalid-request", format!("there is no SQL driver {other:?}")));
            }
        };
        let security = security(address, aim, endpoint)?;
        let password = Zeroizing::new(aim.target.password.clone());
        let relay =
            TlsRelay::open(address, ProtocolFilter { speech, security, password, connect_timeout })
                .map_err(|error| failed("unreachable", format!("no relay opens: {error}")))?;
        Ok(Self { relay: Arc::new(relay), port: address.port() })
    }

    /// Returns the failure found by the relay, if the relay failed. The library itself sees only a
    /// relay that closes.
    pub(super) fn fault(&self) -> Option<SqlFailure> {
        let fault = self.relay.fault()?;
        let code = if fault == SqlFault::TimedOut { "timed-out" } else { "unreachable" };
        let failure = failed(code, fault.to_string());
        Some(match fault {
            SqlFault::Tls(_) | SqlFault::NoTls => failure.of_tls(),
            _ => failure,
        })
    }
}

fn security(
    address: SocketAddr,
    DialTarget { target, tls }: DialTarget<'_>,
    endpoint: &DatabaseEndpoint,
) -> Result<TlsRequirement, SqlFailure> {
    let mode = SqlTlsMode::read(&target.tls.mode)?;
    if mode == SqlTlsMode::Disable {
        return Ok(TlsRequirement::Clear);
    }
    let name = proven_name(mode, target, endpoint)?.unwrap_or_else(|| address.ip().into());
    let trust = TrustSettings {
        root_certificates: target.tls.root_certificates.as_deref(),
        client_certificate: target.tls.client_certificate.as_deref(),
        client_key: target.tls.client_key.as_deref(),
        insecure: matches!(mode, SqlTlsMode::Prefer | SqlTlsMode::Require),
        any_name: mode == SqlTlsMode::VerifyCa,
        ..TrustSettings::default()
    };
    let name = tls::server_name(&name, None);
    let secured = name.and_then(|name| Ok(SqlTlsSettings::new(tls.client(&trust)?, name)));
    let secured = secured.map_err(|why| failed("invalid-request", why))?;
    match mode {
        SqlTlsMode::Prefer => Ok(TlsRequirement::Preferred(secured)),
        _ => Ok(TlsRequirement::Required(secured)),
    }
}

impl SqlTlsMode {
    fn read(mode: &str) -> Result<Self, SqlFailure> {
        Ok(match mode {
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

/// Returns the name that the certificate must bear. `None`: the certificate must bear the address,
/// or the mode checks no name. Every spelling of an address means the same address.
fn proven_name(
    mode: SqlTlsMode,
    target: &DatabaseTarget,
    endpoint: &DatabaseEndpoint,
) -> Result<Option<ServerHost>, SqlFailure> {
    match (&target.tls.server_name, ServerHost::parse(&endpoint.host)) {
        _ if mode != SqlTlsMode::VerifyFull => Ok(None),
        (Some(name), _) => match ServerHost::parse(name) {
            Some(host) => Ok(Some(host)),
            None => Err(failed("invalid-request", format!("{name:?} is not a name of a server"))),
        },
        (None, Some(ServerHost::Name(name))) => Ok(Some(ServerHost::Name(name))),
        (None, _) => Ok(None),
    }
}

//! How the SQL library is told to reach one vetted address, and by which name the server there has
//! to prove itself.

use super::failure::{SqlFailure, failed};
use super::relay::Relay;
use crate::bindings::database_plugin::bulkhead::plugin::sql::{Endpoint, Target};
use crate::grants::Host;
use sqlx::ConnectOptions as _;
use sqlx::postgres::{PgConnectOptions, PgSslMode};
use std::net::SocketAddr;
use std::str::FromStr as _;
use std::sync::Arc;
use std::time::Duration;

/// How the library reaches one vetted address.
pub(super) struct Way {
    mode: PgSslMode,
    /// What a certificate is held against: the address itself, unless the connection has a name
    /// and asks that the certificate bears it.
    name: String,
    port: u16,
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
        let asked = &target.tls.mode;
        let mode = PgSslMode::from_str(asked)
            .map_err(|_| failed("invalid-request", format!("there is no TLS mode {asked:?}")))?;
        let port = address.port();
        match Host::parse(&endpoint.host) {
            Some(Host::Name(name)) if matches!(mode, PgSslMode::VerifyFull) => {
                let relay = Relay::open(address, connect_timeout)
                    .map_err(|error| failed("unreachable", format!("no relay opens: {error}")))?;
                Ok(Self { mode, name, port, relay: Some(Arc::new(relay)) })
            }
            _ => Ok(Self { mode, name: address.ip().to_string(), port, relay: None }),
        }
    }

    /// Why the address could not be dialled: the library hears of a relay that closes.
    pub(super) fn fault(&self) -> Option<SqlFailure> {
        let kind = self.relay.as_ref()?.fault()?;
        Some(failed("unreachable", kind.to_string()))
    }
}

/// Every field is set; what sqlx took from the environment is overwritten.
pub(super) fn options(target: &Target, way: &Way) -> PgConnectOptions {
    let tls = &target.tls;
    let mut options = PgConnectOptions::new_without_pgpass()
        .host(&way.name)
        .port(way.port)
        .username(&target.username)
        .password(&target.password)
        .database(if target.database.is_empty() { &target.username } else { &target.database })
        .ssl_mode(way.mode)
        .application_name("bulkhead")
        .statement_cache_capacity(0)
        .disable_statement_logging();
    if let Some(pem) = &tls.root_certificates {
        options = options.ssl_root_cert_from_pem(pem.clone().into_bytes());
    }
    if let (Some(certificate), Some(key)) = (&tls.client_certificate, &tls.client_key) {
        options = options.ssl_client_cert_from_pem(certificate).ssl_client_key_from_pem(key);
    }
    if let Some(relay) = &way.relay {
        options = options.socket(relay.folder());
    }
    options
}

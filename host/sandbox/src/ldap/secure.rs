//! The way to a server: a vetted address, and TLS where it is asked for, before anything else is
//! said.
//!
//! The attacks this file stops: a server, or what stands in front of it, that refuses StartTLS so
//! that the password goes in clear; and one that sends bytes along with its consent, which would be
//! taken for a part of the secured session.

use super::failure::{LdapFailure, failed};
use super::gate::read_message;
use super::message::{Fault, Request, result_code};
use crate::bindings::secrets_engine::bulkhead::plugin::ldap::Tls;
use crate::grants::LdapServer;
use crate::http::TlsFault;
use crate::tls::{self, TlsConfigs, Trust};
use rustls::client::ClientConfig;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

/// The request for TLS (RFC 4511, section 4.14): message 1, its operation and the OID of it.
const START_TLS: &[u8] = b"\x30\x1d\x02\x01\x01\x77\x18\x80\x161.3.6.1.4.1.1466.20037";

/// How the connections of a login are secured.
#[derive(Clone)]
pub(super) struct Secured {
    config: Arc<ClientConfig>,
    starttls: bool,
    server_name: Option<String>,
}

/// A connection, secured or not.
pub(super) trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<S: AsyncRead + AsyncWrite + Send + Unpin> Stream for S {}

impl Secured {
    /// # Errors
    /// What is wrong with the settings; no certificate or key is quoted.
    pub(super) fn new(settings: &Tls, configs: &TlsConfigs) -> Result<Self, String> {
        let trust = Trust {
            root_certificates: settings.root_certificates.as_deref(),
            client_certificate: settings.client_certificate.as_deref(),
            client_key: settings.client_key.as_deref(),
            versions: tls::versions(&settings.min_version, &settings.max_version)?,
            insecure: settings.insecure,
            ..Trust::default()
        };
        Ok(Self {
            config: configs.config(&trust)?,
            starttls: settings.starttls,
            server_name: settings.server_name.clone(),
        })
    }

    /// Whether nothing goes to the server in clear.
    pub(super) fn is_tls(&self, server: &LdapServer) -> bool {
        server.tls || self.starttls
    }

    /// A connection to `address`, which was vetted, with the server there.
    pub(super) async fn connect(
        &self,
        server: &LdapServer,
        address: SocketAddr,
    ) -> Result<Box<dyn Stream>, LdapFailure> {
        let mut stream = TcpStream::connect(address).await.map_err(|error| broken(&error))?;
        // Without it a message in two pieces is only slower.
        let _ = stream.set_nodelay(true);
        if !self.is_tls(server) {
            return Ok(Box::new(stream));
        }
        let name = tls::server_name(&server.host, self.server_name.as_deref())
            .map_err(|why| failed("invalid-request", why))?;
        if !server.tls {
            start_tls(&mut stream).await?;
        }
        let connector = TlsConnector::from(Arc::clone(&self.config));
        let stream = connector.connect(name, stream).await.map_err(|error| broken(&error))?;
        Ok(Box::new(stream))
    }
}

/// Asks for TLS, and takes no byte more than the consent.
async fn start_tls(stream: &mut TcpStream) -> Result<(), LdapFailure> {
    stream.write_all(START_TLS).await.map_err(|error| broken(&error))?;
    let answer = read_message(stream).await.map_err(no_consent)?;
    let asked = Request::read(START_TLS).map_err(no_consent)?;
    Request::check(Some(asked), &answer).map_err(no_consent)?;
    if result_code(&answer).map_err(no_consent)? != 0 {
        return Err(failed(
            "unreachable",
            "the server refuses StartTLS, and is not spoken to in clear",
        ));
    }
    let mut next = [0_u8; 1];
    match stream.try_read(&mut next) {
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(()),
        _ => Err(failed("unreachable", "the server sent more than its consent to StartTLS")),
    }
}

fn no_consent(fault: Fault) -> LdapFailure {
    failed("unreachable", format!("StartTLS: {fault}"))
}

/// Why there is no connection, in words of ours.
fn broken(error: &io::Error) -> LdapFailure {
    match TlsFault::find(error) {
        Some(fault) => failed("unreachable", fault.to_string()),
        None => {
            failed("unreachable", format!("the connection was not made or broke: {}", error.kind()))
        }
    }
}

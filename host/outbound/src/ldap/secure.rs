//! The connection to a server: a vetted address, and TLS before any other request, if TLS is
//! configured.
//!
//! This file prevents two attacks: a server or an attacker on the path refuses StartTLS so that the
//! password goes in clear; or an attacker sends clear bytes along with the server's consent, which
//! would become part of the secured session.

use super::directory_target::DirectoryTls;
use super::failure::{LdapFailure, failed};
use super::gate::read_message;
use super::message::{LdapFault, LdapRequest, result_code};
use crate::addresses::LdapServer;
use crate::socket_options;
use crate::tls::{self, TlsConfigs, TrustSettings};
use bulkhead_tls::{TlsClient, TlsFault};
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt as _};
use tokio::net::TcpStream;

/// The request for StartTLS (RFC 4511, section 4.14): message 1, with the operation and its OID.
const START_TLS: &[u8] = b"\x30\x1d\x02\x01\x01\x77\x18\x80\x161.3.6.1.4.1.1466.20037";

/// TLS settings of a login's connections.
#[derive(Clone)]
pub(super) struct LdapTlsSettings {
    client: Arc<TlsClient>,
    starttls: bool,
    server_name: Option<String>,
}

/// A connection with or without TLS.
pub(super) trait LdapStream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<S: AsyncRead + AsyncWrite + Send + Unpin> LdapStream for S {}

impl LdapTlsSettings {
    /// Reads the TLS settings of a target.
    ///
    /// # Errors
    /// The fault of the settings, without quoting a certificate or key.
    pub(super) fn new(settings: &DirectoryTls, configs: &TlsConfigs) -> Result<Self, String> {
        let trust = TrustSettings {
            root_certificates: settings.root_certificates.as_deref(),
            client_certificate: settings.client_certificate.as_deref(),
            client_key: settings.client_key.as_deref(),
            versions: tls::versions(&settings.min_version, &settings.max_version)?,
            insecure: settings.insecure,
            ..TrustSettings::default()
        };
        Ok(Self {
            client: configs.client(&trust)?,
            starttls: settings.starttls,
            server_name: settings.server_name.clone(),
        })
    }

    /// Returns whether every request to the server is within TLS.
    pub(super) fn is_tls(&self, server: &LdapServer) -> bool {
        server.tls || self.starttls
    }

    /// Connects to the server at the vetted `address`.
    pub(super) async fn connect(
        &self,
        server: &LdapServer,
        address: SocketAddr,
    ) -> Result<Box<dyn LdapStream>, LdapFailure> {
        let mut stream = TcpStream::connect(address).await.map_err(|error| io_failure(&error))?;
        socket_options::set(&stream);
        if !self.is_tls(server) {
            return Ok(Box::new(stream));
        }
        let name = tls::server_name(&server.host, self.server_name.as_deref())
            .map_err(|why| failed("invalid-request", why))?;
        if !server.tls {
            start_tls(&mut stream).await?;
        }
        let stream = self.client.connect(name, stream).await;
        Ok(Box::new(stream.map_err(|error| io_failure(&error))?))
    }
}

/// Requests StartTLS, and reads no byte after the server's consent.
async fn start_tls(stream: &mut TcpStream) -> Result<(), LdapFailure> {
    stream.write_all(START_TLS).await.map_err(|error| io_failure(&error))?;
    let answer = read_message(stream).await.map_err(start_tls_refusal)?;
    let request = LdapRequest::read(START_TLS).map_err(start_tls_refusal)?;
    LdapRequest::check(Some(request), &answer).map_err(start_tls_refusal)?;
    if result_code(&answer).map_err(start_tls_refusal)? != 0 {
        return Err(failed(
            "unreachable",
            "the server refuses StartTLS, and is not spoken to in clear",
        ));
    }
    let mut next = [0_u8; 1];
    match stream.try_read(&mut next) {
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(()),
        _ => Err(failed("unreachable", "the server sent more than the consent to StartTLS")),
    }
}

fn start_tls_refusal(fault: LdapFault) -> LdapFailure {
    failed("unreachable", format!("StartTLS: {fault}"))
}

/// Converts an I/O error, without the text of a library.
fn io_failure(error: &io::Error) -> LdapFailure {
    match TlsFault::find(error) {
        Some(fault) => failed("unreachable", tls::describe(fault)),
        None => {
            failed("unreachable", format!("the connection was not made or broke: {}", error.kind()))
        }
    }
}

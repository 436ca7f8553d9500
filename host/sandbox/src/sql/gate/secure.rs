//! How a connection is secured: how much of TLS is asked for, whom it trusts, and by which name the
//! server has to prove itself.

use super::{Fault, broken};
use crate::http::TlsFault;
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use std::io;
use std::sync::Arc;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

/// A connection, secured or not.
pub(super) trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<S: AsyncRead + AsyncWrite + Send + Unpin> Stream for S {}

/// What is asked of TLS.
pub(crate) enum Security {
    /// Nothing.
    Clear,
    /// As [`Tls`] says, where the server has it.
    Preferred(Tls),
    /// As [`Tls`] says, or nothing is said.
    Required(Tls),
}

/// How TLS is agreed on.
pub(crate) struct Tls {
    config: Arc<ClientConfig>,
    name: ServerName<'static>,
}

impl Tls {
    /// By these settings, with a server that has to bear that name.
    pub(crate) fn new(config: Arc<ClientConfig>, name: ServerName<'static>) -> Self {
        Self { config, name }
    }

    /// Begins on a connection whose server said that it is ready.
    pub(super) async fn secure(&self, stream: TcpStream) -> Result<Box<dyn Stream>, Fault> {
        let connector = TlsConnector::from(Arc::clone(&self.config));
        let secured = connector.connect(self.name.clone(), stream).await;
        Ok(Box::new(secured.map_err(|error| broken(&error))?))
    }
}

impl Security {
    /// How to agree on TLS with a server that has it, or has it not; `None`: it is spoken to in
    /// clear.
    pub(super) fn with(&self, server_has_it: bool) -> Result<Option<&Tls>, Fault> {
        match self {
            Self::Clear => Ok(None),
            Self::Preferred(tls) => Ok(server_has_it.then_some(tls)),
            Self::Required(tls) if server_has_it => Ok(Some(tls)),
            Self::Required(_) => Err(Fault::NoTls),
        }
    }
}

/// Why a connection broke, in words of ours.
pub(super) fn why(error: &io::Error) -> String {
    match TlsFault::find(error) {
        Some(fault) => fault.to_string(),
        None => error.kind().to_string(),
    }
}

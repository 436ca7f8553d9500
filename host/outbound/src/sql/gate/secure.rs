//! Security of a connection: the TLS mode, the trusted authorities, and the name that the server's
//! certificate must bear.

use super::{SqlFault, io_fault};
use bulkhead_tls::{ServerName, TlsClient};
use std::sync::Arc;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;

/// A connection with or without TLS.
pub(super) trait SqlStream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<S: AsyncRead + AsyncWrite + Send + Unpin> SqlStream for S {}

/// The TLS mode of a connection.
pub(crate) enum TlsRequirement {
    /// No TLS.
    Clear,
    /// TLS if the server supports TLS; otherwise a connection in clear.
    Preferred(SqlTlsSettings),
    /// TLS; the gate refuses a server without TLS.
    Required(SqlTlsSettings),
}

/// Settings of a TLS handshake.
pub(crate) struct SqlTlsSettings {
    client: Arc<TlsClient>,
    name: ServerName<'static>,
}

impl SqlTlsSettings {
    /// Creates TLS settings for a server that must prove `name`.
    pub(crate) fn new(client: Arc<TlsClient>, name: ServerName<'static>) -> Self {
        Self { client, name }
    }

    /// Performs the handshake on a connection whose server agreed to TLS.
    pub(super) async fn secure(&self, stream: TcpStream) -> Result<Box<dyn SqlStream>, SqlFault> {
        let secured = self.client.connect(self.name.clone(), stream).await;
        Ok(Box::new(secured.map_err(|error| io_fault(&error))?))
    }
}

impl TlsRequirement {
    /// Returns the TLS settings for a server with or without TLS. `None`: the connection is in
    /// clear.
    pub(super) fn with(&self, server_has_it: bool) -> Result<Option<&SqlTlsSettings>, SqlFault> {
        match self {
            Self::Clear => Ok(None),
            Self::Preferred(tls) => Ok(server_has_it.then_some(tls)),
            Self::Required(tls) if server_has_it => Ok(Some(tls)),
            Self::Required(_) => Err(SqlFault::NoTls),
        }
    }
}

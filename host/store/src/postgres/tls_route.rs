//! TLS to a server: the checks of the server, and the route of the driver through TLS.
//!
//! This file prevents a second set of rules of trust: the driver has its own TLS with other
//! authorities, and is not used for TLS. The driver dials a socket of this process, and a task
//! carries the bytes over a connection that `bulkhead_tls` secured.

#[cfg(test)]
mod tests;

use std::io;
use std::time::Duration;

use bulkhead_tls::{
    Authorities, ClientIdentity, ClientSettings, ClientStream, LocalSocket, NamedFile,
    PeerVerification, ServerName, TlsClient, TlsFault, server_name,
};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::{TcpStream, UnixStream};
use tokio::task::JoinHandle;
use tokio::time::timeout;

use bulkhead_place::postgres_place::{
    PUBLIC_AUTHORITIES, PostgresServer, PostgresTls, PostgresTlsMode,
};

/// The request for TLS: its length and its code.
const SSL_REQUEST: [u8; 8] = [0, 0, 0, 8, 0x04, 0xd2, 0x16, 0x2f];
/// Maximum number of bytes read or written at once.
const CHUNK: usize = 16 << 10;
/// Maximum time of unacknowledged bytes, in milliseconds, before the system ends the connection:
/// the limit of a statement is the same.
#[cfg(target_os = "linux")]
const UNACKNOWLEDGED_TIME: u32 = 45_000;
/// Maximum time for the end of a task that lost its connection.
const FAULT_TIME: Duration = Duration::from_secs(1);

/// Settings of TLS to one server, with the files read.
pub(super) struct TlsSettings {
    client: TlsClient,
    /// The name that the certificate bears, if the name is checked; sent to the server in any case.
    name: Option<ServerName<'static>>,
    /// Returns `true` if a server without TLS is used in clear.
    is_optional: bool,
}

impl TlsSettings {
    /// Reads the files of the settings. `None`: no TLS.
    ///
    /// # Errors
    /// The file or setting that cannot be used, the reason and the remedy.
    pub(super) fn read(
        tls: &PostgresTls,
        server: &PostgresServer,
    ) -> Result<Option<TlsSettings>, String> {
        if tls.mode == PostgresTlsMode::Disable {
            return Ok(None);
        }
        let verification = verification(tls)?;
        let name = server_name(&server.host).map_err(|fault| fault.to_string());
        let name = match &verification {
            PeerVerification::Full(_) => Some(name?),
            _ => name.ok(),
        };
        let mut settings = ClientSettings::new(verification);
        settings.identity = match (&tls.client_certificate, &tls.client_key) {
            (None, None) => None,
            (Some(certificate), Some(key)) => Some(ClientIdentity::read(
                &NamedFile::new("sslcert", certificate),
                &NamedFile::new("sslkey", key),
            )?),
            _ => return Err("sslcert and sslkey are given together, or neither".to_owned()),
        };
        let client = settings.client().map_err(|fault| fault.to_string())?;
        let is_optional = tls.mode == PostgresTlsMode::Prefer;
        Ok(Some(TlsSettings { client, name, is_optional }))
    }

    /// Asks the server for TLS, performs the handshake, and opens a route for the driver. `None`:
    /// the server has no TLS, and the settings permit a connection in clear.
    ///
    /// # Errors
    /// The reason and the remedy.
    pub(super) async fn secure(&self, mut stream: TcpStream) -> Result<Option<TlsRoute>, String> {
        set_options(&stream);
        let peer = stream.peer_addr().map_err(|error| error.to_string())?;
        let asking = async {
            stream.write_all(&SSL_REQUEST).await?;
            stream.read_u8().await
        };
        match asking.await.map_err(|error| format!("the connection broke: {error}"))? {
            b'S' => {}
            b'N' if self.is_optional => return Ok(None),
            b'N' => {
                return Err("the server has no TLS; turn on ssl at the server, or give \
                            sslmode=disable for a network without attackers"
                    .to_owned());
            }
            _ => return Err("the server does not speak the protocol of PostgreSQL".to_owned()),
        }
        let name = self.name.clone().unwrap_or_else(|| ServerName::from(peer.ip()));
        let secured = self.client.connect(name, stream).await;
        let secured = secured.map_err(|error| describe(&error))?;
        TlsRoute::open(secured, peer.port())
            .map(Some)
            .map_err(|error| format!("no local socket opens: {error}"))
    }
}

/// Returns the checks of the server's certificate. As in the clients of PostgreSQL, `require` with
/// a file of authorities is `verify-ca`.
fn verification(tls: &PostgresTls) -> Result<PeerVerification, String> {
    let file = tls.root_certificates.as_ref();
    let is_public = file.is_some_and(|path| path.as_os_str() == PUBLIC_AUTHORITIES);
    let is_unchecked = match tls.mode {
        PostgresTlsMode::Prefer => !is_public,
        PostgresTlsMode::Require => file.is_none(),
        _ => false,
    };
    if is_unchecked {
        return Ok(PeerVerification::AnyCertificate);
    }
    let authorities = match file.filter(|_| !is_public) {
        None => Authorities::public_and(&[]).map_err(|fault| fault.to_string())?,
        Some(path) => {
            let file = NamedFile::new("sslrootcert", path);
            let authorities = Authorities::only(&file.certificates()?);
            authorities.map_err(|fault| format!("{file}: {fault}"))?
        }
    };
    // Anybody has a certificate of a public authority for some name.
    Ok(match tls.mode == PostgresTlsMode::VerifyFull || is_public {
        true => PeerVerification::Full(authorities),
        false => PeerVerification::AnyName(authorities),
    })
}

/// Returns the words for a failed handshake, with the setting that may repair it.
fn describe(error: &io::Error) -> String {
    match TlsFault::find(error) {
        Some(TlsFault::UnknownIssuer) => format!(
            "{}; give the certificate of the authority as sslrootcert",
            TlsFault::UnknownIssuer
        ),
        Some(TlsFault::WrongName) => format!(
            "{}; connect by a name of the certificate, or give sslmode=verify-ca",
            TlsFault::WrongName
        ),
        Some(fault) => fault.to_string(),
        None => format!("the connection broke during the TLS handshake: {}", error.kind()),
    }
}

/// Sets the options of a connection. A connection works without an option that the system refuses.
fn set_options(stream: &TcpStream) {
    let _ = stream.set_nodelay(true);
    let _ = rustix::net::sockopt::set_socket_keepalive(stream, true);
    #[cfg(target_os = "linux")]
    let _ = rustix::net::sockopt::set_tcp_user_timeout(stream, UNACKNOWLEDGED_TIME);
}

/// A local socket that leads to a secured connection, for a single session. Dropping the route ends
/// the session unless [`TlsRoute::release`] was called.
pub(super) struct TlsRoute {
    folder: String,
    port: u16,
    carrying: Option<JoinHandle<io::Result<()>>>,
}

impl TlsRoute {
    fn open(far: ClientStream<TcpStream>, port: u16) -> io::Result<TlsRoute> {
        let local = LocalSocket::bind(&format!(".s.PGSQL.{port}"))?;
        let folder = local.folder().to_owned();
        let carrying = tokio::spawn(async move {
            let near = local.accept().await;
            // One session only.
            drop(local);
            carry(near, far).await
        });
        Ok(TlsRoute { folder, port, carrying: Some(carrying) })
    }

    /// Returns folder and port by which the driver finds the socket.
    pub(super) fn address(&self) -> (&str, u16) {
        (&self.folder, self.port)
    }

    /// Leaves the connection to the session, until either end closes.
    pub(super) fn release(mut self) {
        self.carrying = None;
    }

    /// Returns the fault of TLS that ended a session, for example a refused client certificate. The
    /// driver itself sees only the end.
    pub(super) async fn fault(mut self) -> Option<String> {
        let carrying = self.carrying.as_mut()?;
        let ended = timeout(FAULT_TIME, carrying).await.ok()?.ok()?;
        let error = ended.err()?;
        TlsFault::find(&error).map(|_| describe(&error))
    }
}

impl Drop for TlsRoute {
    fn drop(&mut self) {
        if let Some(carrying) = &self.carrying {
            carrying.abort();
        }
    }
}

/// Carries the bytes of a session until either end closes.
async fn carry(near: UnixStream, far: ClientStream<TcpStream>) -> io::Result<()> {
    let (near_reader, near_writer) = near.into_split();
    let (far_reader, far_writer) = tokio::io::split(far);
    tokio::select! {
        ended = pass(near_reader, far_writer) => ended,
        ended = pass(far_reader, near_writer) => ended,
    }
}

async fn pass(mut from: impl AsyncRead + Unpin, mut to: impl AsyncWrite + Unpin) -> io::Result<()> {
    let mut chunk = vec![0; CHUNK];
    loop {
        let length = from.read(&mut chunk).await?;
        let Some(bytes) = chunk.get(..length).filter(|bytes| !bytes.is_empty()) else {
            return to.shutdown().await;
        };
        to.write_all(bytes).await?;
        to.flush().await?;
    }
}

//! The gate of PostgreSQL: a single byte answers the TLS request; messages have a type and a
//! length.

use super::secure::{SqlStream, TlsRequirement};
use super::{SqlFault, io_fault};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

/// Bytes before the body of a message: type and length.
pub(super) const HEAD: usize = 5;
/// Bytes of the head that the length field counts: the length field itself.
const LENGTH: usize = 4;
/// The TLS request: its length and its code.
const SSL_REQUEST: [u8; 8] = [0, 0, 0, 8, 0x04, 0xd2, 0x16, 0x2f];

/// Starts TLS. Reads only the server's 1-byte answer before the handshake: clear bytes that an
/// attacker injects after the answer then break the handshake, and never become part of the secured
/// session.
pub(super) async fn enter(
    security: &TlsRequirement,
    mut far: TcpStream,
) -> Result<Box<dyn SqlStream>, SqlFault> {
    if matches!(security, TlsRequirement::Clear) {
        return Ok(Box::new(far));
    }
    far.write_all(&SSL_REQUEST).await.map_err(|error| io_fault(&error))?;
    let has_tls = match far.read_u8().await.map_err(|error| io_fault(&error))? {
        b'S' => true,
        b'N' => false,
        _ => return Err(SqlFault::Protocol),
    };
    match security.with(has_tls)? {
        Some(tls) => tls.secure(far).await,
        None => Ok(Box::new(far)),
    }
}

/// Returns the length of the body that follows `head`.
pub(super) fn body_length(head: [u8; HEAD]) -> Option<usize> {
    let [_, length @ ..] = head;
    usize::try_from(u32::from_be_bytes(length)).ok()?.checked_sub(LENGTH)
}

/// Returns whether the library needs a message. The library stores every session parameter that a
/// server reports, without a limit, and needs only the version. The library needs no notices and no
/// notifications.
pub(super) fn is_wanted(message: &[u8]) -> bool {
    match message.first() {
        Some(b'S') => message.get(HEAD..).is_some_and(|body| body.starts_with(b"server_version\0")),
        Some(b'N' | b'A') => false,
        _ => true,
    }
}

//! PostgreSQL: a byte for the request of TLS, and messages of a type and a length.

use super::secure::{Security, Stream};
use super::{Fault, broken};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

/// Bytes before the body of a message: its type, and its length.
pub(super) const HEAD: usize = 5;
/// Of that, what the length counts.
const LENGTH: usize = 4;
/// The request for TLS: its length and its code.
const SSL_REQUEST: [u8; 8] = [0, 0, 0, 8, 0x04, 0xd2, 0x16, 0x2f];

/// Agrees on TLS. No byte more than the consent is read before it: what a stranger put behind that
/// cannot pass for a part of the secured session.
pub(super) async fn enter(
    security: &Security,
    mut far: TcpStream,
) -> Result<Box<dyn Stream>, Fault> {
    if matches!(security, Security::Clear) {
        return Ok(Box::new(far));
    }
    far.write_all(&SSL_REQUEST).await.map_err(|error| broken(&error))?;
    let has_tls = match far.read_u8().await.map_err(|error| broken(&error))? {
        b'S' => true,
        b'N' => false,
        _ => return Err(Fault::Protocol),
    };
    match security.with(has_tls)? {
        Some(tls) => tls.secure(far).await,
        None => Ok(Box::new(far)),
    }
}

/// How many bytes follow a head.
pub(super) fn body(head: [u8; HEAD]) -> Option<usize> {
    let [_, length @ ..] = head;
    usize::try_from(u32::from_be_bytes(length)).ok()?.checked_sub(LENGTH)
}

/// Whether the library needs a message. It keeps every parameter of a session that a server names,
/// and has no use for any but the version; nor for notices and notifications.
pub(super) fn is_wanted(message: &[u8]) -> bool {
    match message.first() {
        Some(b'S') => message.get(HEAD..).is_some_and(|body| body.starts_with(b"server_version\0")),
        Some(b'N' | b'A') => false,
        _ => true,
    }
}

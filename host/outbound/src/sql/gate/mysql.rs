//! The gate of MySQL: TLS begins after the server's greeting; packets carry a length and a number.
//!
//! The library believes that the session is in clear, so the gate does the work that differs under
//! TLS: it adds the TLS request before the answer to the greeting, renumbers that answer, and sends
//! the password itself if the server asks for the password.

use super::secure::{SqlStream, TlsRequirement};
use super::{SqlFault, io_fault, read_message};
use crate::limits;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt as _};
use tokio::net::{TcpStream, UnixStream};
use zeroize::Zeroizing;

/// Bytes before the body of a packet: length and number.
pub(super) const HEAD: usize = 4;
/// A packet with this body length continues in the next packet.
const CONTINUED_LENGTH: usize = 0xff_ff_ff;
/// The capability flag for TLS, of servers and clients.
const TLS: u16 = 0x0800;
/// Length in bytes of the common prefix of the TLS request and the answer to the greeting:
/// capabilities, largest packet, character set, and filler.
const ANSWER_HEAD: usize = 32;
/// First bytes of packets: success, failure, and the request for another authentication plugin.
const OK: u8 = 0x00;
const ERROR: u8 = 0xff;
const SWITCH: u8 = 0xfe;
/// Packets that ask for the password itself: of `caching_sha2_password`, and the switch to
/// `sha256_password`.
const FULL_PROOF: &[u8] = &[0x01, 0x04];
const SHA256_PLUGIN: &[u8] = b"\xfesha256_password\0";

/// Starts TLS and stays until the server accepts or refuses the login.
pub(super) async fn enter(
    security: &TlsRequirement,
    password: &str,
    near: &mut UnixStream,
    mut far: TcpStream,
) -> Result<Option<Box<dyn SqlStream>>, SqlFault> {
    let Some(greeting) = read(&mut far).await? else { return Ok(None) };
    let Some(has_tls) = has_tls(&greeting) else {
        // The library reads the server's refusal, and sends nothing in the clear.
        write(near, &greeting).await?;
        return Ok(None);
    };
    let tls = security.with(has_tls)?;
    write(near, &greeting).await?;
    let Some(mut answer) = read(near).await? else { return Ok(None) };
    let Some(tls) = tls else {
        write(&mut far, &answer).await?;
        return Ok(Some(Box::new(far)));
    };
    let request = ask_for_tls(&mut answer).ok_or(SqlFault::Protocol)?;
    write(&mut far, &request).await?;
    let mut far = tls.secure(far).await?;
    write(&mut far, &answer).await?;
    let goes_on = carry_authentication(password, near, &mut far).await?;
    Ok(goes_on.then_some(far))
}

/// Carries the authentication packets, and sends the password if the server asks for the password
/// itself. Returns `false` if either end closed before the server's verdict.
async fn carry_authentication(
    password: &str,
    near: &mut UnixStream,
    far: &mut Box<dyn SqlStream>,
) -> Result<bool, SqlFault> {
    loop {
        let Some(packet) = read(far).await? else { return Ok(false) };
        let body = packet.get(HEAD..).unwrap_or_default();
        if body == FULL_PROOF || body.starts_with(SHA256_PLUGIN) {
            write(far, &cleartext_packet(password, &packet)).await?;
            continue;
        }
        write(near, &packet).await?;
        match body.first() {
            Some(&OK | &ERROR) => return Ok(true),
            Some(&SWITCH) => {
                let Some(proof) = read(near).await? else { return Ok(false) };
                write(far, &proof).await?;
            }
            // The server sends its next packet without an answer.
            _ => {}
        }
    }
}

/// Builds the packet with the unhashed password in answer to the packet `request`.
fn cleartext_packet(password: &str, request: &[u8]) -> Zeroizing<Vec<u8>> {
    let length = u32::try_from(password.len() + 1).unwrap_or(u32::MAX).to_le_bytes();
    let [low, middle, high, _] = length;
    let number = request.get(HEAD - 1).map_or(0, |number| number.wrapping_add(1));
    let mut packet = Zeroizing::new(vec![low, middle, high, number]);
    packet.extend_from_slice(password.as_bytes());
    packet.push(0);
    packet
}

/// Returns whether a greeting announces TLS. `None`: the packet is not a greeting.
fn has_tls(greeting: &[u8]) -> Option<bool> {
    let (protocol, rest) = greeting.get(HEAD..)?.split_first()?;
    if *protocol == ERROR {
        return None;
    }
    let version = rest.iter().position(|byte| *byte == 0)?;
    // The connection number, the first part of the salt, and a zero byte.
    let capabilities = rest.get(version + 1 + 4 + 8 + 1..)?.first_chunk()?;
    Some(u16::from_le_bytes(*capabilities) & TLS != 0)
}

/// Builds the TLS request that precedes `answer`, sets the TLS flag in `answer`, and gives `answer`
/// the next packet number. `None`: `answer` is too short for an answer to a greeting.
fn ask_for_tls(answer: &mut [u8]) -> Option<Vec<u8>> {
    let capabilities = answer.get_mut(HEAD..)?.first_chunk_mut::<2>()?;
    *capabilities = (u16::from_le_bytes(*capabilities) | TLS).to_le_bytes();
    let mut request = vec![u8::try_from(ANSWER_HEAD).ok()?, 0, 0, *answer.get(HEAD - 1)?];
    request.extend_from_slice(answer.get(HEAD..HEAD + ANSWER_HEAD)?);
    let number = answer.get_mut(HEAD - 1)?;
    *number = number.wrapping_add(1);
    Some(request)
}

/// Returns the length of the body that follows `head`.
pub(super) fn body_length(head: [u8; HEAD]) -> Option<usize> {
    let [low, middle, high, _] = head;
    usize::try_from(u32::from_le_bytes([low, middle, high, 0])).ok()
}

/// Checks the number of columns that a packet may announce. The library allocates memory for as
/// many columns as a result's first packet announces. The check covers every packet that could be
/// read as such a first packet; in all other packets, the number counts bytes of the same packet.
pub(super) fn check(packet: &[u8]) -> Result<(), SqlFault> {
    let body = packet.get(HEAD..).unwrap_or_default();
    let Some((number, rest)) = length_encoded_integer(body) else { return Ok(()) };
    let is_counted = usize::try_from(number).is_ok_and(|number| number <= rest.len());
    match number <= limits::SQL_COLUMNS || is_counted {
        true => Ok(()),
        false => Err(SqlFault::TooLarge),
    }
}

/// Returns the length-encoded integer at the start of a packet and the bytes after the integer, if
/// the integer has more than one byte.
fn length_encoded_integer(body: &[u8]) -> Option<(u64, &[u8])> {
    let (kind, rest) = body.split_first()?;
    let width = match kind {
        0xfc => 2,
        0xfd => 3,
        0xfe => 8,
        _ => return None,
    };
    let (number, rest) = rest.split_at_checked(width)?;
    let number = number.iter().rev().fold(0, |number, byte| (number << 8) | u64::from(*byte));
    Some((number, rest))
}

async fn read(from: &mut (impl AsyncRead + Unpin)) -> Result<Option<Vec<u8>>, SqlFault> {
    read_message::<HEAD>(from, body_length).await
}

async fn write(to: &mut (impl AsyncWrite + Unpin), packet: &[u8]) -> Result<(), SqlFault> {
    to.write_all(packet).await.map_err(|error| io_fault(&error))?;
    to.flush().await.map_err(|error| io_fault(&error))
}

const _: () = assert!(limits::SQL_MESSAGE_BYTES < CONTINUED_LENGTH);

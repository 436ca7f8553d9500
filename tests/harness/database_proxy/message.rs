//! The frames of PostgreSQL's protocol: a byte for the type, except in the first message of a
//! client, and the length with its own four bytes.

use std::io;
use tokio::io::{AsyncRead, AsyncReadExt as _};

/// Maximum length of a message that the proxy carries, in bytes.
const LONGEST: usize = 64 << 20;

/// Type of a message with the text of a simple query.
const QUERY: u8 = b'Q';

/// Reads one message, with its type and length.
///
/// # Errors
/// The end of the stream, also within a message, and a length below four or above the maximum.
pub(super) async fn read_message(
    from: &mut (impl AsyncRead + Unpin),
    has_type: bool,
) -> io::Result<Vec<u8>> {
    let mut message = Vec::new();
    if has_type {
        message.push(from.read_u8().await?);
    }
    let length = from.read_u32().await?;
    message.extend(length.to_be_bytes());
    let rest = usize::try_from(length).ok().and_then(|length| length.checked_sub(4));
    let rest = rest.filter(|rest| *rest <= LONGEST).ok_or(io::ErrorKind::InvalidData)?;
    let begin = message.len();
    message.resize(begin + rest, 0);
    from.read_exact(&mut message[begin..]).await?;
    Ok(message)
}

/// Returns true for a simple query with `part` in its text.
pub(super) fn is_query_with(message: &[u8], part: &str) -> bool {
    message.first() == Some(&QUERY)
        && message.windows(part.len()).any(|window| window == part.as_bytes())
}

//! Messages of a directory, parsed strictly before the LDAP library sees the messages (decision
//! T8).
//!
//! The library recurses as deep as a message nests, and panics on a message of an unexpected form,
//! with the message in the panic text. This file therefore checks each whole message against the
//! grammar of the few expected answers. A message that passes nests at most six levels deep, and
//! the library can decode the message.

use std::fmt;

/// Maximum number of bytes of a length field, besides its first byte.
const LENGTH_BYTES: usize = 4;

const SEQUENCE: u8 = 0x30;
const SET: u8 = 0x31;
const BOOLEAN: u8 = 0x01;
const INTEGER: u8 = 0x02;
const OCTETS: u8 = 0x04;
const ENUMERATED: u8 = 0x0a;
const CONTROLS: u8 = 0xa0;
const REFERRAL: u8 = 0xa3;
const SASL_CREDENTIALS: u8 = 0x87;
const RESPONSE_NAME: u8 = 0x8a;
const RESPONSE_VALUE: u8 = 0x8b;

const SEARCH_ENTRY: u8 = 0x64;
const SEARCH_DONE: u8 = 0x65;
const SEARCH_REFERENCE: u8 = 0x73;
const EXTENDED_RESPONSE: u8 = 0x78;

/// A fault of a server's messages. A fault holds no bytes of the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LdapFault {
    /// The bytes are not an LDAP message, or no message of an expected kind.
    NotLdap,
    /// The message answers no pending request.
    Unasked,
    /// A message, or the whole answer to a request, is too large.
    TooLarge,
    /// The server announced the end of the session.
    Disconnected,
    /// The session ended.
    Ended,
}

impl fmt::Display for LdapFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NotLdap => "the server's answer is not LDAP",
            Self::Unasked => "the server's answer does not match the request",
            Self::TooLarge => "the server's answer is too large",
            Self::Disconnected => "the server ended the session with a notice",
            Self::Ended => "the connection ended before the answer did",
        })
    }
}

/// A pending request; the library chooses its id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct LdapRequest {
    pub(super) id: u32,
    /// The tag of its operation.
    operation: u8,
}

impl LdapRequest {
    /// Parses a message that the library wrote.
    pub(super) fn read(message: &[u8]) -> Result<Self, LdapFault> {
        let mut parts = BerElements::of(message, SEQUENCE)?;
        let id = number(parts.expect(INTEGER)?)?;
        let (operation, _) = parts.next()?.ok_or(LdapFault::NotLdap)?;
        Ok(Self { id, operation })
    }

    /// Returns `false` for unbind and abandon.
    pub(super) fn has_answer(self) -> bool {
        !matches!(self.operation, 0x42 | 0x50)
    }

    /// Returns the tag of the last message of the answer.
    fn final_tag(self) -> Option<u8> {
        match self.operation {
            0x60 => Some(0x61),
            0x63 => Some(SEARCH_DONE),
            0x66 => Some(0x67),
            0x77 => Some(EXTENDED_RESPONSE),
            _ => None,
        }
    }

    /// Checks a whole message of the server. Returns whether the message is the last message of the
    /// answer.
    ///
    /// # Errors
    /// The reason why the gate must not pass the message on.
    pub(super) fn check(request: Option<Self>, message: &[u8]) -> Result<bool, LdapFault> {
        let mut parts = BerElements::of(message, SEQUENCE)?;
        let id = number(parts.expect(INTEGER)?)?;
        let (tag, content) = parts.next()?.ok_or(LdapFault::NotLdap)?;
        if id == 0 && tag == EXTENDED_RESPONSE {
            return Err(LdapFault::Disconnected);
        }
        let request = request.filter(|request| request.id == id).ok_or(LdapFault::Unasked)?;
        let is_search = request.final_tag() == Some(SEARCH_DONE);
        match tag {
            SEARCH_ENTRY if is_search => check_entry(content)?,
            SEARCH_REFERENCE if is_search => check_texts(content)?,
            _ if request.final_tag() == Some(tag) => check_result(content)?,
            _ => return Err(LdapFault::Unasked),
        }
        if let Some((tag, controls)) = parts.next()? {
            if tag != CONTROLS {
                return Err(LdapFault::NotLdap);
            }
            check_controls(controls)?;
        }
        parts.end()?;
        Ok(request.final_tag() == Some(tag))
    }
}

/// Returns the result code of a checked message.
///
/// # Errors
/// The message is not a result.
pub(super) fn result_code(message: &[u8]) -> Result<u32, LdapFault> {
    let mut parts = BerElements::of(message, SEQUENCE)?;
    parts.expect(INTEGER)?;
    let (_, content) = parts.next()?.ok_or(LdapFault::NotLdap)?;
    number(BerElements(content).expect(ENUMERATED)?)
}

/// Returns the cookie of a page (RFC 2696). The cookie of the last page is empty.
///
/// # Errors
/// The value is malformed.
pub(super) fn page_cookie(value: &[u8]) -> Result<Vec<u8>, LdapFault> {
    let mut parts = BerElements::of(value, SEQUENCE)?;
    number(parts.expect(INTEGER)?)?;
    let cookie = parts.expect(OCTETS)?.to_vec();
    parts.end()?;
    Ok(cookie)
}

/// Returns the lengths of a message's head and body. `None`: more bytes of the head are needed.
///
/// # Errors
/// The head begins no message, or a message of more than `most` bytes.
pub(super) fn length(head: &[u8], most: usize) -> Result<Option<(usize, usize)>, LdapFault> {
    match head {
        [tag, ..] if *tag != SEQUENCE => Err(LdapFault::NotLdap),
        [_, first, rest @ ..] => match read_length(*first, rest)? {
            Some((_, bytes)) if bytes > most => Err(LdapFault::TooLarge),
            Some((used, bytes)) => Ok(Some((used + 2, bytes))),
            None => Ok(None),
        },
        _ => Ok(None),
    }
}

/// Returns the number of bytes after `first` that the length field takes, and the length.
fn read_length(first: u8, rest: &[u8]) -> Result<Option<(usize, usize)>, LdapFault> {
    let count = usize::from(first & 0x7f);
    if first < 0x80 {
        return Ok(Some((0, count)));
    }
    if count == 0 || count > LENGTH_BYTES {
        // An indefinite length, or a length over every limit.
        return Err(if count == 0 { LdapFault::NotLdap } else { LdapFault::TooLarge });
    }
    let Some(bytes) = rest.get(..count) else { return Ok(None) };
    Ok(Some((count, bytes.iter().fold(0, |length, byte| (length << 8) | usize::from(*byte)))))
}

/// The elements of a message or of an element: a tag and a content each.
struct BerElements<'a>(&'a [u8]);

impl<'a> BerElements<'a> {
    /// Returns the elements inside the single element of `bytes`.
    fn of(bytes: &'a [u8], tag: u8) -> Result<Self, LdapFault> {
        let mut outer = BerElements(bytes);
        let inner = outer.expect(tag)?;
        outer.end()?;
        Ok(BerElements(inner))
    }

    fn next(&mut self) -> Result<Option<(u8, &'a [u8])>, LdapFault> {
        let [tag, first, rest @ ..] = self.0 else {
            return if self.0.is_empty() { Ok(None) } else { Err(LdapFault::NotLdap) };
        };
        // LDAP uses no tags in the long form.
        if tag & 0x1f == 0x1f {
            return Err(LdapFault::NotLdap);
        }
        let (used, length) = read_length(*first, rest)?.ok_or(LdapFault::NotLdap)?;
        let content =
            rest.get(used..).and_then(|rest| rest.get(..length)).ok_or(LdapFault::NotLdap)?;
        self.0 = rest.get(used + length..).ok_or(LdapFault::NotLdap)?;
        Ok(Some((*tag, content)))
    }

    fn expect(&mut self, wanted: u8) -> Result<&'a [u8], LdapFault> {
        match self.next()? {
            Some((tag, content)) if tag == wanted => Ok(content),
            _ => Err(LdapFault::NotLdap),
        }
    }

    fn end(&self) -> Result<(), LdapFault> {
        if self.0.is_empty() { Ok(()) } else { Err(LdapFault::NotLdap) }
    }
}

fn number(content: &[u8]) -> Result<u32, LdapFault> {
    if content.is_empty() || content.len() > LENGTH_BYTES {
        return Err(LdapFault::NotLdap);
    }
    let value = content.iter().fold(0_u32, |value, byte| (value << 8) | u32::from(*byte));
    // No id, code or size is negative.
    if value > i32::MAX as u32 { Err(LdapFault::NotLdap) } else { Ok(value) }
}

fn text(content: &[u8]) -> Result<(), LdapFault> {
    std::str::from_utf8(content).map(drop).map_err(|_| LdapFault::NotLdap)
}

fn check_result(content: &[u8]) -> Result<(), LdapFault> {
    let mut parts = BerElements(content);
    number(parts.expect(ENUMERATED)?)?;
    text(parts.expect(OCTETS)?)?;
    text(parts.expect(OCTETS)?)?;
    while let Some((tag, content)) = parts.next()? {
        match tag {
            REFERRAL => check_texts(content)?,
            RESPONSE_NAME => text(content)?,
            SASL_CREDENTIALS | RESPONSE_VALUE => {}
            _ => return Err(LdapFault::NotLdap),
        }
    }
    Ok(())
}

fn check_entry(content: &[u8]) -> Result<(), LdapFault> {
    let mut parts = BerElements(content);
    text(parts.expect(OCTETS)?)?;
    let mut attributes = BerElements(parts.expect(SEQUENCE)?);
    parts.end()?;
    while let Some((tag, content)) = attributes.next()? {
        if tag != SEQUENCE {
            return Err(LdapFault::NotLdap);
        }
        let mut attribute = BerElements(content);
        text(attribute.expect(OCTETS)?)?;
        let mut values = BerElements(attribute.expect(SET)?);
        attribute.end()?;
        while let Some((tag, _)) = values.next()? {
            if tag != OCTETS {
                return Err(LdapFault::NotLdap);
            }
        }
    }
    Ok(())
}

fn check_texts(content: &[u8]) -> Result<(), LdapFault> {
    let mut texts = BerElements(content);
    while let Some((tag, content)) = texts.next()? {
        if tag != OCTETS {
            return Err(LdapFault::NotLdap);
        }
        text(content)?;
    }
    Ok(())
}

fn check_controls(content: &[u8]) -> Result<(), LdapFault> {
    let mut controls = BerElements(content);
    while let Some((tag, content)) = controls.next()? {
        if tag != SEQUENCE {
            return Err(LdapFault::NotLdap);
        }
        let mut control = BerElements(content);
        text(control.expect(OCTETS)?)?;
        let mut part = control.next()?;
        if let Some((BOOLEAN, flag)) = part {
            if flag.len() != 1 {
                return Err(LdapFault::NotLdap);
            }
            part = control.next()?;
        }
        if part.is_some_and(|(tag, _)| tag != OCTETS) {
            return Err(LdapFault::NotLdap);
        }
        control.end()?;
    }
    Ok(())
}

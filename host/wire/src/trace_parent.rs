//! The trace context of a caller: the headers `traceparent` and `tracestate` of W3C Trace Context.
//!
//! This file prevents a caller from sending free text to other servers by these headers: a
//! `traceparent` has one form, and a `tracestate` outside of its grammar or limits is dropped.

use std::fmt;

/// Length of a `traceparent` of version 00, in bytes.
const PARENT_BYTES: usize = 55;
/// Maximum length of a `tracestate` that is passed on, in bytes.
const STATE_BYTES: usize = 512;
/// Maximum number of members of a `tracestate`.
const STATE_MEMBERS: usize = 32;
/// Maximum length of a key or a value of a `tracestate`, in bytes.
const STATE_WORD_BYTES: usize = 256;

/// The trace context that a caller sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TraceParent {
    /// Id of the trace; never 0.
    pub trace_id: u128,
    /// Id of the caller's span; never 0.
    pub span_id: u64,
    /// The caller samples the trace.
    pub is_sampled: bool,
    /// `tracestate` as sent, for requests to other servers only.
    pub state: Option<Box<str>>,
}

impl TraceParent {
    /// Parses the values of the two headers. `None`: there is no single valid `traceparent`, so
    /// that a new trace begins.
    pub fn parse<'a>(
        mut parents: impl Iterator<Item = &'a [u8]>,
        states: impl Iterator<Item = &'a [u8]>,
    ) -> Option<Self> {
        let (Some(parent), None) = (parents.next(), parents.next()) else { return None };
        let parent = parse_parent(std::str::from_utf8(parent).ok()?)?;
        Some(Self { state: join_states(states), ..parent })
    }
}

/// Writes the value of the header `traceparent`.
impl fmt::Display for TraceParent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let flags = u8::from(self.is_sampled);
        write!(f, "00-{:032x}-{:016x}-{flags:02x}", self.trace_id, self.span_id)
    }
}

/// Parses a `traceparent`. A later version may append members after the four known members.
fn parse_parent(text: &str) -> Option<TraceParent> {
    let (known, rest) = text.split_at_checked(PARENT_BYTES)?;
    let mut members = known.split('-');
    let mut next = |length: usize| {
        let is_hex = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
        let member = members.next()?;
        (member.len() == length && member.bytes().all(is_hex)).then_some(member)
    };
    let (version, trace, span, flags) = (next(2)?, next(32)?, next(16)?, next(2)?);
    let is_known = match version {
        "00" => rest.is_empty(),
        "ff" => false,
        _ => rest.is_empty() || rest.starts_with('-'),
    };
    let trace_id = u128::from_str_radix(trace, 16).ok().filter(|id| *id != 0)?;
    let span_id = u64::from_str_radix(span, 16).ok().filter(|id| *id != 0)?;
    let is_sampled = u8::from_str_radix(flags, 16).ok()? & 1 == 1;
    is_known.then_some(TraceParent { trace_id, span_id, is_sampled, state: None })
}

/// Returns the joined values of `tracestate`; `None` outside of the grammar or the limits.
fn join_states<'a>(values: impl Iterator<Item = &'a [u8]>) -> Option<Box<str>> {
    let mut joined = String::new();
    for value in values {
        let value = std::str::from_utf8(value).ok()?;
        if !joined.is_empty() {
            joined.push(',');
        }
        joined.push_str(value);
        if joined.len() > STATE_BYTES {
            return None;
        }
    }
    let members = joined.split(',').map(|member| member.trim_matches([' ', '\t']));
    let mut members = members.filter(|member| !member.is_empty()).peekable();
    members.peek()?;
    let mut count = 0;
    let is_valid = members.all(|member| {
        count += 1;
        count <= STATE_MEMBERS && is_state_member(member)
    });
    is_valid.then(|| joined.into_boxed_str())
}

fn is_state_member(member: &str) -> bool {
    let Some((key, value)) = member.split_once('=') else { return false };
    let is_key =
        |byte: u8| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'_' | b'-' | b'*' | b'/' | b'@');
    let is_value = |byte: u8| matches!(byte, b' '..=b'~') && byte != b'=';
    let is_length = |word: &str| (1..=STATE_WORD_BYTES).contains(&word.len());
    let begins_well = key.starts_with(|c: char| c.is_ascii_lowercase() || c.is_ascii_digit());
    is_length(key)
        && is_length(value)
        && begins_well
        && key.bytes().all(is_key)
        && value.bytes().all(is_value)
}

#[cfg(test)]
mod tests;

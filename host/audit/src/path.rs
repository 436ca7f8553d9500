//! The path of a request as a line shows it: with hashes in place of secrets.
//!
//! This file prevents the disclosure of a token that a caller put into the path. Also bounds paths
//! full of tokens: each token takes 5 bytes in the request and 80 in a line, and a naive search
//! would take time quadratic in the length of the path.

use super::bounds;
use super::hashing::HashingKey;
use super::subject::AuditSubject;
use std::borrow::Cow;
use std::collections::HashSet;

/// Prefixes of Bulkhead's tokens (decision P16).
const TOKENS: [&str; 3] = ["bhs.", "bhb.", "bhr."];

/// Prefix below which other servers accept tokens in the path; some clients still send such paths.
/// Bulkhead has no such endpoint.
const UNSERVED: &str = "auth/token/";
/// Number of leading segments of such a path that name the operation.
const UNSERVED_NAMES: usize = 3;

/// The path of a request, with the parts to hide: captures that are marked secret, and tokens.
pub(super) struct SentPath<'a> {
    text: &'a str,
    captures: Vec<&'a str>,
    /// Segments to hide for other reasons. A path may consist of thousands.
    hidden: HashSet<&'a str>,
    is_unserved: bool,
    most: usize,
}

impl<'a> SentPath<'a> {
    /// Returns the path of the request of `subject`.
    pub(super) fn of(subject: &'a AuditSubject<'_>) -> Self {
        let text = subject.request.path.as_str();
        let captures = subject.route.iter().flat_map(|route| {
            let secret = route.captures.iter().filter(|(name, _)| route.table.is_secret(name));
            secret.map(|(_, text)| text.as_str())
        });
        let is_unserved = subject.route.is_none() && text.starts_with(UNSERVED);
        let most = if subject.is_trusted() { bounds::PATH } else { bounds::UNTRUSTED_PATH };
        let hidden = subject.hidden_segments.iter().map(String::as_str).collect();
        Self { text, captures: captures.collect(), hidden, is_unserved, most }
    }

    /// Returns whether any part of the path is hidden.
    fn has_hidden_parts(&self) -> bool {
        !self.hidden.is_empty() || self.has_secrets()
    }

    /// Returns whether the path contains a secret that an error may repeat.
    pub(super) fn has_secrets(&self) -> bool {
        !self.captures.is_empty()
            || self.text.split('/').enumerate().any(|(index, part)| self.is_secret(index, part))
    }

    fn is_hidden(&self, index: usize, segment: &str) -> bool {
        self.hidden.contains(segment) || self.is_secret(index, segment)
    }

    fn is_secret(&self, index: usize, segment: &str) -> bool {
        self.captures.contains(&segment)
            || TOKENS.iter().any(|mark| segment.starts_with(mark))
            || (self.is_unserved && index >= UNSERVED_NAMES)
    }

    /// Returns the path for display, and the number of its bytes that are left out.
    pub(super) fn render_path(&self, hashing: &HashingKey) -> (Cow<'a, str>, usize) {
        if self.text.len() <= self.most && !self.has_hidden_parts() {
            return (self.text.into(), 0);
        }
        // A capture of several segments is always the end of the path.
        let several = self.captures.iter().find(|capture| capture.contains('/'));
        let before = several.and_then(|capture| self.text.strip_suffix(*capture));
        let (mut shown, mut read) = (String::new(), 0);
        for (index, segment) in before.unwrap_or(self.text).split('/').enumerate() {
            let slash = usize::from(index > 0);
            let room = self.most.saturating_sub(shown.len() + slash);
            let (part, taken): (Cow<'_, str>, usize) = if self.is_hidden(index, segment) {
                (hashing.hash(segment).into(), segment.len())
            } else {
                let end = segment.floor_char_boundary(room);
                (segment.get(..end).unwrap_or_default().into(), end)
            };
            if part.len() > room {
                return (shown.into(), self.text.len() - read);
            }
            shown.extend((index > 0).then_some('/'));
            shown.push_str(&part);
            read += slash + taken;
            if taken < segment.len() {
                return (shown.into(), self.text.len() - read);
            }
        }
        if let (Some(_), Some(capture)) = (before, several) {
            shown.push_str(&hashing.hash(capture));
        }
        (shown.into(), 0)
    }
}

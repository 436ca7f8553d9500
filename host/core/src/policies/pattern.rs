//! Path patterns of rules: what they may look like, what they match, and which of two is the closer
//! one.
//!
//! The attack this file stops: a pattern that reads like a restriction and matches nothing. A `*`
//! in the middle or a `+` inside a segment would be such a pattern.

use bulkhead_wire::name::LONGEST_PATH;
use std::cmp::Reverse;

/// A pattern, ordered from the loosest to the closest: the order of the fields is the priority of
/// decision H10.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Pattern {
    /// Bytes before the first `+` or `*`: the later it stands, the closer the pattern.
    certain: usize,
    /// Does not end in `*`.
    closed: bool,
    /// Segments that are `+`.
    plus: Reverse<usize>,
    length: usize,
    /// Without a `/` in front and without the `*` at the end.
    body: String,
}

impl Pattern {
    /// Reads the label of a rule. One `/` in front is dropped.
    ///
    /// # Errors
    /// Why it cannot match as it looks, to stand behind the label, and what to write instead.
    pub fn parse(text: &str) -> Result<Self, &'static str> {
        let path = text.strip_prefix('/').unwrap_or(text);
        let (body, closed) = path.strip_suffix('*').map_or((path, true), |body| (body, false));
        if let Some(why) = fault(path, body) {
            return Err(why);
        }
        Ok(Self::of(body.to_owned(), closed))
    }

    fn of(body: String, closed: bool) -> Self {
        let is_plus = |segment: &&str| *segment == "+";
        Self {
            certain: body.find('+').unwrap_or(body.len()),
            closed,
            plus: Reverse(body.split('/').filter(is_plus).count()),
            length: body.len(),
            body,
        }
    }

    /// The pattern with another text before its end.
    pub(super) fn with_body(&self, body: String) -> Self {
        Self::of(body, self.closed)
    }

    /// The text, without a `/` in front and without the `*` at the end.
    pub(super) fn body(&self) -> &str {
        &self.body
    }

    /// The pattern `*`.
    pub(super) fn everything() -> Self {
        Self { certain: 0, closed: false, plus: Reverse(0), length: 0, body: String::new() }
    }

    /// The pattern with the segments of `path`, which falls under it, in place of its `+`.
    pub(super) fn filled_by(&self, path: &str) -> Self {
        let filled = self.body.split('/').zip(path.split('/'));
        let filled = filled.map(|(part, segment)| if part == "+" { segment } else { part });
        let body = filled.collect::<Vec<_>>().join("/");
        let (certain, length) = (body.len(), body.len());
        Self { certain, closed: self.closed, plus: Reverse(0), length, body }
    }

    /// Whether it is one path and no more.
    pub(super) fn is_exact(&self) -> bool {
        self.closed && self.plus == Reverse(0)
    }

    /// The path of an exact pattern, and what stands before the `*` of another.
    pub(super) fn into_body(self) -> String {
        self.body
    }

    /// The first segment of every path that falls under it; `None` if they begin with different
    /// ones.
    pub(super) fn first_segment(&self) -> Option<&str> {
        let (segment, _) = self.body.get(..self.certain)?.split_once('/')?;
        Some(segment)
    }

    /// Whether `path` falls under it. The path of a list operation ends in `/`, so that its last
    /// segment is empty; `+` takes that one too, as policies of this field expect.
    pub(super) fn matches(&self, path: &str) -> bool {
        if self.plus == Reverse(0) {
            return if self.closed { path == self.body } else { path.starts_with(&self.body) };
        }
        // Nearly all patterns end here, and every request is held against many.
        if !self
            .body
            .as_bytes()
            .get(..self.certain)
            .is_some_and(|certain| path.as_bytes().starts_with(certain))
        {
            return false;
        }
        let mut segments = path.split('/');
        let mut parts = self.body.split('/').peekable();
        while let Some(part) = parts.next() {
            let Some(segment) = segments.next() else { return false };
            if !self.closed && parts.peek().is_none() {
                return segment.starts_with(part);
            }
            if part != "+" && part != segment {
                return false;
            }
        }
        segments.next().is_none()
    }

    /// Whether all paths below `folder`, which ends in a slash, fall under it.
    pub(super) fn covers(&self, folder: &str) -> bool {
        !self.closed && self.plus == Reverse(0) && folder.starts_with(&self.body)
    }

    /// Whether some path at or below `folder`, which ends in a slash, may fall under it.
    pub(super) fn meets(&self, folder: &str) -> bool {
        let mut parts = self.body.split('/').peekable();
        for segment in folder.trim_end_matches('/').split('/') {
            let Some(part) = parts.next() else { return false };
            if !self.closed && parts.peek().is_none() {
                return segment.starts_with(part);
            }
            if part != "+" && part != segment {
                return false;
            }
        }
        true
    }
}

/// What is wrong with a pattern, to stand behind the pattern. `body` is `path` without its `*`.
fn fault(path: &str, body: &str) -> Option<&'static str> {
    let is_mixed = |segment: &str| segment.contains('+') && segment != "+";
    if path.is_empty() {
        Some("is empty; name a path such as \"database/creds/orders\"")
    } else if path.len() > LONGEST_PATH {
        Some("is longer than any path may be; shorten it")
    } else if path.chars().any(char::is_control) {
        Some("holds a control character, which no path has; remove it")
    } else if path.contains("+*") {
        Some("holds \"+*\"; write \"+/*\" for everything below a segment, or \"*\"")
    } else if body.contains('*') {
        Some(
            "has \"*\" before its end, where it would match nothing; use \"+\" for one segment, \
             \"*\" only at the end",
        )
    } else if body.split('/').any(is_mixed) {
        Some(
            "has \"+\" inside a segment; \"+\" stands for one whole segment, as in \
             \"database/+/orders\"",
        )
    } else if body.starts_with('/') || body.contains("//") {
        Some("has an empty segment, which no path has; remove a \"/\"")
    } else if path.split('/').any(|segment| segment == "." || segment == "..") {
        Some("has a segment \".\" or \"..\", which no path has; write out where it leads")
    } else {
        None
    }
}

#[cfg(test)]
mod tests {

    use super::*;

    fn pattern(text: &str) -> Pattern {
        Pattern::parse(text).unwrap()
    }

    #[test]
    fn what_a_pattern_matches() {
        for (text, path, expected) in [
            ("a/b", "a/b", true),
            ("a/b", "a/b/", false),
            ("/a/b", "a/b", true),
            ("a/b", "a/bc", false),
            ("a/*", "a/b/c", true),
            ("a/*", "a/", true),
            ("a/*", "a", false),
            ("a*", "abc/d", true),
            ("*", "anything/at/all", true),
            ("+", "a", true),
            ("+", "a/b", false),
            ("a/+/c", "a/b/c", true),
            ("a/+/c", "a/c", false),
            ("a/+/c", "a/b/b/c", false),
            ("a/+/c", "a/b/c/d", false),
            ("a/+", "a/", true),
            ("a/+", "a", false),
            ("+/b", "a/b", true),
            ("+/+", "a/b", true),
            ("a/+/*", "a/b/", true),
            ("a/+/*", "a/b", false),
            ("a/+/c*", "a/b/cd/e", true),
            ("a/+/c*", "a/b/d", false),
            ("a/+/c/d*", "a/b/x/d", false),
        ] {
            assert_eq!(pattern(text).matches(path), expected, "{text} {path}");
        }
    }

    /// Decision H10 row by row: the first is the closer one.
    #[test]
    fn the_closer_pattern_is_the_greater_one() {
        for (close, loose, rule) in [
            ("foo/bar/+/baz", "foo/+/bar/baz", "the wildcard stands later"),
            ("foo/a*", "foo/+", "the wildcard stands later"),
            ("foo/bar/*", "foo/*", "the wildcard stands later"),
            ("foo/+", "foo/*", "without a star at the end"),
            ("foo/+/bar", "foo/+/ba*", "without a star at the end"),
            ("foo/+/+", "foo/+/very/long/prefix*", "without a star at the end"),
            ("foo/+/bar", "foo/+/+", "fewer plus segments"),
            ("foo/+/b", "foo/+/+/bar", "fewer plus segments"),
            ("foo/+/ba*", "foo/+/+/bar*", "fewer plus segments"),
            ("foo/+/bar*", "foo/+/ba*", "longer"),
            ("foo/+/b*", "foo/+/a*", "lexicographically greater"),
        ] {
            assert!(pattern(close) > pattern(loose), "{close} before {loose}: {rule}");
        }
    }

    #[test]
    fn the_first_segment_is_known_when_it_stands_before_all_wildcards() {
        for (text, expected) in [
            ("a/*", Some("a")),
            ("/a/b*", Some("a")),
            ("a/+", Some("a")),
            ("a/+/c*", Some("a")),
            ("ab/c", Some("ab")),
            ("a*", None),
            ("*", None),
            ("+", None),
            ("+/a/b", None),
            ("a", None),
        ] {
            assert_eq!(pattern(text).first_segment(), expected, "{text}");
        }
    }

    #[test]
    fn a_leading_slash_makes_no_second_pattern() {
        assert_eq!(pattern("/a/*"), pattern("a/*"));
        assert_ne!(pattern("a/"), pattern("a"));
    }

    #[test]
    fn patterns_that_would_match_nothing_are_refused_with_the_remedy() {
        let long = "a".repeat(LONGEST_PATH + 1);
        for (text, part) in [
            ("", "is empty"),
            ("/", "is empty"),
            ("a/*/b", "only at the end"),
            ("a**", "only at the end"),
            ("**", "only at the end"),
            ("a/+*", "write \"+/*\""),
            ("+*", "write \"+/*\""),
            ("a/b+/c", "one whole segment"),
            ("a/+b", "one whole segment"),
            ("a/++/b", "one whole segment"),
            ("a//b", "empty segment"),
            ("//a", "empty segment"),
            ("a//*", "empty segment"),
            ("a\nb", "control character"),
            ("a/../b", "write out where it leads"),
            ("./a/*", "write out where it leads"),
            ("a/..", "write out where it leads"),
            (long.as_str(), "longer than any path"),
        ] {
            let error = Pattern::parse(text).unwrap_err();
            assert!(error.contains(part), "{text:?} gave {error}");
        }
    }
}

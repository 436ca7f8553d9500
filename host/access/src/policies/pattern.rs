//! Path patterns of rules: syntax, matching, and the order by closeness.
//!
//! This file prevents a pattern that reads like a restriction and matches nothing, such as a `*` in
//! the middle or a `+` inside a segment.

use bulkhead_wire::name::LONGEST_PATH;
use std::cmp::Reverse;

/// A path pattern. Patterns are ordered from the loosest to the closest: the order of the fields is
/// the priority of decision H10.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct PathPattern {
    /// Number of bytes before the first `+` or `*`. A later wildcard makes the pattern closer.
    certain: usize,
    /// True if the pattern does not end in `*`.
    closed: bool,
    /// Number of `+` segments.
    plus: Reverse<usize>,
    length: usize,
    /// The pattern without a leading `/` and without a trailing `*`.
    body: String,
}

impl PathPattern {
    /// Parses the label of a rule. A single leading `/` is dropped.
    ///
    /// # Errors
    /// The reason the pattern cannot match as written, and the remedy. The text follows the quoted
    /// label.
    pub fn parse(text: &str) -> Result<Self, &'static str> {
        let path = text.strip_prefix('/').unwrap_or(text);
        let (body, closed) = path.strip_suffix('*').map_or((path, true), |body| (body, false));
        if let Some(why) = find_fault(path, body) {
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

    /// Returns the pattern with another body.
    pub(super) fn with_body(&self, body: String) -> Self {
        Self::of(body, self.closed)
    }

    /// Returns the pattern without a leading `/` and without a trailing `*`.
    pub(super) fn body(&self) -> &str {
        &self.body
    }

    /// Returns the pattern `*`.
    pub(super) fn match_all() -> Self {
        Self { certain: 0, closed: false, plus: Reverse(0), length: 0, body: String::new() }
    }

    /// Returns the pattern with each `+` replaced by the segment of the matching `path`.
    pub(super) fn filled_by(&self, path: &str) -> Self {
        let filled = self.body.split('/').zip(path.split('/'));
        let filled = filled.map(|(part, segment)| if part == "+" { segment } else { part });
        let body = filled.collect::<Vec<_>>().join("/");
        let (certain, length) = (body.len(), body.len());
        Self { certain, closed: self.closed, plus: Reverse(0), length, body }
    }

    /// Returns true if the pattern matches exactly a single path.
    pub(super) fn is_exact(&self) -> bool {
        self.closed && self.plus == Reverse(0)
    }

    /// Returns the path of an exact pattern, or the text before the `*` of another pattern.
    pub(super) fn into_body(self) -> String {
        self.body
    }

    /// Returns the first segment common to all matching paths; `None` if the first segment varies.
    pub(super) fn first_segment(&self) -> Option<&str> {
        let (segment, _) = self.body.get(..self.certain)?.split_once('/')?;
        Some(segment)
    }

    /// Returns true if `path` matches. The path of a list operation ends in `/` and so has an empty
    /// last segment; `+` matches an empty segment too, as in other servers with this policy
    /// language.
    pub(super) fn matches(&self, path: &str) -> bool {
        if self.plus == Reverse(0) {
            return if self.closed { path == self.body } else { path.starts_with(&self.body) };
        }
        // Fast path: nearly all patterns fail here, and every request is compared with many
        // patterns.
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

    /// Returns true if the pattern matches every path below `folder`, which ends in a slash.
    pub(super) fn matches_all_below(&self, folder: &str) -> bool {
        !self.closed && self.plus == Reverse(0) && folder.starts_with(&self.body)
    }

    /// Returns true if the pattern may match a path at or below `folder`, which ends in a slash.
    pub(super) fn may_match_below(&self, folder: &str) -> bool {
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

/// Returns the fault of a pattern, as text to follow the pattern. `body` is `path` without its `*`.
fn find_fault(path: &str, body: &str) -> Option<&'static str> {
    let is_mixed = |segment: &str| segment.contains('+') && segment != "+";
    if path.is_empty() {
        Some("is empty; name a path such as \"database/creds/orders\"")
    } else if path.len() > LONGEST_PATH {
        Some("is longer than any path may be; shorten the path")
    } else if path.chars().any(char::is_control) {
        Some("holds a control character; remove the character")
    } else if path.contains("+*") {
        Some("holds \"+*\"; write \"+/*\" for everything below a segment, or \"*\"")
    } else if body.contains('*') {
        Some(
            "has \"*\" before the end, where \"*\" would match nothing; use \"+\" for one segment, \
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

    fn pattern(text: &str) -> PathPattern {
        PathPattern::parse(text).unwrap()
    }

    #[test]
    fn patterns_match_the_documented_paths() {
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

    /// Checks decision H10 row by row: the first pattern of each row is the closer pattern.
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
    fn first_segment_is_known_before_any_wildcard_only() {
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
    fn patterns_matching_nothing_are_refused_with_remedy() {
        assert!(PathPattern::parse(&"a".repeat(LONGEST_PATH)).is_ok());
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
            let error = PathPattern::parse(text).unwrap_err();
            assert!(error.contains(part), "{text:?} gave {error}");
        }
    }
}

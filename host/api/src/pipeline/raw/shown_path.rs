//! The part of a plain HTTP path shown in the audit log and in the list of requests in flight.
//!
//! This file prevents a secret in the path from reaching the audit log. The host has no rows for
//! these paths, so the component's description names the paths that are safe to show. A segment
//! that is neither a declared word nor the value of a declared capture is hidden, also if the
//! client escaped the segment or sent a path without an endpoint.

use std::collections::HashSet;

/// Mark of a capture in a declared path, such as `acl/policy/:name`.
const CAPTURE: char = ':';
/// Maximum length of a shown value of a capture, in bytes.
const LONGEST_SHOWN: usize = 128;
/// A hidden segment in the list of requests in flight.
const HIDDEN: &str = "***";

/// Returns the segments of `path` shown as hashes in lines. `declared` are the paths of the
/// component's description. A path that equals a declared path has hidden segments only if the
/// value of a capture is not a plain name.
pub(super) fn hidden_segments(declared: &[String], path: &str) -> Vec<String> {
    let sent: Vec<&str> = path.split('/').collect();
    let hidden = match declared.iter().find(|declared| is_match(declared, &sent)) {
        Some(declared) => {
            let pairs = declared.split('/').zip(&sent);
            let odd = pairs.filter(|(segment, text)| is_capture(segment) && !is_plain(text));
            odd.map(|(_, text)| *text).collect::<Vec<_>>()
        }
        None => {
            let words = declared.iter().flat_map(|declared| declared.split('/'));
            let words: HashSet<&str> = words.filter(|word| !is_capture(word)).collect();
            let is_word = |text: &&str| text.is_empty() || words.contains(text);
            sent.iter().filter(|text| !is_word(text)).copied().collect()
        }
    };
    hidden.into_iter().map(str::to_owned).collect()
}

/// Returns the path with a placeholder for each hidden segment.
pub(super) fn without_hidden(path: &str, hidden: &[String]) -> String {
    let hidden: HashSet<&str> = hidden.iter().map(String::as_str).collect();
    let shown = path.split('/').map(|text| if hidden.contains(text) { HIDDEN } else { text });
    shown.collect::<Vec<_>>().join("/")
}

fn is_match(declared: &str, sent: &[&str]) -> bool {
    let mut sent = sent.iter();
    let fits =
        |segment: &str| sent.next().is_some_and(|text| is_capture(segment) || segment == *text);
    declared.split('/').all(fits) && sent.next().is_none()
}

fn is_capture(segment: &str) -> bool {
    segment.starts_with(CAPTURE)
}

/// Returns true for a value without escapes and separators.
fn is_plain(value: &str) -> bool {
    let is_of_name = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.~".contains(&byte);
    value.len() <= LONGEST_SHOWN && value.bytes().all(is_of_name)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECRET: &str = "11111111-2222-4333-8444-555555555555";

    fn hidden(path: &str) -> Vec<String> {
        let declared = ["v1/acl/token/self", "v1/acl/policy/:name", "v1/acl/roles"];
        hidden_segments(&declared.map(str::to_owned), path)
    }

    #[test]
    fn declared_paths_are_shown() {
        for path in ["v1/acl/token/self", "v1/acl/policy/read-only", "v1/acl/roles", ""] {
            assert_eq!(hidden(path), Vec::<String>::new(), "{path}");
        }
    }

    #[test]
    fn undeclared_segments_are_hidden_in_every_spelling() {
        for (path, segments) in [
            (format!("v1/acl/token/{SECRET}"), vec![SECRET.to_owned()]),
            (format!("v1/acl/token/{SECRET}/"), vec![SECRET.to_owned()]),
            (format!("v1//acl/./token/{SECRET}"), vec![".".to_owned(), SECRET.to_owned()]),
            (format!("v1/acl/%74oken/{SECRET}"), vec!["%74oken".to_owned(), SECRET.to_owned()]),
            (format!("{SECRET}/v1"), vec![SECRET.to_owned()]),
            (
                format!("v1/acl/policy/..%2ftoken%2f{SECRET}"),
                vec![format!("..%2ftoken%2f{SECRET}")],
            ),
            (format!("v1/acl/policy/../token/{SECRET}"), vec!["..".to_owned(), SECRET.to_owned()]),
        ] {
            assert_eq!(hidden(&path), segments, "{path}");
            assert!(!without_hidden(&path, &segments).contains(SECRET), "{path}");
        }
        assert_eq!(hidden_segments(&[], "a/b"), ["a", "b"], "nothing is declared");
    }

    #[test]
    fn long_paths_are_read_in_one_pass() {
        let path = "x/".repeat(1 << 15);
        let segments = hidden(&path);
        assert_eq!(segments.len(), 1 << 15);
        assert_eq!(without_hidden(&path, &segments).matches(HIDDEN).count(), 1 << 15);
    }
}

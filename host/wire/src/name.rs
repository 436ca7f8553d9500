//! Names and paths of objects, requests and mounts.
//!
//! The attack this file prevents: two spellings of a path, with policy seeing one and the engine
//! the other. All code after [`canonical_path`] sees a single spelling.

use crate::failure::quoted;
use serde::{Deserialize, Serialize};
use std::fmt;

/// Maximum length of a path, in bytes.
pub const LONGEST_PATH: usize = 4096;

/// First segments reserved for the core; engines cannot be mounted there.
const RESERVED: [&str; 5] = ["sys", "auth", "identity", "cubbyhole", "audit"];

/// Prefix of the mounts of auth methods.
const AUTH: &str = "auth/";
/// First segment below [`AUTH`] reserved for the core.
const TOKEN: &str = "token";

/// Returns whether `text` is a valid object name (decision H23): ASCII letters, digits and `_`,
/// with `-` and `.` inside.
#[must_use]
pub fn is_name(text: &str) -> bool {
    let word = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'_';
    let bytes = text.as_bytes();
    bytes.first().is_some_and(word)
        && bytes.last().is_some_and(word)
        && bytes.iter().all(|byte| word(byte) || matches!(byte, b'-' | b'.'))
}

/// Returns the canonical spelling of a request's path: no slash at either end, no empty, `.` or
/// `..` segment, only printable characters.
///
/// `raw` is percent-decoded once and comes without `/v1/`. A single leading slash and all trailing
/// slashes are dropped.
///
/// # Errors
/// A message with the rule broken by the path.
pub fn canonical_path(raw: &str) -> Result<String, String> {
    if raw.len() > LONGEST_PATH {
        return Err(format!(
            "a path has at most {LONGEST_PATH} bytes, and this path has {}; shorten the path",
            raw.len()
        ));
    }
    let path = raw.strip_prefix('/').unwrap_or(raw).trim_end_matches('/');
    if path.is_empty() {
        return Err("the path is empty; name a mount, such as database/config/orders".to_owned());
    }
    for segment in path.split('/') {
        check_segment(segment).map_err(|why| format!("path {} {why}", quoted(raw)))?;
    }
    Ok(path.to_owned())
}

fn check_segment(segment: &str) -> Result<(), &'static str> {
    match segment {
        "" => Err("has an empty segment; write a single slash between segments"),
        "." | ".." => Err("has a \".\" or \"..\" segment; write the whole path"),
        _ if !is_printable(segment) => Err("has an unprintable character; remove this character"),
        _ => Ok(()),
    }
}

/// Returns whether `text` is printable by the standard library's debug output. Besides control
/// characters, this refuses invisible and direction-changing characters, which can make two paths
/// look alike.
fn is_printable(text: &str) -> bool {
    // Fast path: nearly every name is ASCII.
    if text.bytes().all(|byte| matches!(byte, b' '..=b'~')) {
        return true;
    }
    let escaped_though_printable = ['"', '\'', '\\'];
    text.split(escaped_though_printable).all(|part| part.escape_debug().eq(part.chars()))
}

/// Path of a mounted engine, auth method or part of the core: always ends in `/`, never starts with
/// `/`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct MountPath(String);

impl MountPath {
    /// Reads the path of an engine, such as `database`, `database/` or `teams/orders/`.
    ///
    /// # Errors
    /// A message if the path is not canonical, contains white space, or is reserved for the core
    /// (`sys/`, `auth/`, `identity/`, `cubbyhole/`, `audit/`, and all paths below).
    pub fn new(text: &str) -> Result<Self, String> {
        let path = mountable(text)?;
        let root = first_segment(&path);
        if RESERVED.contains(&root) {
            return Err(format!(
                "path is already in use at {root}/: {} is reserved for the core; \
                 choose another mount path",
                quoted(text)
            ));
        }
        Ok(Self(path))
    }

    /// Reads the path of an auth method relative to `auth/`: `cloud-a` is mounted at
    /// `auth/cloud-a/`.
    ///
    /// # Errors
    /// A message if the path is not canonical, contains white space, or is `token` or below.
    pub fn below_auth(text: &str) -> Result<Self, String> {
        let path = mountable(text)?;
        if first_segment(&path) == TOKEN {
            return Err(format!(
                "path is already in use at {AUTH}{TOKEN}/: {} is reserved for the core; \
                 choose another mount path",
                quoted(text)
            ));
        }
        Ok(Self(format!("{AUTH}{path}")))
    }

    /// Reads the full path of an engine, or of an auth method with its `auth/`.
    ///
    /// # Errors
    /// As [`MountPath::new`] and [`MountPath::below_auth`].
    pub fn parse_full(text: &str) -> Result<Self, String> {
        let text = text.strip_prefix('/').unwrap_or(text);
        text.strip_prefix(AUTH).map_or_else(|| Self::new(text), Self::below_auth)
    }

    /// `sys/`: the core's own endpoints.
    #[must_use]
    pub fn system() -> Self {
        Self("sys/".to_owned())
    }

    /// `identity/`: entities and groups.
    #[must_use]
    pub fn identity() -> Self {
        Self("identity/".to_owned())
    }

    /// `cubbyhole/`: values of single tokens.
    #[must_use]
    pub fn cubbyhole() -> Self {
        Self("cubbyhole/".to_owned())
    }

    /// `auth/token/`: the token store.
    #[must_use]
    pub fn token() -> Self {
        Self(format!("{AUTH}{TOKEN}/"))
    }

    /// Returns the path, with its trailing slash.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns whether the path is below `auth/`.
    #[must_use]
    pub fn is_auth(&self) -> bool {
        self.0.starts_with(AUTH)
    }

    /// Returns the path as listings show it: without `auth/`, with the trailing slash.
    #[must_use]
    pub fn listed(&self) -> &str {
        self.0.strip_prefix(AUTH).unwrap_or(&self.0)
    }

    /// Returns whether the two paths are equal or either is a parent of the other.
    #[must_use]
    pub fn overlaps(&self, other: &Self) -> bool {
        self.0.starts_with(&other.0) || other.0.starts_with(&self.0)
    }
}

/// Returns the canonical path with a trailing slash. Refuses white space.
fn mountable(text: &str) -> Result<String, String> {
    let mut path = canonical_path(text)?;
    if path.contains(char::is_whitespace) {
        return Err(format!("mount path {} holds white space; use \"-\" or \"_\"", quoted(text)));
    }
    path.push('/');
    Ok(path)
}

fn first_segment(path: &str) -> &str {
    path.split('/').next().unwrap_or_default()
}

impl fmt::Display for MountPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Checks stored text like new text: a damaged record cannot claim `sys/` or `auth/token/`.
impl TryFrom<String> for MountPath {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        Self::parse_full(&text)
    }
}

impl From<MountPath> for String {
    fn from(path: MountPath) -> Self {
        path.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn name_starts_and_ends_with_word_character() {
        for text in ["a", "_", "7", "readonly", "a-b", "a.b", "a..b", "a--b_", "A_1.x"] {
            assert!(is_name(text), "{text}");
        }
        for text in [
            "", "-", ".", "..", "-a", "a-", ".a", "a.", "a b", "a/b", "a{b}", "ä", "a\n", "a\0b",
            "a'b", "a%2fb",
        ] {
            assert!(!is_name(text), "{text:?}");
        }
    }

    #[test]
    fn outer_slashes_do_not_change_path() {
        for raw in [
            "database/creds/a b",
            "/database/creds/a b",
            "database/creds/a b/",
            "database/creds/a b//",
        ] {
            assert_eq!(canonical_path(raw).unwrap(), "database/creds/a b");
        }
    }

    #[test]
    fn a_canonical_path_stays_as_it_is() {
        for raw in [
            "a",
            "kv/täglich/x",
            "a/...",
            "a/.hidden",
            r#"a/it's "x" \y"#,
            "a/e\u{301}",
            "a/100%/{x}/*",
        ] {
            assert_eq!(canonical_path(raw).unwrap(), raw);
        }
    }

    #[test]
    fn a_path_with_a_second_meaning_is_refused() {
        let hostile = [
            "",
            "/",
            "//",
            "//a",
            "a//b",
            "a/./b",
            "a/../b",
            "..",
            "../sys/seal",
            "a/..",
            ".",
            "a/.",
            "a\tb",
            "\ta",
            "a\0",
            "a\nb",
            "a\r",
            "a\u{7f}",
            "a/\u{202e}b",
            "a\u{200b}",
            "a/\u{feff}x",
            "a\u{a0}b",
            "a\u{2028}b",
            "a\u{e000}",
            "a/\u{301}",
        ];
        for raw in hostile {
            let why = canonical_path(raw).unwrap_err();
            assert!(!why.contains(char::is_control) && !why.contains('\u{202e}'), "{why}");
        }
    }

    #[test]
    fn a_path_has_at_most_4096_bytes() {
        assert!(canonical_path(&"a".repeat(LONGEST_PATH)).is_ok());
        assert!(canonical_path(&"a".repeat(LONGEST_PATH + 1)).unwrap_err().contains("4097"));
        assert!(canonical_path(&"ü".repeat(LONGEST_PATH / 2 + 1)).is_err());
    }

    #[test]
    fn a_mount_path_always_ends_in_one_slash() {
        for text in ["teams/orders", "/teams/orders", "teams/orders/"] {
            assert_eq!(MountPath::new(text).unwrap().as_str(), "teams/orders/");
        }
        assert_eq!(MountPath::new("database").unwrap().to_string(), "database/");
    }

    #[test]
    fn the_core_keeps_its_own_roots() {
        for text in
            ["sys", "sys/", "/sys/", "sys/raw", "auth/x", "identity", "cubbyhole/a/b", "audit/"]
        {
            assert!(MountPath::new(text).unwrap_err().contains("reserved"), "{text}");
        }
        assert!(MountPath::new("system/").is_ok());
        for text in ["", "/", "a b", "a//b", "a/../sys", "../sys", "a\u{3000}b", "a\tb"] {
            assert!(MountPath::new(text).is_err(), "{text:?}");
        }
    }

    #[test]
    fn auth_method_mounts_below_auth_never_over_tokens() {
        let path = MountPath::below_auth("/teams/cloud-a/").unwrap();
        assert_eq!(
            (path.as_str(), path.listed(), path.is_auth()),
            ("auth/teams/cloud-a/", "teams/cloud-a/", true)
        );
        for text in ["token", "token/", "/token/x"] {
            let why = MountPath::below_auth(text).unwrap_err();
            assert!(why.starts_with("path is already in use at auth/token/"), "{why}");
        }
        for text in ["tokens", "sys", "auth"] {
            assert!(MountPath::below_auth(text).is_ok(), "{text}");
        }
        for text in ["", "/", "a b", "a//b", "../sys", "a\tb"] {
            assert!(MountPath::below_auth(text).is_err(), "{text:?}");
        }
    }

    #[test]
    fn full_path_belongs_to_engine_or_auth_method() {
        for (text, path) in [
            ("database", "database/"),
            ("/auth/x/", "auth/x/"),
            ("auth/x/y", "auth/x/y/"),
            ("authors", "authors/"),
        ] {
            assert_eq!(MountPath::parse_full(text).unwrap().as_str(), path);
        }
        for text in ["auth", "auth/", "auth/token", "sys", "", "//auth/x"] {
            assert!(MountPath::parse_full(text).is_err(), "{text:?}");
        }
        assert_eq!(MountPath::new("database").unwrap().listed(), "database/");
        assert_eq!((MountPath::system().listed(), MountPath::token().listed()), ("sys/", "token/"));
    }

    #[test]
    fn paths_overlap_by_whole_segments_only() {
        let path = |text| MountPath::new(text).unwrap();
        for (one, other, expected) in [
            ("a", "a", true),
            ("a", "a/b", true),
            ("a/b", "a", true),
            ("a", "ab", false),
            ("a/b", "a/c", false),
        ] {
            assert_eq!(path(one).overlaps(&path(other)), expected, "{one} {other}");
        }
    }

    #[test]
    fn stored_mount_path_is_text_checked_when_read() {
        let path = MountPath::new("database").unwrap();
        assert_eq!(serde_json::to_string(&path).unwrap(), r#""database/""#);
        assert_eq!(serde_json::from_str::<MountPath>(r#""database/""#).unwrap(), path);
        assert_eq!(serde_json::from_str::<MountPath>(r#""auth/x/""#).unwrap().as_str(), "auth/x/");
        for stored in [r#""sys/""#, r#""auth/token/""#] {
            assert!(serde_json::from_str::<MountPath>(stored).is_err(), "{stored}");
        }
    }
}

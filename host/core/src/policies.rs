//! Policies: what a token may do on which path.
//!
//! A policy is a text ([`parse`]); a token's policies together are one list of rules ([`acl`]) that every request
//! is held against. A rule that this build cannot enforce is refused when the policy is written, never ignored:
//! an ignored restriction would widen access. The language and the decision know neither tokens, mounts nor storage.

pub mod acl;
pub mod capability;
pub mod constraints;
pub mod parse;
pub mod pattern;
mod spelling;
pub(crate) mod stored;

/// The policy that allows everything. It has no text, and cannot be written or deleted.
pub const ROOT: &str = "root";

/// The policy that tokens get unless they ask not to. It can be edited but not deleted.
pub const DEFAULT: &str = "default";

/// The policy of wrapping tokens. It cannot be written, deleted or given to a token.
pub const RESPONSE_WRAPPING: &str = "response-wrapping";

/// What [`DEFAULT`] holds until somebody edits it: a token may look after itself and after its own leases.
pub const DEFAULT_POLICY: &str = r#"# A token may look itself up, renew itself and end itself.
path "auth/token/lookup-self" {
    capabilities = ["read"]
}
path "auth/token/renew-self" {
    capabilities = ["update"]
}
path "auth/token/revoke-self" {
    capabilities = ["update"]
}

# It may ask what it may do.
path "sys/capabilities-self" {
    capabilities = ["update"]
}

# It may look up and renew a lease whose id it knows.
path "sys/leases/lookup" {
    capabilities = ["update"]
}
path "sys/leases/renew" {
    capabilities = ["update"]
}
path "sys/renew" {
    capabilities = ["update"]
}
"#;

/// Longest policy name, in bytes.
const MAX_NAME: usize = 256;

/// `raw` as policies are stored and looked up: trimmed and in lower case.
///
/// # Errors
/// A message for a name that is empty, too long, or holds a comma or control character. A comma would make the
/// name two names wherever policies are listed in one text.
pub fn canonical_name(raw: &str) -> Result<String, String> {
    let name = raw.trim().to_lowercase();
    if name.is_empty() {
        return Err("a policy needs a name; give one such as \"orders-read\"".to_owned());
    }
    if name.len() > MAX_NAME {
        return Err(format!("this policy name has {} bytes; use at most {MAX_NAME}", name.len()));
    }
    if name.contains(|c: char| c == ',' || c.is_control()) {
        return Err(format!("policy name {name:?} holds a comma or control character; leave it out"));
    }
    Ok(name)
}

/// The canonical form of a name whose policy somebody wants to write.
///
/// # Errors
/// As [`canonical_name`], and for the policies that nobody may write.
pub fn writable_name(raw: &str) -> Result<String, String> {
    let name = canonical_name(raw)?;
    if name == ROOT || name == RESPONSE_WRAPPING {
        return Err(format!("policy {name} is built in and cannot be changed; choose another name"));
    }
    Ok(name)
}

/// The canonical form of a name whose policy somebody wants to delete.
///
/// # Errors
/// As [`canonical_name`], and for the policies that always exist.
pub fn deletable_name(raw: &str) -> Result<String, String> {
    let name = canonical_name(raw)?;
    if [ROOT, DEFAULT, RESPONSE_WRAPPING].contains(&name.as_str()) {
        return Err(format!("policy {name} is built in and cannot be deleted"));
    }
    Ok(name)
}

#[cfg(test)]
mod tests {
    #![allow(
        clippy::unwrap_used,
        clippy::expect_used,
        clippy::panic,
        clippy::indexing_slicing,
        reason = "tests fail by panicking"
    )]

    use super::*;

    #[test]
    fn names_are_trimmed_and_in_lower_case() {
        assert_eq!(canonical_name(" Team/Orders-Read ").unwrap(), "team/orders-read");
        assert_eq!(writable_name("Default").unwrap(), "default");
        assert_eq!(deletable_name("x").unwrap(), "x");
    }

    #[test]
    fn names_that_cannot_be_told_apart_or_listed_are_refused() {
        let long = "x".repeat(MAX_NAME + 1);
        for name in ["", " ", "a,b", "a\nb", "a\u{0}", long.as_str()] {
            assert!(canonical_name(name).is_err(), "{name:?}");
        }
    }

    #[test]
    fn built_in_policies_cannot_be_written_or_deleted_in_any_spelling() {
        for name in ["root", "ROOT", " Root ", "response-wrapping"] {
            assert!(writable_name(name).unwrap_err().contains("cannot be changed"), "{name}");
            assert!(deletable_name(name).unwrap_err().contains("cannot be deleted"), "{name}");
        }
        assert!(deletable_name("Default").unwrap_err().contains("cannot be deleted"));
    }

    #[test]
    fn the_default_policy_reads_and_lets_a_token_look_after_itself_only() {
        let policy = parse::Policy::parse(DEFAULT, DEFAULT_POLICY).unwrap();
        let acl = acl::Acl::new([&policy]);
        assert_eq!(acl.capabilities("auth/token/lookup-self"), ["read"]);
        for path in ["auth/token/renew-self", "auth/token/revoke-self", "sys/capabilities-self", "sys/leases/lookup"] {
            assert_eq!(acl.capabilities(path), ["update"], "{path}");
        }
        assert_eq!(acl.capabilities("sys/leases/renew"), ["update"]);
        assert_eq!(acl.capabilities("sys/renew"), ["update"]);
        for path in ["auth/token/lookup", "sys/leases/revoke", "sys/policy/default", "database/creds/x", ""] {
            assert_eq!(acl.capabilities(path), ["deny"], "{path}");
        }
    }
}

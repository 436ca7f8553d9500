//! Policies: what a token may do on which path.
//!
//! A policy is a text ([`parse`]); a token's policies together are one list of rules ([`acl`]) that
//! every request is held against. A rule that this build cannot enforce is refused when the policy
//! is written, never ignored: an ignored restriction would widen access. The language and the
//! decision know neither tokens, mounts nor storage.

pub mod acl;
pub mod capability;
mod comparison;
pub mod constraints;
pub mod identity;
mod parameters;
pub mod parse;
pub mod pattern;
pub mod reference;
pub(crate) mod spelling;
pub(crate) mod stored;
pub mod template;

use unicode_normalization::UnicodeNormalization;

/// The policy that allows everything. It has no text, and cannot be written or deleted.
pub const ROOT: &str = "root";

/// The policy that tokens get unless they ask not to. It can be edited but not deleted.
pub const DEFAULT: &str = "default";

/// The policy of wrapping tokens. It cannot be written, deleted or given to a token.
pub const RESPONSE_WRAPPING: &str = "response-wrapping";

/// What [`DEFAULT`] holds until an operator edits it: a token may look after itself and after its
/// own leases.
pub const DEFAULT_POLICY: &str = include_str!("policies/default.hcl");

/// What [`RESPONSE_WRAPPING`] holds.
pub const RESPONSE_WRAPPING_POLICY: &str = include_str!("policies/response-wrapping.hcl");

/// Longest policy name, in bytes.
const MAX_NAME: usize = 256;

/// `raw` as policies are stored and looked up: trimmed, in lower case, and with one spelling for
/// each letter (NFC), so that two names which look the same are one.
///
/// # Errors
/// A message for a name that is empty, too long, or holds a comma or control character. A comma
/// would make the name two names wherever policies are listed in one text.
pub fn canonical_name(raw: &str) -> Result<String, String> {
    let name: String = raw.trim().to_lowercase().nfc().collect();
    if name.is_empty() {
        return Err("a policy needs a name; give one such as \"orders-read\"".to_owned());
    }
    if name.len() > MAX_NAME {
        return Err(format!("this policy name has {} bytes; use at most {MAX_NAME}", name.len()));
    }
    if name.contains(|c: char| c == ',' || c.is_control()) {
        return Err(format!(
            "policy name {name:?} holds a comma or control character; leave it out"
        ));
    }
    Ok(name)
}

/// The canonical form of a name whose policy is to be written.
///
/// # Errors
/// As [`canonical_name`], and for the policies that no caller may write.
pub fn writable_name(raw: &str) -> Result<String, String> {
    let name = canonical_name(raw)?;
    if name == ROOT || name == RESPONSE_WRAPPING {
        return Err(format!(
            "policy {name} is built in and cannot be changed; choose another name"
        ));
    }
    Ok(name)
}

/// The canonical form of a name whose policy is to be deleted.
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

    use super::*;

    #[test]
    fn names_are_trimmed_and_in_lower_case() {
        assert_eq!(canonical_name(" Team/Orders-Read ").unwrap(), "team/orders-read");
        assert_eq!(writable_name("Default").unwrap(), "default");
        assert_eq!(deletable_name("x").unwrap(), "x");
        assert_eq!(canonical_name("CAFE\u{301}").unwrap(), "caf\u{e9}");
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

    fn built_in(name: &str, text: &str) -> parse::Policy {
        parse::Policy::parse(name, text).unwrap()
    }

    #[test]
    fn the_default_policy_lets_a_token_look_after_itself_only() {
        let policy = built_in(DEFAULT, DEFAULT_POLICY);
        let acl = acl::Acl::new([&policy]);
        let update = [
            "auth/token/renew-self",
            "auth/token/revoke-self",
            "sys/capabilities-self",
            "sys/leases/lookup",
            "sys/leases/renew",
            "sys/renew",
            "sys/wrapping/wrap",
            "sys/wrapping/lookup",
            "sys/wrapping/unwrap",
            "sys/tools/hash",
            "sys/tools/hash/sha2-256",
        ];
        for path in update {
            assert_eq!(acl.capabilities(path), ["update"], "{path}");
        }
        for path in ["auth/token/lookup-self", "sys/internal/ui/resultant-acl"] {
            assert_eq!(acl.capabilities(path), ["read"], "{path}");
        }
        for path in ["cubbyhole/x", "cubbyhole/x/"] {
            assert_eq!(
                acl.capabilities(path),
                ["create", "delete", "list", "read", "update"],
                "{path}"
            );
        }
        assert_eq!(acl.capabilities("identity/oidc/provider/x/authorize"), ["read", "update"]);
        let denied = [
            "auth/token/lookup",
            "sys/leases/revoke",
            "sys/policy/default",
            "database/creds/x",
            "",
        ];
        let others = [
            "identity/entity/id/",
            "identity/entity/id/x",
            "identity/entity/name/x",
            "sys/tools/random",
        ];
        for path in denied.into_iter().chain(others) {
            assert_eq!(acl.capabilities(path), ["deny"], "{path}");
        }
    }

    #[test]
    fn the_default_policy_lets_a_caller_read_the_own_entity_only() {
        let entity = identity::Entity {
            id: "1-2".to_owned(),
            name: "ann".to_owned(),
            ..identity::Entity::default()
        };
        let ann = identity::Identity { entity: Some(entity), groups: Vec::new() };
        let (acl, skipped) = acl::Acl::of_caller([&built_in(DEFAULT, DEFAULT_POLICY)], &ann);
        assert_eq!(skipped, []);
        for path in ["identity/entity/id/1-2", "identity/entity/name/ann"] {
            assert_eq!(acl.capabilities(path), ["read"], "{path}");
        }
        for path in ["identity/entity/id/1-3", "identity/entity/name/bob", "identity/entity/name/"]
        {
            assert_eq!(acl.capabilities(path), ["deny"], "{path}");
        }
    }

    #[test]
    fn a_wrapping_token_reaches_its_one_response_only() {
        let acl = acl::Acl::new([&built_in(RESPONSE_WRAPPING, RESPONSE_WRAPPING_POLICY)]);
        assert_eq!(acl.capabilities("cubbyhole/response"), ["create", "read"]);
        assert_eq!(acl.capabilities("sys/wrapping/unwrap"), ["update"]);
        for path in ["cubbyhole/other", "cubbyhole/", "sys/wrapping/wrap", "auth/token/lookup-self"]
        {
            assert_eq!(acl.capabilities(path), ["deny"], "{path}");
        }
    }
}

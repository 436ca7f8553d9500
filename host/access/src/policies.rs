//! Policies: the actions that a token may take, path by path.
//!
//! A policy is a text ([`parse`]). A token's policies together are a single list of rules
//! ([`acl`]), and every request is checked against this list. A rule that this build cannot enforce
//! is refused when the policy is written; ignoring a restriction would widen access. The policy
//! language and the decision depend on neither tokens, mounts nor storage.

pub mod acl;
pub mod capability;
mod comparison;
pub mod constraints;
pub mod identity;
mod parameters;
pub mod parse;
pub mod pattern;
pub mod reference;
pub mod spelling;
pub mod stored;
pub mod template;

use unicode_normalization::UnicodeNormalization;

/// The policy that allows everything. This policy has no text and cannot be written or deleted.
pub const ROOT: &str = "root";

/// The policy that tokens get by default. This policy can be edited but not deleted.
pub const DEFAULT: &str = "default";

/// The policy of wrapping tokens. This policy cannot be written, deleted or given to a token.
pub const RESPONSE_WRAPPING: &str = "response-wrapping";

/// Text of [`DEFAULT`] until an operator edits the policy. A token may manage itself and its own
/// leases.
pub const DEFAULT_POLICY: &str = include_str!("policies/default.hcl");

/// Text of [`RESPONSE_WRAPPING`].
pub const RESPONSE_WRAPPING_POLICY: &str = include_str!("policies/response-wrapping.hcl");

/// Maximum length of a policy name, in bytes.
const MAX_NAME: usize = 256;

/// Returns the form of `raw` under which policies are stored and looked up: trimmed, lower case and
/// in Unicode normal form C (NFC), so that two names that look the same are equal.
///
/// # Errors
/// A message for a name that is empty, too long, or contains a comma or control character. A comma
/// would split the name wherever policies are listed in a single text.
pub fn canonical_name(raw: &str) -> Result<String, String> {
    let name: String = raw.trim().to_lowercase().nfc().collect();
    if name.is_empty() {
        return Err("a policy needs a name; give a name such as \"orders-read\"".to_owned());
    }
    if name.len() > MAX_NAME {
        return Err(format!("this policy name has {} bytes; use at most {MAX_NAME}", name.len()));
    }
    if name.contains(|c: char| c == ',' || c.is_control()) {
        return Err(format!(
            "policy name {name:?} holds a comma or control character; remove the character"
        ));
    }
    Ok(name)
}

/// Returns the canonical form of a policy name for a write.
///
/// # Errors
/// As [`canonical_name`], and for the built-in policies that no caller may write.
pub fn writable_name(raw: &str) -> Result<String, String> {
    let name = canonical_name(raw)?;
    if name == ROOT || name == RESPONSE_WRAPPING {
        return Err(format!(
            "policy {name} is built in and cannot be changed; choose another name"
        ));
    }
    Ok(name)
}

/// Returns the canonical form of a policy name for a deletion.
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
    fn ambiguous_or_unlistable_policy_names_are_refused() {
        assert!(canonical_name(&"x".repeat(MAX_NAME)).is_ok());
        let long = "x".repeat(MAX_NAME + 1);
        for name in ["", " ", "a,b", "a\nb", "a\u{0}", long.as_str()] {
            assert!(canonical_name(name).is_err(), "{name:?}");
        }
    }

    #[test]
    fn built_in_policies_reject_changes_in_any_spelling() {
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
    fn default_policy_allows_self_management_of_token_only() {
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
    fn default_policy_allows_read_of_own_entity_only() {
        let entity = identity::TemplateEntity {
            id: "1-2".to_owned(),
            name: "ann".to_owned(),
            ..identity::TemplateEntity::default()
        };
        let ann = identity::TemplateIdentity { entity: Some(entity), groups: Vec::new() };
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

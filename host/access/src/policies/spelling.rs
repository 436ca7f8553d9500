//! Canonical spelling of paths for objects that the API serves under several paths.
//!
//! This file prevents a caller from reaching a denied object by another spelling of its path. A
//! name that the server reads without regard to case has a single path, and a request on an older
//! path is also judged by the rules for the new path. Rules and requests are respelt by the same
//! functions, so that a rule in an old spelling still applies.

use super::canonical_name;
use super::pattern::PathPattern;
use std::borrow::Cow;

/// A base path, and the function that folds the name below the base.
struct FoldedNames {
    base: &'static str,
    fold: fn(&str) -> String,
}

/// Base paths below which names ignore case.
const FOLDED_NAMES: [FoldedNames; 4] = [
    FoldedNames { base: "sys/policies/acl", fold: fold_policy },
    FoldedNames { base: "identity/entity/name", fold: str::to_lowercase },
    FoldedNames { base: "identity/group/name", fold: str::to_lowercase },
    FoldedNames { base: "sys/config/auditing/request-headers", fold: str::to_lowercase },
];

/// Second base paths (most are older paths), each with the base path used for rules. Both base
/// paths have the same endpoints.
pub const MOVED: [(&str, &str); 8] = [
    ("sys/policy", "sys/policies/acl"),
    ("sys/renew", "sys/leases/renew"),
    ("sys/revoke", "sys/leases/revoke"),
    ("sys/revoke-prefix", "sys/leases/revoke-prefix"),
    ("sys/revoke-force", "sys/leases/revoke-force"),
    ("sys/rotate/keyring", "sys/rotate"),
    ("sys/storage/raft/snapshot", "sys/storage/snapshot"),
    ("sys/storage/raft/snapshot-force", "sys/storage/snapshot-force"),
];

/// The two paths for reading and tuning an auth method; only the second path needs `sudo`. A grant
/// for either path does not apply to the other path. A deny for either path applies to both.
const METHODS: [&str; 2] = ["sys/mounts/auth", "sys/auth"];

/// A second path of the object of a request.
#[derive(Debug, PartialEq, Eq)]
pub struct OtherPath {
    /// The path as the API serves it.
    pub path: String,
    /// Rules that begin with this base were written for the other path.
    pub(super) base: &'static str,
    /// True if such a rule replaces the rule for the request's own path.
    pub(super) decides: bool,
    /// True if every rule that denies the other path applies, not only rules written for the other
    /// path.
    pub is_newer: bool,
}

/// Returns `path` with its name folded as the server folds names.
#[must_use]
pub fn fold(path: &str) -> Cow<'_, str> {
    let bases = FOLDED_NAMES.iter().map(|names| (names.base, names.fold));
    let old = MOVED.iter().flat_map(|(old, new)| {
        let names = FOLDED_NAMES.iter().find(|names| names.base == *new);
        names.map(|names| (*old, names.fold))
    });
    let folded = bases.chain(old).find_map(|(base, fold)| {
        let name = path.strip_prefix(base)?.strip_prefix('/')?;
        let folded = fold(name);
        (folded != name).then(|| format!("{base}/{folded}"))
    });
    folded.map_or(Cow::Borrowed(path), Cow::Owned)
}

/// Returns the other path of the object at `path`, which is [folded](fold). Nearly all objects have
/// a single path.
pub fn other_path(path: &str) -> Option<OtherPath> {
    if !path.starts_with("sys/") {
        return None;
    }
    if let Some((path, base)) = in_new_place(path) {
        return Some(OtherPath { path, base, decides: true, is_newer: true });
    }
    let [old, new] = METHODS;
    let (mount, base, is_newer) = match strip_base(path, old) {
        Some(mount) => (mount, new, true),
        None => (strip_base(path, new)?, old, false),
    };
    (!mount.is_empty()).then(|| OtherPath {
        path: format!("{base}{mount}"),
        base,
        decides: false,
        is_newer,
    })
}

/// Returns `pattern` in the server's spelling, if this spelling differs.
pub(super) fn respell_pattern(pattern: &PathPattern) -> Option<PathPattern> {
    let body = pattern.body();
    let moved = in_new_place(body).map(|(moved, _)| moved);
    let folded = fold_body(moved.as_deref().unwrap_or(body));
    folded.or(moved).map(|body| pattern.with_body(body))
}

/// Moves a path, or the beginning of a path, from an old base to its new base.
fn in_new_place(path: &str) -> Option<(String, &'static str)> {
    MOVED.iter().find_map(|(old, new)| Some((format!("{new}{}", strip_base(path, old)?), *new)))
}

/// Returns the text after `base`: empty, or a slash and the rest.
fn strip_base<'a>(path: &'a str, base: &str) -> Option<&'a str> {
    path.strip_prefix(base).filter(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// Returns the text of a pattern with its name folded; `None` if folding changes nothing. A `+` in
/// the pattern may match a segment of the base.
fn fold_body(body: &str) -> Option<String> {
    let folded = |names: &FoldedNames| {
        let mut parts = body.split('/');
        let mut head = Vec::new();
        for segment in names.base.split('/') {
            head.push(parts.next().filter(|part| *part == "+" || *part == segment)?);
        }
        let name = parts.collect::<Vec<&str>>().join("/");
        let folded = (names.fold)(&name);
        (folded != name).then(|| format!("{}/{folded}", head.join("/")))
    };
    FOLDED_NAMES.iter().find_map(folded)
}

/// Folds a policy name. A name that no policy can have is only converted to lower case.
fn fold_policy(name: &str) -> String {
    canonical_name(name).unwrap_or_else(|_| name.to_lowercase())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn respelling(text: &str) -> Option<PathPattern> {
        respell_pattern(&PathPattern::parse(text).unwrap())
    }

    #[test]
    fn name_path_is_equal_in_every_letter_case() {
        for (sent, folded) in [
            ("identity/group/name/ADMINS", "identity/group/name/admins"),
            ("identity/entity/name/Ann/É", "identity/entity/name/ann/é"),
            ("sys/policies/acl/ Ops ", "sys/policies/acl/ops"),
            ("sys/policy/OPS", "sys/policy/ops"),
            ("sys/policies/acl/A,B", "sys/policies/acl/a,b"),
            ("sys/policies/password/Ops", "sys/policies/password/Ops"),
            ("identity/group/NAME/x", "identity/group/NAME/x"),
            ("database/roles/Ops", "database/roles/Ops"),
        ] {
            assert_eq!(fold(sent), folded);
        }
    }

    #[test]
    fn an_old_path_leads_to_the_new_one() {
        for (old, new) in [
            ("sys/policy", "sys/policies/acl"),
            ("sys/policy/ops", "sys/policies/acl/ops"),
            ("sys/renew", "sys/leases/renew"),
            ("sys/revoke/database/creds/x/1", "sys/leases/revoke/database/creds/x/1"),
            ("sys/revoke-prefix/a", "sys/leases/revoke-prefix/a"),
            ("sys/revoke-force/a", "sys/leases/revoke-force/a"),
        ] {
            let other = other_path(old).unwrap();
            assert_eq!((other.path.as_str(), other.decides), (new, true));
            assert_eq!(other_path(new), None);
        }
        for alone in ["sys/policyx", "sys/renewal", "sys/mounts/auth", "sys/auth", "a/b"] {
            assert_eq!(other_path(alone), None, "{alone}");
        }
    }

    #[test]
    fn auth_method_tune_has_two_paths() {
        let (old, new) = ("sys/mounts/auth/a/b/tune", "sys/auth/a/b/tune");
        assert_eq!(other_path(old).unwrap().path, new);
        let back = other_path(new).unwrap();
        assert_eq!((back.path.as_str(), back.decides, back.is_newer), (old, false, false));
    }

    #[test]
    fn rule_is_normalized_to_request_spelling() {
        for (text, other) in [
            ("identity/group/name/Admins", "identity/group/name/admins"),
            ("identity/+/name/Ad*", "identity/+/name/ad*"),
            ("+/group/name/Admins", "+/group/name/admins"),
            ("sys/policy/*", "sys/policies/acl/*"),
            ("sys/policy*", "sys/policies/acl*"),
            ("sys/policy/Ops", "sys/policies/acl/ops"),
            ("sys/renew/+/creds", "sys/leases/renew/+/creds"),
        ] {
            assert_eq!(respelling(text), Some(PathPattern::parse(other).unwrap()), "{text}");
        }
        for text in ["identity/group/name/admins", "sys/*", "sys/pol*", "*", "identity/Group/*"] {
            assert_eq!(respelling(text), None, "{text}");
        }
    }
}

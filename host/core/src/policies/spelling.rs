//! The one path of an object that the API serves under several.
//!
//! The attack this file stops: another spelling of a path that a rule denies. A name that the
//! server reads in upper or lower case has one path, and an endpoint with an older path is judged
//! by the rules for the new one too. Rules and requests are spelt by the same functions, so that a
//! rule in an old spelling counts as well.

use super::canonical_name;
use super::pattern::Pattern;
use std::borrow::Cow;

/// A base of paths, and how the server reads the name below the base.
struct FoldedNames {
    base: &'static str,
    fold: fn(&str) -> String,
}

/// Below these bases a name is the same name in upper and lower case.
const FOLDED_NAMES: [FoldedNames; 3] = [
    FoldedNames { base: "sys/policies/acl", fold: fold_policy },
    FoldedNames { base: "identity/entity/name", fold: str::to_lowercase },
    FoldedNames { base: "identity/group/name", fold: str::to_lowercase },
];

/// Second bases, most of them older, each with the base by which rules are read. Both have the same
/// endpoints.
pub(crate) const MOVED: [(&str, &str); 6] = [
    ("sys/policy", "sys/policies/acl"),
    ("sys/renew", "sys/leases/renew"),
    ("sys/revoke", "sys/leases/revoke"),
    ("sys/revoke-prefix", "sys/leases/revoke-prefix"),
    ("sys/revoke-force", "sys/leases/revoke-force"),
    ("sys/rotate/keyring", "sys/rotate"),
];

/// The tuning of an auth method has two paths, of which only the second needs `sudo`. What grants
/// one of them does not grant the other, and a deny at either counts for both.
const TUNED: [&str; 2] = ["sys/mounts/auth", "sys/auth"];

/// A second path of what a request is for.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct OtherPath {
    pub(crate) path: String,
    /// Rules whose text begins so were written for the other path.
    pub(super) base: &'static str,
    /// Such a rule decides in the place of the one for the path of the request.
    pub(super) decides: bool,
    /// Any rule that denies the other path counts, and not only one that was written for it.
    pub(crate) is_newer: bool,
}

/// `path` with its name as the server reads the name.
#[must_use]
pub(crate) fn fold(path: &str) -> Cow<'_, str> {
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

/// The other path of what is at `path`, which is [folded](fold); nearly everything has none.
pub(crate) fn other_path(path: &str) -> Option<OtherPath> {
    if !path.starts_with("sys/") {
        return None;
    }
    if let Some((path, base)) = in_new_place(path) {
        return Some(OtherPath { path, base, decides: true, is_newer: true });
    }
    let tuned = path.strip_suffix("/tune")?;
    let [old, new] = TUNED;
    let (mount, base, is_newer) = match below(tuned, old) {
        Some(mount) => (mount, new, true),
        None => (below(tuned, new)?, old, false),
    };
    (!mount.is_empty()).then(|| OtherPath {
        path: format!("{base}{mount}/tune"),
        base,
        decides: false,
        is_newer,
    })
}

/// Returns `pattern` in the spelling of the server, where that is another pattern.
pub(super) fn respelt(pattern: &Pattern) -> Option<Pattern> {
    let body = pattern.body();
    let moved = in_new_place(body).map(|(moved, _)| moved);
    let folded = fold_body(moved.as_deref().unwrap_or(body));
    folded.or(moved).map(|body| pattern.with_body(body))
}

/// A path, or the beginning of one, at the base that took the place of its own.
fn in_new_place(path: &str) -> Option<(String, &'static str)> {
    MOVED.iter().find_map(|(old, new)| Some((format!("{new}{}", below(path, old)?), *new)))
}

/// Returns the text behind `base`: nothing, or a slash and the rest.
fn below<'a>(path: &'a str, base: &str) -> Option<&'a str> {
    path.strip_prefix(base).filter(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// The text of a pattern with its name folded; `None` where that changes nothing. A `+` of the
/// pattern may stand for a segment of the base.
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

/// A name that no policy can have is left as it is, in lower case.
fn fold_policy(name: &str) -> String {
    canonical_name(name).unwrap_or_else(|_| name.to_lowercase())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn respelling(text: &str) -> Option<Pattern> {
        respelt(&Pattern::parse(text).unwrap())
    }

    #[test]
    fn a_name_has_one_path_in_all_its_cases() {
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
        for alone in ["sys/policyx", "sys/renewal", "sys/mounts/auth/x", "sys/auth/tune", "a/b"] {
            assert_eq!(other_path(alone), None, "{alone}");
        }
    }

    #[test]
    fn the_tuning_of_an_auth_method_has_two_paths() {
        let (old, new) = ("sys/mounts/auth/a/b/tune", "sys/auth/a/b/tune");
        assert_eq!(other_path(old).unwrap().path, new);
        let back = other_path(new).unwrap();
        assert_eq!((back.path.as_str(), back.decides, back.is_newer), (old, false, false));
    }

    #[test]
    fn a_rule_is_read_in_the_spelling_of_requests() {
        for (text, other) in [
            ("identity/group/name/Admins", "identity/group/name/admins"),
            ("identity/+/name/Ad*", "identity/+/name/ad*"),
            ("+/group/name/Admins", "+/group/name/admins"),
            ("sys/policy/*", "sys/policies/acl/*"),
            ("sys/policy*", "sys/policies/acl*"),
            ("sys/policy/Ops", "sys/policies/acl/ops"),
            ("sys/renew/+/creds", "sys/leases/renew/+/creds"),
        ] {
            assert_eq!(respelling(text), Some(Pattern::parse(other).unwrap()), "{text}");
        }
        for text in ["identity/group/name/admins", "sys/*", "sys/pol*", "*", "identity/Group/*"] {
            assert_eq!(respelling(text), None, "{text}");
        }
    }
}

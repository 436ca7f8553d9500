//! Bound names of a role: exact names, patterns with `*`, or a lone `*` for every name.
//!
//! The attack this file prevents: a list misread as "every name". An empty list, a `*` among other
//! names, and a text that is not a name are refused when the role is written.

use bulkhead_sdk::Failure;
use bulkhead_sdk::wire::failure::quoted;
use bulkhead_sdk::wire::glob;

/// Stands for every name.
const ALL: &str = "*";

/// Maximum number of names in a list.
const MOST: usize = 1_000;

/// Maximum length of a name or pattern, in bytes: that of the longest name in Kubernetes.
const LONGEST: usize = 253;

/// Checks the list of the field `field`.
///
/// # Errors
/// Invalid request with the field and the wrong name.
pub(crate) fn check(field: &str, list: &[String]) -> Result<(), Failure> {
    let wrong = |why: String| Err(Failure::invalid(format!("{field} {why}")));
    if list.is_empty() {
        return wrong("can not be empty: give names, or * for all".to_owned());
    }
    if list.len() > MOST {
        return wrong(format!("has {} names; there may be {MOST}", list.len()));
    }
    if list.len() > 1 && list.iter().any(|name| name == ALL) {
        return wrong("can not mix \"*\" with values: * stands alone for every name".to_owned());
    }
    match list.iter().find(|name| !is_pattern(name)) {
        Some(name) => wrong(format!(
            "has {}, which is neither a name nor a pattern such as dev-*",
            quoted(name)
        )),
        None => Ok(()),
    }
}

/// Returns whether `name` is in the list. Case matters.
pub(crate) fn admits(list: &[String], name: &str) -> bool {
    list.iter().any(|pattern| glob::matches(pattern, name))
}

/// Returns whether the list admits every name.
pub(crate) fn is_open(list: &[String]) -> bool {
    list.iter().any(|name| name == ALL)
}

/// Returns whether the text is `*`, or could match a name without matching every name.
fn is_pattern(text: &str) -> bool {
    let is_of_names = |byte: u8| byte.is_ascii_alphanumeric() || b"-.*".contains(&byte);
    let has_name = text.bytes().any(|byte| byte != b'*');
    text == ALL || (has_name && text.len() <= LONGEST && text.bytes().all(is_of_names))
}

#[cfg(test)]
mod tests {
    use super::{admits, check};

    fn list(names: &[&str]) -> Vec<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    #[test]
    fn patterns_match_whole_names_in_their_case() {
        let bound = list(&["app", "dev-*", "*.ci", "a*z"]);
        for name in ["app", "dev-", "dev-1", "x.ci", "az", "abcz"] {
            assert!(admits(&bound, name), "{name}");
        }
        for name in ["App", "apps", "my-app", "DEV-1", "Dev-1", "dev", "x.ci.y", "abc", ""] {
            assert!(!admits(&bound, name), "{name}");
        }
        assert!(admits(&list(&["*"]), "anything"));
    }

    #[test]
    fn list_misreadable_as_every_name_is_refused() {
        let long = "a".repeat(254);
        let many: Vec<&str> = vec!["a"; 1_001];
        for names in [
            &[][..],
            &["*", "app"],
            &["app", "*"],
            &["*", "*"],
            &["**"],
            &["***"],
            &[""],
            &["a b"],
            &["a/b"],
            &["a:b"],
            &["a,b"],
            &["?"],
            &["b\u{f6}b"],
            &[&long],
            &many,
        ] {
            let refused = check("names", &list(names)).unwrap_err();
            assert!(refused.message.starts_with("names "), "{names:?}: {refused}");
        }
        for names in [&["*"][..], &["app", "dev-*"], &["a.b-1"], &["*-*"], &["Dev-*"]] {
            assert!(check("names", &list(names)).is_ok(), "{names:?}");
        }
    }
}

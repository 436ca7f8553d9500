//! Names of Kubernetes: namespaces, service accounts, keys and values of labels.
//!
//! The attack this file prevents: a namespace or name that becomes another path. The API server
//! decodes a path before routing, so escaping is not a defence; an invalid name is refused before
//! any request is built.

/// Maximum length of a DNS label, in bytes.
pub const LONGEST_LABEL: usize = 63;

/// Maximum length of an object's name, in bytes.
pub const LONGEST_SUBDOMAIN: usize = 253;

/// Returns whether `text` is a label of RFC 1123, such as a namespace: lower-case letters, digits,
/// and `-` inside.
#[must_use]
pub fn is_label(text: &str) -> bool {
    let bytes = text.as_bytes();
    let word = |byte: &u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    bytes.len() <= LONGEST_LABEL
        && bytes.first().is_some_and(word)
        && bytes.last().is_some_and(word)
        && bytes.iter().all(|byte| word(byte) || *byte == b'-')
}

/// Returns whether `text` is labels joined by dots, such as the name of a service account.
#[must_use]
pub fn is_subdomain(text: &str) -> bool {
    text.len() <= LONGEST_SUBDOMAIN && text.split('.').all(is_label)
}

/// Returns whether `text` is a key of labels and annotations: a name, or a subdomain, `/` and a
/// name.
#[must_use]
pub fn is_key(text: &str) -> bool {
    match text.split_once('/') {
        Some((prefix, name)) => is_subdomain(prefix) && is_word(name),
        None => is_word(text),
    }
}

/// Returns whether `text` is a valid value of a label: empty, or a word.
#[must_use]
pub fn is_label_value(text: &str) -> bool {
    text.is_empty() || is_word(text)
}

fn is_word(text: &str) -> bool {
    let bytes = text.as_bytes();
    bytes.len() <= LONGEST_LABEL
        && bytes.first().is_some_and(u8::is_ascii_alphanumeric)
        && bytes.last().is_some_and(u8::is_ascii_alphanumeric)
        && bytes
            .iter()
            .all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.'))
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOSTILE: &[&str] = &[
        "",
        ".",
        "..",
        "../x",
        "a/b",
        "a%2Fb",
        "a?b",
        "a#b",
        "a b",
        "a\nb",
        "a\0b",
        "-a",
        "a-",
        "A",
        "ä",
        "a_b",
        "a:b",
        "apps/secrets/x?",
    ];

    #[test]
    fn path_like_text_is_neither_namespace_nor_account() {
        for text in HOSTILE {
            assert!(!is_label(text) && !is_subdomain(text), "{text:?}");
        }
        assert!(is_label("apps-2") && !is_label("a.b") && !is_label(&"a".repeat(64)));
        assert!(is_subdomain("a.b-c.d") && !is_subdomain("a..b") && !is_subdomain(".a"));
    }

    #[test]
    fn labels_are_read_as_the_cluster_reads_them() {
        for key in ["team", "app.kubernetes.io/managed-by", "A_b.c-d", "bulkhead/mount"] {
            assert!(is_key(key), "{key:?}");
        }
        for key in ["", "/", "a/", "/a", "a/b/c", "-a", "a=b", "A.b/c", "a b"] {
            assert!(!is_key(key), "{key:?}");
        }
        assert!(is_label_value("") && is_label_value("a_B.c-1"));
        assert!(!is_label_value("a,b") && !is_label_value("a b") && !is_label_value("-a"));
    }
}

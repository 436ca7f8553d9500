//! Validation of Kubernetes names, and generation of names for new objects.
//!
//! The attack this file prevents: a namespace or name that becomes another path. The API server
//! decodes a path before routing, so escaping is no defence; an invalid name is refused before any
//! request is built.

use bulkhead_sdk::template::{RenderContext, Template, TemplateFault, TemplateNames};
use bulkhead_sdk::wire::failure::quoted;
use bulkhead_sdk::{Failure, Host};

/// Maximum length of a DNS label, and of a generated name, in bytes.
pub(crate) const LONGEST_LABEL: usize = 63;

/// Maximum length of an object's name, in bytes.
const LONGEST_SUBDOMAIN: usize = 253;

/// The default template, which makes the names familiar to users of such engines.
const DEFAULT_TEMPLATE: &str = "{{ printf \"v-%s-%s-%s-%s\" (.DisplayName | truncate 8) (.RoleName \
                                | truncate 8) (unix_time) (random 24) | truncate 62 | lowercase }}";

/// Returns whether `text` is a label of RFC 1123, such as a namespace: lower-case letters, digits,
/// and `-` inside.
pub(crate) fn is_label(text: &str) -> bool {
    let bytes = text.as_bytes();
    let word = |byte: &u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    bytes.len() <= LONGEST_LABEL
        && bytes.first().is_some_and(word)
        && bytes.last().is_some_and(word)
        && bytes.iter().all(|byte| word(byte) || *byte == b'-')
}

/// Returns whether `text` is labels joined by dots, such as the name of a service account.
pub(crate) fn is_subdomain(text: &str) -> bool {
    text.len() <= LONGEST_SUBDOMAIN && text.split('.').all(is_label)
}

/// Returns whether `text` is a valid name of a Kubernetes role: any text that is one path segment.
pub(crate) fn is_role_name(text: &str) -> bool {
    let fits = |letter: char| !letter.is_control() && !matches!(letter, '/' | '%');
    (1..=LONGEST_SUBDOMAIN).contains(&text.len())
        && !matches!(text, "." | "..")
        && text.chars().all(fits)
}

/// Returns whether `text` is a key of labels and annotations: a name, or a subdomain, `/` and a
/// name.
pub(crate) fn is_key(text: &str) -> bool {
    match text.split_once('/') {
        Some((prefix, name)) => is_subdomain(prefix) && is_word(name),
        None => is_word(text),
    }
}

/// Returns whether `text` is a valid value of a label: empty, or a word.
pub(crate) fn is_label_value(text: &str) -> bool {
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

/// Refuses a template that makes no valid name; empty means the default template.
pub(crate) fn check_template(host: &dyn Host, template: &str) -> Result<(), Failure> {
    make(host, template, &TemplateNames { display_name: "token", role_name: "role" }).map(drop)
}

/// Generates a name with `template`; empty means the default template.
pub(crate) fn make(
    host: &dyn Host,
    template: &str,
    names: &TemplateNames<'_>,
) -> Result<String, Failure> {
    let unfit = |why: TemplateFault| Failure::invalid(format!("name_template: {why}"));
    let text = if template.is_empty() { DEFAULT_TEMPLATE } else { template };
    let read = Template::parse(text).map_err(unfit)?;
    let surroundings =
        RenderContext { random: &|length| host.random().bytes(length), now: host.clock().now() };
    let rendered = read.render(names, &surroundings).map_err(unfit)?;
    let name = label_of(&rendered);
    if name.is_empty() {
        let shown = quoted(text);
        return Err(Failure::invalid(format!(
            "name_template: {shown} makes a name without a letter or digit; add (random 24)"
        )));
    }
    Ok(name)
}

/// Converts `rendered` to a label: lower case, every other byte replaced by `-`, no `-` at either
/// end.
fn label_of(rendered: &[u8]) -> String {
    let letter = |byte: &u8| match byte.to_ascii_lowercase() {
        byte if byte.is_ascii_lowercase() || byte.is_ascii_digit() => char::from(byte),
        _ => '-',
    };
    let name: String = rendered.iter().map(letter).collect();
    let name: String = name.trim_start_matches('-').chars().take(LONGEST_LABEL).collect();
    name.trim_end_matches('-').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use bulkhead_sdk::testbed::TestHost;

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
    fn what_could_become_another_path_is_no_namespace_and_no_account() {
        for text in HOSTILE {
            assert!(!is_label(text) && !is_subdomain(text), "{text:?}");
        }
        assert!(is_label("apps-2") && !is_label("a.b") && !is_label(&"a".repeat(64)));
        assert!(is_subdomain("a.b-c.d") && !is_subdomain("a..b") && !is_subdomain(".a"));
    }

    #[test]
    fn roles_of_the_cluster_may_have_colons_and_no_slash() {
        for text in ["system:auth-delegator", "edit", "A b", "a:b:c"] {
            assert!(is_role_name(text), "{text:?}");
        }
        for text in ["", ".", "..", "a/b", "a%2fb", "a\nb"] {
            assert!(!is_role_name(text), "{text:?}");
        }
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

    #[test]
    fn a_name_is_a_label_whatever_the_caller_is_called() {
        let host = TestHost::default();
        let long = "a".repeat(99);
        for display_name in ["token", "jo@x.example", "Ünal", "../../", "", long.as_str()] {
            let name =
                make(&host, "", &TemplateNames { display_name, role_name: "r_1.x" }).unwrap();
            assert!(is_label(&name), "{name}");
            assert!(name.len() > 30, "{name} leaves room for chance");
        }
        let names = TemplateNames { display_name: "token", role_name: "Auto_manual" };
        let name = make(&host, "", &names).unwrap();
        assert!(name.starts_with("v-token-auto-man-"), "{name}");
    }

    #[test]
    fn a_template_that_makes_no_name_is_refused_with_what_is_wrong() {
        let host = TestHost::default();
        for (template, expected) in [
            ("{{ .Nope", "never closed"),
            ("{{ .Nope }}", ".Nope"),
            ("---", "random 24"),
            ("{{ range 3 }}", "range"),
        ] {
            let why = check_template(&host, template).unwrap_err().message;
            assert!(why.starts_with("name_template: ") && why.contains(expected), "{why}");
        }
        check_template(&host, "x-{{.RoleName}}-{{random 5}}").unwrap();
    }
}

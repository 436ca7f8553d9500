//! Validation of the names of Kubernetes roles, and generation of names for new objects.

use bulkhead_sdk::kubernetes::{LONGEST_LABEL, LONGEST_SUBDOMAIN};
use bulkhead_sdk::template::{RenderContext, Template, TemplateFault, TemplateNames};
use bulkhead_sdk::wire::failure::quoted;
use bulkhead_sdk::{Failure, Host};

/// The default template, which makes the names familiar to users of such engines.
const DEFAULT_TEMPLATE: &str = "{{ printf \"v-%s-%s-%s-%s\" (.DisplayName | truncate 8) (.RoleName \
                                | truncate 8) (unix_time) (random 24) | truncate 62 | lowercase }}";

/// Returns whether `text` is a valid name of a Kubernetes role: any text that is one path segment.
pub(crate) fn is_role_name(text: &str) -> bool {
    let fits = |letter: char| !letter.is_control() && !matches!(letter, '/' | '%');
    (1..=LONGEST_SUBDOMAIN).contains(&text.len())
        && !matches!(text, "." | "..")
        && text.chars().all(fits)
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
    let context =
        RenderContext { random: &|length| host.random().bytes(length), now: host.clock().now() };
    let rendered = read.render(names, &context).map_err(unfit)?;
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
    use bulkhead_sdk::kubernetes::is_label;
    use bulkhead_sdk::testbed::TestHost;

    #[test]
    fn cluster_role_name_allows_colon_but_no_slash() {
        for text in ["system:auth-delegator", "edit", "A b", "a:b:c"] {
            assert!(is_role_name(text), "{text:?}");
        }
        for text in ["", ".", "..", "a/b", "a%2fb", "a\nb"] {
            assert!(!is_role_name(text), "{text:?}");
        }
    }

    #[test]
    fn generated_name_is_label_for_any_caller_name() {
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
    fn invalid_name_template_is_refused_with_reason() {
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

//! Names for new users.
//!
//! The attack this file stops: a display name built to break SQL. Such a name is reduced to
//! harmless characters.
//!
//! A template with few random characters can give two users the same name. Published connections
//! have such templates, so a plugin warns and does not refuse (decision C27). A plugin must not
//! undo a creation that failed because the name was taken: the undo finds the user by name, and
//! would remove the other user.

use super::faults::Fault;
use crate::database_plugin::{Refusal, SqlHost};
use crate::template::{RenderContext, Template, TemplateFault, TemplateNames, sanitised};

/// The setting that holds a template.
const SETTING: &str = "username_template";

/// Minimum number of random characters in a name: 62⁸ is about 2 × 10¹⁴.
const FEWEST_RANDOM: usize = 8;

/// Rules for user names in a kind of database.
#[derive(Clone, Copy, Debug)]
pub struct UsernameRules {
    /// Template if the operator gives none.
    pub default: &'static str,
    /// Maximum length of a name, in bytes.
    pub longest: usize,
}

impl UsernameRules {
    /// Returns true if `template` (empty means the default) leaves fewer than eight random
    /// characters, so that two users could have the same name.
    ///
    /// # Errors
    /// If the template cannot be read.
    pub fn may_repeat(&self, template: &str) -> Result<bool, Refusal> {
        Ok(random_characters(&self.parse(template)?, &TemplateNames::default())? < FEWEST_RANDOM)
    }

    /// Makes a new name by `template` (empty means the default) for the caller with `display_name`.
    ///
    /// # Errors
    /// As [`may_repeat`](Self::may_repeat), and for a name that is empty or too long.
    pub fn plan(
        &self,
        host: &dyn SqlHost,
        template: &str,
        display_name: &str,
        role_name: &str,
    ) -> Result<String, Refusal> {
        let template = self.parse(template)?;
        let names = TemplateNames { display_name, role_name };
        let context = RenderContext { random: &|length| host.random(length), now: host.now() };
        let name = sanitised(&template.render(&names, &context).map_err(fault)?);
        if name.is_empty() {
            return Err(Fault::UsernameEmpty.about(SETTING));
        }
        if name.len() > self.longest {
            let refusal = Fault::UsernameTooLong.about(SETTING);
            let refusal = refusal.with("bytes", name.len().to_string());
            return Err(refusal.with("most", self.longest.to_string()));
        }
        Ok(name)
    }

    fn parse(&self, template: &str) -> Result<Template, Refusal> {
        Template::parse(if template.is_empty() { self.default } else { template }).map_err(fault)
    }
}

fn fault(fault: TemplateFault) -> Refusal {
    Fault::UsernameTemplate.about(SETTING).with("fault", fault.to_string())
}

/// Counts the random characters that remain in a name, because `truncate` may cut some of the
/// characters off. Renders the name twice with generators that differ in every character, and
/// compares.
fn random_characters(template: &Template, names: &TemplateNames<'_>) -> Result<usize, Refusal> {
    let rendered = |byte: u8| {
        let probe = RenderContext { random: &|length| vec![byte; length as usize], now: 0 };
        template.render(names, &probe).map(|name| sanitised(&name)).map_err(fault)
    };
    let (one, other) = (rendered(0)?, rendered(0x11)?);
    Ok(one.bytes().zip(other.bytes()).filter(|(one, other)| one != other).count())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sql_script::SqlScript;

    const RULES: UsernameRules = UsernameRules {
        default: "{{ printf \"v-%s-%s-%s-%s\" (.DisplayName | truncate 8) (.RoleName | truncate 8) \
                  (random 20) (unix_time) | truncate 63 }}",
        longest: 63,
    };

    fn repeats(template: &str) -> bool {
        RULES.may_repeat(template).unwrap()
    }

    fn planned(template: &str, display_name: &str, role_name: &str) -> Result<String, String> {
        RULES
            .plan(&SqlScript::default(), template, display_name, role_name)
            .map_err(|refusal| refusal.code)
    }

    #[test]
    fn default_username_has_form_known_to_users() {
        let name = planned("", "displayname", "longrolename").unwrap();
        let rest = name.strip_prefix("v-displayn-longrole-").unwrap();
        let (random, time) = rest.split_once('-').unwrap();
        assert!(
            random.len() == 20 && random.bytes().all(|byte| byte.is_ascii_alphanumeric()),
            "{name}"
        );
        assert_eq!(time, "1700000000");
    }

    #[test]
    fn hostile_display_names_keep_only_harmless_characters() {
        let long = "x".repeat(200);
        let hostile = [
            "a\"b",
            "a'b",
            "a;drop",
            "a\\",
            "a\nb",
            "a\0b",
            &long,
            "\u{202e}gnitirw",
            "🦀🦀",
            "$$",
            "{{name}}",
            "é",
            "ldap-\"--x",
            "/*",
            " ",
        ];
        let display = "{{ .DisplayName | truncate 30 }}-{{ random 20 }}";
        for template in ["", display, "{{random 10}}{{.RoleName | truncate 20}}"] {
            for text in hostile {
                let name = planned(template, text, text).unwrap();
                let harmless = |byte: u8| byte.is_ascii_alphanumeric() || b"_.@-".contains(&byte);
                assert!(
                    name.bytes().all(harmless) && name.len() <= 63,
                    "{template} {text:?} {name}"
                );
            }
        }
    }

    #[test]
    fn repeatable_username_templates_are_detected_and_accepted() {
        for template in
            ["app", "{{.RoleName}}", "{{unix_time}}", "{{random 7}}", "{{random 20 | truncate 5}}"]
        {
            assert!(repeats(template), "{template}");
            assert!(planned(template, "alice", "reader").is_ok(), "{template}");
        }
        for template in ["", "{{random 8}}", "{{uuid}}", "{{random 20 | sha256 | truncate 20}}"] {
            assert!(!repeats(template), "{template}");
        }
        let cut = "{{ printf \"%s-%s\" .DisplayName (random 20) | truncate 30 }}";
        assert!(!repeats(cut));
        assert_eq!(planned(cut, &"a".repeat(30), "r").unwrap(), "a".repeat(30));
    }

    #[test]
    fn names_longer_than_the_database_keeps_are_refused() {
        assert_eq!(planned("{{random 64}}", "a", "b"), Err("username-too-long".to_owned()));
        assert_eq!(planned("{{random 63}}", "a", "b").map(|name| name.len()), Ok(63));
        assert_eq!(planned("{{if false}}x{{end}}", "a", "b"), Err("username-empty".to_owned()));
    }

    #[test]
    fn unreadable_template_names_setting_and_fault() {
        let refusal = RULES.may_repeat("{{ .DisplayName | shout }}").unwrap_err();
        assert_eq!(
            (refusal.code.as_str(), refusal.setting.as_deref()),
            ("invalid-username-template", Some(SETTING))
        );
        assert_eq!(
            refusal.ext,
            [("fault".to_owned(), "there is no function \"shout\"".to_owned())]
        );
    }
}

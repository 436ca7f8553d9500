//! The shared part of the descriptions of SQL plugins: settings that all of the plugins read,
//! secrets that none of the plugins reads, and common warnings.

use super::failed::TARGET_FAILURES;
use super::faults::FAULTS;
use super::users::DENIALS;
use crate::statements::INVALID_STATEMENT;
use bulkhead_wire::description::{DatabaseDescription, Field, FieldKind};

/// Sentences for the warnings that every plugin can give.
const WARNINGS: [(&str, &str); 4] = [
    (
        "password-in-url",
        "connection_url holds a password; write {{password}} there and give the password as the \
         setting password, hidden from reads and open to rotation",
    ),
    (
        "password-not-templated",
        "password is given, but connection_url holds another password, which is used; write \
         {{password}} there",
    ),
    (
        "sessions-bounded",
        "max_open_connections asks for more than 64 sessions, or for no limit; a connection has at \
         most 64",
    ),
    (
        "username-template-repeats",
        "username_template leaves fewer than eight random characters in the name: a credential is \
         refused while a user of the same name exists, and if leases share a user, the end of any \
         such lease ends the user; put (random 20) before any text that truncate may cut",
    ),
];

/// Settings that hold secrets of other plugins. A value that an operator gives to the wrong plugin
/// is still never shown.
const SECRETS: [&str; 8] = [
    "service_account_json",
    "private_key",
    "sslkey",
    "sslpassword",
    "tls_certificate_key",
    "pem_bundle",
    "pem_json",
    "self_managed_password",
];

/// Facts of a single plugin, for its description.
pub struct PluginFacts<'a> {
    /// The name that clients send.
    pub name: &'a str,
    /// Other names of the plugin.
    pub aliases: &'a [&'a str],
    /// The crate's version.
    pub version: &'a str,
    /// One sentence about the plugin.
    pub about: &'a str,
    /// The credential types that the plugin supports.
    pub credential_types: &'a [&'a str],
    /// Help text for `connection_url`: the accepted forms.
    pub connection_url: &'a str,
    /// Settings that only this plugin reads.
    pub settings: Vec<Field>,
    /// The plugin's refusal codes with their sentences.
    pub codes: &'a [(&'a str, &'a str)],
    /// The plugin's warning codes with their sentences.
    pub warnings: &'a [(&'a str, &'a str)],
}

impl PluginFacts<'_> {
    /// Builds the complete description.
    #[must_use]
    pub fn describe(self) -> DatabaseDescription {
        let owned = |(word, sentence): &(&str, &str)| ((*word).to_owned(), (*sentence).to_owned());
        let list = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect();
        let shared = TARGET_FAILURES.iter().chain(DENIALS).chain(FAULTS);
        DatabaseDescription {
            kind: "database-plugin".to_owned(),
            name: self.name.to_owned(),
            aliases: list(self.aliases),
            version: self.version.to_owned(),
            asks: vec!["sql".to_owned()],
            about: self.about.to_owned(),
            credential_types: list(self.credential_types),
            creation_statements_required: true,
            codes: shared.chain([&INVALID_STATEMENT]).chain(self.codes).map(owned).collect(),
            warnings: WARNINGS.iter().chain(self.warnings).map(owned).collect(),
            settings: settings(self.connection_url, self.settings),
        }
    }
}

fn settings(connection_url: &str, own: Vec<Field>) -> Vec<Field> {
    use FieldKind::{Bool, Duration, Int, String as Words};
    let field = |name: &str, kind, about: &str| Field::new(name, kind, about);
    let mut settings = vec![
        field("connection_url", Words, connection_url).required(),
        field("username", Words, "The user for creating and removing users."),
        field("password", Words, "Its password.").secret(),
        field("disable_escaping", Bool, "username and password are percent-encoded already."),
        field("max_open_connections", Int, "Sessions at once; 4 unless given, 64 at most."),
        field("max_idle_connections", Int, "Accepted for compatibility: the host decides."),
        field("max_connection_lifetime", Duration, "How long a session is used; 0: no bound."),
        field("connect_timeout", Duration, "Bound on dialling and logging in; 30 s unless given."),
        field("tls_ca", Words, "Certificates to trust, PEM."),
        field("username_template", Words, "How names of new users are made."),
        field("auth_type", Words, "Cloud logins; not available in this version."),
    ];
    settings.extend(own);
    for name in SECRETS {
        if settings.iter().all(|field| field.name != name) {
            let about = "Not used by this plugin; kept, and never shown.";
            settings.push(field(name, FieldKind::Any, about).secret());
        }
    }
    settings
}

#[cfg(test)]
mod tests {
    use super::*;

    fn description() -> DatabaseDescription {
        let key = Field::new("private_key", FieldKind::String, "A key.").secret();
        PluginFacts {
            name: "some-database-plugin",
            aliases: &["some"],
            version: "1.0.0",
            about: "Users of some database.",
            credential_types: &["password"],
            connection_url: "Where it is.",
            settings: vec![key],
            codes: &[("odd", "something odd")],
            warnings: &[("warned", "something else")],
        }
        .describe()
    }

    #[test]
    fn every_secret_setting_is_marked_and_listed_once() {
        let settings = description().settings;
        for name in ["password"].iter().chain(&SECRETS) {
            let found: Vec<_> = settings.iter().filter(|field| field.name == *name).collect();
            assert!(found.len() == 1 && found[0].secret, "{name}");
        }
        let url = settings.iter().find(|field| field.name == "connection_url");
        assert!(url.is_some_and(|url| !url.secret), "reads show it, masked");
    }

    #[test]
    fn the_description_survives_its_way_through_json() {
        let text = serde_json::to_string(&description()).unwrap();
        assert_eq!(serde_json::from_str::<DatabaseDescription>(&text).unwrap(), description());
    }
}

//! What the plugin says of itself, once, at registration.

use crate::codes::CODES;
use bulkhead_sdk::connection::FAULTS;
use bulkhead_sdk::wire::description::{DatabaseDescription, Field, FieldKind};

/// The other names that clients send. Those of `settings::LEGACY` have shorter user names.
const ALIASES: [&str; 4] = [
    "mysql",
    "mysql-aurora-database-plugin",
    "mysql-rds-database-plugin",
    "mysql-legacy-database-plugin",
];

/// The sentence for every warning of `configure`.
const WARNINGS: [(&str, &str); 3] = [
    (
        "password-in-url",
        "connection_url holds a password; write {{password}} there and give it as the setting \
         password, which no read shows and which can be rotated",
    ),
    (
        "password-not-templated",
        "password is given, but connection_url holds another one, which is used; write \
         {{password}} there",
    ),
    (
        "tls-off",
        "tls=false sends statements with new passwords over the network in clear; use tls=true",
    ),
];

/// Settings that users of this field put secrets in, and that this plugin does not use: a value
/// that lands there by mistake is still never shown.
const FOREIGN_SECRETS: [&str; 6] =
    ["service_account_json", "private_key", "sslkey", "sslpassword", "pem_bundle", "pem_json"];

/// The description.
pub(crate) fn description() -> DatabaseDescription {
    let own = CODES.into_iter().map(|(_, code, sentence)| (code, sentence));
    let shared = FAULTS.into_iter().map(|(_, code, sentence)| (code, sentence));
    let owned = |(code, sentence): (&str, &str)| (code.to_owned(), sentence.to_owned());
    DatabaseDescription {
        kind: "database-plugin".to_owned(),
        name: "mysql-database-plugin".to_owned(),
        aliases: ALIASES.map(str::to_owned).to_vec(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        asks: vec!["sql".to_owned()],
        about: "Users of a MySQL or MariaDB server.".to_owned(),
        credential_types: vec!["password".to_owned(), "client_certificate".to_owned()],
        creation_statements_required: true,
        settings: settings(),
        codes: own.chain(shared).map(owned).collect(),
        warnings: WARNINGS.into_iter().map(owned).collect(),
    }
}

fn settings() -> Vec<Field> {
    use FieldKind::{Bool, Duration, Int, String as Words};
    let field = |name: &str, kind, about: &str| Field::new(name, kind, about);
    let mut settings = vec![
        field(
            "connection_url",
            Words,
            "Where the database is: {{username}}:{{password}}@tcp(host:3306)/database, or \
             mysql://host:3306/database.",
        )
        .required(),
        field("username", Words, "The user that creates and removes users."),
        field("password", Words, "Its password.").secret(),
        field(
            "disable_escaping",
            Bool,
            "In a URL, username and password are percent-encoded \
                                         already.",
        ),
        field("max_open_connections", Int, "Sessions at once; 4 unless given."),
        field("max_idle_connections", Int, "Accepted for compatibility: the host decides."),
        field(
            "max_connection_lifetime",
            Duration,
            "How long a session is used; 0 is without \
                                                    bound.",
        ),
        field("connect_timeout", Duration, "Bound on dialling and logging in; 30 s unless given."),
        field("tls_ca", Words, "Certificates to trust, PEM."),
        field(
            "tls_certificate_key",
            Words,
            "The certificate to show to the server, and its key, \
                                             PEM.",
        )
        .secret(),
        field(
            "tls_server_name",
            Words,
            "The name that the server's certificate has to bear; the \
                                         host's unless given.",
        ),
        field("tls_skip_verify", Bool, "Take any certificate of the server."),
        field("username_template", Words, "How names of new users are made."),
        field(
            "self_managed",
            Bool,
            "Users change their own passwords; the connection has no user \
                                     of its own.",
        ),
        field("auth_type", Words, "Cloud logins; not available in this version."),
    ];
    settings.extend(FOREIGN_SECRETS.iter().map(|name| {
        field(name, FieldKind::Any, "Not used by this plugin; kept, and never shown.").secret()
    }));
    settings
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_setting_that_may_hold_a_secret_is_marked() {
        let secrets: Vec<String> =
            settings().into_iter().filter(|field| field.secret).map(|field| field.name).collect();
        for name in ["password", "tls_certificate_key", "private_key", "service_account_json"] {
            assert!(secrets.iter().any(|secret| secret == name), "{name}");
        }
        assert!(!secrets.iter().any(|secret| secret == "connection_url"), "reads show it, masked");
    }

    #[test]
    fn the_description_survives_its_way_through_json() {
        let text = serde_json::to_string(&description()).expect("serialises");
        assert_eq!(
            serde_json::from_str::<DatabaseDescription>(&text).expect("parses"),
            description()
        );
    }
}

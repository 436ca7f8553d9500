//! What the plugin says of itself, once, at registration.

use crate::codes::CODES;
use bulkhead_sdk::connection::FAULTS;
use bulkhead_sdk::wire::description::{DatabaseDescription, Field, FieldKind};

/// The sentence for every warning of `configure`.
const WARNINGS: [(&str, &str); 4] = [
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
        "sslmode=disable sends credentials over the network in clear; use sslmode=verify-full",
    ),
    (
        "scram-recommended",
        "new passwords are sent to the database in clear, which may log them; set \
         password_authentication to scram-sha-256",
    ),
];

/// Settings that users of this field put secrets in, and that this plugin does not use: a value
/// that lands there by mistake is still never shown.
const FOREIGN_SECRETS: [&str; 7] = [
    "service_account_json",
    "sslkey",
    "sslpassword",
    "tls_certificate_key",
    "pem_bundle",
    "pem_json",
    "self_managed_password",
];

/// The description.
pub(crate) fn description() -> DatabaseDescription {
    let own = CODES.into_iter().map(|(_, code, sentence)| (code, sentence));
    let shared = FAULTS.into_iter().map(|(_, code, sentence)| (code, sentence));
    let owned = |(code, sentence): (&str, &str)| (code.to_owned(), sentence.to_owned());
    DatabaseDescription {
        kind: "database-plugin".to_owned(),
        name: "postgresql-database-plugin".to_owned(),
        aliases: vec!["postgresql".to_owned()],
        version: env!("CARGO_PKG_VERSION").to_owned(),
        asks: vec!["sql".to_owned()],
        about: "Users of a PostgreSQL database, or of one that speaks its protocol and SQL."
            .to_owned(),
        credential_types: vec!["password".to_owned()],
        creation_statements_required: true,
        settings: settings(),
        codes: own.chain(shared).map(owned).collect(),
        warnings: WARNINGS.into_iter().map(owned).collect(),
    }
}

fn settings() -> Vec<Field> {
    let field = |name: &str, kind, about: &str| Field::new(name, kind, about);
    let mut settings =
        vec![
        field(
            "connection_url",
            FieldKind::String,
            "Where the database is: postgresql://{{username}}:{{password}}@host:5432/database, or \
             host=… keywords.",
        )
        .required(),
        field("username", FieldKind::String, "The user that creates and removes users."),
        field("password", FieldKind::String, "Its password.").secret(),
        field("disable_escaping", FieldKind::Bool, "username and password are percent-encoded \
                                                    already."),
        field("max_open_connections", FieldKind::Int, "Sessions at once; 4 unless given."),
        field("max_idle_connections", FieldKind::Int, "Accepted for compatibility: the host \
                                                       decides."),
        field("max_connection_lifetime", FieldKind::Duration, "How long a session is used; 0 is \
                                                               without bound."),
        field("connect_timeout", FieldKind::Duration, "Bound on dialling and logging in; 30 s \
                                                       unless given."),
        field("tls_ca", FieldKind::String, "Certificates to trust, PEM; makes sslmode verify-full \
                                            unless it is given."),
        field("tls_certificate", FieldKind::String, "The certificate to show to the server, PEM."),
        field("private_key", FieldKind::String, "The key of tls_certificate, PEM.").secret(),
        field("username_template", FieldKind::String, "How names of new users are made."),
        field("password_authentication", FieldKind::String, "password or scram-sha-256."),
        field("self_managed", FieldKind::Bool, "Users change their own passwords; not available in \
                                                this version."),
        field("auth_type", FieldKind::String, "Cloud logins; not available in this version."),
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
        for name in [
            "password",
            "private_key",
            "service_account_json",
            "tls_certificate_key",
            "pem_bundle",
            "pem_json",
        ] {
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

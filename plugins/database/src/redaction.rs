//! Redaction of the settings that a read of a connection shows.
//!
//! This file prevents a leak of a password inside a connection string, in a form that is not a URL,
//! or under a name that the plugin does not mark as secret. If the end of a password is unclear,
//! too much is hidden rather than too little.

use bulkhead_sdk::table;
use bulkhead_sdk::wire::description::Field;
use serde_json::{Map, Value};

/// Settings of plugins that are secret even if the plugin does not mark the settings. The table
/// lists these settings so that the host keeps the values out of logs and audit before any plugin
/// was asked.
pub(crate) const SECRET_SETTINGS: &[table::Field] = &[
    table::Field::text("password", "the password of the connection's own user").secret(),
    table::Field::text("private_key", "the private key of the connection's own user").secret(),
    table::Field::text("tls_certificate_key", "the key of the client certificate").secret(),
    table::Field::text("sslkey", "the key of the client certificate").secret(),
    table::Field::text("sslpassword", "the password of the client certificate's key").secret(),
    table::Field::text("service_account_json", "the key file of a service account").secret(),
    table::Field::text("pem_bundle", "a certificate with its key").secret(),
    table::Field::text("pem_json", "a certificate with private key, as JSON").secret(),
];

/// Replacement text of a password.
const HIDDEN: &str = "xxxxx";

/// The placeholder of a password from another setting. The placeholder is not secret, and operators
/// want to see the placeholder.
const TEMPLATE: &str = "{{password}}";

/// The placeholder at the end of a login.
const TEMPLATED_LOGIN: &str = "{{password}}@";

/// Parts of keys whose values are secret, in connection strings of any kind.
const SECRET_WORDS: &[&str] =
    &["password", "passwd", "passphrase", "pwd", "secret", "sslkey", "token"];

/// Returns `settings` without secret settings, and with passwords in texts hidden. Secret settings
/// are the names in `always`, the settings marked by the plugin, and settings unknown to the plugin
/// whose name sounds secret.
pub(crate) fn without_secrets(
    settings: &Map<String, Value>,
    known_fields: &[Field],
    always: &[&str],
) -> Map<String, Value> {
    let is_secret = |name: &str| {
        let named =
            |field: &&Field| field.name == name || field.aliases.iter().any(|alias| alias == name);
        let marked = known_fields
            .iter()
            .find(named)
            .map_or_else(|| names_a_secret(name), |field| field.secret);
        marked || always.contains(&name)
    };
    let open = settings.iter().filter(|(name, _)| !is_secret(name));
    open.map(|(name, value)| (name.clone(), without_passwords(value))).collect()
}

fn without_passwords(value: &Value) -> Value {
    match value {
        Value::String(text) => Value::String(mask(text)),
        Value::Array(items) => items.iter().map(without_passwords).collect(),
        Value::Object(map) => {
            let open = map.iter().filter(|(name, _)| !names_a_secret(name));
            Value::Object(
                open.map(|(name, value)| (name.clone(), without_passwords(value))).collect(),
            )
        }
        other => other.clone(),
    }
}

fn names_a_secret(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    SECRET_WORDS.iter().any(|word| name.contains(word))
}

/// Returns `text` with the password of a connection string hidden, in every known form.
fn mask(text: &str) -> String {
    if let Some((scheme, rest)) = text.split_once("://").filter(|(scheme, _)| is_scheme(scheme)) {
        return format!("{scheme}://{}", mask_url(rest));
    }
    // A word like `password` before an `=` marks a keyword string. Keyword values may contain `@`
    // and `:`.
    match after_secret_key(text) {
        Some((head, value)) => format!("{head}{}", mask_keywords(value)),
        None => mask_login(text),
    }
}

/// Returns `true` if `text` is a URL scheme. Any other text before `://` may be part of a password.
fn is_scheme(text: &str) -> bool {
    let text = text.strip_prefix("jdbc:").unwrap_or(text);
    text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"+.-".contains(&byte))
}

/// Hides passwords in the text after `scheme://`.
fn mask_url(rest: &str) -> String {
    if let Some((login, place)) = rest.split_once(TEMPLATED_LOGIN) {
        return format!("{}{TEMPLATED_LOGIN}{}", mask_pair(login, ':'), mask_query(place));
    }
    let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    let (authority, tail) = rest.split_at_checked(end).unwrap_or((rest, ""));
    let (path, _) = tail.split_once('?').unwrap_or((tail, ""));
    // A bare `@` may belong to a password that contains `/` or `?`. The end of that password is
    // unclear.
    match authority.split_once(':') {
        Some((name, _)) if tail.contains('@') => format!("{name}:{HIDDEN}"),
        None if path.contains('@') => format!("{authority}/{HIDDEN}"),
        _ => format!("{}{}", mask_authority(authority), mask_query(tail)),
    }
}

fn mask_authority(authority: &str) -> String {
    match authority.rsplit_once('@') {
        Some((login, hosts)) => format!("{}@{hosts}", mask_pair(login, ':')),
        None => authority.to_owned(),
    }
}

/// Hides secret parameters in a path with a query.
fn mask_query(tail: &str) -> String {
    match tail.split_once('?') {
        Some((path, query)) => {
            let parameters: Vec<String> = query.split('&').map(mask_parameter).collect();
            format!("{path}?{}", parameters.join("&"))
        }
        None => tail.to_owned(),
    }
}

/// Hides the value of a secret `name=value` in a query. An escaped name could spell `password`, so
/// the value of an escaped name is hidden too.
fn mask_parameter(parameter: &str) -> String {
    match parameter.split_once('=') {
        Some((name, value)) if names_a_secret(name) || name.contains('%') => {
            format!("{name}={}", hide(value))
        }
        _ => parameter.to_owned(),
    }
}

/// Hides the text after a secret keyword and the `=`. The next keyword is recognisable after a
/// placeholder, but not after a password.
fn mask_keywords(value: &str) -> String {
    let rest = [TEMPLATE, "'{{password}}'", "\"{{password}}\""].iter().find_map(|form| {
        let rest = value.strip_prefix(form)?;
        (rest.is_empty() || rest.starts_with([' ', ';'])).then_some((form, rest))
    });
    match rest {
        Some((form, rest)) => format!("{form}{}", mask(rest)),
        None => hide(value).to_owned(),
    }
}

/// Splits after the first `password=` or similar key. Quoting differs between databases, so the end
/// of the value is unknown, and callers hide the rest of the text.
fn after_secret_key(text: &str) -> Option<(&str, &str)> {
    let equals = text.match_indices('=').map(|(at, _)| at);
    let secret = equals.filter_map(|at| text.split_at_checked(at + 1));
    secret.into_iter().find(|(head, _)| {
        let name = head.trim_end_matches('=').trim_end();
        let start =
            name.rfind(|symbol: char| symbol.is_whitespace() || symbol == ';' || symbol == '&');
        names_a_secret(start.and_then(|at| name.get(at..)).unwrap_or(name))
    })
}

/// Hides the password in `name:password@place` and `name/password@place`, the login forms of some
/// drivers.
fn mask_login(text: &str) -> String {
    if let Some((login, place)) = text.split_once(TEMPLATED_LOGIN) {
        let separator = if login.contains(':') { ':' } else { '/' };
        return format!("{}{TEMPLATED_LOGIN}{place}", mask_pair(login, separator));
    }
    let Some((login, place)) = text.rsplit_once('@') else {
        return text.to_owned();
    };
    let separator = if login.contains(':') { ':' } else { '/' };
    format!("{}@{place}", mask_pair(login, separator))
}

fn mask_pair(login: &str, separator: char) -> String {
    match login.split_once(separator) {
        Some((name, password)) => format!("{name}{separator}{}", hide(password)),
        None => login.to_owned(),
    }
}

fn hide(value: &str) -> &str {
    match value.trim() {
        "" => "",
        TEMPLATE => TEMPLATE,
        _ => HIDDEN,
    }
}

#[cfg(test)]
mod tests {
    use super::{mask, without_secrets};
    use bulkhead_sdk::testbed::plugin;
    use serde_json::json;

    #[test]
    fn password_is_hidden_in_every_connection_string_form() {
        let table = [
            (
                "postgres://root:hunter2@db:5432/app?sslmode=require",
                "postgres://root:xxxxx@db:5432/app?sslmode=require",
            ),
            ("postgres://root:hunt%40er2@a:1,b:2/app", "postgres://root:xxxxx@a:1,b:2/app"),
            ("postgres://root:h/u?n@t#er2@db/app", "postgres://root:xxxxx"),
            ("postgres://root:hun@ter2@db/app", "postgres://root:xxxxx@db/app"),
            ("postgres://root:hunt?er2@db/app", "postgres://root:xxxxx"),
            ("postgres://db:1/app?password=hunter2@x", "postgres://db:xxxxx"),
            ("postgres://db/app?password=hunter2@x", "postgres://db/app?password=xxxxx"),
            ("oracle://root/hunter2@db", "oracle://root/xxxxx"),
            ("jdbc:postgresql://root:hunter2@db/app", "jdbc:postgresql://root:xxxxx@db/app"),
            ("host=db password=hunter2://x", "host=db password=xxxxx"),
            ("root:hunter2://@tcp(db)/app", "root:xxxxx@tcp(db)/app"),
            ("postgres://root:hunter2{{password}}@db", "postgres://root:xxxxx{{password}}@db"),
            (
                "postgres://db/app?user=root&password=hunter2&a=b",
                "postgres://db/app?user=root&password=xxxxx&a=b",
            ),
            ("postgres://db/app?%70assword=hunter2", "postgres://db/app?%70assword=xxxxx"),
            ("postgres://db/app?sslpassword=hunter2", "postgres://db/app?sslpassword=xxxxx"),
            ("host=db user=root password=hunter2", "host=db user=root password=xxxxx"),
            ("host=db password = 'hun ter2' user=root", "host=db password =xxxxx"),
            ("HOST=db PassWord=hun@ter:2;a=b", "HOST=db PassWord=xxxxx"),
            ("root:hunter2@tcp(db:3306)/app", "root:xxxxx@tcp(db:3306)/app"),
            ("root:hun@ter2@tcp(db:3306)/app", "root:xxxxx@tcp(db:3306)/app"),
            (
                "server=db;user id=root;password=hunter2;app=x",
                "server=db;user id=root;password=xxxxx",
            ),
            ("Server=db;Pwd={hunter2}", "Server=db;Pwd=xxxxx"),
            ("root/hunter2@//db:1521/app", "root/xxxxx@//db:1521/app"),
        ];
        for (written, expected) in table {
            assert_eq!(mask(written), expected);
            for run in ["hunter2", "hunt", "ter2", "%40er2", "t#er2"] {
                assert!(!mask(written).contains(run), "{written} shows {run}");
            }
        }
    }

    #[test]
    fn settings_without_a_password_are_shown_as_written() {
        let table = [
            "postgres://{{username}}:{{password}}@db:5432/app?sslmode=verify-full",
            "postgres://{{username}}:{{password}}@db/app?application_name=a@b",
            "postgres://root@db/app",
            "postgres://db/app",
            "host=db user={{username}} password={{password}}",
            "host=db password='{{password}}' user={{username}} sslmode=require",
            "server=db;password={{password}};user id={{username}}",
            "{{username}}:{{password}}@tcp(db:3306)/app",
            "db.example:5432",
            "v-{{.RoleName}}-{{random 8}}",
            "scram-sha-256",
            "",
        ];
        for written in table {
            assert_eq!(mask(written), written);
        }
    }

    #[test]
    fn secret_settings_are_absent() {
        let settings = json!({
            "username": "root", "password": "hunter2", "ca": "PEM", "api_Token": "hunter2",
            "max_open_connections": 4,
        });
        let shown = without_secrets(settings.as_object().unwrap(), &plugin().settings, &["ca"]);
        assert_eq!(
            serde_json::Value::Object(shown),
            json!({"username": "root", "max_open_connections": 4})
        );
    }

    #[test]
    fn open_plugin_setting_is_shown_under_any_name() {
        let mut known_fields = plugin().settings;
        known_fields[0].name = "password_authentication".to_owned();
        let settings = serde_json::Map::from_iter([(
            "password_authentication".to_owned(),
            json!("scram-sha-256"),
        )]);
        assert_eq!(without_secrets(&settings, &known_fields, &[]), settings);
    }

    #[test]
    fn nested_values_hide_their_passwords_too() {
        let settings = serde_json::Map::from_iter([
            ("hosts".to_owned(), json!(["postgres://a:hunter2@b/c"])),
            (
                "extra".to_owned(),
                json!({"Client_Secret": "hunter2", "dsn": "a:hunter2@b", "size": 1}),
            ),
        ]);
        let shown = without_secrets(&settings, &[], &[]);
        assert_eq!(shown["hosts"], json!(["postgres://a:xxxxx@b/c"]));
        assert_eq!(shown["extra"], json!({"dsn": "a:xxxxx@b", "size": 1}));
    }
}

//! Written settings and their interpretation.

use super::*;
use bulkhead_sdk::sql_script::SqlScript;
use serde_json::{Value, json};

fn read(url: &str, more: &[(&str, Value)]) -> Result<DatabaseTarget, String> {
    ParsedConnection::read(&SqlScript::settings_with(url, more))
        .map(|connection| connection.target)
        .map_err(|refusal| refusal.code)
}

const LOGIN: [(&str, Value); 0] = [];

fn with_login<'a>(more: &[(&'a str, Value)]) -> Vec<(&'a str, Value)> {
    let login = [("username", json!("root")), ("password", json!("p@:/'\\w{{x}}"))];
    login.into_iter().chain(more.iter().cloned()).collect()
}

#[test]
fn both_url_forms_give_server_and_user() {
    for url in [
        "{{username}}:{{password}}@tcp(db:3306)/orders",
        "{{username}}:{{password}}@tcp(db)/orders?parseTime=true",
        "{{name}}:{{password}}@tcp(db:3306)/orders?timeout=10s",
        "mysql://{{username}}:{{password}}@db:3306/orders",
        "mariadb://{{username}}:{{password}}@db/orders",
        "tcp(db)/orders",
    ] {
        let target = read(url, &with_login(&[])).unwrap_or_else(|code| panic!("{url}: {code}"));
        assert_eq!(addresses(&target), ["mysql://db:3306"], "{url}");
        assert_eq!((target.username.as_str(), target.database.as_str()), ("root", "orders"));
        assert_eq!(target.password, "p@:/'\\w{{x}}", "{url}: it is put in as it is, once");
    }
}

#[test]
fn dsn_read_from_end_allows_special_password_characters() {
    let target = read("root:p@ss:w%rd@tcp(h1:3307,[fd00::1],h3)/", &LOGIN).unwrap();
    assert_eq!(
        addresses(&target),
        ["mysql://h1:3307", "mysql://[fd00::1]:3306", "mysql://h3:3306"]
    );
    assert_eq!((target.username.as_str(), target.password.as_str()), ("root", "p@ss:w%rd"));
    assert_eq!(target.database, "");
    let local = read("root@/orders", &LOGIN).unwrap();
    assert_eq!(addresses(&local), ["mysql://127.0.0.1:3306"]);
}

#[test]
fn unusable_or_unsupported_settings_are_refused_by_name() {
    for (url, expected) in [
        ("", "connection-url-missing"),
        ("db:3306", "connection-url-form"),
        ("postgres://u@db/x", "connection-url-form"),
        ("u@udp(db)/", "connection-url-form"),
        ("u@tcp(db/", "connection-url-form"),
        ("u@unix(/run/mysqld.sock)/x", "unix-socket"),
        ("mysql://u@%2Frun%2Fmysqld.sock/x", "unix-socket"),
        ("u@tcp(db:0)/", "url-port"),
        ("u@tcp(d b)/", "url-host"),
        ("u@tcp([::1)/", "url-host"),
        ("u@tcp(db)/?allowAllFiles=true", "parameter-unsupported"),
        ("u@tcp(db)/?allowCleartextPasswords=1", "parameter-unsupported"),
        ("u@tcp(db)/?sslca=%2Fetc%2Fshadow", "parameter-unknown"),
        ("u@tcp(db)/?tls=custom", "tls-mode"),
        ("u@tcp(db)/?timeout=soon", "parameter-value"),
        ("u@tcp({{password}})/", "placeholder-misplaced"),
        ("u@tcp(db)/{{host}}", "placeholder-unknown"),
        ("tcp(db)/", "credential-missing"),
        ("{{username}}@tcp(db)/", "credential-missing"),
    ] {
        assert_eq!(read(url, &LOGIN).err().as_deref(), Some(expected), "{url}");
    }
    for (setting, value, expected) in [
        ("tls_ca", json!("/etc/shadow"), "pem-expected"),
        ("tls_certificate_key", json!("-----BEGIN CERTIFICATE-----"), "certificate-without-key"),
        ("auth_type", json!("gcp_iam"), "auth-type-unsupported"),
        ("max_open_connections", json!("many"), "number-expected"),
        ("tls_skip_verify", json!("perhaps"), "flag-expected"),
    ] {
        let found = read("u@tcp(db)/", &[(setting, value)]).err();
        assert_eq!(found.as_deref(), Some(expected), "{setting}");
    }
}

#[test]
fn tls_is_verified_once_verification_material_is_given() {
    const CA: &str = "-----BEGIN CERTIFICATE-----\nAA==\n-----END CERTIFICATE-----\n";
    let none: &[(&str, Value)] = &[];
    let ca: &[(&str, Value)] = &[("tls_ca", json!(CA))];
    let name: &[(&str, Value)] = &[("tls_server_name", json!("db.example"))];
    let skip: &[(&str, Value)] = &[("tls_skip_verify", json!(true))];
    for (parameter, settings, expected) in [
        ("", none, Ok("prefer")),
        ("?tls=true", none, Ok("verify-full")),
        ("?tls=skip-verify", none, Ok("require")),
        ("?tls=preferred", none, Ok("prefer")),
        ("?tls=false", none, Ok("disable")),
        ("", ca, Ok("verify-full")),
        ("?tls=true", ca, Ok("verify-full")),
        ("?tls=false", ca, Err("tls-contradiction")),
        ("?tls=preferred", name, Err("tls-contradiction")),
        ("", name, Ok("verify-full")),
        ("", skip, Ok("require")),
        ("?tls=true", skip, Ok("require")),
    ] {
        let url = format!("u@tcp(db)/{parameter}");
        let mode = read(&url, settings).map(|target| target.tls.mode);
        assert_eq!(mode.as_deref().map_err(String::as_str), expected, "{url} {settings:?}");
    }
    let named = read("u@tcp(db)/", name).unwrap();
    assert_eq!(named.tls.server_name.as_deref(), Some("db.example"));
}

#[test]
fn unwise_settings_warn() {
    let warned = |url: &str, more: &[(&str, Value)]| {
        configure(&SqlScript::settings_with(url, more)).unwrap().warnings.join(" ")
    };
    let password = [("password", json!("x"))];
    assert_eq!(warned("u:{{password}}@tcp(db)/", &password), "");
    assert_eq!(warned("u:inline@tcp(db)/", &[]), "password-in-url");
    assert_eq!(
        warned("u:inline@tcp(db)/?tls=false", &password),
        "password-in-url password-not-templated tls-off"
    );
}

#[test]
fn username_length_follows_unstored_plugin_name() {
    let host = SqlScript::default();
    let planned = |plugin: &str| {
        let settings = SqlScript::settings_with("u@tcp(db)/", &[("plugin_name", json!(plugin))]);
        let connection = ParsedConnection::read(&settings).unwrap();
        assert!(!configure(&settings).unwrap().settings.contains_key("plugin_name"));
        connection.usernames.plan(&host, "", "a-long-display'name", "testrole").unwrap()
    };
    for plugin in ["mysql-database-plugin", "mysql"] {
        let name = planned(plugin);
        assert!(name.starts_with("v-a-long-dis-testrole-") && name.len() == 32, "{name}");
    }
    for plugin in LEGACY {
        let name = planned(plugin);
        assert!(name.starts_with("v-test-") && name.len() == 16, "{name}");
    }
}

#[test]
fn self_managed_connection_needs_no_own_user() {
    let url = "{{username}}:{{password}}@tcp(db)/";
    let settings = SqlScript::settings_with(url, &[("self_managed", json!(true))]);
    let configured = configure(&settings).unwrap();
    assert_eq!(configured.targets, ["mysql://db:3306"]);
    assert!(ParsedConnection::read(&settings).unwrap().self_managed);
}

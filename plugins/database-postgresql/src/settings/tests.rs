//! Connection settings as tables: every form of `connection_url`, and all refused values.
use super::*;
use bulkhead_sdk::database_plugin::Endpoint;
use bulkhead_sdk::database_plugin::PoolLimits;
use bulkhead_sdk::sql_script::SqlScript;
use serde_json::Value;
use serde_json::json;

fn target(url: &str) -> DatabaseTarget {
    ParsedConnection::read(&SqlScript::settings(url))
        .map(|connection| connection.target)
        .map_err(|refusal| refusal.code)
        .expect(url)
}

fn code(settings: &ConnectionSettings) -> String {
    let refusal = configure(settings).expect_err("refused");
    assert!(!format!("{refusal:?}").contains("canary"), "{refusal:?}");
    refusal.code
}

/// Returns addresses, user, password and database.
fn read(url: &str, more: &[(&str, Value)]) -> (String, String, String, String) {
    let connection = ParsedConnection::read(&SqlScript::settings_with(url, more))
        .map_err(|refusal| refusal.code)
        .expect(url);
    let addresses = addresses(&connection.target).join(" ");
    (addresses, connection.target.username, connection.target.password, connection.target.database)
}

#[test]
fn every_shape_of_a_connection_url_is_understood() {
    for (url, addresses, user, password, database) in [
        ("postgres://u:p@db:5433/orders", "postgres://db:5433", "u", "p", "orders"),
        ("postgresql://u@db", "postgres://db:5432", "u", "", "u"),
        ("postgres://u:p@db:/orders", "postgres://db:5432", "u", "p", "orders"),
        ("postgres://u%40x:p%2F%3A%27@db/o%20s", "postgres://db:5432", "u@x", "p/:'", "o s"),
        ("postgres://u:p:q@db/o", "postgres://db:5432", "u", "p:q", "o"),
        ("postgres://u:p@q@db/o", "postgres://db:5432", "u", "p@q", "o"),
        ("postgres://u@[::1]:5433/o", "postgres://[::1]:5433", "u", "", "o"),
        ("postgres://u@[2001:db8::1]/o", "postgres://[2001:db8::1]:5432", "u", "", "o"),
        (
            "postgres://u@a:1,b,c:3/o",
            "postgres://a:1 postgres://b:5432 postgres://c:3",
            "u",
            "",
            "o",
        ),
        ("postgres://u@a,a/o", "postgres://a:5432", "u", "", "o"),
        ("postgres:///o?host=a,b&port=1,2&user=u", "postgres://a:1 postgres://b:2", "u", "", "o"),
        ("postgres://db?user=u&password=p%26&dbname=o", "postgres://db:5432", "u", "p&", "o"),
        ("  postgres://u@10.0.0.1/o  ", "postgres://10.0.0.1:5432", "u", "", "o"),
        ("host=db user=u password=p dbname=o port=5433", "postgres://db:5433", "u", "p", "o"),
        (
            "host = db  user = 'u x' password='p\\'\\\\ q' dbname=o",
            "postgres://db:5432",
            "u x",
            "p'\\ q",
            "o",
        ),
        ("host=a,b port=7 user=u", "postgres://a:7 postgres://b:7", "u", "", "u"),
        ("host=::1 user=u password=", "postgres://[::1]:5432", "u", "", "u"),
        ("user=u\\ v host=db", "postgres://db:5432", "u v", "", "u v"),
    ] {
        let expected = [addresses, user, password, database].map(str::to_owned);
        let (addresses, user, password, database) = read(url, &[]);
        assert_eq!([addresses, user, password, database], expected, "{url}");
    }
}

#[test]
fn placeholders_take_settings_with_any_content() {
    let templated = "postgres://{{username}}:{{password}}@db/{{name}}";
    for password in ["p", "p@/:?#% '\"\\$", "{{name}}", "{{foo}}", "%41", "a\nb", "pä"] {
        let more = [("username", json!("u/x")), ("password", json!(password))];
        let expected = (
            "postgres://db:5432".to_owned(),
            "u/x".to_owned(),
            password.to_owned(),
            "u/x".to_owned(),
        );
        assert_eq!(read(templated, &more), expected);
        let keywords = "host=db user={{username}} password='{{password}}' dbname={{username}}";
        assert_eq!(read(keywords, &more), expected);
        let more = [more[0].clone(), more[1].clone(), ("disable_escaping", json!(true))];
        assert_eq!(read(keywords, &more), expected);
    }
    let encoded = [
        ("username", json!("u")),
        ("password", json!("p%40")),
        ("disable_escaping", json!("true")),
    ];
    assert_eq!(read(templated, &encoded).2, "p@");
    assert_eq!(read(templated, &encoded[..2]).2, "p%40");
    assert_eq!(read(templated, &[("username", json!("u")), ("password", json!(12345))]).2, "12345");
    assert_eq!(
        read("postgres://db/o", &[("username", json!("u")), ("password", json!("p"))]).2,
        "p"
    );
}

/// URLs without a host to dial, and the code of each refusal.
const UNDIALLED: &[(&str, &str)] = &[
    ("", "connection-url-missing"),
    ("  ", "connection-url-missing"),
    ("db.example", "url-scheme"),
    ("mysql://u:canary@db/o", "url-scheme"),
    ("http://db/o?x=y", "url-scheme"),
    ("postgres:/u:canary@db", "url-scheme"),
    ("postgres://", "url-host"),
    ("postgres://u:canary@/o", "url-host"),
    ("postgres://u@a,,b/o", "url-host"),
    ("postgres://u@a b/o", "url-escaping"),
    ("postgres://u@[::1/o", "url-host"),
    ("postgres://u@[::1]x/o", "url-host"),
    ("postgres://u@[fe80::1%25eth0]/o", "url-host"),
    ("postgres://u@a%00b/o", "url-escaping"),
    ("postgres://u@-/o", "url-host"),
    ("postgres://u@db:x/o", "url-port"),
    ("postgres://u@db:0/o", "url-port"),
    ("postgres://u@db:65536/o", "url-port"),
    ("postgres://u@db:+5/o", "url-port"),
    ("host=a,b,c port=1,2 user=u", "url-port"),
    ("host=a port=1,2 user=u", "url-port"),
    ("postgres://u:canary#x@db/o", "url-escaping"),
    ("postgres://u:can%ary@db/o", "url-escaping"),
    ("postgres://u:canary%@db/o", "url-escaping"),
    ("postgres://u:canary%ff@db/o", "url-escaping"),
    ("postgres://u:5432/canary@db/o", "url-escaping"),
    ("postgres://u:canary?x@db/o", "parameter-unreadable"),
    ("postgres://u@%2Fvar%2Frun/o", "unix-socket"),
    ("postgres:///o?host=/var/run&user=u", "unix-socket"),
    ("postgres:///o?host=@abstract&user=u", "unix-socket"),
    ("host=/var/run/postgresql user=u", "unix-socket"),
    ("user=u dbname=o", "url-host"),
    ("postgres://u:x?canary=1@db/o", "parameter-unreadable"),
    ("postgres://u@db/o?password=x&canary=1", "parameter-unreadable"),
    ("postgres://u@db/o?sslmod=verify-full", "parameter-unknown"),
    ("host=db user=u password=x canary=y", "parameter-unreadable"),
    ("host=db user=u password=x canary", "keyword-syntax"),
    ("host=db password='canary", "keyword-syntax"),
    ("host=db password='canary'x user=u", "keyword-syntax"),
    ("host=db pass-word=canary", "keyword-syntax"),
    ("postgres://u@db/o?hostaddr=169.254.169.254", "parameter-unsupported"),
    ("postgres://u@db/o?options=-crole%3Dx", "parameter-unsupported"),
    ("host=db user=u passfile=/root/.pgpass", "parameter-unsupported"),
    ("host=db user=u service=x", "parameter-unsupported"),
    ("postgres://u@db/o?target_session_attrs=standby", "parameter-value"),
    ("postgres://u@db/o?connect_timeout=-1", "parameter-value"),
    ("postgres://u@db/o?sslmode=off", "sslmode"),
    ("postgres://db/o", "credential-missing"),
    ("postgres://{{username}}@db/o", "credential-missing"),
    ("postgres://u:{{password}}@db/o", "credential-missing"),
    ("postgres://u:{{pass}}@db/o", "placeholder-unknown"),
    ("postgres://u:{{ password }}@db/o", "url-escaping"),
    ("host=db user=u password='{{ password }}'", "placeholder-unknown"),
    ("postgres://u@{{username}}/o", "placeholder-misplaced"),
    ("postgres://u@db/o?sslmode={{password}}", "placeholder-misplaced"),
];

#[test]
fn an_unusable_address_is_refused_with_the_reason() {
    let many = format!("postgres://u@{}/o", vec!["h"; 17].join(","));
    let rows = UNDIALLED.iter().copied().chain([(many.as_str(), "too-many-hosts")]);
    for (url, expected) in rows {
        assert_eq!(code(&SqlScript::settings(url)), expected, "{url}");
    }
}

#[test]
fn wrong_settings_are_named() {
    for (setting, value, expected) in [
        ("connection_url", json!(5), "text-expected"),
        ("username", json!(["canary"]), "text-expected"),
        ("password", json!({"a": "canary"}), "text-expected"),
        ("password", json!("canary{{password}}"), "credential-template"),
        ("username", json!("{{username}}"), "credential-template"),
        ("max_open_connections", json!("five"), "number-expected"),
        ("max_open_connections", json!(2.5), "number-expected"),
        ("max_idle_connections", json!([]), "number-expected"),
        ("max_connection_lifetime", json!("soon"), "duration-expected"),
        ("connect_timeout", json!(-5), "duration-expected"),
        ("disable_escaping", json!("maybe"), "flag-expected"),
        ("auth_type", json!("gcp_iam"), "auth-type-unsupported"),
        ("password_authentication", json!("md5"), "password-authentication"),
        ("username_template", json!("{{ .X }}"), "invalid-username-template"),
        ("tls_ca", json!("/etc/shadow"), "pem-expected"),
        ("private_key", json!("canary"), "pem-expected"),
    ] {
        let settings = SqlScript::settings_with("postgres://u@db/o", &[(setting, value.clone())]);
        assert_eq!(code(&settings), expected, "{setting} {value}");
        assert_eq!(configure(&settings).unwrap_err().setting.as_deref(), Some(setting));
    }
}

#[test]
fn settings_choose_pool_and_server() {
    let more = [
        ("max_open_connections", json!("5")),
        ("max_idle_connections", json!(-1)),
        ("max_connection_lifetime", json!("1m30s")),
        ("connect_timeout", json!(3)),
    ];
    let connection = ParsedConnection::read(&SqlScript::settings_with(
        "host=db user=u target_session_attrs=read-write",
        &more,
    ))
    .unwrap();
    assert_eq!(
        connection.target.pool,
        PoolLimits { max_connections: 5, connect_timeout: 3000, max_lifetime: 90_000 }
    );
    assert!(connection.target.writable);
    let plain = target("postgres://u@db/o?connect_timeout=7&application_name=x");
    assert_eq!(
        plain.pool,
        PoolLimits { max_connections: 4, connect_timeout: 7000, max_lifetime: 0 }
    );
    assert_eq!(target("host=db user=u connect_timeout=0").pool.connect_timeout, 30_000);
    assert!(!plain.writable);
    assert_eq!(plain.endpoints, [Endpoint { host: "db".to_owned(), port: 5432 }]);
}

#[test]
fn settings_are_kept_as_they_were_written() {
    let more = [
        ("username", json!("u")),
        ("password", json!("p")),
        ("max_open_connections", json!("5")),
        ("of_another_plugin", json!({"a": [1]})),
        ("tls_ca", Value::Null),
    ];
    let mut settings = SqlScript::settings_with("postgres://{{username}}:{{password}}@db/o", &more);
    let configured = configure(&settings).unwrap();
    settings.remove("tls_ca");
    assert_eq!(configured.settings, settings);
    assert_eq!(configured.targets, ["postgres://db:5432"]);
}

#[test]
fn risky_settings_get_a_warning() {
    let warned = |url: &str, more: &[(&str, Value)]| {
        configure(&SqlScript::settings_with(url, more)).unwrap().warnings.join(" ")
    };
    let scram = ("password_authentication", json!("scram-sha-256"));
    let username = ("username", json!("u"));
    let password = ("password", json!("p"));
    assert_eq!(warned("postgres://u:p@db/o", &[]), "password-in-url scram-recommended");
    assert_eq!(
        warned("host=db user=u password=p", std::slice::from_ref(&scram)),
        "password-in-url"
    );
    assert_eq!(
        warned("postgres://u:p@db/o?sslmode=disable", &[password.clone(), scram.clone()]),
        "password-in-url password-not-templated tls-off"
    );
    assert_eq!(
        warned("postgres://{{username}}:{{password}}@db/o", &[username, password, scram]),
        ""
    );
    let descriptions = crate::description::description().warnings;
    for code in [
        "password-in-url",
        "password-not-templated",
        "tls-off",
        "scram-recommended",
        "sessions-bounded",
        "username-template-repeats",
    ] {
        assert!(descriptions.contains_key(code), "{code}");
    }
}

#[test]
fn unlimited_sessions_are_capped_with_warning() {
    let url = "postgres://u@db/o?sslmode=require";
    for (limit, sessions, is_told) in [
        (json!(-1), 64, true),
        (json!("-1"), 64, true),
        (json!(65), 64, true),
        (json!(i64::MAX), 64, true),
        (json!(64), 64, false),
        (json!(0), 4, false),
    ] {
        let settings = SqlScript::settings_with(url, &[("max_open_connections", limit.clone())]);
        let pool = ParsedConnection::read(&settings).unwrap().target.pool;
        assert_eq!(pool.max_connections, sessions, "{limit}");
        let warnings = configure(&settings).unwrap().warnings;
        let has_warning = warnings.iter().any(|warning| warning == "sessions-bounded");
        assert_eq!(has_warning, is_told, "{limit}: {warnings:?}");
    }
}

#[test]
fn username_template_without_randomness_is_accepted_with_warning() {
    for (template, is_told) in [("app", true), ("{{random 7}}", true), ("{{random 8}}", false)] {
        let more = [("username_template", json!(template))];
        let settings = SqlScript::settings_with("postgres://u@db/o?sslmode=require", &more);
        let warnings = configure(&settings).unwrap().warnings;
        let has_warning = warnings.iter().any(|warning| warning == "username-template-repeats");
        assert_eq!(has_warning, is_told, "{template}: {warnings:?}");
    }
}

#[test]
fn self_managed_connection_needs_no_own_user() {
    let url = "postgresql://{{username}}:{{password}}@db/orders";
    assert!(ParsedConnection::read(&SqlScript::settings(url)).is_err());
    let settings = SqlScript::settings_with(url, &[("self_managed", json!(true))]);
    let connection = ParsedConnection::read(&settings).unwrap();
    assert!(connection.self_managed);
    assert_eq!(connection.target.database, "orders");
}

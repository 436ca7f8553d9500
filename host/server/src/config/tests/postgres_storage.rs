//! `storage "postgresql"`: the words of published servers, the sources of URL and password, and
//! contradictions.

use super::*;
use bulkhead_store::{
    DatabaseChoice, PasswordSource, PostgresPlace, PostgresTlsMode, SessionTarget,
};
use std::ffi::OsString;

/// A password that no message may hold.
const CANARY: &str = "hunter2-c4n4ry";

fn block(lines: &str) -> String {
    format!("storage \"postgresql\" {{\n{lines}\n}}\n")
}

/// Returns the place of the block, with these variables.
#[track_caller]
fn place(lines: &str, variables: &[(&str, &str)]) -> PostgresPlace {
    match load(lines, variables).unwrap_or_else(|why| panic!("{lines}: {why}")) {
        DatabaseChoice::Postgres(place) => *place,
        DatabaseChoice::SqliteFile => panic!("{lines}: SQLite"),
    }
}

fn load(lines: &str, variables: &[(&str, &str)]) -> Result<DatabaseChoice, String> {
    let lookup = |name: &str| {
        let found = variables.iter().find(|(variable, _)| *variable == name);
        found.map(|(_, value)| OsString::from(value))
    };
    read(&block(lines)).database.load(&lookup)
}

/// Asserts that the only error is on its line, has the words, and not the password.
#[track_caller]
fn refuse(lines: &str, line: usize, words: &[&str]) {
    let wrong = only_error(&block(lines));
    assert_eq!(wrong.line, line, "{lines}: {wrong}");
    for word in words {
        assert!(wrong.message.contains(word), "{lines}: {wrong} does not say {word:?}");
    }
    assert!(!wrong.message.contains(CANARY), "{wrong}");
}

const URL: &str = "connection_url = \"postgresql://bulkhead@db.example/bulkhead\"";

#[test]
fn block_has_defaults_besides_url() {
    let config = read(&block(URL));
    assert_eq!(
        (config.data.as_path(), config.database.kind()),
        (Path::new("/var/lib/bulkhead"), "postgresql")
    );
    let place = place(URL, &[]);
    assert_eq!((place.schema.as_str(), place.table.as_str()), ("public", "bulkhead"));
    assert_eq!(place.tls.mode, PostgresTlsMode::VerifyFull);
    assert!(matches!(place.password, PasswordSource::Missing));
    assert_eq!(config.shown()["storage"], serde_json::json!({ "type": "postgresql" }));
    let report = config.to_string();
    assert!(report.contains("keeps the data in postgresql://db.example:5432/bulkhead"), "{report}");
    assert!(report.contains("keeps its lock and uploads in /var/lib/bulkhead"), "{report}");
}

#[test]
fn every_setting_of_the_block_is_used() {
    let lines = format!(
        "{URL}\n  path = \"/srv/local\"\n  schema = \"vault data\"\n  \
         table = \"vault_kv_store\"\n  password_file = \"/run/password\"\n  \
         sslmode = \"verify-ca\"\n  sslrootcert = \"/etc/ca.pem\"\n  \
         sslcert = \"/etc/c.pem\"\n  sslkey = \"/etc/k.pem\"\n  \
         connect_timeout = \"3s\"\n  target_session_attrs = \"read-write\"\n  \
         max_parallel = \"128\"\n  max_connect_retries = 0"
    );
    assert_eq!(read(&block(&lines)).data, Path::new("/srv/local"));
    assert_eq!(read(&block(&lines)).database.connect_retries(), ConnectRetries::Always);
    let place = place(&lines, &[]);
    assert_eq!((place.schema.as_str(), place.table.as_str()), ("vault data", "vault_kv_store"));
    assert!(
        matches!(&place.password, PasswordSource::File(file) if file == Path::new("/run/password"))
    );
    assert_eq!(place.tls.mode, PostgresTlsMode::VerifyCa);
    let files = [
        place.tls.root_certificates.as_deref(),
        place.tls.client_certificate.as_deref(),
        place.tls.client_key.as_deref(),
    ];
    assert_eq!(
        files,
        ["/etc/ca.pem", "/etc/c.pem", "/etc/k.pem"].map(|file| Some(Path::new(file)))
    );
    assert_eq!(place.connect_timeout, Duration::from_secs(3));
    assert_eq!(place.session_target, SessionTarget::ReadWrite);
    assert_eq!(place.max_parallel, 128);
}

#[test]
fn words_of_published_servers_are_named_or_refused() {
    let lines = format!(
        "{URL}\n  max_idle_connections = 5\n  transaction_max_parallel = 9\n  \
         skip_create_table = \"true\"\n  ha_enabled = \"false\"\n  ha_table = \"locks\""
    );
    let notices = read(&block(&lines)).notices;
    let named: Vec<_> = notices.iter().map(|notice| notice.setting.as_str()).collect();
    let words = [
        "max_idle_connections",
        "transaction_max_parallel",
        "skip_create_table",
        "ha_enabled",
        "ha_table",
    ];
    assert_eq!(named, words);
    refuse(&format!("{URL}\n  max_paralel = 3"), 3, &["max_paralel", "max_parallel"]);
}

const SHARED: &str = "ha_enabled = \"true\"";

/// Returns a file whose node has the address `api` and shares the database, with `lines` in the
/// block.
fn shared(api: &str, lines: &str) -> String {
    format!("{}api_addr = {api:?}\n", block(&format!("{URL}\n  {SHARED}\n  {lines}")))
}

#[test]
fn node_that_shares_database_has_name() {
    for (api, line, name) in [
        ("https://a.example:8200", "", "a.example:8200"),
        ("https://a.example", "", "a.example:443"),
        ("http://[::1]", "", "::1:80"),
        ("https://a.example:8200", "node_id = \"node-1_a.b:c\"", "node-1_a.b:c"),
    ] {
        let config = read(&shared(api, line));
        assert_eq!((config.node_id.as_deref(), config.notices.len()), (Some(name), 0), "{api}");
        let options = config.store_options(&|_| None).unwrap();
        assert!(options.is_shared());
        assert_eq!((options.node.node_id.as_str(), options.node.api_address.as_str()), (name, api));
        assert_eq!(options.node.version, config.reported_version);
        let report = config.to_string();
        assert!(report.contains(&format!("other nodes, as node {name}\n")), "{report}");
        assert_eq!(config.shown()["storage"]["node_id"], name);
    }
    let alone = read(&block(&format!("{URL}\n  ha_enabled = false")));
    assert_eq!((alone.node_id.as_deref(), alone.notices.len()), (None, 1));
    assert!(!alone.store_options(&|_| None).unwrap().is_shared());
}

#[test]
fn unusable_nodes_are_refused_with_remedy() {
    refuse(&format!("{URL}\n  {SHARED}"), 3, &["ha_enabled", "api_addr = \"https://node-1"]);
    refuse(&format!("{URL}\n  ha_enabled = \"maybe\""), 3, &["\"maybe\" is neither"]);
    refuse(&format!("{URL}\n  node_id = \"a\""), 3, &["node_id", "write ha_enabled"]);
    let long = "a".repeat(129);
    for name in ["", "a b", "ä", "a/b", long.as_str()] {
        let wrong = only_error(&shared("https://a.example", &format!("node_id = {name:?}")));
        assert_eq!(wrong.line, 4, "{name}: {wrong}");
        assert!(wrong.message.contains("such as \"node-1\""), "{wrong}");
    }
    let wrong = only_error(&shared(&format!("https://{long}"), ""));
    assert!(wrong.line == 3 && wrong.message.contains("write node_id = "), "{wrong}");
    let wrong = only_error(&shared("a.example", ""));
    assert!(wrong.message.contains("api_addr: \"a.example\""), "{wrong}");
}

#[test]
fn unusable_values_are_refused_without_password() {
    let url = format!("connection_url = \"postgresql://u:{CANARY}@h/d\"");
    for (lines, line, words) in [
        ("connection_url = \"\"".to_owned(), 2, &["connection_url", "empty"][..]),
        (format!("connection_url = \"mysql://u:{CANARY}@h/d\""), 2, &["postgresql://"]),
        (format!("connection_url = \"postgresql://u:{CANARY}@h:{CANARY}/d\""), 2, &["port"]),
        (format!("{url}\n  password_file = \"/p\""), 2, &["password_file", "leave one"]),
        (format!("{url}\n  passfile = \"/p\""), 2, &["passfile", "leave one"]),
        (format!("{URL}\n  passfile = \"/p\"\n  password_file = \"/p\""), 3, &["password_file"]),
        (format!("{URL}\n  table = \"a-b\""), 3, &["\"a-b\"", "letters, digits and _"]),
        (format!("{URL}\n  table = \"\""), 3, &["\"\""]),
        (format!("{URL}\n  schema = \"a,b\""), 3, &["\"a,b\"", "schema"]),
        (format!("{URL}\n  sslmode = \"verify\""), 3, &["\"verify\"", "verify-full"]),
        (format!("{URL}\n  target_session_attrs = \"standby\""), 3, &["read-write"]),
        (format!("{URL}\n  max_parallel = 0"), 3, &["not between 1 and 256"]),
        (format!("{URL}\n  connect_timeout = \"0s\""), 3, &["not between"]),
        (format!("{URL}\n  sslcert = \"/c\""), 3, &["belong together"]),
        (format!("{URL}\n  sslmode = \"allow\""), 3, &["without TLS first"]),
        (format!("{URL}\n  schema = \"a\\\"b\""), 3, &["schema"]),
        (format!("{URL}\n  sslrootcert = \"/c\"\n  sslmode = \"prefer\""), 2, &["no effect"]),
    ] {
        refuse(&lines, line, words);
    }
}

#[test]
fn settings_of_block_decide_with_url() {
    let local = "connection_url = \"postgresql://u@127.0.0.1/d\"";
    let rooted = place(&format!("{local}\n  sslrootcert = \"/ca.pem\""), &[]);
    assert_eq!(rooted.tls.mode, PostgresTlsMode::VerifyFull, "the file has an effect");
    let public = place(&format!("{URL}\n  sslrootcert = \"system\""), &[]);
    assert_eq!(public.tls.root_certificates.as_deref(), Some(Path::new("system")));
    let several = "connection_url = \"postgresql://u@a,b/d\"";
    assert_eq!(place(several, &[]).session_target, SessionTarget::ReadWrite);
    refuse(&format!("{several}\n  target_session_attrs = \"any\""), 2, &["standby"]);
    let spaced = "connection_url = \"host = h user = u sslmode = require\"";
    refuse(&format!("{spaced}\n  sslmode = \"require\""), 2, &["sslmode", "leave one"]);
}

#[test]
fn each_unusable_value_is_named() {
    let lines = format!(
        "{URL}\n  sslmode = \"x\"\n  schema = \"\"\n  table = \"\"\n  max_parallel = 0\n  \
         sslkey = \"/k\"\n  password_file = \"\""
    );
    let refusal = Config::of(&block(&lines)).expect_err(&lines);
    let mut lines: Vec<usize> = refusal.errors.iter().map(|error| error.line).collect();
    lines.sort_unstable();
    assert_eq!(lines, [3, 4, 5, 6, 7, 8]);
}

#[test]
fn setting_in_block_and_url_is_refused() {
    let url =
        |parameters: &str| format!("connection_url = \"postgresql://u:{CANARY}@h/d?{parameters}\"");
    for (parameter, setting) in [
        ("sslmode=require", "sslmode = \"require\""),
        ("search_path=a", "schema = \"b\""),
        ("application_name=a&connect_timeout=3", "connect_timeout = 4"),
        ("target_session_attrs=any", "target_session_attrs = \"any\""),
        ("sslrootcert=/a", "sslrootcert = \"/b\""),
    ] {
        let word = setting.split(' ').next().unwrap();
        refuse(&format!("{}\n  {setting}", url(parameter)), 2, &[word, "leave one"]);
    }
}

#[test]
fn url_comes_from_variables_in_their_order() {
    let variables = [
        ("BULKHEAD_PG_CONNECTION_URL", "postgresql://u@first/d"),
        ("VAULT_PG_CONNECTION_URL", "postgresql://u@second/d"),
        ("BAO_PG_CONNECTION_URL", "postgresql://u@third/d"),
    ];
    for (left_out, host) in ["first", "second", "third"].iter().enumerate() {
        assert_eq!(place("", &variables[left_out..]).servers[0].host, *host);
    }
    let why = load("", &[("BAO_PG_CONNECTION_URL", "")]).unwrap_err();
    assert!(why.contains("connection_url") && why.contains("BULKHEAD_PG_CONNECTION_URL"), "{why}");
    let report = read(&block("")).to_string();
    assert!(report.contains("PostgreSQL at the URL of the environment"), "{report}");
}

#[test]
fn variable_that_contradicts_file_is_refused() {
    let other = format!("postgresql://u:{CANARY}@other/d");
    for name in ["BULKHEAD_PG_CONNECTION_URL", "VAULT_PG_CONNECTION_URL"] {
        let why = load(URL, &[(name, &other)]).unwrap_err();
        assert!(why.contains(name) && why.contains("connection_url"), "{why}");
        assert!(!why.contains(CANARY), "{why}");
    }
    place(URL, &[("BULKHEAD_PG_CONNECTION_URL", "postgresql://bulkhead@db.example/bulkhead")]);
}

#[test]
fn url_of_variable_is_read_at_start() {
    let lines = "connection_url = \"env://DATABASE_URL\"\n  schema = \"s\"";
    let found = place(lines, &[("DATABASE_URL", "postgresql://u@h/d")]);
    assert_eq!((found.servers[0].host.as_str(), found.schema.as_str()), ("h", "s"));
    let why = load(lines, &[]).unwrap_err();
    assert!(why.contains("env://DATABASE_URL is not set"), "{why}");
    let url = format!("postgresql://u:{CANARY}@h/d?search_path=t");
    let why = load(lines, &[("DATABASE_URL", &url)]).unwrap_err();
    assert!(why.contains("search_path") && !why.contains(CANARY), "{why}");
    assert!(why.starts_with("connection_url env://DATABASE_URL: "), "{why}");
    let why = load("connection_url = \"file:///nonexistent/url\"", &[]).unwrap_err();
    assert!(why.contains("/nonexistent/url"), "{why}");
}

#[test]
fn pass_file_of_environment_replaces_missing_password_only() {
    let variables = [("PGPASSFILE", "/srv/pgpass")];
    let found = place(URL, &variables).password;
    assert!(matches!(found, PasswordSource::PassFile(file) if file == Path::new("/srv/pgpass")));
    // The name after the restart without the settings of PostgreSQL.
    let restarted = [("BULKHEAD_PGPASSFILE", "/b"), ("PGPASSFILE", "/c")];
    let found = place(URL, &restarted).password;
    assert!(matches!(found, PasswordSource::PassFile(file) if file == Path::new("/b")));
    let lines = format!("{URL}\n  password_file = \"/p\"");
    assert!(matches!(place(&lines, &variables).password, PasswordSource::File(_)));
}

#[test]
fn password_in_file_is_recognised_and_never_shown() {
    let written = read(&block(&format!("connection_url = \"postgresql://u:{CANARY}@h/d\"")));
    assert!(written.database.has_written_password());
    assert!(!read(&block(URL)).database.has_written_password());
    let loaded = written.clone().with_database(&|_| None).unwrap();
    for text in [
        written.to_string(),
        loaded.to_string(),
        format!("{written:?} {loaded:?}"),
        format!("{:?}", written.shown()),
    ] {
        assert!(!text.contains(CANARY), "{text}");
    }
}

#[test]
fn unverified_server_of_another_machine_is_named() {
    for (url, mode) in [
        ("postgresql://u@h/d?sslmode=require", Some("require")),
        ("postgresql://u@h/d?sslmode=disable", Some("disable")),
        ("postgresql://u@h/d?sslmode=require&sslrootcert=/ca", None),
        ("postgresql://u@h/d", None),
        ("postgresql://u@127.0.0.1/d?sslmode=disable", None),
    ] {
        let place = PostgresPlace::from_url(url).unwrap();
        assert_eq!(unverified_server(&place).map(|(_, mode)| mode), mode, "{url}");
    }
}

//! Files of Vault and OpenBao: the settings that refuse a start, the settings that are only named,
//! and both syntaxes.

use super::super::findings::{ConfigNotice, ConfigRefusal};
use super::super::section::ForeignWord;
use super::super::{Config, WORDS, vault};
use super::{STORAGE, read, refuse_all};
use crate::config::ListenerTransport;
use crate::log::LogFormat;
use crate::proxies::ConnectionOrigin;
use bulkhead_wire::log_level::LogLevel;
use std::collections::BTreeSet;
use std::path::Path;

/// A file as a package of Vault installs it, with the usual changes of an operator.
const TYPICAL: &str = r#"
ui            = true
cluster_addr  = "https://127.0.0.1:8201"
api_addr      = "https://vault.example.com:8200"
disable_mlock = true
log_level     = "info"
log_format    = "json"

listener "tcp" {
  address         = "0.0.0.0:8200"
  cluster_address = "0.0.0.0:8201"
  tls_disable     = "true"
  telemetry {
    unauthenticated_metrics_access = true
  }
}

telemetry {
  statsite_address = "127.0.0.1:8125"
  disable_hostname = true
}

storage "sqlite" {
  path = "data"
}
"#;

fn settings(notices: &[ConfigNotice]) -> Vec<(usize, &str)> {
    notices.iter().map(|notice| (notice.line, notice.setting.as_str())).collect()
}

#[test]
fn ineffective_settings_are_named_and_refuse_no_start() {
    let config = read(TYPICAL);
    assert_eq!(
        settings(&config.notices),
        [
            (2, "ui"),
            (3, "cluster_addr"),
            (5, "disable_mlock"),
            (11, "cluster_address"),
            (19, "statsite_address"),
            (20, "disable_hostname"),
        ]
    );
    assert_eq!(config.listener.transport, ListenerTransport::Plain);
    assert!(config.listener.opens_metrics);
    let report = config.to_string();
    assert!(report.contains("\nignores line 2: ui: this server has no user"), "{report}");
    assert_eq!(read(STORAGE).notices, []);
}

#[test]
fn standard_format_of_log_is_logfmt() {
    let config = read(&format!("{STORAGE}log_format = \"standard\"\nlog_level = \"warn\"\n"));
    assert_eq!(config.log.format, LogFormat::Logfmt);
    assert_eq!(config.log.level, LogLevel::Warn);
    let named: Vec<&str> = settings(&config.notices).into_iter().map(|(_, name)| name).collect();
    assert_eq!(named, ["log_format"]);
}

/// A file with one setting of each kind that changes security or data.
const UNSAFE: &str = r#"
ui = true
storage "raft" {
  path    = "/opt/vault/data"
  node_id = "a"
  retry_join { leader_api_addr = "https://b:8200" }
}
ha_storage "consul" { address = "127.0.0.1:8500" }
seal "ocikms" { key_id = "ocid1" }
listener "tcp" {
  address = "127.0.0.1:8200"
  x_forwarded_for_authorized_addrs = "10.0.0.0/8"
  tls_min_version = "tls10"
}
listener "tcp" { address = "10.0.0.1:8200" }
user_lockout "all" { lockout_threshold = "3" }
max_lease_ttl = "soon"
defualt_lease_ttl = "1h"
"#;

fn refusal(text: &str) -> ConfigRefusal {
    Config::of(text).expect_err(text)
}

#[test]
fn all_file_errors_are_named_in_line_order() {
    let refusal = refusal(UNSAFE);
    let says = [
        (3, "storage \"sqlite\" { path = \"/var/lib/bulkhead\" }"),
        (8, "ha_storage: a single server has the data"),
        (9, "seal \"ocikms\": this version opens the data with Shamir's shares"),
        (12, "trusted_proxies = [\"10.0.0.0/8\"]"),
        (13, "no effect without TLS"),
        (15, "given on line 10 already; a server has one listener of each kind"),
        (16, "user_lockout_config"),
        (17, "\"soon\" is not a duration"),
        (18, "did you mean \"default_lease_ttl\""),
    ];
    let lines: Vec<usize> = refusal.errors.iter().map(|error| error.line).collect();
    assert_eq!(lines, says.map(|(line, _)| line), "{:?}", refusal.errors);
    for (error, (_, says)) in refusal.errors.iter().zip(says) {
        assert!(error.message.contains(says), "{error} does not say {says}");
    }
    let message = refusal.message(Path::new("/etc/vault.hcl"));
    assert!(message.starts_with("/etc/vault.hcl has 9 errors\n/etc/vault.hcl, line 3: storage"));
    assert!(message.contains("\n/etc/vault.hcl, line 2: ui: this server has no user interface"));
}

#[test]
fn a_single_error_is_one_line() {
    let message = refusal("seal \"shamir\" {}").message(Path::new("f"));
    assert!(message.starts_with("f, line 1: there is no storage") && !message.contains('\n'));
}

#[test]
fn many_file_errors_give_bounded_message() {
    let many: String = (0..5_000).map(|number| format!("word_{number} = 1\n")).collect();
    let refusal = refusal(&format!("{STORAGE}{many}"));
    let message = refusal.message(Path::new("f"));
    assert_eq!(refusal.errors.len(), 100);
    assert!(message.starts_with("f has 5000 errors\n"), "{}", message.len());
    assert!(message.ends_with("\n4900 more errors are not shown"), "{}", message.len());
}

/// Words in both tables would be dead text, and each sentence has to say what to do.
#[test]
fn each_foreign_word_is_known_once_with_advice() {
    let mut seen = BTreeSet::new();
    for word in WORDS.foreign.iter().map(ForeignWord::word) {
        assert!(seen.insert(word), "{word} is there twice");
        assert!(!WORDS.keys.contains(&word) && !WORDS.blocks.contains(&word), "{word} is known");
        let note = match Config::of(&format!("{STORAGE}{word} = true")) {
            Ok(config) => config.notices[0].to_string(),
            Err(refusal) => refusal.errors[0].to_string(),
        };
        assert!(note.starts_with(&format!("line 2: {word}: ")), "{note}");
        assert!(["leave", "write"].iter().any(|advice| note.contains(advice)), "{note}");
    }
    let tables = [
        vault::LISTENER,
        vault::LISTENER_TELEMETRY,
        vault::AUDIT,
        vault::TELEMETRY,
        vault::OF_A_SEAL,
        vault::AWS_KMS_SEAL,
    ];
    for table in tables {
        let words: BTreeSet<&str> = table.iter().map(ForeignWord::word).collect();
        assert_eq!(words.len(), table.len(), "a word is there twice");
    }
}

#[test]
fn quoted_and_unquoted_flags_and_numbers_are_read() {
    for (word, expected) in [
        ("true", ListenerTransport::Plain),
        ("\"true\"", ListenerTransport::Plain),
        ("1", ListenerTransport::Plain),
        ("\"1\"", ListenerTransport::Plain),
        ("false", ListenerTransport::PlainHere),
        ("\"false\"", ListenerTransport::PlainHere),
        ("0", ListenerTransport::PlainHere),
        ("\"0\"", ListenerTransport::PlainHere),
    ] {
        let text = format!("{STORAGE}listener \"tcp\" {{\n  tls_disable = {word}\n}}");
        assert_eq!(read(&text).listener.transport, expected, "{word}");
    }
    let limits = "max_request_size = \"2048\"\n  max_connections_per_address = \"9\"";
    let config = read(&format!("{STORAGE}listener \"tcp\" {{\n  {limits}\n}}"));
    assert_eq!((config.listener.body_max, config.listener.connections_per_address), (2048, 9));
    assert_eq!(read(&format!("{STORAGE}max_lease_ttl = \"3600\"")).max_lease_ttl, 3600);
}

#[test]
fn a_relative_path_begins_at_the_working_directory() {
    let here = std::env::current_dir().unwrap();
    let config = read("storage \"sqlite\" { path = \"./data\" }\nplugin_directory = \"plugins\"");
    assert_eq!(config.data, here.join("data"));
    assert_eq!(config.plugin_directory.unwrap().path(), here.join("plugins"));
}

const IN_JSON: &str = r#"{
  "ui": true,
  "api_addr": "https://vault.example.com:8200",
  "max_lease_ttl": "10h",
  "listener": [
    { "tcp": {
        "address": "0.0.0.0:8200",
        "trusted_proxies": ["10.0.0.0/8"],
        "tls_disable": 1 } },
    { "unix": { "address": "/run/s", "socket_mode": "0660" } }
  ],
  "storage": { "sqlite": { "path": "/data" } },
  "audit": { "file": { "main": { "path": "/a" }, "second": { "path": "/b" } } },
  "outbound": { "no_proxy": [".corp.example"] },
  "telemetry": { "disable_hostname": true }
}"#;

#[test]
fn json_has_the_settings_of_hcl() {
    let config = read(IN_JSON);
    assert_eq!(config.api_address, "https://vault.example.com:8200");
    assert_eq!((config.max_lease_ttl, config.data.as_path()), (36_000, Path::new("/data")));
    assert_eq!(config.listener.address.as_deref(), Some("0.0.0.0:8200"));
    assert_eq!(config.listener.proxies.to_string(), "10.0.0.0/8");
    assert_eq!(config.listener.unix.as_ref().unwrap().mode, 0o660);
    let names: Vec<&str> = config.audit.devices.iter().map(|it| it.name.as_str()).collect();
    assert_eq!(names, ["main", "second"]);
    assert_eq!(settings(&config.notices), [(2, "ui"), (15, "disable_hostname")]);
}

#[test]
fn wrong_json_file_is_refused_by_line() {
    let storage = "{\n\"storage\": {\"sqlite\": {\"path\": \"/data\"}}";
    for (text, line, says) in [
        ("\"ui\": }", 3, "column 7"),
        ("\"api_addr\": \"http://a\",\n\"api_addr\": \"http://b\"}", 4, "line 3 already"),
        ("\"storage\": {\"sqlite\": {\"path\": \"/b\"}}}", 3, "line 2 already"),
        ("\"storage\": {\"sqlite\": [{\"path\": \"/b\"}]}}", 3, "line 2 already"),
        ("\"max_lease_ttl\":\n  null}", 3, "null is not a value"),
        ("\"api_addr\": {}}", 3, "api_addr takes a value"),
        ("\"listener\": \"tcp\"}", 3, "listener is a block"),
        ("\"listener\": {\"tcp\": \"127.0.0.1:1\"}}", 3, "takes a single label"),
        ("\"listener\": {\"tcp\":\n {\n\"trusted_proxies\": [\n\"x\"]}}}", 6, "\"x\""),
        ("\"listner\": {}}", 3, "did you mean \"listener\""),
        ("\"seal\": [{\"ocikms\": {\"key_id\": \"a\"}}]}", 3, "seal \"shamir\" {}"),
    ] {
        let refusal = refusal(&format!("{storage},\n{text}"));
        let wrong = &refusal.errors[0];
        assert!(wrong.line == line && wrong.message.contains(says), "{text}: {wrong}");
        assert_eq!(refusal.errors.len(), 1, "{text}: {:?}", refusal.errors);
    }
    let deep = format!("{{\"a\":{}{}}}", "[".repeat(100_000), "]".repeat(100_000));
    assert!(refusal(&deep).errors[0].message.contains("recursion limit"));
}

#[test]
fn listener_and_device_vault_settings_never_pass_silently() {
    let listener = |line: &str| format!("listener \"tcp\" {{\n  {line}\n}}");
    let device = |line: &str| format!("audit \"file\" \"a\" {{\n  path = \"/a\"\n  {line}\n}}");
    let cases = [
        (listener("redact_version = true"), 3, "hide these paths at a proxy"),
        (listener("proxy_protocol_behavior = \"use_always\""), 3, "X-Forwarded-For"),
        (listener("max_request_duration = \"60s\""), 3, "request_timeout"),
        (listener("telemetry { disallow_metrics = true }"), 3, "policies decide"),
        (listener("telemetry { metrics_only = true }"), 3, "the whole API"),
        (device("options {\n  }"), 4, "path (for file_path)"),
        (device("file_path = \"/b\""), 4, "called path here"),
    ];
    for (text, line, says) in &cases {
        refuse_all(&[(text, *line, &[*says])]);
    }
    let config = read(&format!("{STORAGE}{}", device("description = \"d\"")));
    assert_eq!(settings(&config.notices), [(4, "description")]);
}

#[test]
fn metrics_need_no_token_only_at_named_listener() {
    let telemetry = "telemetry { unauthenticated_metrics_access = \"true\" }";
    let tcp = format!("{STORAGE}listener \"tcp\" {{ {telemetry} }}\n");
    let both = format!("{tcp}listener \"unix\" {{ address = \"/run/s\" }}");
    let config = read(&both);
    assert!(config.listener.opens_metrics_to(ConnectionOrigin::Network(([10, 0, 0, 1], 1).into())));
    let unix = ConnectionOrigin::Unix { is_proxy: false };
    assert!(!config.listener.opens_metrics_to(unix));
    let report = config.to_string();
    assert!(
        report.contains("\nanswers sys/metrics without a token on 127.0.0.1:8200\n"),
        "{report}"
    );
    assert_eq!(config.shown()["listeners"][0]["config"]["telemetry"].to_string(), SHOWN_TELEMETRY);
    let socket = format!("listener \"unix\" {{\n  address = \"/run/s\"\n  {telemetry}\n}}");
    assert!(read(&format!("{STORAGE}{socket}")).listener.opens_metrics_to(unix));
    let others =
        "unauthenticated_pprof_access = true\n unauthenticated_in_flight_request_access = 1";
    let config = read(&format!("{STORAGE}listener \"tcp\" {{\n telemetry {{\n {others}\n }}\n}}"));
    assert!(!config.listener.opens_metrics);
    let names = settings(&config.notices);
    assert_eq!(names[0], (4, "unauthenticated_pprof_access"));
    assert_eq!(names[1], (5, "unauthenticated_in_flight_request_access"));
    // The scheduler's listener has no metrics.
    let config = read(&format!("{STORAGE}listener \"scheduler\" {{\n {telemetry}\n}}"));
    assert_eq!(settings(&config.notices), [(3, "telemetry")]);
    assert!(!config.scheduler.unwrap().opens_metrics);
}

/// The telemetry of a listener in `sys/config/state/sanitized`.
const SHOWN_TELEMETRY: &str = r#"{"unauthenticated_metrics_access":true}"#;

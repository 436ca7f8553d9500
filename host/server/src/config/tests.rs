//! Valid configurations, and the error for each kind of invalid setting.

mod awskms_seal;
mod azurekeyvault_seal;
mod gcpckms_seal;
mod initialize;
mod of_vault;
mod postgres_storage;
mod seal;
mod snapshot;
mod transit_seal;

use super::storage::STORAGE_EXAMPLE;
use super::*;
use crate::tls;
use bulkhead_audit::DeviceSettings;
use bulkhead_tls::{ClientCertificates, NamedFile, ServerTlsSettings, TlsVersion, VersionRange};
use std::time::Duration;

/// The smallest valid configuration.
const STORAGE: &str = "storage \"sqlite\" { path = \"/data\" }\n";

fn read(text: &str) -> Config {
    Config::of(text).unwrap_or_else(|wrong| panic!("{wrong:?}\n{text}"))
}

/// Returns the only error for `text` after the smallest valid configuration, which is line 1.
#[track_caller]
fn refused(text: &str) -> ConfigError {
    only_error(&format!("{STORAGE}{text}"))
}

/// Returns the only error for `text`.
#[track_caller]
fn only_error(text: &str) -> ConfigError {
    let refusal = Config::of(text).expect_err(text);
    let [wrong] = &refusal.errors[..] else {
        panic!("not exactly one error: {:?}", refusal.errors)
    };
    wrong.clone()
}

/// Asserts that each text is refused on its line, with its words.
#[track_caller]
fn refuse_all(cases: &[(&str, usize, &[&str])]) {
    for (text, line, says) in cases {
        let wrong = refused(text);
        assert_eq!(wrong.line, *line, "{text}: {wrong}");
        for word in *says {
            assert!(wrong.message.contains(word), "{text}: {wrong} does not say {word:?}");
        }
        assert!(wrong.message.len() < 400, "{wrong}");
    }
}

#[test]
fn file_with_only_storage_has_defaults() {
    let config = read(STORAGE);
    assert_eq!(config.data, PathBuf::from("/data"));
    assert_eq!(config.listener, ListenerConfig::at("127.0.0.1:8200"));
    assert_eq!(
        (config.listener.body_max, config.listener.request_time),
        (32 << 20, Duration::from_secs(90))
    );
    assert_eq!(config.audit, AuditSettings::default());
    assert_eq!((config.default_lease_ttl, config.max_lease_ttl), (2_764_800, 2_764_800));
    assert_eq!((config.reported_version.as_str(), config.api_address.as_str()), ("1.21.0+ent", ""));
}

const EVERY_SETTING: &str = r##"
        # a comment, // and another one /* and a third */
        listener "tcp" {
          address          = "0.0.0.0:8200"
          trusted_proxies  = ["10.0.0.0/8", "fd00::/8", # and
            "192.0.2.7",
          ]
          max_request_size = "1MiB"
          max_connections_per_address = 64
          request_timeout  = "2m"
          tls_cert_file    = "/etc/bulkhead/tls.crt"
          tls_key_file     = "/etc/bulkhead/tls.key"
          tls_min_version  = "tls13"
          tls_client_ca_file = "/etc/bulkhead/clients.pem"
          tls_require_and_verify_client_cert = true
          telemetry { unauthenticated_metrics_access = true }
        }
        listener "unix" {
          address      = "/run/bulkhead.sock"
          socket_mode  = "0660"
          socket_user  = "root"
          socket_group = "100"
        }
        storage "sqlite" { path = "/var/lib/bulkhead" }
        seal "shamir" {}
        audit "file" "main" { path = "/var/log/bulkhead/audit.log" }
        audit "file" "second" {
          path = "/var/log/bulkhead/second.log"
          mode = "0640"
          log_raw = true
          hmac_accessor = false
          elide_list_responses = true
          sync = true
        }
        allow_api_audit   = true
        audit_directory   = "/var/log/bulkhead/api"
        default_lease_ttl = 3600
        max_lease_ttl     = "32d"
        reported_version  = "1.19.5"
        log_format        = "json"
        log_level         = "warn"
        log_file          = "/var/log/bulkhead/server.log"
        api_addr          = "https://bulkhead.example.com:8200/"
        suspend_due_work  = true
        shutdown_delay    = "15s"
        shutdown_timeout  = 45
        allow_key_holders = true
        "##;

#[test]
fn every_setting_is_read() {
    let config = read(EVERY_SETTING);
    let proxies =
        crate::proxies::TrustedProxies::new(["10.0.0.0/8", "fd00::/8", "192.0.2.7"]).unwrap();
    let (address, request_time) = (Some("0.0.0.0:8200".to_owned()), Duration::from_secs(120));
    let settings = tls::settings("/etc/bulkhead/tls.crt".into(), "/etc/bulkhead/tls.key".into());
    let transport = ListenerTransport::Tls(ServerTlsSettings {
        versions: VersionRange::new(TlsVersion::Tls13, TlsVersion::Tls13).unwrap(),
        clients: ClientCertificates::Required(NamedFile::new(
            "tls_client_ca_file",
            "/etc/bulkhead/clients.pem",
        )),
        ..settings
    });
    let unix = Some(UnixSettings {
        path: "/run/bulkhead.sock".into(),
        mode: 0o660,
        user: Some("root".to_owned()),
        group: Some("100".to_owned()),
        is_trusted_proxy: false,
        opens_metrics: false,
    });
    let listener = ListenerConfig {
        own_mount: None,
        address,
        transport,
        unix,
        proxies,
        body_max: 1 << 20,
        request_time,
        connections_per_address: 64,
        opens_metrics: true,
    };
    assert_eq!(config.listener, listener);
    assert_eq!(config.data, PathBuf::from("/var/lib/bulkhead"));
    let main = DeviceSettings {
        name: "main".to_owned(),
        file: PathBuf::from("/var/log/bulkhead/audit.log"),
        mode: 0o600,
        log_raw: false,
        hmac_accessor: true,
        elide_list_responses: false,
        sync: false,
    };
    let second = DeviceSettings {
        name: "second".to_owned(),
        file: PathBuf::from("/var/log/bulkhead/second.log"),
        mode: 0o640,
        log_raw: true,
        hmac_accessor: false,
        elide_list_responses: true,
        sync: true,
    };
    let api_directory = Some(PathBuf::from("/var/log/bulkhead/api"));
    assert_eq!(config.audit, AuditSettings { devices: vec![main, second], api_directory });
    assert_eq!((config.default_lease_ttl, config.max_lease_ttl), (3600, 32 * 86_400));
    assert_eq!(config.reported_version, "1.19.5");
    assert_eq!(config.api_address, "https://bulkhead.example.com:8200");
    assert!(config.suspend_due_work && config.allow_key_holders);
}

#[test]
fn times_of_a_stop_are_read_and_shown() {
    let config = read(EVERY_SETTING);
    let (delay, timeout) = (Duration::from_secs(15), Duration::from_secs(45));
    assert_eq!(config.shutdown, ShutdownSettings { delay, timeout });
    let shown = config.shown();
    assert_eq!((&shown["shutdown_delay"], &shown["shutdown_timeout"]), (&15.into(), &45.into()));
}

#[test]
fn impossible_times_of_a_stop_are_refused() {
    refuse_all(&[
        ("shutdown_delay = \"11m\"", 2, &["shutdown_delay", "between 0s and 10m"]),
        ("shutdown_delay = \"-1s\"", 2, &["shutdown_delay"]),
        ("shutdown_delay = true", 2, &["shutdown_delay", "a duration such as"]),
        ("shutdown_timeout = 0", 2, &["shutdown_timeout", "between 1s and 1h"]),
        ("shutdown_timeout = \"61m\"", 2, &["shutdown_timeout", "between 1s and 1h"]),
        ("shutdown_timeout = \"soon\"", 2, &["shutdown_timeout", "soon"]),
        ("shutdown_dealy = \"1s\"", 2, &["did you mean \"shutdown_delay\""]),
    ]);
}

#[test]
fn windows_line_ends_and_bom_are_ignored() {
    let config =
        read("\u{feff}storage \"sqlite\" {\r\n  path = \"/data\"\r\n}\r\nseal \"shamir\" {}\r\n");
    assert_eq!(config.data, PathBuf::from("/data"));
}

#[test]
fn unknown_word_is_refused_with_nearest_known_word() {
    refuse_all(&[
        (
            "defualt_lease_ttl = \"1h\"",
            2,
            &["unknown key", "\"defualt_lease_ttl\"", "did you mean \"default_lease_ttl\""],
        ),
        ("\n\nlistner \"tcp\" {}", 4, &["unknown block", "did you mean \"listener\""]),
        (
            "swap_memory = true",
            2,
            &["unknown key \"swap_memory\"", "known are", "api_addr", "storage"],
        ),
        ("listener \"tcp\" {\n  adress = \"127.0.0.1:1\"\n}", 3, &["did you mean \"address\""]),
        ("listener \"tcp\" {\n  tls_cert_fil = \"/c\"\n}", 3, &["did you mean \"tls_cert_file\""]),
        (
            "listener \"unix\" {\n  address = \"/s\"\n  socket_mod = \"0600\"\n}",
            4,
            &["did you mean \"socket_mode\""],
        ),
        ("listener \"tpc\" {}", 2, &["unknown listener \"tpc\"", "\"tcp\""]),
        ("seal \"shamir\" {\n  shares = 5\n}", 3, &["unknown key \"shares\""]),
        ("seal \"hsm\" {}", 2, &["unknown seal \"hsm\"", "shamir"]),
        (
            "audit \"file\" \"main\" {\n  path = \"/a\"\n  file_pth = \"/a\"\n}",
            4,
            &["unknown key \"file_pth\"", "path"],
        ),
        ("audit \"fil\" \"main\" { path = \"/a\" }", 2, &["unknown audit \"fil\"", "\"file\""]),
    ]);
}

#[test]
fn unsupported_settings_are_refused_with_reason() {
    refuse_all(&[
        ("storage \"postgres\" {\n  url = \"postgres://db\"\n}", 2, &["postgres", "SQLite"]),
        ("seal \"ocikms\" {}", 2, &["ocikms", "seal \"shamir\" {}"]),
        ("audit \"socket\" \"s\" { address = \"127.0.0.1:1\" }", 2, &["socket", "audit \"file\""]),
        ("audit \"syslog\" \"s\" {}", 2, &["syslog", "audit \"file\""]),
        ("audit \"file\" \"main\" {\n  path = \"/a\"\n  prefix = \"x\"\n}", 4, &["prefix", "P12"]),
        ("plugin_directory = \"\"", 2, &["plugin_directory", "is not a path"]),
        ("plugin_signatures = \"none\"", 2, &["plugin_signatures is a block"]),
        ("plugin_signatures {\n  policy = \"all\"\n}", 3, &["policy", "\"warn\" or \"require\""]),
        ("plugin_signatures {\n}", 2, &["needs policy"]),
        ("plugin_signatures {\n  policy = \"require\"\n}", 2, &["write trusted_keys"]),
        (
            "plugin_signatures {\n  policy = \"warn\"\n  trusted_keys = [\n    \"AAAA\"\n  ]\n}",
            5,
            &["trusted_keys", "\"AAAA\" is not a public key"],
        ),
        ("plugin_trusted_keys = []", 2, &["plugin_trusted_keys", "plugin_signatures {"]),
    ]);
}

#[test]
fn repeated_settings_are_refused() {
    refuse_all(&[
        ("api_addr = \"http://a\"\napi_addr = \"http://b\"", 3, &["given before"]),
        (
            "listener \"unix\" { address = \"/a\" }\nlistener \"unix\" { address = \"/b\" }",
            3,
            &["listener \"unix\"", "line 2"],
        ),
        ("listener \"tcp\" {}\n\nlistener \"tcp\" {}", 4, &["listener \"tcp\"", "line 2"]),
        ("storage \"sqlite\" { path = \"/other\" }", 2, &["storage \"sqlite\"", "line 1"]),
        ("seal \"shamir\" {}\nseal \"shamir\" {}", 3, &["seal"]),
        (
            "audit \"file\" \"a\" { path = \"/a\" }\naudit \"file\" \"a\" { path = \"/b\" }",
            3,
            &["\"a\"", "twice"],
        ),
        (
            "audit \"file\" \"a\" { path = \"/a\" }\naudit \"file\" \"b\" { path = \"/a\" }",
            3,
            &["\"/a\"", "\"a\" already"],
        ),
    ]);
}

#[test]
fn config_settings_may_share_a_line() {
    for text in [
        "listener \"tcp\" { address = \"127.0.0.1:1\" tls_disable = true }\nui = false",
        "listener \"tcp\" { address = \"127.0.0.1:1\", tls_disable = 1 } ui = false",
        "listener tcp { address = \"127.0.0.1:1\"\n tls_disable = \"true\" } ui = 0 // end",
        "\"listener\" \"tcp\" { \"address\" = \"127.0.0.1:1\" tls_disable = true } ui = false",
    ] {
        let config = read(&format!("{STORAGE}{text}"));
        assert_eq!(config.listener.address.as_deref(), Some("127.0.0.1:1"), "{text}");
    }
    let both = "listener \"tcp\" { address = \"a:1\" address = \"b:1\" }";
    refuse_all(&[
        (both, 2, &["given before"]),
        ("listener \"tcp\" { address = \"127.0.0.1:1\" adress = \"a\" }", 2, &["\"adress\""]),
        ("ui = false listener \"tcp\" { tls_disable = }", 2, &["column"]),
    ]);
}

#[test]
fn missing_settings_are_reported_with_an_example() {
    for text in ["", "seal \"shamir\" {}", "# nothing"] {
        let wrong = only_error(text);
        assert!(wrong.line == 1 && wrong.message.contains(STORAGE_EXAMPLE), "{wrong}");
    }
    let wrong = only_error("\nstorage \"sqlite\" {}");
    assert!(wrong.line == 2 && wrong.message.contains("storage \"sqlite\" needs path"), "{wrong}");
    refuse_all(&[
        ("audit \"file\" \"main\" {}", 2, &["audit \"file\" \"main\" needs path", "path = \"/"]),
        ("audit \"file\" { path = \"/a\" }", 2, &["two labels", "audit \"file\" \"main\" {"]),
        ("audit \"file\" \"a\" \"b\" { path = \"/a\" }", 2, &["two labels"]),
        ("listener { address = \"127.0.0.1:1\" }", 2, &["a single label", "listener \"tcp\""]),
        ("allow_api_audit = true", 2, &["allow_api_audit", "audit_directory = "]),
        ("audit_directory = \"/a\"", 2, &["audit_directory", "allow_api_audit = true"]),
        ("allow_api_audit = false\naudit_directory = \"/a\"", 3, &["audit_directory"]),
    ]);
    assert_eq!(read(&format!("{STORAGE}allow_api_audit = false")).audit.api_directory, None);
}

#[test]
fn wrong_setting_form_or_value_type_is_refused() {
    refuse_all(&[
        ("listener = \"tcp\"", 2, &["listener is a block"]),
        ("api_addr { }", 2, &["api_addr takes a value"]),
        ("api_addr = true", 2, &["api_addr", "text in quotes"]),
        ("api_addr = [\"http://a\"]", 2, &["a list", "text in quotes"]),
        ("api_addr = null", 2, &["`null` is not a value", "double quotes"]),
        ("log_format = \"xml\"", 2, &["\"xml\" is not a format of the log"]),
        ("log_level = \"loud\"", 2, &["\"loud\" is not a level of the log"]),
        ("log_file = \"\"", 2, &["is not a path"]),
        ("log_format = logfmt", 2, &["`logfmt` is not a value", "double quotes"]),
        ("log_format = upper(\"x\")", 2, &["`upper` is not a value"]),
        ("log_format = \"${env}\"", 2, &["is not computed"]),
        ("listener \"tcp\" {\n  trusted_proxies = [\n\"${a}\"]\n}", 4, &["is not computed"]),
        ("api_addr = <<X\nlogfmt\nX\n", 2, &["not an address of a server"]),
        ("default_lease_ttl = true", 2, &["a duration such as"]),
        ("default_lease_ttl = \"soon\"", 2, &["\"soon\" is not a duration"]),
        ("default_lease_ttl = 1.5", 2, &["1.5 is not a duration"]),
        ("default_lease_ttl = -5", 2, &["-5 is not a duration"]),
        ("allow_api_audit = \"yes\"", 2, &["true or false"]),
        ("allow_api_audit = 2", 2, &["true or false"]),
        ("allow_api_audit = [true]", 2, &["true or false"]),
        ("listener \"tcp\" {\n  trusted_proxies = \"10.0.0.0/8\"\n}", 3, &["a list such as"]),
        (
            "listener \"tcp\" {\n  trusted_proxies = [\n    \"10.0.0.0/8\",\n    7,\n  ]\n}",
            5,
            &["text in quotes"],
        ),
        (
            "listener \"tcp\" {\n  max_request_size = \"32MB\"\n}",
            3,
            &["\"32MB\" is not a size", "32MiB"],
        ),
        ("listener \"tcp\" {\n  max_request_size = {}\n}", 3, &["takes a value"]),
        ("listener \"tcp\" {\n  max_request_size = [{}]\n}", 3, &["a size such as"]),
        (
            "listener \"tcp\" {\n  max_connections_per_address = \"many\"\n}",
            3,
            &["many is not a whole number"],
        ),
        (
            "listener \"tcp\" {\n  max_connections_per_address = [9]\n}",
            3,
            &["a whole number such as"],
        ),
    ]);
}

#[test]
fn impossible_setting_value_is_refused() {
    refuse_all(&[
        ("listener \"tcp\" {\n  address = \"8200\"\n}", 3, &["\"8200\" is not HOST:PORT"]),
        ("listener \"tcp\" {\n  address = \"::1:8200\"\n}", 3, &["[::1]:8200"]),
        ("listener \"tcp\" {\n  address = \"127.0.0.1:70000\"\n}", 3, &["HOST:PORT"]),
        ("listener \"tcp\" {\n  address = \"127.0.0.1:+1\"\n}", 3, &["HOST:PORT"]),
        ("listener \"tcp\" {\n  address = \"http://a:1\"\n}", 3, &["HOST:PORT"]),
        ("listener \"tcp\" {\n  address = \"\"\n}", 3, &["HOST:PORT"]),
        (
            "listener \"tcp\" {\n  trusted_proxies = [\n\"10.0.0.0/8\",\n\"0.0.0.0/0\",\n  ]\n}",
            5,
            &["every client"],
        ),
        ("listener \"tcp\" {\n  max_request_size = 0\n}", 3, &["0B is not between 1KiB and 1GiB"]),
        ("listener \"tcp\" {\n  max_request_size = \"2GiB\"\n}", 3, &["2GiB is not between"]),
        (
            "listener \"tcp\" {\n  max_connections_per_address = 0\n}",
            3,
            &["0 is not between 1 and 4096"],
        ),
        (
            "listener \"tcp\" {\n  max_connections_per_address = 1.5\n}",
            3,
            &["1.5 is not a whole number"],
        ),
        ("listener \"tcp\" {\n  request_timeout = \"0s\"\n}", 3, &["0s is not between 1s and 1h"]),
        ("listener \"tcp\" {\n  request_timeout = \"2h\"\n}", 3, &["2h is not between"]),
        (
            "listener \"tcp\" {\n  request_timeout = \"30s\"\n}",
            3,
            &["30s is shorter than 35s", "make or revoke", "give 35s or more"],
        ),
        ("allow_api_audit = true\naudit_directory = \"\"", 3, &["not a path"]),
        ("default_lease_ttl = 0", 2, &["0s is not between 1s"]),
        (
            "max_lease_ttl = \"1h\"\ndefault_lease_ttl = \"2h\"",
            3,
            &["2h is longer than max_lease_ttl, which is 1h"],
        ),
        ("default_lease_ttl = \"800h\"", 2, &["max_lease_ttl, which is 32d"]),
        ("reported_version = \"1.21\"", 2, &["\"1.21\" is not a semantic version", "1.21.0+ent"]),
        ("reported_version = \"\"", 2, &["not a semantic version"]),
        (
            "api_addr = \"bulkhead.example.com:8200\"",
            2,
            &["not an address of a server", "https://"],
        ),
        ("api_addr = \"https://user:c4n4ry@a\"", 2, &["not an address of a server"]),
        ("api_addr = \"https://a/v1\"", 2, &["not an address of a server"]),
        ("api_addr = \"https://:8200\"", 2, &["not an address of a server"]),
        ("api_addr = \"\"", 2, &["not an address of a server"]),
        ("api_addr = \"ftp://a\"", 2, &["not an address of a server"]),
    ]);
}

#[test]
fn stdout_audit_device_keeps_file_permissions() {
    let config = read(&format!("{STORAGE}audit \"file\" \"main\" {{ path = \"stdout\" }}"));
    let device = &config.audit.devices[0];
    assert_eq!((device.file.as_path(), device.mode), (Path::new("/dev/stdout"), 0));
}

#[test]
fn impossible_audit_device_is_refused() {
    refuse_all(&[
        ("audit \"file\" \"main\" { path = \"discard\" }", 2, &["\"discard\" is not a file"]),
        ("audit \"file\" \"../x\" { path = \"/a\" }", 2, &["\"../x\" is not a name"]),
        ("audit \"file\" \"\" { path = \"/a\" }", 2, &["\"\" is not a name"]),
        (
            "audit \"file\" \"main\" {\n  path = \"/a\"\n  mode = \"0700\"\n}",
            4,
            &["\"0700\" lets the file be executed"],
        ),
        ("audit \"file\" \"main\" {\n  path = \"/a\"\n  mode = \"4600\"\n}", 4, &["\"4600\""]),
        ("audit \"file\" \"main\" {\n  path = \"/a\"\n  mode = \"rw\"\n}", 4, &["octal"]),
        ("audit \"file\" \"main\" {\n  path = \"/a\"\n  mode = 600\n}", 4, &["text in quotes"]),
    ]);
}

#[test]
fn lone_max_ttl_is_default_ttl_if_shorter() {
    let config = read(&format!("{STORAGE}max_lease_ttl = \"24h\""));
    assert_eq!((config.default_lease_ttl, config.max_lease_ttl), (86_400, 86_400));
    let config = read(&format!("{STORAGE}max_lease_ttl = \"2000h\""));
    assert_eq!((config.default_lease_ttl, config.max_lease_ttl), (2_764_800, 7_200_000));
}

#[test]
fn a_syntax_error_is_refused_with_its_line() {
    refuse_all(&[
        ("listener \"tcp\" {\n", 2, &["column", "`}`"]),
        ("\nlistener \"tcp\"", 3, &["column"]),
        ("api_addr = \"http://a", 2, &["column"]),
        ("{ \"api_addr\": 1 }", 2, &["column"]),
        ("api_addr =", 2, &["column"]),
        ("\0", 2, &["column"]),
    ]);
}

#[test]
fn a_hostile_file_is_refused_and_harms_nobody() {
    let deep = format!("api_addr = {}{}", "[".repeat(100_000), "]".repeat(100_000));
    let nested = format!("{}{}", "a {\n".repeat(10_000), "}\n".repeat(10_000));
    let long_word = format!("{} = 1", "a".repeat(100_000));
    let long_text = format!("api_addr = \"{}\"", "a".repeat(500_000));
    for text in [&deep, &nested, &long_word, &long_text] {
        let wrong = refused(text);
        assert!(wrong.message.len() < 1_000, "{} bytes", wrong.message.len());
    }
}

#[test]
fn unreadable_file_is_named_with_cause() {
    for (file, says) in
        [("/nonexistent/bulkhead.hcl", "No such file"), ("/", "directory"), ("/dev/zero", "1 MiB")]
    {
        let why = Config::read(Path::new(file)).unwrap_err();
        assert!(why.starts_with(file) && why.contains(says), "{why}");
    }
}

#[test]
fn config_check_reports_effective_settings() {
    let plain = read(STORAGE).to_string();
    assert_eq!(
        plain,
        "listens on 127.0.0.1:8200, plain HTTP\n\
         ignores X-Forwarded-For\n\
         refuses bodies over 32MiB\n\
         allows 1024 connections at a time per address, and more to trusted proxies\n\
         stops an engine's work on a request after 1m30s\n\
         keeps the data in /data, opened by Shamir's shares\n\
         audits to no device of this file\n\
         lets the API make no audit device\n\
         gives leases and tokens a ttl of 32d, and at most 32d\n\
         reports version 1.21.0+ent to clients\n\
         stops within 30s, and cuts requests that take longer\n\
         logs from level info on as logfmt to standard error\n"
    );
    let config = read(&format!(
        "{STORAGE}listener \"tcp\" {{\n  trusted_proxies = [\"10.0.0.0/8\"]\n}}\n\
         audit \"file\" \"main\" {{\n  path = \"/a\"\n  mode = \"0640\"\n  log_raw = true\n\
         \x20 sync = true\n}}\n\
         allow_key_holders = true\nshutdown_delay = \"10s\"\nshutdown_timeout = 60\n\
         allow_api_audit = true\naudit_directory = \"/d\"\napi_addr = \"http://a:1\"\n"
    ));
    let config = config.to_string();
    for line in [
        "trusts X-Forwarded-For from 10.0.0.0/8\n",
        "audits to main: /a (mode 0640, values in the clear, flushed to the disk)\n",
        "lets the API make audit devices in /d\n",
        "reports the address http://a:1 to clients\n",
        "lets key holders generate root tokens and rekey without a token\n",
        "answers 503 at sys/health for 10s before a stop, and still serves\n",
        "stops within 1m, and cuts requests that take longer\n",
    ] {
        assert!(config.contains(line), "{line} is not in {config}");
    }
}

/// Asserts that each text is refused on its line, in a listener with a certificate and a key.
fn refuse_tls(cases: &[(&str, usize, &[&str])]) {
    for (lines, line, says) in cases {
        let text = format!(
            "listener \"tcp\" {{\n  tls_cert_file = \"/c\"\n  tls_key_file = \"/k\"\n{lines}\n}}"
        );
        refuse_all(&[(&text, *line, says)]);
    }
}

#[test]
fn tls_that_no_server_could_serve_is_refused() {
    refuse_all(&[
        ("listener \"tcp\" {\n  tls_cert_file = \"/c\"\n}", 3, &["needs a key", "tls_key_file"]),
        ("listener \"tcp\" {\n  tls_key_file = \"/k\"\n}", 3, &["needs a certificate"]),
        (
            "listener \"tcp\" {\n  tls_min_version = \"tls12\"\n}",
            3,
            &["no effect without TLS", "tls_cert_file"],
        ),
        (
            "listener \"tcp\" {\n  tls_cert_file = \"\"\n  tls_key_file = \"/k\"\n}",
            3,
            &["not a path"],
        ),
    ]);
    refuse_tls(&[
        ("tls_min_version = \"tls11\"", 5, &["broken", "\"tls12\""]),
        ("tls_min_version = \"1.2\"", 5, &["not a version", "\"tls13\""]),
        ("tls_min_version = \"tls13\"\ntls_max_version = \"tls12\"", 6, &["less than"]),
        ("tls_cipher_suites = \"TLS_RSA_WITH_RC4_128_SHA\"", 5, &["unknown suite", "known are"]),
        ("tls_cipher_suites = \"TLS_AES_128_GCM_SHA256\"", 5, &["no suite of TLS 1.2"]),
        (
            "tls_max_version = \"tls12\"\ntls_cipher_suites = \"TLS_AES_128_GCM_SHA256, \
             TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384\"",
            6,
            &["tls13, which is not served"],
        ),
        ("tls_require_and_verify_client_cert = true", 5, &["tls_client_ca_file"]),
        (
            "tls_require_and_verify_client_cert = true\ntls_disable_client_certs = true",
            5,
            &["contradicts"],
        ),
        (
            "tls_client_ca_file = \"/a\"\ntls_disable_client_certs = true",
            5,
            &["no effect together with tls_disable_client_certs"],
        ),
    ]);
}

#[test]
fn plain_http_beyond_loopback_needs_explicit_setting() {
    for address in ["0.0.0.0:8200", "[::]:8200", "192.0.2.7:8200"] {
        let text = format!("listener \"tcp\" {{\n  address = \"{address}\"\n");
        refuse_all(&[(&format!("{text}}}"), 3, &[address, "tls_cert_file", "tls_disable = true"])]);
        let config = read(&format!("{STORAGE}{text}  tls_disable = true\n}}"));
        assert_eq!(config.listener.transport, ListenerTransport::Plain);
        assert!(config.to_string().contains(&format!("listens on {address}, plain HTTP\n")));
    }
    for address in ["127.0.0.1:8200", "[::1]:8200", "127.9.9.9:0"] {
        let config = read(&format!("{STORAGE}listener \"tcp\" {{\n  address = \"{address}\"\n}}"));
        assert_eq!(config.listener.transport, ListenerTransport::PlainHere);
    }
}

#[test]
fn unix_socket_may_be_only_listener() {
    let config = read(&format!("{STORAGE}listener \"unix\" {{ address = \"/run/b.sock\" }}"));
    assert_eq!(config.listener.address, None);
    assert!(config.to_string().starts_with("listens on /run/b.sock (mode 0600)\nignores"));
    let beside =
        read(&format!("{STORAGE}listener \"unix\" {{ address = \"/s\" }}\nlistener \"tcp\" {{}}"));
    assert_eq!(beside.listener.address.as_deref(), Some("127.0.0.1:8200"));
    let long = format!("listener \"unix\" {{\n  address = \"/{}\"\n}}", "a".repeat(107));
    refuse_all(&[
        (&long, 3, &["longer than the 107 bytes"]),
        ("listener \"unix\" {}", 2, &["needs address"]),
        ("listener \"unix\" {\n  address = \"\"\n}", 3, &["not a path"]),
        (
            "listener \"unix\" {\n  address = \"/s\"\n  socket_mode = \"0999\"\n}",
            4,
            &["octal", "\"0660\""],
        ),
        (
            "listener \"unix\" {\n  address = \"/s\"\n  socket_group = \"a:b\"\n}",
            4,
            &["neither a name nor a number"],
        ),
    ]);
}

#[test]
fn ambient_settings_have_defaults_unless_configured() {
    let usual = read(STORAGE).ambient;
    let folder = PathBuf::from("/var/run/secrets/kubernetes.io/serviceaccount");
    assert_eq!((usual.pod_folder, usual.azure_client_id.as_str()), (folder, ""));
    assert_eq!(usual.azure_metadata, "169.254.169.254:80".parse().unwrap());
    assert_eq!(usual.google_metadata, usual.azure_metadata);
    let text = "ambient {\n pod_folder = \"/pod\"\n azure_client_id = \"00-ff\"\n \
                google_metadata = \"127.0.0.1:8080\"\n}";
    let config = read(&format!("{STORAGE}{text}"));
    let here = &config.ambient;
    assert_eq!((here.pod_folder.to_str(), &*here.azure_client_id), (Some("/pod"), "00-ff"));
    assert_eq!(here.google_metadata, "127.0.0.1:8080".parse().unwrap());
    let report = config.to_string();
    for line in [
        "reads the pod's files in /pod\n",
        "is the managed identity 00-ff in Azure\n",
        "asks Google's metadata service at 127.0.0.1:8080\n",
    ] {
        assert!(report.contains(line), "{report}");
    }
    assert!(!report.contains("Azure's metadata"), "{report}");
}

#[test]
fn unusable_settings_of_ambient_are_refused() {
    refuse_all(&[
        ("ambient { azure_metadata = \"10.0.0.1:80\" }", 2, &["link-local"]),
        ("ambient { google_metadata = \"metadata.google.internal\" }", 2, &["link-local"]),
        ("ambient { pod_folder = \"\" }", 2, &["not a path"]),
        ("ambient { azure_client_id = \"a&b\" }", 2, &["client id"]),
        ("ambient { pod_token = \"x\" }", 2, &["pod_token"]),
        ("ambient \"pod\" {}", 2, &["no label"]),
        ("ambient {}\nambient {}", 3, &["line 2"]),
    ]);
}

#[test]
fn rules_for_plugins_are_read_and_reported() {
    let key = "MCowBQYDK2VwAyEAGb9ECWmEzf6FQbrBZ9w7lshQhqowtrbLDFw4rXAxZuE=";
    let of = |policy: &str| {
        let block = format!("policy = \"{policy}\"\n  trusted_keys = [\"{key}\"]");
        let plugins = "plugin_directory = \"/plugins\"";
        let text = format!("{STORAGE}{plugins}\nplugin_signatures {{\n  {block}\n}}\n");
        Config::of(&text).unwrap()
    };
    let config = of("require");
    assert_eq!(config.plugin_directory.as_ref().unwrap().path(), Path::new("/plugins"));
    assert_eq!(config.plugin_signatures.trusted_keys[0].line(), key);
    let report = config.to_string();
    assert!(report.contains("registers plugins from /plugins by name\n"), "{report}");
    assert!(report.contains("refuses plugins not signed by any of 1 trusted keys\n"), "{report}");
    assert!(of("warn").to_string().contains("warns of plugins not signed by any of 1 trusted"));
    assert!(!of("none").to_string().contains("trusted keys"));
}

//! The configuration file: the effect of each setting, refused settings, and changes by a signal.

use bulkhead_tests::Bulkhead;
use bulkhead_tests::operators::Operators;
use bulkhead_tests::paths::{Folder, binary, files_below};
use bulkhead_tests::wait::until_true;
use serde_json::{Value, json};
use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// A server with a configuration file, and its operators. The file may contain the placeholders
/// `DATA` and `FOLDER`.
struct ConfiguredServer {
    server: Bulkhead,
    operators: Operators,
    folder: Folder,
}

impl ConfiguredServer {
    fn by(text: &str) -> Self {
        let folder = Folder::new("configuration");
        let data = Folder::new("configured");
        let text = text
            .replace("DATA", &data.path().display().to_string())
            .replace("FOLDER", &folder.path().display().to_string());
        let file = written(&folder, &text);
        let mut server = Bulkhead::prepared(binary(), data).configured(file);
        server.start_again();
        let operators = Operators::initialise(&server, 1, 1);
        operators.unseal(&server);
        Self { server, operators, folder }
    }

    /// Sends the head of a request verbatim and returns the whole answer.
    fn raw(&self, head: &str) -> String {
        let address = self.server.url().replace("http://", "");
        let mut stream = TcpStream::connect(address).expect("the server listens");
        let request = format!("{head}\r\nhost: x\r\nconnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).expect("the server reads");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("the server answers and closes");
        answer
    }
}

fn written(folder: &Folder, text: &str) -> PathBuf {
    let file = folder.path().join("bulkhead.hcl");
    fs::write(&file, text).expect("a file can be written");
    file
}

/// Smallest configuration of a server that runs beside others.
const LEAST: &str =
    "listener \"tcp\" { address = \"127.0.0.1:0\" }\nstorage \"sqlite\" { path = \"DATA\" }\n";

/// Runs `bulkhead server` and returns exit code, output and error output.
fn run(arguments: &[&str], file: &Path) -> (i32, String, String) {
    let mut command = Command::new(binary());
    let done = command.arg("server").args(arguments).arg("--config").arg(file).env_clear().output();
    let done = done.expect("the server can be started");
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
    (done.status.code().unwrap_or(-1), text(done.stdout), text(done.stderr))
}

#[test]
fn settings_of_the_configuration_file_take_effect() {
    let setup = ConfiguredServer::by(
        r#"
        listener "tcp" {
          address          = "127.0.0.1:0"
          max_request_size = "2KiB"
        }
        storage "sqlite" { path = "DATA" }
        seal "shamir" {}
        default_lease_ttl = "10m"
        max_lease_ttl     = "1h"
        reported_version  = "1.18.3"
        api_addr          = "https://bulkhead.example.com:8200"
        "#,
    );
    let root = setup.operators.root(&setup.server);
    assert_eq!(root.read("sys/health").expect(200).body["version"], "1.18.3");
    assert_eq!(
        root.read("sys/leader").expect(200).body["leader_address"],
        "https://bulkhead.example.com:8200"
    );
    let token = root.write("auth/token/create", &json!({ "policies": ["default"] })).expect(200);
    assert_eq!(token.body["auth"]["lease_duration"], 600);
    let token = root
        .write("auth/token/create", &json!({ "policies": ["default"], "ttl": "2h" }))
        .expect(200);
    assert_eq!(token.body["auth"]["lease_duration"], 3600);
    let long =
        root.write("auth/token/create", &json!({ "display_name": "a".repeat(4096) })).expect(413);
    assert!(long.errors().contains("2KiB"), "{}", long.errors());
}

#[test]
fn data_are_stored_in_configured_folder_and_reopened() {
    let mut setup = ConfiguredServer::by(LEAST);
    assert!(files_below(setup.server.data()).iter().any(|file| file.ends_with("bulkhead.db")));
    setup.server.wait_for_print(&format!("data: {}", setup.server.data().display()));
    setup.server.kill();
    setup.server.start_again();
    setup.operators.unseal(&setup.server);
    setup.operators.root(&setup.server).read("auth/token/lookup-self").expect(200);
}

#[test]
fn configuration_check_prints_settings_and_creates_nothing() {
    let folder = Folder::new("check");
    let (data, audit) = (folder.path().join("data"), folder.path().join("audit.log"));
    let text = LEAST.replace("DATA", &data.display().to_string());
    let file = written(
        &folder,
        &format!("{text}audit \"file\" \"main\" {{ path = \"{}\" }}\n", audit.display()),
    );
    let (code, output, error) = run(&["--check"], &file);
    assert_eq!((code, error.as_str()), (0, ""), "{output}");
    for word in [
        "is valid",
        "listens on 127.0.0.1:0",
        &data.display().to_string(),
        &format!("audits to main: {}", audit.display()),
    ] {
        assert!(output.contains(word), "{word:?} is not in {output}");
    }
    assert_eq!(files_below(folder.path()), [file], "a check makes nothing");
}

#[test]
fn check_and_start_refuse_missing_audit_folder() {
    let folder = Folder::new("no-audit");
    let text = LEAST.replace("DATA", &folder.path().join("data").display().to_string());
    let audit = "audit \"file\" \"main\" { path = \"/nonexistent/audit.log\" }\n";
    let file = written(&folder, &format!("{text}{audit}"));
    for mode in [&["--check"][..], &[]] {
        let (code, _, error) = run(mode, &file);
        assert!(code == 1 && error.contains("/nonexistent/audit.log"), "{mode:?}: {error}");
    }
}

#[test]
fn limit_of_address_space_is_named() {
    let folder = Folder::new("address-space");
    let text = LEAST.replace("DATA", &folder.path().join("data").display().to_string());
    let file = written(&folder, &text);
    for mode in ["--check", "--log-level=info"] {
        let script = "ulimit -v 4000000; exec \"$1\" server \"$2\" --config \"$3\"";
        let mut command = Command::new("bash");
        command.args(["-c", script, "bash"]).arg(binary()).arg(mode).arg(&file);
        let done = command.output().expect("bash is there");
        let error = String::from_utf8_lossy(&done.stderr);
        assert_eq!(done.status.code(), Some(1), "{mode}: {error}");
        for part in ["3906 MiB", "ulimit -v", "LimitAS="] {
            assert!(error.contains(part), "{mode}: {part} is not in {error}");
        }
    }
}

#[test]
fn check_and_start_refuse_wrong_file_with_line() {
    let folder = Folder::new("wrong");
    let data = folder.path().join("data");
    for (wrong, line, says) in [
        ("defualt_lease_ttl = \"1h\"", 3, "did you mean \"default_lease_ttl\""),
        ("seal \"shamir\" {", 3, "column"),
        ("\nseal \"ocikms\" {}", 4, "with the transit engine of another server"),
        ("storage \"sqlite\" { path = \"/elsewhere\" }", 3, "line 2"),
        ("max_lease_ttl = \"1h\"\ndefault_lease_ttl = \"2h\"", 4, "longer than max_lease_ttl"),
        ("reported_version = \"latest\"", 3, "semantic version"),
        ("plugin_directory = \"\"", 3, "is not a path"),
        ("ha_storage \"consul\" {}", 3, "keep backups"),
        ("seal \"transit\" {}", 3, "seal \"transit\" needs a token"),
        ("allow_api_audit = true", 3, "audit_directory"),
        ("audit \"file\" \"main\" {\n  path = \"/a\"\n  mode = \"0755\"\n}", 5, "executed"),
    ] {
        let text = format!("{LEAST}{wrong}\n").replace("DATA", &data.display().to_string());
        let file = written(&folder, &text);
        for mode in [&["--check"][..], &[]] {
            let (code, output, error) = run(mode, &file);
            assert_eq!((code, output.as_str()), (1, ""), "{mode:?} {wrong}: {error}");
            let place = format!("{}, line {line}: ", file.display());
            assert!(error.contains(&place) && error.contains(says), "{mode:?} {wrong}: {error}");
        }
        assert!(!data.exists(), "a refused file starts nothing");
    }
}

/// A file of Vault, in either syntax: three errors, and settings that have no effect.
const OF_VAULT: [(&str, &str, [usize; 4]); 2] = [
    (
        "vault.hcl",
        "ui = true\ndisable_mlock = true\ncluster_addr = \"https://127.0.0.1:8201\"\n\
         storage \"raft\" {\n  path = \"DATA\"\n  node_id = \"a\"\n}\n\
         listener \"tcp\" {\n  address = \"127.0.0.1:0\"\n  \
         x_forwarded_for_authorized_addrs = \"10.0.0.0/8\"\n}\n\
         seal \"ocikms\" {\n  key_id = \"ocid1\"\n}\n",
        [1, 4, 10, 12],
    ),
    (
        "vault.json",
        "{\n\"ui\": \"true\",\n\"storage\": {\"raft\": {\"path\": \"DATA\"}},\n\
         \"listener\": [{\"tcp\": {\n\"address\": \"127.0.0.1:0\",\n\
         \"x_forwarded_for_authorized_addrs\": \"10.0.0.0/8\"}}],\n\
         \"seal\": {\"ocikms\": {}}\n}\n",
        [2, 3, 6, 7],
    ),
];

#[test]
fn vault_configuration_is_refused_with_all_required_changes() {
    let folder = Folder::new("of-vault");
    let data = folder.path().join("data");
    for (name, text, [ui, storage, proxies, seal]) in OF_VAULT {
        let file = folder.path().join(name);
        let text = text.replace("DATA", &data.display().to_string());
        fs::write(&file, &text).expect("a file can be written");
        for mode in [&["--check"][..], &[]] {
            let (code, output, error) = run(mode, &file);
            assert_eq!((code, output.as_str()), (1, ""), "{mode:?} {name}: {error}");
            for (line, says) in [
                (storage, "storage \"raft\": this version stores in SQLite or PostgreSQL"),
                (proxies, "x_forwarded_for_authorized_addrs: write trusted_proxies = "),
                (seal, "seal \"ocikms\": this version opens the data with Shamir's shares"),
                (ui, "ui: this server has no user interface"),
            ] {
                let line = format!("{}, line {line}: {says}", file.display());
                assert!(error.contains(&line), "{mode:?}: {line} is not in {error}");
            }
            assert!(error.contains("has 3 errors\n"), "{error}");
        }
        assert_eq!(fs::read_to_string(&file).expect("the file stays"), text);
        assert!(!data.exists(), "a refused file starts nothing");
    }
}

/// The files above after the advised changes, with the settings that have no effect.
const CHANGED: [&str; 2] = [
    "ui = true\ndisable_mlock = true\ntelemetry {\n  disable_hostname = true\n}\n\
     storage \"sqlite\" {\n  path = \"DATA\"\n}\n\
     listener \"tcp\" {\n  address = \"127.0.0.1:0\"\n  tls_disable = \"true\"\n}\n\
     audit \"file\" \"main\" {\n  path = \"FOLDER/audit.log\"\n}\n",
    "{\"ui\": true, \"disable_mlock\": \"1\", \"telemetry\": [{\"disable_hostname\": true}],\n\
     \"storage\": {\"sqlite\": {\"path\": \"DATA\"}},\n\
     \"listener\": {\"tcp\": {\"address\": \"127.0.0.1:0\", \"tls_disable\": 1}},\n\
     \"audit\": {\"file\": {\"main\": {\"path\": \"FOLDER/audit.log\"}}}}\n",
];

#[test]
fn settings_without_effect_are_logged_by_starting_server() {
    for text in CHANGED {
        let setup = ConfiguredServer::by(text);
        setup.operators.root(&setup.server).read("auth/token/lookup-self").expect(200);
        assert!(fs::metadata(setup.folder.path().join("audit.log")).is_ok_and(|it| it.len() > 0));
        for setting in ["ui", "disable_mlock", "disable_hostname"] {
            setup.server.wait_for_print(&format!(" setting={setting} note="));
            let printed = setup.server.printed();
            let of_setting = |line: &&str| line.contains(&format!(" setting={setting} note="));
            let lines: Vec<&str> = printed.lines().filter(of_setting).collect();
            let [line] = lines[..] else { panic!("expected one line about {setting}: {printed}") };
            let event = " level=warn event=setting-without-effect line=";
            assert!(line.starts_with("time=") && line.contains(event), "{line}");
        }
    }
}

#[test]
fn a_certificate_without_a_key_is_refused() {
    let folder = Folder::new("tls");
    let text = "listener \"tcp\" {\n  address = \"127.0.0.1:0\"\n  tls_cert_file = \"/c.pem\"\n}\n";
    let (code, _, error) = run(&[], &written(&folder, text));
    assert!(code == 1 && error.contains("line 3") && error.contains("tls_key_file"), "{error}");
}

#[test]
fn a_missing_configuration_file_is_named() {
    for mode in [&["--check"][..], &[]] {
        let (code, _, error) = run(mode, Path::new("/nonexistent/bulkhead.hcl"));
        assert!(code == 1 && error.contains("/nonexistent/bulkhead.hcl cannot be read"), "{error}");
    }
}

#[test]
fn settings_beside_a_configuration_file_are_refused() {
    let folder = Folder::new("twice");
    let file = written(&folder, LEAST);
    for (arguments, says) in [
        (&["--data-dir", "d"][..], "--data-dir"),
        (&["--listen-address", "127.0.0.1:0"], "--listen-address"),
        (&["--dev"], "--dev"),
        (&["--config", "another"], "twice"),
    ] {
        let (code, _, error) = run(arguments, &file);
        assert!(code == 2 && error.contains(says), "{arguments:?}: {error}");
    }
    let mut command = Command::new(binary());
    let command =
        command.args(["server", "--config"]).arg(&file).env_clear().env("BULKHEAD_DATA_DIR", "d");
    let done = command.output().expect("the server can be started");
    let error = String::from_utf8_lossy(&done.stderr);
    assert!(done.status.code() == Some(2) && error.contains("BULKHEAD_DATA_DIR"), "{error}");
    let done = Command::new(binary()).args(["server", "--check"]).env_clear().output();
    assert_eq!(
        done.expect("the server can be started").status.code(),
        Some(2),
        "a check is of a file"
    );
}

#[test]
fn unavailable_address_is_reported_with_place_in_file() {
    let setup = ConfiguredServer::by(LEAST);
    let taken = setup.server.url().replace("http://", "");
    let other = Folder::new("taken");
    let data = other.path().join("data").display().to_string();
    let file = written(&other, &LEAST.replace("DATA", &data).replace("127.0.0.1:0", &taken));
    let (code, _, error) = run(&[], &file);
    assert!(
        code == 1 && error.contains(&taken) && error.contains(&file.display().to_string()),
        "{error}"
    );
    let (code, _, error) = run(&["--check"], &file);
    assert!(code == 1 && error.contains(&taken), "{error}");
}

/// An audit device, and this machine as a trusted proxy.
const BEHIND_A_PROXY: &str = r#"
listener "tcp" {
  address         = "127.0.0.1:0"
  trusted_proxies = ["127.0.0.0/8"]
}
storage "sqlite" { path = "DATA" }
audit "file" "main" { path = "FOLDER/audit.log" }
"#;

impl ConfiguredServer {
    /// Looks up the root token with additional header lines, and returns the whole answer.
    fn asks(&self, lines: &str) -> String {
        let token = &self.operators.token;
        self.raw(&format!(
            "GET /v1/auth/token/lookup-self HTTP/1.1\r\nx-vault-token: {token}{lines}"
        ))
    }

    /// Returns address and port of the last request in the audit file `name`.
    fn recorded(&self, name: &str) -> (String, u64) {
        let text =
            fs::read_to_string(self.folder.path().join(name)).expect("there is an audit file");
        let mut lines =
            text.lines().map(|line| serde_json::from_str::<Value>(line).expect("a line is JSON"));
        let last = lines.rfind(|line| line["type"] == "request").expect("a request was recorded");
        let request = &last["request"];
        let address = request["remote_address"].as_str().expect("an address").to_owned();
        (address, request["remote_port"].as_u64().unwrap_or_default())
    }
}

#[test]
fn only_a_trusted_proxy_sets_the_client_address() {
    let setup = ConfiguredServer::by(BEHIND_A_PROXY);
    for (lines, client) in [
        ("\r\nX-Forwarded-For: 198.51.100.1", "198.51.100.1"),
        ("\r\nX-Forwarded-For: 127.0.0.1, 198.51.100.1", "198.51.100.1"),
        (
            "\r\nX-Forwarded-For: 127.0.0.1\r\nx-forwarded-for: 198.51.100.1:80, 127.0.0.2",
            "198.51.100.1",
        ),
        ("\r\nX-Forwarded-For: unknown, [2001:db8::1]:4711", "2001:db8::1"),
        ("\r\nForwarded: for=198.51.100.7\r\nX-Real-IP: 198.51.100.8", "127.0.0.1"),
    ] {
        let answer = setup.asks(lines);
        assert!(answer.starts_with("HTTP/1.1 200 "), "{lines:?}: {answer}");
        let (address, port) = setup.recorded("audit.log");
        assert_eq!(address, client, "{lines:?}");
        assert_eq!(port == 0, client != "127.0.0.1", "the port is the proxy's, not the client's");
    }
    for hops in
        ["", "unknown", "198.51.100.1,", "198.51.100.1, 10.0.0.300", &"127.0.0.1,".repeat(40)]
    {
        let answer = setup.asks(&format!("\r\nX-Forwarded-For: {hops}"));
        assert!(
            answer.starts_with("HTTP/1.1 400 ") && answer.contains("X-Forwarded-For"),
            "{hops}: {answer}"
        );
        assert!(!answer.contains(&setup.operators.token), "{answer}");
    }
}

#[test]
fn forwarded_addresses_are_ignored_without_a_trusted_proxy() {
    let setup = ConfiguredServer::by(&BEHIND_A_PROXY.replace("127.0.0.0/8", "192.0.2.0/24"));
    for lines in [
        "\r\nX-Forwarded-For: 198.51.100.1",
        "\r\nX-Forwarded-For: nonsense",
        "\r\nX-Forwarded-For: 192.0.2.1",
    ] {
        let answer = setup.asks(lines);
        assert!(answer.starts_with("HTTP/1.1 200 "), "{lines:?}: {answer}");
        let (address, port) = setup.recorded("audit.log");
        assert!(address == "127.0.0.1" && port != 0, "{lines:?}: {address} {port}");
    }
}

#[test]
fn sighup_reopens_audit_file_without_reading_configuration() {
    let mut setup = ConfiguredServer::by(BEHIND_A_PROXY);
    let audit = |name: &str| setup.folder.path().join(name);
    setup.asks("\r\nX-Forwarded-For: 198.51.100.1");
    fs::rename(audit("audit.log"), audit("audit.1")).expect("a file can be moved");
    setup.asks("\r\nX-Forwarded-For: 198.51.100.2");
    assert_eq!(
        setup.recorded("audit.1").0,
        "198.51.100.2",
        "the old file is used until somebody says otherwise"
    );
    written(&setup.folder, "this is not a configuration");
    setup.server.signal("HUP");
    until_true("the new file is used", Duration::from_secs(10), || {
        setup.asks("\r\nX-Forwarded-For: 198.51.100.3");
        fs::metadata(audit("audit.log")).is_ok_and(|file| file.len() > 0)
    });
    setup.asks("\r\nX-Forwarded-For: 198.51.100.4");
    assert_eq!(setup.recorded("audit.log").0, "198.51.100.4");
    assert_ne!(setup.recorded("audit.1").0, "198.51.100.4");
    setup.server.wait_for_print("event=reopening-audit signal=SIGHUP");
    assert!(setup.server.stop(), "a server that is asked to stop says that all is well");
}

#[test]
fn sighup_does_not_end_a_sealed_server() {
    let mut setup = ConfiguredServer::by(LEAST);
    setup.operators.root(&setup.server).send("PUT", "sys/seal", b"").expect(204);
    for _ in 0..3 {
        setup.server.signal("HUP");
    }
    setup.server.wait_for_print("reopening-audit");
    setup.operators.unseal(&setup.server);
    setup.operators.root(&setup.server).read("auth/token/lookup-self").expect(200);
    assert!(setup.server.stop(), "a server that is asked to stop says that all is well");
}

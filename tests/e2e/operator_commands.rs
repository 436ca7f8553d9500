//! `bulkhead operator members`, `step-down` and `diagnose`, as an operator types them.

use bulkhead_tests::Bulkhead;
use bulkhead_tests::paths::{Folder, binary, files_below};
use rcgen::{CertificateParams, KeyPair, date_time_ymd};
use serde_json::Value;
use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::{Command, Output};

fn shown(done: Output) -> (i32, String, String) {
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
    (done.status.code().unwrap_or(-1), text(done.stdout), text(done.stderr))
}

fn operator(server: &Bulkhead, words: &[&str]) -> (i32, String, String) {
    shown(server.command(&[&["operator"], words].concat()).output().expect("it can be started"))
}

#[test]
fn only_node_is_listed_without_stepping_down() {
    let server = Bulkhead::start();
    let (code, table, error) = operator(&server, &["members"]);
    assert!(code == 0 && table.starts_with("Host Name") && table.contains("true"), "{error}");
    let (code, json, error) = operator(&server, &["members", "-format=json"]);
    let listed: Value = serde_json::from_str(&json).expect("-format=json prints JSON");
    assert_eq!(code, 0, "{error}");
    assert_eq!(listed["Nodes"].as_array().map(Vec::len), Some(1), "{listed}");
    assert_eq!(listed["Nodes"][0]["active_node"], true);
    let (code, said, error) = operator(&server, &["step-down"]);
    assert!(code == 0 && said.contains("still answers requests"), "{said}{error}");
    server.root().read("sys/mounts").expect(200);
}

/// A configuration file in its own folder, which the placeholder `FOLDER` names.
struct Configured {
    folder: Folder,
}

impl Configured {
    fn by(text: &str) -> Self {
        let folder = Folder::new("diagnosed");
        let text = text.replace("FOLDER", &folder.path().display().to_string());
        fs::write(folder.path().join("bulkhead.hcl"), text).expect("a file can be written");
        Self { folder }
    }

    fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn diagnose(&self, more: &[&str]) -> (i32, String, String) {
        let mut command = Command::new(binary());
        command.args(["operator", "diagnose", "-config"]).arg(self.file("bulkhead.hcl"));
        shown(command.args(more).env_clear().output().expect("it can be started"))
    }

    /// Returns the exit code, and the status and message of each result of `check`.
    #[track_caller]
    fn results(&self, check: &str) -> (i32, Vec<(String, String)>) {
        let (code, json, error) = self.diagnose(&["-format=json"]);
        let report: Value = serde_json::from_str(&json).unwrap_or_else(|_| panic!("{json}{error}"));
        let worst = ["ok", "fail", "warn"][usize::try_from(code).expect("a code")];
        assert_eq!(report["status"], worst, "{report}");
        let text = |value: &Value| value.as_str().expect("a text").to_owned();
        let children = report["children"].as_array().expect("results").iter();
        let named = children.filter(|child| child["name"] == check);
        (code, named.map(|child| (text(&child["status"]), text(&child["message"]))).collect())
    }

    /// Asserts that `check` has a result with this status, whose message contains `part`.
    #[track_caller]
    fn assert_result(&self, check: &str, status: &str, part: &str) {
        let (code, results) = self.results(check);
        let is_it = |(found, message): &(String, String)| found == status && message.contains(part);
        assert!(results.iter().any(is_it), "{check} {status} {part}: {results:?}");
        if status != "ok" {
            assert_eq!(code, if status == "fail" { 1 } else { 2 }, "{results:?}");
        }
    }
}

const GOOD: &str = "listener \"tcp\" { address = \"127.0.0.1:0\" }\n\
     storage \"sqlite\" { path = \"FOLDER/data\" }\n\
     audit \"file\" \"main\" { path = \"FOLDER/audit.log\" }\n";

#[test]
fn good_file_lists_each_check_and_creates_nothing() {
    let good = Configured::by(GOOD);
    let (code, said, error) = good.diagnose(&[]);
    assert!(code == 0 && error.is_empty(), "{said}{error}");
    for check in [
        "configuration",
        "process",
        "engine",
        "open files",
        "storage",
        "space",
        "audit",
        "listener",
        "clock",
    ] {
        assert!(said.contains(&format!("[ ok ]   {check}: ")), "{check}: {said}");
    }
    assert!(said.contains("0 failed, 0 with a warning"), "{said}");
    assert_eq!(files_below(good.folder.path()), [good.file("bulkhead.hcl")]);
    assert_eq!(good.results("storage").1[0].0, "ok");
}

#[test]
fn wrong_usage_and_file_have_own_exit_codes() {
    let wrong = Configured::by("defualt_lease_ttl = \"1h\"\n");
    let (code, said, _) = wrong.diagnose(&[]);
    assert!(code == 1 && said.starts_with("[ fail ] configuration: "), "{said}");
    assert!(said.contains("did you mean \"default_lease_ttl\""), "{said}");
    let (code, said, error) = wrong.diagnose(&["-format=xml"]);
    assert!(code == 3 && said.is_empty() && error.contains("json or table"), "{error}");
    let mut helped = Command::new(binary());
    let helped = shown(helped.args(["operator", "diagnose", "-help"]).output().expect("it runs"));
    assert!(helped.0 == 0 && helped.1.contains("Exit code 0"), "{}", helped.1);
}

#[test]
fn each_obstacle_of_a_start_is_named() {
    let taken = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = taken.local_addr().expect("its address").to_string();
    let obstacles = Configured::by(&format!(
        "listener \"tcp\" {{ address = \"{address}\" }}\nstorage \"sqlite\" {{ path = \
         \"FOLDER/file\" }}\naudit \"file\" \"main\" {{ path = \"FOLDER/none/audit.log\" }}\n\
         plugin_directory = \"FOLDER/plugins\"\nui = true\n"
    ));
    fs::write(obstacles.file("file"), "").expect("a file can be written");
    obstacles.assert_result("storage", "fail", "is not a directory");
    obstacles.assert_result("audit", "fail", "there is no such folder");
    obstacles.assert_result("listener", "fail", "choose another address");
    obstacles.assert_result("plugins", "fail", "plugin_directory");
    assert_eq!(obstacles.results("configuration").1[1].0, "warn");
}

#[test]
fn disadvantages_of_a_start_are_warnings() {
    let open = Configured::by(
        "listener \"tcp\" {\n  address = \"0.0.0.0:0\"\n  tls_disable = true\n}\n\
         storage \"sqlite\" { path = \"FOLDER/data\" }\n",
    );
    fs::create_dir(open.file("data")).expect("a folder can be made");
    fs::set_permissions(open.file("data"), fs::Permissions::from_mode(0o755)).expect("it is ours");
    open.assert_result("listener", "warn", "plain http beyond loopback");
    open.assert_result("storage", "warn", "chmod 700");
    open.assert_result("audit", "warn", "no request will be recorded");
}

fn certificate(configured: &Configured, ends: (i32, u8, u8)) {
    let key = KeyPair::generate().expect("a key");
    let mut params = CertificateParams::new(vec!["localhost".to_owned()]).expect("a name");
    params.not_before = date_time_ymd(2020, 1, 1);
    params.not_after = date_time_ymd(ends.0, ends.1, ends.2);
    let certificate = params.self_signed(&key).expect("a certificate");
    fs::write(configured.file("cert.pem"), certificate.pem()).expect("a file can be written");
    fs::write(configured.file("key.pem"), key.serialize_pem()).expect("a file can be written");
    let closed = fs::Permissions::from_mode(0o600);
    fs::set_permissions(configured.file("key.pem"), closed).expect("it is ours");
}

#[test]
fn certificates_are_checked_with_their_end() {
    let over_tls = Configured::by(&GOOD.replace(
        "address = \"127.0.0.1:0\"",
        "\n  address = \"127.0.0.1:0\"\n  tls_cert_file = \"FOLDER/cert.pem\"\n  tls_key_file = \
         \"FOLDER/key.pem\"\n",
    ));
    over_tls.assert_result("listener", "fail", "cannot be read");
    certificate(&over_tls, (2099, 12, 31));
    over_tls.assert_result("certificate", "ok", "ends at 2099-12-31");
    over_tls.assert_result("listener", "ok", "https://127.0.0.1:");
    certificate(&over_tls, (2021, 1, 1));
    over_tls.assert_result("listener", "fail", "ended at 2021-01-01");
}

#[test]
fn running_server_keeps_address_and_data_during_diagnosis() {
    let configured = Configured::by(GOOD);
    let data = Folder::at(configured.file("data"));
    let mut server = Bulkhead::prepared(binary(), data).configured(configured.file("bulkhead.hcl"));
    server.start_again();
    configured.assert_result("storage", "ok", "a server is using the data");
    configured.assert_result("listener", "ok", "belongs to the running server");
    assert_eq!(operator(&server, &["init", "-status"]).0, 2, "the server goes on");
    server.kill();
    configured.assert_result("listener", "ok", "can be served");
}

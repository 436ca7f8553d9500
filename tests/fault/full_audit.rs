//! The disk of the audit file is full while the store has space: the server answers nothing that it
//! did not record, and changes nothing without a recorded request.
//!
//! When there is space again, everything works without a restart.

use bulkhead_tests::disk::Disk;
use bulkhead_tests::operators::Operators;
use bulkhead_tests::paths::{Folder, binary};
use bulkhead_tests::{Answer, Bulkhead, Client, storage, wait};
use serde_json::{Value, json};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Space for audit lines, in bytes: the disk fills up within a request, within an answer, and near
/// the end of either.
const SIZES: [u64; 6] = [0, 500, 5_000, 5_700, 6_400, 7_100];

/// Longer than any step takes.
const SOON: Duration = Duration::from_secs(10);

/// Number of requests sent once the disk is full.
const REFUSED: usize = 4;

#[test]
fn full_audit_disk_blocks_audited_requests_until_freed() {
    for size in SIZES {
        println!("space for {size} bytes");
        live_with(size);
    }
}

/// A server whose audit file is on a separate disk.
struct AuditedServer {
    server: Bulkhead,
    root: Client,
    disk: Disk,
    file: PathBuf,
    _folders: [Folder; 2],
}

impl AuditedServer {
    fn on(disk: Disk) -> Self {
        let (audit, output, data) =
            (Folder::new("audit"), Folder::new("told"), Folder::new("audited"));
        let file = audit.path().join("trail.log");
        let settings = format!(
            "listener \"tcp\" {{ address = \"127.0.0.1:0\" }}\n\
             {}\n\
             audit \"file\" \"main\" {{ path = {file:?} }}\n",
            storage::block(data.path())
        );
        let config = output.path().join("bulkhead.hcl");
        fs::write(&config, settings).expect("a file can be written");
        let mut server = Bulkhead::prepared(binary(), data).configured(config);
        server.start_with(&disk.under(audit.path())).expect("a server starts without a line");
        let operators = Operators::initialise(&server, 1, 1);
        operators.unseal(&server);
        let root = operators.root(&server);
        Self { server, root, disk, file, _folders: [audit, output] }
    }

    fn write(&self, number: usize) -> Answer {
        let body = json!({ "policy": "path \"a\" { capabilities = [\"read\"] }" });
        self.root.attempt("POST", &path(number), body.to_string().as_bytes()).expect("an answer")
    }
}

fn path(number: usize) -> String {
    format!("sys/policies/acl/number-{number}")
}

/// Returns the complete lines of the file, and the number of incomplete lines.
fn lines(file: &Path) -> (Vec<Value>, usize) {
    let text = fs::read_to_string(file).expect("the audit file");
    let parsed: Vec<_> = text.lines().map(serde_json::from_str::<Value>).collect();
    let torn = parsed.iter().filter(|line| line.is_err()).count();
    (parsed.into_iter().flatten().collect(), torn)
}

fn live_with(size: u64) {
    let audited = AuditedServer::on(Disk::full_after(size));
    let mut answered = Vec::new();
    while answered.iter().filter(|status| **status != 204).count() < REFUSED {
        let answer = audited.write(answered.len());
        if answer.status != 204 {
            let errors = answer.errors();
            let is_named = errors.contains("internal error: no audit device can be written");
            assert!(answer.status == 500 && is_named && !errors.contains('/'), "{answer:?}");
        }
        answered.push(answer.status);
        assert!(answered.len() < 100, "the disk does not fill up");
    }
    assert_eq!(audited.server.client(None).read("sys/health").expect(500).body["writes"], false);
    audited.server.wait_for_print("event=health-degraded code=audit-stopped");
    audited.disk.free_space();
    wait::until_true("it records again, asked by nobody but for its health", SOON, || {
        let health = audited.server.client(None).read("sys/health");
        health.status == 200 && health.body["writes"] == true
    });
    audited.root.read("sys/mounts").expect(200);
    let (recorded, torn) = lines(&audited.file);
    assert!(torn <= 1, "{torn} lines are torn");
    for (number, status) in answered.iter().enumerate() {
        let of = |kind: &str| {
            recorded
                .iter()
                .any(|line| line["type"] == kind && line["request"]["path"] == path(number))
        };
        let stored = audited.root.read(&path(number)).status == 200;
        assert!(of("response") || *status != 204, "{number} was answered without a trace");
        assert!(of("request") || !stored, "{number} was done without a trace");
        assert!(stored || *status != 204, "{number} was answered and is not there");
    }
    audited.server.wait_for_print("audit-recovered");
    audited.server.wait_for_print("event=health-restored code=audit-stopped");
    let printed = audited.server.printed();
    let times = |event: &str| printed.matches(&format!("event={event}")).count();
    assert_eq!((times("audit-failed"), times("audit-recovered")), (1, 1), "{printed}");
}

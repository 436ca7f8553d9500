//! The server dies in each write of a swap whose migration has several steps: afterwards the
//! migration continues or is over, one version serves the mount, and each record is migrated
//! exactly once.

use crate::injected::{FaultObserved, InjectedFault, write};
use crate::points;
use bulkhead_tests::paths::{Folder, fault_binary, guest, with_text};
use bulkhead_tests::wait::until_true;
use bulkhead_tests::{Bulkhead, Client, storage};
use serde_json::json;
use std::time::Duration;

const HOSTILE: &str = "sys/plugins/catalog/secret/hostile";
/// Records of the mount; each migration step takes 500.
const RECORDS: u64 = 2_000;
/// Longest wait for the rest of a migration.
const SOON: Duration = Duration::from_secs(20);

/// The hostile guest with the given version and schema number.
fn hostile(version: &str, schema: u32) -> Vec<u8> {
    let text = format!("\"version\":\"{version}\",\"schema\":{schema}");
    with_text(guest("hostile"), "\"version\":\"1.0.0\",\"schema\":2", &text)
}

/// Returns a stopped server; lives start with a copy of its data.
fn prepared() -> Bulkhead {
    let mut server = Bulkhead::prepared(fault_binary(), Folder::new("migrations"));
    server.start_again();
    let root = server.root();
    root.upload(HOSTILE, &hostile("1.0.0", 6)).expect(204);
    root.upload(HOSTILE, &hostile("2.0.0", 7)).expect(204);
    let fields = json!({ "type": "hostile", "config": { "plugin_version": "1.0.0" } });
    root.write("sys/mounts/stepped", &fields).expect(204);
    for _ in 0..RECORDS / 1_000 {
        root.read("stepped/fill").expect(200);
    }
    assert!(server.stop(), "{}", server.printed());
    server
}

/// Returns a server with a copy of the template's data, not started yet.
fn copied(template: &Bulkhead) -> Bulkhead {
    Bulkhead::prepared(fault_binary(), storage::copied(template.data()))
}

fn swap(root: &Client) -> Result<(), FaultObserved> {
    let tuned = write(root, "sys/mounts/stepped/tune", &json!({ "plugin_version": "2.0.0" }))?;
    assert!(tuned.status < 300, "{tuned:?}");
    Ok(())
}

/// Asserts that all records have the schema of the serving version. Returns true if the newer
/// version serves.
#[track_caller]
fn is_migrated(root: &Client) -> bool {
    let mount = root.read("sys/mounts/stepped").expect(200);
    let is_newer = mount.text("running_plugin_version") == "2.0.0";
    let rows = root.read("stepped/rows").expect(200);
    let (old, new) = if is_newer { (0, RECORDS) } else { (RECORDS, 0) };
    assert_eq!(rows.body["data"], json!({ "old": old, "new": new }), "{mount:?}");
    is_newer
}

#[test]
fn migration_continues_after_crash_at_any_failpoint() {
    let template = prepared();
    let first = points::passed_by_start("abort", copied(&template));
    points::each_behind("migrations", "abort", first, |number| {
        let fault = InjectedFault::at("abort", number);
        let mut server = copied(&template);
        if !fault.start(&mut server) {
            return true;
        }
        let lived = swap(&server.root());
        let came = fault.end(&mut server, &lived);
        server.start_again();
        let root = server.root();
        until_true("a version serves", SOON, || {
            root.attempt("GET", "stepped/acts", b"").is_ok_and(|answer| answer.status == 200)
        });
        let is_newer = is_migrated(&root);
        assert!(is_newer || lived.is_err(), "the swap was answered");
        assert!(swap(&root).is_ok(), "the mount can be swapped after the fault");
        assert!(is_migrated(&root));
        came
    });
}

//! The process is killed before each operation on the disk, while it creates its data: it starts
//! again without an operator's help, because it has promised nothing yet.

use crate::stage::{report, sampled, sampling, until_nothing_fires};
use bulkhead_tests::Bulkhead;
use bulkhead_tests::disk::Disk;
use bulkhead_tests::paths::{Folder, binary};
use bulkhead_tests::storage::on_files;
use serde_json::json;
use std::os::unix::process::ExitStatusExt;

const SIGKILL: i32 = 9;

/// Fewest disk operations of a new database. With fewer, the simulated disk has missed some.
const FEWEST: u32 = 20;

#[test]
fn server_killed_during_first_start_starts_again() {
    let acts = until_nothing_fires(|number| {
        let _files = on_files();
        let act = sampled(number);
        let disk = Disk::killing_at(act);
        let mut server = Bulkhead::prepared(binary(), Folder::new("first"));
        let environment = disk.under(server.data());
        let Err(status) = server.start_with(&environment) else { return false };
        assert_eq!(status.signal(), Some(SIGKILL), "{status}: {}", server.printed());
        println!("killed before act {act}");
        server.start_again();
        let policy = json!({ "policy": "path \"a/b\" { capabilities = [\"read\"] }" });
        server.root().write("sys/policies/acl/first", &policy).expect(204);
        server.kill();
        server.start_again();
        server.root().read("sys/policies/acl/first").expect(200);
        true
    });
    report(&format!("first start: killed before {acts} acts on the disk, {}", sampling()));
    assert!(sampled(acts) > FEWEST, "only {acts} acts were tried");
}

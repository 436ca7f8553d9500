//! The process is killed while it makes its data: before its first act on the disk, before its
//! second, and so on until it listens. It starts again on what that left, without an operator's
//! help, because nothing was promised yet.

use crate::stage::{report, sampled, sampling, until_nothing_fires};
use bulkhead_tests::Bulkhead;
use bulkhead_tests::disk::Disk;
use bulkhead_tests::paths::{Folder, binary};
use serde_json::json;
use std::os::unix::process::ExitStatusExt;

const SIGKILL: i32 = 9;

/// A new database takes more acts than this, or the disk has not seen them.
const FEWEST: u32 = 20;

#[test]
fn a_server_that_is_killed_while_it_makes_its_data_starts_again() {
    let acts = until_nothing_fires(|number| {
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

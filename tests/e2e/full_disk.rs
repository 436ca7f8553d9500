//! A disk that fills up while a server works. `tests/fault` shows that no data are lost.

use bulkhead_tests::Bulkhead;
use bulkhead_tests::disk::Disk;
use bulkhead_tests::paths::{Folder, binary};
use bulkhead_tests::storage::on_files;
use serde_json::json;

/// Space for a started server and for some writes of [`policy`].
const SPACE: u64 = 4 << 20;

/// Far more writes than fit into the space.
const WRITES: usize = 200;

fn policy() -> String {
    "path \"a/b\" { capabilities = [\"read\"] }\n".repeat(1000)
}

pub(super) fn a_full_disk_refuses_writes_with_a_reason_until_there_is_space() {
    let _files = on_files();
    let disk = Disk::full_after(SPACE);
    let mut server = Bulkhead::prepared(binary(), Folder::new("full-row"));
    let environment = disk.under(server.data());
    server.start_with(&environment).expect("a server starts in that space");
    let (root, policy) = (server.root(), json!({ "policy": policy() }));
    let mut refused = None;
    for number in 0..WRITES {
        let answer = root.write(&format!("sys/policies/acl/number-{number}"), &policy);
        if answer.status != 204 {
            refused = Some((number, answer));
            break;
        }
    }
    let (number, answer) = refused.expect("no disk is large enough");
    assert_eq!(answer.status, 503, "{answer:?}");
    assert!(answer.errors().contains("disk") && answer.errors().contains("full"), "{answer:?}");
    root.read(&format!("sys/policies/acl/number-{number}")).expect(404);
    root.read("sys/policies/acl/number-0").expect(200);
    disk.free_space();
    root.write(&format!("sys/policies/acl/number-{number}"), &policy).expect(204);
    root.read(&format!("sys/policies/acl/number-{number}")).expect(200);
}

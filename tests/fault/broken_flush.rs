//! A flush fails: until a restart the server writes nothing more, and its answers say so.
//!
//! After a failed flush the state of the disk is unknown, and a second flush would succeed although
//! the lost pages stay lost.

use crate::life::{EarlyEnd, Life};
use crate::recovery;
use crate::stage::thorough;
use bulkhead_tests::bulkhead::ROOT;
use bulkhead_tests::disk::{Disk, FileOperation, SeededRandom, after_power_cut, folder_of};
use bulkhead_tests::paths::{Folder, binary};
use bulkhead_tests::storage::on_files;
use bulkhead_tests::{Answer, Bulkhead, Client};
use serde_json::json;

/// Number of failing flushes: in a quick run, and in `make fault`.
const FLUSHES: [u64; 2] = [4, 40];

#[test]
fn failed_flush_stops_all_writes_until_restart() {
    let _files = on_files();
    let (at_start, at_end) = flushes_of_a_life();
    let tried = FLUSHES[usize::from(thorough())].min(at_end - at_start - 1);
    let mut met = 0;
    for number in 0..tried {
        let flush = at_start + 1 + (at_end - at_start - 1) * number / tried;
        println!("flush {flush} fails");
        met += u64::from(live_with(flush, &format!("eio{number}")));
    }
    assert!(met * 2 > tried, "only {met} of {tried} lives reported the failed disk");
}

/// Returns the number of flushes after the server's start, and after a whole life.
fn flushes_of_a_life() -> (u64, u64) {
    let disk = Disk::sound();
    let mut server = Bulkhead::prepared(binary(), Folder::new("flush"));
    let environment = disk.under(server.data());
    server.start_with(&environment).expect("nothing fails on this disk");
    let flushes = || {
        disk.entries().iter().filter(|entry| matches!(entry.act, FileOperation::Flush)).count()
            as u64
    };
    let at_start = flushes();
    Life::new("flush", &mut server).run().expect("nothing fails on this disk");
    (at_start, flushes())
}

/// Runs a life on a disk whose flush number `flush` fails. Returns true if an answer reported it.
fn live_with(flush: u64, name: &str) -> bool {
    let disk = Disk::failing_flush(flush);
    let mut server = Bulkhead::prepared(binary(), Folder::new("eio"));
    let environment = disk.under(server.data());
    server.start_with(&environment).expect("the flush that fails comes later");
    let root = server.root();
    let mut life = Life::new(name, &mut server).on_disk(disk.log()).in_trouble(|answer| {
        refused_and_served(answer, &root);
        Err(EarlyEnd::Enough)
    });
    let reported = matches!(life.run(), Err(EarlyEnd::Enough));
    let model = life.into_model();
    let entries = disk.entries();
    assert!(
        entries.iter().any(|entry| matches!(entry.act, FileOperation::FailedFlush)),
        "flush {flush} never came"
    );
    server.kill();
    let lost = folder_of(&after_power_cut(&entries, &mut SeededRandom::new(flush)), server.data());
    let mut found = Bulkhead::prepared(binary(), lost);
    found.start_again();
    recovery::store_holds(&found.root(), &model);
    found.kill();
    server.start_again();
    recovery::check(name, &server, &model);
    reported
}

/// Asserts a refusal with the remedy, a refusal of another write, and a successful read.
fn refused_and_served(answer: &Answer, root: &Client) {
    let says_so = |answer: &Answer| {
        assert_eq!(answer.status, 503, "{answer:?}");
        let errors = answer.errors();
        assert!(
            errors.contains("disk") && errors.contains("restart"),
            "the errors do not mention the disk: {errors}"
        );
    };
    says_so(answer);
    for number in 0..3 {
        let policy = json!({ "policy": "path \"a/b\" { capabilities = [\"read\"] }" });
        says_so(&root.write(&format!("sys/policies/acl/after-{number}"), &policy));
        says_so(&root.write("auth/token/create", &json!({ "ttl": "1h" })));
        root.read(&format!("sys/policies/acl/after-{number}")).expect(404);
    }
    root.read("sys/mounts").expect(200);
    root.write("auth/token/lookup", &json!({ "token": ROOT })).expect(200);
}

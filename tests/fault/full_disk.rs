//! The disk is full: the server refuses writes and names the reason, and still serves reads. When
//! there is space again, everything works without a restart or a repair.

use crate::life::{EarlyEnd, Life};
use crate::recovery;
use crate::stage::{WAITING_AT_ONCE, thorough, until_nothing_fires_of};
use bulkhead_tests::bulkhead::ROOT;
use bulkhead_tests::disk::{Disk, FileOperation};
use bulkhead_tests::paths::{Folder, binary};
use bulkhead_tests::storage::on_files;
use bulkhead_tests::wait::until_true;
use bulkhead_tests::{Answer, Bulkhead, Client};
use serde_json::json;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

/// Number of disk sizes: in a quick run, and in `make fault`.
const SIZES: [u32; 2] = [6, 60];

/// Longest wait for the condition in the health, on a busy machine.
const HEALTH_TIME: Duration = Duration::from_secs(30);

#[test]
fn full_disk_refuses_writes_until_space_returns() {
    let (at_start, at_end) = written_by_a_life();
    let sizes = SIZES[usize::from(thorough())];
    let met = AtomicU32::new(0);
    until_nothing_fires_of(WAITING_AT_ONCE, |number| {
        let space = at_start + (at_end - at_start) * u64::from(number - 1) / u64::from(sizes);
        let is_tried = number <= sizes;
        if is_tried {
            println!("space for {space} bytes");
            let has_met = live_with(space, &format!("full{number}"));
            met.fetch_add(u32::from(has_met), Ordering::Relaxed);
        }
        is_tried
    });
    let met = met.into_inner();
    assert!(met * 2 > sizes, "only {met} of {sizes} lives reported the full disk");
}

/// Returns the bytes written after the server's start, and after a whole life.
fn written_by_a_life() -> (u64, u64) {
    let _files = on_files();
    let disk = Disk::sound();
    let mut server = Bulkhead::prepared(binary(), Folder::new("space"));
    let environment = disk.under(server.data());
    server.start_with(&environment).expect("nothing fails on this disk");
    let written = || disk.entries().iter().map(|entry| bytes(&entry.act)).sum::<u64>();
    let at_start = written();
    Life::new("space", &mut server).run().expect("nothing fails on this disk");
    (at_start, written())
}

fn bytes(act: &FileOperation) -> u64 {
    match act {
        FileOperation::Write { bytes, .. } => bytes.len() as u64,
        _ => 0,
    }
}

/// Runs a life on a disk with `space` bytes. Returns true if an answer reported the full disk.
fn live_with(space: u64, name: &str) -> bool {
    let _files = on_files();
    let disk = Disk::full_after(space);
    let mut server = Bulkhead::prepared(binary(), Folder::new("full"));
    let environment = disk.under(server.data());
    server.start_with(&environment).expect("a server starts in the space that one needs to start");
    let root = server.root();
    let mut is_full = true;
    let nobody = server.client(None);
    let mut life = Life::new(name, &mut server).in_trouble(|answer| {
        assert!(is_full, "refused although there is space again: {answer:?}");
        refused_and_served(answer, &root);
        // A small commit, which still has space, ends the condition until the next refusal.
        until_true("the health names the full disk", HEALTH_TIME, || {
            write_long_policy(&root).expect(503);
            let health = nobody.read("sys/health").expect(200).body;
            health["degraded"][0]["code"] == "disk-full"
        });
        disk.free_space();
        is_full = false;
        Ok::<(), EarlyEnd>(())
    });
    life.run().expect("the server lives on");
    let (was_troubled, model) = (life.was_troubled(), life.into_model());
    disk.free_space();
    recovery::store_holds(&root, &model);
    server.kill();
    server.start_again();
    recovery::check(name, &server, &model);
    was_troubled
}

/// Asserts a refusal that names the disk, a refusal of another write, and a successful read.
fn refused_and_served(answer: &Answer, root: &Client) {
    let names_it = |answer: &Answer| {
        assert_eq!(answer.status, 503, "{answer:?}");
        let errors = answer.errors();
        assert!(
            errors.contains("disk") && errors.contains("full"),
            "the errors do not mention a full disk: {errors}"
        );
    };
    names_it(answer);
    names_it(&write_long_policy(root));
    root.read("sys/mounts").expect(200);
    root.read("sys/policies/acl/of-a-full-disk").expect(404);
    root.write("auth/token/lookup", &json!({ "token": ROOT })).expect(200);
}

/// Writes a policy too long for the free space of pages in use, so that the write needs disk space.
fn write_long_policy(root: &Client) -> Answer {
    let policy = "path \"a/b\" { capabilities = [\"read\"] }\n".repeat(400);
    root.write("sys/policies/acl/of-a-full-disk", &json!({ "policy": policy }))
}

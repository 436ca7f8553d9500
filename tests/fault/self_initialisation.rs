//! The process is killed before each operation on the disk, while it initialises itself: a block is
//! complete or leaves nothing, and the next start continues.

use crate::configured_seal::ConfiguredSeal;
use crate::sealed_life::SealedLife;
use crate::stage::{AT_ONCE, LONG_STRIDE, report, sampled_at, sampling_at, until_nothing_fires_of};
use bulkhead_tests::Bulkhead;
use bulkhead_tests::disk::Disk;
use bulkhead_tests::operators::seal_status;
use bulkhead_tests::paths::{Folder, binary};
use bulkhead_tests::storage::{on_files, unfinished_data};
use serde_json::json;
use std::os::unix::process::ExitStatusExt;

const SIGKILL: i32 = 9;

/// Fewest disk operations of a self-initialisation with two blocks.
const FEWEST: u32 = 40;

/// As [`LONG_STRIDE`], for the lives that repeat those of the static seal.
const LONGEST_STRIDE: u32 = 32;

/// Each request of a block fails if it has left something.
const BLOCKS: &str = r#"
initialize "logins" {
  request "enable" {
    operation = "update"
    path      = "sys/auth/userpass"
    data      = { type = "userpass" }
  }
  request "user" {
    operation = "update"
    path      = "auth/userpass/users/ops"
    data      = { password = "Vh5-Jm8-Rw3", token_policies = ["ops"] }
  }
}
initialize "secrets" {
  request "enable" {
    operation = "update"
    path      = "sys/mounts/notes"
    data      = { type = "kv" }
  }
  request "policy" {
    operation = "update"
    path      = "sys/policies/acl/ops"
    data      = { policy = "path \"sys/mounts\" { capabilities = [\"read\"] }" }
  }
}
"#;

/// Asserts that a start without the blocks serves complete data only.
fn assert_never_served_in_part(life: &mut SealedLife) {
    life.configure("");
    let before = life.server.printed().len();
    match life.server.start_with(&[]) {
        Ok(()) => {
            if seal_status(&life.server)["initialized"] == true {
                life.await_open();
                assert_complete(&life.server);
            } else {
                assert_eq!(seal_status(&life.server)["sealed"], true);
            }
            life.server.kill();
        }
        Err(status) => {
            assert_eq!(status.code(), Some(1));
            life.server.wait_for_print_after(before, "set up in part");
        }
    }
    life.configure(BLOCKS);
}

fn assert_complete(server: &Bulkhead) {
    let login = json!({ "password": "Vh5-Jm8-Rw3" });
    let answer = server.client(None).write("auth/userpass/login/ops", &login).expect(200);
    let client = server.client(answer.body["auth"]["client_token"].as_str());
    let mounts = client.read("sys/mounts").expect(200);
    assert_eq!(mounts.body["data"]["notes/"]["type"], "kv", "{mounts:?}");
    assert_eq!(unfinished_data(server.data()), [""; 0]);
}

/// Kills the server before one act on the disk in `stride`.
fn killed_server_completes_initialisation(seal: &ConfiguredSeal, stride: u32) {
    let acts = until_nothing_fires_of(AT_ONCE, |number| {
        let _files = on_files();
        let act = sampled_at(stride, number);
        let disk = Disk::killing_at(act);
        let mut life = SealedLife::of(binary(), Folder::new("unattended-data"), seal.copied());
        life.configure(BLOCKS);
        let environment = disk.under(life.server.data());
        let Err(status) = life.server.start_with(&environment) else { return false };
        assert_eq!(status.signal(), Some(SIGKILL), "{status}: {}", life.server.printed());
        println!("killed before act {act}");
        if number % 2 == 0 {
            assert_never_served_in_part(&mut life);
        }
        life.open_by_seal();
        assert_complete(&life.server);
        true
    });
    let (name, sampling) = (seal.name(), sampling_at(stride));
    report(&format!(
        "self-initialisation with {name}: killed before {acts} acts on the disk, {sampling}"
    ));
    assert!(sampled_at(stride, acts) > FEWEST, "only {acts} acts were tried");
}

#[test]
fn server_killed_during_self_initialisation_completes_it() {
    killed_server_completes_initialisation(&ConfiguredSeal::static_key(), LONG_STRIDE);
}

#[test]
fn killed_self_initialisation_with_transit_seal_is_completed() {
    killed_server_completes_initialisation(&ConfiguredSeal::transit(), LONGEST_STRIDE);
}

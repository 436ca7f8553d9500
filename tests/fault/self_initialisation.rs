//! The process is killed before each operation on the disk, while it initialises itself: a block is
//! complete or leaves nothing, and the next start continues.

use crate::stage::{AT_ONCE, LONG_STRIDE, report, sampled_at, sampling_at, until_nothing_fires_of};
use bulkhead_tests::Bulkhead;
use bulkhead_tests::disk::Disk;
use bulkhead_tests::operators::seal_status;
use bulkhead_tests::paths::{Folder, binary};
use bulkhead_tests::static_seal;
use serde_json::json;
use std::fs;
use std::os::unix::process::ExitStatusExt;

const SIGKILL: i32 = 9;

/// Fewest disk operations of a self-initialisation with two blocks.
const FEWEST: u32 = 40;

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

fn configure(server: &Bulkhead, folder: &Folder, blocks: &str) {
    let text = format!(
        "listener \"tcp\" {{ address = \"127.0.0.1:0\" }}\n\
         storage \"sqlite\" {{ path = {:?} }}\n\
         {}{blocks}",
        server.data(),
        static_seal::block(folder.path(), &["1"]),
    );
    fs::write(folder.path().join("bulkhead.hcl"), text).expect("a file can be written");
}

/// Asserts that a start without the blocks serves complete data only.
fn assert_never_served_in_part(server: &mut Bulkhead, folder: &Folder) {
    configure(server, folder, "");
    let before = server.printed().len();
    match server.start_with(&[]) {
        Ok(()) => {
            let status = seal_status(server);
            assert_eq!(status["initialized"], !status["sealed"].as_bool().expect("a flag"));
            if status["initialized"] == true {
                assert_complete(server);
            }
            server.kill();
        }
        Err(status) => {
            assert_eq!(status.code(), Some(1));
            server.wait_for_print("set up in part");
            assert!(server.printed()[before..].contains("set up in part"));
        }
    }
    configure(server, folder, BLOCKS);
}

fn assert_complete(server: &Bulkhead) {
    let login = json!({ "password": "Vh5-Jm8-Rw3" });
    let answer = server.client(None).write("auth/userpass/login/ops", &login).expect(200);
    let client = server.client(answer.body["auth"]["client_token"].as_str());
    let mounts = client.read("sys/mounts").expect(200);
    assert_eq!(mounts.body["data"]["notes/"]["type"], "kv", "{mounts:?}");
    let files = fs::read_dir(server.data()).expect("the data folder");
    let names = files.map(|file| file.expect("a file").file_name().to_string_lossy().into_owned());
    let copies: Vec<String> = names.filter(|name| name.contains("copy-")).collect();
    assert!(copies.is_empty(), "{copies:?}");
}

#[test]
fn server_killed_during_self_initialisation_completes_it() {
    let acts = until_nothing_fires_of(AT_ONCE, |number| {
        let act = sampled_at(LONG_STRIDE, number);
        let disk = Disk::killing_at(act);
        let folder = Folder::new("unattended");
        let mut server = Bulkhead::prepared(binary(), Folder::new("unattended-data"))
            .configured(folder.path().join("bulkhead.hcl"));
        configure(&server, &folder, BLOCKS);
        let environment = disk.under(server.data());
        let Err(status) = server.start_with(&environment) else { return false };
        assert_eq!(status.signal(), Some(SIGKILL), "{status}: {}", server.printed());
        if number % 2 == 0 {
            assert_never_served_in_part(&mut server, &folder);
        }
        server.start_again();
        assert_complete(&server);
        true
    });
    let sampling = sampling_at(LONG_STRIDE);
    report(&format!("self-initialisation: killed before {acts} acts on the disk, {sampling}"));
    assert!(sampled_at(LONG_STRIDE, acts) > FEWEST, "only {acts} acts were tried");
}

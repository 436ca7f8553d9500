//! Snapshots that a server takes by itself, in a directory of the operator: retention, a restart, a
//! directory that fails, and a start that is refused.

use bulkhead_tests::Bulkhead;
use bulkhead_tests::paths::{Folder, binary};
use bulkhead_tests::static_seal;
use bulkhead_tests::storage;
use bulkhead_tests::wait::until_true;
use serde_json::{Value, json};
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::time::Duration;

/// Longest wait for a condition on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// A server with a configuration file and a static seal, and the directory of its snapshots.
struct ScheduledServer {
    server: Bulkhead,
    /// Configuration, key and `saved`, the directory of the snapshots.
    folder: Folder,
}

impl ScheduledServer {
    /// Prepares a server with these blocks; `SAVED` stands for the directory.
    fn prepared(blocks: &str) -> Self {
        let folder = Folder::new("scheduled");
        let saved = folder.path().join("saved");
        fs::create_dir(&saved).expect("a folder can be created");
        set_mode(&saved, 0o700);
        let server = Bulkhead::prepared(binary(), Folder::new("scheduled-data"))
            .configured(folder.path().join("bulkhead.hcl"));
        let scheduled = Self { server, folder };
        scheduled.configure(blocks);
        scheduled
    }

    /// Starts and initialises a server with these blocks.
    fn open(blocks: &str) -> Self {
        let mut scheduled = Self::prepared(blocks);
        scheduled.server.start_again();
        let body = json!({ "recovery_shares": 1, "recovery_threshold": 1 });
        scheduled.server.client(None).write("sys/init", &body).expect(200);
        scheduled
    }

    fn configure(&self, blocks: &str) {
        let text = format!(
            "listener \"tcp\" {{ address = \"127.0.0.1:0\" }}\n\
             {storage}\n{seal}{blocks}\n",
            storage = storage::block(self.server.data()),
            seal = static_seal::block(self.folder.path(), &["1"]),
            blocks = blocks.replace("SAVED", &self.saved().display().to_string()),
        );
        fs::write(self.folder.path().join("bulkhead.hcl"), text).expect("a file can be written");
    }

    fn saved(&self) -> std::path::PathBuf {
        self.folder.path().join("saved")
    }

    /// Returns the names in the directory, in order.
    fn files(&self) -> Vec<String> {
        let entries = fs::read_dir(self.saved()).expect("a folder");
        let names = entries.map(|entry| entry.expect("a file").file_name());
        let mut names: Vec<String> =
            names.map(|name| name.into_string().expect("a plain name")).collect();
        names.sort();
        names
    }

    fn health(&self) -> Value {
        self.server.client(None).read("sys/health").expect(200).body
    }

    /// Asserts that `bulkhead operator snapshot inspect` finds the file complete.
    #[track_caller]
    fn assert_complete(&self, name: &str) {
        let file = self.saved().join(name).display().to_string();
        let words = ["operator", "snapshot", "inspect", &file];
        let output = self.server.command(&words).output().expect("the command can be started");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }
}

fn set_mode(path: &std::path::Path, mode: u32) {
    fs::set_permissions(path, Permissions::from_mode(mode)).expect("the mode can be set");
}

fn block(schedule: &str) -> String {
    format!(
        "snapshot \"often\" {{\n  schedule = {schedule:?}\n  path = \"SAVED\"\n  retain = 2\n}}"
    )
}

#[test]
fn scheduled_snapshots_survive_restart_within_retention() {
    let mut scheduled = ScheduledServer::open(&block("every 1s"));
    fs::write(scheduled.saved().join("often.snap"), "").expect("a file can be written");
    let deleted = |scheduled: &ScheduledServer| {
        until_true("snapshots are deleted", PATIENCE, || {
            let printed = scheduled.server.printed();
            printed.lines().filter(|line| line.contains("event=snapshot-saved")).count() >= 4
        });
    };
    deleted(&scheduled);
    assert!(scheduled.server.stop(), "{}", scheduled.server.printed());
    let mut names = scheduled.files();
    assert_eq!(names.pop().expect("a foreign file"), "often.snap");
    assert_eq!(names.len(), 2, "{names:?}");
    names.iter().for_each(|name| scheduled.assert_complete(name));
    // The files of a clock of long ago: a time was missed.
    for (name, year) in names.iter().zip([2020, 2021]) {
        let old = format!("often-{year}-01-01T00-00-00Z.snap");
        fs::rename(scheduled.saved().join(name), scheduled.saved().join(old)).expect("renamed");
    }
    scheduled.configure(&block("0 3 1 * *"));
    let before = scheduled.server.printed().len();
    scheduled.server.start_again();
    scheduled.server.wait_for_print_after(before, "event=snapshot-saved snapshot=often");
    let names = scheduled.files();
    assert_eq!(names.len(), 3, "{names:?}");
    assert_eq!(names[0], "often-2021-01-01T00-00-00Z.snap");
    scheduled.assert_complete(&names[1]);
}

#[test]
fn missing_directory_degrades_health_until_it_returns() {
    let scheduled = ScheduledServer::open(&block("every 1s"));
    scheduled.server.wait_for_print("event=snapshot-saved");
    let elsewhere = scheduled.folder.path().join("elsewhere");
    fs::rename(scheduled.saved(), &elsewhere).expect("a folder can be moved");
    until_true("the health is degraded", PATIENCE, || {
        scheduled.health()["degraded"][0]["code"] == "snapshot-failing"
    });
    scheduled.server.wait_for_print("level=error event=snapshot-failed snapshot=often");
    fs::rename(&elsewhere, scheduled.saved()).expect("a folder can be moved");
    until_true("the health is restored", PATIENCE, || scheduled.health()["degraded"].is_null());
    scheduled.server.wait_for_print("event=health-restored code=snapshot-failing");
}

#[test]
fn open_directory_is_refused_by_check_and_start() {
    let mut scheduled = ScheduledServer::prepared(&block("every 1s"));
    set_mode(&scheduled.saved(), 0o755);
    let file = scheduled.folder.path().join("bulkhead.hcl").display().to_string();
    let check = |scheduled: &ScheduledServer| {
        let words = ["server", "--check", "--config", &file];
        scheduled.server.command(&words).output().expect("the command can be started")
    };
    let output = check(&scheduled);
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1), "{error}");
    assert!(error.contains("snapshot \"often\"") && error.contains("mode 0755"), "{error}");
    let status = scheduled.server.start_with(&[]).expect_err("the start is refused");
    assert_eq!(status.code(), Some(1));
    scheduled.server.wait_for_print("mode 0755");
    set_mode(&scheduled.saved(), 0o750);
    let output = check(&scheduled);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert_eq!(output.status.code(), Some(0), "{text}");
    assert!(text.contains("saves snapshot often to "), "{text}");
}

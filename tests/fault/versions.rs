//! The server dies, or meets an error, in each write of a registration and of two swaps: afterwards
//! the component is usable or can be registered again, exactly one version serves each mount, and
//! the mount's data are whole.

use crate::injected::{FaultObserved, InjectedFault, answered, write};
use crate::points;
use bulkhead_tests::paths::{Folder, fault_binary, guest, with_text};
use bulkhead_tests::{Bulkhead, Client, storage};
use serde_json::json;

const HOSTILE: &str = "sys/plugins/catalog/secret/hostile";
const NOTES: &str = "sys/plugins/catalog/secret/notes";

struct SwapOutcome {
    path: &'static str,
    kind: &'static str,
    old: &'static str,
    new: &'static str,
}

/// A mount whose newer version migrates the data.
const MIGRATED: SwapOutcome =
    SwapOutcome { path: "migrated", kind: "hostile", old: "1.0.0", new: "2.0.0" };
/// A mount whose two versions read the same schema.
const EXCHANGED: SwapOutcome =
    SwapOutcome { path: "exchanged", kind: "notes", old: "0.1.0", new: "0.2.0" };

/// The version of the hostile guest that migrates the data of version 1.0.0.
fn newer_hostile() -> Vec<u8> {
    let text = "\"version\":\"2.0.0\",\"schema\":3";
    with_text(guest("hostile"), "\"version\":\"1.0.0\",\"schema\":2", text)
}

impl SwapOutcome {
    #[track_caller]
    fn enable(&self, root: &Client, path: &str, version: &str) {
        let fields = json!({ "type": self.kind, "config": { "plugin_version": version } });
        root.write(&format!("sys/mounts/{path}"), &fields).expect(204);
    }

    fn swap(&self, root: &Client) -> Result<(), FaultObserved> {
        let fields = json!({ "plugin_version": self.new });
        let tuned = write(root, &format!("sys/mounts/{}/tune", self.path), &fields)?;
        assert!(tuned.status < 300, "{tuned:?}");
        Ok(())
    }

    /// Returns true if the newer version serves, false if the older version does.
    #[track_caller]
    fn is_swapped(&self, root: &Client) -> bool {
        let mount = root.read(&format!("sys/mounts/{}", self.path)).expect(200);
        let running = mount.text("running_plugin_version");
        assert!([self.old, self.new].contains(&running), "{mount:?}");
        assert_eq!(mount.text("plugin_version"), running, "asked and running version");
        running == self.new
    }
}

/// A stopped server; lives start with a copy of its data, so that components are compiled once.
struct StoppedServer {
    server: Bulkhead,
    newer: Vec<u8>,
}

impl StoppedServer {
    fn prepared() -> Self {
        let mut server = Bulkhead::prepared(fault_binary(), Folder::new("versions"));
        server.start_again();
        let root = server.root();
        root.upload(HOSTILE, &guest("hostile")).expect(204);
        root.upload(NOTES, &guest("notes")).expect(204);
        root.upload(NOTES, &with_text(guest("notes"), "notes0.1.0", "notes0.2.0")).expect(204);
        for mount in [MIGRATED, EXCHANGED] {
            mount.enable(&root, mount.path, mount.old);
        }
        root.write("exchanged/notes/milk", &json!({ "text": "two bottles" })).expect(204);
        assert!(server.stop(), "{}", server.printed());
        Self { server, newer: newer_hostile() }
    }

    /// Returns a server with a copy of the data, not started yet.
    fn copied(&self) -> Bulkhead {
        Bulkhead::prepared(fault_binary(), storage::copied(self.server.data()))
    }

    /// Registers a version and swaps two mounts. Counts the answered steps.
    fn live(&self, root: &Client, steps: &mut u32) -> Result<(), FaultObserved> {
        let registered = answered(root.attempt_upload(HOSTILE, &self.newer))?;
        assert_eq!(registered.status, 204, "{registered:?}");
        *steps += 1;
        for mount in [MIGRATED, EXCHANGED] {
            mount.swap(root)?;
            *steps += 1;
        }
        Ok(())
    }

    /// Checks a restarted server after `steps` answered steps, and finishes the life.
    fn check(&self, root: &Client, steps: u32) {
        let seen = [is_registered(root), MIGRATED.is_swapped(root), EXCHANGED.is_swapped(root)];
        for (step, is_seen) in (0..).zip(seen) {
            assert!(is_seen || step >= steps, "step {step} was answered: {seen:?}");
            assert!(!is_seen || step <= steps, "step {step} did not begin: {seen:?}");
        }
        check_data(root);
        if !is_registered(root) {
            let fields = json!({ "type": "hostile", "config": { "plugin_version": MIGRATED.new } });
            root.write("sys/mounts/fresh", &fields).expect(400);
            root.upload(HOSTILE, &self.newer).expect(204);
        }
        MIGRATED.enable(root, "fresh", MIGRATED.new);
        root.read("fresh/acts").expect(200);
        for mount in [MIGRATED, EXCHANGED] {
            assert!(mount.swap(root).is_ok(), "{} can be swapped after the fault", mount.path);
            assert!(mount.is_swapped(root));
        }
        check_data(root);
    }
}

/// Returns true if the catalog has the newer version of the hostile guest, and it is usable.
#[track_caller]
fn is_registered(root: &Client) -> bool {
    let found = root.read(&format!("{HOSTILE}?version={}", MIGRATED.new));
    if found.status == 404 {
        return false;
    }
    assert_eq!(found.clone().expect(200).text("deprecation_status"), "supported", "{found:?}");
    true
}

/// Asserts that each mount's data are whole and fit the serving version.
#[track_caller]
fn check_data(root: &Client) {
    let acts = root.read("migrated/acts").expect(200);
    assert_eq!(acts.body["data"]["migrated"], json!(MIGRATED.is_swapped(root)));
    assert_eq!(root.read("exchanged/notes/milk").expect(200).text("text"), "two bottles");
}

#[test]
fn swap_crash_leaves_one_version_and_whole_data() {
    every_point("abort");
}

#[test]
fn swap_error_leaves_one_version_and_whole_data() {
    every_point("fail");
}

fn every_point(fault: &str) {
    let template = StoppedServer::prepared();
    let first = points::passed_by_start(fault, template.copied());
    points::every_behind("versions", fault, first, |number| live(&template, fault, number));
}

/// Runs a life with a fault. Returns false if the life ended before the fault fired.
fn live(template: &StoppedServer, fault: &str, number: u32) -> bool {
    let fault = InjectedFault::at(fault, number);
    let mut server = template.copied();
    if !fault.start(&mut server) {
        return true;
    }
    let mut steps = 0;
    let lived = template.live(&server.root(), &mut steps);
    let came = fault.end(&mut server, &lived);
    server.start_again();
    template.check(&server.root(), steps);
    came
}

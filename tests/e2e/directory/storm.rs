//! Concurrent rotations, loans and logins at a directory that locks an account after five wrong
//! logins: no account is locked, and no request fails because of another request.

use super::{DirectoryStage, FIRST};
use crate::storm;
use bulkhead_tests::{Answer, Client, DirectoryKind, DirectoryServer};
use serde_json::json;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Instant;

/// Accounts of roles, and accounts of the set.
const ROLES: [&str; 4] = ["role1", "role2", "role3", "role4"];
const LENT: [&str; 4] = ["lent1", "lent2", "lent3", "lent4"];

/// The duration of the storm and the number of requests.
struct CheckOutStorm {
    until: Instant,
    asked: AtomicU32,
}

impl CheckOutStorm {
    fn begin() -> Self {
        Self { until: Instant::now() + storm::length(), asked: AtomicU32::new(0) }
    }

    /// Repeats a request until the time is over. Returns the failures.
    fn ask(&self, ask: impl Fn() -> Answer) -> Vec<String> {
        let mut failed = Vec::new();
        while Instant::now() < self.until {
            let answer = ask();
            self.asked.fetch_add(1, Ordering::Relaxed);
            if !(200..300).contains(&answer.status) {
                failed.push(format!("{} {}: {}", answer.asked, answer.status, answer.errors()));
            }
        }
        failed
    }
}

fn lend_and_return(client: &Client) -> Answer {
    let lent = client.write("directory/library/team/check-out", &json!({}));
    if lent.status != 200 {
        return lent;
    }
    let name = json!({ "service_account_names": [lent.text("service_account_name")] });
    client.write("directory/library/team/check-in", &name)
}

/// An engine at this directory, with roles and a set.
fn stage(server: &'static DirectoryServer) -> DirectoryStage {
    let stage = DirectoryStage::of(server.branch());
    stage.configure(json!({})).expect(204);
    let accounts: Vec<_> =
        ROLES.iter().chain(&LENT).map(|name| ((*name).to_owned(), FIRST)).collect();
    stage.branch.add_all(&accounts);
    for role in ROLES {
        stage.role(role, role);
    }
    stage.set("team", &LENT, json!({ "ttl": "1h" }));
    stage
}

/// Runs a storm. Returns the number of rotations of the engine's password.
fn rage(stage: &DirectoryStage) -> u32 {
    let (storm, rotations) = (CheckOutStorm::begin(), AtomicU32::new(0));
    let failed: Vec<String> = std::thread::scope(|scope| {
        let (root, storm, rotations) = (&stage.root, &storm, &rotations);
        let rotate_root = move || {
            storm.ask(|| {
                rotations.fetch_add(1, Ordering::Relaxed);
                root.write("directory/rotate-root", &json!({}))
            })
        };
        let mut callers = vec![scope.spawn(rotate_root)];
        for role in ROLES {
            callers.push(scope.spawn(move || {
                storm.ask(|| root.write(&format!("directory/rotate-role/{role}"), &json!({})))
            }));
            for _ in 0..2 {
                callers
                    .push(scope.spawn(move || {
                        storm.ask(|| root.read(&format!("directory/creds/{role}")))
                    }));
            }
        }
        for _ in LENT {
            callers.push(scope.spawn(move || storm.ask(|| lend_and_return(root))));
        }
        callers.into_iter().flat_map(|caller| caller.join().expect("no caller panics")).collect()
    });
    let (requests, rotations) = (storm.asked.into_inner(), rotations.into_inner());
    println!("{requests} requests, {rotations} rotate-root");
    let (count, kinds) = (failed.len(), storm::kinds(&failed));
    let first = failed.first();
    assert!(failed.is_empty(), "{count} of {requests} failed, first {first:?}: {kinds:#?}");
    rotations
}

/// Asserts that no account is locked, and that the shown passwords log in.
fn assert_sound(stage: &DirectoryStage, locked: &str) {
    for name in ROLES.iter().chain(&LENT).chain(&["engine"]) {
        let locked = stage.branch.server.attribute(&stage.branch.dn_of(name), locked);
        assert!(locked.is_none_or(|locked| locked == "0"), "{name} is locked");
    }
    stage.root.write("directory/rotate-root", &json!({})).expect(204);
    for role in ROLES {
        let password = stage.creds(role).text("current_password").to_owned();
        assert!(stage.takes(role, &password));
    }
}

#[test]
fn openldap_storm_causes_no_lock_or_failure() {
    let stage = stage(DirectoryServer::own(DirectoryKind::OpenLdap));
    let rotations = rage(&stage);
    let refused = stage.branch.server.refused_logins(&stage.branch.dn_of("engine"));
    let most = usize::try_from(rotations).expect("a count") * 2;
    assert!(refused <= most, "{refused} refused logins of {rotations} rotations");
    assert_sound(&stage, "pwdAccountLockedTime");
}

#[test]
fn active_directory_storm_causes_no_lock_or_failure() {
    let stage = stage(DirectoryServer::shared(DirectoryKind::Samba));
    rage(&stage);
    assert_sound(&stage, "lockoutTime");
}

#[test]
fn wrong_bindpass_requests_send_three_logins_without_lockout() {
    let stage = stage(DirectoryServer::own(DirectoryKind::OpenLdap));
    let before = stage.branch.config()["bindpass"].as_str().expect("a text").to_owned();
    let dn = stage.branch.dn_of("engine");
    stage.configure(json!({ "bindpass": "Jm6-Yt2-Hd8-Vc5" })).expect(204);
    let errors: Vec<String> = std::thread::scope(|scope| {
        let ask = |role: &'static str| {
            let root = &stage.root;
            move || {
                let ask = || root.write(&format!("directory/rotate-role/{role}"), &json!({}));
                (0..25)
                    .map(|_| ask().refused(400, "refused the login").errors())
                    .collect::<Vec<_>>()
            }
        };
        let callers: Vec<_> = ROLES.map(|role| scope.spawn(ask(role))).into();
        callers.into_iter().flat_map(|caller| caller.join().expect("no caller panics")).collect()
    });
    assert_eq!(errors.len(), 100);
    assert!(stage.branch.server.refused_logins(&dn) <= 3);
    let last = errors.last().expect("a hundred of them");
    assert!(last.contains("not sent again") && last.contains("write the config"), "{last}");
    assert_eq!(stage.branch.server.attribute(&dn, "pwdAccountLockedTime"), None);
    assert!(stage.takes("engine", &before));
    // The right password is tried at once.
    stage.configure(json!({ "bindpass": before })).expect(204);
    stage.root.write("directory/rotate-role/role1", &json!({})).expect(204);
}

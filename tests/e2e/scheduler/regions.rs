//! Two processes as two regions: the follower reaches the authoritative region through a proxy that
//! a test cuts.

mod disconnects;
mod link;
mod many;

use super::{RULES, assert_refused, id, role};
use bulkhead_tests::scheduler::{PlainAnswer, Scheduler};
use bulkhead_tests::wait::until_true;
use link::RegionLink;
use serde_json::{Value, json};
use std::time::Duration;

/// Longest wait for a round of replication.
const SOON: Duration = Duration::from_secs(20);

/// The authoritative region `global` and the follower `west`.
struct Regions {
    global: Scheduler,
    west: Scheduler,
    link: RegionLink,
}

impl Regions {
    /// Starts both. `west` follows with the management token of `global`.
    fn start() -> Self {
        let regions = Self::apart();
        regions.follow(&regions.global.management);
        regions.until_followed();
        regions
    }

    /// Starts both without replication.
    fn apart() -> Self {
        let (global, west) = (super::bed(), super::bed());
        let link = RegionLink::to(global.address());
        Self { global, west, link }
    }

    /// Configures `west` to follow with this token.
    fn follow(&self, token: &str) {
        let config = json!({
            "region": "west", "authoritative_region": "global", "replication_token": token,
            "addresses": [self.link.url()], "replication_backoff": "200ms",
        });
        self.west.server.root().write("acl/config", &config).expect(204);
    }

    /// Waits until the management token of `global` works in `west`.
    fn until_followed(&self) {
        until_true("global tokens hold in west", SOON, || {
            self.read("/v1/acl/roles").status == 200
                && self.west.ask("GET", "/v1/acl/tokens", self.token(), &Value::Null).status == 200
        });
    }

    fn token(&self) -> &str {
        &self.global.management
    }

    /// Reads in `west` with the management token of `global`.
    fn read(&self, path: &str) -> PlainAnswer {
        self.west.ask("GET", path, self.token(), &Value::Null)
    }

    /// Writes through `west` with the management token of `global`.
    fn write(&self, method: &str, path: &str, body: &Value) -> PlainAnswer {
        self.west.ask(method, path, self.token(), body)
    }

    fn until_name(&self, name: &str, expected: Option<&str>) {
        let path = format!("/v1/acl/role/name/{name}");
        until_true(name, SOON, || {
            let answer = self.read(&path);
            match expected {
                Some(id) => answer.status == 200 && answer.json()["ID"] == id,
                None => answer.status == 404,
            }
        });
    }
}

fn renamed(role: &Value, name: &str) -> Value {
    let mut renamed = role.clone();
    renamed["Name"] = json!(name);
    renamed
}

#[test]
fn role_appears_and_follows_in_other_region() {
    let regions = Regions::start();
    let created_role = role(&regions.global, "made");
    regions.until_name("made", Some(id(&created_role)));
    let path = format!("/v1/acl/role/{}", id(&created_role));
    regions.global.manage("PUT", &path, &renamed(&created_role, "renamed"));
    regions.until_name("renamed", Some(id(&created_role)));
    regions.until_name("made", None);
    regions.global.manage("DELETE", &path, &Value::Null);
    regions.until_name("renamed", None);
    let age = regions.read("/v1/acl/roles");
    assert!(age.header("x-nomad-replicationage").is_some());
    assert_eq!(age.header("x-nomad-lastcontact"), Some("0"));
}

#[test]
fn write_through_other_region_is_readable_at_once() {
    let regions = Regions::start();
    for round in 0..20 {
        let name = format!("r-{round}");
        let body = json!({ "Name": name, "Policies": [{ "Name": "readonly" }] });
        let answer = regions.write("PUT", "/v1/acl/role", &body);
        assert_eq!(answer.status, 200, "{}", answer.text());
        let path = format!("/v1/acl/role/{}", id(&answer.json()));
        assert_eq!(regions.read(&path).json()["Name"], name);
        let there = regions.read(&format!("{path}?region=global"));
        assert_eq!(there.json(), answer.json());
        assert_eq!(there.index(), answer.index());
        if round % 2 == 1 {
            assert_eq!(regions.write("DELETE", &path, &Value::Null).status, 200);
            assert_eq!(regions.read(&path).status, 404);
        }
    }
    assert_refused(&regions.read("/v1/acl/roles?region=nope"), 500, "No path to region");
    let listed = |scheduler: &Scheduler| {
        let answer = scheduler.ask("GET", "/v1/acl/roles", regions.token(), &Value::Null);
        answer.json().as_array().expect("a list").len()
    };
    until_true("both regions have ten roles", SOON, || {
        listed(&regions.global) == 10 && listed(&regions.west) == 10
    });
}

#[test]
fn cut_link_fails_only_writes_and_names_converge() {
    let regions = Regions::start();
    let (a, b) = (role(&regions.global, "a"), role(&regions.global, "b"));
    regions.until_name("b", Some(id(&b)));
    regions.link.cut();
    let body = json!({ "Name": "c", "Policies": [] });
    let refused = regions.write("PUT", "/v1/acl/role", &body);
    assert_eq!(refused.status, 500, "{}", refused.text());
    assert!(refused.text().starts_with("rpc error: failed to get conn"), "{}", refused.text());
    for query in ["", "?stale"] {
        assert_eq!(regions.read(&format!("/v1/acl/roles{query}")).status, 200);
    }
    let change = |role: &Value, name: &str| {
        let path = format!("/v1/acl/role/{}", id(role));
        regions.global.manage("PUT", &path, &renamed(role, name));
    };
    change(&a, "tmp");
    change(&b, "a");
    change(&a, "b");
    regions.link.restore();
    regions.until_name("a", Some(id(&b)));
    regions.until_name("b", Some(id(&a)));
    regions.until_name("tmp", None);
}

#[test]
fn unresponsive_link_fails_only_writes_in_time() {
    let regions = Regions::start();
    regions.link.pause();
    let body = json!({ "Name": "c", "Policies": [] });
    let refused = regions.write("PUT", "/v1/acl/role", &body);
    assert_eq!(refused.status, 500, "{}", refused.text());
    assert_eq!(regions.read("/v1/acl/roles").status, 200);
    regions.link.restore();
    let created_role = role(&regions.global, "made");
    regions.until_name("made", Some(id(&created_role)));
}

#[test]
fn revoked_replication_token_deletes_nothing_until_replaced() {
    let regions = Regions::start();
    let body = json!({ "Name": "r", "Type": "management" });
    let token = regions.global.manage("PUT", "/v1/acl/token", &body).json();
    let kept_role = role(&regions.global, "kept");
    regions.follow(super::secret(&token));
    regions.until_name("kept", Some(id(&kept_role)));
    let accessor = token["AccessorID"].as_str().expect("an accessor");
    regions.global.manage("DELETE", &format!("/v1/acl/token/{accessor}"), &Value::Null);
    let printed = || regions.west.server.printed();
    until_true("the refusal is logged", SOON, || {
        printed().contains("does not take the replication token")
    });
    let path = format!("/v1/acl/role/{}", id(&kept_role));
    regions.global.manage("DELETE", &path, &Value::Null);
    assert_eq!(regions.read(&path).status, 200);
    regions.follow(&regions.global.management);
    regions.until_name("kept", None);
}

#[test]
fn a_weak_token_deletes_nothing() {
    let regions = Regions::apart();
    let kept_role = role(&regions.west, "kept");
    let client = super::token(&regions.global, &[]);
    regions.follow(super::secret(&client));
    let printed = || regions.west.server.printed();
    until_true("the refusal is logged", SOON, || printed().contains("replication-failed"));
    let path = format!("/v1/acl/role/{}", id(&kept_role));
    assert_eq!(regions.west.manage("GET", &path, &Value::Null).json(), kept_role);
    regions.west.server.assert_silent(super::secret(&client));
    regions.follow(&regions.global.management);
    regions.until_followed();
    regions.until_name("kept", None);
}

#[test]
fn blocked_list_wakes_when_replicated_write_lands() {
    let regions = Regions::start();
    let before = regions.read("/v1/acl/roles").index();
    let path = format!("/v1/acl/roles?index={before}&wait=25s");
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| regions.read(&path));
        let created_role = role(&regions.global, "made");
        let answer = waiting.join().expect("an answer");
        assert!(answer.index() > before);
        assert_eq!(answer.json()[0]["ID"], created_role["ID"]);
    });
}

#[test]
fn a_local_token_reads_and_writes_no_role() {
    let regions = Regions::start();
    let body = json!({ "Name": "l", "Type": "management" });
    let local = regions.write("PUT", "/v1/acl/token", &body).json();
    let local = super::secret(&local);
    assert_eq!(regions.west.ask("GET", "/v1/acl/roles", local, &Value::Null).status, 200);
    let role = json!({ "Name": "x", "Policies": [] });
    assert_refused(
        &regions.west.ask("PUT", "/v1/acl/role", local, &role),
        403,
        "Permission denied",
    );
    let policy = json!({ "Name": "q", "Rules": RULES });
    assert_eq!(regions.write("PUT", "/v1/acl/policy/q", &policy).status, 200);
    assert_eq!(regions.read("/v1/acl/policy/q").status, 200);
}

#[test]
fn regions_that_follow_each_other_replicate_nothing() {
    let regions = Regions::apart();
    let kept_role = role(&regions.global, "kept");
    let body = json!({ "Name": "l", "Type": "management" });
    let local = regions.west.manage("PUT", "/v1/acl/token", &body).json();
    regions.follow(&regions.global.management);
    let back = json!({
        "region": "global", "authoritative_region": "west", "replication_backoff": "200ms",
        "replication_token": super::secret(&local),
        "addresses": [format!("http://{}", regions.west.address())],
    });
    regions.global.server.root().write("acl/config", &back).expect(204);
    let printed = || regions.global.server.printed();
    until_true("the mistake is logged", SOON, || printed().contains("as a replica of another"));
    let body = json!({ "Name": "x", "Policies": [] });
    let answer = regions.global.ask("PUT", "/v1/acl/role", regions.token(), &body);
    assert_refused(&answer, 500, "No path to region");
    let path = format!("/v1/acl/role/{}", id(&kept_role));
    assert_eq!(regions.global.manage("GET", &path, &Value::Null).json(), kept_role);
}

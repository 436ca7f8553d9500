//! The audit file of a running server: recorded requests, unrecorded content, and reopening after a
//! move.

use crate::world::World;
use bulkhead_tests::bulkhead::ROOT;
use bulkhead_tests::leaks::{self, CANARY};
use bulkhead_tests::scheduler::PlainRequest;
use bulkhead_tests::{Postgres, wait};
use serde_json::{Value, json};
use std::fs;
use std::path::PathBuf;
use std::time::Duration;

impl World {
    fn audit_file(&self) -> PathBuf {
        self.bulkhead.data().join("audit.log")
    }

    fn audited(&self) -> String {
        fs::read_to_string(self.audit_file())
            .expect("a server in dev mode audits to its data folder")
    }

    /// Returns the audit lines about `path`.
    fn lines_of(&self, path: &str) -> Vec<Value> {
        let lines = self.audited();
        let lines =
            lines.lines().map(|line| serde_json::from_str::<Value>(line).expect("a line is JSON"));
        lines.filter(|line| line["request"]["path"] == path).collect()
    }

    #[track_caller]
    fn hash(&self, value: &str) -> String {
        let answer = self.root.write("sys/audit-hash/file", &json!({ "input": value })).expect(200);
        answer.text("hash").to_owned()
    }
}

#[test]
fn audit_file_holds_only_hashes_of_secrets() {
    let world = World::of(Postgres::start_with(CANARY, &[]));
    world.connect("demo");
    world.role("reader", json!({ "default_ttl": "1h" }));
    let team = world.client_with("team", r#"path "database/creds/*" { capabilities = ["read"] }"#);
    let credential = world.credential_for(&team, "reader");
    world.root.write("sys/leases/renew", &json!({ "lease_id": credential.lease })).expect(200);
    world
        .root
        .write("database/config/bad", &json!({ "password": CANARY, "connection_url": 7 }))
        .expect(400);
    team.write("database/config/demo", &json!({ "password": CANARY })).expect(403);
    world
        .bulkhead
        .client(None)
        .write("database/config/demo", &json!({ "password": CANARY }))
        .expect(403);
    world.bulkhead.client(Some(CANARY)).read("database/config/demo").expect(403);
    world.root.write("no/such/path", &json!({ "password": CANARY })).expect(404);
    let child = world
        .root
        .write("auth/token/create", &json!({ "policies": ["team"], "ttl": "1h" }))
        .expect(200);
    let child = child.body["auth"]["client_token"].as_str().expect("a token").to_owned();
    world.root.write("auth/token/lookup", &json!({ "token": child })).expect(200);
    world.root.write("auth/token/revoke", &json!({ "token": child })).expect(204);
    world.root.read(&format!("auth/token/lookup/{child}")).expect(404);
    world.revoke(&credential.lease);

    let audited = world.audited();
    leaks::assert_silent("the audit file", &audited, CANARY);
    for secret in [
        &credential.password,
        &credential.username,
        &child,
        &world.postgres.url(),
        &ROOT.to_owned(),
    ] {
        assert!(!audited.contains(secret.as_str()), "{secret} is in {audited}");
    }
    let given = world.lines_of("database/creds/reader");
    let [request_line, response_line] = &given[..] else { panic!("{given:?}") };
    assert_eq!(response_line["response"]["data"]["password"], world.hash(&credential.password));
    assert_eq!(response_line["response"]["data"]["username"], world.hash(&credential.username));
    assert_eq!(response_line["response"]["secret"]["lease_id"], credential.lease);
    assert_eq!(request_line["auth"]["display_name"], "token");
    assert_eq!(
        world.lines_of("database/config/demo")[0]["request"]["data"]["password"],
        world.hash(CANARY)
    );
    assert!(world.audited().contains(&world.hash(&child)));
}

#[test]
fn unreadable_bodies_are_audited_and_lines_stay_short() {
    let world = World::empty();
    let path = "sys/policies/acl/broken";
    for (method, body, status) in [
        ("POST", "{not json", 400),
        ("POST", "[1]", 400),
        ("POST", "\"text\"", 400),
        ("POST", &" ".repeat(40 << 20), 413),
    ] {
        let before = world.lines_of(path).len();
        world.root.send(method, path, body.as_bytes()).expect(status);
        let lines = world.lines_of(path);
        let [request_line, response_line] = &lines[before..] else {
            panic!("{method} {status}: {lines:?}")
        };
        let errors = (&request_line["error"], &response_line["error"]);
        assert!(errors.0.is_string() && errors.0 == errors.1, "{request_line}");
        assert_eq!(request_line["request"]["client_token"], world.hash(ROOT), "{request_line}");
        let accessor = request_line["auth"]["accessor"]
            .as_str()
            .expect("the answer has the failure of the audit");
        assert!(accessor.starts_with("hmac-sha256:"), "{request_line}");
    }
    // Regression: 597 KB of empty strings wrote 31 MB.
    let texts = json!({ "x": vec![""; 199_000] });
    world.root.write("auth/token/renew-self", &texts);
    let request = &world.lines_of("auth/token/renew-self")[0]["request"];
    assert_eq!(request["unknown_fields"][0], world.hash("x"));
    let longest = world.audited().lines().map(str::len).max();
    assert!(longest.is_some_and(|bytes| bytes <= 64 << 10), "{longest:?}");
}

#[test]
fn names_that_a_caller_chose_are_hashed() {
    let world = World::empty();
    let root = &world.root;
    root.write("sys/mounts/one", &json!({ "type": "kv" })).expect(204);
    root.write("sys/mounts/two", &json!({ "type": "kv", "options": { "version": "2" } }))
        .expect(204);
    let wrapping = root.wrapping("60");
    let wrapped =
        wrapping.write("sys/wrapping/wrap", &json!({ CANARY: { CANARY: 7 } })).expect(200);
    let token = wrapped.body["wrap_info"]["token"].as_str().expect("a wrapping token");
    root.write("sys/wrapping/unwrap", &json!({ "token": token })).expect(200);
    root.write("cubbyhole/a", &json!({ CANARY: [{ CANARY: 1 }] })).expect(204);
    root.read("cubbyhole/a").expect(200);
    root.write("one/a", &json!({ CANARY: { CANARY: 1 } })).expect(204);
    root.read("one/a").expect(200);
    root.write("two/data/a", &json!({ "data": { CANARY: { CANARY: 1 } } })).expect(200);
    root.read("two/data/a").expect(200);
    // A text, a list and a map of texts, each with an object in place of a text.
    let wrong = json!({ "display_name": { CANARY: 1 } });
    root.write("auth/token/create", &wrong).expect(400);
    root.write("auth/token/create", &json!({ "policies": [{ CANARY: true }] })).expect(400);
    root.write("auth/token/create", &json!({ "meta": { "owner": { CANARY: 1 } } })).expect(400);
    // A field that no endpoint reads, in the body, the query and a form.
    root.write("auth/token/lookup-self", &json!({ CANARY: 1 }));
    root.write("auth/token/renew-self", &json!({ CANARY: 1 })).expect(400);
    let escaped: String = CANARY.bytes().map(|byte| format!("%{byte:02X}")).collect();
    root.read(&format!("auth/token/lookup-self?{escaped}=1")).expect(200);
    let mut form = PlainRequest::new("POST", "/v1/auth/token/renew-self")
        .with_header("X-Vault-Token", ROOT)
        .with_header("Content-Type", "application/x-www-form-urlencoded");
    form.body = escaped.clone().into_bytes();
    assert_eq!(form.send(world.bulkhead.address()).status, 400, "a root token never ends");
    root.write("no/such/path", &json!({ CANARY: 1 })).expect(404);
    root.write("sys/mounts", &json!({ CANARY: 1 })).expect(405);

    leaks::assert_silent("the audit file", &world.audited(), CANARY);
    let hash = world.hash(CANARY);
    let wrap = &world.lines_of("sys/wrapping/wrap")[1];
    let nested = json!({ hash.as_str(): { hash.as_str(): world.hash("7") } });
    assert_eq!((&wrap["request"]["data"], &wrap["response"]["data"]), (&nested, &nested));
    assert_eq!(world.lines_of("sys/wrapping/unwrap")[1]["response"]["data"], nested);
    for line in &world.lines_of("auth/token/renew-self") {
        assert_eq!(line["request"]["unknown_fields"], json!([hash]), "{line}");
    }
    // Names that a field asks for are shown, as in published servers.
    root.write("auth/token/create", &json!({ "meta": { "owner": "amy" } })).expect(200);
    let lines = world.lines_of("auth/token/create");
    let meta = &lines[lines.len() - 2]["request"]["data"]["meta"];
    assert_eq!(*meta, json!({ "owner": world.hash("amy") }));
}

#[test]
fn open_status_endpoints_are_not_audited() {
    let world = World::empty();
    for path in ["sys/health", "sys/seal-status", "sys/leader", "sys/init"] {
        world.root.read(path).expect(200);
    }
    assert_eq!(world.audited(), "");
}

#[test]
fn api_audit_device_writes_standard_output_across_restart() {
    let mut world = World::new();
    let device = json!({ "type": "file", "options": { "file_path": "stdout" } });
    world.root.write("sys/audit/out", &device).expect(204);
    let shown = world.root.read("sys/audit").expect(200);
    assert_eq!(shown.body["data"]["out/"]["options"]["file_path"], "stdout");
    world.root.read("auth/token/lookup-self").expect(200);
    let lines = |world: &World| {
        let printed = world.bulkhead.printed();
        let about = |line: &&str| line.contains("\"path\":\"auth/token/lookup-self\"");
        printed.lines().filter(about).inspect(|line| assert!(!line.contains(ROOT))).count()
    };
    wait::until_true("the lines are printed", Duration::from_secs(10), || lines(&world) == 2);
    world.bulkhead.kill();
    world.bulkhead.start_again();
    world.bulkhead.root().read("auth/token/lookup-self").expect(200);
    wait::until_true("the lines are printed", Duration::from_secs(10), || lines(&world) == 4);
}

#[test]
fn sighup_reopens_a_moved_audit_file() {
    let world = World::empty();
    world.root.read("sys/mounts").expect(200);
    let old = world.bulkhead.data().join("audit.log.1");
    fs::rename(world.audit_file(), &old).expect("the file can be moved");
    world.root.read("sys/mounts").expect(200);
    world.bulkhead.signal("HUP");
    wait::until_true("the file is there again", Duration::from_secs(10), || {
        world.audit_file().exists()
    });
    let before = fs::read_to_string(&old).expect("the old file").lines().count();
    wait::until_true("lines go to the new file", Duration::from_secs(10), || {
        world.root.read("sys/mounts").expect(200);
        world.lines_of("sys/mounts").len() >= 2
    });
    assert!(before >= 4, "{before} lines stayed in the old file");
}

#[test]
fn configured_headers_are_audited_and_bearer_tokens_never() {
    let world = World::empty();
    let base = "sys/config/auditing/request-headers";
    world.root.write(&format!("{base}/X-Trace"), &json!({})).expect(204);
    world.root.write(&format!("{base}/x-customer"), &json!({ "hmac": true })).expect(204);
    let ask = |path: &str| {
        let request = PlainRequest::new("GET", &format!("/v1/{path}"))
            .with_header("X-Vault-Token", ROOT)
            .with_header("X-Trace", "trace-4711")
            .with_header("X-Customer", "customer-0815")
            .with_header("X-Other", "other-42");
        assert_eq!(request.send(world.bulkhead.address()).status, 200);
    };
    ask("sys/mounts");
    let audited = world.audited();
    assert!(audited.contains(r#""x-trace":["trace-4711"]"#), "{audited}");
    assert!(audited.contains(r#""x-customer":["hmac-sha256:"#), "{audited}");
    assert!(!audited.contains("customer-0815") && !audited.contains("other-42"), "{audited}");

    world.root.delete(&format!("{base}/x-trace")).expect(204);
    world.root.read(&format!("{base}/x-trace")).expect(400);
    for bearer in ["X-Vault-Token", "authorization", "Cookie"] {
        let refused = world.root.write(&format!("{base}/{bearer}"), &json!({ "hmac": true }));
        assert!(refused.expect(400).errors().contains("bears a token"), "{bearer}");
    }
    world.root.write(&format!("{base}/x%20y"), &json!({})).expect(400);
    for name in ["a", "b", "c"] {
        world.root.write(&format!("{base}/{name}"), &json!({})).expect(204);
    }
    let refused = world.root.write(&format!("{base}/d"), &json!({})).expect(400);
    assert!(refused.errors().contains("which is the most"), "{refused:?}");
}

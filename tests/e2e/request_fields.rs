//! Fields, query parameters and headers of a request are read or refused, for every verb.
//!
//! This file prevents a request that succeeds without doing what its caller asked for, such as a
//! secret id that still logs in after its removal, or an answer in the clear where wrapping was
//! asked for.

use crate::world::World;
use bulkhead_tests::bulkhead::ROOT;
use bulkhead_tests::scheduler::{PlainAnswer, PlainRequest, Scheduler};
use bulkhead_tests::{Answer, Bulkhead, Client};
use serde_json::{Value, json};

/// A dev server with the role `web` of AppRole.
struct DestroyStage {
    server: Bulkhead,
    root: Client,
}

const DESTROY: &str = "auth/approle/role/web/secret-id/destroy";

impl DestroyStage {
    fn new() -> Self {
        let server = Bulkhead::start();
        let root = server.root();
        root.write("auth/approle/role/web", &json!({})).expect(204);
        Self { server, root }
    }

    fn secret_id(&self) -> Answer {
        self.root.write("auth/approle/role/web/secret-id", &json!({})).expect(200)
    }

    fn login(&self, secret_id: &str) -> Answer {
        let role_id = self.root.read("auth/approle/role/web/role-id").expect(200);
        let fields = json!({ "role_id": role_id.text("role_id"), "secret_id": secret_id });
        self.server.client(None).write("auth/approle/login", &fields)
    }

    fn delete(&self, path: &str, body: &Value) -> Answer {
        self.root.send("DELETE", path, body.to_string().as_bytes())
    }
}

fn send_with_headers(
    server: &Bulkhead,
    method: &str,
    path: &str,
    headers: &[(&str, &str)],
) -> PlainAnswer {
    let request = PlainRequest::new(method, path).with_header("X-Vault-Token", ROOT);
    let with =
        |request: PlainRequest, (name, value): &(&str, &str)| request.with_header(name, value);
    headers.iter().fold(request, with).send(server.address())
}

#[test]
fn a_delete_reads_its_body_and_query() {
    let stage = DestroyStage::new();
    let (first, second, third) = (stage.secret_id(), stage.secret_id(), stage.secret_id());
    stage.delete(DESTROY, &json!({ "secret_id": first.text("secret_id") })).expect(204);
    stage.login(first.text("secret_id")).expect(400);
    stage.root.delete(&format!("{DESTROY}?secret_id={}", second.text("secret_id"))).expect(204);
    stage.login(second.text("secret_id")).expect(400);
    let by_accessor = "auth/approle/role/web/secret-id-accessor/destroy";
    let accessor = json!({ "secret_id_accessor": third.text("secret_id_accessor") });
    stage.delete(by_accessor, &accessor).expect(204);
    stage.login(third.text("secret_id")).expect(400);
}

#[test]
fn a_delete_without_a_required_field_is_refused() {
    let stage = DestroyStage::new();
    let left = stage.secret_id();
    for body in [json!({}), json!({ "secret_id": "" }), json!({ "secret-id": "x" })] {
        let refused = stage.delete(DESTROY, &body).expect(400);
        assert!(refused.errors().contains("secret_id is required"), "{refused:?}");
    }
    let twice = format!("{DESTROY}?secret_id=x");
    let refused = stage.delete(&twice, &json!({ "secret_id": "y" })).expect(400);
    assert!(refused.errors().contains("different values in the query"), "{refused:?}");
    stage.root.send("DELETE", DESTROY, b"{not json").expect(400);
    stage.login(left.text("secret_id")).expect(200);
}

#[test]
fn a_read_or_list_reads_its_body() {
    let world = World::empty();
    let root = &world.root;
    root.write("secret/data/a", &json!({ "data": { "n": "1" } })).expect(200);
    root.write("secret/data/a", &json!({ "data": { "n": "2" } })).expect(200);
    root.write("secret/data/b", &json!({ "data": {} })).expect(200);
    let first = root.send("GET", "secret/data/a", br#"{"version": 1}"#).expect(200);
    assert_eq!(first.body["data"]["data"]["n"], "1");
    root.send("GET", "secret/data/a?version=2", br#"{"version": 1}"#).expect(400);
    let listed = root.send("LIST", "secret/metadata", br#"{"limit": 1}"#).expect(200);
    assert_eq!(listed.body["data"]["keys"], json!(["a"]));
    let rest = root.send("LIST", "secret/metadata", br#"{"after": "a"}"#).expect(200);
    assert_eq!(rest.body["data"]["keys"], json!(["b"]));
    root.list("secret/metadata?limit=1&limit=2").expect(400);
    let warned = root.list("secret/metadata?limits=1").expect(200);
    assert!(warned.warnings().contains("[limits]"), "{warned:?}");
    // A published client sends the name of the path as a field of a read, too.
    let policy = json!({ "policy": r#"path "a" { capabilities = ["read"] }"# });
    root.write("sys/policies/acl/a", &policy).expect(204);
    root.send("GET", "sys/policies/acl/a", br#"{"name": "a"}"#).expect(200);
    let other = root.send("GET", "sys/policies/acl/a", br#"{"name": "b"}"#).expect(200);
    assert!(other.warnings().contains("[name]"), "{other:?}");
    assert_eq!(other.text("name"), "a");
}

#[test]
fn a_query_beside_a_body_is_refused() {
    let server = Bulkhead::start();
    let root = server.root();
    for path in ["secret/data/q?cas=0", "cubbyhole/q?x=1", "auth/token/create?ttl=1h"] {
        let refused = root.write(path, &json!({ "data": {} })).expect(400);
        assert!(refused.errors().contains("query"), "{refused:?}");
    }
    root.read("cubbyhole/q").expect(404);
    root.patch("secret/data/q?x=1", &json!({ "data": {} })).expect(400);
    root.delete("cubbyhole/q?list=true").expect(405);
}

#[test]
fn a_wrapping_header_counts_under_each_name() {
    let server = Bulkhead::start();
    for name in ["X-Vault-Wrap-TTL", "X-Secrets-Wrap-TTL", "X-Bulkhead-Wrap-TTL"] {
        let answer = send_with_headers(&server, "GET", "/v1/sys/mounts", &[(name, "60")]);
        assert_eq!(answer.json()["wrap_info"]["ttl"], 60, "{name}");
        assert!(answer.json()["data"].is_null(), "{name}: the answer itself is hidden");
    }
    for headers in [
        [("X-Vault-Wrap-TTL", "60"), ("X-Bulkhead-Wrap-TTL", "61")],
        [("X-Vault-Wrap-TTL", "60"), ("X-Vault-Wrap-Format", "jwt")],
        [("X-Vault-Request", "true"), ("X-Vault-Wrap-TLL", "60")],
        [("X-Vault-Request", "true"), ("X-Secrets-Namespace", "team")],
    ] {
        let answer = send_with_headers(&server, "GET", "/v1/sys/mounts", &headers);
        assert_eq!(answer.status, 400, "{headers:?}: {}", answer.text());
    }
    let usual = [("X-Vault-Request", "true"), ("X-Vault-Inconsistent", "forward-active-node")];
    assert_eq!(send_with_headers(&server, "GET", "/v1/sys/mounts", &usual).status, 200);
}

#[test]
fn wrapping_request_is_refused_where_unsupported() {
    let server = Bulkhead::start();
    let stranger = server.client(None).wrapping("60");
    for path in ["sys/unseal", "sys/init", "sys/generate-root/attempt", "sys/rekey/init"] {
        let refused = stranger.write(path, &json!({})).expect(400);
        assert!(refused.errors().contains("cannot be wrapped"), "{path}: {refused:?}");
    }
    stranger.read("sys/seal-status").expect(200);
    stranger.read("sys/health").expect(200);
    let scheduler = Scheduler::start();
    let request = PlainRequest::new("GET", "/v1/acl/tokens").with_header("X-Vault-Wrap-TTL", "60");
    assert_eq!(request.send(scheduler.address()).status, 400);
}

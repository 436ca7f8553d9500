//! Statuses of answers against the OpenAPI document: a generated client knows no others.

use super::inspected::endpoint_of;
use super::{OPERATOR, all_rows};
use crate::world::World;
use bulkhead_tests::{Answer, Client};
use serde_json::{Map, Value, json};

/// Operations that end the caller's token or the service, or whose answer has no end: they are
/// asked without a right only.
const ENDING: [&str; 3] = ["/auth/token/revoke-self", "/sys/seal", "/sys/monitor"];

/// Bodies that no operation expects.
const NONSENSE: [&str; 4] = ["", "{}", "[]", "{\"a\":"];

/// An operation of the document.
struct Operation<'a> {
    method: &'a str,
    path: &'a str,
    shown: &'a Value,
    document: &'a Value,
}

impl Operation<'_> {
    /// The path with a name in the place of each capture that is the name of nothing.
    fn example(&self) -> String {
        let parts = self.path.trim_start_matches('/').split('/');
        let parts = parts.map(|part| if part.starts_with('{') { "absent" } else { part });
        let path = parts.collect::<Vec<_>>().join("/");
        if self.path.ends_with('/') { format!("{path}?list=true") } else { path }
    }

    /// A body in which every field has the wrong type.
    fn mistyped(&self) -> String {
        let content = &self.shown["requestBody"]["content"]["application/json"];
        let schema = content["schema"]["$ref"].as_str().and_then(|name| name.strip_prefix('#'));
        let schema = schema.and_then(|name| self.document.pointer(name));
        let fields = schema.and_then(|schema| schema["properties"].as_object());
        let wrong = |name: &String| (name.clone(), json!([[{ "a": [] }]]));
        let body: Map<String, Value> = fields.into_iter().flat_map(Map::keys).map(wrong).collect();
        Value::Object(body).to_string()
    }

    fn declares(&self, status: u16) -> bool {
        let responses = &self.shown["responses"];
        !responses[status.to_string()].is_null() || !responses["default"].is_null()
    }

    fn send(&self, client: &Client, body: &str) -> Answer {
        client.send(&self.method.to_uppercase(), &self.example(), body.as_bytes())
    }
}

fn operations(document: &Value) -> Vec<Operation<'_>> {
    let mut found = Vec::new();
    for (path, item) in document["paths"].as_object().expect("the paths of the document") {
        let members = item.as_object().expect("the operations of a path");
        for (method, shown) in members.iter().filter(|(name, _)| *name != "parameters") {
            found.push(Operation { method, path, shown, document });
        }
    }
    found
}

#[test]
fn operation_answers_nonsense_with_declared_status() {
    let world = World::empty();
    world.root.write("sys/mounts/kv", &json!({ "type": "kv" })).expect(204);
    let document = world.root.read("sys/internal/specs/openapi").expect(200).body;
    let operations = operations(&document);
    assert!(operations.len() > 300, "only {} operations", operations.len());
    let strangers = [world.bulkhead.client(None), world.bulkhead.client(Some("bhs.invented"))];
    let operator = world.client_with("operator", OPERATOR);
    let mut undeclared = Vec::new();
    for operation in &operations {
        let mut answers: Vec<Answer> =
            strangers.iter().map(|client| operation.send(client, "")).collect();
        if !ENDING.contains(&operation.path) {
            let mistyped = operation.mistyped();
            let bodies = NONSENSE.into_iter().chain([mistyped.as_str()]);
            answers.extend(bodies.map(|body| operation.send(&operator, body)));
        }
        for answer in answers {
            assert_ne!(answer.status, 500, "{answer:?}");
            if !operation.declares(answer.status) {
                undeclared.push(format!("{}: {}", answer.asked, answer.status));
            }
        }
    }
    undeclared.dedup();
    assert_eq!(undeclared, Vec::<String>::new());
}

#[test]
fn openapi_document_declares_status_of_every_agreed_answer() {
    let world = World::empty();
    world.root.write("sys/mounts/kv", &json!({ "type": "kv" })).expect(204);
    let document = world.root.read("sys/internal/specs/openapi").expect(200).body;
    let operations = operations(&document);
    for row in all_rows() {
        let endpoint = endpoint_of(&row).expect("every row has an endpoint");
        let (method, slash) = match endpoint.method() {
            "LIST" => ("get".to_owned(), "/"),
            other => (other.to_lowercase(), ""),
        };
        let path = format!("/{}{slash}", endpoint.path.replace("+}", "}"));
        let found = operations.iter().find(|it| it.method == method && it.path == path);
        let found = found.unwrap_or_else(|| panic!("{method} {path} is not in the document"));
        assert!(found.declares(row.status), "{}: {}", row.golden, row.status);
    }
}

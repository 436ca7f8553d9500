//! `sys/internal/specs/openapi`: tools must be able to read the document, and it must name every
//! endpoint.

use super::inspected::endpoints;
use super::{EndpointCall, row};
use crate::world::World;
use bulkhead_tests::Answer;
use serde_json::{Value, json};
use std::collections::BTreeSet;

pub(super) fn rows() -> Vec<EndpointCall> {
    let path = "sys/internal/specs/openapi";
    vec![
        row("sys-internal-specs-openapi.read", path, Value::Null, 200),
        row("sys-internal-specs-openapi.write", path, json!({ "generic_mount_paths": true }), 200),
    ]
}

/// The answer with its paths and operations only: the tables contain the rest.
pub(super) fn outline(answer: Answer) -> Answer {
    let Some(paths) = answer.body["paths"].as_object() else { return answer };
    let operations =
        |item: &Value| item.as_object().expect("a path item").keys().cloned().collect::<Vec<_>>();
    let paths: serde_json::Map<_, _> =
        paths.iter().map(|(path, item)| (path.clone(), json!(operations(item)))).collect();
    let body =
        json!({ "openapi": answer.body["openapi"], "info": answer.body["info"], "paths": paths });
    Answer { body, ..answer }
}

#[test]
fn document_names_every_endpoint_once_without_dangling_references() {
    let world = World::empty();
    world.root.write("sys/mounts/kv", &json!({ "type": "kv" })).expect(204);
    let document = world.root.read("sys/internal/specs/openapi").expect(200).body;
    let mut ids = BTreeSet::new();
    for endpoint in endpoints() {
        let (method, slash) = match endpoint.verb.as_str() {
            "read" => ("get", ""),
            "list" => ("get", "/"),
            "write" => ("post", ""),
            other => (other, ""),
        };
        let path = format!("/{}{slash}", endpoint.path.replace("+}", "}"));
        let operation = &document["paths"][&path][method];
        let id = operation["operationId"]
            .as_str()
            .unwrap_or_else(|| panic!("{method} {path} is missing"));
        assert!(ids.insert(id.to_owned()), "{id} stands for two operations");
        assert_eq!(operation["x-vault-sudo"] == true, endpoint.sudo, "{id}");
        let parameters =
            document["paths"][&path]["parameters"].as_array().expect("the captures of a path");
        assert_eq!(parameters.len(), path.matches('{').count(), "{id}");
    }
    for reference in references(&document) {
        let pointer = reference.strip_prefix('#').expect("a reference into the document");
        assert!(document.pointer(pointer).is_some(), "{reference} leads nowhere");
    }
}

fn references(value: &Value) -> Vec<String> {
    match value {
        Value::Object(members) => {
            let own = members.get("$ref").and_then(Value::as_str).map(str::to_owned);
            own.into_iter().chain(members.values().flat_map(references)).collect()
        }
        Value::Array(items) => items.iter().flat_map(references).collect(),
        _ => Vec::new(),
    }
}

#[test]
fn document_shows_only_mounts_within_caller_policies() {
    let world = World::empty();
    world.root.write("sys/mounts/warehouse", &json!({ "type": "database" })).expect(204);
    let seen = |client: &bulkhead_tests::Client| {
        let document = client.read("sys/internal/specs/openapi").expect(200).body;
        let names = [
            "/warehouse/config/{name}",
            "/database/config/{name}",
            "/{database_mount_path}/config/{name}",
        ];
        names.map(|path| !document["paths"][path].is_null())
    };
    let rules = r#"path "warehouse/creds/*" { capabilities = ["read"] }"#;
    assert_eq!(seen(&world.root), [true, true, false]);
    assert_eq!(seen(&world.client_with("warehouse", rules)), [true, false, false]);
    for stranger in [None, Some("bhs.invented")] {
        assert_eq!(seen(&world.bulkhead.client(stranger)), [false, false, true]);
    }
}

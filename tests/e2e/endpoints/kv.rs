//! The key-value engine: version 2 of the API at `secret/`, version 1 at `kv/`.

use super::{EndpointCall, row};
use serde_json::{Value, json};

pub(super) fn rows() -> Vec<EndpointCall> {
    let config =
        json!({ "max_versions": 5, "cas_required": false, "delete_version_after": "768h" });
    let first = json!({ "data": { "user": "app", "port": 5432 }, "options": { "cas": 0 } });
    let change = json!({ "data": { "port": null, "more": { "deep": true } } });
    let versions = json!({ "versions": [1] });
    let rules = json!({ "max_versions": 3, "custom_metadata": { "owner": "blue" } });
    vec![
        row("secret-config.read", "secret/config", Value::Null, 200),
        row("secret-config.write", "secret/config", config, 204),
        row("secret-data-path.write", "secret/data/app/db", first, 200),
        row("secret-data-path.patch", "secret/data/app/db", change, 200),
        row("secret-data-path.read", "secret/data/app/db?version=1", Value::Null, 200),
        row("secret-subkeys-path.read", "secret/subkeys/app/db", Value::Null, 200),
        row("secret-delete-path.write", "secret/delete/app/db", versions.clone(), 204),
        row("secret-data-path-deleted.read", "secret/data/app/db?version=1", Value::Null, 404),
        row("secret-undelete-path.write", "secret/undelete/app/db", versions.clone(), 204),
        row("secret-destroy-path.write", "secret/destroy/app/db", versions, 204),
        row("secret-data-path.delete", "secret/data/app/db", Value::Null, 204),
        row("secret-metadata-path.write", "secret/metadata/app/db", rules, 204),
        row("secret-metadata-path.patch", "secret/metadata/app/db", json!({}), 204),
        row("secret-metadata-path.read", "secret/metadata/app/db", Value::Null, 200),
        row("secret-metadata.list", "secret/metadata", Value::Null, 200),
        row("secret-metadata-path.list", "secret/metadata/app", Value::Null, 200),
        row("secret-metadata-path.delete", "secret/metadata/app/db", Value::Null, 204),
    ]
}

pub(super) fn rows_of_version_1() -> Vec<EndpointCall> {
    let secret = json!({ "user": "app", "port": 5432, "ttl": "1h", "path": null });
    vec![
        row("kv-path.write", "kv/app/db", secret, 204),
        row("kv-path.read", "kv/app/db", Value::Null, 200),
        row("kv.list", "kv/", Value::Null, 200),
        row("kv-path.list", "kv/app", Value::Null, 200),
        row("kv-path.delete", "kv/app/db", Value::Null, 204),
    ]
}

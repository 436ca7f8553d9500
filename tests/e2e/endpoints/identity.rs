//! `identity/`: entities, groups and their aliases.

use super::{EndpointCall, row};
use serde_json::{Value, json};

pub(super) fn entities() -> Vec<EndpointCall> {
    let ada = json!({ "name": "ada", "metadata": { "team": "blue" }, "policies": ["p1"] });
    let by_name = json!({ "name": "ada" });
    let by_id = "identity/entity/id/{id}";
    let merge = json!({ "from_entity_ids": ["{id}"], "to_entity_id": "{canonical_id}" });
    let gone = json!({ "entity_ids": ["{canonical_id}"] });
    let red = json!({ "metadata": { "team": "red" } });
    let name = "identity/entity/name/ada";
    let rows = vec![
        row("sys-auth.read", "sys/auth", Value::Null, 200),
        row("identity-entity.write", "identity/entity", ada, 200),
        row("identity-entity-id.list", "identity/entity/id", Value::Null, 200),
        row("identity-entity-id-id.read", by_id, Value::Null, 200),
        row("identity-entity-id-id.write", by_id, red, 204),
        row("identity-entity-name.list", "identity/entity/name", Value::Null, 200),
        row("identity-entity-name-name.read", name, Value::Null, 200),
        row("identity-entity-name-name.write", name, json!({ "disabled": false }), 204),
    ];
    // This alias creates another entity.
    let alias = json!({ "name": "bob@up", "mount_accessor": "{mount}" });
    let after_aliases = vec![
        row("identity-entity-alias.write", "identity/entity-alias", alias, 200),
        row("identity-lookup-entity.write", "identity/lookup/entity", by_name, 200),
        row("identity-entity-merge.write", "identity/entity/merge", merge, 204),
        row("identity-entity-name-name.delete", name, Value::Null, 204),
        row("identity-entity-id-id.delete", by_id, Value::Null, 204),
        row("identity-entity-batch-delete.write", "identity/entity/batch-delete", gone, 204),
    ];
    rows.into_iter().chain(entity_aliases()).chain(after_aliases).collect()
}

fn entity_aliases() -> Vec<EndpointCall> {
    let alias = json!({ "name": "ada@up", "mount_accessor": "{mount}", "canonical_id": "{id}" });
    let by_id = "identity/entity-alias/id/{id}";
    let change = json!({ "name": "ada2@up", "custom_metadata": { "desk": "4" } });
    vec![
        row("identity-entity-alias.write", "identity/entity-alias", alias, 200),
        row("identity-entity-alias-id.list", "identity/entity-alias/id", Value::Null, 200),
        row("identity-entity-alias-id-id.write", by_id, change, 200),
        row("identity-entity-alias-id-id.read", by_id, Value::Null, 200),
        row("identity-entity-alias-id-id.delete", by_id, Value::Null, 204),
    ]
}

pub(super) fn groups() -> Vec<EndpointCall> {
    let external = json!({ "name": "ext", "type": "external", "policies": "p1" });
    let by_name = json!({ "name": "ext" });
    let by_id = "identity/group/id/{id}";
    let name = "identity/group/name/ext";
    let metadata = json!({ "metadata": { "a": "b" } });
    let rows = vec![
        row("sys-auth.read", "sys/auth", Value::Null, 200),
        row("identity-group.write", "identity/group", external, 200),
        row("identity-group-id-id.read", by_id, Value::Null, 200),
        row("identity-group-id-id.write", by_id, metadata.clone(), 204),
        row("identity-group-name-name.write", name, metadata, 204),
        row("identity-group-id.list", "identity/group/id", Value::Null, 200),
        row("identity-group-name.list", "identity/group/name", Value::Null, 200),
    ];
    let after_aliases = vec![
        row("identity-lookup-group.write", "identity/lookup/group", by_name, 200),
        row("identity-group-name-name.read", name, Value::Null, 200),
        row("identity-group-id-id.delete", by_id, Value::Null, 204),
        row("identity-group-name-name.delete", name, Value::Null, 204),
    ];
    rows.into_iter().chain(group_aliases()).chain(after_aliases).collect()
}

fn group_aliases() -> Vec<EndpointCall> {
    let alias = json!({ "name": "folder-1", "mount_accessor": "{mount}", "canonical_id": "{id}" });
    let by_id = "identity/group-alias/id/{id}";
    vec![
        row("identity-group-alias.write", "identity/group-alias", alias, 200),
        row("identity-group-alias-id.list", "identity/group-alias/id", Value::Null, 200),
        row("identity-group-alias-id-id.write", by_id, json!({ "name": "folder-2" }), 200),
        row("identity-group-alias-id-id.read", by_id, Value::Null, 200),
        row("identity-group-alias-id-id.delete", by_id, Value::Null, 204),
    ]
}

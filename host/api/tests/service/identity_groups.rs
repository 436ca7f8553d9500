//! Groups: the policies of a group count at once, in trees without circles, and end with the group.

use crate::bed::{Bed, PATIENCE};
use crate::identity::text;
use bulkhead_wire::description::Verb;
use serde_json::{Value, json};
use std::time::Instant;

impl Bed {
    /// The id of a group of those settings.
    pub(crate) async fn group(&self, fields: Value) -> String {
        text(&self.written("identity/group", fields).await["id"]).to_owned()
    }

    /// Waits until the group has no entities.
    pub(crate) async fn emptied(&self, group: &str) {
        let began = Instant::now();
        let path = format!("identity/group/id/{group}");
        while self.seen_at(&path).await["member_entity_ids"] != json!([]) {
            assert!(began.elapsed() < PATIENCE, "group {group} keeps its entities");
            tokio::task::yield_now().await;
        }
    }
}

#[tokio::test]
async fn group_policies_apply_at_once_through_nested_groups() {
    let bed = Bed::new("group-policies").await;
    bed.reader("mounts", &["sys/mounts"]).await;
    let login = bed.signed_in("eve").await;
    let (token, entity) = (&login["client_token"], &login["entity_id"]);
    let crew = bed.group(json!({"name": "crew", "member_entity_ids": [entity]})).await;
    let all = bed.group(json!({"name": "all", "policies": "mounts"})).await;
    let status = || bed.status_as(token, Verb::Read, "sys/mounts");
    assert_eq!(status().await, 403);
    bed.written("identity/group", json!({"name": "all", "member_group_ids": [crew]})).await;
    assert_eq!(status().await, 200);
    let seen = bed.seen_at(&format!("identity/entity/id/{}", text(entity))).await;
    assert_eq!(seen["direct_group_ids"], json!([crew]));
    assert_eq!(seen["inherited_group_ids"], json!([all]));
    assert_eq!(seen["group_ids"].as_array().unwrap().len(), 2);
    let read = bed.seen_at("identity/group/name/Crew").await;
    assert_eq!(read["parent_group_ids"], json!([all]), "{read}");
    bed.written(&format!("identity/group/id/{crew}"), json!({"member_entity_ids": []})).await;
    assert_eq!(status().await, 403);
    bed.written(&format!("identity/group/id/{crew}"), json!({"member_entity_ids": entity})).await;
    assert_eq!(status().await, 200);
    let path = format!("identity/group/id/{crew}");
    assert_eq!(bed.call(Verb::Delete, &path, json!({})).await.0, 204);
    assert_eq!(status().await, 403);
    let seen = bed.seen_at(&format!("identity/entity/id/{}", text(entity))).await;
    assert_eq!(seen["group_ids"], json!([]));
    let above = bed.seen_at(&format!("identity/group/id/{all}")).await;
    assert_eq!(above["member_group_ids"], Value::Null);
    bed.end().await;
}

#[tokio::test]
async fn a_group_is_written_read_and_listed() {
    let bed = Bed::new("groups").await;
    let ada = bed.written("identity/entity", json!({"name": "ada"})).await["id"].clone();
    let crew = json!({"name": "crew", "policies": "p1", "member_entity_ids": [ada]});
    let crew = bed.group(crew).await;
    bed.written("identity/group", json!({"name": "crew", "metadata": {"a": "b"}})).await;
    let mut seen = bed.seen_at(&format!("identity/group/id/{crew}")).await;
    for time in ["creation_time", "last_update_time"] {
        assert!(text(&seen[time]).ends_with('Z'), "{seen}");
        seen.as_object_mut().unwrap().remove(time);
    }
    let expected = json!({
        "alias": {}, "id": crew, "member_entity_ids": [ada], "member_group_ids": null,
        "metadata": {"a": "b"}, "modify_index": 2, "name": "crew", "namespace_id": "root",
        "parent_group_ids": null, "policies": ["p1"], "type": "internal",
    });
    assert_eq!(seen, expected);
    bed.group(json!({"name": "ext", "type": "external"})).await;
    let (_, ids) = bed.call(Verb::List, "identity/group/id", json!({})).await;
    let info = json!({"name": "crew", "num_member_entities": 1, "num_parent_groups": 0});
    assert_eq!(ids["data"]["key_info"][&crew], info);
    let (_, names) = bed.call(Verb::List, "identity/group/name", json!({})).await;
    assert_eq!(names["data"], json!({"keys": ["crew", "ext"]}));
    let found = bed.written("identity/lookup/group", json!({"name": "crew"})).await;
    assert_eq!(found["id"], json!(crew));
    assert_eq!(bed.write("identity/lookup/group", json!({"name": "none"})).await.0, 204);
    assert_eq!(bed.call(Verb::Delete, "identity/group/name/none", json!({})).await.0, 204);
    assert_eq!(bed.read("identity/group/name/none").await.0, 404);
    bed.end().await;
}

#[tokio::test]
async fn group_cycle_is_refused_with_its_path() {
    let bed = Bed::new("group-circle").await;
    let a = bed.group(json!({"name": "a"})).await;
    let b = bed.group(json!({"name": "b", "member_group_ids": [a]})).await;
    let c = bed.group(json!({"name": "c", "member_group_ids": [b]})).await;
    let itself = json!({"id": a, "member_group_ids": [a]});
    bed.refuses("identity/group", itself, r#""a" > "a""#).await;
    let circle = json!({"id": a, "member_group_ids": [c]});
    bed.refuses("identity/group", circle, r#""a" > "c" > "b" > "a""#).await;
    let seen = bed.seen_at(&format!("identity/group/id/{a}")).await;
    assert_eq!((&seen["member_group_ids"], &seen["modify_index"]), (&Value::Null, &json!(1)));
    bed.end().await;
}

#[tokio::test]
async fn group_tree_height_is_bounded() {
    let bed = Bed::new("group-height").await;
    let mut below = bed.group(json!({"name": "g0"})).await;
    for level in 1..=65 {
        let fields = json!({"name": format!("g{level}"), "member_group_ids": [below]});
        let (status, answer) = bed.write("identity/group", fields).await;
        match level {
            65 => assert_eq!(status, 400, "{answer}"),
            _ => assert_eq!(status, 200, "{level}: {answer}"),
        }
        below = answer["data"]["id"].as_str().unwrap_or_default().to_owned();
    }
    assert_eq!(bed.read("identity/group/name/g65").await.0, 404, "nothing of it is left");
    bed.end().await;
}

#[tokio::test]
async fn an_invalid_group_is_refused_and_changes_nothing() {
    let bed = Bed::new("bad-groups").await;
    let mount = bed.token_mount().await;
    let ada = bed.written("identity/entity", json!({"name": "ada"})).await["id"].clone();
    let crew = bed.group(json!({"name": "crew"})).await;
    let ext = bed.group(json!({"name": "ext", "type": "external"})).await;
    for (fields, why) in [
        (json!({"name": "g", "type": "zzz"}), "invalid group type"),
        (json!({"name": "g", "type": "external", "member_entity_ids": [ada]}), "set manually"),
        (json!({"id": ext, "member_entity_ids": [ada]}), "set manually"),
        (json!({"id": ext, "member_group_ids": [crew]}), "set manually"),
        (json!({"name": "g", "member_entity_ids": ["nope"]}), "no entity with the id"),
        (json!({"name": "g", "member_group_ids": ["nope"]}), "no group with the id"),
        (json!({"id": crew, "type": "external"}), "group type cannot be changed"),
        (json!({"id": crew, "name": "EXT"}), "already in use"),
        (json!({"id": "nope"}), "no group with the id"),
        (json!({"name": "g", "policies": ["root"]}), "cannot contain root"),
        (json!({"name": "x".repeat(513)}), "513 bytes"),
    ] {
        bed.refuses("identity/group", fields, why).await;
    }
    for (fields, why) in [
        (json!({"name": "f", "mount_accessor": "zzz", "canonical_id": ext}), "mount accessor"),
        (json!({"name": "f", "mount_accessor": mount, "canonical_id": crew}), "is internal"),
        (json!({"name": "f", "mount_accessor": mount, "canonical_id": "zzz"}), "canonical ID"),
        (json!({"name": "f"}), "must be provided"),
        (json!({"mount_accessor": mount, "canonical_id": ext}), "must be provided"),
        (json!({"id": "zzz", "name": "f"}), "invalid alias id"),
    ] {
        bed.refuses("identity/group-alias", fields, why).await;
    }
    let (_, names) = bed.call(Verb::List, "identity/group/name", json!({})).await;
    assert_eq!(names["data"]["keys"], json!(["crew", "ext"]));
    bed.end().await;
}

#[tokio::test]
async fn oversized_member_change_is_refused_but_steps_succeed() {
    let bed = Bed::new("many-members").await;
    let mut ids = Vec::new();
    for number in 0..1_001 {
        let entity = bed.written("identity/entity", json!({"name": format!("e{number}")})).await;
        ids.push(entity["id"].clone());
    }
    let unknown: Vec<String> = (0..10_000).map(|n| format!("{n:036x}")).collect();
    let (status, answer) =
        bed.write("identity/group", json!({"name": "g", "member_entity_ids": unknown})).await;
    assert_eq!(status, 413, "{answer}");
    let unknown: Vec<String> = (0..10_001).map(|n| format!("{n:036x}")).collect();
    bed.refuses("identity/group", json!({"name": "g", "member_entity_ids": unknown}), "10000")
        .await;
    let all = json!({"name": "g", "member_entity_ids": ids});
    assert_eq!(bed.write("identity/group", all.clone()).await.0, 413);
    let first = json!({"name": "g", "member_entity_ids": ids[..1_000]});
    assert_eq!(bed.write("identity/group", first).await.0, 200);
    assert_eq!(bed.write("identity/group", all).await.0, 204);
    let seen = bed.seen_at("identity/group/name/g").await;
    assert_eq!(seen["member_entity_ids"].as_array().unwrap().len(), 1_001);
    bed.end().await;
}

#[tokio::test]
async fn external_group_loses_members_with_its_only_alias() {
    let bed = Bed::new("external").await;
    let mount = bed.token_mount().await;
    let ext = bed.group(json!({"name": "ext", "type": "external"})).await;
    let other = bed.group(json!({"name": "other", "type": "external"})).await;
    let fields = json!({"name": "folder-1", "mount_accessor": mount, "canonical_id": ext});
    let alias = bed.written("identity/group-alias", fields.clone()).await;
    assert_eq!(bed.written("identity/group-alias", fields).await, alias, "the same again");
    let second = json!({"name": "folder-2", "mount_accessor": mount, "canonical_id": ext});
    bed.refuses("identity/group-alias", second, "has an alias").await;
    let path = format!("identity/group-alias/id/{}", text(&alias["id"]));
    let seen = bed.seen_at(&path).await;
    assert_eq!((&seen["name"], &seen["canonical_id"]), (&json!("folder-1"), &json!(ext)));
    let (_, list) = bed.call(Verb::List, "identity/group-alias/id", json!({})).await;
    assert_eq!(list["data"]["keys"], json!([alias["id"]]));
    let by_alias = json!({"alias_name": "folder-1", "alias_mount_accessor": mount});
    let found = bed.written("identity/lookup/group", by_alias).await;
    assert_eq!((&found["id"], &found["alias"]["name"]), (&json!(ext), &json!("folder-1")));
    bed.written(&path, json!({"canonical_id": other})).await;
    let group = bed.seen_at(&format!("identity/group/id/{ext}")).await;
    assert_eq!(group["alias"], json!({}), "the alias moved to the other group");
    assert_eq!(bed.call(Verb::Delete, &path, json!({})).await.0, 204);
    assert_eq!(bed.read(&path).await.0, 404);
    bed.emptied(&other).await;
    bed.end().await;
}

#[tokio::test]
async fn group_alias_without_group_makes_external_group() {
    let bed = Bed::new("alias-alone").await;
    let mount = bed.token_mount().await;
    let fields = json!({"name": "folder-1", "mount_accessor": mount});
    let alias = bed.written("identity/group-alias", fields.clone()).await;
    let group = bed.seen_at(&format!("identity/group/id/{}", text(&alias["canonical_id"]))).await;
    assert_eq!((&group["type"], &group["policies"]), (&json!("external"), &json!([])), "{group}");
    assert_eq!(group["alias"]["name"], json!("folder-1"));
    assert!(text(&group["name"]).starts_with("group_"), "{group}");
    assert_eq!(bed.written("identity/group-alias", fields).await, alias, "no second group");
    let (_, names) = bed.call(Verb::List, "identity/group/name", json!({})).await;
    assert_eq!(names["data"]["keys"], json!([group["name"]]));
    let member = json!({"id": group["id"], "member_entity_ids": ["anybody"]});
    bed.refuses("identity/group", member, "set manually").await;
    bed.end().await;
}

#[tokio::test]
async fn the_aliases_of_a_mount_go_with_it() {
    let bed = Bed::new("mount-aliases").await;
    bed.written("sys/mounts/second", json!({"type": "probe"})).await;
    let accessor = bed.seen_at("sys/mounts").await["second/"]["accessor"].clone();
    let stays = bed.token_mount().await;
    let ada = bed.written("identity/entity", json!({"name": "ada"})).await["id"].clone();
    for mount in [&accessor, &json!(stays)] {
        let alias = json!({"name": "ada", "mount_accessor": mount, "canonical_id": ada});
        bed.written("identity/entity-alias", alias).await;
    }
    let ext = bed.group(json!({"name": "ext", "type": "external"})).await;
    let alias = json!({"name": "folder", "mount_accessor": accessor, "canonical_id": ext});
    bed.written("identity/group-alias", alias.clone()).await;
    assert_eq!(bed.call(Verb::Delete, "sys/mounts/second", json!({})).await.0, 204);
    let seen = bed.seen_at("identity/entity/name/ada").await;
    let left = seen["aliases"].as_array().unwrap();
    assert_eq!(left.len(), 1, "{seen}");
    assert_eq!(left[0]["mount_accessor"], json!(stays));
    assert_eq!(bed.seen_at("identity/group/name/ext").await["alias"], json!({}));
    bed.refuses("identity/group-alias", alias, "invalid mount accessor").await;
    bed.end().await;
}

#[tokio::test]
async fn identity_path_rejects_mounts_and_appears_in_listing() {
    let bed = Bed::new("identity-mount").await;
    let (status, _) = bed.write("sys/mounts/identity", json!({"type": "probe"})).await;
    assert_eq!(status, 400);
    let mount = bed.seen_at("sys/mounts").await["identity/"].clone();
    assert_eq!(mount["type"], "identity", "{mount}");
    assert!(text(&mount["accessor"]).starts_with("identity_"), "{mount}");
    assert_eq!(bed.read("identity/nothing").await.0, 404);
    bed.end().await;
}

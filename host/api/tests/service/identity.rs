//! Each alias has a single entity; new rights of entities and groups count at once; rights taken
//! away are gone at once.

use crate::bed::{Bed, error};
use bulkhead_wire::description::Verb;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::sync::Arc;

const OWN: &str = "auth/token/lookup-self";

impl Bed {
    /// A token for the entity with that alias at `auth/token`, which is made where there is none.
    pub(crate) async fn signed_in(&self, alias: &str) -> Value {
        let role = json!({"allowed_entity_aliases": "*", "allowed_policies": "default"});
        assert_eq!(self.write("auth/token/roles/people", role).await.0, 204);
        let fields = json!({"entity_alias": alias});
        let (status, answer) = self.write("auth/token/create/people", fields).await;
        assert_eq!(status, 200, "{answer}");
        answer["auth"].clone()
    }

    pub(crate) async fn status_as(&self, token: &Value, verb: Verb, path: &str) -> u16 {
        self.call_as(token.as_str().unwrap(), verb, path, json!({})).await.0
    }

    /// Writes with the root token and returns the `data` of the answer. Fails if the write is
    /// refused.
    pub(crate) async fn written(&self, path: &str, fields: Value) -> Value {
        let (status, answer) = self.write(path, fields.clone()).await;
        assert!(matches!(status, 200 | 204), "{path} {fields}: {status} {answer}");
        answer["data"].clone()
    }

    /// Refused as the caller's mistake, in words that say `why`; nothing else is answered.
    pub(crate) async fn refuses(&self, path: &str, fields: Value, why: &str) {
        let (status, answer) = self.write(path, fields.clone()).await;
        assert_eq!(status, 400, "{path} {fields}: {answer}");
        assert!(error(&answer).contains(why), "{path} {fields}: {why} is not in {answer}");
    }

    pub(crate) async fn seen_at(&self, path: &str) -> Value {
        let (status, answer) = self.read(path).await;
        assert_eq!(status, 200, "{path}: {answer}");
        answer["data"].clone()
    }

    async fn list(&self, path: &str, fields: Value) -> (u16, Value) {
        let (status, answer) = self.call(Verb::List, path, fields).await;
        (status, answer["data"].clone())
    }

    /// A policy that allows to read the listed paths.
    pub(crate) async fn reader(&self, name: &str, paths: &[&str]) {
        let rules = paths.iter().map(|path| format!("path {path:?} {{ policy = \"read\" }}"));
        let policy = rules.collect::<Vec<_>>().join("\n");
        self.written(&format!("sys/policies/acl/{name}"), json!({"policy": policy})).await;
    }

    /// The accessor of `auth/token`.
    pub(crate) async fn token_mount(&self) -> String {
        self.seen_at("sys/auth").await["token/"]["accessor"].as_str().unwrap().to_owned()
    }
}

pub(crate) fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_else(|| panic!("no text: {value}"))
}

#[tokio::test(flavor = "multi_thread")]
async fn concurrent_first_logins_of_alias_create_one_entity() {
    let bed = Arc::new(Bed::new("first-logins").await);
    let role = json!({"allowed_entity_aliases": "eve", "allowed_policies": "default"});
    assert_eq!(bed.write("auth/token/roles/people", role).await.0, 204);
    let logins: Vec<_> = (0..50)
        .map(|_| {
            let bed = Arc::clone(&bed);
            tokio::spawn(async move {
                bed.write("auth/token/create/people", json!({"entity_alias": "eve"})).await
            })
        })
        .collect();
    let mut entities = BTreeSet::new();
    for login in logins {
        let (status, answer) = login.await.unwrap();
        assert_eq!(status, 200, "{answer}");
        entities.insert(answer["auth"]["entity_id"].as_str().unwrap().to_owned());
    }
    assert_eq!(entities.len(), 1, "{entities:?}");
    Arc::into_inner(bed).unwrap().end().await;
}

#[tokio::test]
async fn token_accepts_only_alias_allowed_by_role() {
    let bed = Bed::new("role-alias").await;
    let role = json!({"allowed_entity_aliases": ["eve", "build-*"], "allowed_policies": "default"});
    assert_eq!(bed.write("auth/token/roles/people", role).await.0, 204);
    for (alias, allowed) in [("eve", true), ("build-7", true), ("eva", false), ("", true)] {
        let fields = json!({"entity_alias": alias});
        let (status, answer) = bed.write("auth/token/create/people", fields).await;
        assert_eq!(status, if allowed { 200 } else { 400 }, "{alias}: {answer}");
        let entity = answer["auth"]["entity_id"].as_str().unwrap_or_default();
        assert_eq!(!entity.is_empty(), allowed && !alias.is_empty(), "{alias}: {answer}");
    }
    for path in ["auth/token/create", "auth/token/create-orphan"] {
        let refused = bed.write(path, json!({"entity_alias": "eve"})).await;
        assert_eq!(refused.0, 400, "{refused:?}");
        assert!(error(&refused.1).contains("allowed_entity_aliases"), "{refused:?}");
    }
    bed.end().await;
}

#[tokio::test]
async fn same_alias_yields_same_entity_across_logins() {
    let bed = Bed::new("same-alias").await;
    let (one, again) = (bed.signed_in("eve").await, bed.signed_in("eve").await);
    assert_eq!(one["entity_id"], again["entity_id"]);
    assert_ne!(one["entity_id"], bed.signed_in("Eve").await["entity_id"], "letter by letter");
    assert_eq!(bed.status_as(&one["client_token"], Verb::Read, OWN).await, 200);
    bed.end().await;
}

#[tokio::test]
async fn entity_policies_apply_to_tokens_while_assigned() {
    let bed = Bed::new("entity-policies").await;
    bed.reader("mounts", &["sys/mounts"]).await;
    let login = bed.signed_in("eve").await;
    let (token, entity) = (&login["client_token"], text(&login["entity_id"]));
    let path = format!("identity/entity/id/{entity}");
    assert_eq!(bed.status_as(token, Verb::Read, "sys/mounts").await, 403);
    bed.written(&path, json!({"policies": ["Mounts"]})).await;
    assert_eq!(bed.status_as(token, Verb::Read, "sys/mounts").await, 200);
    let own = bed.call_as(text(token), Verb::Read, OWN, json!({})).await.1;
    assert_eq!(own["data"]["identity_policies"], json!(["mounts"]));
    assert_eq!(own["data"]["policies"], json!(["default"]));
    let again = bed.signed_in("eve").await;
    assert_eq!(again["policies"], json!(["default", "mounts"]));
    assert_eq!(again["token_policies"], json!(["default"]));
    assert_eq!(again["identity_policies"], json!(["mounts"]));
    let fields = json!({"token": token, "paths": ["sys/mounts"]});
    let allowed = bed.written("sys/capabilities", fields.clone()).await;
    assert_eq!(allowed["sys/mounts"], json!(["list", "read"]));
    bed.written(&path, json!({"policies": []})).await;
    assert_eq!(bed.status_as(token, Verb::Read, "sys/mounts").await, 403);
    assert_eq!(bed.written("sys/capabilities", fields).await["sys/mounts"], json!(["deny"]));
    bed.end().await;
}

#[tokio::test]
async fn tokens_of_disabled_or_deleted_entity_are_refused() {
    let bed = Bed::new("disabled").await;
    let login = bed.signed_in("eve").await;
    let (token, entity) = (&login["client_token"], text(&login["entity_id"]));
    let child = bed.call_as(text(token), Verb::Write, "auth/token/create", json!({})).await;
    assert_eq!(child.0, 403, "default does not allow it: {child:?}");
    let path = format!("identity/entity/id/{entity}");
    bed.written(&path, json!({"disabled": true})).await;
    assert_eq!(bed.status_as(token, Verb::Read, OWN).await, 403);
    let (status, seen) = bed.write("auth/token/lookup", json!({"token": token})).await;
    assert_eq!((status, &seen["data"]["entity_id"]), (200, &json!(entity)), "{seen}");
    let fields = json!({"token": token, "paths": ["sys/mounts"]});
    assert_eq!(bed.write("sys/capabilities", fields).await.0, 403);
    let fields = json!({"entity_alias": "eve"});
    assert_eq!(bed.write("auth/token/create/people", fields).await.0, 403, "no login either");
    bed.written(&path, json!({"disabled": false})).await;
    assert_eq!(bed.status_as(token, Verb::Read, OWN).await, 200);
    assert_eq!(bed.call(Verb::Delete, &path, json!({})).await.0, 204);
    assert_eq!(bed.status_as(token, Verb::Read, OWN).await, 403);
    assert_ne!(bed.signed_in("eve").await["entity_id"], json!(entity), "a new entity");
    assert_eq!(bed.status_as(token, Verb::Read, OWN).await, 403);
    bed.end().await;
}

#[tokio::test]
async fn policy_templates_use_entity_of_token() {
    let bed = Bed::new("real-templates").await;
    let mount = bed.token_mount().await;
    let policy = format!(
        "path \"probe/note/{{{{identity.entity.aliases.{mount}.name}}}}\" {{ policy = \"read\" }}
         path \"probe/note/{{{{identity.entity.metadata.team}}}}\" {{ policy = \"read\" }}
         path \"probe/note/{{{{identity.groups.names.crew.id}}}}\" {{ policy = \"read\" }}"
    );
    bed.written("sys/policies/acl/own", json!({"policy": policy})).await;
    let login = bed.signed_in("eve").await;
    let (token, entity) = (&login["client_token"], text(&login["entity_id"]));
    let path = format!("identity/entity/id/{entity}");
    bed.written(&path, json!({"policies": "own", "metadata": {"team": "blue"}})).await;
    let crew = bed.written("identity/group", json!({"name": "crew", "member_entity_ids": entity}));
    let crew = text(&crew.await["id"]).to_owned();
    for (note, expected) in [("eve", 404), ("blue", 404), (crew.as_str(), 404), ("red", 403)] {
        let status = bed.status_as(token, Verb::Read, &format!("probe/note/{note}")).await;
        assert_eq!(status, expected, "{note}");
    }
    assert_eq!(bed.status_as(token, Verb::Read, &path).await, 200, "default: the own entity");
    let other = bed.signed_in("bob").await;
    let others = format!("identity/entity/id/{}", text(&other["entity_id"]));
    assert_eq!(bed.status_as(token, Verb::Read, &others).await, 403);
    bed.written(&path, json!({"metadata": {"team": "a*"}})).await;
    assert_eq!(bed.status_as(token, Verb::Read, "probe/note/a*").await, 403);
    bed.line("policy-rule-skipped").await;
    bed.end().await;
}

#[tokio::test]
async fn an_entity_is_written_read_renamed_and_listed() {
    let bed = Bed::new("entities").await;
    assert_eq!(bed.list("identity/entity/id", json!({})).await.0, 404);
    let fields = json!({"name": "ada", "metadata": {"team": "blue"}, "policies": ["p1"]});
    let ada = bed.written("identity/entity", fields).await;
    assert_eq!((&ada["name"], &ada["aliases"]), (&json!("ada"), &Value::Null), "{ada}");
    let id = text(&ada["id"]);
    bed.written("identity/entity", json!({"id": id, "metadata": {"team": "red"}})).await;
    let seen = bed.seen_at("identity/entity/name/ADA").await;
    assert_eq!(seen, bed.seen_at(&format!("identity/entity/id/{id}")).await);
    for (member, expected) in [
        ("aliases", json!([])),
        ("direct_group_ids", json!([])),
        ("disabled", json!(false)),
        ("merged_entity_ids", Value::Null),
        ("metadata", json!({"team": "red"})),
        ("namespace_id", json!("root")),
        ("policies", json!(["p1"])),
    ] {
        assert_eq!(seen[member], expected, "{member}");
    }
    let unnamed = bed.written("identity/entity", json!({})).await;
    assert!(text(&unnamed["name"]).starts_with("entity_"), "{unnamed}");
    let by_name = bed.written("identity/entity/name/a/b c", json!({})).await;
    assert_eq!(by_name["name"], "a/b c");
    bed.refuses("identity/entity", json!({"id": id, "name": "A/B C"}), "already in use").await;
    bed.written("identity/entity", json!({"id": id, "name": "Ada L"})).await;
    assert_eq!(bed.read("identity/entity/name/ada").await.0, 404);
    let (_, names) = bed.list("identity/entity/name", json!({})).await;
    assert_eq!(names["keys"], json!(["Ada L", "a/b c", text(&unnamed["name"])]));
    assert!(names["key_info"].is_null());
    let (_, part) = bed.list("identity/entity/name", json!({"after": "Ada L", "limit": 1})).await;
    assert_eq!(part["keys"], json!(["a/b c"]));
    let (_, ids) = bed.list("identity/entity/id", json!({})).await;
    assert_eq!(ids["keys"].as_array().unwrap().len(), 3);
    assert_eq!(ids["key_info"][id], json!({"name": "Ada L"}));
    let (_, first) = bed.list("identity/entity/id", json!({"limit": 2})).await;
    let after = &first["keys"][1];
    let (_, rest) = bed.list("identity/entity/id", json!({"after": after})).await;
    assert_eq!(rest["keys"].as_array().unwrap().len(), 1);
    let gone = json!({"entity_ids": [id, unnamed["id"], "nope"]});
    bed.written("identity/entity/batch-delete", gone).await;
    assert_eq!(bed.read(&format!("identity/entity/id/{id}")).await.0, 404);
    assert_eq!(bed.call(Verb::Delete, "identity/entity/name/none", json!({})).await.0, 204);
    bed.end().await;
}

#[tokio::test]
async fn alias_has_one_entity_with_one_mount_alias() {
    let bed = Bed::new("aliases").await;
    let mount = bed.token_mount().await;
    let ada = bed.written("identity/entity", json!({"name": "ada"})).await["id"].clone();
    let bea = bed.written("identity/entity", json!({"name": "bea"})).await["id"].clone();
    let fields = json!({"name": "eve", "mount_accessor": mount, "canonical_id": ada});
    let alias = bed.written("identity/entity-alias", fields.clone()).await;
    assert_eq!(alias["canonical_id"], ada);
    assert_eq!(bed.written("identity/entity-alias", fields).await, alias, "the same again");
    assert_eq!(bed.signed_in("eve").await["entity_id"], ada, "a login by it");
    let path = format!("identity/entity-alias/id/{}", text(&alias["id"]));
    let seen = bed.seen_at(&path).await;
    assert_eq!(
        (&seen["mount_path"], &seen["mount_type"], &seen["name"]),
        (&json!("auth/token/"), &json!("token"), &json!("eve")),
        "{seen}"
    );
    let second = json!({"name": "eva", "mount_accessor": mount, "canonical_id": ada});
    bed.refuses("identity/entity-alias", second, "another alias at the mount").await;
    let of_bea = json!({"name": "bob", "mount_accessor": mount, "canonical_id": bea});
    let of_bea = bed.written("identity/entity-alias", of_bea).await;
    bed.refuses(&path, json!({"name": "bob"}), "another alias of this name").await;
    bed.refuses(&path, json!({"canonical_id": bea}), "another alias at the mount").await;
    let bobs = format!("identity/entity-alias/id/{}", text(&of_bea["id"]));
    assert_eq!(bed.call(Verb::Delete, &bobs, json!({})).await.0, 204);
    assert_eq!(bed.written(&path, json!({"canonical_id": bea})).await["canonical_id"], bea);
    assert_eq!(bed.signed_in("eve").await["entity_id"], bea, "the alias moved to the other entity");
    assert_eq!(bed.seen_at("identity/entity/name/ada").await["aliases"], json!([]));
    bed.written(&path, json!({"name": "eve2", "custom_metadata": {"a": "b"}})).await;
    let (_, list) = bed.list("identity/entity-alias/id", json!({})).await;
    assert_eq!(list["keys"], json!([alias["id"]]));
    let info = &list["key_info"][text(&alias["id"])];
    assert_eq!((&info["name"], &info["custom_metadata"]["a"]), (&json!("eve2"), &json!("b")));
    let answer =
        bed.written("identity/entity-alias", json!({"name": "x", "mount_accessor": mount}));
    assert!(text(&answer.await["canonical_id"]).len() == 36, "a new alias has a new entity");
    bed.end().await;
}

#[tokio::test]
async fn merged_entity_tokens_continue_with_remaining_entity() {
    let bed = Bed::new("merge").await;
    bed.reader("mounts", &["sys/mounts"]).await;
    let (one, other) = (bed.signed_in("eve").await, bed.signed_in("bob").await);
    let (from, to) = (text(&one["entity_id"]), text(&other["entity_id"]));
    let crew = json!({"name": "crew", "policies": "mounts", "member_entity_ids": [from]});
    let crew = bed.written("identity/group", crew).await;
    let path = "identity/entity/merge";
    let merge = json!({"from_entity_ids": [from], "to_entity_id": to});
    bed.refuses(path, merge.clone(), "conflicting_alias_ids_to_keep").await;
    let nope = json!({"from_entity_ids": ["nope"], "to_entity_id": to});
    bed.refuses(path, nope, "entity id to merge from is invalid").await;
    let itself = json!({"from_entity_ids": [to], "to_entity_id": to});
    bed.refuses(path, itself, "should not be present").await;
    let (status, _) = bed.read(&format!("identity/entity/id/{from}")).await;
    assert_eq!(status, 200, "a refused write changes nothing");
    let forced = json!({"from_entity_ids": [from], "to_entity_id": to, "force": true});
    bed.written(path, forced).await;
    assert_eq!(bed.status_as(&one["client_token"], Verb::Read, "sys/mounts").await, 200);
    assert_eq!(bed.read(&format!("identity/entity/id/{from}")).await.0, 404);
    let seen = bed.seen_at(&format!("identity/entity/id/{to}")).await;
    assert_eq!(seen["merged_entity_ids"], json!([from]));
    assert_eq!(seen["direct_group_ids"], json!([crew["id"]]));
    assert_eq!(seen["aliases"][0]["name"], "bob", "that of the one that stays");
    let group = bed.seen_at("identity/group/name/crew").await;
    assert_eq!(group["member_entity_ids"], json!([to]));
    bed.written(&format!("identity/entity/id/{to}"), json!({"disabled": true})).await;
    for login in [&one, &other] {
        assert_eq!(bed.status_as(&login["client_token"], Verb::Read, OWN).await, 403);
    }
    bed.end().await;
}

#[tokio::test]
async fn merge_conflict_keeps_named_alias_at_mount() {
    let bed = Bed::new("merge-keep").await;
    let (one, other) = (bed.signed_in("eve").await, bed.signed_in("bob").await);
    let (from, to) = (&one["entity_id"], &other["entity_id"]);
    let found = bed.written("identity/lookup/entity", json!({"id": from})).await;
    let alias_id = &found["aliases"][0]["id"];
    let merge = json!({
        "from_entity_ids": [from], "to_entity_id": to, "conflicting_alias_ids_to_keep": [alias_id],
    });
    bed.written("identity/entity/merge", merge).await;
    assert_eq!(&bed.signed_in("eve").await["entity_id"], to);
    assert_ne!(&bed.signed_in("bob").await["entity_id"], to, "the alias that was not kept");
    let alias = bed.seen_at(&format!("identity/entity-alias/id/{}", text(alias_id))).await;
    assert_eq!((&alias["canonical_id"], &alias["merged_from_canonical_ids"]), (to, &json!([from])));
    bed.end().await;
}

#[tokio::test]
async fn entity_lookup_finds_by_every_known_attribute() {
    let bed = Bed::new("lookup").await;
    let mount = bed.token_mount().await;
    let login = bed.signed_in("eve").await;
    let path = "identity/lookup/entity";
    let by_id = bed.written(path, json!({"id": login["entity_id"]})).await;
    for query in [
        json!({"name": by_id["name"]}),
        json!({"alias_id": by_id["aliases"][0]["id"]}),
        json!({"alias_name": "eve", "alias_mount_accessor": mount}),
    ] {
        assert_eq!(bed.written(path, query.clone()).await, by_id, "{query}");
    }
    for nothing in [json!({"name": "none"}), json!({"id": "none"}), json!({"alias_id": "none"})] {
        assert_eq!(bed.write(path, nothing.clone()).await.0, 204, "{nothing}");
    }
    bed.refuses(path, json!({}), "query parameter not supplied").await;
    bed.refuses(path, json!({"id": "a", "name": "b"}), "several query parameters").await;
    bed.refuses(path, json!({"alias_name": "eve"}), "together").await;
    bed.end().await;
}

#[tokio::test]
async fn invalid_entity_or_alias_is_refused_without_change() {
    let bed = Bed::new("bad-entities").await;
    let mount = bed.token_mount().await;
    let ada = bed.written("identity/entity", json!({"name": "ada"})).await["id"].clone();
    let before = bed.seen_at("identity/entity/name/ada").await;
    let many = (0..65).map(|n| (n.to_string(), json!("x"))).collect::<serde_json::Map<_, _>>();
    let long = "x".repeat(513);
    for (fields, why) in [
        (json!({"id": "00000000-0000-0000-0000-000000000000"}), "no entity with the id"),
        (json!({"id": "nope"}), "no entity with the id"),
        (json!({"id": ada, "name": long}), "513 bytes"),
        (json!({"id": ada, "name": "a\nb"}), "control character"),
        (json!({"id": ada, "policies": ["root"]}), "cannot contain root"),
        (json!({"id": ada, "policies": ["Root"]}), "cannot contain root"),
        (json!({"id": ada, "policies": ["response-wrapping"]}), "response-wrapping"),
        (json!({"id": ada, "metadata": 3}), "metadata"),
        (json!({"id": ada, "metadata": many}), "at most 64"),
        (json!({"id": ada, "metadata": {"k": "x".repeat(1_025)}}), "1025 bytes"),
        (json!({"id": ada, "disabled": "perhaps"}), "disabled"),
    ] {
        bed.refuses("identity/entity", fields, why).await;
    }
    for (fields, why) in [
        (json!({"canonical_id": ada, "mount_accessor": mount}), "must be provided"),
        (json!({"name": "eve", "canonical_id": ada}), "must be provided"),
        (json!({"name": "eve", "canonical_id": ada, "mount_accessor": "zzz"}), "mount accessor"),
        (json!({"name": "eve", "canonical_id": "zzz", "mount_accessor": mount}), "canonical ID"),
        (json!({"id": "zzz", "name": "eve"}), "invalid alias id"),
        (json!({"name": long, "canonical_id": ada, "mount_accessor": mount}), "513 bytes"),
    ] {
        bed.refuses("identity/entity-alias", fields, why).await;
    }
    assert_eq!(bed.seen_at("identity/entity/name/ada").await, before);
    assert_eq!(bed.list("identity/entity-alias/id", json!({})).await.0, 404);
    bed.end().await;
}

#[tokio::test]
async fn person_names_appear_in_no_store_file() {
    let bed = Bed::new("names-sealed").await;
    bed.signed_in("zq-eve@corp.example").await;
    bed.written("identity/entity", json!({"name": "zq-ada-lovelace"})).await;
    bed.written("identity/group", json!({"name": "zq-crew-of-night"})).await;
    let directory = bed.stop().await;
    for file in std::fs::read_dir(&directory).unwrap() {
        let path = file.unwrap().path();
        if !path.is_file() || path.ends_with("audit.log") {
            continue;
        }
        let bytes = std::fs::read(&path).unwrap();
        let shown = String::from_utf8_lossy(&bytes).contains("zq-");
        assert!(!shown, "{} shows a name", path.display());
    }
    std::fs::remove_dir_all(directory).unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn forty_long_listings_at_once_are_all_whole() {
    let bed = Arc::new(Bed::new("identity-long").await);
    let mut ids = BTreeSet::new();
    // Each entity takes 40 bytes as a key, and more than 200 bytes with all details: beyond 64 KiB.
    for number in 0..400 {
        let entity = json!({"name": format!("{}-{number}", "n".repeat(150))});
        let answer = bed.written("identity/entity", entity).await;
        ids.insert(answer["id"].as_str().unwrap().to_owned());
    }
    let listing: Vec<_> = (0..40)
        .map(|number| {
            let bed = Arc::clone(&bed);
            let path = if number % 2 == 0 { "identity/entity/id" } else { "identity/entity/name" };
            tokio::spawn(async move { bed.list(path, json!({})).await })
        })
        .collect();
    for (number, one) in listing.into_iter().enumerate() {
        let (status, data) = one.await.unwrap();
        let keys = data["keys"].as_array().unwrap();
        assert_eq!((status, keys.len()), (200, 400));
        assert!(keys.is_sorted_by_key(|key| key.as_str().unwrap()), "{keys:?}");
        if number % 2 == 0 {
            let listed: BTreeSet<String> =
                data["key_info"].as_object().unwrap().keys().cloned().collect();
            assert_eq!(listed, ids);
        }
    }
    let (_, part) = bed.list("identity/entity/name", json!({"limit": "3"})).await;
    let after = part["keys"][2].clone();
    let (_, rest) = bed.list("identity/entity/name", json!({"after": after})).await;
    assert_eq!(rest["keys"].as_array().unwrap().len(), 397);
    let tokens = bed.list("auth/token/accessors", json!({"limit": "1"})).await.1;
    assert_eq!(tokens["keys"].as_array().unwrap().len(), 1);
    Arc::into_inner(bed).unwrap().end().await;
}

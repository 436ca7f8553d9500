//! Proved groups and metadata belong to the proving login: not to another login by the same alias,
//! and no longer than the proving alias stands.

use crate::bed::Bed;
use crate::identity::text;
use crate::logins::open;
use bulkhead_wire::description::Verb;
use serde_json::{Value, json};

/// The paths that the groups of the projects p and p2 may read.
const OF_P: &str = "sys/mounts";
const OF_P2: &str = "sys/auth";
/// The policy of all logins.
const COMMON: &str = r#"
    path "auth/token/create" { capabilities = ["update"] }
    path "auth/token/renew-self" { capabilities = ["update"] }
    path "identity/oidc/token/*" { capabilities = ["read"] }
"#;

impl Bed {
    async fn auth_accessor(&self, mount: &str) -> String {
        text(&self.seen_at("sys/auth").await[mount]["accessor"]).to_owned()
    }

    /// An external group with this alias at the mount; the policy of the group reads a path.
    async fn project(&self, mount: &str, alias: &str, reads: &str) -> (String, String) {
        self.reader(alias, &[reads]).await;
        let settings = json!({"name": alias, "type": "external", "policies": alias});
        let group = self.group(settings).await;
        let accessor = self.auth_accessor(mount).await;
        let fields = json!({"name": alias, "mount_accessor": accessor, "canonical_id": group});
        let written = self.written("identity/group-alias", fields).await;
        (group, text(&written["id"]).to_owned())
    }

    /// The projects p and p2 of the doorman, and the common rights of their logins.
    async fn projects(&self) {
        self.project("doorman/", "p", OF_P).await;
        self.project("doorman/", "p2", OF_P2).await;
        let accessor = self.auth_accessor("doorman/").await;
        let own = format!("{{{{identity.entity.aliases.{accessor}.metadata.project}}}}");
        let policy = format!("{COMMON} path \"probe/note/{own}\" {{ policy = \"read\" }}");
        self.written("sys/policies/acl/common", json!({"policy": policy})).await;
    }

    /// A login by the role of all projects.
    async fn by_role(&self, project: &str) -> Value {
        self.admit(of_project(project)).await
    }

    /// Checks the project that the token counts as: by the groups, by the metadata, and by the
    /// answers to others about the token.
    async fn counts_as(&self, token: &Value, project: &str) {
        for (path, of) in [(OF_P, "p"), (OF_P2, "p2")] {
            let allowed = of == project;
            let expected = if allowed { 200 } else { 403 };
            assert_eq!(self.status_as(token, Verb::Read, path).await, expected, "{path}");
            let fields = json!({"token": token, "paths": [path]});
            let capabilities = self.written("sys/capabilities", fields).await;
            assert_eq!(capabilities[path] != json!(["deny"]), allowed, "{path}: {capabilities}");
            let note = format!("probe/note/{of}");
            let expected = if allowed { 404 } else { 403 };
            assert_eq!(self.status_as(token, Verb::Read, &note).await, expected, "{note}");
        }
        let (_, own) =
            self.write("auth/token/lookup", json!({"token": token.as_str().unwrap()})).await;
        assert_eq!(own["data"]["identity_policies"], json!([project]), "{own}");
    }

    /// A token created with another token.
    async fn child(&self, of: &Value, fields: Value) -> Value {
        let (status, answer) =
            self.call_as(text(of), Verb::Write, "auth/token/create", fields).await;
        assert_eq!(status, 200, "{answer}");
        answer["auth"].clone()
    }
}

fn of_project(project: &str) -> Value {
    json!({
        "alias": "role-1", "groups": [project], "known": {"project": project},
        "policies": ["common"], "ttl": 600,
    })
}

#[tokio::test]
async fn token_gains_nothing_from_another_projects_login() {
    let bed = open("proof-own").await;
    bed.projects().await;
    let first = bed.by_role("p").await;
    let batch = json!({"token_type": "batch"});
    let child = bed.child(&first["client_token"], json!({"policies": ["common"]})).await;
    let grandchild = bed.child(&child["client_token"], json!({"policies": ["common"]})).await;
    let of_batch =
        bed.child(&first["client_token"], json!({"type": "batch", "policies": ["common"]})).await;
    let mut said = of_project("p");
    said.as_object_mut().unwrap().extend(batch.as_object().unwrap().clone());
    let sealed = bed.admit(said).await;
    let second = bed.by_role("p2").await;
    assert_eq!(first["entity_id"], second["entity_id"], "both logins have one entity");
    assert_eq!(second["identity_policies"], json!(["p2"]));
    bed.counts_as(&second["client_token"], "p2").await;
    for of_p in [&first, &child, &grandchild, &of_batch, &sealed] {
        bed.counts_as(&of_p["client_token"], "p").await;
    }
    let entity = format!("identity/entity/id/{}", text(&first["entity_id"]));
    let seen = bed.seen_at(&entity).await;
    assert_eq!(
        seen["aliases"][0]["metadata"],
        json!({"project": "p2"}),
        "the alias has the metadata of the latest login"
    );
    let silent = bed.admit(json!({"alias": "role-1", "policies": ["common"]})).await;
    assert_eq!(
        silent["identity_policies"],
        json!([]),
        "a login without groups has no policies of groups"
    );
    bed.end().await;
}

#[tokio::test]
async fn renewal_updates_group_policies_of_token_and_children() {
    let bed = open("proof-renewed").await;
    bed.projects().await;
    let first = bed.by_role("p").await;
    let child = bed.child(&first["client_token"], json!({"policies": ["common"]})).await;
    bed.by_role("p2").await;
    assert_eq!(bed.renew(&first["client_token"]).await.0, 200);
    bed.by_role("p2").await;
    bed.counts_as(&first["client_token"], "p").await;
    let moved = json!({"say": {"groups": ["p2"], "known": {"project": "p2"}}});
    assert_eq!(bed.write("auth/doorman/renewals", moved).await.0, 204);
    let (status, renewed) = bed.renew(&first["client_token"]).await;
    assert_eq!((status, &renewed["auth"]["identity_policies"]), (200, &json!(["p2"])));
    bed.by_role("p").await;
    for token in [&first, &child] {
        bed.counts_as(&token["client_token"], "p2").await;
    }
    let out = json!({"say": {"groups": []}});
    assert_eq!(bed.write("auth/doorman/renewals", out).await.0, 204);
    let (status, renewed) = bed.renew(&first["client_token"]).await;
    assert_eq!((status, &renewed["auth"]["identity_policies"]), (200, &json!([])));
    for token in [&first, &child] {
        assert_eq!(bed.status_as(&token["client_token"], Verb::Read, OF_P2).await, 403);
    }
    bed.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn oidc_claims_carry_only_facts_of_own_login() {
    let bed = open("proof-told").await;
    bed.projects().await;
    bed.write("identity/oidc/config", json!({"issuer": "https://bulkhead.example.com"})).await;
    let accessor = bed.auth_accessor("doorman/").await;
    let template = format!(
        "{{\"groups\": {{{{identity.entity.groups.names}}}}, \
          \"known\": {{{{identity.entity.aliases.{accessor}.metadata}}}}}}"
    );
    let role = json!({"key": "default", "client_id": "web", "template": template});
    bed.written("identity/oidc/key/default", json!({"algorithm": "EdDSA"})).await;
    bed.written("identity/oidc/role/web", role).await;
    let first = bed.by_role("p").await;
    bed.by_role("p2").await;
    let token = text(&first["client_token"]);
    let (_, answer) = bed.call_as(token, Verb::Read, "identity/oidc/token/web", json!({})).await;
    let claims = crate::oidc::opened(text(&answer["data"]["token"]))[1].clone();
    assert_eq!((&claims["groups"], &claims["known"]), (&json!(["p"]), &json!({"project": "p"})));
    bed.end().await;
}

/// A person with an alias at two mounts. The login at the first mount proved a group.
struct Person {
    entity: String,
    /// Id of the alias at the first mount.
    alias: String,
    group: String,
    group_alias: String,
    /// Token of the login with the proven group.
    own: Value,
    /// The answer to a login at the other mount.
    elsewhere: Value,
    /// The path that the group may read.
    reads: String,
}

const LOGIN_ELSEWHERE: &str = "auth/second/login";

impl Bed {
    async fn second_doorman(&self) {
        self.written("sys/auth/second", json!({"type": "doorman"})).await;
    }

    async fn admit_elsewhere(&self, name: &str) -> Value {
        let say = json!({"say": {"alias": name}});
        let (status, answer) = self.call_as("", Verb::Write, LOGIN_ELSEWHERE, say).await;
        assert_eq!(status, 200, "{answer}");
        answer["auth"].clone()
    }

    async fn person(&self, name: &str) -> Person {
        let reads = format!("probe/note/{name}");
        let (group, group_alias) = self.project("doorman/", name, &reads).await;
        let own = self.admit(json!({"alias": name, "groups": [name]})).await;
        let entity = text(&own["entity_id"]).to_owned();
        let second = self.auth_accessor("second/").await;
        let linked = json!({"name": name, "mount_accessor": second, "canonical_id": entity});
        self.written("identity/entity-alias", linked).await;
        let elsewhere = self.admit_elsewhere(name).await;
        assert_eq!(elsewhere["entity_id"], own["entity_id"]);
        let aliases =
            self.seen_at(&format!("identity/entity/id/{entity}")).await["aliases"].clone();
        let at_first = |alias: &&Value| alias["mount_path"] == "auth/doorman/";
        let alias = aliases.as_array().unwrap().iter().find(at_first).unwrap();
        let alias = text(&alias["id"]).to_owned();
        let person = Person { entity, alias, group, group_alias, own, elsewhere, reads };
        self.allows(&person, true).await;
        person
    }

    /// Checks that both tokens have, or do not have, the rights of the group.
    async fn allows(&self, person: &Person, expected: bool) {
        for token in [&person.own, &person.elsewhere] {
            assert_eq!(self.may(token, &person.reads).await, expected, "{}", person.reads);
        }
    }

    async fn may(&self, login: &Value, path: &str) -> bool {
        self.status_as(&login["client_token"], Verb::Read, path).await != 403
    }

    async fn delete(&self, path: &str) {
        assert_eq!(self.call(Verb::Delete, path, json!({})).await.0, 204, "{path}");
    }
}

#[tokio::test]
async fn login_proof_ends_or_moves_with_alias() {
    let bed = open("proof-alias").await;
    bed.second_doorman().await;
    let deleted = bed.person("deleted").await;
    bed.delete(&format!("identity/entity-alias/id/{}", deleted.alias)).await;
    bed.allows(&deleted, false).await;
    let members = bed.seen_at(&format!("identity/group/id/{}", deleted.group)).await;
    assert_eq!(members["member_entity_ids"], json!([]));
    let doorman = bed.auth_accessor("doorman/").await;
    let again =
        json!({"name": "deleted", "mount_accessor": doorman, "canonical_id": deleted.entity});
    bed.written("identity/entity-alias", again).await;
    bed.allows(&deleted, false).await;
    bed.admit(json!({"alias": "deleted", "groups": ["deleted"]})).await;
    assert!(bed.may(&deleted.elsewhere, &deleted.reads).await, "proven again");
    assert!(!bed.may(&deleted.own, &deleted.reads).await, "groups of another alias do not count");

    let renamed = bed.person("renamed").await;
    let path = format!("identity/entity-alias/id/{}", renamed.alias);
    bed.written(&path, json!({"name": "another"})).await;
    bed.allows(&renamed, false).await;
    bed.written(&path, json!({"name": "renamed"})).await;
    assert!(!bed.may(&renamed.elsewhere, &renamed.reads).await, "nothing was proven since");

    let moved = bed.person("moved").await;
    let other = bed.admit_elsewhere("other").await;
    assert!(!bed.may(&other, &moved.reads).await);
    let path = format!("identity/entity-alias/id/{}", moved.alias);
    bed.written(&path, json!({"canonical_id": other["entity_id"]})).await;
    bed.allows(&moved, false).await;
    assert!(bed.may(&other, &moved.reads).await, "the groups moved with the alias");
    bed.end().await;
}

#[tokio::test]
async fn entity_merge_keeps_proofs_of_kept_aliases() {
    let bed = open("proof-merged").await;
    bed.second_doorman().await;
    let merged = |from: &str, to: &Value| {
        let (from, to) = ([from], to);
        json!({"from_entity_ids": from, "to_entity_id": to, "force": true})
    };
    let survivor = bed.person("kept").await;
    let to = bed.admit_elsewhere("bob").await;
    bed.written("identity/entity/merge", merged(&survivor.entity, &to["entity_id"])).await;
    bed.allows(&survivor, true).await;
    assert!(bed.may(&to, &survivor.reads).await);

    let dropped = bed.person("dropped").await;
    let to = bed.admit(json!({"alias": "zoe", "groups": []})).await;
    bed.written("identity/entity/merge", merged(&dropped.entity, &to["entity_id"])).await;
    bed.allows(&dropped, false).await;
    assert!(!bed.may(&to, &dropped.reads).await, "no alias of its entity proved it");
    let seen = bed.seen_at(&format!("identity/group/id/{}", dropped.group)).await;
    assert_eq!(seen["member_entity_ids"], json!([]));
    bed.end().await;
}

#[tokio::test]
async fn external_group_contains_members_with_proven_alias_only() {
    let bed = open("proof-group-alias").await;
    bed.second_doorman().await;
    let doorman = bed.auth_accessor("doorman/").await;
    let path = |person: &Person| format!("identity/group-alias/id/{}", person.group_alias);
    let deleted = bed.person("deleted").await;
    bed.delete(&path(&deleted)).await;
    let again =
        json!({"name": "deleted", "mount_accessor": doorman, "canonical_id": deleted.group});
    bed.written("identity/group-alias", again).await;
    bed.allows(&deleted, false).await;
    bed.emptied(&deleted.group).await;

    let renamed = bed.person("renamed").await;
    bed.written(&path(&renamed), json!({"name": "other"})).await;
    bed.allows(&renamed, false).await;
    let joined = bed.admit(json!({"alias": "renamed", "groups": ["other"]})).await;
    assert!(bed.may(&joined, &renamed.reads).await, "the renewal proved the present name");
    assert!(!bed.may(&renamed.own, &renamed.reads).await);

    let moved = bed.person("moved").await;
    let heir = bed.group(json!({"name": "heir", "type": "external", "policies": "moved"})).await;
    bed.written(&path(&moved), json!({"canonical_id": heir})).await;
    bed.allows(&moved, false).await;

    let elsewhere = bed.person("elsewhere").await;
    let second = bed.auth_accessor("second/").await;
    bed.written(&path(&elsewhere), json!({"mount_accessor": second})).await;
    bed.allows(&elsewhere, false).await;
    bed.end().await;
}

#[tokio::test]
async fn mount_removal_ends_proofs_despite_same_path_remount() {
    let bed = open("proof-mount").await;
    bed.second_doorman().await;
    let person = bed.person("amy").await;
    bed.delete("sys/auth/doorman").await;
    bed.allows(&person, false).await;
    bed.written("sys/auth/doorman", json!({"type": "doorman"})).await;
    bed.allows(&person, false).await;
    let (status, refused) = bed.renew(&person.own["client_token"]).await;
    assert_eq!(status, 403, "{refused}");

    bed.end().await;
}

//! Policies as written and met by clients: both vocabularies, refused texts, and rules about paths
//! and parameters that hold for every spelling of a request.

use crate::bed::{Bed, error, request};
use bulkhead_wire::description::Verb;
use serde_json::{Value, json};
use std::time::{Duration, Instant};

const READ: &str = r#"path "probe/note/*" { capabilities = ["read"] }"#;

impl Bed {
    /// A token with the policy `text` and nothing else.
    async fn token_with(&self, name: &str, text: &str) -> String {
        let (status, refused) =
            self.write(&format!("sys/policies/acl/{name}"), json!({"policy": text})).await;
        assert_eq!(status, 204, "{text}: {refused}");
        self.token_of(json!({"policies": [name], "no_default_policy": true})).await
    }

    async fn token_of(&self, fields: Value) -> String {
        let (status, answer) = self.write("auth/token/create", fields).await;
        assert_eq!(status, 200, "{answer}");
        answer["auth"]["client_token"].as_str().unwrap().to_owned()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn policy_is_managed_in_both_api_vocabularies() {
    let bed = Bed::new("vocabularies").await;
    for (base, member, written) in
        [("sys/policies/acl", "policy", "policy"), ("sys/policy", "rules", "rules")]
    {
        let path = format!("{base}/readers");
        assert_eq!(bed.read(&path).await.0, 404);
        assert_eq!(bed.write(&path, json!({written: READ})).await.0, 204);
        let (_, read) = bed.read(&path).await;
        assert_eq!(read["data"], json!({"name": "readers", member: READ}));
        let (status, listed) = bed.call(Verb::List, base, json!({})).await;
        assert_eq!(
            (status, &listed["data"]["keys"]),
            (200, &json!(["default", "readers", "root"]))
        );
        assert_eq!(bed.call(Verb::Delete, &path, json!({})).await.0, 204);
        assert_eq!(bed.call(Verb::Delete, &path, json!({})).await.0, 204, "gone is deleted");
        assert_eq!(bed.read(&path).await, (404, json!({"errors": []})));
    }
    for (name, text) in [("rules", READ), ("policy", READ)] {
        assert_eq!(
            bed.write("sys/policies/acl/either", json!({name: text})).await.0,
            204,
            "{name}"
        );
    }
    let both = json!({"policy": READ, "rules": ""});
    assert_eq!(
        bed.write("sys/policies/acl/both", both).await.0,
        400,
        "two names of one field that differ"
    );
    bed.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn policy_names_are_lowercased_with_warning_allowing_slashes() {
    let bed = Bed::new("names").await;
    let (status, answer) =
        bed.write("sys/policies/acl/Team/Readers", json!({"policy": READ})).await;
    assert_eq!(status, 200, "{answer}");
    assert_eq!(
        answer["warnings"],
        json!([r#"the policy's name is "team/readers": names are in lower case"#])
    );
    let (_, read) = bed.read("sys/policies/acl/TEAM/readers").await;
    assert_eq!(
        (&read["data"]["name"], read["warnings"].as_array().unwrap().len()),
        (&json!("team/readers"), 1)
    );
    assert!(bed.read("sys/policy/team/readers").await.1["warnings"].is_null());
    assert_eq!(bed.call(Verb::Delete, "sys/policies/acl/Team/readers", json!({})).await.0, 204);
    assert_eq!(bed.read("sys/policies/acl/team/readers").await.0, 404);
    bed.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn policy_sent_as_base64_is_stored_as_text() {
    let bed = Bed::new("base64").await;
    let encoded = "cGF0aCAicHJvYmUvbm90ZS8qIiB7IGNhcGFiaWxpdGllcyA9IFsicmVhZCJdIH0=";
    assert_eq!(bed.write("sys/policies/acl/readers", json!({"policy": encoded})).await.0, 204);
    assert_eq!(bed.read("sys/policies/acl/readers").await.1["data"]["policy"], READ);
    let (status, refused) =
        bed.write("sys/policies/acl/x", json!({"policy": "bm90IGEgcG9saWN5"})).await;
    assert_eq!(status, 400, "{refused}");
    bed.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn built_in_policies_are_guarded_and_default_editable() {
    let bed = Bed::new("built-in").await;
    for name in ["root", "Root", "response-wrapping"] {
        let path = format!("sys/policies/acl/{name}");
        assert_eq!(bed.write(&path, json!({"policy": READ})).await.0, 400, "{name}");
        assert_eq!(bed.call(Verb::Delete, &path, json!({})).await.0, 400, "{name}");
        assert_eq!(bed.read(&path).await.0, 200, "{name}");
    }
    assert_eq!(bed.call(Verb::Delete, "sys/policies/acl/default", json!({})).await.0, 400);
    assert_eq!(
        bed.write("auth/token/create", json!({"policies": ["response-wrapping"]})).await.0,
        400
    );

    let token = bed.token_of(json!({"policies": ["default"]})).await;
    let look =
        async || bed.call_as(&token, Verb::Read, "auth/token/lookup-self", json!({})).await.0;
    assert_eq!(look().await, 200);
    assert_eq!(bed.write("sys/policies/acl/default", json!({"policy": READ})).await.0, 204);
    assert_eq!(look().await, 403, "an edited policy counts for the next request");
    assert_eq!(bed.call_as(&token, Verb::Read, "probe/note/x", json!({})).await.0, 404);
    bed.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn invalid_policy_text_is_refused_keeping_previous() {
    let bed = Bed::new("refused").await;
    bed.write("sys/policies/acl/kept", json!({"policy": READ})).await;
    let bombs = [
        "a {".repeat(100_000),
        format!("a = {}", "[".repeat(200_000)),
        format!("{{\"path\": {}1{}}}", "[".repeat(200_000), "]".repeat(200_000)),
        "path \"x\" {}\n".repeat(6_000),
        "a = <<E\nE\n".repeat(40_000),
        format!("{} = 1", "k".repeat(400_000)),
        format!("path \"{}\" {{}}", "x".repeat(5_000)),
        format!("# {}", "x".repeat(1_000_000)),
    ];
    let texts = [
        "path \"x\" { capabilities = [\"raed\"] }",
        "path \"x\" { control_group = {} }",
        "path \"x\" { unknown = 1 }",
        "path \"x\" { capabilities = [\"read\"] capabilities = [\"deny\"] }",
        "path \"x/{{identity.entity.id\" { capabilities = [\"read\"] }",
        "path \"x/{{identity.nobody}}\" { capabilities = [\"read\"] }",
        "path \"x\" {",
        "\u{0}",
    ];
    let began = Instant::now();
    for text in texts.into_iter().chain(bombs.iter().map(String::as_str)) {
        let start: String = text.chars().take(60).collect();
        let (status, refused) = bed.write("sys/policies/acl/kept", json!({"policy": text})).await;
        assert_eq!(status, 400, "{start}: {refused}");
        assert!(error(&refused).contains("failed to parse policy: line "), "{start}: {refused}");
        assert!(error(&refused).len() < 700, "{start}: {refused}");
    }
    assert!(began.elapsed() < Duration::from_secs(10), "{:?}", began.elapsed());
    for empty in [json!({}), json!({"policy": ""}), json!({"policy": null}), json!({"policy": []})]
    {
        assert_eq!(bed.write("sys/policies/acl/kept", empty).await.0, 400);
    }
    for name in ["a,b", "x".repeat(300).as_str()] {
        assert_eq!(
            bed.write(&format!("sys/policies/acl/{name}"), json!({"policy": READ})).await.0,
            400,
            "{name}"
        );
    }
    assert_eq!(bed.read("sys/policies/acl/kept").await.1["data"]["policy"], READ);
    bed.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn capabilities_are_listed_for_own_and_other_token() {
    let bed = Bed::new("capabilities").await;
    let text = r#"path "probe/*" { capabilities = ["update", "list", "create"] }
                  path "probe/closed" { capabilities = ["deny"] }
                  path "sys/capabilities-self" { capabilities = ["update"] }"#;
    let token = bed.token_with("probers", text).await;
    let own = async |fields: Value| {
        bed.call_as(&token, Verb::Write, "sys/capabilities-self", fields).await
    };
    let (status, one) = own(json!({"path": "/probe/x"})).await;
    let words = json!(["create", "list", "update"]);
    assert_eq!((status, &one["data"]), (200, &json!({"/probe/x": words, "capabilities": words})));
    assert_eq!(
        (&one["/probe/x"], &one["capabilities"]),
        (&words, &words),
        "copied to the top level"
    );
    let (_, several) = own(json!({"paths": ["probe/x", "probe/closed", "other"]})).await;
    let all = json!({"probe/x": words, "probe/closed": ["deny"], "other": ["deny"]});
    assert_eq!(several["data"], all);

    let of_other = json!({"token": token, "paths": "probe/x,probe/closed,other"});
    assert_eq!(bed.write("sys/capabilities", of_other.clone()).await.1["data"], all);
    let of_root = json!({"token": "root", "path": "any"});
    assert_eq!(
        bed.write("sys/capabilities", of_root).await.1["data"]["capabilities"],
        json!(["root"])
    );
    assert_eq!(bed.call_as(&token, Verb::Write, "sys/capabilities", of_other.clone()).await.0, 403);

    let (status, refused) =
        bed.write("sys/capabilities", json!({"token": "bhs.forged", "path": "x"})).await;
    assert_eq!(status, 400);
    assert!(
        error(&refused).contains("bad token") && !error(&refused).contains("forged"),
        "{refused}"
    );
    for incomplete in
        [json!({"path": "x"}), json!({"token": token}), json!({"token": token, "paths": []})]
    {
        assert_eq!(bed.write("sys/capabilities", incomplete).await.0, 400);
    }
    let many: Vec<String> = (0..1_001).map(|number| format!("x/{number}")).collect();
    assert_eq!(bed.write("sys/capabilities", json!({"token": token, "paths": many})).await.0, 400);

    assert_eq!(bed.write("auth/token/revoke", json!({"token": token})).await.0, 204);
    assert_eq!(
        bed.write("sys/capabilities", of_other).await.0,
        400,
        "a revoked token may do nothing"
    );
    bed.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn unauthorized_caller_learns_nothing_about_existing_paths() {
    let bed = Bed::new("silence").await;
    bed.write("sys/policies/acl/exists", json!({"policy": READ})).await;
    let token = bed.token_with("readers", READ).await;
    let asks = [
        (Verb::Read, "sys/policies/acl/exists", "sys/policies/acl/other"),
        (Verb::Delete, "sys/policies/acl/exists", "sys/policies/acl/other"),
        (Verb::Write, "probe/count/x", "probe/nothing/x"),
        (Verb::Read, "probe/count/x", "nowhere/count/x"),
        (Verb::List, "sys/policies/acl", "sys/nothing/acl"),
    ];
    for (verb, there, not_there) in asks {
        let refusal = async |path: &str| {
            let (status, refused) = bed.call_as(&token, verb, path, json!({"policy": "x"})).await;
            (status, error(&refused).replace(path, "…"))
        };
        let (status, why) = refusal(there).await;
        assert!(
            status == 403 && why.starts_with("permission denied: this token may not "),
            "{there}: {why}"
        );
        assert_eq!(refusal(not_there).await, (status, why), "{there} and {not_there}");
    }
    bed.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn policy_rule_holds_for_every_name_spelling() {
    let bed = Bed::new("spellings").await;
    let rules = r#"path "sys/policies/acl/*" {
                       capabilities = ["create", "read", "update", "delete"]
                   }
                   path "sys/policies/acl/admin" { capabilities = ["deny"] }"#;
    assert_eq!(bed.write("sys/policies/acl/admin", json!({"policy": READ})).await.0, 204);
    let token = bed.token_with("helpdesk", rules).await;
    for spelling in ["admin", "ADMIN", "Admin"] {
        let path = format!("sys/policies/acl/{spelling}");
        for verb in [Verb::Read, Verb::Write, Verb::Delete] {
            let (status, answer) = bed.call_as(&token, verb, &path, json!({"policy": ""})).await;
            assert_eq!(status, 403, "{verb:?} {path}: {answer}");
        }
    }
    assert_eq!(bed.read("sys/policies/acl/admin").await.1["data"]["policy"], READ);
    let (status, answer) =
        bed.call_as(&token, Verb::Write, "sys/policies/acl/Other", json!({"policy": READ})).await;
    assert_eq!((status, answer["warnings"].as_array().map(Vec::len)), (200, Some(1)), "{answer}");
    bed.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_denied_folder_cannot_be_listed() {
    let bed = Bed::new("list").await;
    let lists = r#"path "sys/*" { capabilities = ["list", "sudo"] }"#;
    for (number, deny) in [
        "sys/policies/acl",
        "sys/policies/acl/",
        "sys/policies/*",
        "sys/policies/acl*",
        "sys/+/acl",
        "sys/policies/+",
    ]
    .into_iter()
    .enumerate()
    {
        let name = format!("lister-{number}");
        let token = bed
            .token_with(&name, &format!("{lists} path \"{deny}\" {{ capabilities = [\"deny\"] }}"))
            .await;
        for (folder, expected) in
            [("sys/policies/acl", 403), ("sys/policy", 403), ("sys/plugins/catalog/secret", 200)]
        {
            let (status, answer) = bed.call_as(&token, Verb::List, folder, json!({})).await;
            assert_eq!(status, expected, "{folder} with {deny}: {answer}");
        }
    }
    bed.end().await;
}

/// Checks the status of each way of sending something forbidden by the policy.
async fn assert_statuses(bed: &Bed, token: &str, path: &str, rows: &[(Value, u16)]) {
    for (fields, expected) in rows {
        let (status, answer) = bed.call_as(token, Verb::Write, path, fields.clone()).await;
        assert_eq!(status, *expected, "{path} {fields}: {answer}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn forbidden_parameter_is_refused_in_every_spelling() {
    let bed = Bed::new("parameters").await;
    let rule =
        |text: &str| format!("path \"auth/token/create\" {{ capabilities = [\"update\"] {text} }}");
    let denied = bed.token_with("denied", &rule(r#"denied_parameters = { "ttl" = [] }"#)).await;
    let rows = [
        (json!({"display_name": "a"}), 200),
        (json!({"ttl": null, "display_name": "a"}), 200),
        (json!({"ttl": "1h"}), 403),
        (json!({"lease": "1h"}), 403),
        (json!({"TTL": "1h"}), 403),
        (json!({"Lease": 3600}), 403),
        (json!({"ttl": "1h", "lease": "2h"}), 403),
        (json!({"ttl": {"a": [1]}}), 403),
    ];
    assert_statuses(&bed, &denied, "auth/token/create", &rows).await;

    let value = bed
        .token_with(
            "value",
            &rule(r#"allowed_parameters = { "lease" = ["1h"], "meta" = ["team=*"] }"#),
        )
        .await;
    let rows = [
        (json!({}), 200),
        (json!({"ttl": "1h"}), 200),
        (json!({"ttl": 3600, "lease": "60m"}), 200),
        (json!({"lease": "3600", "meta": {"team": "a"}}), 200),
        (json!({"meta": ["team=a"]}), 200),
        (json!({"ttl": "1h", "lease": "2h"}), 403),
        (json!({"ttl": "2h"}), 403),
        (json!({"ttl": 3601}), 403),
        (json!({"meta": {"team": "a", "role": "b"}}), 403),
        (json!({"ttl": "1h", "policies": ["value"]}), 403),
        (json!({"ttl": "1h", "unknown": 1}), 403),
        (json!({"ttl": "1h", "TTL": "2h"}), 403),
    ];
    assert_statuses(&bed, &value, "auth/token/create", &rows).await;

    let list = bed
        .token_with("list", &rule(r#"denied_parameters = { "policies" = ["list", "sec*"] }"#))
        .await;
    let rows = [
        (json!({"policies": ["list"]}), 403),
        (json!({"policies": "other, list"}), 403),
        (json!({"policies": ["other", "secret"]}), 403),
        (json!({"policies": [["list"]]}), 403),
        (json!({"policies": []}), 200),
    ];
    assert_statuses(&bed, &list, "auth/token/create", &rows).await;
    bed.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn required_parameters_are_asked_for_before_anything_else() {
    let bed = Bed::new("required").await;
    let text = r#"path "probe/lease/*" {
        capabilities = ["update"]
        required_parameters = ["TTL", "ticket"]
        allowed_parameters = { "ttl" = [600], "ticket" = ["OPS-*"], "name" = ["never"] }
    }"#;
    let token = bed.token_with("leaser", text).await;
    let rows = [
        (json!({"ttl": 600, "ticket": "OPS-1"}), 200),
        (json!({"ttl": "10m", "ticket": "OPS-1", "name": "a"}), 200),
        (json!({}), 403),
        (json!({"ttl": 600}), 403),
        (json!({"ttl": 600, "ticket": null}), 403),
        (json!({"TTL": 600, "ticket": "OPS-1"}), 403),
        (json!({"ttl": 601, "ticket": "OPS-1"}), 403),
        (json!({"ttl": 600, "ticket": "X"}), 403),
        (json!({"ttl": 600, "ticket": "OPS-1", "how": "ok"}), 403),
    ];
    assert_statuses(&bed, &token, "probe/lease/a", &rows).await;
    let (_, refused) =
        bed.call_as(&token, Verb::Write, "probe/lease/a", json!({"how": "ok"})).await;
    assert!(error(&refused).contains("without parameter"), "{refused}");
    bed.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn query_parameters_count_for_read_not_list_delete() {
    let bed = Bed::new("query").await;
    let text = r#"path "probe/note/*" {
                      capabilities = ["read"]
                      denied_parameters = { "version" = [] }
                  }
                  path "sys/policies/acl*" {
                      capabilities = ["read", "list", "delete"]
                      denied_parameters = { "*" = [] }
                  }"#;
    let token = bed.token_with("querier", text).await;
    let ask =
        async |verb, path: &str, fields: Value| bed.call_as(&token, verb, path, fields).await.0;
    assert_eq!(ask(Verb::Read, "probe/note/x", json!({})).await, 404);
    assert_eq!(ask(Verb::Read, "probe/note/x", json!({"depth": "1"})).await, 404);
    assert_eq!(ask(Verb::Read, "probe/note/x", json!({"Version": "1"})).await, 403);
    assert_eq!(ask(Verb::Read, "sys/policies/acl/querier", json!({"x": "1"})).await, 403);
    assert_eq!(ask(Verb::List, "sys/policies/acl", json!({"after": "a"})).await, 200);
    assert_eq!(
        ask(Verb::Delete, "sys/policies/acl/other", json!({"x": "1"})).await,
        200,
        "with a warning"
    );
    bed.end().await;
}

/// The same for the settings of locking.
fn renamed_lockouts() -> Vec<(&'static str, Value, Value)> {
    let (auth, tune) = ("sys/auth/n", "sys/mounts/probe/tune");
    vec![
        (auth, json!({"lockout_disable": []}), lockout(json!({"lockout_disable": true}))),
        (auth, json!({"lockout_threshold": [9]}), lockout(json!({"lockout_threshold": "9"}))),
        (
            auth,
            json!({"lockout_counter_reset": []}),
            lockout(json!({"lockout_counter_reset_duration": "1s"})),
        ),
        (
            tune,
            json!({"lockout_duration": []}),
            json!({"user_lockout_config": {"lockout_duration": 1}}),
        ),
    ]
}

fn lockout(members: Value) -> Value {
    json!({"type": "doorman", "config": {"user_lockout_config": members}})
}

/// Writes of a setting by another name than the rule's, each with the forbidding rule. `T` stands
/// for the type of the bed's engine.
fn renamed_settings() -> Vec<(&'static str, Value, Value)> {
    let (role, mount, tune) = ("auth/token/roles/r", "sys/mounts/n", "sys/mounts/probe/tune");
    let (auth, device) = ("sys/auth/n", "sys/audit/n");
    vec![
        (role, json!({"token_period": []}), json!({"period": "1h"})),
        (role, json!({"period": []}), json!({"token_period": "1h"})),
        (role, json!({"token_explicit_max_ttl": []}), json!({"explicit_max_ttl": "1h"})),
        (role, json!({"explicit_max_ttl": []}), json!({"token_explicit_max_ttl": "1h"})),
        (role, json!({"token_bound_cidrs": []}), json!({"bound_cidrs": "10.0.0.0/8"})),
        (role, json!({"bound_cidrs": []}), json!({"token_bound_cidrs": "10.0.0.0/8"})),
        (mount, json!({"type": ["probe"]}), json!({"type": "plugin", "plugin_name": "probe"})),
        (
            mount,
            json!({"type": ["probe"]}),
            json!({"type": "plugin", "config": {"plugin_name": "probe"}}),
        ),
        (
            mount,
            json!({"max_lease_ttl": []}),
            json!({"type": "probe", "config": {"max_lease_ttl": "1h"}}),
        ),
        (
            mount,
            json!({"listing_visibility": ["unauth"]}),
            json!({"type": "probe", "config": {"listing_visibility": "unauth"}}),
        ),
        (
            mount,
            json!({"grants": ["limit:memory*"]}),
            json!({"type": "probe", "config": {"grants": ["limit:memory=64MiB"]}}),
        ),
        (
            mount,
            json!({"description": []}),
            json!({"type": "probe", "config": {"description": "d"}}),
        ),
        (
            mount,
            json!({"instance_reuse": ["bounded"]}),
            json!({"type": "probe", "options": {"instance_reuse": "bounded"}}),
        ),
        (auth, json!({"type": ["jwt"]}), json!({"type": "plugin", "plugin_name": "jwt"})),
        (tune, json!({"grants": []}), json!({"add_grants": ["limit:memory=64MiB"]})),
        (tune, json!({"grants": []}), json!({"remove_grants": ["limit:memory=64MiB"]})),
        (tune, json!({"add_grants": ["limit:m*"]}), json!({"grants": ["limit:memory=64MiB"]})),
        (tune, json!({"instance_reuse": []}), json!({"options": {"instance_reuse": "bounded"}})),
        (device, json!({"file_path": ["/*"]}), json!({"type": "file", "options": {"path": "/x"}})),
        (
            device,
            json!({"options": ["file_path=/*"]}),
            json!({"type": "file", "options": {"path": "/x"}}),
        ),
    ]
}

#[tokio::test(flavor = "multi_thread")]
async fn forbidden_setting_is_refused_under_all_names() {
    let bed = Bed::new("twins").await;
    for (number, (path, rule, sent)) in
        renamed_settings().into_iter().chain(renamed_lockouts()).enumerate()
    {
        let all = r#"["create", "update", "sudo"]"#;
        let denied: Vec<String> = rule
            .as_object()
            .unwrap()
            .iter()
            .map(|(name, values)| format!("{name} = {values}"))
            .collect();
        let rules = |denied: &str| {
            format!(
                "path \"{path}\" {{ capabilities = {all}\ndenied_parameters = {{ {denied} }} }}"
            )
        };
        let token = bed.token_with(&format!("t{number}"), &rules(&denied.join("\n"))).await;
        let (status, answer) = bed.call_as(&token, Verb::Write, path, sent.clone()).await;
        assert_eq!(status, 403, "{path} {sent} under denied {rule}: {answer}");
        assert!(error(&answer).contains("parameter"), "{answer}");
        let token = bed.token_with("others", &rules("nothing = []")).await;
        let (status, answer) = bed.call_as(&token, Verb::Write, path, sent.clone()).await;
        assert_ne!(status, 403, "{path} {sent}: {answer}");
    }
    bed.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn oversized_body_is_refused_before_rule_comparison() {
    let bed = Bed::new("compared").await;
    let values: Vec<Value> = (0..20).map(|number| json!(format!("forbidden-{number}"))).collect();
    let text = format!(
        "path \"probe/lease/*\" {{ capabilities = [\"update\"]\n\
         denied_parameters = {{ extra = {} }} }}",
        json!(values)
    );
    let token = bed.token_with("narrow", &text).await;
    let reader = bed.token_with("stranger", READ).await;
    let items = json!({"extra": vec![Value::from(0); 500_000]});
    let build_request = |token: &str, body_bytes: u64| bulkhead_wire::request::Request {
        body_bytes,
        ..request(token, Verb::Write, "probe/lease/x", items.clone())
    };
    let began = Instant::now();
    for (token, bytes, status, says) in [
        (&token, 30 << 20, 413, "takes at most"),
        (&reader, 30 << 20, 403, "may not update"),
        (&token, 1 << 20, 403, "comparisons"),
    ] {
        let (found, _, body) = bed.service.handle(build_request(token, bytes)).await.into_bytes();
        let body = String::from_utf8(body.to_vec()).unwrap();
        assert_eq!(found, status, "{body}");
        assert!(body.contains(says), "{body}");
    }
    assert!(began.elapsed() < Duration::from_secs(9), "{:?}", began.elapsed());
    bed.end().await;
}

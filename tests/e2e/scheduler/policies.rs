//! Policies of the scheduler: rules in the words of its present release, and lists by token.

use super::{RULES, assert_refused, bed, secret, token};
use serde_json::{Value, json};

/// Words that Nomad 2.0.5 knows and Nomad 1.10 does not, and a level with implied capabilities.
const PRESENT_RULES: &str = r#"
namespace "apps-*" {
  capabilities = ["purge-job", "promote-deployment", "host-volume-register"]
  variables { path "apps/*" { capabilities = ["read"] } }
}
node_pool "gpu_1" { policy = "scale" }
OPERATOR { capabilities = ["snapshot-save"] }
sentinel { policy = "write" }
"#;

#[test]
fn present_release_rules_are_stored_and_parsed() {
    let scheduler = bed();
    let policy = json!({ "Name": "present", "Rules": PRESENT_RULES });
    scheduler.manage("PUT", "/v1/acl/policy/present", &policy);
    let shown = scheduler.manage("GET", "/v1/acl/policy/present", &Value::Null).json();
    let expected = json!({
        "Namespaces": [{
            "Name": "apps-*", "Policy": "",
            "Capabilities": ["purge-job", "promote-deployment", "host-volume-register",
                             "host-volume-create", "host-volume-read"],
            "Variables": { "Paths": [
                { "PathSpec": "apps/*", "Capabilities": ["read", "list"] }
            ] },
        }],
        "NodePools": [{ "Name": "gpu_1", "Policy": "scale", "Capabilities": null }],
        "HostVolumes": null, "Agent": null, "Node": null,
        "Operator": { "Policy": "", "Capabilities": ["snapshot-save"] },
        "Sentinel": { "Policy": "write",
                      "Capabilities": ["sentinel-read", "sentinel-submit", "sentinel-delete"] },
        "Quota": null, "Plugin": null, "Raw": PRESENT_RULES, "ExtraKeysHCL": null,
    });
    assert_eq!(shown["RulesJSON"], expected);
}

#[test]
fn rules_without_meaning_are_refused_with_known_words() {
    let scheduler = bed();
    for (rules, text) in [
        ("namespace \"a\" { capabilities = [\"fly\"] }", "Invalid namespace capability 'fly'"),
        ("namespace \"a\" { capabilities = [\"fly\"] }", "purge-job"),
        ("plugin { policy = \"scale\" }", "give one of list, read, write, deny"),
        ("namespace \"a\" { variables { path \"/a\" { } } }", "without a leading '/'"),
        ("# nothing", "no block"),
    ] {
        let policy = json!({ "Name": "bad", "Rules": rules });
        let path = "/v1/acl/policy/bad";
        let answer = scheduler.ask("PUT", path, &scheduler.management, &policy);
        assert_eq!(answer.status, 400, "{rules}");
        assert!(answer.text().contains(text), "{rules}: {}", answer.text());
        let read = scheduler.ask("GET", path, &scheduler.management, &Value::Null);
        assert_refused(&read, 404, "ACL policy not found");
    }
}

#[test]
fn own_policies_of_a_management_token_are_all() {
    let scheduler = bed();
    let more = json!({ "Name": "more", "Rules": RULES });
    scheduler.manage("PUT", "/v1/acl/policy/more", &more);
    let client = token(&scheduler, &[]);
    let names = |secret: &str, path: &str| -> Vec<String> {
        let listed = scheduler.ask("GET", path, secret, &Value::Null).json();
        let stubs = listed.as_array().expect("a list").iter();
        stubs.map(|stub| stub["Name"].as_str().expect("a name").to_owned()).collect()
    };
    let own = "/v1/acl/policy/self";
    assert_eq!(names(&scheduler.management, own), ["more", "readonly"]);
    assert_eq!(names(&scheduler.management, "/v1/acl/policy/self?prefix=mo"), ["more"]);
    assert_eq!(names(secret(&client), own), ["readonly"]);
    assert_eq!(names(secret(&client), "/v1/acl/policy/self?prefix=mo"), Vec::<String>::new());
    let anonymous = scheduler.ask("GET", own, "", &Value::Null);
    assert_refused(&anonymous, 403, "Permission denied");
}

#[test]
fn descriptions_and_names_are_measured_in_characters() {
    let scheduler = bed();
    let text = |length: usize| "é".repeat(length);
    for (length, status) in [(256, 200), (257, 400)] {
        let link = json!([{ "Name": "readonly" }]);
        for (path, body) in [
            ("policy/p", json!({ "Name": "p", "Rules": RULES, "Description": text(length) })),
            ("role", json!({ "Name": "r", "Policies": link, "Description": text(length) })),
            ("token", json!({ "Name": text(length), "Type": "client", "Policies": ["readonly"] })),
        ] {
            let path = format!("/v1/acl/{path}");
            let answer = scheduler.ask("PUT", &path, &scheduler.management, &body);
            assert_eq!(answer.status, status, "{path}: {}", answer.text());
        }
    }
}

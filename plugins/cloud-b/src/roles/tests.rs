//! Roles of both types: stored, shown, edited and refused values.

use crate::CloudB;
use crate::fixture::empty;
use bulkhead_sdk::testbed::AuthBed;
use bulkhead_sdk::{Failure, FailureKind};
use serde_json::{Value, json};

fn written(body: &Value) -> AuthBed<CloudB> {
    let bed = empty();
    bed.write("role/dev", body).unwrap();
    bed
}

fn iam() -> Value {
    json!({"type": "iam", "bound_service_accounts": "b@p.com, a@p.com,a@p.com"})
}

fn gce() -> Value {
    json!({"type": "gce", "bound_projects": "p1", "bound_zones": "us-east1-b"})
}

#[test]
fn account_role_shows_defaults_without_instance_fields() {
    let bed = written(&iam());
    let shown = bed.read("role/dev").unwrap().data;
    let id = shown["role_id"].as_str().unwrap();
    assert_eq!((id.len(), &id[14..15]), (36, "4"), "{id}");
    for (name, value) in [
        ("type", json!("iam")),
        ("bound_service_accounts", json!(["a@p.com", "b@p.com"])),
        ("bound_projects", json!([])),
        ("project_id", json!("")),
        ("add_group_aliases", json!(false)),
        ("max_jwt_exp", json!(900)),
        ("allow_gce_inference", json!(true)),
        ("token_policies", json!([])),
        ("policies", json!([])),
        ("token_type", json!("default")),
        ("ttl", json!(0)),
        ("max_ttl", json!(0)),
    ] {
        assert_eq!(shown[name], value, "{name}");
    }
    assert!(shown.keys().all(|name| !["bound_zones", "bound_labels"].contains(&name.as_str())));
}

#[test]
fn instance_role_shows_instance_fields() {
    let mut body = gce();
    body["bound_labels"] = json!(["team:blue", "tier:"]);
    body["token_policies"] = json!("app");
    let bed = written(&body);
    let shown = bed.read("role/dev").unwrap().data;
    for (name, value) in [
        ("type", json!("gce")),
        ("bound_zones", json!(["us-east1-b"])),
        ("bound_regions", json!([])),
        ("bound_instance_groups", json!([])),
        ("bound_labels", json!({"team": "blue", "tier": ""})),
        ("gce_alias", json!("role_id")),
        ("project_id", json!("p1")),
        ("policies", json!(["app"])),
    ] {
        assert_eq!(shown[name], value, "{name}");
    }
    assert_eq!(shown.get("max_jwt_exp"), None);
}

#[test]
fn role_update_keeps_id_type_and_absent_fields() {
    let bed = written(&iam());
    let id = bed.read("role/dev").unwrap().data["role_id"].clone();
    bed.write("role/dev", &json!({"max_jwt_exp": "30m", "allow_gce_inference": false})).unwrap();
    bed.write("role/dev", &json!({"type": "iam", "token_ttl": "5m", "max_jwt_exp": ""})).unwrap();
    let shown = bed.read("role/dev").unwrap().data;
    assert_eq!((&shown["role_id"], &shown["max_jwt_exp"]), (&id, &json!(1800)));
    assert_eq!((&shown["allow_gce_inference"], &shown["ttl"]), (&json!(false), &json!(300)));
    let refused = bed.write("role/dev", &json!({"type": "gce"})).err().unwrap();
    assert!(refused.message.starts_with("role type cannot be changed"), "{refused}");
}

#[test]
fn role_path_outside_lower_case_is_refused() {
    let mut bed = written(&iam());
    bed.caller.capabilities = vec!["root".to_owned()];
    let before = bed.read("role/dev").unwrap().data;
    fn refused<T>(answer: Result<T, Failure>) {
        let why = answer.err().unwrap();
        assert_eq!(why.kind, FailureKind::InvalidRequest, "{why}");
        assert_eq!(why.message, "roles are named in lower case: \"Dev\" is \"dev\"");
    }
    refused(bed.read("role/Dev"));
    refused(bed.write("role/Dev", &json!({"token_ttl": 60})));
    refused(bed.write("role/Dev/service-accounts", &json!({"add": "c@p.com"})));
    refused(bed.write("role/Dev/labels", &json!({"add": "a:b"})));
    refused(bed.write("role/Dev/explain", &json!({"jwt": "x"})));
    refused(bed.delete("role/Dev"));
    assert_eq!(bed.read("role/dev").unwrap().data, before);
    assert_eq!(bed.list("roles").unwrap().data["keys"], json!(["dev"]));
    assert_eq!(bed.list("role").unwrap().data["keys"], json!(["dev"]));
}

#[test]
fn deprecated_names_warn_and_are_refused_beside_new() {
    let bed = empty();
    let old = json!({"type": "gce", "project_id": "p1", "bound_zone": "z-1", "policies": "a"});
    let warnings = bed.write("role/dev", &old).unwrap().warnings;
    assert!(warnings[0].contains("\"project_id\" is deprecated"), "{warnings:?}");
    assert!(warnings[1].contains("\"bound_zone\" is deprecated"), "{warnings:?}");
    let shown = bed.read("role/dev").unwrap().data;
    assert_eq!(
        (&shown["bound_projects"], &shown["bound_zones"]),
        (&json!(["p1"]), &json!(["z-1"]))
    );
    for (both, why) in [
        (json!({"project_id": "p", "bound_projects": "q"}), "only one of 'bound_projects'"),
        (
            json!({"bound_region": "r", "bound_regions": "s"}),
            "cannot specify both \"bound_region\"",
        ),
    ] {
        let refused = bed.write("role/dev", &both).err().unwrap();
        assert!(refused.message.contains(why), "{refused}");
    }
    bed.write("role/sa", &json!({"type": "iam", "service_accounts": "a@p.com"})).unwrap();
    let shown = bed.read("role/sa").unwrap().data;
    assert_eq!(shown["bound_service_accounts"], json!(["a@p.com"]));
}

#[test]
fn bad_role_is_refused_and_not_stored() {
    for (body, why) in [
        (json!({}), "role type cannot be empty"),
        (json!({"type": "aws"}), "role type \"aws\" is invalid"),
        (json!({"type": "iam"}), "IAM role type must have at least one service account"),
        (
            json!({
                "type": "iam", "bound_service_accounts": "a", "bound_zones": [],
                "bound_labels": "a:b",
            }),
            "invalid args found for role of type iam: bound_labels,bound_zones",
        ),
        (
            json!({"type": "gce", "max_jwt_exp": 60, "allow_gce_inference": true}),
            "invalid args found for role of type gce: allow_gce_inference,max_jwt_exp",
        ),
        (json!({"type": "iam", "bound_service_accounts": "*,a"}), "wildcard '*'"),
        (json!({"type": "gce", "bound_service_accounts": "*,a"}), "wildcard '*'"),
        (
            json!({"type": "iam", "bound_service_accounts": "a", "max_jwt_exp": "61m"}),
            "max_jwt_exp cannot be more than 60 minutes",
        ),
        (
            json!({"type": "gce", "bound_labels": ["Team:blue", "a:b", "x"]}),
            "invalid labels given: [\"Team:blue\" \"x\"]",
        ),
        (
            json!({"type": "gce", "bound_instance_groups": "g"}),
            "region or zone information must be specified",
        ),
        (
            json!({"type": "gce", "token_ttl": "2h", "token_max_ttl": "1h"}),
            "'token_ttl' cannot be greater than 'token_max_ttl'",
        ),
        (
            json!({"type": "gce", "token_period": "33d"}),
            "greater than the backend's maximum lease TTL",
        ),
        (json!({"type": "gce", "token_type": "default-service"}), "'token_type'"),
    ] {
        let bed = empty();
        let refused = bed.write("role/dev", &body).err().unwrap();
        assert_eq!(refused.kind, FailureKind::InvalidRequest, "{refused}");
        assert!(refused.message.contains(why), "{refused}");
        assert_eq!(bed.host.stored("role/dev"), None);
    }
}

#[test]
fn role_with_open_bounds_warns() {
    let bed = empty();
    for (body, is_open) in [
        (json!({"type": "gce", "bound_labels": "a:b"}), true),
        (json!({"type": "iam", "bound_service_accounts": "*"}), true),
        (json!({"type": "iam", "bound_service_accounts": "*", "bound_projects": "p"}), false),
        (gce(), false),
        (iam(), false),
    ] {
        bed.write("role/dev", &body).unwrap();
        let warnings = bed.write("role/dev", &json!({"token_ttl": 60})).unwrap().warnings;
        assert_eq!(
            warnings.iter().any(|warning| warning.contains("neither bound_projects")),
            is_open
        );
        bed.delete("role/dev").unwrap();
    }
    let both =
        json!({"type": "gce", "bound_zones": "z", "bound_regions": "r", "bound_projects": "p"});
    let warnings = bed.write("role/dev", &both).unwrap().warnings;
    assert!(warnings[0].contains("bound_regions are ignored"), "{warnings:?}");
}

#[test]
fn role_with_logins_of_one_entity_warns() {
    let bed = empty();
    let shared = |path: &str, body: Value| {
        let warnings = bed.write(path, &body).unwrap().warnings;
        warnings.into_iter().find(|warning| warning.contains("are one entity")).unwrap_or_default()
    };
    let all = json!({"type": "iam", "bound_service_accounts": "*", "bound_projects": "p1"});
    let one = json!({"type": "iam", "bound_service_accounts": "a@p.com"});
    assert!(shared("role/all", all.clone()).contains("set iam_alias=unique_id at config"));
    assert_eq!(shared("role/one", one), "", "of one account");
    assert!(shared("role/dev", iam()).contains("iam_alias"));
    let more = json!({"add": "b@p.com"});
    assert!(shared("role/one/service-accounts", more).contains("iam_alias"));
    assert!(shared("role/vm", gce()).contains("set gce_alias=instance_id at config"));
    assert!(shared("role/vm/labels", json!({"add": "a:b"})).contains("gce_alias"));
    bed.write("config", &json!({"iam_alias": "unique_id", "gce_alias": "instance_id"})).unwrap();
    assert_eq!([shared("role/all", all), shared("role/vm", gce())], [String::new(), String::new()]);
}

#[test]
fn unknown_role_fields_warn_and_are_ignored() {
    let bed = empty();
    bed.write("config", &json!({"gce_alias": "instance_id"})).unwrap();
    let mut body = gce();
    body["bound_zonez"] = json!("x");
    assert_eq!(bed.write("role/dev", &body).unwrap().warnings, ["ignored: bound_zonez"]);
}

#[test]
fn accounts_edit_as_set_and_last_account_stays() {
    let bed = written(&iam());
    let edit = json!({"add": "c@p.com,a@p.com", "remove": ["b@p.com", "x@p.com"]});
    bed.write("role/dev/service-accounts", &edit).unwrap();
    let shown = bed.read("role/dev").unwrap().data;
    assert_eq!(shown["bound_service_accounts"], json!(["a@p.com", "c@p.com"]));
    for (body, why) in [
        (json!({"remove": "a@p.com,c@p.com"}), "must have at least one service account"),
        (json!({}), "must provide at least one value to add or remove"),
        (json!({"add": []}), "must provide at least one value to add or remove"),
        (json!({"add": "*"}), "wildcard '*'"),
    ] {
        let refused = bed.write("role/dev/service-accounts", &body).err().unwrap();
        assert_eq!(refused.kind, FailureKind::InvalidRequest);
        assert!(refused.message.contains(why), "{refused}");
    }
    let wrong = bed.write("role/dev/labels", &json!({"add": "a:b"})).err().unwrap();
    assert!(
        wrong.message.contains("role is type 'iam', cannot edit attribute 'labels' (expected"),
        "{wrong}"
    );
}

#[test]
fn labels_add_by_pair_and_remove_by_key() {
    let bed = written(&gce());
    bed.write("role/dev/labels", &json!({"add": ["team:blue", "tier:web"]})).unwrap();
    bed.write("role/dev/labels", &json!({"add": "team:red", "remove": "tier,none"})).unwrap();
    let shown = bed.read("role/dev").unwrap().data;
    assert_eq!(shown["bound_labels"], json!({"team": "red"}));
    let refused = bed.write("role/dev/labels", &json!({"add": "9:x"})).err().unwrap();
    assert!(refused.message.contains("given invalid labels to add: [\"9:x\"]"), "{refused}");
    let wrong = bed.write("role/dev/service-accounts", &json!({"add": "a"})).err().unwrap();
    assert!(wrong.message.contains("cannot edit attribute 'service_accounts'"), "{wrong}");
}

#[test]
fn editing_missing_role_is_refused() {
    let bed = empty();
    for path in ["role/none/labels", "role/none/service-accounts"] {
        let refused = bed.write(path, &json!({"add": "a:b"})).err().unwrap();
        assert_eq!(refused.kind, FailureKind::NotFound, "{path}");
        assert_eq!(refused.message, "role \"none\" not found");
    }
}

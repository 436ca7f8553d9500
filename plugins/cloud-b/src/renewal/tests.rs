//! Renewals: they check stored proofs, not the shown metadata.

use crate::fixture::*;
use bulkhead_sdk::{FailureKind, Login};
use serde_json::{Value, json};

fn renewed(
    change: impl Fn(&bulkhead_sdk::testbed::AuthBed<crate::CloudB>),
    login: &str,
) -> Result<Login, bulkhead_sdk::Failure> {
    let bed = ready();
    let original = match login {
        "vm" => log_in_as_instance(&bed, json!({})),
        "inferred" => {
            let claims = identity(&bed, json!({"aud": "vault/dev"}));
            log_in(&bed, "dev", &signed("g1", GOOGLE_KEY, &claims))
        }
        _ => log_in_as_account(&bed, json!({})),
    };
    let original = original.unwrap();
    change(&bed);
    bed.renew_login(&original, 60)
}

#[test]
fn renewal_uses_current_role_settings() {
    for login in ["dev", "vm", "inferred"] {
        let renewed = renewed(
            |bed| {
                for role in ["role/dev", "role/vm"] {
                    bed.write(role, &json!({ "token_ttl": "7m" })).unwrap();
                }
            },
            login,
        );
        assert_eq!(renewed.unwrap().token.token_ttl, 420, "{login}");
    }
}

#[test]
fn renewal_keeps_proven_alias_metadata() {
    let bed = ready();
    for original in [log_in_as_account(&bed, json!({})), log_in_as_instance(&bed, json!({}))] {
        let original = original.unwrap();
        let renewed = bed.renew_login(&original, 60).unwrap();
        assert_eq!(original.alias_metadata["project_id"], "p1");
        assert_eq!(renewed.alias_metadata, original.alias_metadata);
        assert_eq!(renewed.group_aliases, Some(Vec::new()), "the role asks for none");
    }
}

#[test]
fn renewal_finds_project_groups_anew() {
    for role in ["dev", "vm"] {
        let bed = ready();
        let original = match role {
            "dev" => log_in_as_account(&bed, json!({})),
            _ => log_in_as_instance(&bed, json!({})),
        };
        let original = original.unwrap();
        assert_eq!(original.group_aliases, Some(Vec::new()));
        bed.write(&format!("role/{role}"), &json!({ "add_group_aliases": true })).unwrap();
        let of = |kind: &str, id: &str| json!({"resourceId": {"type": kind, "id": id}});
        let all = [of("project", "p1"), of("folder", "123"), of("organization", "456")];
        bed.host.answer(
            "POST https://cloudresourcemanager.googleapis.com/v1/projects/p1:getAncestry",
            answer(200, &json!({ "ancestor": all })),
        );
        let groups = bed.renew_login(&original, 60).unwrap().group_aliases.unwrap();
        assert_eq!(groups, ["project-p1", "folder-123", "organization-456"], "{role}");
    }
}

#[test]
fn renewal_without_metadata_keeps_alias() {
    let bed = ready();
    bed.write("config", &json!({"iam_metadata": [], "gce_metadata": []})).unwrap();
    for original in [log_in_as_account(&bed, json!({})), log_in_as_instance(&bed, json!({}))] {
        let original = original.unwrap();
        assert!(original.metadata.is_empty());
        bed.write("config", &json!({"iam_alias": "unique_id", "gce_alias": "instance_id"}))
            .unwrap();
        assert_eq!(bed.renew_login(&original, 60).unwrap().alias, original.alias);
        bed.write("config", &json!({"iam_alias": "", "gce_alias": ""})).unwrap();
    }
}

#[test]
fn renewal_no_longer_admitted_by_role_is_refused() {
    let role = |role: &'static str, body: Value| {
        move |bed: &bulkhead_sdk::testbed::AuthBed<crate::CloudB>| {
            bed.write(role, &body).unwrap();
        }
    };
    let other = "x@p1.iam.gserviceaccount.com";
    for (login, change, why) in [
        ("dev", json!({"bound_service_accounts": other}), "is not authorized for role"),
        ("dev", json!({"bound_projects": "p2"}), "not in bound projects"),
        ("dev", json!({"token_policies": "app,more"}), "policies on role \"dev\" have changed"),
        ("inferred", json!({"allow_gce_inference": false}), "inference is no longer allowed"),
        ("vm", json!({"bound_projects": "p2"}), "not in bound projects"),
        ("vm", json!({"bound_zones": "us-east1-c"}), "not in bound zones"),
        ("vm", json!({"bound_labels": "team:red"}), "missing bound label"),
        ("vm", json!({"bound_service_accounts": other}), "not in bound service accounts"),
    ] {
        let path = if login == "vm" { "role/vm" } else { "role/dev" };
        let refused = renewed(role(path, change), login).err().unwrap();
        assert_eq!(refused.kind, FailureKind::InvalidRequest, "{refused}");
        assert!(refused.message.contains(why), "{refused}");
    }
}

#[test]
fn recreated_role_renews_no_earlier_login() {
    for (login, path) in [("dev", "role/dev"), ("vm", "role/vm")] {
        let gone = |bed: &bulkhead_sdk::testbed::AuthBed<crate::CloudB>| {
            bed.delete(path).unwrap();
        };
        let refused = renewed(gone, login).err().unwrap();
        assert!(refused.message.contains("no longer exists"), "{refused}");
        let anew = |bed: &bulkhead_sdk::testbed::AuthBed<crate::CloudB>| {
            bed.delete(path).unwrap();
            let body = match login {
                "vm" => json!({"type": "gce", "bound_projects": "p1", "token_policies": "app"}),
                _ => json!({
                    "type": "iam", "bound_service_accounts": EMAIL, "token_policies": "app",
                }),
            };
            bed.write(path, &body).unwrap();
        };
        let refused = renewed(anew, login).err().unwrap();
        assert!(refused.message.contains("no longer exists"), "{refused}");
    }
}

#[test]
fn renewal_refuses_missing_identity_and_outage_is_502() {
    for (status, kind) in [(404, FailureKind::InvalidRequest), (503, FailureKind::Unreachable)] {
        for (login, request) in [("dev", account_at(ID)), ("vm", INSTANCE_AT.to_owned())] {
            let bed = ready();
            let original = match login {
                "vm" => log_in_as_instance(&bed, json!({})),
                _ => log_in_as_account(&bed, json!({})),
            };
            let original = original.unwrap();
            bed.host.answer(&request, answer(status, &json!({})));
            bed.renew_login(&original, 60).ok();
            let refused = bed.renew_login(&original, 60).err().unwrap();
            assert_eq!(refused.kind, kind, "{login}: {refused}");
        }
    }
    let bed = ready();
    let original = log_in_as_account(&bed, json!({})).unwrap();
    bed.host.answer(&account_at(ID), answer(200, &changed(account(), json!({"disabled": true}))));
    bed.renew_login(&original, 60).ok();
    let refused = bed.renew_login(&original, 60).err().unwrap();
    assert!(refused.message.contains("is disabled"), "{refused}");
}

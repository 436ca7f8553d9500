//! Places of machines, both kinds of scale sets, other resources and identities; and callers that
//! borrow, guess or forge a place.

use crate::arm_id::ArmId;
use crate::fixture::{
    APP, CloudBed, GIVEN, OWN, SUBSCRIPTION, answer, arm_request, arrange_identity,
    arrange_machine, arrange_scale_set, id, identity, login, machine, refusal, scale_set,
    with_role,
};
use bulkhead_sdk::FailureKind;
use serde_json::{Value, json};

/// A role that binds every property of the place and no principal.
fn bound() -> Value {
    json!({
        "bound_subscription_ids": SUBSCRIPTION.to_uppercase(), "bound_resource_groups": "APPS",
        "bound_locations": "West US 2",
    })
}

/// Fields that clients send.
fn stated(more: &Value) -> Value {
    let mut all = json!({"subscription_id": SUBSCRIPTION, "resource_group_name": "Apps"});
    all.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    all
}

/// Claims of the machine's system-assigned identity.
fn own(resource: &str) -> Value {
    json!({"xms_mirid": resource.to_lowercase()})
}

/// Claims of a user-assigned identity of the resource.
fn given(resource: &str) -> Value {
    json!({"oid": GIVEN, "xms_mirid": identity("shared"), "xms_az_rid": resource})
}

fn with_machine() -> CloudBed {
    let bed = with_role(&bound());
    arrange_machine(&bed, "vm-1", &json!({}));
    bed
}

#[test]
fn machine_logs_in_by_own_or_given_identity() {
    let bed = with_machine();
    let vm = machine("vm-1");
    for claims in [own(&vm), given(&vm)] {
        for fields in [
            stated(&json!({"vm_name": "VM-1"})),
            json!({"vm_name": "vm-1"}),
            json!({"resource_id": vm.to_uppercase()}),
            stated(&json!({"vm_name": "vm-1", "vmss_name": ""})),
        ] {
            let proven = login(&bed, &claims, &fields).unwrap();
            assert_eq!(proven.metadata["subscription_id"], SUBSCRIPTION, "{fields}");
            assert_eq!(proven.metadata["vm_name"], "vm-1", "{fields}");
            assert_eq!(proven.metadata["resource_group_name"], "apps", "{fields}");
        }
    }
    assert!(login(&bed, &own(&vm), &json!({})).is_ok(), "the token says which machine it is");
}

#[test]
fn a_machine_proves_no_other_one() {
    let bed = with_machine();
    for name in ["vm-2", "vm-10", "vm"] {
        arrange_machine(&bed, name, &json!({}));
    }
    let elsewhere = |vm: &str| vm.replace("/apps/", "/evil/");
    let of_other = |vm: &str| vm.replace(SUBSCRIPTION, "61111111-2222-3333-4444-555555555555");
    let vm = machine("vm-1");
    let mine = stated(&json!({"vm_name": "vm-1"}));
    for (claims, fields) in [
        (own(&machine("vm-10")), mine.clone()),
        (own(&machine("vm")), mine.clone()),
        (given(&machine("vm-2")), mine.clone()),
        // A machine in another group with the same identity.
        (given(&elsewhere(&vm)), mine.clone()),
        (given(&of_other(&vm)), mine.clone()),
        (given(&elsewhere(&vm)), json!({"resource_id": vm})),
        // The stated group is the group of the identity, not of the machine.
        (given(&elsewhere(&vm)), stated(&json!({"vm_name": "vm-1"}))),
        (own(&vm), stated(&json!({"vm_name": "vm-2"}))),
        (own(&vm), stated(&json!({"resource_id": machine("vm-2")}))),
        (own(&scale_set("vm-1")), mine.clone()),
    ] {
        let refused = refusal(login(&bed, &claims, &fields));
        assert!(refused.contains("do not match"), "{claims} {fields}: {refused}");
    }
}

#[test]
fn additional_statements_cannot_contradict_id() {
    let bed = with_machine();
    let vm = machine("vm-1");
    for (field, value) in [
        ("subscription_id", "61111111-2222-3333-4444-555555555555"),
        ("resource_group_name", "other"),
    ] {
        for fields in [json!({"resource_id": vm, field: value}), json!({field: value})] {
            let refused = refusal(login(&bed, &own(&vm), &fields));
            assert!(refused.contains(field), "{fields}: {refused}");
        }
    }
}

#[test]
fn ids_leading_elsewhere_are_refused_before_requests() {
    let bed = with_machine();
    let vm = machine("vm-1");
    login(&bed, &own(&vm), &json!({})).unwrap();
    bed.host.requests();
    for (field, value) in [
        ("subscription_id", "../x"),
        ("subscription_id", "5111"),
        ("resource_group_name", "apps/../evil"),
        ("resource_group_name", "apps."),
        ("resource_group_name", "apps?x"),
        ("resource_group_name", "ap%2fps"),
        ("vm_name", "vm/1"),
        ("vm_name", "-vm"),
        ("vm_name", "vm."),
        ("vmss_name", "web?x=1"),
        ("vmss_name", "w\u{435}b"),
        ("resource_id", "/subscriptions/x"),
    ] {
        let refused = refusal(login(&bed, &own(&vm), &stated(&json!({field: value}))));
        assert!(refused.starts_with("invalid "), "{field} {value}: {refused}");
    }
    for tail in ["/..", "?a", "#a", "/../../x", "%2e", "\\"] {
        let fields = json!({"resource_id": format!("{vm}{tail}")});
        let refused = refusal(login(&bed, &own(&vm), &fields));
        assert!(refused.starts_with("invalid resource_id"), "{tail}: {refused}");
    }
    assert!(bed.host.requests().is_empty());
    arrange_machine(&bed, "1vm", &json!({}));
    assert!(login(&bed, &own(&machine("1vm")), &json!({"vm_name": "1vm"})).is_ok());
}

#[test]
fn claims_that_are_no_ids_prove_nothing() {
    let bed = with_machine();
    for claim in [
        machine("vm-1").replace("apps", ".."),
        format!("{}?x", machine("vm-1")),
        "vm-1".to_owned(),
        format!("/x{}", machine("vm-1")),
    ] {
        let refused =
            refusal(login(&bed, &json!({"xms_mirid": claim}), &json!({"vm_name": "vm-1"})));
        assert!(refused.contains("is not an id of a resource"), "{claim}: {refused}");
    }
    let refused = refusal(login(&bed, &json!({"xms_mirid": [machine("vm-1")]}), &json!({})));
    assert!(refused.contains("xms_mirid is not a text"), "{refused}");
}

#[test]
fn only_own_identity_proves_resource_without_claims() {
    let bed = with_machine();
    let mine = stated(&json!({"vm_name": "vm-1"}));
    assert!(login(&bed, &json!({}), &mine).is_ok());
    let refused = refusal(login(&bed, &json!({"oid": GIVEN}), &mine));
    assert!(refused.contains("does not match expected identities"), "{refused}");
    let refused = refusal(login(&bed, &json!({}), &json!({"vm_name": "vm-1"})));
    assert_eq!(refused, "subscription_id and resource_group_name are required");
}

#[test]
fn principal_must_be_identity_of_machine() {
    let vm = machine("vm-1");
    let other_principal = json!({"oid": "e1111111-2222-3333-4444-555555555555", "xms_mirid": vm});
    let bed = with_machine();
    let refused = refusal(login(&bed, &other_principal, &json!({})));
    assert!(refused.contains("does not match expected identities"), "{refused}");
    let bed = with_role(&bound());
    arrange_machine(&bed, "vm-1", &json!({"identity": null}));
    let refused = refusal(login(&bed, &own(&vm), &json!({})));
    assert!(refused.contains("has no identity"), "{refused}");
}

#[test]
fn answer_about_other_resource_is_not_believed() {
    for (over, why) in [
        (json!({"id": machine("vm-2")}), "another resource"),
        (json!({"id": "vm-1"}), "another resource"),
        (json!({"id": 7}), "answered with an invalid body"),
    ] {
        let bed = with_role(&bound());
        arrange_machine(&bed, "vm-1", &over);
        let refused = login(&bed, &own(&machine("vm-1")), &json!({})).err().unwrap();
        assert_eq!(refused.kind, FailureKind::Unreachable);
        assert!(refused.message.contains(why), "{}", refused.message);
    }
}

#[test]
fn manager_refusals_are_400_and_faults_502() {
    for (status, kind) in [
        (404, FailureKind::InvalidRequest),
        (403, FailureKind::InvalidRequest),
        (401, FailureKind::InvalidRequest),
        (500, FailureKind::Unreachable),
        (302, FailureKind::Unreachable),
        (429, FailureKind::RateLimited),
    ] {
        let bed = with_role(&bound());
        bed.write("config", &json!({"max_retries": 0})).unwrap();
        let body = json!({"error": {"code": "Why", "message": "hunter2"}});
        bed.host.answer(&arm_request(&machine("vm-1"), "2023-07-01"), answer(status, &body));
        let fields = stated(&json!({"vm_name": "vm-1"}));
        let refused = login(&bed, &own(&machine("vm-1")), &fields).err().unwrap();
        assert_eq!(refused.kind, kind, "{status}");
        assert!(!refused.message.contains("hunter2"), "{}", refused.message);
    }
}

#[test]
fn role_bounds_are_compared_with_proven_values() {
    let vm = machine("vm-1");
    for (role, why) in [
        (json!({"bound_subscription_ids": ["61111111"]}), "subscription not authorized"),
        (json!({"bound_resource_groups": ["app", "apps2"]}), "resource group not authorized"),
        (json!({"bound_resource_groups": ["*"]}), "resource group not authorized"),
        (json!({"bound_locations": ["westus", "westus20"]}), "location not authorized"),
        (json!({"bound_scale_sets": ["vm-1"]}), "this vm isn't in a scale set"),
    ] {
        let bed = with_role(&role);
        arrange_machine(&bed, "vm-1", &json!({}));
        let refused = refusal(login(&bed, &own(&vm), &stated(&json!({"vm_name": "vm-1"}))));
        assert!(refused.contains(why), "{role}: {refused}");
    }
    let bed = with_role(&json!({"bound_scale_sets": "WEB"}));
    let of_set = json!({"properties": {"virtualMachineScaleSet": {"id": scale_set("web")}}});
    arrange_machine(&bed, "vm-1", &of_set);
    assert!(login(&bed, &own(&vm), &json!({"vm_name": "vm-1"})).is_ok());
}

#[test]
fn a_uniform_scale_set_lets_its_instances_in() {
    let bed = with_role(&json!({"bound_scale_sets": "web", "bound_locations": "westus2"}));
    arrange_scale_set(&bed, "web", &json!({}));
    let fields = stated(&json!({"vmss_name": "Web", "vm_name": "ignored"}));
    let instance = format!("{}/virtualMachines/0", scale_set("web"));
    for claims in [own(&scale_set("web")), own(&instance)] {
        let proven = login(&bed, &claims, &fields).unwrap();
        assert_eq!(proven.metadata["vmss_name"], "web");
        assert!(
            !proven.metadata.contains_key("vm_name"),
            "an unproven name is not in the metadata"
        );
    }
    for other in [scale_set("web2"), machine("web"), format!("{}/x/0/y/1", scale_set("web"))] {
        let refused = refusal(login(&bed, &own(&other), &fields));
        assert!(refused.contains("do not match vmss_name"), "{other}: {refused}");
    }
}

#[test]
fn flexible_scale_set_admits_member_machines_only() {
    let fields = stated(&json!({"vmss_name": "web"}));
    let ready = |machine_says: &Value| {
        let bed = with_role(&json!({"bound_scale_sets": "web"}));
        let identities = json!({"userAssignedIdentities": {identity("shared"): {}}});
        arrange_scale_set(&bed, "web", &json!({"identity": identities}));
        arrange_identity(&bed, "shared", GIVEN, APP);
        arrange_machine(&bed, "web_1f", machine_says);
        bed
    };
    let part = json!({"properties": {"virtualMachineScaleSet": {"id": scale_set("WEB")}}});
    let bed = ready(&part);
    assert!(login(&bed, &given(&machine("Web_1f")), &fields).is_ok());
    for claims in [given(&machine("web_2")), given(&machine("website"))] {
        assert!(login(&bed, &claims, &fields).is_err(), "{claims}");
    }
    for other in
        [json!({}), json!({"properties": {"virtualMachineScaleSet": {"id": scale_set("web2")}}})]
    {
        let refused = refusal(login(&ready(&other), &given(&machine("web_1f")), &fields));
        assert!(refused.contains("is not a part of"), "{refused}");
    }
    let bed = with_role(&json!({"bound_scale_sets": "web"}));
    arrange_scale_set(&bed, "web", &json!({}));
    bed.host.answer(&arm_request(&machine("web_2"), "2023-07-01"), answer(403, &json!({})));
    assert!(login(&bed, &own(&machine("web_2")), &fields).is_ok(), "where it may not be read");
    assert!(bed.host.steps().iter().any(|step| step.starts_with("log scale-set-by-name")));
}

#[test]
fn other_resources_use_newest_non_preview_version() {
    let bed = with_role(&bound());
    let site = id("microsoft.web/sites", "app");
    let types = json!({"namespace": "Microsoft.Web", "resourceTypes": [
        {
            "resourceType": "Sites",
            "apiVersions": ["2022-11-01-preview", "2022-08-01", "2022-03-01"],
        },
    ]});
    let provider = format!("/subscriptions/{SUBSCRIPTION}/providers/microsoft.web");
    bed.host.answer(&arm_request(&provider, "2021-04-01"), answer(200, &types));
    let body = json!({"id": site, "location": "westus2", "identity": {"principalId": OWN}});
    bed.host.answer(&arm_request(&site, "2022-08-01"), answer(200, &body));
    for _ in 0..2 {
        let proven = login(&bed, &own(&site), &json!({"resource_id": site})).unwrap();
        assert_eq!(proven.metadata["resource_id"], site);
    }
    let asked_twice: Vec<String> =
        bed.host.requests().into_iter().map(|request| request.url).collect();
    let versions = asked_twice.iter().filter(|url| url.contains("2021-04-01")).count();
    assert_eq!(versions, 1, "{asked_twice:?}");
}

#[test]
fn lone_identity_has_own_place_and_no_location() {
    let claims = json!({"oid": GIVEN, "xms_mirid": identity("shared")});
    let bed = with_role(&json!({"bound_resource_groups": "apps"}));
    arrange_identity(&bed, "shared", GIVEN, APP);
    let proven = login(&bed, &claims, &json!({})).unwrap();
    assert_eq!(proven.metadata["resource_id"], spelled(&identity("shared")));
    for (role, why) in [
        (json!({"bound_locations": "westus2"}), "location is empty"),
        (json!({"bound_scale_sets": "web"}), "scale set requires the vmss_name field"),
        (json!({"bound_resource_groups": "other"}), "resource group not authorized"),
    ] {
        let bed = with_role(&role);
        arrange_identity(&bed, "shared", GIVEN, APP);
        let refused = refusal(login(&bed, &claims, &json!({})));
        assert!(refused.contains(why), "{role}: {refused}");
    }
    for (principal, app) in [(OWN, APP), (GIVEN, "other")] {
        let bed = with_role(&json!({"bound_resource_groups": "apps"}));
        arrange_identity(&bed, "shared", principal, app);
        let refused = refusal(login(&bed, &claims, &json!({})));
        assert!(refused.starts_with("neither token object id nor token app id"), "{refused}");
    }
}

fn spelled(id: &str) -> String {
    ArmId::parse(id).unwrap().to_string()
}

fn list_of(group: &str) -> String {
    format!(
        "/subscriptions/{SUBSCRIPTION}/resourceGroups/{group}/providers\
         /Microsoft.ManagedIdentity/userAssignedIdentities"
    )
}

fn listed(name: &str, principal: &str, app: &str) -> Value {
    json!({"id": identity(name), "properties": {"principalId": principal, "clientId": app}})
}

#[test]
fn identity_without_claims_is_sought_in_bound_groups() {
    let bed = with_role(&json!({"bound_resource_groups": "apps"}));
    let next = format!("https://management.azure.com{}?$skiptoken=2", list_of("apps"));
    let first = json!({"value": [listed("a", GIVEN, "other")], "nextLink": next});
    bed.host.answer(&arm_request(&list_of("apps"), "2023-01-31"), answer(200, &first));
    let second = json!({"value": [listed("shared", GIVEN, APP)]});
    bed.host.answer(&format!("GET {next}"), answer(200, &second));
    let proven = login(&bed, &json!({"oid": GIVEN}), &stated(&json!({}))).unwrap();
    assert_eq!(proven.metadata["resource_id"], spelled(&identity("shared")));
    let refused = refusal(login(&bed, &json!({"oid": GIVEN}), &json!({})));
    assert_eq!(refused, "subscription_id and resource_group_name are required");
    let refused = refusal(login(&bed, &json!({"oid": GIVEN, "appid": null}), &stated(&json!({}))));
    assert!(refused.starts_with("one of vm_name, vmss_name, resource_id"), "{refused}");
    bed.host.requests();
    refusal(login(
        &bed,
        &json!({}),
        &json!({
            "subscription_id": SUBSCRIPTION, "resource_group_name": "evil",
        }),
    ));
    assert!(bed.host.requests().iter().all(|request| !request.url.contains("evil")));
}

#[test]
fn list_continues_at_own_server_up_to_limit() {
    let claims = json!({"oid": GIVEN});
    for link in [
        "https://evil.example/subscriptions/x",
        "https://management.azure.com.evil.example/subscriptions/x",
        "https://management.azure.com@evil.example/subscriptions/x",
        "http://management.azure.com/subscriptions/x",
    ] {
        let bed = with_role(&json!({"bound_resource_groups": "apps"}));
        let page = json!({"value": [], "nextLink": link});
        bed.host.answer(&arm_request(&list_of("apps"), "2023-01-31"), answer(200, &page));
        let refused = login(&bed, &claims, &stated(&json!({}))).err().unwrap();
        assert_eq!(refused.kind, FailureKind::Unreachable, "{link}");
        assert!(bed.host.requests().iter().all(|request| request.url != link));
    }
    let bed = with_role(&json!({"bound_resource_groups": "apps"}));
    let same = arm_request(&list_of("apps"), "2023-01-31");
    let page = json!({"value": [], "nextLink": same.trim_start_matches("GET ")});
    bed.host.answer(&same, answer(200, &page));
    let refused = login(&bed, &claims, &stated(&json!({}))).err().unwrap();
    assert!(refused.message.contains("20 pages"), "{}", refused.message);
    assert!(bed.host.requests().len() < 30);
}

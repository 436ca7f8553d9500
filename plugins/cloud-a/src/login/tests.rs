//! Logins: the number of requests, the issued metadata, explanations, and renewals.

use crate::fixture::{
    APP, OWN, RESOURCE, SECRET, SUBSCRIPTION, TENANT, TOKEN, answer, arrange_machine, empty, login,
    machine, ready, refusal, token, with_role,
};
use bulkhead_sdk::host::MachineToken;
use bulkhead_sdk::{Failure, FailureKind, Host};
use serde_json::{Value, json};

fn by_principal() -> Value {
    json!({"bound_service_principal_ids": OWN.to_uppercase(), "token_policies": "dev"})
}

#[test]
fn unknown_role_is_refused_by_name_only() {
    let bed = ready();
    for role in ["dev", "../config", "a/b", "x\n"] {
        let body = json!({"role": role, "jwt": token(&json!({}))});
        let refused = refusal(bed.login("login", &body));
        assert!(refused.starts_with("invalid role name"), "{refused}");
    }
    for body in [json!({"jwt": "x"}), json!({"role": "dev"})] {
        assert!(refusal(bed.login("login", &body)).contains("is required"));
    }
}

#[test]
fn unproven_login_reads_no_secret_and_repeats_nothing() {
    let bed = with_role(&json!({"bound_locations": "westus2", "token_policies": "dev"}));
    let config = json!({"client_secret": "", "environment": "AzurePublicCloud"});
    bed.write("config", &config).unwrap();
    bed.host.set_environment("CLOUDA_CLIENT_SECRET", SECRET);
    for over in [json!({"aud": "guess-4711"}), json!({"iss": "guess-4711"}), json!({"nbf": 9e9})] {
        // Any read of the environment fails the login with this message.
        bed.host.refuse("environment", Failure::invalid("the environment was read"));
        let refused = refusal(login(&bed, &over, &json!({"vm_name": "vm-1"})));
        assert!(refused.starts_with("the token"), "{refused}");
        assert!(!refused.contains("guess"), "{refused}");
    }
    let proven = login(&bed, &json!({"xms_mirid": machine("vm-1")}), &json!({}));
    assert_eq!(refusal(proven), "the environment was read", "the step that uses it reads it");
}

#[test]
fn a_token_that_cannot_pass_costs_no_request() {
    let bed = with_role(&by_principal());
    bed.host.requests();
    for over in [json!({"aud": "api://another"}), json!({"exp": 1}), json!({"nbf": 9e9})] {
        refusal(login(&bed, &over, &json!({})));
    }
    assert!(bed.host.requests().is_empty());
    assert!(login(&bed, &json!({}), &json!({})).is_ok());
}

#[test]
fn odd_signed_claims_are_caller_error() {
    let bed = with_role(&json!({"bound_group_ids": "g0"}));
    let many: Vec<String> = (0..600).map(|one| format!("g{one}")).collect();
    for (over, what) in [
        (json!({ "groups": many }), "600 group aliases; there may be 512"),
        (json!({ "groups": ["g0", "odd\n"] }), "a group alias that cannot be printed"),
        (json!({ "groups": ["g0", " "] }), "a group alias that is empty"),
        (json!({ "groups": ["g0"], "oid": "a\u{0}b" }), "an alias that cannot be printed"),
    ] {
        let refused = refusal(login(&bed, &over, &json!({})));
        assert!(refused.contains(what), "{refused}");
    }
    assert!(login(&bed, &json!({ "groups": ["g0"] }), &json!({})).is_ok());
}

#[test]
fn metadata_and_alias_contain_proven_values_only() {
    let bed = with_role(&by_principal());
    let lies = json!({
        "vm_name": "root", "vmss_name": "", "resource_group_name": "root",
        "subscription_id": "61111111-2222-3333-4444-555555555555",
    });
    let upper = json!({"oid": OWN.to_uppercase()});
    let proven = login(&bed, &upper, &lies).unwrap();
    assert_eq!(proven.alias, OWN, "an identity has a single alias");
    assert_eq!(proven.token.token_policies, ["dev"]);
    let alias: Vec<(&str, &str)> =
        proven.alias_metadata.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
    assert_eq!(alias, [("app_id", APP)]);
    let signed = login(&bed, &json!({"xms_mirid": machine("vm-1")}), &lies).unwrap();
    for (name, value) in
        [("subscription_id", SUBSCRIPTION), ("resource_group_name", "apps"), ("vm_name", "vm-1")]
    {
        assert_eq!(signed.alias_metadata[name], value);
    }
}

#[test]
fn fully_open_role_admits_no_login() {
    let bed = with_role(&json!({"bound_service_principal_ids": "*", "bound_group_ids": "*"}));
    let refused = refusal(login(&bed, &json!({}), &json!({})));
    assert!(refused.starts_with("expected specific bound_group_ids"), "{refused}");
    let bed = with_role(&json!({"bound_service_principal_ids": "*", "bound_group_ids": "g-1"}));
    assert!(login(&bed, &json!({"groups": ["g-1"]}), &json!({})).is_ok());
    assert!(login(&bed, &json!({"groups": ["g-2"]}), &json!({})).is_err());
    let bed = with_role(&json!({"bound_service_principal_ids": ["*", "x"]}));
    assert!(
        login(&bed, &json!({}), &json!({})).is_err(),
        "a star in a longer list is not a wildcard"
    );
}

#[test]
fn caller_network_is_checked_before_provider_request() {
    let mut bed = ready();
    bed.write(
        "role/dev",
        &json!({
            "bound_service_principal_ids": OWN, "token_bound_cidrs": "10.0.0.0/8",
        }),
    )
    .unwrap();
    bed.caller.remote_address = "192.0.2.1".to_owned();
    let refused = login(&bed, &json!({}), &json!({})).err().unwrap();
    assert_eq!(refused.kind, FailureKind::PermissionDenied);
    assert!(bed.host.requests().is_empty());
    bed.caller.remote_address = "10.1.2.3".to_owned();
    assert!(login(&bed, &json!({}), &json!({})).is_ok());
}

#[test]
fn keys_and_access_token_are_requested_once() {
    let bed = with_role(&json!({"bound_resource_groups": "apps"}));
    arrange_machine(&bed, "vm-1", &json!({}));
    let claims = json!({"xms_mirid": machine("vm-1")});
    login(&bed, &claims, &json!({})).unwrap();
    assert_eq!(bed.host.requests().len(), 4, "issuer, keys, access token, machine");
    login(&bed, &claims, &json!({})).unwrap();
    let requests = bed.host.requests();
    assert_eq!(requests.len(), 1, "the machine alone");
    assert!(requests[0].headers.contains(&("authorization".to_owned(), "Bearer t-arm".to_owned())));
    bed.write("config", &json!({"client_secret": "another"})).unwrap();
    login(&bed, &claims, &json!({})).unwrap();
    let requests = bed.host.requests();
    assert_eq!(requests.len(), 4, "a new configuration does not use cached keys");
    let of_token = requests.iter().find(|request| request.method == "POST").unwrap();
    let body = String::from_utf8(of_token.body.clone()).unwrap();
    assert!(body.contains("client_secret=another"), "{body}");
    assert!(body.contains("scope=https%3A%2F%2Fmanagement.azure.com%2F.default"), "{body}");
    assert_eq!(of_token.secrets, ["another"]);
}

#[test]
fn cloud_access_uses_secret_identity_or_machine_token() {
    let role = json!({"bound_resource_groups": "apps"});
    let claims = json!({"xms_mirid": machine("vm-1")});
    let bed = with_role(&role);
    arrange_machine(&bed, "vm-1", &json!({}));
    let federated = json!({"client_secret": "", "identity_token_audience": "api://Exchange"});
    bed.write("config", &federated).unwrap();
    login(&bed, &claims, &json!({})).unwrap();
    let requests = bed.host.requests();
    let form = requests.iter().find(|request| request.method == "POST").unwrap();
    let form = String::from_utf8(form.body.clone()).unwrap();
    assert!(form.contains("client_assertion=identity-token-2-for-api%3A%2F%2FExchange"), "{form}");
    assert!(!form.contains("client_secret"), "{form}");
    bed.write("config", &json!({"identity_token_audience": ""})).unwrap();
    let token = MachineToken { token: "t-own".to_owned(), expires: u64::MAX };
    bed.host.set_cloud_token("azure", "https://management.azure.com/", token);
    login(&bed, &claims, &json!({})).unwrap();
    let own = ("authorization".to_owned(), "Bearer t-own".to_owned());
    assert!(bed.host.requests().iter().any(|request| request.headers.contains(&own)));
    bed.write("config", &json!({"client_id": "", "client_secret": SECRET})).unwrap();
    let refused = refusal(login(&bed, &claims, &json!({})));
    assert!(refused.starts_with("client_id is required"), "{refused}");
}

#[test]
fn refused_client_secret_is_reported_without_value() {
    let bed = empty();
    bed.write(
        "config",
        &json!({
            "tenant_id": TENANT, "resource": RESOURCE, "client_id": APP, "client_secret": SECRET,
        }),
    )
    .unwrap();
    bed.write("role/dev", &json!({"bound_resource_groups": "apps"})).unwrap();
    let other = ready();
    for (request, body) in [
        (
            crate::fixture::DISCOVERY,
            json!({
                "issuer": crate::fixture::ISSUER,
                "jwks_uri": "https://login.microsoftonline.com/common/discovery/keys",
            }),
        ),
        (crate::fixture::KEYS, crate::fixture::key_set(&[("k1", &crate::fixture::key(0))])),
    ] {
        bed.host.answer(request, answer(200, &body));
    }
    drop(other);
    let said = json!({
        "error": "invalid_client", "error_description": format!("AADSTS7000215: {SECRET}"),
    });
    bed.host.answer(TOKEN, answer(401, &said));
    let refused = refusal(login(&bed, &json!({"xms_mirid": machine("vm-1")}), &json!({})));
    assert!(refused.contains("401 (invalid_client, AADSTS7000215)"), "{refused}");
    assert!(!refused.contains(SECRET), "{refused}");
}

fn explained(bed: &crate::fixture::CloudBed, over: &Value) -> Vec<(String, bool)> {
    let body = json!({"jwt": token(over)});
    let answer = bed.write("role/dev/explain", &body).unwrap();
    assert!(answer.login.is_none(), "the explanation issues no token");
    let constraints = answer.data["constraints"].as_array().unwrap().clone();
    constraints
        .iter()
        .map(|it| {
            assert!(!it["why"].as_str().unwrap().is_empty());
            (it["name"].as_str().unwrap().to_owned(), it["held"].as_bool().unwrap())
        })
        .collect()
}

#[test]
fn explanation_lists_every_constraint_and_needs_sudo() {
    let mut bed = ready();
    bed.write(
        "role/dev",
        &json!({
            "bound_service_principal_ids": "other", "bound_group_ids": "g-1",
            "bound_resource_groups": "apps", "bound_locations": "eastus",
        }),
    )
    .unwrap();
    arrange_machine(&bed, "vm-1", &json!({}));
    let refused = bed.write("role/dev/explain", &json!({"jwt": token(&json!({}))})).err().unwrap();
    assert_eq!(refused.kind, FailureKind::PermissionDenied);
    bed.caller.capabilities = vec!["update".to_owned(), "sudo".to_owned()];
    let named = |list: &[(&str, bool)]| -> Vec<(String, bool)> {
        list.iter().map(|(name, is_held)| ((*name).to_owned(), *is_held)).collect()
    };
    let claims = json!({"xms_mirid": machine("vm-1"), "groups": ["g-1"]});
    assert_eq!(
        explained(&bed, &claims),
        named(&[
            ("token_bound_cidrs", true),
            ("jwt", true),
            ("bound_service_principal_ids", false),
            ("bound_group_ids", true),
            ("resource", true),
            ("bound_resource_groups", true),
            ("bound_locations", false),
        ])
    );
    assert_eq!(
        explained(&bed, &json!({"aud": "other"})),
        named(&[
            ("token_bound_cidrs", true),
            ("jwt", false),
            ("bound_service_principal_ids", false),
            ("bound_group_ids", false),
            ("bound_resource_groups", false),
            ("bound_locations", false),
        ])
    );
    assert_eq!(
        bed.write("role/no/explain", &json!({"jwt": "x"})).err().unwrap().kind,
        FailureKind::NotFound
    );
}

#[test]
fn renewal_checks_current_role_bounds_without_provider() {
    let bed = with_role(&json!({"bound_resource_groups": "apps", "token_ttl": 60}));
    arrange_machine(&bed, "vm-1", &json!({}));
    let proven = login(&bed, &json!({"xms_mirid": machine("vm-1")}), &json!({})).unwrap();
    bed.host.requests();
    bed.write("role/dev", &json!({"token_ttl": 120})).unwrap();
    assert_eq!(bed.renew_login(&proven, 0).unwrap().token.token_ttl, 120);
    for (update, why) in [
        (json!({"bound_resource_groups": "other"}), Some("resource group not authorized")),
        (json!({"bound_resource_groups": "APPS"}), None),
        (json!({"bound_service_principal_ids": "other"}), Some("service principal not authorized")),
        (json!({"bound_service_principal_ids": OWN}), None),
        (json!({"bound_locations": "eastus"}), Some("location not authorized")),
    ] {
        bed.write("role/dev", &update).unwrap();
        let renewed = bed.renew_login(&proven, 0);
        match why {
            None => assert!(renewed.is_ok(), "{update}"),
            Some(why) => assert!(refusal(renewed).contains(why), "{update}"),
        }
    }
    bed.delete("role/dev").unwrap();
    assert!(refusal(bed.renew_login(&proven, 0)).contains("does not exist during renewal"));
    assert!(bed.host.requests().is_empty());
}

#[test]
fn recreated_role_renews_no_earlier_login() {
    let bed = with_role(&by_principal());
    let proven = login(&bed, &json!({}), &json!({})).unwrap();
    bed.write("role/dev", &json!({"token_ttl": 120})).unwrap();
    assert!(bed.renew_login(&proven, 0).is_ok(), "the role is unchanged");
    bed.delete("role/dev").unwrap();
    bed.write("role/dev", &by_principal()).unwrap();
    assert!(refusal(bed.renew_login(&proven, 0)).contains("does not exist during renewal"));
    let again = login(&bed, &json!({}), &json!({})).unwrap();
    assert!(bed.renew_login(&again, 0).is_ok());
}

#[test]
fn withdrawn_key_proves_nothing_after_configuration_write() {
    use crate::fixture::{KEYS, key, key_set};
    let bed = with_role(&by_principal());
    // The issuer's second answer.
    bed.host.answer(KEYS, answer(200, &key_set(&[("k2", &key(1))])));
    login(&bed, &json!({}), &json!({})).unwrap();
    assert!(login(&bed, &json!({}), &json!({})).is_ok(), "the set is kept");
    bed.write("config", &json!({})).unwrap();
    let refused = refusal(login(&bed, &json!({}), &json!({})));
    assert!(refused.contains("a key that is not known"), "{refused}");
}

#[test]
fn login_without_place_ends_when_role_binds_place() {
    let bed = with_role(&by_principal());
    let proven = login(&bed, &json!({"xms_mirid": machine("vm-1")}), &json!({})).unwrap();
    assert!(bed.renew_login(&proven, 0).is_ok());
    bed.write("role/dev", &json!({"bound_resource_groups": "apps"})).unwrap();
    assert!(refusal(bed.renew_login(&proven, 0)).contains("log in again"));
}

#[test]
fn retried_login_ends_within_time_limit() {
    let bed = empty();
    bed.write(
        "config",
        &json!({
            "tenant_id": TENANT, "resource": RESOURCE, "max_retries": 100, "retry_delay": "1s",
        }),
    )
    .unwrap();
    bed.write("role/dev", &by_principal()).unwrap();
    bed.host.answer(crate::fixture::DISCOVERY, answer(503, &json!({})));
    let begun = bed.host.clock().now();
    let refused = login(&bed, &json!({}), &json!({})).err().unwrap();
    assert_eq!(refused.kind, FailureKind::Unreachable);
    assert!(bed.host.clock().now() - begun <= 9_000);
    assert!(bed.host.requests().len() > 1, "the request was repeated");
}

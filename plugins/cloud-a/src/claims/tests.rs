//! Tokens that must prove nothing: forged tokens, tokens of other tenants and audiences, and tokens
//! that are almost valid.

use crate::fixture::{
    DISCOVERY, ISSUER, KEYS, OWN, TENANT, answer, key, key_set, login, login_with, ready, refusal,
    signed, token, with_role,
};
use bulkhead_sdk::testbed::TestHost;
use bulkhead_sdk::{FailureKind, jwt};
use serde_json::{Value, json};

const NOW: u64 = 1_893_456_000;

fn role() -> Value {
    json!({"bound_service_principal_ids": OWN})
}

#[test]
fn the_token_of_a_bound_principal_lets_in() {
    let bed = with_role(&role());
    let proven = login(&bed, &json!({}), &json!({})).unwrap();
    assert_eq!((proven.alias.as_str(), proven.display_name.as_str()), (OWN, OWN));
    assert_eq!(proven.metadata["role"], "dev");
}

#[test]
fn forged_and_borrowed_tokens_are_caller_errors() {
    let bed = with_role(&role());
    let long_ago = json!({"exp": NOW - 60, "nbf": NOW - 99});
    let other_tenant = ISSUER.replace("1111-2222", "1111-3222");
    for (over, why) in [
        (json!({"aud": "https://management.azure.com/"}), "is expected"),
        (json!({"aud": "https://vault.example/"}), "is expected"),
        (json!({"aud": "https://vault.example.evil"}), "is expected"),
        (json!({"aud": null}), "is expected"),
        (json!({"aud": []}), "aud"),
        (json!({"iss": other_tenant}), "is expected"),
        (json!({"iss": ISSUER.trim_end_matches('/')}), "is expected"),
        (json!({"iss": ISSUER.to_uppercase()}), "is expected"),
        (json!({"iss": [ISSUER]}), "iss"),
        (json!({"iss": null}), "is expected"),
        (json!({"tid": TENANT.replace('1', "2")}), "is of tenant"),
        (json!({"tid": 7}), "tid is not a text"),
        (long_ago, "has ended"),
        (json!({"exp": (NOW + 9).to_string()}), "exp"),
        (json!({"exp": null}), "no exp"),
        (json!({"nbf": NOW + 60}), "does not hold before"),
        (json!({"nbf": "0"}), "nbf"),
        (json!({"oid": null}), "no object id"),
        (json!({"oid": ""}), "no object id"),
        (json!({"oid": null, "OID": OWN}), "no object id"),
        (json!({"oid": null, "o\u{131}d": OWN}), "no object id"),
        (json!({"oid": [OWN]}), "oid is not a text"),
        (json!({"oid": OWN.replace('a', "e")}), "service principal not authorized"),
        (json!({"groups": "g"}), "groups"),
        (json!({"groups": [7]}), "groups"),
        (json!({"appid": 7}), "appid"),
    ] {
        let refused = refusal(login(&bed, &over, &json!({})));
        assert!(refused.contains(why), "{over}: {refused}");
    }
}

#[test]
fn token_chooses_neither_algorithm_nor_key() {
    let bed = with_role(&role());
    let good = token(&json!({}));
    let (signed_part, signature) = good.rsplit_once('.').unwrap();
    let other = signed(&json!({}), Some("k1"), &key(1));
    let unnamed = signed(&json!({}), None, &key(0));
    let unknown = signed(&json!({}), Some("k9"), &key(0));
    let host = TestHost::default();
    let claims = crate::fixture::claims(&json!({}));
    let of_512 = jwt::sign(&host, "RS512", Some("k1"), &claims, &key(0).private_key).unwrap();
    for (forged, why) in [
        (other, "signature"),
        (format!("{signed_part}."), "signature"),
        (format!("{signed_part}.AAAA"), "signature"),
        (unnamed, "key that is not known"),
        (unknown, "key that is not known"),
        (of_512, "an algorithm that is not allowed"),
        (format!("e30.{signed_part}.{signature}"), "three parts"),
        (".".repeat(40_000), "16 KiB"),
        (".".repeat(9_000), "cannot be read"),
        (format!("{good}{}", "A".repeat(20_000)), "16 KiB"),
        ("{\"payload\":\"e30\"}".to_owned(), "cannot be read"),
    ] {
        let refused = refusal(login_with(&bed, &forged, &json!({})));
        assert!(refused.contains(why), "{}: {refused}", &forged[..40.min(forged.len())]);
    }
}

#[test]
fn weak_or_other_purpose_keys_prove_nothing() {
    for change in [json!({"use": "enc"}), json!({"alg": "RS512"}), json!({"kty": "oct"})] {
        let bed = with_role(&role());
        let mut keys = key_set(&[("k1", &key(0))]);
        keys["keys"][0].as_object_mut().unwrap().extend(change.as_object().unwrap().clone());
        bed.host.answer(KEYS, answer(200, &keys));
        // A failing login consumes the answer that the fixture arranged first.
        login_with(&bed, &signed(&json!({}), Some("k0"), &key(0)), &json!({})).err().unwrap();
        bed.host.forget_cached();
        let refused = refusal(login(&bed, &json!({}), &json!({})));
        assert!(refused.contains("not known"), "{change}: {refused}");
    }
}

#[test]
fn foreign_tokens_cost_nothing_unknown_keys_one_request() {
    let bed = with_role(&role());
    login(&bed, &json!({}), &json!({})).unwrap();
    bed.host.requests();
    for over in [json!({"iss": "https://evil.example/"}), json!({"aud": "other"})] {
        login_with(&bed, &signed(&over, Some("k2"), &key(1)), &json!({})).err().unwrap();
    }
    assert!(bed.host.requests().is_empty());
    for number in 0..20 {
        let unknown = signed(&json!({}), Some(&format!("k{number}-forged")), &key(1));
        login_with(&bed, &unknown, &json!({})).err().unwrap();
    }
    assert_eq!(bed.host.requests().len(), 1);
    login(&bed, &json!({}), &json!({})).unwrap();
}

#[test]
fn issuer_speaks_only_for_own_tenant_and_server() {
    for (discovery, why) in [
        (json!({"issuer": ISSUER, "jwks_uri": "https://evil.example/keys"}), "own server"),
        (
            json!({
                "issuer": ISSUER,
                "jwks_uri": "https://login.microsoftonline.com.evil.example/keys",
            }),
            "own server",
        ),
        (
            json!({"issuer": ISSUER, "jwks_uri": "http://login.microsoftonline.com/keys"}),
            "own server",
        ),
        (
            json!({
                "issuer": "https://sts.windows.net/other/",
                "jwks_uri": "https://login.microsoftonline.com/common/discovery/keys",
            }),
            "another tenant",
        ),
    ] {
        let bed = crate::fixture::empty();
        let config = json!({"tenant_id": TENANT, "resource": crate::fixture::RESOURCE});
        bed.write("config", &config).unwrap();
        bed.write("role/dev", &role()).unwrap();
        bed.host.answer(DISCOVERY, answer(200, &discovery));
        let refused = login(&bed, &json!({}), &json!({})).err().unwrap();
        assert_eq!(refused.kind, FailureKind::Unreachable);
        assert!(refused.message.contains(why), "{}", refused.message);
        assert_eq!(bed.host.requests().len(), 1, "no key is fetched");
    }
}

#[test]
fn failing_or_redirecting_issuer_is_no_caller_mistake() {
    for status in [500, 302, 503] {
        let bed = crate::fixture::empty();
        let config = json!({
            "tenant_id": TENANT, "resource": crate::fixture::RESOURCE, "max_retries": 0,
        });
        bed.write("config", &config).unwrap();
        bed.write("role/dev", &role()).unwrap();
        bed.host.answer(DISCOVERY, answer(status, &json!({})));
        let refused = login(&bed, &json!({}), &json!({})).err().unwrap();
        assert_eq!(refused.kind, FailureKind::Unreachable, "{status}");
    }
}

#[test]
fn overflowing_groups_are_not_taken_for_none() {
    let bed = with_role(&json!({"bound_group_ids": ["g-1"]}));
    let groups = json!({"groups": ["G-1", "", "g-2"]});
    let proven = login(&bed, &groups, &json!({})).unwrap();
    assert_eq!(proven.group_aliases, Some(vec!["G-1".to_owned(), "g-2".to_owned()]));
    for over in [json!({"hasgroups": true}), json!({"_claim_names": {"groups": "src1"}})] {
        let refused = refusal(login(&bed, &over, &json!({})));
        assert!(refused.contains("overage"), "{refused}");
    }
    let refused = refusal(login(&bed, &json!({"groups": ["g-3"]}), &json!({})));
    assert_eq!(refused, "groups not authorized: [\"g-3\"]");
    assert_eq!(refusal(login(&bed, &json!({}), &json!({}))), "groups not authorized: []");
    let open = ready();
    open.write("role/dev", &role()).unwrap();
    let proven = login(&open, &json!({"hasgroups": true}), &json!({})).unwrap();
    assert_eq!(proven.group_aliases, None, "the groups of the entity stay unchanged");
}

//! Logins of accounts and instances, admitted and refused, including known vulnerabilities of other
//! implementations by name.

use crate::fixture::*;
use bulkhead_sdk::host::MachineToken;
use bulkhead_sdk::http::Response;
use bulkhead_sdk::{Failure, FailureKind, Login, unproven_requests};
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// Returns the message of a refused login, which must be an invalid request.
fn refusal(login: Result<Login, Failure>) -> String {
    let why = login.err().expect("the login is refused");
    assert_eq!(why.kind, FailureKind::InvalidRequest, "{why}");
    why.message
}

fn metadata(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
}

#[test]
fn an_account_that_signs_a_token_logs_in() {
    let bed = ready();
    let login = log_in_as_account(&bed, json!({})).unwrap();
    let shown = metadata(&[
        ("project_id", "p1"),
        ("role", "dev"),
        ("service_account_email", EMAIL),
        ("service_account_id", ID),
    ]);
    assert_eq!((login.display_name.as_str(), &login.metadata), (EMAIL, &shown));
    assert_eq!(login.alias_metadata, shown);
    assert_eq!(login.alias, bed.read("role/dev").unwrap().data["role_id"]);
    assert_eq!(login.token.token_policies, ["app"]);
    assert_eq!(login.group_aliases, Some(Vec::new()));
}

#[test]
fn an_instance_logs_in() {
    let bed = ready();
    let login = log_in_as_instance(&bed, json!({})).unwrap();
    let shown = metadata(&[
        ("instance_creation_timestamp", "1704190000"),
        ("instance_id", INSTANCE),
        ("instance_name", "i1"),
        ("project_id", "p1"),
        ("project_number", "123456"),
        ("role", "vm"),
        ("service_account_email", EMAIL),
        ("service_account_id", ID),
        ("zone", "us-east1-b"),
    ]);
    assert_eq!((login.display_name.as_str(), login.metadata), ("i1", shown));
    assert_eq!(login.alias, bed.read("role/vm").unwrap().data["role_id"]);
}

#[test]
fn config_selects_alias_and_metadata() {
    let bed = ready();
    let config = json!({
        "iam_alias": "unique_id", "gce_alias": "instance_id", "iam_metadata": [],
        "gce_metadata": "zone",
    });
    bed.write("config", &config).unwrap();
    let login = log_in_as_account(&bed, json!({})).unwrap();
    assert_eq!((login.alias.as_str(), login.metadata.len()), (ID, 0));
    let login = log_in_as_instance(&bed, json!({})).unwrap();
    assert_eq!(login.alias, format!("gce-{INSTANCE}"));
    assert_eq!(login.metadata, metadata(&[("zone", "us-east1-b")]));
}

#[test]
fn group_aliases_are_project_and_its_ancestors() {
    let bed = ready();
    for role in ["role/dev", "role/vm"] {
        bed.write(role, &json!({ "add_group_aliases": true })).unwrap();
    }
    let ancestry = "POST https://cloudresourcemanager.googleapis.com/v1/projects/p1:getAncestry";
    let of = |kind: &str, id: &str| json!({"resourceId": {"type": kind, "id": id}});
    let all = [of("project", "p1"), of("folder", "123"), of("organization", "456")];
    bed.host.answer(ancestry, answer(200, &json!({ "ancestor": all })));
    for login in [log_in_as_account(&bed, json!({})), log_in_as_instance(&bed, json!({}))] {
        let groups = login.unwrap().group_aliases.unwrap();
        assert_eq!(groups, ["project-p1", "folder-123", "organization-456"]);
    }
    for nonsense in [
        json!({"ancestor": []}),
        json!({"ancestor": [of("project", "p2")]}),
        json!({"ancestor": [of("project", "p1"), of("folder", "")]}),
        json!({"ancestor": [of("project", "p1"), {"resourceId": {"type": "folder"}}]}),
    ] {
        bed.host.answer(ancestry, answer(200, &nonsense));
        log_in_as_account(&bed, json!({})).ok();
        let why = log_in_as_account(&bed, json!({})).err().unwrap();
        assert_eq!(why.kind, FailureKind::Unreachable, "{nonsense}: {why}");
    }
}

#[test]
fn missing_fields_are_reported_before_any_request() {
    let bed = ready();
    for (body, why) in [
        (json!({"jwt": "x"}), "role is required"),
        (json!({"role": "none", "jwt": "x"}), "role \"none\" not found"),
        (json!({"role": "../config", "jwt": "x"}), "not found"),
        (json!({"role": "dev"}), "jwt argument is required"),
        (json!({"role": "dev", "jwt": "x"}), "unable to parse signed JWT"),
        (json!({"role": "dev", "jwt": ".".repeat(40_000)}), "unable to parse signed JWT"),
    ] {
        assert!(refusal(bed.login("login", &body)).contains(why), "{why}");
    }
    assert!(bed.host.requests().is_empty());
}

#[test]
fn role_and_audience_match_in_any_case() {
    let bed = ready();
    for audience in
        ["vault/dev", "vault/DEV", "http://vault/Dev", "https://b.example:8200/vault/dev"]
    {
        let token = signed("s1", ACCOUNT_KEY, &claims(&bed, json!({ "aud": audience })));
        let login = log_in(&bed, "DEV", &token).unwrap();
        assert_eq!(login.metadata["role"], "dev", "{audience}");
    }
}

#[test]
fn non_ascii_letters_match_no_role_or_audience() {
    let bed = ready();
    let role = json!({"type": "iam", "bound_service_accounts": EMAIL});
    bed.write("role/desk", &role).unwrap();
    let token =
        |audience: &str| signed("s1", ACCOUNT_KEY, &claims(&bed, json!({ "aud": audience })));
    assert!(log_in(&bed, "desK", &token("vault/DESk")).is_ok());
    // The Kelvin sign, which Unicode folds into k.
    refusal(log_in(&bed, "desk", &token("vault/des\u{212a}")));
    refusal(log_in(&bed, "des\u{212a}", &token("vault/desk")));
}

#[test]
fn token_with_missing_or_other_audience_is_refused() {
    let bed = ready();
    for audience in [
        Value::Null,
        json!("notvault/dev"),
        json!("vault/dev2"),
        json!("vault/dev/"),
        json!("vault/vm"),
        json!("dev"),
        json!(["vault/dev", "https://other.example"]),
    ] {
        let why = refusal(log_in_as_account(&bed, json!({ "aud": audience })));
        assert!(why.contains("must end in \"vault/dev\""), "{audience}: {why}");
    }
    for audience in [json!([]), json!(7), json!(["vault/dev", 7])] {
        assert!(log_in_as_account(&bed, json!({ "aud": audience })).is_err());
    }
    assert!(log_in_as_account(&bed, json!({"aud": ["vault/dev", "x/vault/dev"]})).is_ok());
}

#[test]
fn a_token_ends_soon_and_not_before_now() {
    let bed = ready();
    let at = now(&bed);
    let exp = |seconds: u64| log_in_as_account(&bed, json!({ "exp": seconds }));
    assert!(exp(at - 59).is_ok());
    assert!(refusal(exp(at - 60)).contains("JWT is expired"));
    assert!(exp(at + 900).is_ok());
    assert!(refusal(exp(at + 901)).contains("JWTs expire within 900 seconds"));
    assert!(refusal(exp(at + 3_661)).contains("JWT must expire in 60 minutes"));
    for change in [
        json!({ "exp": null }),
        json!({ "exp": format!("{}", at + 600) }),
        json!({ "nbf": at + 1 }),
        json!({ "nbf": "soon" }),
    ] {
        refusal(log_in_as_account(&bed, change));
    }
    assert!(refusal(log_in_as_instance(&bed, json!({ "exp": at + 3_661 }))).contains("60 minutes"));
}

#[test]
fn a_token_that_cannot_pass_costs_no_request() {
    let bed = ready();
    bed.write("role/dev", &json!({ "allow_gce_inference": false })).unwrap();
    let at = now(&bed);
    let of_account = |change: Value| signed("s1", ACCOUNT_KEY, &claims(&bed, change));
    let of_instance = |change: Value| signed("g1", GOOGLE_KEY, &identity(&bed, change));
    let created_at = |time: u64| {
        let engine = compute_engine(json!({ "instance_creation_timestamp": time }));
        json!({ "google": { "compute_engine": engine } })
    };
    for (role, jwt) in [
        ("dev", of_account(json!({ "aud": "vault/other" }))),
        ("dev", of_account(json!({ "exp": at - 60 }))),
        ("dev", of_account(json!({ "exp": at + 901 }))),
        ("dev", of_account(json!({ "exp": at + 3_661 }))),
        ("dev", of_account(json!({ "nbf": at + 1 }))),
        ("dev", of_instance(json!({ "aud": "vault/dev" }))),
        ("vm", of_account(json!({ "aud": "vault/vm" }))),
        ("vm", of_instance(json!({ "iss": "https://evil.example" }))),
        ("vm", of_instance(json!({ "google": null }))),
        ("vm", of_instance(created_at(at + 61))),
    ] {
        refusal(log_in(&bed, role, &jwt));
    }
    bed.write("role/dev", &json!({ "token_bound_cidrs": "192.0.2.0/24" })).unwrap();
    assert!(log_in(&bed, "dev", &of_account(json!({}))).is_err());
    assert!(bed.host.requests().is_empty());
    assert!(log_in(&bed, "vm", &of_instance(json!({}))).is_ok());
}

#[test]
fn instance_created_in_future_is_refused() {
    let bed = ready();
    let log_in_created_at = |time: u64| {
        let engine = compute_engine(json!({ "instance_creation_timestamp": time }));
        log_in_as_instance(&bed, json!({ "google": { "compute_engine": engine } }))
    };
    let at = now(&bed);
    assert!(log_in_created_at(at + 60).is_ok());
    for time in [at + 61, 4_102_444_800, u64::try_from(i64::MAX).unwrap()] {
        let why = refusal(log_in_created_at(time));
        assert!(why.contains("made in the future"), "{why}");
    }
}

#[test]
fn path_as_subject_is_refused_without_request() {
    let bed = ready();
    for subject in [
        json!("../../oauth2/v1/certs"),
        json!("a@b.com/../../x"),
        json!("a%2f@b.com"),
        json!("a@b.com?x=1"),
        json!(""),
        json!(7),
        Value::Null,
    ] {
        refusal(log_in_as_account(&bed, json!({ "sub": subject })));
    }
    assert!(bed.host.requests().is_empty());
}

#[test]
fn claims_signed_by_account_prove_no_instance() {
    // CVE-2020-16251.
    let bed = ready();
    let own = identity(&bed, json!({"iss": EMAIL, "sub": EMAIL}));
    let why = refusal(log_in(&bed, "vm", &signed("s1", ACCOUNT_KEY, &own)));
    assert!(why.contains("issuer is neither"), "{why}");
    let forged = identity(&bed, json!({ "sub": EMAIL }));
    let why = refusal(log_in(&bed, "vm", &signed("s1", ACCOUNT_KEY, &forged)));
    assert!(why.contains("no Google OAuth2 provider key found for GCE role"), "{why}");
    let named = refusal(log_in(&bed, "vm", &signed("g1", ACCOUNT_KEY, &forged)));
    assert!(named.contains("signature"), "{named}");
}

#[test]
fn instance_role_refuses_provider_token_without_instance_metadata() {
    let bed = ready();
    for google in [
        Value::Null,
        json!({}),
        json!({"Compute_Engine": compute_engine(json!({}))}),
        json!({"compute_engine": compute_engine(json!({"instance_id": null}))}),
        json!({"compute_engine": compute_engine(json!({"instance_id": 5}))}),
        json!({"compute_engine": compute_engine(json!({"zone": "../us-east1-b"}))}),
        json!({"compute_engine": compute_engine(json!({"instance_name": "i1?x"}))}),
        json!({"compute_engine": compute_engine(json!({"project_id": "p1/zones"}))}),
    ] {
        let why = refusal(log_in_as_instance(&bed, json!({ "google": google })));
        assert!(why.contains("GCE metadata"), "{google}: {why}");
    }
}

#[test]
fn tokens_with_forged_form_are_refused() {
    let bed = ready();
    let good = claims(&bed, json!({}));
    let unsigned = "eyJhbGciOiJub25lIn0.e30.";
    let token = signed("s1", ACCOUNT_KEY, &good);
    let cut = token.rsplit_once('.').unwrap().0.to_owned() + ".";
    for (jwt, why) in [
        (unsigned.to_owned(), "not allowed"),
        (cut, "signature"),
        (signed("s1", OTHER_KEY, &good), "signature"),
        (signed("s2", ACCOUNT_KEY, &good), "unable to get public key"),
        (format!("{token}.x"), "three parts"),
        (format!("{{\"payload\":\"{token}\"}}"), "parse"),
    ] {
        let found = refusal(log_in(&bed, "dev", &jwt));
        assert!(found.contains(why), "{found}");
    }
}

#[test]
fn withdrawn_key_proves_nothing_after_configuration_write() {
    let bed = ready();
    // The provider's second answer.
    for name in [EMAIL, ID] {
        bed.host.answer(&certs_of(name), answer(200, &json!({ "s2": ACCOUNT })));
    }
    log_in_as_account(&bed, json!({})).unwrap();
    assert!(log_in_as_account(&bed, json!({})).is_ok(), "the set is kept");
    bed.write("config", &json!({})).unwrap();
    let refused = refusal(log_in_as_account(&bed, json!({})));
    assert!(refused.contains("unable to get public key"), "{refused}");
}

#[test]
fn a_key_that_is_too_short_proves_nothing() {
    let bed = ready();
    let other = "short@p1.iam.gserviceaccount.com";
    bed.host.answer(&certs_of(other), answer(200, &json!({ "w1": SHORT })));
    // The key `w1` did not sign this token: the refusal does not depend on the signature.
    let token = signed("w1", ACCOUNT_KEY, &claims(&bed, json!({ "sub": other })));
    let why = refusal(log_in(&bed, "dev", &token));
    assert!(why.contains("2048"), "{why}");
}

#[test]
fn provider_signed_token_without_provider_issuer_is_refused() {
    let bed = ready();
    assert!(log_in_as_instance(&bed, json!({"iss": "accounts.google.com"})).is_ok());
    for issuer in
        [Value::Null, json!("https://accounts.google.com/"), json!("https://evil.example")]
    {
        let why = refusal(log_in_as_instance(&bed, json!({ "iss": issuer })));
        assert!(why.contains("issuer is neither"), "{why}");
    }
}

#[test]
fn account_signed_token_with_other_issuer_is_refused() {
    let bed = ready();
    for own in [EMAIL, ID] {
        assert!(log_in_as_account(&bed, json!({ "iss": own })).is_ok());
    }
    let why = refusal(log_in_as_account(&bed, json!({"iss": "https://accounts.google.com"})));
    assert!(why.contains("issuer or email is not that"), "{why}");
}

#[test]
fn role_without_inference_refuses_all_provider_signed_tokens() {
    let bed = ready();
    let token = |google: Value| {
        let claims = identity(&bed, json!({"aud": "vault/dev", "google": google}));
        signed("g1", GOOGLE_KEY, &claims)
    };
    let (full, plain) =
        (token(json!({"compute_engine": compute_engine(json!({}))})), token(Value::Null));
    for jwt in [&full, &plain] {
        assert!(log_in(&bed, "dev", jwt).is_ok(), "an hour is not too long for it");
    }
    bed.write("role/dev", &json!({ "allow_gce_inference": false })).unwrap();
    for jwt in [&full, &plain] {
        let why = refusal(log_in(&bed, "dev", jwt));
        assert!(why.contains("IAM role \"dev\" does not allow GCE inference"), "{why}");
    }
    assert!(log_in_as_account(&bed, json!({})).is_ok());
}

#[test]
fn address_number_or_wildcard_and_project_admit_account() {
    let bed = ready();
    for (change, why) in [
        (json!({"bound_service_accounts": ID}), None),
        (json!({"bound_service_accounts": "*"}), None),
        (
            json!({"bound_service_accounts": EMAIL.to_uppercase()}),
            Some("is not authorized for role"),
        ),
        (
            json!({"bound_service_accounts": "other@p1.iam.gserviceaccount.com"}),
            Some("not authorized"),
        ),
        (
            json!({"bound_service_accounts": "*", "bound_projects": "p2"}),
            Some("not in bound projects"),
        ),
        (json!({"bound_projects": "p1,p2"}), None),
    ] {
        bed.write("role/dev", &change).unwrap();
        match (log_in_as_account(&bed, json!({})), why) {
            (Ok(_), None) => {}
            (Err(found), Some(why)) => assert!(found.message.contains(why), "{found}"),
            (found, _) => panic!("{change}: {:?}", found.err()),
        }
    }
}

#[test]
fn disabled_other_or_missing_account_cannot_log_in() {
    let bed = ready();
    let at = account_at(EMAIL);
    let refused = |body: Value| {
        bed.host.answer(&at, answer(200, &body));
        log_in_as_account(&bed, json!({})).ok();
        log_in_as_account(&bed, json!({})).err().unwrap()
    };
    let disabled = refused(changed(account(), json!({ "disabled": true })));
    assert!(disabled.message.contains("is disabled"), "{disabled}");
    let other = json!({"email": "x@p1.iam.gserviceaccount.com", "uniqueId": "9"});
    let other = refused(changed(account(), other));
    assert_eq!(other.kind, FailureKind::Unreachable, "{other}");
    bed.host.answer(&at, answer(404, &json!({"error": {"status": "NOT_FOUND"}})));
    log_in_as_account(&bed, json!({})).ok();
    let gone = refusal(log_in_as_account(&bed, json!({})));
    assert!(gone.contains("find service account") && gone.contains("NOT_FOUND"), "{gone}");
}

#[test]
fn instance_must_match_token_and_be_running() {
    for (change, why) in [
        (json!({"id": "999"}), "another instance_id"),
        (json!({"status": "TERMINATED"}), "invalid status \"TERMINATED\""),
        (json!({"creationTimestamp": "2024-01-02T10:06:43Z"}), "an earlier instance"),
        (
            json!({"serviceAccounts": [{"email": "x@p1.iam.gserviceaccount.com"}]}),
            "does not run as",
        ),
        (json!({"serviceAccounts": null}), "does not run as"),
    ] {
        let bed = lying(changed(instance(), change));
        let found = refusal(log_in_as_instance(&bed, json!({})));
        assert!(found.contains(why), "{found}");
    }
    for nonsense in [
        json!({"selfLink": LINK.replace("p1", "p2")}),
        json!({"selfLink": LINK.replace("/i1", "/i2")}),
        json!({"selfLink": "i1"}),
        json!({"creationTimestamp": "yesterday"}),
        json!({"id": null}),
    ] {
        let bed = lying(changed(instance(), nonsense.clone()));
        let why = log_in_as_instance(&bed, json!({})).err().unwrap();
        assert_eq!(why.kind, FailureKind::Unreachable, "{nonsense}: {why}");
    }
}

/// Returns a bed whose provider returns other data about the instance.
fn lying(instance: Value) -> bulkhead_sdk::testbed::AuthBed<crate::CloudB> {
    let bed = ready();
    bed.host.answer(INSTANCE_AT, answer(200, &instance));
    // This login consumes the fixture's answer.
    assert!(log_in_as_instance(&bed, json!({})).is_ok());
    bed
}

#[test]
fn instance_is_checked_against_each_role_bound() {
    let bed = ready();
    let other = "x@p1.iam.gserviceaccount.com";
    for (change, why) in [
        (
            json!({"bound_projects": "p2"}),
            Some("instance \"i1\" (project \"p1\") not in bound projects"),
        ),
        (json!({"bound_projects": "p1,p2", "bound_labels": "team:blue,tier:"}), None),
        (json!({"bound_labels": "team:red"}), Some("instance missing bound label \"team:red\"")),
        (json!({"bound_labels": "owner:a"}), Some("missing bound label")),
        (json!({"bound_labels": [], "bound_zones": "us-east1-b"}), None),
        (json!({"bound_zones": "us-east1-c"}), Some("instance not in bound zones")),
        (json!({"bound_zones": [], "bound_regions": "us-east1"}), None),
        (json!({"bound_regions": "us-east10,us-east"}), Some("instance not in bound regions")),
        (json!({"bound_regions": [], "bound_service_accounts": ID}), None),
        (json!({"bound_service_accounts": EMAIL}), None),
        (json!({"bound_service_accounts": "*"}), None),
        (json!({"bound_service_accounts": other}), Some("is not in bound service accounts")),
    ] {
        bed.write("role/vm", &change).unwrap();
        match (log_in_as_instance(&bed, json!({})), why) {
            (Ok(_), None) => {}
            (Err(found), Some(why)) => assert!(found.message.contains(why), "{found}"),
            (found, _) => panic!("{change}: {:?}", found.err()),
        }
    }
}

#[test]
fn instance_group_requires_same_location_and_membership() {
    let zone = members_at("zones/us-east1-b", "web");
    let region = members_at("regions/us-east1", "web");
    let it = json!({"items": [{"instance": LINK.replace("www", "compute"), "status": "RUNNING"}]});
    let other = json!({"items": [{"instance": LINK.replace("/i1", "/i2")}]});
    for (bounds, answers, is_admitted) in [
        (json!({"bound_zones": "us-east1-b"}), vec![(&zone, 200, &it)], true),
        (json!({"bound_zones": "us-east1-b"}), vec![(&zone, 200, &other)], false),
        (json!({"bound_zones": "us-east1-b"}), vec![(&zone, 404, &it), (&region, 200, &it)], false),
        (json!({"bound_zones": "us-east1-b"}), vec![(&zone, 200, &json!({}))], false),
        (json!({"bound_regions": "us-east1"}), vec![(&zone, 404, &it), (&region, 200, &it)], true),
        (json!({"bound_regions": "us-east1"}), vec![(&zone, 200, &it)], true),
        (json!({"bound_regions": "us-east1"}), vec![(&zone, 404, &it), (&region, 404, &it)], false),
    ] {
        let bed = ready();
        let mut role = changed(bounds, json!({"bound_instance_groups": "absent, web"}));
        role["token_ttl"] = json!(60);
        bed.write("role/vm", &role).unwrap();
        for location in ["zones/us-east1-b", "regions/us-east1"] {
            bed.host.answer(&members_at(location, "absent"), answer(404, &json!({})));
        }
        for (request, status, body) in answers {
            bed.host.answer(request, answer(status, body));
        }
        match log_in_as_instance(&bed, json!({})) {
            Ok(_) => assert!(is_admitted, "{role}"),
            Err(why) => {
                assert!(!is_admitted, "{role}: {why}");
                let expected = "instance is not part of instance groups [\"absent\" \"web\"]";
                assert_eq!(
                    (why.kind, why.message.as_str()),
                    (FailureKind::InvalidRequest, expected)
                );
            }
        }
    }
}

#[test]
fn member_pages_are_followed_and_endless_pages_stop() {
    let bed = ready();
    let bounds = json!({"bound_zones": "us-east1-b", "bound_instance_groups": "web"});
    bed.write("role/vm", &bounds).unwrap();
    let first = members_at("zones/us-east1-b", "web");
    let second = format!("{first}&pageToken=n%2F1");
    bed.host.answer(&first, answer(200, &json!({ "nextPageToken": "n/1" })));
    bed.host.answer(&second, answer(200, &json!({"items": [{ "instance": LINK }]})));
    assert!(log_in_as_instance(&bed, json!({})).is_ok());
    bed.host.requests();
    bed.host.answer(&second, answer(200, &json!({ "nextPageToken": "n/1" })));
    assert!(log_in_as_instance(&bed, json!({})).is_ok());
    bed.host.requests();
    let why = log_in_as_instance(&bed, json!({})).err().unwrap();
    assert_eq!(why.kind, FailureKind::Unreachable, "{why}");
    assert!(bed.host.requests().len() < 15);
}

#[test]
fn keys_and_access_token_are_requested_once() {
    let bed = ready();
    for _ in 0..3 {
        log_in_as_account(&bed, json!({})).unwrap();
        log_in_as_instance(&bed, json!({})).unwrap();
    }
    let urls: Vec<String> = bed
        .host
        .requests()
        .iter()
        .map(|request| format!("{} {}", request.method, request.url))
        .collect();
    let count = |url: &str| urls.iter().filter(|other| *other == url).count();
    assert_eq!((count(TOKENS), count(&certs_of(EMAIL))), (1, 1));
    // A request for the set, and a request for an unknown key id.
    assert!(count(CERTS) <= 2, "{urls:?}");
}

#[test]
fn invented_accounts_cost_client_few_requests_per_minute() {
    let bed = ready();
    let forged = |number: usize| {
        let subject = format!("a{number}@p.iam.gserviceaccount.com");
        bed.host.answer(&certs_of(&subject), answer(404, &json!({})));
        let claims = claims(&bed, json!({ "sub": subject, "iss": subject }));
        log_in(&bed, "dev", &signed("k", OTHER_KEY, &claims))
    };
    let lookups =
        || bed.host.requests().iter().filter(|request| request.url.contains("x509")).count();
    let most = usize::try_from(unproven_requests::MAX_REQUESTS).unwrap();
    for number in 0..most {
        refusal(forged(number));
    }
    for number in most..100 {
        let refused = forged(number).err().unwrap();
        assert_eq!(refused.kind, FailureKind::RateLimited, "{refused}");
        assert!(refused.retry_after.is_some_and(|after| after <= 60_000), "{refused}");
    }
    assert_eq!(lookups(), most);
    bed.host.advance(61);
    refusal(forged(101));
    assert_eq!(lookups(), 1);
    for _ in 0..100 {
        // A write of the configuration ends the cached sets of keys.
        bed.write("config", &json!({})).unwrap();
        log_in_as_account(&bed, json!({})).expect("a proof does not count");
    }
}

#[test]
fn unknown_keys_cost_one_request_a_minute() {
    let bed = ready();
    log_in_as_instance(&bed, json!({})).unwrap();
    bed.host.requests();
    for number in 0..50 {
        let jwt = signed(&format!("k{number}"), OTHER_KEY, &identity(&bed, json!({})));
        refusal(log_in(&bed, "vm", &jwt));
    }
    assert_eq!(bed.host.requests().len(), 1);
    bed.host.advance(61);
    refusal(log_in(&bed, "vm", &signed("k", OTHER_KEY, &identity(&bed, json!({})))));
    assert_eq!(bed.host.requests().len(), 1);
}

#[test]
fn key_of_one_account_signs_for_no_other() {
    let bed = ready();
    let other = "other@p1.iam.gserviceaccount.com";
    bed.host.answer(&certs_of(other), answer(200, &json!({ "s1": OTHER, "o1": OTHER })));
    log_in_as_account(&bed, json!({})).unwrap();
    for id in ["s1", "o1"] {
        refusal(log_in(&bed, "dev", &signed(id, OTHER_KEY, &claims(&bed, json!({})))));
    }
}

#[test]
fn provider_outage_nonsense_or_redirect_is_unreachable() {
    let twice = json!({ "g1": GOOGLE }).to_string().replacen('{', "{\"g1\":\"x\",", 1);
    let raw = |status: u16, body: &str| Response {
        status,
        body: body.as_bytes().to_vec(),
        headers: vec![("location".to_owned(), "https://evil.example".to_owned())],
    };
    for wrong in [
        raw(503, ""),
        raw(302, ""),
        raw(200, "<html>"),
        raw(200, &twice),
        raw(200, "{\"g1\":7}"),
        raw(200, "[]"),
        raw(200, &" ".repeat(2 << 20)),
    ] {
        let bed = configured();
        bed.write("role/vm", &json!({"type": "gce", "bound_projects": "p1"})).unwrap();
        bed.host.answer(CERTS, wrong);
        let why = log_in_as_instance(&bed, json!({})).err().unwrap();
        assert_eq!(why.kind, FailureKind::Unreachable, "{why}");
        assert!(bed.host.requests().iter().all(|request| !request.url.contains("evil")));
    }
}

#[test]
fn auth_method_calls_provider_with_configured_identity() {
    let bed = ready();
    log_in_as_account(&bed, json!({})).unwrap();
    let requests = bed.host.requests();
    let exchange = requests.iter().find(|request| request.url.ends_with("/token")).unwrap();
    let form = String::from_utf8(exchange.body.clone()).unwrap();
    assert!(form.starts_with("grant_type=urn%3Aietf%3Aparams%3Aoauth%3Agrant-type%3Ajwt-bearer"));
    let shown = requests.iter().filter(|request| request.url.starts_with("https://iam.")).count();
    assert_eq!(shown, 1);
    for request in requests.iter().filter(|request| !request.url.contains("googleapis.com/token")) {
        let is_open = request.url.contains("www.googleapis.com");
        let bearer = request.headers.iter().any(|(_, value)| value == "Bearer t-1");
        assert_eq!(bearer, !is_open, "{}", request.url);
    }
}

#[test]
fn machine_token_is_used_without_credentials() {
    let bed = ready();
    bed.write("config", &json!({ "credentials": "" })).unwrap();
    let down = log_in_as_account(&bed, json!({})).err().unwrap();
    assert_eq!(down.kind, FailureKind::Unreachable, "{down}");
    let scope = "https://www.googleapis.com/auth/cloud-platform";
    let token = MachineToken { token: "t-machine".to_owned(), expires: u64::MAX };
    bed.host.set_cloud_token("google", scope, token);
    bed.host.requests();
    log_in_as_account(&bed, json!({})).unwrap();
    let requests = bed.host.requests();
    assert!(
        requests.iter().any(|it| it.headers.iter().any(|(_, value)| value == "Bearer t-machine"))
    );
}

#[test]
fn federation_exchanges_identity_token_for_account_token() {
    let bed = ready();
    let audience = "https://iam.googleapis.com/projects/1/locations/global/x";
    let config = json!({
        "credentials": "", "identity_token_audience": audience, "service_account_email": OWN,
    });
    bed.write("config", &config).unwrap();
    let exchanged = json!({"access_token": "t-sts", "expires_in": 3600});
    bed.host.answer("POST https://sts.googleapis.com/v1/token", answer(200, &exchanged));
    let own = OWN.replace('@', "%40");
    let account_token = json!({"accessToken": "t-own", "expireTime": "2999-01-01T00:00:00Z"});
    bed.host.answer(
        &format!(
            "POST https://iamcredentials.googleapis.com/v1/projects/-/serviceAccounts/{own}\
             :generateAccessToken"
        ),
        answer(200, &account_token),
    );
    log_in_as_account(&bed, json!({})).unwrap();
    log_in_as_account(&bed, json!({})).unwrap();
    let requests = bed.host.requests();
    let of = |part: &str| requests.iter().filter(|it| it.url.contains(part)).collect::<Vec<_>>();
    let (sts, iam) = (of("sts."), of("iamcredentials."));
    assert_eq!((sts.len(), iam.len()), (1, 1));
    let form = String::from_utf8(sts[0].body.clone()).unwrap();
    assert!(form.starts_with("audience=%2F%2Fiam.googleapis.com%2Fprojects%2F1"), "{form}");
    assert!(iam[0].headers.iter().any(|(_, value)| value == "Bearer t-sts"));
    let lookups = of("//iam.googleapis.com");
    assert!(lookups.iter().all(|it| it.headers.iter().any(|(_, value)| value == "Bearer t-own")));
}

#[test]
fn provider_refusals_are_reported_without_provider_text() {
    let bed = configured();
    bed.write("role/dev", &json!({"type": "iam", "bound_service_accounts": "*"})).unwrap();
    let says = json!({"error": "invalid_grant", "error_description": "hunter2"});
    bed.host.answer(TOKENS, answer(400, &says));
    bed.host.answer(CERTS, answer(200, &json!({})));
    bed.host.answer(&certs_of(EMAIL), answer(200, &json!({ "s1": ACCOUNT })));
    let why = refusal(log_in_as_account(&bed, json!({})));
    assert!(why.contains("invalid_grant") && !why.contains("hunter2"), "{why}");
}

#[test]
fn custom_endpoints_replace_default_endpoints() {
    let bed = ready();
    let places = json!({
        "credentials": key_file("k-own", ACCOUNT_KEY).to_string(),
        "custom_endpoint": {
            "api": "api.p.example", "iam": "https://iam.p.example:8443", "compute": "c.p.example",
        },
    });
    bed.write("config", &places).unwrap();
    bed.host
        .answer("GET https://api.p.example/oauth2/v1/certs", answer(200, &json!({"g1": GOOGLE})));
    bed.host.answer(
        &format!("GET https://iam.p.example:8443/v1/projects/-/serviceAccounts/{ID}"),
        answer(200, &account()),
    );
    bed.host.answer(
        "GET https://c.p.example/compute/v1/projects/p1/zones/us-east1-b/instances/i1",
        answer(200, &instance()),
    );
    log_in_as_instance(&bed, json!({})).unwrap();
}

#[test]
fn machine_token_goes_to_provider_alone() {
    let bed = ready();
    let machine = json!({"credentials": "", "custom_endpoint": {"iam": "iam.thief.example"}});
    let warned = bed.write("config", &machine).unwrap();
    assert!(warned.warnings[0].contains("custom_endpoint iam is outside"), "{:?}", warned.warnings);
    bed.host.steps();
    let why = refusal(log_in_as_account(&bed, json!({})));
    assert!(why.contains("gets access tokens by credentials only"), "{why}");
    assert!(bed.host.requests().iter().all(|request| !request.url.contains("thief")));
}

#[test]
fn login_from_unbound_network_is_refused_before_lookup() {
    let mut bed = ready();
    bed.write("role/dev", &json!({ "token_bound_cidrs": "10.0.0.0/8" })).unwrap();
    bed.caller.remote_address = "192.0.2.1".to_owned();
    let why = log_in_as_account(&bed, json!({})).err().unwrap();
    assert_eq!(why.kind, FailureKind::PermissionDenied);
    let requests = bed.host.requests();
    assert!(requests.iter().all(|it| it.url.starts_with("https://www.googleapis.com/")));
    bed.caller.remote_address = "10.1.2.3".to_owned();
    assert!(log_in_as_account(&bed, json!({})).is_ok());
}

#[test]
fn an_explanation_lists_every_constraint_and_issues_nothing() {
    let mut bed = ready();
    let bounds = json!({"bound_zones": "us-east1-c", "bound_labels": "team:red"});
    bed.write("role/vm", &bounds).unwrap();
    let jwt = signed("g1", GOOGLE_KEY, &identity(&bed, json!({})));
    let denied = bed.write("role/vm/explain", &json!({ "jwt": jwt })).err().unwrap();
    assert_eq!(denied.kind, FailureKind::PermissionDenied);
    bed.caller.capabilities = vec!["update".to_owned(), "sudo".to_owned()];
    let shown = |path: &str, jwt: &str| {
        let reply = bed.write(path, &json!({ "jwt": jwt })).unwrap();
        assert!(reply.login.is_none());
        let list = reply.data["constraints"].as_array().unwrap().clone();
        list.iter()
            .map(|it| (it["name"].as_str().unwrap().to_owned(), it["held"].as_bool().unwrap()))
            .collect::<Vec<_>>()
    };
    let constraint = |name: &str, is_held: bool| (name.to_owned(), is_held);
    assert_eq!(
        shown("role/vm/explain", &jwt),
        [
            constraint("jwt", true),
            constraint("token_bound_cidrs", true),
            constraint("gce_metadata", true),
            constraint("bound_projects", true),
            constraint("instance", true),
            constraint("bound_labels", false),
            constraint("bound_zones", false),
            constraint("bound_instance_groups", true),
            constraint("service_account", true),
            constraint("instance_account", true),
            constraint("bound_service_accounts", true),
        ]
    );
    let names: Vec<String> =
        shown("role/dev/explain", "x").into_iter().map(|(name, _)| name).collect();
    assert_eq!(names, ["jwt", "service_account", "bound_projects", "bound_service_accounts"]);
    let unknown = bed.write("role/none/explain", &json!({ "jwt": jwt })).err().unwrap();
    assert_eq!(unknown.kind, FailureKind::NotFound);
}

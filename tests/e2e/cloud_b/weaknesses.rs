//! Known weaknesses of the original Google plugin, tried on the released binary: each unproven
//! identity is refused with 400.

use super::google::{EMAIL, Google, OWN};
use super::{client, login, ready, renew};
use bulkhead_tests::cloud_b::{Instance, now};
use bulkhead_tests::internet::{Fault, Response};
use serde_json::{Value, json};

const IAM: &str = "iam.googleapis.com";
const COMPUTE: &str = "compute.googleapis.com";

/// The weakness, the role, the token, and words of the refusal.
type Row = (&'static str, &'static str, String, &'static str);

const EXPIRED: &str = "JWT is expired";
const NOT_OF_PROVIDER: &str = "accepts only tokens of the provider";
const NO_SUBJECT: &str = "expected JWT to have 'sub' claim";
const NO_AUDIENCE: &str = "aud is neither a text nor a list of texts";
const OTHER_AUDIENCE: &str = "must end in \"vault/dev\", and no other audience is allowed";
const NO_FORMAT: &str = "the GCE metadata of the JWT is not in the provider's format";

/// Tokens with a form that another parser would accept.
fn by_form(google: &Google) -> Vec<Row> {
    let signer = google.cloud.key_of(EMAIL);
    let header = json!({ "alg": "RS256", "kid": signer.kid }).to_string();
    let claims = google.cloud.claims(EMAIL, "dev").to_string();
    let folded = |other: &str| signer.token_of(&header, &claims.replace("\"sub\"", other));
    let good = signer.token_of(&header, &claims);
    let parts: Vec<&str> = good.split('.').collect();
    let form = json!({ "protected": parts[0], "payload": parts[1], "signature": parts[2] });
    let twice = claims.replacen('{', &format!("{{\"sub\":\"{OWN}\","), 1);
    let place = r#"{"alg":"RS256","kid":"x","jku":"https://evil.example/k"}"#;
    let instance = google.identity(&json!({ "iss": EMAIL, "sub": EMAIL }));
    let hmac = signer.token_of(r#"{"alg":"HS256","kid":"g1"}"#, &claims);
    let twice = signer.token_of(&header, &twice);
    let placed = signer.token_of(place, &claims);
    let parts = "three parts separated by dots";
    vec![
        ("an account signs that it is an instance", "vm", signer.token(&instance), NOT_OF_PROVIDER),
        ("claims are matched without regard to case", "dev", folded("\"SUB\""), NO_SUBJECT),
        ("claims are matched by folding", "dev", folded("\"\u{17f}ub\""), NO_SUBJECT),
        ("the last of two claims wins", "dev", twice, "a part is not JSON with each key once"),
        ("JSON is read for a token", "dev", form.to_string(), parts),
        ("a key signs by HS256", "dev", hmac, "an algorithm that is not allowed"),
        ("the token names its key's place", "dev", placed, "the JWT's subject has no such key"),
        ("forty thousand dots", "dev", ".".repeat(40_000), "it has more than 16 KiB"),
    ]
}

/// Tokens of an account for another role or another account.
fn by_claims(google: &Google) -> Vec<Row> {
    let end = json!({ "exp": (now() + 60).to_string() });
    let encoded = json!({ "sub": "a%2f..@p1.iam.gserviceaccount.com" });
    let foreign = "the token's issuer or email is not that of service account";
    [
        ("an end is a text", end, "exp is not a number of seconds"),
        ("the audience is absent", json!({ "aud": null }), NO_AUDIENCE),
        ("the audiences are none", json!({ "aud": [] }), NO_AUDIENCE),
        (
            "the audience ends in the role's letters",
            json!({ "aud": "notvault/dev" }),
            OTHER_AUDIENCE,
        ),
        ("one audience of two is another's", json!({ "aud": ["vault/dev", "x"] }), OTHER_AUDIENCE),
        ("the issuer of an account is not read", json!({ "iss": OWN }), foreign),
        (
            "the beginning is not read",
            json!({ "nbf": now() + 600 }),
            "the token does not hold before",
        ),
        ("a subject is a path", json!({ "sub": "../../../oauth2/v1/certs" }), NO_SUBJECT),
        ("a subject is encoded", encoded, NO_SUBJECT),
    ]
    .map(|(weakness, change, words)| (weakness, "dev", google.of_account(&change), words))
    .into()
}

/// Google's tokens of another instance or of no instance.
fn by_instances(google: &Google) -> Vec<Row> {
    let other = google.cloud.account("other", "p1");
    let number = &other.unique_id;
    let instance = google.identity(&json!({}))["google"]["compute_engine"].clone();
    let compute = |name: &str, value: Value| {
        let mut all = instance.clone();
        all[name] = value;
        json!({ "google": { "compute_engine": all } })
    };
    let account = json!({ "sub": number, "azp": number, "email": other.email });
    let early = compute("instance_creation_timestamp", json!(1_000_000_000));
    let late = compute("instance_creation_timestamp", json!(4_102_444_800_u64));
    let evil = json!({ "iss": "https://evil.example" });
    let foreign = "the instance does not run as service account";
    [
        ("the issuer is not read", evil, NOT_OF_PROVIDER),
        ("the instance's account is not compared", account, foreign),
        (
            "the instance's id is not compared",
            compute("instance_id", json!("7")),
            "the instance has another instance_id",
        ),
        ("an instance was made after it", early, "the token is of an earlier instance"),
        ("an instance is made in the future", late, "gives an instance made in the future"),
        ("an instance's name is a path", compute("instance_name", json!("i1/../i2")), NO_FORMAT),
        ("a zone is a path", compute("zone", json!("us-east1-b/instances/i1?x=")), NO_FORMAT),
        ("a project is a path", compute("project_id", json!("p1/../p2")), NO_FORMAT),
    ]
    .map(|(weakness, change, words)| (weakness, "vm", google.of_instance(&change), words))
    .into()
}

#[test]
fn tokens_wrongly_accepted_by_original_plugin_are_refused() {
    let google = Google::start();
    let online = ready(&google);
    let rows = [by_form(&google), by_claims(&google), by_instances(&google)].concat();
    for (weakness, role, jwt, words) in rows {
        let answer = login(&online, role, &jwt);
        assert_eq!(answer.status, 400, "{weakness}: {answer:?}");
        assert!(answer.errors().contains(words), "{weakness}: {answer:?}");
        assert!(answer.body["auth"].is_null(), "{weakness}");
    }
    for request in google.internet.requests() {
        assert!(request.host.ends_with(".googleapis.com"), "{request:?}");
        assert!(!request.path.contains("..") && !request.path.contains('?'), "{request:?}");
    }
    let certificates = google.internet.asked("www.googleapis.com");
    let own = certificates.iter().filter(|request| request.path == "/oauth2/v1/certs").count();
    assert!(own <= 2, "unknown keys cost one request a minute, and not {own}");
    login(&online, "vm", &google.of_instance(&json!({}))).expect(200);
    login(&online, "dev", &google.of_account(&json!({}))).expect(200);
}

#[test]
fn an_invalid_token_causes_no_request() {
    let google = Google::start();
    let online = ready(&google);
    google.internet.forget();
    let (account, instance) =
        (|over: Value| google.of_account(&over), |over: Value| google.of_instance(&over));
    for (role, jwt, words) in [
        ("dev", account(json!({ "aud": "vault/other" })), "must end in \"vault/dev\""),
        ("dev", account(json!({ "exp": now() - 61 })), EXPIRED),
        ("dev", account(json!({ "exp": now() + 3_000 })), "service account JWTs expire within"),
        ("vm", instance(json!({ "aud": "vault/dev" })), "must end in \"vault/vm\""),
        ("vm", instance(json!({ "iss": "https://evil.example" })), NOT_OF_PROVIDER),
        ("vm", account(json!({ "aud": "vault/vm" })), "claims with GCE metadata"),
    ] {
        let refused = login(&online, role, &jwt).expect(400);
        assert!(refused.errors().contains(words), "{refused:?}");
    }
    assert!(google.internet.requests().is_empty(), "{:?}", google.internet.requests());
}

#[test]
fn bound_of_one_location_is_unmet_elsewhere() {
    let google = Google::start();
    let online = ready(&google);
    let jwt = google.of_instance(&json!({}));
    let elsewhere = Instance::new("p1", "europe-west1-b", "i1", &google.account);
    google.group(&[&elsewhere]);
    google.cloud.group("p1", "regions/europe-west1", "web", &[&google.instance]);
    login(&online, "vm", &jwt).expect(400);
    google.group(&[&google.instance]);
    // The first of several groups does not exist.
    let groups = json!({ "bound_instance_groups": ["absent", "web"] });
    online.root.write("auth/gcp/role/vm", &groups).expect(200);
    login(&online, "vm", &jwt).expect(200);
    let near = Instance::new("p1", "us-east10-a", "i2", &google.account);
    google.cloud.start_instance(near.clone().labelled("team", "blue"));
    let groups = json!({ "bound_instance_groups": [] });
    online.root.write("auth/gcp/role/vm", &groups).expect(200);
    let jwt = google.cloud.token(&google.cloud.identity(&near, "vm"));
    let refused = login(&online, "vm", &jwt).expect(400);
    assert!(refused.errors().contains("bound regions"), "{refused:?}");
}

#[test]
fn a_role_without_gce_inference_refuses_instance_tokens() {
    let google = Google::start();
    let online = ready(&google);
    online.root.write("auth/gcp/role/dev", &json!({ "allow_gce_inference": false })).expect(204);
    let full = google.of_instance(&json!({ "aud": "vault/dev" }));
    let mut short = google.identity(&json!({ "aud": "vault/dev" }));
    short.as_object_mut().unwrap().remove("google");
    for jwt in [full, google.cloud.token(&short)] {
        let refused = login(&online, "dev", &jwt).expect(400);
        assert!(refused.errors().contains("does not allow GCE inference"), "{refused:?}");
    }
}

#[test]
fn false_redirecting_or_missing_google_answer_refuses_login() {
    let google = Google::start();
    let online = ready(&google);
    let jwt = google.of_account(&json!({}));
    let other = json!({
        "email": OWN, "uniqueId": "100000000000000000099", "projectId": "p1", "name": "x",
    });
    let long = json!("x".repeat(2 << 20));
    for (weakness, fault) in [
        ("an answer about another account is believed", Fault::Lie(Response::json(200, &other))),
        ("a redirect is followed", Fault::Redirect("https://evil.example/".to_owned())),
        ("an answer of megabytes is read", Fault::Lie(Response::json(200, &long))),
        ("an answer without end is asked for again and again", Fault::Huge),
        ("half an answer is an answer", Fault::Truncate),
        ("JSON that ends is an answer", Fault::Malform),
        ("a server that is down is the caller's fault", Fault::Status(503)),
    ] {
        google.internet.fail(IAM, "/v1/projects", fault.clone(), 3);
        let answer = login(&online, "dev", &jwt);
        assert_eq!(answer.status, 502, "{weakness}: {answer:?}");
        google.internet.heal();
        google.internet.fail(COMPUTE, "/compute", fault, 3);
        let answer = login(&online, "vm", &google.of_instance(&json!({})));
        assert_eq!(answer.status, 502, "{weakness}: {answer:?}");
        google.internet.heal();
    }
    assert!(google.internet.asked("evil.example").is_empty());
    // An ancestor without an id crashed the original plugin.
    online.root.write("auth/gcp/role/dev", &json!({ "add_group_aliases": true })).expect(204);
    let lie = json!({ "ancestor": [{ "resourceId": { "type": "folder" } }] });
    let lie = Fault::Lie(Response::json(200, &lie));
    google.internet.fail("cloudresourcemanager.googleapis.com", "/", lie, 1);
    login(&online, "dev", &jwt).expect(502);
    login(&online, "dev", &jwt).expect(200);
}

#[test]
fn renewal_checks_bounds_ignored_by_original_plugin() {
    let google = Google::start();
    let online = ready(&google);
    // Logins show no metadata. The original plugin could not renew such logins.
    let silent = json!({ "iam_metadata": [], "gce_metadata": [] });
    online.root.write("auth/gcp/config", &silent).expect(204);
    let account = client(&online, &login(&online, "dev", &google.of_account(&json!({}))));
    let instance = client(&online, &login(&online, "vm", &google.of_instance(&json!({}))));
    renew(&account).expect(200);
    renew(&instance).expect(200);
    let elsewhere = json!({ "bound_projects": "p2" });
    for (role, status) in [("dev", 204), ("vm", 200)] {
        online.root.write(&format!("auth/gcp/role/{role}"), &elsewhere).expect(status);
    }
    renew(&account).expect(400);
    renew(&instance).expect(400);
}

#[test]
fn missing_role_edits_and_private_endpoints_are_refused() {
    let google = Google::start();
    let online = ready(&google);
    for path in ["service-accounts", "labels"] {
        let path = format!("auth/gcp/role/none/{path}");
        online.root.write(&path, &json!({ "add": "a:b" })).expect(404);
    }
    let private = "is private, loopback, link-local or reserved";
    for (place, words) in [
        ("http://169.254.169.254", "does not begin with https://"),
        ("https://169.254.169.254", private),
        ("https://[::1]:8443", private),
        ("https://127.0.0.1", private),
        ("https://10.0.0.1", private),
        ("https://metadata.google.internal", private),
        ("https://u:p@www.googleapis.com", "has no host, or a bad port"),
        ("https://x.example/?a", "has an invalid path"),
        ("https://x.example/#a", "has an invalid path"),
    ] {
        let config = json!({ "custom_endpoint": { "api": place } });
        let refused = online.root.write("auth/gcp/config", &config).expect(400).errors();
        let words = format!("custom_endpoint api: \"{place}\" {words}");
        assert!(refused.contains(&words), "{refused} does not contain {words}");
    }
    login(&online, "dev", &google.of_account(&json!({}))).expect(200);
}

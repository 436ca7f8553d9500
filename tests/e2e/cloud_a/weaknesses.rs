//! Known weaknesses of the original Azure plugin, tried on the released binary: each unproven
//! identity is refused with 400.

use super::CloudStage;
use bulkhead_tests::cloud_a::{Machine, ResourceKind, SUBSCRIPTION, TENANT};
use bulkhead_tests::internet::{Fault, Response};
use serde_json::{Value, json};

const OTHER: &str = "61111111-2222-3333-4444-555555555555";
const ARM: &str = "management.azure.com";

/// A role with bounds on subscription, resource group and location.
fn bound() -> Value {
    json!({
        "bound_subscription_ids": SUBSCRIPTION, "bound_resource_groups": "apps",
        "bound_locations": "westus2",
    })
}

fn stated(more: &Value) -> Value {
    let mut all = json!({ "subscription_id": SUBSCRIPTION, "resource_group_name": "apps" });
    all.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    all
}

fn with(mut claims: Value, name: &str, value: Value) -> Value {
    claims[name] = value;
    claims
}

/// A machine outside of the bound group that shares an identity with a bound machine.
fn elsewhere() -> Machine {
    Machine::vm("evil", "vm1").with_identity("apps", "shared")
}

/// The weakness, the claims of the token, the fields of the login, and words of the refusal.
type Row = (&'static str, Value, Value, &'static str);

const OTHER_MACHINE: &str = "xms_az_rid and xms_mirid do not match vm_name";
const OTHER_PRINCIPAL: &str = "token object id does not match expected identities";
const NO_ID: &str = "invalid resource_id: the value is not an id of a resource";

/// A machine in another place, or with another name than the login says.
fn of_other_places(stage: &CloudStage) -> Vec<Row> {
    let azure = &stage.azure;
    let vm = azure.add(Machine::vm("apps", "vm1").with_identity("apps", "shared"));
    azure.add(Machine::vm("apps", "vm10"));
    let elsewhere = azure.claims(&azure.add(elsewhere()));
    let abroad = Machine::vm("apps", "vm1").in_subscription(OTHER).with_identity("apps", "shared");
    let abroad = azure.claims(&azure.add(abroad));
    let set = azure.claims(&azure.add(Machine::scale_set(ResourceKind::Uniform, "apps", "web")));
    let far = azure.add(Machine::site("apps", "far").in_location("eastus"));
    let vm1 = stated(&json!({ "vm_name": "vm1" }));
    let longer = with(azure.claims(&vm), "xms_az_rid", json!(format!("{}0", vm.id)));
    let mut bare =
        azure.claims(&azure.add(Machine::vm("evil", "vm2").with_identity("evil", "id2")));
    bare.as_object_mut().unwrap().retain(|name, _| !name.starts_with("xms_"));
    let group = json!({ "subscription_id": SUBSCRIPTION, "resource_group_name": "evil" });
    let (far_claims, far) = (azure.claims(&far), json!({ "resource_id": far.id }));
    let part = stated(&json!({ "vmss_name": "we" }));
    vec![
        ("names are matched by a part of them", set, part, "do not match vmss_name"),
        ("a name begins with another", longer, vm1.clone(), OTHER_MACHINE),
        ("a shared identity stands for the machine", elsewhere, vm1.clone(), OTHER_MACHINE),
        ("the subscription is what is stated", abroad, vm1, OTHER_MACHINE),
        (
            "an identity is looked for in a group that is stated",
            bare,
            group,
            "neither token object id nor token app id match",
        ),
        (
            "the location of a resource is not read",
            far_claims,
            far,
            "location not authorized: \"eastus\"",
        ),
    ]
}

/// A resource id that is not the machine's own, or that leads out of its group.
fn by_ids(stage: &CloudStage) -> Vec<Row> {
    let machine = elsewhere();
    let bound = machine.id.replace("/evil/", "/apps/");
    let row = |(weakness, id, words): (&'static str, String, &'static str)| {
        (weakness, stage.azure.claims(&machine), json!({ "resource_id": id }), words)
    };
    [
        (
            "the group of an identity counts as the machine's",
            machine.id.clone(),
            "resource group not authorized: \"evil\"",
        ),
        ("a resource id is held against no claim", bound.clone(), "do not match resource_id"),
        (
            "a resource id leaves its group by dots",
            bound.replace("/apps/", "/apps/../evil/"),
            NO_ID,
        ),
        ("a resource id ends in a query", format!("{}?/resourceGroups/apps/", machine.id), NO_ID),
        (
            "a resource id ends in a fragment",
            format!("{}#/resourceGroups/apps/", machine.id),
            NO_ID,
        ),
    ]
    .map(row)
    .into()
}

/// A claim that another parser would accept or ignore.
fn by_claims(stage: &CloudStage) -> Vec<Row> {
    let claims = stage.azure.claims(&stage.azure.add(Machine::vm("apps", "vm2")));
    let other = elsewhere().identity.principal;
    let issuer = format!("https://sts.windows.net/{OTHER}/");
    let many: Vec<String> = (0..600).map(|one| format!("g{one}")).collect();
    let row = |(weakness, name, value, words): (&'static str, &str, Value, &'static str)| {
        (weakness, with(claims.clone(), name, value), json!({}), words)
    };
    let longer = json!("https://management.azure.com/x");
    let unprinted = "a group alias that cannot be printed";
    [
        ("another machine's identity", "oid", json!(other), OTHER_PRINCIPAL),
        ("the issuer of another tenant", "iss", json!(issuer), "the token is of another issuer"),
        ("the tenant's claim is not looked at", "tid", json!(OTHER), "the token is of tenant"),
        ("the audience is a beginning", "aud", longer, "the token is for another audience"),
        ("the token has no audience", "aud", Value::Null, "aud is neither a text nor a list"),
        ("an end is a text", "exp", json!("9999999999"), "exp is not a number of seconds"),
        (
            "more groups than a token can name are a fault",
            "groups",
            json!(many),
            "the login comes with 600 group aliases",
        ),
        ("a group that cannot be printed is a fault", "groups", json!(["a\u{7}b"]), unprinted),
        ("an id that cannot be printed is a fault", "oid", json!("a\u{0}b"), OTHER_PRINCIPAL),
        (
            "the beginning is in the future",
            "nbf",
            json!(9_999_999_999_u64),
            "the token does not hold before",
        ),
    ]
    .map(row)
    .into()
}

#[test]
fn original_azure_plugin_weaknesses_borrow_no_identity() {
    let stage = CloudStage::with_role(&bound());
    let own = stage.azure.add(Machine::vm("apps", "vm0"));
    stage.login(&stage.azure.claims(&own), &json!({})).expect(200);
    let rows = [of_other_places(&stage), by_ids(&stage), by_claims(&stage)].concat();
    for (weakness, claims, fields, words) in rows {
        stage.internet.forget();
        let answer = stage.login(&claims, &fields);
        assert_eq!(answer.status, 400, "{weakness}: {answer:?}");
        assert!(answer.errors().contains(words), "{weakness}: {answer:?}");
        assert!(answer.body["auth"].is_null(), "{weakness}");
        for request in stage.internet.requests() {
            let is_own = request.host == ARM && request.path.starts_with("/subscriptions/");
            assert!(is_own && !request.path.contains(".."), "{weakness}: {request:?}");
            let is_signed = claims["xms_az_rid"] == json!(elsewhere().id);
            let leads_there = request.path.to_lowercase().contains("/evil/");
            assert!(is_signed || !leads_there, "{weakness}: {request:?}");
        }
    }
}

#[test]
fn malformed_tokens_accepted_by_original_plugin_are_refused() {
    let stage = CloudStage::with_role(&bound());
    let own = stage.azure.add(Machine::vm("apps", "vm0"));
    let (signer, claims) = (stage.azure.signer(), stage.azure.claims(&own));
    let header = r#"{"alg":"RS256","kid":"k1"}"#;
    let text = claims.to_string();
    let folded =
        |name: &str, other: &str| text.replace(&format!("\"{name}\""), &format!("\"{other}\""));
    let good = signer.token(&claims);
    let parts: Vec<&str> = good.split('.').collect();
    let json_form = json!({ "protected": parts[0], "payload": parts[1], "signature": parts[2] });
    let twice = text.replacen('{', &format!("{{\"oid\":\"{OTHER}\","), 1);
    let of = |header: &str| signer.token_of(header, &text);
    let brought = json!({ "alg": "RS256", "kid": "mine", "jwk": signer.jwk() }).to_string();
    let named = r#"{"alg":"RS256","kid":"mine","jku":"https://evil.example/k"}"#;
    let (unknown, algorithm) =
        ("signed by a key that is not known", "algorithm that is not allowed");
    for (weakness, jwt, words) in [
        (
            "claims are matched without regard to case",
            signer.token_of(header, &folded("oid", "OID")),
            "the token has no object id (oid)",
        ),
        (
            "claims are matched by folding",
            signer.token_of(header, &folded("iss", "i\u{17f}s")),
            "the token is of another issuer",
        ),
        (
            "the last of two claims wins",
            signer.token_of(header, &twice),
            "a part is not JSON with each key once",
        ),
        ("JSON is read for a token", json_form.to_string(), "three parts separated by dots"),
        ("no signature is asked for", of(r#"{"alg":"none","kid":"k1"}"#), algorithm),
        ("the token chooses the algorithm", of(r#"{"alg":"HS256","kid":"k1"}"#), algorithm),
        ("the token brings its key", of(&brought), unknown),
        ("the token names its key's place", of(named), unknown),
        ("the token names no key", of(r#"{"alg":"RS256"}"#), unknown),
        (
            "what is critical is ignored",
            of(r#"{"alg":"RS256","kid":"k1","crit":["x"],"x":1}"#),
            "the header has crit",
        ),
        ("forty thousand dots", ".".repeat(40_000), "it has more than 16 KiB"),
    ] {
        let body = json!({ "role": "dev", "jwt": jwt });
        let answer = stage.online.server.client(None).write("auth/azure/login", &body);
        assert_eq!(answer.status, 400, "{weakness}: {answer:?}");
        assert!(answer.errors().contains(words), "{weakness}: {answer:?}");
    }
    assert!(stage.internet.asked("evil.example").is_empty());
    let keys = stage.internet.asked("login.microsoftonline.com");
    let keys = keys.iter().filter(|request| request.path.ends_with("/keys")).count();
    assert!(keys <= 2, "unknown keys cost one request a minute, and not {keys}");
    let body = json!({ "role": "dev", "jwt": good });
    stage.online.server.client(None).write("auth/azure/login", &body).expect(200);
}

#[test]
fn a_lying_redirecting_or_unreachable_azure_is_502() {
    let stage = CloudStage::with_role(&bound());
    let claims = stage.azure.claims(&stage.azure.add(Machine::vm("apps", "vm0")));
    let other = stage.azure.add(Machine::vm("apps", "vm9"));
    let evil = "https://evil.example/";
    let long = json!("x".repeat(2 << 20));
    let page = json!({ "value": [], "nextLink": format!("{evil}subscriptions/x") });
    let about_other = json!({ "id": other.id, "location": "westus2", "identity": {} });
    for (weakness, fault) in [
        (
            "an answer about another machine is believed",
            Fault::Lie(Response::json(200, &about_other)),
        ),
        ("a redirect is followed", Fault::Redirect(evil.to_owned())),
        ("an answer of megabytes is read", Fault::Lie(Response::json(200, &long))),
        ("an answer without end is asked for again and again", Fault::Huge),
        ("half an answer is an answer", Fault::Truncate),
        ("JSON that ends is an answer", Fault::Malform),
        ("a server that is down is the caller's fault", Fault::Status(503)),
    ] {
        stage.internet.fail(ARM, "/subscriptions", fault, 2);
        let answer = stage.login(&claims, &json!({}));
        assert_eq!(answer.status, 502, "{weakness}: {answer:?}");
        stage.internet.heal();
    }
    let mut bare = claims.clone();
    bare.as_object_mut().unwrap().retain(|name, _| !name.starts_with("xms_"));
    stage.internet.fail(ARM, "/subscriptions", Fault::Lie(Response::json(200, &page)), 1);
    let answer = stage.login(&bare, &stated(&json!({})));
    assert_eq!(answer.status, 502, "a list goes on elsewhere: {answer:?}");
    assert!(stage.internet.asked("evil.example").is_empty());
    stage.login(&claims, &json!({})).expect(200);
}

#[test]
fn tenant_id_altering_url_is_refused() {
    let stage = CloudStage::with_role(&bound());
    let root = &stage.online.root;
    for tenant in ["../x", "x?y=", "evil.example/x", "common", "organizations", "consumers", "a b"]
    {
        let refused = root.write("auth/azure/config", &json!({ "tenant_id": tenant })).expect(400);
        let words = format!("tenant_id \"{tenant}\" is neither the GUID nor a domain");
        assert!(refused.errors().contains(&words), "{refused:?}");
    }
    let config = root.read("auth/azure/config").expect(200);
    assert_eq!(config.body["data"]["tenant_id"], TENANT);
}

#[test]
fn rotation_answer_without_secret_keeps_old_secret() {
    let stage = CloudStage::with_role(&bound());
    let lie = Fault::Lie(Response::json(200, &json!({ "keyId": "k", "secretText": null })));
    stage.internet.fail("graph.microsoft.com", "/v1.0/applications/", lie, 1);
    stage.online.root.write("auth/azure/rotate-root", &json!({})).expect(502);
    let claims = stage.azure.claims(&stage.azure.add(Machine::vm("apps", "vm0")));
    stage.login(&claims, &json!({})).expect(200);
}

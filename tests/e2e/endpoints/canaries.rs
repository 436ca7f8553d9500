//! A canary in every place that a caller can write: each field of each endpoint with right and
//! wrong types, each capture, the query, the headers, the method, and bodies other than JSON.
//!
//! No log line shows the canary, and no file except the audit file. The audit file contains text of
//! answers (refusals or warnings that quote a value, a token's policies and metadata), and never
//! text of requests. A value of a secret field appears nowhere.

use super::inspected::{Endpoint, endpoints};
use super::{all_rows, inspected};
use crate::world::{CREATION, World, with};
use bulkhead_tests::leaks::{self, CANARY, runs_shown};
use bulkhead_tests::{Answer, Client};
use serde_json::{Value, json};

/// Endpoints that would end the test or wait for ever: they seal the server, revoke the token, move
/// a mount or show the log while it is written.
const LEFT_OUT: [&str; 4] = ["sys/seal", "auth/token/revoke-self", "sys/remount", "sys/monitor"];

/// A world with a connection and a role named `anything`.
fn world() -> World {
    let world = World::empty();
    world.connect("anything");
    let role = json!({ "db_name": "anything", "creation_statements": CREATION });
    assert!(world.root.write("database/roles/anything", &role).status < 300);
    world
}

/// Bodies of successful requests, each with its endpoint.
type UsualBodies = Vec<(&'static Endpoint, Value)>;

fn usual_bodies() -> UsualBodies {
    let rows = all_rows().into_iter().filter(|row| row.body.is_object());
    rows.filter_map(|row| Some((inspected::endpoint_of(&row)?, row.body))).collect()
}

/// The body of a successful request to the endpoint.
fn usual(world: &World, bodies: &UsualBodies, endpoint: &Endpoint) -> Value {
    if endpoint.path == "database/config/{name}" {
        return with(world.connection(), json!({ "verify_connection": false }));
    }
    let found = bodies.iter().find(|(leads_to, _)| std::ptr::eq(*leads_to, endpoint));
    found.map_or_else(|| json!({}), |(_, body)| body.clone())
}

fn escaped(text: &str) -> String {
    text.bytes().map(|byte| format!("%{byte:02X}")).collect()
}

/// Sends the request with `value` in the field.
fn ask(
    client: &Client,
    endpoint: &Endpoint,
    usual: &Value,
    (field, value): (&str, &Value),
) -> Answer {
    match endpoint.method() {
        "POST" => {
            let body = with(usual.clone(), json!({ field: value })).to_string();
            client.send("POST", &endpoint.example(), body.as_bytes())
        }
        method => {
            let value = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
            let path = format!("{}?{}={}", endpoint.example(), escaped(field), escaped(&value));
            client.send(method, &path, b"")
        }
    }
}

/// The first lines of `text` that contain a part of the canary.
fn showing(text: &str) -> Vec<String> {
    // One search of the whole text is faster than a search of each line.
    if runs_shown(text, CANARY).is_empty() {
        return Vec::new();
    }
    let lines = text.lines().filter(|line| !runs_shown(line, CANARY).is_empty());
    lines.map(str::to_owned).take(20).collect()
}

fn audited(world: &World) -> Vec<Value> {
    let text = std::fs::read_to_string(world.bulkhead.data().join("audit.log"))
        .expect("dev mode audits to that file");
    text.lines().map(|line| serde_json::from_str(line).expect("an audit line is JSON")).collect()
}

/// Sends the canary in every secret field, or in every other field. Returns the number of requests
/// and the text of the answers.
fn fill_every_field(world: &World, secret: bool) -> (usize, String) {
    let (mut count, mut messages, bodies) = (0, String::new(), usual_bodies());
    for endpoint in
        endpoints().iter().filter(|endpoint| !LEFT_OUT.contains(&endpoint.path.as_str()))
    {
        let usual = usual(world, &bodies, endpoint);
        for field in endpoint.fields.iter().filter(|field| (field["secret"] == true) == secret) {
            let name = field["name"].as_str().expect("a field has a name");
            for value in [json!(CANARY), json!([CANARY]), json!({ "a": CANARY }), json!([[CANARY]])]
            {
                let answer = ask(&world.root, endpoint, &usual, (name, &value));
                count += 1;
                messages += &format!(
                    "{name} of {}: {} {}\n",
                    endpoint.path,
                    answer.errors(),
                    answer.warnings()
                );
            }
        }
    }
    (count, messages)
}

#[test]
fn values_of_secret_fields_appear_nowhere() {
    let world = world();
    let (count, messages) = fill_every_field(&world, true);
    assert!(count > 60, "only {count} requests were sent");
    assert_eq!(showing(&messages), Vec::<String>::new(), "refusals and warnings");
    let audited: String = audited(&world).iter().map(|line| format!("{line}\n")).collect();
    assert_eq!(showing(&audited), Vec::<String>::new(), "audit lines");
    assert_eq!(showing(&world.bulkhead.printed()), Vec::<String>::new(), "log lines");
    leaks::assert_sealed(world.bulkhead.data(), CANARY);
}

#[test]
fn nonsecret_field_values_reach_no_log_or_file() {
    let world = world();
    let (count, _) = fill_every_field(&world, false);
    assert!(count > 500, "only {count} requests were sent");
    let requests: String =
        audited(&world).iter().map(|line| format!("{}\n", line["request"])).collect();
    assert!(requests.lines().count() > count, "each request is audited");
    assert_eq!(showing(&requests), Vec::<String>::new(), "audit lines show a value of a field");
    assert_eq!(showing(&world.bulkhead.printed()), Vec::<String>::new(), "log lines");
    leaks::assert_sealed(world.bulkhead.data(), CANARY);
}

#[test]
fn names_unknown_fields_and_tokens_reach_no_log() {
    let world = world();
    let is_asked = |endpoint: &&Endpoint| !LEFT_OUT.contains(&endpoint.path.as_str());
    let (freely, others): (Vec<_>, Vec<_>) =
        endpoints().iter().filter(is_asked).partition(|endpoint| has_free_names(endpoint));
    others.into_iter().for_each(|endpoint| misuse(&world, endpoint));
    leaks::assert_sealed(world.bulkhead.data(), CANARY);
    freely.into_iter().for_each(|endpoint| misuse(&world, endpoint));
    world.root.send("ZQ9XW7KJ4VB2NR", "sys/health", b"").expect(405);
    assert_eq!(showing(&world.bulkhead.printed()), Vec::<String>::new(), "log lines");
    assert!(!world.bulkhead.printed().contains("ZQ9XW7KJ4VB2NR"));
}

/// Returns true if objects of the endpoint may have any name. A name is the key of a record, and
/// not secret.
fn has_free_names(endpoint: &Endpoint) -> bool {
    ["secret/", "kv/", "cubbyhole/"].iter().any(|below| endpoint.path.starts_with(below))
}

/// Sends the canary as names, as unknown fields, in a broken body and as a token.
fn misuse(world: &World, endpoint: &Endpoint) {
    let (root, canary) = (&world.root, escaped(CANARY));
    let path =
        endpoint.path.split('/').map(|part| if part.starts_with('{') { &canary } else { part });
    let path = path.collect::<Vec<_>>().join("/");
    root.send(endpoint.method(), &path, b"");
    if endpoint.fields.iter().any(|field| field["name"] == "list") || path.contains(&canary) {
        root.send(endpoint.method(), &format!("{path}?{canary}={canary}"), b"");
    }
    if endpoint.method() == "POST" {
        let broken = format!("{{\"password\": \"{CANARY}\", {CANARY}");
        let refused = root.send("POST", &endpoint.example(), broken.as_bytes());
        leaks::assert_silent(&endpoint.path, &refused.errors(), CANARY);
        root.send("POST", &endpoint.example(), json!({ CANARY: CANARY }).to_string().as_bytes());
    }
    let refused =
        world.bulkhead.client(Some(CANARY)).send(endpoint.method(), &endpoint.example(), b"");
    leaks::assert_silent(&endpoint.path, &refused.errors(), CANARY);
}

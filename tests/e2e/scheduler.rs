//! The scheduler's ACL API for its own clients: plain HTTP, its own tokens, and blocking reads.

mod bad_input;
mod blocking;
mod parked;
mod policies;
mod recorded;
mod regions;
mod rights;
mod strangers;
mod tokens;

use bulkhead_tests::scheduler::{PlainAnswer, Scheduler};
use serde_json::{Value, json};

/// Policy rules that the scheduler accepts.
const RULES: &str = "namespace \"default\" { policy = \"read\" }";

/// Starts a scheduler with the policy `readonly`.
fn bed() -> Scheduler {
    let scheduler = Scheduler::start();
    let policy = json!({ "Name": "readonly", "Rules": RULES });
    scheduler.manage("PUT", "/v1/acl/policy/readonly", &policy);
    scheduler
}

/// Creates a role with the policy `readonly` and returns the record.
fn role(scheduler: &Scheduler, name: &str) -> Value {
    let role = json!({ "Name": name, "Policies": [{ "Name": "readonly" }] });
    scheduler.manage("PUT", "/v1/acl/role", &role).json()
}

/// Creates a client token with links to these roles and returns the record.
fn token(scheduler: &Scheduler, roles: &[&Value]) -> Value {
    let links: Vec<Value> = roles.iter().map(|role| json!({ "ID": role["ID"] })).collect();
    let mut given = json!({ "Name": "client", "Type": "client", "Roles": links });
    if roles.is_empty() {
        given = json!({ "Name": "client", "Type": "client", "Policies": ["readonly"] });
    }
    scheduler.manage("PUT", "/v1/acl/token", &given).json()
}

fn secret(token: &Value) -> &str {
    token["SecretID"].as_str().expect("a token's secret")
}

fn id(record: &Value) -> &str {
    record["ID"].as_str().expect("an identifier")
}

#[track_caller]
fn assert_refused(answer: &PlainAnswer, status: u16, text: &str) {
    assert_eq!((answer.status, answer.text().as_str()), (status, text));
    assert_eq!(answer.header("content-type"), Some("text/plain; charset=utf-8"));
}

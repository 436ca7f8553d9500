//! Fixtures: a region on the test bed, and prepared answers of an authoritative region.

use crate::Scheduler;
use bulkhead_sdk::http::Response;
use bulkhead_sdk::raw::RawReply;
use bulkhead_sdk::testbed::TestBed;
use serde_json::{Value, json};

pub(crate) const AUTHORITY: &str = "http://10.0.0.1:4646";
pub(crate) const TOKEN: &str = "99999999-2222-4333-8444-555555555555";
/// Secret of a management token of the region on the bed.
pub(crate) const LOCAL: &str = "11111111-2222-4333-8444-555555555555";

/// Returns a configuration that follows the region `global`.
pub(crate) fn replica_config() -> Value {
    json!({
        "region": "west", "authoritative_region": "global", "addresses": [AUTHORITY],
        "replication_token": TOKEN, "replication_backoff": "100ms",
    })
}

pub(crate) fn bed() -> TestBed<Scheduler> {
    TestBed::new().unwrap()
}

/// Returns a bootstrapped region with the given roles, configured to follow another region.
pub(crate) fn replica(roles: &[&str]) -> TestBed<Scheduler> {
    let bed = bed();
    let body = json!({"BootstrapSecret": LOCAL});
    assert_eq!(call(&bed, "POST", "v1/acl/bootstrap", &body).status, 200);
    let policy = json!({"Name": "p", "Rules": "namespace \"default\" { policy = \"read\" }"});
    assert_eq!(call(&bed, "POST", "v1/acl/policy/p", &policy).status, 200);
    for name in roles {
        let role = json!({"Name": name, "Policies": [{"Name": "p"}]});
        assert_eq!(call(&bed, "POST", "v1/acl/role", &role).status, 200);
    }
    bed.write("config", &replica_config()).unwrap();
    bed.host.steps();
    bed
}

/// Sends a request with the bed's own management token.
pub(crate) fn call(bed: &TestBed<Scheduler>, method: &str, path: &str, body: &Value) -> RawReply {
    call_with(bed, method, path, body, &[])
}

/// Sends a request with additional headers.
pub(crate) fn call_with(
    bed: &TestBed<Scheduler>,
    method: &str,
    path: &str,
    body: &Value,
    headers: &[(&str, &str)],
) -> RawReply {
    let (path, query) = path.split_once('?').unwrap_or((path, ""));
    let mut request = bed.raw_request(method, path, query);
    if !body.is_null() {
        request.body = serde_json::to_vec(body).unwrap();
    }
    let headers = [("x-nomad-token", LOCAL)].iter().chain(headers).copied();
    request.headers = headers.map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
    bed.serve(&request).unwrap()
}

pub(crate) fn get(bed: &TestBed<Scheduler>, path: &str) -> (u16, String) {
    let reply = call(bed, "GET", path, &Value::Null);
    (reply.status, String::from_utf8(reply.body).unwrap())
}

/// Returns the names of the roles, sorted.
pub(crate) fn role_names(bed: &TestBed<Scheduler>) -> Vec<String> {
    let listed: Vec<Value> = serde_json::from_str(&get(bed, "v1/acl/roles").1).unwrap();
    let mut names: Vec<String> =
        listed.iter().map(|role| role["Name"].as_str().unwrap().to_owned()).collect();
    names.sort();
    names
}

pub(crate) fn answer(status: u16, index: u64, body: &Value) -> Response {
    let index = ("x-nomad-index".to_owned(), index.to_string());
    Response { status, headers: vec![index], body: serde_json::to_vec(body).unwrap() }
}

/// Prepares the answer about the type of the replication token.
pub(crate) fn prove(bed: &TestBed<Scheduler>, kind: &str) {
    let route = format!("GET {AUTHORITY}/v1/acl/token/self?region=global");
    bed.host.answer(&route, answer(200, 1, &json!({"Type": kind})));
}

/// Prepares a list of the authoritative region for a replica that has seen the index `seen`.
pub(crate) fn lists(bed: &TestBed<Scheduler>, table: &str, seen: u64, index: u64, list: &Value) {
    let wait = if seen == 0 { String::new() } else { format!("&index={seen}&wait=10000ms") };
    bed.host.answer(&page_of(table, &wait, 2_000, ""), answer(200, index, list));
}

/// Returns the request for a page of a list. `wait` holds the parameters of a first page.
pub(crate) fn page_of(table: &str, wait: &str, size: u32, begin: &str) -> String {
    let kind = if table == "tokens" { "global=true" } else { "paged=true" };
    let next = if begin.is_empty() { String::new() } else { format!("&next_token={begin}") };
    format!("GET {AUTHORITY}/v1/acl/{table}?region=global{wait}&{kind}&per_page={size}{next}")
}

/// Returns an answer that names the next page.
pub(crate) fn continued(mut page: Response, next: &str) -> Response {
    page.headers.push(("x-nomad-nexttoken".to_owned(), next.to_owned()));
    page
}

/// Prepares the answer to a request for a single record.
pub(crate) fn shows(bed: &TestBed<Scheduler>, path: &str, status: u16, record: &Value) {
    let route = format!("GET {AUTHORITY}/v1/acl/{path}?region=global");
    bed.host.answer(&route, answer(status, 7, record));
}

/// Returns a role of the authoritative region with an identifier that ends in `number`.
pub(crate) fn role(number: u32, name: &str) -> Value {
    json!({
        "ID": role_id(number), "Name": name, "Description": "", "Policies": [{"Name": "p"}],
        "Hash": "x", "CreateIndex": 1, "ModifyIndex": 7,
    })
}

pub(crate) fn role_id(number: u32) -> String {
    format!("aaaaaaaa-2222-4333-8444-{number:012}")
}

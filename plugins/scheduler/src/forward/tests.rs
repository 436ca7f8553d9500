//! Requests that the authoritative region serves, on the test bed.

use crate::fixture::{
    AUTHORITY, LOCAL, TOKEN, answer, call, call_with, get, lists, prove, replica, role, role_id,
    role_names,
};
use serde_json::{Value, json};

const ROLE: &str = "POST http://10.0.0.1:4646/v1/acl/role?region=global";

#[test]
fn write_is_forwarded_and_readable_here_at_once() {
    let bed = replica(&[]);
    bed.host.answer(ROLE, answer(200, 70, &role(1, "a")));
    let body = json!({"Name": "a", "Policies": [{"Name": "p"}]});
    let reply = call(&bed, "POST", "v1/acl/role?region=bogus", &body);
    assert_eq!(reply.status, 200);
    assert!(reply.headers.contains(&("x-nomad-index".to_owned(), "70".to_owned())));
    let sent = bed.host.requests().remove(0);
    let header = |name: &str| {
        let found = sent.headers.iter().find(|(key, _)| key == name);
        found.map(|(_, value)| value.as_str())
    };
    assert_eq!(header("x-bulkhead-hop"), Some("1"));
    assert_eq!(header("x-nomad-token"), Some(LOCAL));
    assert!(sent.secrets.contains(&LOCAL.to_owned()));
    assert!(!sent.headers.iter().any(|(_, value)| value.contains(TOKEN)));
    assert_eq!(serde_json::from_slice::<Value>(&sent.body).unwrap(), body);
    assert_eq!(role_names(&bed), ["a"]);
    assert_eq!(get(&bed, "v1/acl/role/name/a").0, 200);
}

#[test]
fn an_older_listing_undoes_no_forwarded_write() {
    let bed = replica(&[]);
    prove(&bed, "management");
    bed.host.answer(ROLE, answer(200, 70, &role(1, "a")));
    call(&bed, "POST", "v1/acl/role", &json!({"Name": "a", "Policies": []}));
    lists(&bed, "roles", 0, 69, &json!([]));
    bed.wake("replicate/roles", 1).unwrap();
    assert_eq!(role_names(&bed), ["a"]);
    lists(&bed, "roles", 69, 71, &json!([]));
    bed.wake("replicate/roles", 1).unwrap();
    assert_eq!(role_names(&bed), Vec::<String>::new());
}

#[test]
fn renames_removals_and_policies_are_stored_at_once() {
    let bed = replica(&[]);
    bed.host.answer(ROLE, answer(200, 70, &role(1, "a")));
    call(&bed, "POST", "v1/acl/role", &json!({"Name": "a"}));
    let path = format!("v1/acl/role/{}", role_id(1));
    let route = |method: &str| format!("{method} {AUTHORITY}/{path}?region=global");
    bed.host.answer(&route("PUT"), answer(200, 71, &role(1, "b")));
    call(&bed, "PUT", &path, &json!({"ID": role_id(1), "Name": "b"}));
    assert_eq!(get(&bed, "v1/acl/role/name/a").0, 404);
    assert_eq!(get(&bed, "v1/acl/role/name/b").0, 200);
    bed.host.answer(&route("DELETE"), answer(200, 72, &Value::Null));
    call(&bed, "DELETE", &path, &Value::Null);
    assert_eq!((get(&bed, &path).0, role_names(&bed).len()), (404, 0));
    let policy = format!("POST {AUTHORITY}/v1/acl/policy/q?region=global");
    bed.host.answer(&policy, answer(200, 73, &Value::Null));
    let rules = "namespace \"default\" { policy = \"read\" }";
    call(&bed, "POST", "v1/acl/policy/q", &json!({"Name": "q", "Rules": rules}));
    assert_eq!(get(&bed, "v1/acl/policy/q").0, 200);
}

#[test]
fn a_request_passes_one_region() {
    let bed = replica(&[]);
    bed.host.answer(ROLE, answer(200, 70, &role(1, "a")));
    let hop = [("x-bulkhead-hop", "1")];
    let body = json!({"Name": "a"});
    let reply = call_with(&bed, "POST", "v1/acl/role", &body, &hop);
    assert_eq!((reply.status, reply.body.as_slice()), (500, b"No path to region".as_slice()));
    let reply = call_with(&bed, "GET", "v1/acl/roles?region=global", &Value::Null, &hop);
    assert_eq!((reply.status, reply.body.as_slice()), (500, b"No path to region".as_slice()));
    // Also for a token that this region does not know.
    let mut request = bed.raw_request("POST", "v1/acl/role", "");
    request.headers = vec![(hop[0].0.to_owned(), hop[0].1.to_owned())];
    assert_eq!(bed.serve(&request).unwrap().status, 500);
    assert!(bed.host.requests().is_empty());
}

#[test]
fn bad_or_refused_write_changes_nothing() {
    let bed = replica(&[]);
    let null = json!({"Name": "a", "Policies": [null]});
    assert_eq!(call(&bed, "POST", "v1/acl/role", &null).status, 400);
    assert!(bed.host.requests().is_empty());
    bed.host.answer(ROLE, answer(403, 1, &json!("no")));
    assert_eq!(call(&bed, "POST", "v1/acl/role", &json!({"Name": "a"})).status, 403);
    assert_eq!(role_names(&bed), Vec::<String>::new());
}

#[test]
fn silent_region_fails_writes_but_no_reads() {
    let bed = replica(&["a"]);
    let reply = call(&bed, "POST", "v1/acl/role", &json!({"Name": "b"}));
    assert_eq!(reply.status, 500);
    assert!(reply.body.starts_with(b"rpc error: failed to get conn: "));
    assert_eq!(role_names(&bed), ["a"]);
    let local = json!({"Name": "l", "Type": "client", "Policies": ["p"]});
    assert_eq!(call(&bed, "POST", "v1/acl/token", &local).status, 200);
}

#[test]
fn other_address_is_used_only_without_first_answer() {
    let bed = replica(&[]);
    let second = "http://10.0.0.2:4646";
    let change = json!({"addresses": [AUTHORITY, second], "replication_token": TOKEN});
    bed.write("config", &change).unwrap();
    bed.host.answer(&format!("GET {second}/v1/status/leader"), answer(200, 1, &json!("x")));
    let route = format!("POST {second}/v1/acl/role?region=global");
    bed.host.answer(&route, answer(200, 70, &role(1, "a")));
    assert_eq!(call(&bed, "POST", "v1/acl/role", &json!({"Name": "a"})).status, 200);
    let posts = bed.host.requests().iter().filter(|sent| sent.method == "POST").count();
    assert_eq!(posts, 1);
}

#[test]
fn a_read_names_its_region() {
    let bed = replica(&["a"]);
    let route = format!("GET {AUTHORITY}/v1/acl/roles?region=global&prefix=aa&wait=5s");
    bed.host.answer(&route, answer(200, 70, &json!([role(1, "x")])));
    assert!(get(&bed, "v1/acl/roles?region=global&prefix=aa").1.contains("\"x\""));
    assert!(get(&bed, "v1/acl/roles?region=west").1.contains("\"a\""));
    assert_eq!(get(&bed, "v1/acl/roles?region=nope"), (500, "No path to region".to_owned()));
    assert_eq!(get(&bed, "v1/acl/roles?region=nope&index=x").0, 400);
    assert_eq!(get(&bed, "v1/regions").1, r#"["global","west"]"#);
}

#[test]
fn requests_of_strangers_are_not_forwarded() {
    let bed = replica(&["a"]);
    bed.host.answer(ROLE, answer(200, 70, &role(1, "b")));
    let path = format!("v1/acl/role/{}", role_id(1));
    let body = json!({"Name": "b", "Global": true, "Type": "management"});
    for token in ["", TOKEN, "nonsense"] {
        for (method, path, body) in [
            ("POST", "v1/acl/role", &body),
            ("DELETE", path.as_str(), &Value::Null),
            ("POST", "v1/acl/policy/b", &body),
            ("DELETE", "v1/acl/policy/p", &Value::Null),
            ("POST", "v1/acl/token", &body),
            ("GET", "v1/acl/roles?region=global", &Value::Null),
            ("GET", "v1/acl/token/self?region=global", &Value::Null),
        ] {
            let (path, query) = path.split_once('?').unwrap_or((path, ""));
            let mut request = bed.raw_request(method, path, query);
            request.headers = vec![("x-nomad-token".to_owned(), token.to_owned())];
            request.body = if body.is_null() { Vec::new() } else { body.to_string().into_bytes() };
            let reply = bed.serve(&request).unwrap();
            assert_eq!(reply.status, 403, "{method} {path} {token}");
            assert!(reply.caller.is_none());
        }
    }
    let boot = call(&bed, "POST", "v1/acl/bootstrap", &Value::Null);
    assert_eq!(boot.status, 400);
    assert!(String::from_utf8(boot.body).unwrap().contains("follows region global"));
    assert!(bed.host.requests().is_empty());
}

#[test]
fn lists_are_read_after_the_token() {
    let bed = replica(&[]);
    let reply = |token: &str, body: &Value| {
        let mut request = bed.raw_request("POST", "v1/acl/token", "");
        request.headers = vec![("x-nomad-token".to_owned(), token.to_owned())];
        request.body = body.to_string().into_bytes();
        bed.serve(&request).unwrap()
    };
    let bad_list = json!({"Type": "client", "Policies": [1], "Roles": [null]});
    assert_eq!(reply(TOKEN, &bad_list).status, 403);
    assert_eq!(reply(LOCAL, &bad_list).status, 400);
    let names: Vec<String> = (0..20_000).map(|number| format!("name-{number}")).collect();
    let twice: Vec<&String> = names.iter().chain(&names).collect();
    let answer = reply(LOCAL, &json!({"Name": "n", "Type": "client", "Policies": twice}));
    let shown: Value = serde_json::from_slice(&answer.body).unwrap();
    assert_eq!(shown["Policies"].as_array().unwrap().len(), names.len());
    let caller = answer.caller.expect("a caller with a token has a name");
    assert_eq!(caller.display_name, "Bootstrap Token");
}

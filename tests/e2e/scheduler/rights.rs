//! Callers' rights to roles, and the information in refusals.

use super::{assert_refused, bed, id, role, secret, token};
use bulkhead_tests::scheduler::PlainRequest;
use bulkhead_tests::wait::until_true;
use serde_json::{Value, json};
use std::time::Duration;

const DENIED: &str = "Permission denied";

#[test]
fn caller_sees_only_roles_of_its_token() {
    let scheduler = bed();
    let (one, other) = (role(&scheduler, "one"), role(&scheduler, "other"));
    let linked = token(&scheduler, &[&one]);
    let bare = token(&scheduler, &[]);
    let missing = "ffffffff-0000-4000-8000-000000000000";
    let get = |path: &str, secret: &str| scheduler.ask("GET", path, secret, &Value::Null);
    for (caller, listed) in
        [(scheduler.management.as_str(), 2), (secret(&linked), 1), (secret(&bare), 0), ("", 0)]
    {
        let list = get("/v1/acl/roles", caller);
        assert_eq!((list.status, list.json().as_array().map(Vec::len)), (200, Some(listed)));
        for path in ["/v1/acl/role".to_owned(), format!("/v1/acl/role/{}", id(&one))] {
            let mut given = one.clone();
            if !path.ends_with(id(&one)) {
                given = json!({ "Name": "more", "Policies": [] });
            }
            let written = scheduler.ask("POST", &path, caller, &given);
            let expected = if caller == scheduler.management { 200 } else { 403 };
            assert_eq!(written.status, expected, "{path}: {}", written.text());
        }
    }
    let own = get(&format!("/v1/acl/role/{}", id(&one)), secret(&linked));
    assert_eq!(own.json()["Name"], "one");
    assert_eq!(get("/v1/acl/role/name/one", secret(&linked)).json()["ID"], one["ID"]);
    for path in [
        format!("/v1/acl/role/{}", id(&other)),
        "/v1/acl/role/name/other".to_owned(),
        format!("/v1/acl/role/{missing}"),
        "/v1/acl/role/name/none".to_owned(),
    ] {
        assert_refused(&get(&path, secret(&linked)), 403, DENIED);
        assert_refused(&get(&path, ""), 403, DENIED);
    }
    let absent = get(&format!("/v1/acl/role/{missing}"), &scheduler.management);
    assert_refused(&absent, 404, "ACL role not found");
    assert!(absent.index() > 1, "a read that is not there tells the table's index");
}

#[test]
fn bad_token_is_refused_and_not_deemed_anonymous() {
    let scheduler = bed();
    let garbage = "x".repeat(10 << 10);
    for (header, value) in [
        ("X-Nomad-Token", "nope"),
        ("X-Nomad-Token", "00000000-1111-2222-3333-444444444444"),
        ("X-Nomad-Token", "two words"),
        ("X-Nomad-Token", garbage.as_str()),
        ("X-Scheduler-Token", "nope"),
        ("Authorization", "Bearer nope"),
    ] {
        let request = PlainRequest::new("GET", "/v1/acl/roles").with_header(header, value);
        assert_refused(&request.send(scheduler.address()), 403, DENIED);
    }
    let management = scheduler.management.clone();
    for (header, value) in [
        ("X-Nomad-Token", format!("  {management} ")),
        ("X-Scheduler-Token", management.clone()),
        ("Authorization", format!("bearer {management}")),
    ] {
        let request = PlainRequest::new("GET", "/v1/acl/tokens").with_header(header, &value);
        assert_eq!(request.send(scheduler.address()).status, 200, "{header}");
    }
    scheduler.server.assert_silent(&management);
}

#[test]
fn host_token_is_refused_and_reaches_no_component() {
    let scheduler = bed();
    let root = bulkhead_tests::bulkhead::ROOT;
    for (header, value) in
        [("X-Vault-Token", root.to_owned()), ("Authorization", format!("Bearer {root}"))]
    {
        let request = PlainRequest::new("GET", "/v1/acl/tokens").with_header(header, &value);
        assert_refused(&request.send(scheduler.address()), 403, DENIED);
        let main = PlainRequest { path: "/v1/acl/tokens".to_owned(), ..request };
        assert_refused(&main.send(scheduler.server.address()), 403, DENIED);
    }
    // The same API below the mount on the server's own listener.
    let request = PlainRequest::new("GET", "/v1/acl/tokens").with_token(&scheduler.management);
    assert_eq!(request.send(scheduler.server.address()).status, 200);
    let regions_request = PlainRequest { path: "/v1/acl/v1/regions".to_owned(), ..request };
    assert_eq!(regions_request.send(scheduler.server.address()).json(), json!(["global"]));
}

#[test]
fn concurrent_creations_of_one_name_succeed_once() {
    let scheduler = bed();
    let statuses: Vec<u16> = std::thread::scope(|scope| {
        let asks: Vec<_> = (0..50)
            .map(|_| {
                let role = json!({ "Name": "same", "Policies": [{ "Name": "readonly" }] });
                let scheduler = &scheduler;
                scope.spawn(move || {
                    scheduler.ask("PUT", "/v1/acl/role", &scheduler.management, &role).status
                })
            })
            .collect();
        asks.into_iter().map(|ask| ask.join().expect("no caller panics")).collect()
    });
    assert_eq!(statuses.iter().filter(|status| **status == 200).count(), 1, "{statuses:?}");
    assert!(statuses.iter().all(|status| [200, 400].contains(status)), "{statuses:?}");
    let listed = scheduler.manage("GET", "/v1/acl/roles", &Value::Null).json();
    assert_eq!(listed.as_array().map(Vec::len), Some(1), "{listed}");
}

#[test]
fn roles_tokens_and_indexes_survive_a_kill() {
    let mut scheduler = bed();
    let created_role = role(&scheduler, "kept");
    let client = token(&scheduler, &[&created_role]);
    let before = scheduler.manage("GET", "/v1/acl/roles", &Value::Null);
    scheduler.server.kill();
    scheduler.start_again();
    until_true("the scheduler answers", Duration::from_secs(20), || {
        scheduler.ask("GET", "/v1/regions", "", &Value::Null).status == 200
    });
    let after = scheduler.ask("GET", "/v1/acl/roles", secret(&client), &Value::Null);
    assert_eq!((after.json(), after.index()), (before.json(), before.index()));
    let more = role(&scheduler, "more");
    assert!(more["CreateIndex"].as_u64() > before.json()[0]["CreateIndex"].as_u64());
}

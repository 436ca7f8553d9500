//! A directory that lies while an account is lent: the loan and its lease stay, and the refusal and
//! the status of the set show the reason.

use super::hazards::configured;
use super::liar::{BIND, EXTENDED, LyingDirectory, MODIFY, ReceivedRequest, SEARCH};
use serde_json::json;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

const BASE: &str = "DC=corp,DC=example";
const ACCOUNT: &str = "CN=svc1,OU=people,DC=corp,DC=example";
const ACCOUNT_ID: &str = "0123456789abcdef";
const OTHER: &str = "CN=svc2,OU=people,DC=corp,DC=example";
const OTHER_ID: &str = "fedcba9876543210";

/// The answer to a request; `None` for the answer of an honest directory.
type Lie = fn(&ReceivedRequest<'_>) -> Option<Vec<u8>>;

fn entry(request: &ReceivedRequest<'_>, dn: &str, id: &str) -> Vec<u8> {
    let found: &[(&str, &[&[u8]])] =
        &[("objectGUID", &[id.as_bytes()]), ("objectClass", &[b"user"])];
    [request.entry(dn, found), request.result(0)].concat()
}

/// An Active Directory with one account, which takes each password.
fn honest(request: &ReceivedRequest<'_>) -> Vec<u8> {
    match request.operation {
        BIND | MODIFY | EXTENDED => request.result(0),
        SEARCH if request.holds("supportedCapabilities") => {
            let attributes: &[(&str, &[&[u8]])] = &[
                ("supportedCapabilities", &[b"1.2.840.113556.1.4.800"]),
                ("defaultNamingContext", &[BASE.as_bytes()]),
                ("namingContexts", &[BASE.as_bytes()]),
            ];
            [request.entry("", attributes), request.result(0)].concat()
        }
        SEARCH if request.holds("CN=engine") => request.result(32),
        SEARCH => entry(request, ACCOUNT, ACCOUNT_ID),
        _ => Vec::new(),
    }
}

fn is_for_account(request: &ReceivedRequest<'_>) -> bool {
    request.holds(ACCOUNT) || request.holds(ACCOUNT_ID)
}

/// Hides the account, and shows another one.
fn hide_account(request: &ReceivedRequest<'_>) -> Option<Vec<u8>> {
    match request.operation {
        SEARCH if is_for_account(request) => Some(request.result(0)),
        SEARCH if request.holds("CN=engine") => Some(request.result(32)),
        SEARCH => Some(entry(request, OTHER, OTHER_ID)),
        _ => None,
    }
}

fn answer_login(request: &ReceivedRequest<'_>, code: u8) -> Option<Vec<u8>> {
    (request.operation == BIND && request.holds(ACCOUNT)).then(|| request.result(code))
}

#[test]
fn a_lying_directory_ends_no_loan() {
    let lies: [(&str, Lie); 5] = [
        ("although the account can log in", hide_account),
        ("does not tell whether", |request| {
            hide_account(request).or_else(|| answer_login(request, 53))
        }),
        ("does not show its objectGUID", |request| match request.operation {
            SEARCH if request.holds(ACCOUNT_ID) => {
                Some([request.entry(OTHER, &[]), request.result(0)].concat())
            }
            SEARCH if request.holds(ACCOUNT) => Some(request.result(32)),
            _ => None,
        }),
        ("refuses a login with the new password", |request| answer_login(request, 49)),
        ("userdn", |request| match request.operation {
            SEARCH => Some(request.result(0)),
            _ => answer_login(request, 49),
        }),
    ];
    for (why, lie) in lies {
        let lies_now = Arc::new(AtomicBool::new(false));
        let begins = Arc::clone(&lies_now);
        let liar = LyingDirectory::start(move |request| {
            let lie = if begins.load(Ordering::SeqCst) { lie(request) } else { None };
            lie.unwrap_or_else(|| honest(request))
        });
        let (_bulkhead, root) = configured(&liar, json!({}));
        let set = json!({ "service_account_names": "svc1", "ttl": "1h" });
        root.write("directory/library/team", &set).expect(204);
        let lent = root.write("directory/library/team/check-out", &json!({})).expect(200);
        lies_now.store(true, Ordering::SeqCst);
        let lease = json!({ "lease_id": lent.lease() });
        let refused = root.write("sys/leases/revoke", &lease).expect(400);
        assert!(refused.errors().contains(why), "{why}: {}", refused.errors());
        root.write("sys/leases/lookup", &lease).expect(200);
        let status = root.read("directory/library/team/status").expect(200);
        let status = &status.body["data"]["svc1"];
        assert_eq!(status["available"], false, "{why}");
        let shown = status["last_error"].as_str().expect("the status shows the reason");
        assert!(shown.contains(why), "{why}: {shown}");
    }
}

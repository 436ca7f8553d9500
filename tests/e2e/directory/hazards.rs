//! A lying directory, callers who want another borrower's account, and a man in the middle:
//! unproven answers are not trusted, and no password reaches the wrong server or caller.

use super::liar::{BIND, EXTENDED, LyingDirectory, MODIFY, ReceivedRequest, SEARCH, part};
use super::{DirectoryStage, FIRST};
use bulkhead_tests::{Answer, Bulkhead, Client, DirectoryKind};
use serde_json::{Value, json};
use std::io::Write;
use std::net::TcpListener;
use std::time::{Duration, Instant};

/// The engine's password at the lying directory.
const BINDPASS: &str = "Xk7-Qz2-Wv9-Jt4";
const ACCOUNT: &str = "CN=svc1,OU=people,DC=corp,DC=example";

/// Starts a server whose engine is configured with the lying directory.
pub(super) fn configured(liar: &LyingDirectory, changes: Value) -> (Bulkhead, Client) {
    let bulkhead = Bulkhead::start();
    let root = bulkhead.root();
    let config = json!({
        "url": liar.url(), "binddn": "CN=engine,DC=corp,DC=example", "bindpass": BINDPASS,
        "userdn": "DC=corp,DC=example", "request_timeout": 2, "connection_timeout": 2,
    });
    root.write("directory/config", &crate::world::with(config, changes));
    (bulkhead, root)
}

/// Simulates an Active Directory that reports success and changes nothing.
fn pretending(request: &ReceivedRequest<'_>) -> Vec<u8> {
    match request.operation {
        BIND if request.holds(BINDPASS) || request.holds("CN=engine") => request.result(0),
        BIND => request.result(49),
        SEARCH if request.holds("supportedCapabilities") => {
            let attributes: &[(&str, &[&[u8]])] = &[
                ("supportedCapabilities", &[b"1.2.840.113556.1.4.800"]),
                ("defaultNamingContext", &[b"DC=corp,DC=example"]),
            ];
            [request.entry("", attributes), request.result(0)].concat()
        }
        SEARCH if request.holds("CN=engine") => request.result(32),
        SEARCH => {
            let found: &[(&str, &[&[u8]])] = &[("objectGUID", &[b"0123456789abcdef"])];
            [request.entry(ACCOUNT, found), request.result(0)].concat()
        }
        MODIFY | EXTENDED => request.result(0),
        _ => Vec::new(),
    }
}

fn role(root: &Client) -> Answer {
    root.write("directory/roles/build", &json!({ "service_account_name": "svc1" }))
}

/// Refusal without an answer of the directory.
const NO_ANSWER: &str = "the server did not answer in time";
/// Refusal of a connection that failed.
const BROKEN: &str = "the connection was not made or broke";
/// Refusal of an answer that points to another server.
const REFERRAL: &str = "referral to another server, which is not followed";

#[test]
fn a_false_success_of_the_directory_is_detected() {
    let liar = LyingDirectory::start(pretending);
    let (_bulkhead, root) = configured(&liar, json!({}));
    role(&root).expect(204);
    root.read("directory/creds/build").refused(400, "refuses a login with the new password");
    let shown = root.read("directory/roles/build").expect(200);
    assert_eq!(shown.text("last_service_rotation"), "", "nothing was rotated");
}

#[test]
fn no_directory_answer_crashes_or_blocks_server() {
    type Lie = fn(&ReceivedRequest<'_>) -> Vec<u8>;
    let lies: [(u16, &str, Lie); 7] = [
        // Nested without end.
        (502, "is not LDAP", |request| {
            let nested = (0..10_000).fold(Vec::new(), |inner, _| part(0x30, &inner));
            request.message(&part(0x64, &nested))
        }),
        // The head of two gigabytes.
        (502, "is too large", |_| b"\x30\x84\x7f\xff\xff\xff\x02\x01\x02".to_vec()),
        (502, "is too large", |request| request.entry(ACCOUNT, &[]).repeat(200_000)),
        // An attribute without values.
        (400, "insufficient access rights", |request| {
            [request.entry(ACCOUNT, &[("objectGUID", &[])]), request.result(50)].concat()
        }),
        (502, NO_ANSWER, |request| request.result(0)[..5].to_vec()),
        (502, NO_ANSWER, |_| Vec::new()),
        (502, "does not match the request", |request| {
            ReceivedRequest { id: request.id + 1, ..*request }.result(0)
        }),
    ];
    for (status, words, lie) in lies {
        let liar = LyingDirectory::start(move |request| match request.operation {
            BIND => request.result(0),
            _ => lie(request),
        });
        let (bulkhead, root) = configured(&liar, json!({}));
        let began = Instant::now();
        role(&root).refused(status, words);
        assert!(began.elapsed() < Duration::from_secs(20), "{words}");
        root.read("sys/health").expect(200);
        root.read("directory/roles/build").expect(404);
        bulkhead.assert_silent(BINDPASS);
    }
}

/// A slow trickle of bytes does not extend the timeout.
#[test]
fn a_slow_answer_times_out_like_no_answer() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let url = format!("ldap://{}", listener.local_addr().expect("an address"));
    std::thread::spawn(move || {
        for mut stream in listener.incoming().map_while(Result::ok) {
            std::thread::spawn(move || {
                // The head of an answer of 64 KiB that never completes.
                let mut bytes = vec![0x30, 0x83, 1, 0, 0, 2, 1, 1, 0x61, 0x83, 0, 0xff, 0];
                bytes.resize(400, 4);
                for byte in bytes {
                    if stream.write_all(&[byte]).is_err() {
                        return;
                    }
                    std::thread::sleep(Duration::from_millis(100));
                }
            });
        }
    });
    let liar = LyingDirectory::start(|_| Vec::new());
    let (bulkhead, root) = configured(&liar, json!({ "url": url }));
    let began = Instant::now();
    role(&root).refused(502, NO_ANSWER);
    assert!(began.elapsed() < Duration::from_secs(10), "{:?}", began.elapsed());
    root.read("sys/health").expect(200);
    bulkhead.assert_silent(BINDPASS);
}

/// Callers must not see attributes of an entry, even if these cause the refusal.
#[test]
fn no_refusal_shows_attributes_of_an_entry() {
    const HELD: &[u8] = b"Hidden-In-An-Entry-7391";
    let liar = LyingDirectory::start(|request| match request.operation {
        SEARCH if request.holds("svc1") => {
            let found = |dn: &str, id: &[u8]| {
                request.entry(dn, &[("objectGUID", &[id]), ("userPrincipalName", &[HELD])])
            };
            let other = "CN=other,OU=people,DC=corp,DC=example";
            let entries = [found(ACCOUNT, b"0123456789abcdef"), found(other, HELD)];
            [entries.concat(), request.result(0)].concat()
        }
        _ => pretending(request),
    });
    let (bulkhead, root) = configured(&liar, json!({}));
    let several = "several accounts are called \"svc1\"";
    role(&root).refused(400, several);
    let set = json!({ "service_account_names": "svc1" });
    root.write("directory/library/team", &set).refused(400, several);
    bulkhead.assert_silent(std::str::from_utf8(HELD).expect("a text"));
}

/// A referral would send the password to another server.
#[test]
fn no_referral_is_followed() {
    let elsewhere = TcpListener::bind("127.0.0.1:0").expect("a port");
    elsewhere.set_nonblocking(true).expect("a listener can be asked");
    let url = format!("ldap://{}/DC=corp", elsewhere.local_addr().expect("an address"));
    let liar = LyingDirectory::start(move |request| {
        let referral = part(0xa3, &part(4, url.as_bytes()));
        let operation = request.operation + if request.operation == SEARCH { 2 } else { 1 };
        let refers = [&[0x0a, 1, 10, 4, 0, 4, 0][..], &referral].concat();
        match request.operation {
            BIND => request.result(0),
            _ => request.message(&part(operation, &refers)),
        }
    });
    let (_bulkhead, root) = configured(&liar, json!({}));
    role(&root).refused(400, REFERRAL);
    root.write("directory/rotate-root", &json!({})).refused(400, REFERRAL);
    assert!(elsewhere.accept().is_err(), "the other server got a connection");
}

#[test]
fn nothing_is_sent_in_clear_if_starttls_fails() {
    let consent = |request: &ReceivedRequest<'_>| match request.operation {
        EXTENDED => request.result(0),
        _ => Vec::new(),
    };
    let refusal = |request: &ReceivedRequest<'_>| request.result(2);
    let injection = |request: &ReceivedRequest<'_>| {
        let bind = ReceivedRequest { id: request.id + 1, operation: BIND, content: b"" };
        [request.result(0), bind.result(0)].concat()
    };
    for (words, liar) in [
        // The end of the liar's connection may come before the end of the time for the handshake.
        (&[NO_ANSWER, BROKEN][..], LyingDirectory::start(consent)),
        (&["refuses StartTLS"], LyingDirectory::start(refusal)),
        (&["sent more than the consent to StartTLS"], LyingDirectory::start(injection)),
    ] {
        let (_bulkhead, root) = configured(&liar, json!({ "starttls": true }));
        let refused = role(&root).expect(502);
        let errors = refused.errors();
        assert!(words.iter().any(|part| errors.contains(part)), "{words:?}: {errors}");
        assert_unsaid(&liar, words[0]);
    }
}

/// An attacker who breaks the secured connection must not get the password through the other
/// server.
#[test]
fn clear_text_server_never_replaces_secured_server() {
    let liar = LyingDirectory::start(pretending);
    let broken = TcpListener::bind("127.0.0.1:0").expect("a port");
    let secured = format!("ldaps://{}", broken.local_addr().expect("an address"));
    drop(broken);
    let urls = format!("{secured}, {}", liar.url());
    let (_bulkhead, root) = configured(&liar, json!({}));
    let moved = json!({ "url": urls, "bindpass": BINDPASS });
    let mixed = root.write("directory/config", &moved).expect(200);
    assert!(mixed.warnings().contains("is never asked"), "{}", mixed.warnings());
    role(&root).refused(502, BROKEN);
    assert_unsaid(&liar, "a secured server is down");
    let starttls = json!({ "starttls": true, "bindpass": BINDPASS });
    root.write("directory/config", &starttls).expect(204);
}

#[track_caller]
fn assert_unsaid(liar: &LyingDirectory, what: &str) {
    let heard = liar.heard();
    let is_said = heard.windows(BINDPASS.len()).any(|bytes| bytes == BINDPASS.as_bytes());
    assert!(!is_said, "{what}: the password was sent in clear");
}

#[test]
fn other_callers_cannot_use_loan_lease() {
    let stage = DirectoryStage::new(DirectoryKind::OpenLdap);
    stage.set("team", &["svc1"], json!({ "ttl": "1h" }));
    let lent = stage.root.write("directory/library/team/check-out", &json!({})).expect(200);
    let rules = r#"path "directory/library/*" { capabilities = ["update", "read"] }"#;
    stage.root.write("sys/policies/acl/other", &json!({ "policy": rules })).expect(204);
    let body = json!({ "policies": ["other"], "no_default_policy": true });
    let answer = stage.root.write("auth/token/create", &body).expect(200);
    let other = stage.bulkhead.client(answer.body["auth"]["client_token"].as_str());
    let lease = json!({ "lease_id": lent.lease() });
    for path in ["sys/leases/lookup", "sys/leases/renew", "sys/leases/revoke"] {
        other.write(path, &lease).refused(403, "permission denied: this token may not update");
    }
    let prefix = "sys/leases/revoke-prefix/directory/library/team";
    other.write(prefix, &json!({})).refused(403, "permission denied: this token may not update");
    // Another mount has no lease with this id.
    let id = lent.lease().replacen("directory/", "database/", 1);
    let renewal = stage.root.write("sys/leases/renew", &json!({ "lease_id": id }));
    renewal.refused(400, "there is no lease with this id");
    stage.root.write("sys/leases/revoke", &json!({ "lease_id": id }));
    assert!(stage.takes("svc1", lent.text("password")) && !stage.takes("svc2", "none-of-these"));
    assert!(stage.takes("svc2", FIRST));
    stage.root.write("sys/leases/lookup", &lease).expect(200);
}

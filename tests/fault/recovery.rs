//! The invariants, checked at a restarted server, at the database and in the files.

use crate::life::SECOND;
use crate::model::{CredentialFate, Model, RevocationState};
use crate::stage::{SOON, postgres, users};
use bulkhead_tests::leaks::{self, CANARY};
use bulkhead_tests::paths::files_below;
use bulkhead_tests::{Bulkhead, Client, wait};
use serde_json::json;
use std::collections::BTreeSet;
use std::time::Instant;

/// Checks all invariants for the life `name`. Afterwards the database has no user of that life.
pub fn check(name: &str, server: &Bulkhead, model: &Model) {
    store_holds(&server.root(), model);
    database_holds(name, &server.root(), model);
    end(name, &server.root(), model);
    nothing_leaks(server, model);
}

/// I1, I11: an answered write is readable with its value; an object with an unanswered write has
/// one of its possible values.
pub fn store_holds(root: &Client, model: &Model) {
    for (path, register) in model.registers() {
        let answer = root.read(path);
        assert!([200, 404].contains(&answer.status), "{answer:?}");
        let seen = (answer.status == 200).then_some(&answer.body["data"]);
        assert!(
            register.admits(seen),
            "I1: {path} is {seen:?}, possible were {}",
            register.possible()
        );
    }
    for (token, ended) in model.tokens() {
        let status = root.write("auth/token/lookup", &json!({ "token": token })).status;
        match ended {
            RevocationState::No => assert_eq!(status, 200, "I1: a token that was given is unknown"),
            RevocationState::Yes => assert_eq!(status, 403, "I1: a token that was ended is there"),
            RevocationState::Perhaps => {
                assert!([200, 403].contains(&status), "a token's lookup answers {status}")
            }
        }
    }
    for (credential, fate) in model.credentials(Instant::now()) {
        match fate {
            CredentialFate::There => {
                assert!(has_lease(root, &credential.lease), "I1: {} is not there", credential.lease)
            }
            CredentialFate::Gone => assert!(
                !has_lease(root, &credential.lease),
                "I1: {} is still there",
                credential.lease
            ),
            CredentialFate::Either | CredentialFate::Soon => (),
        }
    }
}

/// I2: every promised user exists; every other user goes, or still has a lease.
fn database_holds(name: &str, root: &Client, model: &Model) {
    let all: Vec<_> = model.credentials(Instant::now()).collect();
    for (credential, fate) in &all {
        let login = || postgres().login(&credential.username, &credential.password, "SELECT 1");
        match fate {
            CredentialFate::There => {
                assert_eq!(
                    login().as_deref(),
                    Ok("1"),
                    "I2: {} cannot log in",
                    credential.username
                );
                assert!(
                    users(name).contains(&credential.username),
                    "a life does not know its user"
                );
            }
            CredentialFate::Gone => {
                assert!(login().is_err(), "I2: {} was revoked and logs in", credential.username)
            }
            CredentialFate::Soon => {
                wait::until_true("a lease whose time is over ends", SOON, || {
                    !users(name).contains(&credential.username)
                        && !has_lease(root, &credential.lease)
                });
            }
            CredentialFate::Either => (),
        }
    }
    wait::until_true("I2: every user has a lease", SOON, || {
        every_user_has_a_lease(name, root, model)
    });
}

/// Returns true if every user with a known lease still has the lease.
///
/// Users of unanswered calls have leases with unknown names. They are at most as many as such
/// calls, and [`end`] finds those without a lease.
fn every_user_has_a_lease(name: &str, root: &Client, model: &Model) -> bool {
    let first = |user: &String| !user.ends_with(SECOND);
    let mut unknown: BTreeSet<String> = users(name).into_iter().filter(first).collect();
    let mut without = 0;
    for (credential, _) in model.credentials(Instant::now()) {
        if unknown.remove(&credential.username) && !has_lease(root, &credential.lease) {
            without += 1;
        }
    }
    without == 0 && unknown.len() <= model.unanswered
}

/// Ends the life's tokens and so all its leases. A remaining user had neither a lease nor an
/// undone reservation.
fn end(name: &str, root: &Client, model: &Model) {
    for (token, _) in model.tokens().filter(|(_, ended)| *ended != RevocationState::Yes) {
        let status = root.write("auth/token/revoke", &json!({ "token": token })).status;
        assert!([204, 403].contains(&status), "a token's end answers {status}");
    }
    let mut left = Vec::new();
    wait::until_true("I2: no user is left without a lease", SOON, || {
        left = users(name);
        left.is_empty()
    });
}

/// I6: no secret in a file of the data or in a printed line, and no core file.
pub fn nothing_leaks(server: &Bulkhead, model: &Model) {
    let printed = server.printed();
    leaks::assert_silent("the server's log", &printed, CANARY);
    leaks::assert_sealed(server.data(), CANARY);
    let passwords =
        model.credentials(Instant::now()).map(|(credential, _)| credential.password.as_str());
    for secret in passwords.chain(model.tokens().map(|(token, _)| token.as_str())) {
        assert!(!printed.contains(secret), "I6: the server printed a secret");
        leaks::assert_sealed(server.data(), secret);
    }
    for file in files_below(server.data()) {
        let name = file.file_name().unwrap_or_default().to_string_lossy();
        assert!(!name.starts_with("core"), "I6: {} may hold secrets", file.display());
    }
}

pub fn has_lease(root: &Client, lease: &str) -> bool {
    let answer = root.write("sys/leases/lookup", &json!({ "lease_id": lease }));
    assert!([200, 400].contains(&answer.status), "{answer:?}");
    answer.status == 200
}

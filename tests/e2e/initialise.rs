//! Initialisation of a server: answers before, the result, and refused parameters.

use bulkhead_tests::disk::Disk;
use bulkhead_tests::operators::{Operators, give, seal_status, sealed, uninitialised};
use bulkhead_tests::paths::{Folder, binary};
use bulkhead_tests::storage::on_files;
use bulkhead_tests::{Bulkhead, Client};
use serde_json::{Value, json};
use std::collections::BTreeSet;

/// Requests of every kind that a sealed server refuses.
const ORDINARY: [(&str, &str); 11] = [
    ("GET", "sys/mounts"),
    ("POST", "sys/mounts/database"),
    ("LIST", "sys/policies/acl"),
    ("PUT", "sys/policies/acl/any"),
    ("DELETE", "sys/policies/acl/any"),
    ("GET", "auth/token/lookup-self"),
    ("POST", "auth/token/create"),
    ("POST", "sys/leases/lookup"),
    ("PUT", "sys/rotate"),
    ("GET", "database/creds/reader"),
    ("GET", "no/such/mount"),
];

/// Asserts that every request answers with the text that clients recognise as sealed, and that a
/// further request to seal changes nothing.
#[track_caller]
pub fn assert_closed(client: &Client) {
    for (method, path) in ORDINARY {
        let body: &[u8] = if ["POST", "PUT"].contains(&method) { b"{}" } else { b"" };
        let refused = client.send(method, path, body).expect(503);
        assert_eq!(refused.body, json!({ "errors": ["Vault is sealed"] }), "{method} {path}");
    }
    client.send("PUT", "sys/seal", b"").expect(204);
}

fn is_initialised(server: &Bulkhead) -> bool {
    server.client(None).read("sys/init").expect(200).body == json!({ "initialized": true })
}

#[test]
fn uninitialised_server_reports_only_its_state() {
    let server = uninitialised();
    let nobody = server.client(None);
    assert_eq!(nobody.read("sys/init").expect(200).body, json!({ "initialized": false }));
    let status = seal_status(&server);
    assert_eq!(
        (&status["initialized"], &status["sealed"]),
        (&json!(false), &json!(true)),
        "{status}"
    );
    assert_eq!(
        (&status["t"], &status["n"], &status["progress"]),
        (&json!(0), &json!(0), &json!(0)),
        "{status}"
    );
    let health = nobody.read("sys/health").expect(501).body;
    assert_eq!(
        (&health["initialized"], &health["sealed"]),
        (&json!(false), &json!(true)),
        "{health}"
    );
    nobody.send("HEAD", "sys/health", b"").expect(501);
    assert_closed(&nobody);
    assert_closed(&server.client(Some("bhs.nobody-gave-this-token")));
    let refused = give(&server, &"00".repeat(33)).expect(400);
    assert!(refused.errors().contains("initiali"), "{refused:?}");
}

#[test]
fn health_uses_status_codes_of_query() {
    let (server, operators) = sealed(1, 1);
    let fresh = uninitialised();
    let nobody = server.client(None);
    nobody.read("sys/health").expect(503);
    nobody.read("sys/health?sealedcode=299&uninitcode=298").expect(299);
    nobody.send("HEAD", "sys/health?sealedcode=204", b"").expect(204);
    fresh.client(None).read("sys/health?sealedcode=299&uninitcode=298").expect(298);
    for wrong in ["abc", "99", "600", "-1", "", "200;DROP"] {
        let refused = nobody.read(&format!("sys/health?sealedcode={wrong}")).expect(400);
        assert!(refused.errors().contains("sealedcode"), "{refused:?}");
    }
    operators.unseal(&server);
    nobody.read("sys/health?activecode=201").expect(201);
    nobody.read("sys/health?standbyok&perfstandbyok=true").expect(200);
}

#[test]
fn initialisation_returns_shares_and_a_root_token_once() {
    let server = uninitialised();
    let body = json!({ "secret_shares": 5, "secret_threshold": 3 });
    let given = server.client(None).write("sys/init", &body).expect(200);
    let operators = Operators::of(&given.body, 3);
    let different: BTreeSet<&String> = operators.keys.iter().collect();
    assert_eq!((operators.keys.len(), different.len()), (5, 5));
    let in_base64 = given.body["keys_base64"].as_array().expect("the keys again").len();
    assert_eq!(in_base64, 5);
    assert!(operators.token.starts_with("bhs."), "the root token bears our prefix");
    assert!(is_initialised(&server));
    let status = seal_status(&server);
    assert_eq!(
        (&status["sealed"], &status["t"], &status["n"]),
        (&json!(true), &json!(3), &json!(5)),
        "{status}"
    );
    assert_closed(&operators.root(&server));
    let again = server.client(None).write("sys/init", &body).expect(400);
    assert!(again.errors().contains("already initialized"), "{again:?}");
    assert_eq!(seal_status(&server), status);
    operators.unseal(&server);
    server.client(None).write("sys/init", &body).expect(400);
    let own = operators.root(&server).read("auth/token/lookup-self").expect(200);
    assert_eq!(own.body["data"]["policies"], json!(["root"]));
}

#[test]
fn single_share_unseals_server_with_threshold_one() {
    let (server, operators) = sealed(1, 1);
    assert_eq!(operators.keys.len(), 1);
    operators.unseal(&server);
    operators.root(&server).read("sys/mounts").expect(200);
}

#[test]
fn the_maximum_of_255_shares_unseals_the_server() {
    let (server, mut operators) = sealed(255, 255);
    operators.keys.reverse();
    operators.unseal(&server);
}

#[test]
fn null_fields_of_an_initialisation_are_accepted() {
    let server = uninitialised();
    let body = json!({
        "secret_shares": 1, "secret_threshold": 1, "pgp_keys": null, "root_token_pgp_key": null,
        "recovery_shares": null, "recovery_threshold": null, "recovery_pgp_keys": null,
        "stored_shares": null,
    });
    let given =
        server.client(None).send("PUT", "sys/init", body.to_string().as_bytes()).expect(200);
    let operators = Operators::of(&given.body, 1);
    let opened = json!({ "key": operators.keys[0], "reset": false, "migrate": false });
    let opened =
        server.client(None).send("PUT", "sys/unseal", opened.to_string().as_bytes()).expect(200);
    assert_eq!(opened.body["sealed"], false);
}

#[test]
fn bad_share_numbers_are_refused_and_change_nothing() {
    let server = uninitialised();
    let nobody = server.client(None);
    let numbers = |shares: Value, threshold: Value| {
        json!({
            "secret_shares": shares, "secret_threshold": threshold,
        })
    };
    for (body, says) in [
        (numbers(json!(0), json!(0)), "0"),
        (numbers(json!(0), json!(1)), "0"),
        (numbers(json!(256), json!(3)), "256"),
        (numbers(json!(3), json!(4)), "4"),
        (numbers(json!(3), json!(0)), "0"),
        (numbers(json!(3), json!(1)), "1"),
        (numbers(json!(-1), json!(1)), "-1"),
        (numbers(json!("many"), json!(1)), "many"),
        (numbers(json!(3.5), json!(2)), "3.5"),
        (numbers(json!([3]), json!(2)), "secret_shares"),
        (numbers(json!(18_446_744_073_709_551_615_u64), json!(2)), "secret_shares"),
        (json!({ "secret_shares": 3 }), "threshold"),
        (json!({}), "share"),
        (
            json!({ "secret_shares": 1, "secret_threshold": 1, "recovery_shares": 1 }),
            "recovery_shares",
        ),
        (json!({ "secret_shares": 1, "secret_threshold": 1, "pgp_keys": ["a"] }), "pgp_keys"),
        (
            json!({ "secret_shares": 1, "secret_threshold": 1, "root_token_pgp_key": "a" }),
            "root_token_pgp_key",
        ),
    ] {
        let refused = nobody.write("sys/init", &body).expect(400);
        assert!(refused.errors().contains(says), "{body}: {refused:?} does not speak of {says}");
        assert!(!is_initialised(&server), "{body} initialised the server");
    }
    nobody.send("POST", "sys/init", b"[1]").expect(400);
    nobody.send("POST", "sys/init", b"{").expect(400);
    let (shares, threshold) = (json!("3"), json!("2"));
    nobody.write("sys/init", &numbers(shares, threshold)).expect(200);
}

#[test]
fn one_of_many_concurrent_initialisations_succeeds() {
    let server = uninitialised();
    let body = json!({ "secret_shares": 3, "secret_threshold": 2 });
    let answers = std::thread::scope(|scope| {
        let askers: Vec<_> =
            (0..8).map(|_| scope.spawn(|| server.client(None).write("sys/init", &body))).collect();
        askers
            .into_iter()
            .map(|asker| asker.join().expect("an asker does not panic"))
            .collect::<Vec<_>>()
    });
    let served: Vec<_> = answers.iter().filter(|answer| answer.status == 200).collect();
    assert_eq!(served.len(), 1, "{answers:?}");
    Operators::of(&served[0].body, 2).unseal(&server);
}

/// Returns a server on `disk` that is not initialised. Its start does nothing on the disk.
fn uninitialised_on(disk: &Disk) -> Bulkhead {
    let mut server = Bulkhead::prepared(binary(), Folder::new("killed")).in_production();
    let environment = disk.under(server.data());
    server.start_with(&environment).expect("the server starts");
    server
}

/// Returns the numbers of the disk's operations, counted from 1, before which a server is killed
/// during its initialisation: the first of each run of equal operations on a file, and every
/// eighth. The last number is never reached.
fn moments() -> Vec<u32> {
    let disk = Disk::sound();
    let server = uninitialised_on(&disk);
    Operators::initialise(&server, 3, 2);
    let entries = disk.entries();
    let kind = |index: usize| (entries[index].file, std::mem::discriminant(&entries[index].act));
    let is_first = |index: usize| index == 0 || kind(index) != kind(index - 1);
    let chosen = (0..entries.len()).filter(|index| is_first(*index) || index % 8 == 0);
    let numbers = chosen.map(|index| u32::try_from(index + 1).expect("a few operations"));
    numbers.chain([u32::MAX]).collect()
}

#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
enum InitialisationOutcome {
    NoEffect,
    Unanswered,
    Answered,
}

/// Initialises a server on a disk that kills the server, and starts the server again.
fn outcome_on(disk: &Disk) -> InitialisationOutcome {
    let mut server = uninitialised_on(disk);
    let body = json!({ "secret_shares": 3, "secret_threshold": 2 }).to_string();
    let answered = server.client(None).attempt("PUT", "sys/init", body.as_bytes());
    server.kill();
    server.start_again();
    match answered {
        Ok(given) => {
            Operators::of(&given.expect(200).body, 2).unseal(&server);
            InitialisationOutcome::Answered
        }
        Err(_) if is_initialised(&server) => {
            let status = seal_status(&server);
            let sealed = (&status["sealed"], &status["t"], &status["n"]);
            assert_eq!(sealed, (&json!(true), &json!(2), &json!(3)));
            InitialisationOutcome::Unanswered
        }
        Err(_) => {
            Operators::initialise(&server, 3, 2).unseal(&server);
            InitialisationOutcome::NoEffect
        }
    }
}

#[test]
fn killed_initialisation_is_complete_or_without_effect() {
    let _files = on_files();
    let killed = moments().into_iter().map(|moment| outcome_on(&Disk::killing_at(moment)));
    let outcomes: BTreeSet<InitialisationOutcome> = killed.collect();
    assert_eq!(outcomes.len(), 3, "{outcomes:?}");
}

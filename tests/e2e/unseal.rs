//! Entering shares: sets that unseal a server, and refused shares.

use bulkhead_tests::operators::{Operators, give, open, seal_status, sealed};
use bulkhead_tests::{Answer, Bulkhead};
use serde_json::{Value, json};

fn progress(server: &Bulkhead) -> u64 {
    seal_status(server)["progress"].as_u64().expect("a number")
}

fn bytes(key: &str) -> Vec<u8> {
    let pairs = key
        .as_bytes()
        .chunks(2)
        .map(|pair| std::str::from_utf8(pair).expect("hexadecimal is ASCII"));
    pairs.map(|pair| u8::from_str_radix(pair, 16).expect("hexadecimal")).collect()
}

fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// A share with this number and a forged content.
fn forged(key: &str) -> String {
    let mut forged = bytes(key);
    forged[0] ^= 1;
    hexadecimal(&forged)
}

#[test]
fn any_quorum_of_shares_unseals_in_any_order() {
    let (mut server, operators) = sealed(5, 3);
    for choice in [[0, 1, 2], [4, 2, 0], [3, 4, 1]] {
        for (given, index) in choice.into_iter().enumerate() {
            let answer = give(&server, &operators.keys[index]).expect(200);
            let is_open = given == 2;
            assert_eq!(answer.body["sealed"], json!(!is_open), "{choice:?} after {index}");
            assert_eq!(
                answer.body["progress"],
                json!(if is_open { 0 } else { given + 1 }),
                "{choice:?}"
            );
            assert_eq!(
                answer.body["nonce"].as_str().is_some_and(|nonce| !nonce.is_empty()),
                !is_open
            );
        }
        operators.root(&server).read("sys/mounts").expect(200);
        server.client(None).read("sys/health").expect(200);
        server.kill();
        server.start_again();
    }
}

#[test]
fn a_share_is_accepted_in_hexadecimal_and_base64() {
    let server = bulkhead_tests::operators::uninitialised();
    let body = json!({ "secret_shares": 4, "secret_threshold": 4 });
    let given = server.client(None).write("sys/init", &body).expect(200);
    let base64 = |index: usize| given.body["keys_base64"][index].as_str().expect("a key");
    let hex = |index: usize| given.body["keys"][index].as_str().expect("a key");
    give(&server, hex(0)).expect(200);
    give(&server, base64(1)).expect(200);
    give(&server, &hex(2).to_uppercase()).expect(200);
    assert_eq!(give(&server, base64(3)).expect(200).body["sealed"], false);
}

pub(super) fn a_repeated_share_makes_no_progress() {
    let (server, operators) = sealed(5, 3);
    for _ in 0..5 {
        let answer = give(&server, &operators.keys[0]).expect(200);
        assert_eq!((&answer.body["progress"], &answer.body["sealed"]), (&json!(1), &json!(true)));
    }
    give(&server, &operators.keys[1]).expect(200);
    give(&server, &operators.keys[1]).expect(200);
    assert_eq!(progress(&server), 2);
    assert_eq!(give(&server, &operators.keys[2]).expect(200).body["sealed"], false);
}

/// Enters a wrong share, which must end the attempt, and then the right shares, which must unseal.
#[track_caller]
fn refused_at_the_threshold(server: &Bulkhead, operators: &Operators, strange: &str) {
    give(server, &operators.keys[0]).expect(200);
    give(server, &operators.keys[1]).expect(200);
    let refused = give(server, strange).expect(400);
    assert!(!refused.errors().is_empty() && !refused.errors().contains(strange), "{refused:?}");
    let status = seal_status(server);
    assert_eq!(
        (&status["progress"], &status["sealed"]),
        (&json!(0), &json!(true)),
        "the attempt is over"
    );
    operators.unseal(server);
}

pub(super) fn a_wrong_share_ends_the_attempt_at_the_threshold() {
    let (server, operators) = sealed(5, 3);
    refused_at_the_threshold(&server, &operators, &forged(&operators.keys[2]));
}

pub(super) fn a_share_of_another_cluster_ends_the_attempt_at_the_threshold() {
    let (server, operators) = sealed(5, 3);
    let (_, others) = sealed(5, 3);
    refused_at_the_threshold(&server, &operators, &others.keys[2]);
}

pub(super) fn all_shares_of_another_cluster_are_refused() {
    let (server, operators) = sealed(3, 2);
    let (_, others) = sealed(3, 2);
    give(&server, &others.keys[0]).expect(200);
    give(&server, &others.keys[1]).expect(400);
    operators.unseal(&server);
}

#[test]
fn the_whole_key_of_another_cluster_is_refused() {
    let (server, operators) = sealed(1, 1);
    let (_, others) = sealed(1, 1);
    give(&server, &others.keys[0]).expect(400);
    assert_eq!(seal_status(&server)["sealed"], true);
    operators.unseal(&server);
}

pub(super) fn malformed_shares_are_not_repeated_and_cost_no_progress() {
    let (server, operators) = sealed(3, 2);
    give(&server, &operators.keys[0]).expect(200);
    let canary = "c4n4ry-Zq9xW7kJ4vB2nR";
    let long = json!({ "key": canary.repeat(4_000) });
    let cut = &operators.keys[1][..60];
    let ask = |body: Value| server.client(None).write("sys/unseal", &body);
    let answers: Vec<Answer> = vec![
        ask(json!({ "key": canary })),
        ask(json!({ "key": canary.repeat(3_000) })),
        ask(json!({ "key": cut })),
        ask(json!({ "key": format!("{}{}", operators.keys[1], operators.keys[1]) })),
        ask(json!({ "key": "päßwörd 密碼" })),
        ask(json!({ "key": "" })),
        ask(json!({ "key": null })),
        ask(json!({ "key": [operators.keys[1]] })),
        ask(json!({ "key": { "canary": canary } })),
        ask(json!({})),
        server.client(None).send("POST", "sys/unseal", canary.as_bytes()),
        server.client(None).send("POST", "sys/unseal", b"{\"key\": \"\xff\xfe\"}"),
    ];
    let refused = ask(long).expect(413);
    assert!(!refused.errors().contains(canary), "{refused:?}");
    for answer in answers {
        let errors = answer.expect(400).errors();
        assert!(!errors.is_empty() && errors.len() < 500, "{errors}");
        for secret in [canary, cut, "密碼", "päßwörd"] {
            assert!(!errors.contains(secret), "{errors}");
        }
        assert_eq!(progress(&server), 1, "{errors}");
    }
    assert!(!server.printed().contains(canary), "{}", server.printed());
    assert_eq!(give(&server, &operators.keys[2]).expect(200).body["sealed"], false);
}

#[test]
fn a_reset_discards_entered_shares() {
    let (server, operators) = sealed(5, 3);
    give(&server, &operators.keys[0]).expect(200);
    let before = give(&server, &operators.keys[1]).expect(200).body["nonce"].clone();
    let reset = server.client(None).write("sys/unseal", &json!({ "reset": true })).expect(200);
    assert_eq!((&reset.body["progress"], &reset.body["sealed"]), (&json!(0), &json!(true)));
    let after = give(&server, &operators.keys[2]).expect(200);
    assert_eq!(after.body["progress"], 1);
    assert_ne!(after.body["nonce"], before, "each attempt has a new nonce");
    operators.unseal(&server);
}

#[test]
fn progress_does_not_outlive_the_process() {
    let (mut server, operators) = sealed(5, 3);
    give(&server, &operators.keys[0]).expect(200);
    give(&server, &operators.keys[1]).expect(200);
    server.kill();
    server.start_again();
    assert_eq!(progress(&server), 0);
    assert_eq!(give(&server, &operators.keys[2]).expect(200).body["sealed"], true);
    operators.unseal(&server);
}

#[test]
fn a_share_for_an_unsealed_server_changes_nothing() {
    let (server, operators) = open();
    for key in [operators.keys[0].as_str(), &forged(&operators.keys[1])] {
        let answer = give(&server, key).expect(200);
        assert_eq!((&answer.body["sealed"], &answer.body["progress"]), (&json!(false), &json!(0)));
    }
    operators.root(&server).read("sys/mounts").expect(200);
}

#[test]
fn concurrent_shares_unseal_once() {
    let (server, operators) = sealed(8, 5);
    std::thread::scope(|scope| {
        for key in &operators.keys {
            let server = &server;
            scope.spawn(move || give(server, key).expect(200));
        }
    });
    assert_eq!(seal_status(&server)["sealed"], false);
    operators.root(&server).read("sys/mounts").expect(200);
}

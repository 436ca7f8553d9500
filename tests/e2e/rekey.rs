//! New shares of the unseal key, made by a quorum of the old shares: valid shares at each moment,
//! and refused requests.

use bulkhead_tests::operators::{Operators, give, of_key_holders, seal_status, sealed};
use bulkhead_tests::{Answer, Bulkhead, Client};
use serde_json::{Value, json};

const INIT: &str = "sys/rekey/init";
const UPDATE: &str = "sys/rekey/update";
const VERIFY: &str = "sys/rekey/verify";

/// An unsealed server with a threshold of three of five shares.
fn three_of_five() -> (Bulkhead, Operators) {
    let (server, operators) = of_key_holders(5, 3);
    operators.unseal(&server);
    (server, operators)
}

fn begin(client: &Client, shares: u8, threshold: u8, is_verified: bool) -> String {
    let body = json!({
        "secret_shares": shares, "secret_threshold": threshold,
        "require_verification": is_verified, "pgp_keys": null, "backup": false,
    });
    let begun = client.write(INIT, &body).expect(200).body;
    assert_eq!((&begun["started"], &begun["progress"]), (&json!(true), &json!(0)), "{begun}");
    begun["nonce"].as_str().expect("a nonce").to_owned()
}

fn share(client: &Client, path: &str, key: &str, nonce: &str) -> Answer {
    client.write(path, &json!({ "key": key, "nonce": nonce }))
}

/// Enters these shares in order; the last share must complete the set.
#[track_caller]
fn complete(client: &Client, path: &str, keys: &[String], nonce: &str) -> Value {
    let (last, before) = keys.split_last().expect("a share");
    for (count, key) in before.iter().enumerate() {
        assert_eq!(share(client, path, key, nonce).expect(200).body["progress"], count + 1);
    }
    let done = share(client, path, last, nonce).expect(200).body;
    assert_eq!(done["complete"], true, "{done}");
    done
}

/// The holders of the new shares, with the old root token.
fn holders(done: &Value, threshold: usize, before: &Operators) -> Operators {
    let mut body = done.clone();
    body["root_token"] = json!(before.token);
    let holders = Operators::of(&body, threshold);
    assert_eq!(done["keys_base64"].as_array().expect("the keys again").len(), holders.keys.len());
    holders
}

/// Asserts that these shares do not unseal the server.
#[track_caller]
fn assert_useless(server: &Bulkhead, operators: &Operators) {
    let answers: Vec<_> = operators.keys.iter().map(|key| give(server, key)).collect();
    assert!(answers.iter().any(|answer| answer.status == 400), "{answers:?}");
    assert_eq!(seal_status(server)["sealed"], true);
    server.client(None).write("sys/unseal", &json!({ "reset": true })).expect(200);
}

#[track_caller]
fn refused(answer: Answer, word: &str) {
    let answer = answer.expect(400);
    assert!(answer.errors().contains(word), "{answer:?}");
}

#[test]
fn after_a_rekey_only_the_new_shares_unseal() {
    let (mut server, operators) = three_of_five();
    let nobody = server.client(None);
    let policy = json!({"policy": "path \"a\" {}"});
    operators.root(&server).write("sys/policies/acl/mine", &policy).expect(204);
    let nonce = begin(&nobody, 3, 2, false);
    let done = complete(&nobody, UPDATE, &operators.keys[2..], &nonce);
    assert_eq!((&done["nonce"], &done["backup"]), (&json!(nonce), &json!(false)));
    let new = holders(&done, 2, &operators);
    assert_eq!(new.keys.len(), 3);
    let status = seal_status(&server);
    assert_eq!((&status["t"], &status["n"]), (&json!(2), &json!(3)), "{status}");
    assert_eq!(nobody.read(INIT).expect(200).body["started"], false);
    server.kill();
    server.start_again();
    assert_useless(&server, &operators);
    new.unseal(&server);
    new.root(&server).read("sys/policies/acl/mine").expect(200);
    new.root(&server).write("sys/seal", &json!({})).expect(204);
    let (last, before) = (&new.keys[2], &new.keys[1]);
    give(&server, before).expect(200);
    assert_eq!(give(&server, last).expect(200).body["sealed"], false, "any two of three");
}

#[test]
fn bad_parameters_begin_no_rekey() {
    let (server, _) = three_of_five();
    let nobody = server.client(None);
    for (shares, threshold, words) in [
        (2, 3, "a threshold of 3 does not fit 2 shares"),
        (5, 1, "with a threshold of 1"),
        (0, 0, "0 shares cannot be made"),
        (5, 0, "a threshold of 0 does not fit 5 shares"),
        (256, 3, "256 shares cannot be made"),
        (-1, 3, "secret_shares -1 is negative"),
        (3, -3, "secret_threshold -3 is negative"),
    ] {
        let body = json!({ "secret_shares": shares, "secret_threshold": threshold });
        refused(nobody.write(INIT, &body), words);
    }
    refused(nobody.write(INIT, &json!({})), "0 shares cannot be made");
    let with = |name: &str, value: Value| {
        let mut body = json!({ "secret_shares": 1, "secret_threshold": 1 });
        body[name] = value;
        nobody.write(INIT, &body)
    };
    refused(with("pgp_keys", json!(["AAAA"])), "pgp_keys");
    refused(with("backup", json!(true)), "backup");
    assert_eq!(nobody.read(INIT).expect(200).body["started"], false);
}

#[test]
fn wrong_shares_and_nonces_are_refused_without_change() {
    let (mut server, operators) = three_of_five();
    let (_, others) = sealed(5, 3);
    let nobody = server.client(None);
    refused(share(&nobody, UPDATE, &operators.keys[0], "any"), "no rekey");
    refused(nobody.read(VERIFY), "no rekey");
    let nonce = begin(&nobody, 2, 2, false);
    refused(nobody.write(INIT, &json!({"secret_shares": 1, "secret_threshold": 1})), "in progress");
    refused(share(&nobody, UPDATE, &operators.keys[0], "zz"), "nonce");
    refused(share(&nobody, UPDATE, "00", &nonce), "share");
    refused(share(&nobody, UPDATE, "", &nonce), "key");
    for _ in 0..3 {
        let counted = share(&nobody, UPDATE, &operators.keys[0], &nonce).expect(200).body;
        assert_eq!(counted["progress"], 1, "the same share counts once");
    }
    share(&nobody, UPDATE, &others.keys[1], &nonce).expect(200);
    refused(share(&nobody, UPDATE, &others.keys[2], &nonce), "shares do not open");
    refused(nobody.read(VERIFY), "no new shares");
    refused(nobody.send("DELETE", &format!("{INIT}?nonce=other"), b""), "nonce");
    nobody.delete(INIT).expect(204);
    refused(share(&nobody, UPDATE, &operators.keys[1], &nonce), "no rekey");
    server.kill();
    server.start_again();
    operators.unseal(&server);
}

#[test]
fn old_shares_unseal_until_new_shares_are_verified() {
    let (mut server, operators) = three_of_five();
    let nobody = server.client(None);
    let nonce = begin(&nobody, 5, 3, true);
    let abandoned = complete(&nobody, UPDATE, &operators.keys[..3], &nonce);
    assert_eq!(abandoned["verification_required"], true, "{abandoned}");
    server.kill();
    server.start_again();
    assert_useless(&server, &holders(&abandoned, 3, &operators));
    operators.unseal(&server);

    let nobody = server.client(None);
    let nonce = begin(&nobody, 4, 2, true);
    let done = complete(&nobody, UPDATE, &operators.keys[..3], &nonce);
    let new = holders(&done, 2, &operators);
    let verification = done["verification_nonce"].as_str().expect("a nonce");
    let status = nobody.read(INIT).expect(200).body;
    assert_eq!(status["verification_nonce"], verification, "{status}");
    refused(share(&nobody, UPDATE, &operators.keys[0], &nonce), "wait for their verification");
    refused(share(&nobody, VERIFY, &new.keys[0], &nonce), "nonce");
    share(&nobody, VERIFY, &new.keys[0], verification).expect(200);
    let restarted = nobody.delete(VERIFY).expect(200).body;
    assert_eq!((&restarted["progress"], &restarted["n"]), (&json!(0), &json!(4)), "{restarted}");
    refused(share(&nobody, VERIFY, &new.keys[0], verification), "nonce");
    let verification = restarted["nonce"].as_str().expect("a nonce");
    share(&nobody, VERIFY, &operators.keys[0], verification).expect(200);
    refused(share(&nobody, VERIFY, &operators.keys[1], verification), "shares do not open");
    assert_eq!(seal_status(&server)["n"], 5, "the old shares are in use");
    let verified = complete(&nobody, VERIFY, &new.keys[2..], verification);
    assert_eq!(verified["nonce"], verification);
    assert_eq!(seal_status(&server)["n"], 4, "the new shares are in use");
    server.kill();
    server.start_again();
    assert_useless(&server, &operators);
    new.unseal(&server);
}

#[test]
fn rekey_ends_root_generation_with_old_shares() {
    let (server, operators) = three_of_five();
    let nobody = server.client(None);
    let generation = nobody.write("sys/generate-root/attempt", &json!({})).expect(200).body;
    let nonce = generation["nonce"].as_str().expect("a nonce");
    share(&nobody, "sys/generate-root/update", &operators.keys[0], nonce).expect(200);
    let rekey = begin(&nobody, 1, 1, false);
    let done = complete(&nobody, UPDATE, &operators.keys[..3], &rekey);
    let new = holders(&done, 1, &operators);
    assert_eq!(nobody.read("sys/generate-root/attempt").expect(200).body["started"], false);
    let generation = nobody.write("sys/generate-root/attempt", &json!({})).expect(200).body;
    assert_eq!(generation["required"], 1);
    let nonce = generation["nonce"].as_str().expect("a nonce");
    let update = "sys/generate-root/update";
    refused(share(&nobody, update, &operators.keys[0], nonce), "share");
    assert_eq!(share(&nobody, update, &new.keys[0], nonce).expect(200).body["complete"], true);
}

#[test]
fn without_setting_only_sudo_token_rekeys() {
    let (mut server, operators) = sealed(5, 3);
    operators.unseal(&server);
    let root = operators.root(&server);
    let body = json!({ "secret_shares": 2, "secret_threshold": 2 });
    for client in [&server.client(None), &root] {
        client.read(INIT).expect(405);
        client.write(INIT, &body).expect(405);
        client.delete(INIT).expect(405);
        share(client, UPDATE, &operators.keys[0], "any").expect(405);
        client.read(VERIFY).expect(405);
    }
    server.client(None).write("sys/rotate/root/init", &body).expect(403);
    let begun = root.write("sys/rotate/root/init", &body).expect(200).body["data"].clone();
    let mut done = Value::Null;
    for key in &operators.keys[..3] {
        let given = json!({ "key": key, "nonce": begun["nonce"] });
        done = root.write("sys/rotate/root/update", &given).expect(200).body["data"].clone();
    }
    let new = holders(&done, 2, &operators);
    server.kill();
    server.start_again();
    assert_useless(&server, &operators);
    new.unseal(&server);
}

#[test]
fn rekey_of_dev_server_is_refused() {
    let server = Bulkhead::start();
    let body = json!({ "secret_shares": 1, "secret_threshold": 1 });
    let answer = server.root().write("sys/rotate/root/init", &body);
    refused(answer, "dev server");
}

#[test]
fn new_shares_are_shown_once_and_never_logged() {
    let (server, operators) = three_of_five();
    let nobody = server.client(None);
    let nonce = begin(&nobody, 3, 2, false);
    let done = complete(&nobody, UPDATE, &operators.keys[..3], &nonce);
    let lines = std::fs::read_to_string(server.data().join("audit.log")).expect("the audit log");
    assert_eq!(lines.matches(&format!("\"path\":\"{UPDATE}\"")).count(), 6, "{lines}");
    let new = holders(&done, 2, &operators);
    for key in new.keys.iter().chain(&operators.keys) {
        assert!(!lines.contains(key.as_str()), "{lines}");
        assert!(!server.printed().contains(key.as_str()), "{}", server.printed());
    }
    server.wait_for_print("rekeyed");
}

//! Root tokens made by a quorum of key holders: how shares are counted, who may begin, and what the
//! token is.

use bulkhead_tests::operators::{Operators, of_key_holders, sealed};
use bulkhead_tests::{Answer, Bulkhead, Client};
use serde_json::{Value, json};

const ATTEMPT: &str = "sys/generate-root/attempt";
const UPDATE: &str = "sys/generate-root/update";

/// An open server with five shares, of which three are needed.
fn three_of_five() -> (Bulkhead, Operators) {
    let (server, operators) = of_key_holders(5, 3);
    operators.unseal(&server);
    (server, operators)
}

fn give(client: &Client, key: &str, nonce: &str) -> Answer {
    client.write(UPDATE, &json!({ "key": key, "nonce": nonce }))
}

/// Begins, and gives the nonce and the OTP.
fn begin(client: &Client) -> (String, String) {
    let begun = client.write(ATTEMPT, &json!({})).expect(200).body;
    let text = |name: &str| begun[name].as_str().expect("a text").to_owned();
    (text("nonce"), text("otp"))
}

/// Gives these shares in order; the last one has to complete the set.
#[track_caller]
fn complete(client: &Client, keys: &[String], nonce: &str) -> Value {
    let (last, before) = keys.split_last().expect("a share");
    for key in before {
        assert_eq!(give(client, key, nonce).expect(200).body["complete"], false);
    }
    let done = give(client, last, nonce).expect(200).body;
    assert_eq!(done["complete"], true, "{done}");
    done
}

fn decoded(client: &Client, encoded: &Value, otp: &str) -> String {
    let asked = json!({ "encoded_token": encoded, "otp": otp });
    let answer = client.write("sys/decode-token", &asked).expect(200);
    answer.body["data"]["token"].as_str().expect("a token").to_owned()
}

#[track_caller]
fn refused(answer: Answer, word: &str) {
    let answer = answer.expect(400);
    assert!(answer.errors().contains(word), "{answer:?}");
}

#[test]
fn three_of_five_holders_make_a_root_token_without_a_token() {
    let (server, operators) = three_of_five();
    let nobody = server.client(None);
    let idle = nobody.read(ATTEMPT).expect(200).body;
    assert_eq!((&idle["started"], &idle["required"]), (&json!(false), &json!(3)), "{idle}");
    let (nonce, otp) = begin(&nobody);
    assert_eq!(json!(otp.len()), idle["otp_length"]);
    refused(nobody.write(ATTEMPT, &json!({})), "in progress");
    for progress in [1, 1] {
        let counted = give(&nobody, &operators.keys[4], &nonce).expect(200).body;
        assert_eq!(counted["progress"], progress, "the same share counts once");
    }
    let status = nobody.read(ATTEMPT).expect(200).body;
    assert_eq!((&status["nonce"], &status["progress"]), (&json!(nonce), &json!(1)), "{status}");
    assert_eq!(status["otp"], "", "the OTP is shown once");
    let done = complete(&nobody, &operators.keys[1..3], &nonce);
    assert_eq!(done["encoded_token"], done["encoded_root_token"]);
    let token = decoded(&nobody, &done["encoded_token"], &otp);
    let own = server.client(Some(&token)).read("auth/token/lookup-self").expect(200).body;
    assert_eq!(own["data"]["policies"], json!(["root"]));
    assert_eq!((&own["data"]["ttl"], &own["data"]["expire_time"]), (&json!(0), &Value::Null));
    assert_eq!(nobody.read(ATTEMPT).expect(200).body["started"], false);
    refused(give(&nobody, &operators.keys[0], &nonce), "no root generation");
    operators.root(&server).read("auth/token/lookup-self").expect(200);
}

#[test]
fn shares_and_nonces_that_do_not_fit_are_refused_and_change_nothing() {
    let (server, operators) = three_of_five();
    let nobody = server.client(None);
    refused(give(&nobody, &operators.keys[0], "any"), "no root generation");
    let (nonce, otp) = begin(&nobody);
    refused(give(&nobody, &operators.keys[0], "zz"), "nonce");
    refused(give(&nobody, &operators.keys[0], ""), "nonce");
    refused(nobody.write(UPDATE, &json!({ "nonce": nonce })), "key");
    refused(give(&nobody, "00", &nonce), "share");
    refused(give(&nobody, &operators.keys[0][..64], &nonce), "share");
    refused(give(&nobody, &format!("{}{}", "ab".repeat(32), "09"), &nonce), "share");
    assert_eq!(nobody.read(ATTEMPT).expect(200).body["progress"], 0);
    let done = complete(&nobody, &operators.keys[..3], &nonce);
    assert!(decoded(&nobody, &done["encoded_token"], &otp).starts_with("bhs."));
}

#[test]
fn shares_of_another_cluster_end_the_attempt_and_right_ones_then_serve() {
    let (server, operators) = three_of_five();
    let (_, others) = sealed(5, 3);
    let nobody = server.client(None);
    let (nonce, _) = begin(&nobody);
    for key in &others.keys[..2] {
        give(&nobody, key, &nonce).expect(200);
    }
    refused(give(&nobody, &others.keys[2], &nonce), "shares do not open");
    assert_eq!(nobody.read(ATTEMPT).expect(200).body["progress"], 0);
    complete(&nobody, &operators.keys[2..], &nonce);
}

#[test]
fn the_caller_may_choose_the_otp() {
    let (server, operators) = three_of_five();
    let nobody = server.client(None);
    for otp in ["short", &"x".repeat(35), &"x".repeat(37), &"ü".repeat(18)] {
        let answer = nobody.write(ATTEMPT, &json!({ "otp": otp })).expect(400);
        assert!(answer.errors().contains("36"), "{answer:?}");
        assert!(!answer.errors().contains(otp), "{answer:?}");
    }
    refused(nobody.write(ATTEMPT, &json!({ "pgp_key": "AAAA" })), "pgp_key");
    let otp = "0123456789abcdefghijklmnopqrstuvwxyz";
    let empty_names = json!({ "otp": otp, "pgp_key": "" });
    let begun = nobody.write(ATTEMPT, &empty_names).expect(200).body;
    assert_eq!(begun["otp"], "", "the caller knows it");
    let nonce = begun["nonce"].as_str().expect("a nonce");
    let done = complete(&nobody, &operators.keys[..3], nonce);
    let token = decoded(&nobody, &done["encoded_token"], otp);
    server.client(Some(&token)).read("sys/mounts").expect(200);
    let encoded = done["encoded_token"].as_str().expect("a text");
    for (encoded, otp) in [(encoded, "short"), ("no base64!", otp), ("", "")] {
        nobody
            .write("sys/decode-token", &json!({"encoded_token": encoded, "otp": otp}))
            .expect(400);
    }
}

#[test]
fn a_cancelled_attempt_takes_no_shares() {
    let (server, operators) = three_of_five();
    let nobody = server.client(None);
    nobody.delete(ATTEMPT).expect(204);
    let (nonce, _) = begin(&nobody);
    give(&nobody, &operators.keys[0], &nonce).expect(200);
    refused(nobody.send("DELETE", &format!("{ATTEMPT}?nonce=other"), b""), "nonce");
    nobody.delete(ATTEMPT).expect(204);
    refused(give(&nobody, &operators.keys[1], &nonce), "no root generation");
    let (second, _) = begin(&nobody);
    assert_ne!(nonce, second);
    assert_eq!(nobody.read(ATTEMPT).expect(200).body["progress"], 0);
    refused(give(&nobody, &operators.keys[1], &nonce), "nonce");
}

#[test]
fn sealing_ends_the_attempt() {
    let (server, operators) = three_of_five();
    let nobody = server.client(None);
    begin(&nobody);
    operators.root(&server).write("sys/seal", &json!({})).expect(204);
    assert!(nobody.read(ATTEMPT).expect(503).errors().contains("Vault is sealed"));
    operators.unseal(&server);
    assert_eq!(nobody.read(ATTEMPT).expect(200).body["started"], false);
}

#[test]
fn without_the_setting_only_a_token_with_sudo_begins() {
    let (server, operators) = sealed(5, 3);
    operators.unseal(&server);
    let root = operators.root(&server);
    for client in [&server.client(None), &root] {
        client.read(ATTEMPT).expect(405);
        client.write(ATTEMPT, &json!({})).expect(405);
        client.delete(ATTEMPT).expect(405);
        give(client, &operators.keys[0], "any").expect(405);
    }
    let (attempt, update) = ("sys/generate-root-token/attempt", "sys/generate-root-token/update");
    server.client(None).write(attempt, &json!({})).expect(403);
    let begun = root.write(attempt, &json!({})).expect(200).body["data"].clone();
    for (count, key) in operators.keys[..3].iter().enumerate() {
        let answer = root.write(update, &json!({ "key": key, "nonce": begun["nonce"] }));
        let data = answer.expect(200).body["data"].clone();
        assert_eq!(data["complete"], count == 2, "{data}");
        assert_eq!(data["encoded_root_token"], Value::Null, "only the newer name");
        if count == 2 {
            let otp = begun["otp"].as_str().expect("an OTP");
            let token = decoded(&server.client(None), &data["encoded_token"], otp);
            server.client(Some(&token)).read("sys/mounts").expect(200);
        }
    }
}

#[test]
fn every_step_is_audited_and_no_secret_of_it_shows() {
    let (server, operators) = three_of_five();
    let nobody = server.client(None);
    let (nonce, otp) = begin(&nobody);
    let done = complete(&nobody, &operators.keys[..3], &nonce);
    let encoded = done["encoded_token"].as_str().expect("a text").to_owned();
    let token = decoded(&nobody, &done["encoded_token"], &otp);
    let lines = std::fs::read_to_string(server.data().join("audit.log")).expect("the audit log");
    let count = |path: &str| lines.matches(&format!("\"path\":\"{path}\"")).count();
    assert_eq!((count(ATTEMPT), count(UPDATE), count("sys/decode-token")), (2, 6, 2), "{lines}");
    for secret in [&otp, &encoded, &token, &operators.keys[0]] {
        assert!(!lines.contains(secret.as_str()), "{secret} in {lines}");
        assert!(!server.printed().contains(secret.as_str()), "{}", server.printed());
    }
    for event in ["root-generation-started", "root-token-generated"] {
        assert!(server.printed().contains(event), "{}", server.printed());
    }
}

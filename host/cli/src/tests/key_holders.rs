//! `bulkhead operator generate-root` and `rekey`: the requests of each step, and what is shown.

use super::*;

fn started() -> Value {
    json!({"nonce": "n-1", "started": true, "progress": 0, "required": 3, "complete": false,
        "encoded_token": "", "encoded_root_token": "", "pgp_fingerprint": "", "otp": "the-otp",
        "otp_length": 36})
}

/// Runs `args` against these answers in turn.
fn in_turn(answers: Vec<Value>, args: &[&str], stdin: &str) -> (Ran, Vec<Asked>) {
    let answers = answers.into_iter().map(|body| (200, body.to_string())).collect();
    let canned = Canned::answering_in_turn(answers);
    let ran = run_with(args, stdin, &[("BULKHEAD_ADDR", &canned.address)]);
    (ran, canned.seen.join().unwrap())
}

#[test]
fn generate_root_begins_and_shows_the_otp() {
    let words = ["operator", "generate-root", "-init"];
    let (ran, (line, _, sent)) = against(200, &started(), &words, "");
    assert_eq!(
        (line.as_str(), sent.as_str()),
        ("PUT /v1/sys/generate-root/attempt HTTP/1.1", "{}")
    );
    for shown in ["n-1", "the-otp", "0/3"] {
        assert!(ran.code == 0 && ran.out.contains(shown), "{}", ran.out);
    }
    assert!(!ran.out.contains("pgp_fingerprint"), "{}", ran.out);
    let words = ["operator", "generate-root", "-init", "-otp=mine", "-with-token"];
    let (_, (line, _, sent)) = against(200, &started(), &words, "");
    let request_line = "PUT /v1/sys/generate-root-token/attempt HTTP/1.1";
    assert_eq!((line.as_str(), sent.as_str()), (request_line, r#"{"otp":"mine"}"#));
}

#[test]
fn generated_otp_has_length_of_server() {
    let (ran, (line, _, _)) =
        against(200, &started(), &["operator", "generate-root", "-generate-otp"], "");
    assert_eq!(line, "GET /v1/sys/generate-root/attempt HTTP/1.1");
    let otp = ran.out.strip_suffix('\n').unwrap();
    assert!(otp.len() == 36 && otp.bytes().all(|byte| byte.is_ascii_alphanumeric()), "{otp}");
    let words = ["operator", "generate-root", "-generate-otp", "-with-token", "-format=json"];
    let (ran, (line, _, _)) = against(200, &started(), &words, "");
    assert_eq!(line, "GET /v1/sys/generate-root-token/attempt HTTP/1.1");
    let shown: Value = serde_json::from_str(&ran.out).unwrap();
    assert_eq!(shown["otp_length"], 36, "{shown}");
    let mut endless = started();
    endless["otp_length"] = json!(1_000_000);
    let words = ["operator", "generate-root", "-generate-otp"];
    assert_eq!(against(200, &endless, &words, "").0.code, 1);
    assert_wrong(&["operator", "generate-root", "-generate-otp", "-init"], "with -otp afterwards");
}

#[test]
fn refusal_without_token_names_the_option() {
    let off = json!({"errors": ["unsupported operation: off; set allow_key_holders = true"]});
    for command in ["generate-root", "rekey"] {
        let (ran, _) = against(405, &off, &["operator", command, "-init"], "");
        assert!(
            ran.code == 1 && ran.err.contains("Next: the same command with -with-token"),
            "{}",
            ran.err
        );
    }
}

#[test]
fn generate_root_sends_server_nonce_or_typed_nonce() {
    let mut done = started();
    (done["complete"], done["encoded_token"]) = (json!(true), json!("abc"));
    let (ran, requests) =
        in_turn(vec![started(), done.clone()], &["operator", "generate-root"], "c0ffee\n");
    let lines: Vec<&str> = requests.iter().map(|(line, _, _)| line.as_str()).collect();
    let expected =
        ["GET /v1/sys/generate-root/attempt HTTP/1.1", "PUT /v1/sys/generate-root/update HTTP/1.1"];
    assert_eq!(lines, expected);
    assert_eq!(requests[1].2, r#"{"key":"c0ffee","nonce":"n-1"}"#);
    assert!(ran.out.contains("abc") && ran.out.contains("-decode="), "{}", ran.out);
    assert!(!ran.out.contains("c0ffee"), "{}", ran.out);
    let words = ["operator", "generate-root", "-nonce=n-2", "-"];
    let (_, (_, _, sent)) = against(200, &done, &words, "c0ffee");
    assert_eq!(sent, r#"{"key":"c0ffee","nonce":"n-2"}"#);
}

#[test]
fn nothing_in_progress_asks_for_no_key() {
    for command in ["generate-root", "rekey"] {
        let idle = json!({"nonce": "", "started": false, "progress": 0, "required": 3});
        let (ran, _) = in_turn(vec![idle], &["operator", command], "");
        assert!(ran.code == 1 && ran.err.contains("-init"), "{}", ran.err);
    }
}

#[test]
fn an_encoded_token_is_read_without_a_server() {
    // "bhs.AB" mixed with "123456".
    let words = ["operator", "generate-root", "-decode=U1pAGnR0", "-otp=123456"];
    let ran = run_with(&words, "", &[]);
    assert_eq!((ran.code, ran.out.as_str()), (0, "bhs.AB\n"), "{}", ran.err);
    let ran = run_with(&["operator", "generate-root", "-decode=U1pAGnR0"], "123456\n", &[]);
    assert_eq!(ran.out, "bhs.AB\n");
    for (encoded, otp) in [("U1pAGnR0", "12345"), ("%%%", "123456"), ("U1pAGnR0", "\u{7f}abcde")] {
        let words = [&format!("-decode={encoded}"), &format!("-otp={otp}")];
        let ran = run_with(&["operator", "generate-root", words[0], words[1]], "", &[]);
        assert!(ran.code == 2 && !ran.err.contains(otp), "{}", ran.err);
    }
}

#[test]
fn key_holder_status_and_cancel_call_their_endpoints() {
    for (words, request_line) in [
        (&["generate-root", "-status"][..], "GET /v1/sys/generate-root/attempt"),
        (&["generate-root", "-cancel"], "DELETE /v1/sys/generate-root/attempt"),
        (&["rekey", "-status"], "GET /v1/sys/rekey/init"),
        (&["rekey", "-cancel"], "DELETE /v1/sys/rekey/init"),
        (&["rekey", "-verify", "-status"], "GET /v1/sys/rekey/verify"),
        (&["rekey", "-verify", "-cancel"], "DELETE /v1/sys/rekey/verify"),
        (&["rekey", "-status", "-with-token"], "GET /v1/sys/rotate/root/init"),
        (&["rekey", "-status", "-target=barrier"], "GET /v1/sys/rekey/init"),
        (&["rekey", "-status", "-target=recovery"], "GET /v1/sys/rekey-recovery-key/init"),
        (
            &["rekey", "-verify", "-status", "-target=recovery", "-with-token"],
            "GET /v1/sys/rotate/recovery/verify",
        ),
    ] {
        let (ran, (line, _, _)) = against(200, &started(), &[&["operator"], words].concat(), "");
        assert_eq!((ran.code, line.as_str()), (0, format!("{request_line} HTTP/1.1").as_str()));
    }
    for words in [
        &["generate-root", "-init", "-cancel"][..],
        &["rekey", "-status", "canary"],
        &["rekey", "-status", "-target=both"],
    ] {
        let ran = run_with(&[&["operator"], words].concat(), "", &[]);
        assert!(ran.code == 2 && !ran.err.contains("canary"), "{}", ran.err);
    }
}

#[test]
fn rekey_sends_share_numbers_and_shows_ordered_keys() {
    let begun = json!({"nonce": "n-1", "started": true, "t": 2, "n": 4, "progress": 0,
        "required": 3, "pgp_fingerprints": [], "backup": false, "verification_required": true});
    let words = ["operator", "rekey", "-init", "-key-shares=4", "-key-threshold=2", "-verify"];
    let (ran, (line, _, sent)) = against(200, &begun, &words, "");
    assert_eq!(line, "PUT /v1/sys/rekey/init HTTP/1.1");
    assert_eq!(
        serde_json::from_str::<Value>(&sent).unwrap(),
        json!({"secret_shares": 4, "secret_threshold": 2, "require_verification": true})
    );
    assert!(ran.out.contains("0/3") && ran.out.contains("n-1"), "{}", ran.out);
    let done = json!({"nonce": "n-1", "complete": true, "keys": ["aa", "bb"],
        "keys_base64": ["one", "two"], "verification_required": true,
        "verification_nonce": "v-1"});
    let (ran, requests) = in_turn(vec![begun.clone(), done.clone()], &["operator", "rekey"], "k");
    assert_eq!(requests[1].0, "PUT /v1/sys/rekey/update HTTP/1.1");
    let at = |text: &str| ran.out.find(text).unwrap_or_else(|| panic!("{text}: {}", ran.out));
    assert!(at("one") < at("two") && at("two") < at("v-1"), "{}", ran.out);
    assert!(ran.out.contains("rekey -verify") && !ran.out.contains("open nothing"), "{}", ran.out);
    let mut done = done;
    (done["verification_required"], done["verification_nonce"]) = (json!(false), json!(""));
    let (ran, _) = in_turn(vec![begun, done], &["operator", "rekey"], "k");
    assert!(ran.out.contains("old keys open nothing"), "{}", ran.out);
}

#[test]
fn rekey_verify_sends_key_with_verification_nonce() {
    let waiting = json!({"nonce": "v-1", "started": true, "t": 2, "n": 4, "progress": 1});
    let done = json!({"nonce": "v-1", "complete": true});
    let (ran, requests) = in_turn(vec![waiting, done], &["operator", "rekey", "-verify"], "k\n");
    assert_eq!(requests[0].0, "GET /v1/sys/rekey/verify HTTP/1.1");
    assert_eq!(requests[1].0, "PUT /v1/sys/rekey/verify HTTP/1.1");
    assert_eq!(requests[1].2, r#"{"key":"k","nonce":"v-1"}"#);
    assert!(ran.out.contains("new keys are in use"), "{}", ran.out);
}

#[test]
fn init_asks_seal_and_prints_recovery_keys() {
    let status = json!({"recovery_seal": true, "type": "static", "initialized": false});
    let answer = json!({"keys": [], "keys_base64": [], "recovery_keys": ["c0"],
        "recovery_keys_base64": ["key-1", "key-2"], "root_token": "bhs.root"});
    let (ran, requests) = in_turn(vec![status.clone(), answer.clone()], &["operator", "init"], "");
    let lines: Vec<&str> = requests.iter().map(|(line, _, _)| line.as_str()).collect();
    assert_eq!(lines, ["GET /v1/sys/seal-status HTTP/1.1", "PUT /v1/sys/init HTTP/1.1"]);
    assert_eq!(requests[1].2, r#"{"recovery_shares":5,"recovery_threshold":3}"#);
    let expected = "Recovery Key 1: key-1\nRecovery Key 2: key-2\n\nInitial Root Token: bhs.root\n";
    assert!(ran.out.starts_with(expected) && ran.out.contains("opens by itself"), "{}", ran.out);
    let words = ["operator", "init", "-recovery-shares=2", "-format=json"];
    let (ran, (_, _, sent)) = against(200, &answer, &words, "");
    assert_eq!(sent, r#"{"recovery_shares":2,"recovery_threshold":2}"#);
    let printed: Value = serde_json::from_str(&ran.out).unwrap();
    assert_eq!(printed["recovery_keys_b64"], json!(["key-1", "key-2"]));
    assert_eq!(
        (&printed["recovery_keys_shares"], &printed["unseal_shares"]),
        (&json!(2), &json!(0))
    );
    let shamir = json!({"recovery_seal": false, "type": "shamir", "initialized": false});
    let unsealing = json!({"keys": ["c0"], "keys_base64": ["key-1"], "root_token": "bhs.root"});
    let (ran, requests) = in_turn(vec![shamir, unsealing], &["operator", "init"], "");
    assert_eq!(requests[1].2, r#"{"secret_shares":5,"secret_threshold":3}"#);
    assert!(ran.out.starts_with("Unseal Key 1: key-1\n"), "{}", ran.out);
    let ran = run_with(&["operator", "init", "-key-shares=3", "-recovery-shares=3"], "", &[]);
    assert!(ran.code == 2 && ran.err.contains("-recovery-"), "{}", ran.err);
}

#[test]
fn unseal_sends_migrate_only_on_request() {
    let body = json!({"sealed": true, "t": 3, "n": 5, "progress": 1});
    let words = ["operator", "unseal", "-migrate", "-"];
    let (_, (_, _, sent)) = against(200, &body, &words, "c0ffee\n");
    assert_eq!(sent, r#"{"key":"c0ffee","migrate":true}"#);
    let (_, (_, _, sent)) = against(200, &body, &["operator", "unseal", "-"], "c0ffee\n");
    assert_eq!(sent, r#"{"key":"c0ffee"}"#);
}

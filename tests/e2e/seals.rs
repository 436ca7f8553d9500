//! The static seal: a server that opens by itself, its recovery keys, the rotation of its key, and
//! the migration between seals.

use bulkhead_tests::operators::{Operators, give, seal_status};
use bulkhead_tests::paths::binary;
use bulkhead_tests::sealed_server::{
    SHAMIR, SealedServer, migrate, recovery_operators, write_policy,
};
use bulkhead_tests::static_seal;
use serde_json::{Value, json};
use std::fs;

/// Starts and initialises a server with the static seal `one` and two of three recovery keys.
fn initialised() -> (SealedServer, Operators) {
    let sealed = SealedServer::start(|folder| static_seal::block(folder.path(), &["one"]));
    let operators = sealed.initialise(3, 2);
    (sealed, operators)
}

#[test]
fn static_seal_opens_after_init_kill_and_stop() {
    let mut sealed = SealedServer::start(|folder| static_seal::block(folder.path(), &["one"]));
    let status = seal_status(&sealed.server);
    assert_eq!((&status["type"], &status["initialized"]), (&json!("static"), &json!(false)));
    assert_eq!((&status["recovery_seal"], &status["migration"]), (&json!(true), &json!(false)));
    for (body, words) in [
        (json!({ "secret_shares": 3, "secret_threshold": 2 }), "does not apply to a seal of type"),
        (json!({}), "recovery_shares is required"),
        (json!({ "recovery_shares": 3 }), "recovery_threshold is required"),
        (json!({ "recovery_shares": 3, "recovery_threshold": 1 }), "whole key"),
        (json!({ "recovery_shares": 0, "recovery_threshold": 1 }), "0 shares"),
    ] {
        let refused = sealed.nobody().write("sys/init", &body).expect(400);
        assert!(refused.errors().contains(words), "{body}: {refused:?}");
    }
    assert_eq!(seal_status(&sealed.server)["initialized"], false);
    let operators = sealed.initialise(3, 2);
    write_policy(&operators.root(&sealed.server));
    let status = seal_status(&sealed.server);
    assert_eq!(
        (&status["sealed"], &status["n"], &status["t"]),
        (&json!(false), &json!(3), &json!(2))
    );
    assert_eq!(status["recovery_seal_type"], "shamir");
    sealed.server.kill();
    sealed.server.start_again();
    sealed.assert_open(&operators);
    let same = static_seal::block(sealed.folder.path(), &["one"]);
    sealed.restart(&same);
    sealed.assert_open(&operators);
    let key =
        fs::read_to_string(static_seal::key_file(sealed.folder.path(), "one")).expect("the key");
    for secret in operators.keys.iter().chain([&key, &operators.token]) {
        sealed.server.assert_silent(secret);
    }
}

#[test]
fn deliberate_seal_holds_until_next_start() {
    let (mut sealed, operators) = initialised();
    write_policy(&operators.root(&sealed.server));
    operators.root(&sealed.server).write("sys/seal", &json!({})).expect(204);
    let refused = give(&sealed.server, &operators.keys[0]).expect(400);
    assert!(refused.errors().contains("opens by itself when the server starts"), "{refused:?}");
    let refused = migrate(&sealed.server, &operators.keys[0]).expect(400);
    assert!(refused.errors().contains("no migration is awaited"), "{refused:?}");
    assert_eq!(seal_status(&sealed.server)["sealed"], true);
    sealed.server.kill();
    sealed.server.start_again();
    sealed.assert_open(&operators);
}

#[test]
fn replaced_static_key_opens_alone_after_one_start() {
    let (mut sealed, operators) = initialised();
    write_policy(&operators.root(&sealed.server));
    let both = static_seal::block(sealed.folder.path(), &["two", "one"]);
    sealed.restart(&both);
    sealed.assert_open(&operators);
    sealed.server.wait_for_print("seal-key-replaced");
    sealed.restart(&both);
    sealed.server.wait_for_print("previous-seal-key-unused");
    let new = static_seal::block(sealed.folder.path(), &["two"]);
    sealed.restart(&new);
    sealed.assert_open(&operators);
    assert!(sealed.server.stop());
    let old = static_seal::block(sealed.folder.path(), &["one"]);
    sealed.refuses(&old, &["sealed with the key \"two\"", "previous_key_id = \"two\"", "-migrate"]);
    sealed.configure(&new);
    sealed.server.start_again();
    sealed.assert_open(&operators);
}

#[test]
fn unusable_static_key_stops_start_without_change() {
    let (mut sealed, operators) = initialised();
    write_policy(&operators.root(&sealed.server));
    assert!(sealed.server.stop());
    let (seal, file) = (
        static_seal::block(sealed.folder.path(), &["one"]),
        static_seal::key_file(sealed.folder.path(), "one"),
    );
    let right = fs::read(&file).expect("the key");
    for (content, mode, words) in [
        (&b"00".repeat(32)[..], 0o600, &["does not open the data", "\"one\""][..]),
        (&right[1..], 0o600, &["holds 63 bytes", "openssl rand"]),
        (&right, 0o644, &["open to others", "chmod 600"]),
    ] {
        static_seal::write_key(&file, content, mode);
        sealed.refuses(&seal, words);
    }
    fs::remove_file(&file).expect("the key can be removed");
    sealed.refuses(&seal, &["current_key", "cannot be read"]);
    static_seal::write_key(&file, &right, 0o600);
    sealed.server.start_again();
    sealed.assert_open(&operators);
}

#[test]
fn recovery_keys_generate_root_and_are_replaced() {
    let (mut sealed, operators) = initialised();
    write_policy(&operators.root(&sealed.server));
    let nobody = sealed.nobody();
    for path in ["sys/rekey/init", "sys/rekey/verify"] {
        let refused = nobody.read(path).expect(400);
        assert!(refused.errors().contains("sys/rekey-recovery-key"), "{refused:?}");
    }
    let begun = nobody.write("sys/generate-root/attempt", &json!({})).expect(200).body;
    let mut done = Value::Null;
    for key in &operators.keys[..2] {
        let given = json!({ "key": key, "nonce": begun["nonce"] });
        done = nobody.write("sys/generate-root/update", &given).expect(200).body;
    }
    let decoding = json!({ "encoded_token": done["encoded_token"], "otp": begun["otp"] });
    let token =
        nobody.write("sys/decode-token", &decoding).expect(200).body["data"]["token"].clone();
    sealed.server.client(token.as_str()).read("sys/policies/acl/kept").expect(200);

    let fields = json!({ "secret_shares": 2, "secret_threshold": 2 });
    let begun = nobody.write("sys/rekey-recovery-key/init", &fields).expect(200).body;
    let mut answer = Value::Null;
    for key in &operators.keys[1..] {
        let given = json!({ "key": key, "nonce": begun["nonce"] });
        answer = nobody.write("sys/rekey-recovery-key/update", &given).expect(200).body;
    }
    answer["root_token"] = json!(operators.token);
    let new = Operators::of(&answer, 2);
    let begun = operators
        .root(&sealed.server)
        .write("sys/rotate/recovery/init", &json!({ "secret_shares": 1, "secret_threshold": 1 }))
        .expect(200)
        .body["data"]["nonce"]
        .clone();
    let update = |key: &str| {
        let given = json!({ "key": key, "nonce": begun });
        operators.root(&sealed.server).write("sys/rotate/recovery/update", &given)
    };
    update(&operators.keys[0]).expect(200);
    let refused = update(&operators.keys[1]).expect(400);
    assert!(refused.errors().contains("share"), "{refused:?}");
    update(&new.keys[0]).expect(200);
    let last = update(&new.keys[1]).expect(200).body["data"].clone();
    assert_eq!((&last["complete"], last["keys"].as_array().map(Vec::len)), (&json!(true), Some(1)));
    sealed.server.kill();
    sealed.server.start_again();
    sealed.assert_open(&operators);
}

#[test]
fn data_migrate_between_seals_in_both_directions() {
    let mut sealed = SealedServer::start(|_| SHAMIR.to_owned());
    let operators = Operators::initialise(&sealed.server, 3, 2);
    operators.unseal(&sealed.server);
    write_policy(&operators.root(&sealed.server));
    let seal = static_seal::block(sealed.folder.path(), &["one"]);
    sealed.restart(&seal);
    let status = seal_status(&sealed.server);
    assert_eq!(
        (&status["type"], &status["migration"], &status["sealed"]),
        (&json!("shamir"), &json!(true), &json!(true))
    );
    let refused = give(&sealed.server, &operators.keys[0]).expect(400);
    assert!(refused.errors().contains("give the shares with migrate"), "{refused:?}");
    migrate(&sealed.server, &operators.keys[0]).expect(200);
    let wrong = migrate(&sealed.server, &"ab".repeat(33)).expect(400);
    assert!(wrong.errors().contains("share"), "{wrong:?}");
    migrate(&sealed.server, &operators.keys[0]).expect(200);
    let opened = migrate(&sealed.server, &operators.keys[2]).expect(200).body;
    assert_eq!((&opened["sealed"], &opened["migration"]), (&json!(false), &json!(false)));
    assert_eq!((&opened["type"], &opened["recovery_seal"]), (&json!("static"), &json!(true)));
    sealed.assert_open(&operators);
    sealed.server.kill();
    sealed.server.start_again();
    sealed.assert_open(&operators);

    // The key of the seal is lost: the recovery keys, which were the unseal keys, open the data.
    sealed.server.kill();
    fs::remove_file(static_seal::key_file(sealed.folder.path(), "one"))
        .expect("the key can be removed");
    sealed.configure(SHAMIR);
    sealed.server.start_again();
    assert_eq!(seal_status(&sealed.server)["migration"], true);
    for key in &operators.keys[..2] {
        let done = sealed.server.command(&["operator", "unseal", "-migrate", key]).output();
        let done = done.expect("the command runs");
        assert!(done.status.success(), "{done:?}");
    }
    sealed.assert_open(&operators);
    sealed.restart(SHAMIR);
    assert_eq!(seal_status(&sealed.server)["type"], "shamir");
    operators.unseal(&sealed.server);
    sealed.assert_open(&operators);
}

#[test]
fn server_without_recovery_keys_opens_by_seal_alone() {
    let mut sealed = SealedServer::start(|folder| static_seal::block(folder.path(), &["one"]));
    let body = json!({ "recovery_shares": 0, "recovery_threshold": 0 });
    let answer = sealed.nobody().write("sys/init", &body).expect(200).body;
    assert_eq!(answer["recovery_keys"], json!([]));
    let operators = recovery_operators(&answer, 0);
    write_policy(&operators.root(&sealed.server));
    let begun = sealed.nobody().write("sys/generate-root/attempt", &json!({})).expect(400);
    assert!(begun.errors().contains("without recovery keys"), "{begun:?}");
    sealed.server.kill();
    sealed.server.start_again();
    sealed.assert_open(&operators);
    sealed.restart(SHAMIR);
    let refused = migrate(&sealed.server, &"ab".repeat(33)).expect(400);
    assert!(refused.errors().contains("nobody holds a share"), "{refused:?}");
    let seal = static_seal::block(sealed.folder.path(), &["one"]);
    sealed.restart(&seal);
    sealed.assert_open(&operators);
}

#[test]
fn check_reads_seal_and_names_its_key() {
    let (sealed, _) = initialised();
    let file = sealed.folder.path().join("bulkhead.hcl");
    let check = || {
        let mut command = std::process::Command::new(binary());
        command.args(["server", "--check", "--config"]).arg(&file).env_clear();
        command.output().expect("the check runs")
    };
    let valid = check();
    let text = String::from_utf8_lossy(&valid.stdout).into_owned();
    assert!(valid.status.success() && text.contains("opened by the key \"one\""), "{valid:?}");
    static_seal::write_key(&static_seal::key_file(sealed.folder.path(), "one"), b"short", 0o600);
    let refused = check();
    let text = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(refused.status.code() == Some(1) && text.contains("holds 5 bytes"), "{refused:?}");
}

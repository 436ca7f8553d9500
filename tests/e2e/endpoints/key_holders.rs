//! Key holders' procedures, on a server that allows them without a token.

use super::{EndpointCall, row};
use bulkhead_tests::Bulkhead;
use bulkhead_tests::golden::assert_golden;
use bulkhead_tests::operators::{Operators, of_key_holders, of_recovery_keys};
use serde_json::{Value, json};

/// The rows in the order of the procedures. `{key}` and `{nonce}` stand for the latest values.
pub(super) fn rows() -> Vec<EndpointCall> {
    let otp = json!({ "encoded_token": "AAAA", "otp": "AAA" });
    let mut rows = vec![row("sys-decode-token.write", "sys/decode-token", otp, 200)];
    rows.extend(generations());
    rows.extend(rekeys());
    rows.extend([
        row("sys-rekey-backup.read", "sys/rekey/backup", Value::Null, 400),
        row("sys-rekey-backup.delete", "sys/rekey/backup", Value::Null, 204),
        row("sys-rotate-root-backup.read", "sys/rotate/root/backup", Value::Null, 400),
        row("sys-rotate-root-backup.delete", "sys/rotate/root/backup", Value::Null, 204),
    ]);
    rows
}

/// The rows of a server with recovery keys, in the order of the procedures.
pub(super) fn recovery_rows() -> Vec<EndpointCall> {
    let body = json!({ "secret_shares": 1, "secret_threshold": 1, "require_verification": true });
    let (open, privileged) = ("sys/rekey-recovery-key/init", "sys/rotate/recovery/init");
    let (verify, with_token) = ("sys/rekey-recovery-key/verify", "sys/rotate/recovery/verify");
    let (backup, backup_with_token) =
        ("sys/rekey/recovery-key-backup", "sys/rotate/recovery/backup");
    vec![
        row("sys-rekey-recovery-key-init.read", open, Value::Null, 200),
        row("sys-rekey-recovery-key-init.write", open, body.clone(), 200),
        row("sys-rekey-recovery-key-update.write", "sys/rekey-recovery-key/update", share(), 200),
        row("sys-rekey-recovery-key-verify.read", verify, Value::Null, 200),
        row("sys-rekey-recovery-key-verify.delete", verify, Value::Null, 200),
        row("sys-rekey-recovery-key-verify.write", verify, share(), 200),
        row("sys-rekey-recovery-key-init.delete", open, Value::Null, 204),
        row("sys-rotate-recovery-init.read", privileged, Value::Null, 200),
        row("sys-rotate-recovery-init.write", privileged, body, 200),
        row("sys-rotate-recovery-update.write", "sys/rotate/recovery/update", share(), 200),
        row("sys-rotate-recovery-verify.read", with_token, Value::Null, 200),
        row("sys-rotate-recovery-verify.delete", with_token, Value::Null, 200),
        row("sys-rotate-recovery-verify.write", with_token, share(), 200),
        row("sys-rotate-recovery-init.delete", privileged, Value::Null, 204),
        row("sys-rekey-recovery-key-backup.read", backup, Value::Null, 400),
        row("sys-rekey-recovery-key-backup.delete", backup, Value::Null, 204),
        row("sys-rotate-recovery-backup.read", backup_with_token, Value::Null, 400),
        row("sys-rotate-recovery-backup.delete", backup_with_token, Value::Null, 204),
    ]
}

fn share() -> Value {
    json!({ "key": "{key}", "nonce": "{nonce}" })
}

fn generations() -> Vec<EndpointCall> {
    let (open, privileged) = ("sys/generate-root/attempt", "sys/generate-root-token/attempt");
    vec![
        row("sys-generate-root-attempt.read", open, Value::Null, 200),
        row("sys-generate-root-attempt.write", open, json!({}), 200),
        row("sys-generate-root-update.write", "sys/generate-root/update", share(), 200),
        row("sys-generate-root-attempt.delete", open, Value::Null, 204),
        row("sys-generate-root-token-attempt.read", privileged, Value::Null, 200),
        row("sys-generate-root-token-attempt.write", privileged, json!({}), 200),
        row("sys-generate-root-token-update.write", "sys/generate-root-token/update", share(), 200),
        row("sys-generate-root-token-attempt.delete", privileged, Value::Null, 204),
    ]
}

fn rekeys() -> Vec<EndpointCall> {
    let body = json!({ "secret_shares": 1, "secret_threshold": 1, "require_verification": true });
    vec![
        row("sys-rekey-init.read", "sys/rekey/init", Value::Null, 200),
        row("sys-rekey-init.write", "sys/rekey/init", body.clone(), 200),
        row("sys-rekey-update.write", "sys/rekey/update", share(), 200),
        row("sys-rekey-verify.read", "sys/rekey/verify", Value::Null, 200),
        row("sys-rekey-verify.delete", "sys/rekey/verify", Value::Null, 200),
        row("sys-rekey-verify.write", "sys/rekey/verify", share(), 200),
        row("sys-rekey-init.delete", "sys/rekey/init", Value::Null, 204),
        row("sys-rotate-root-init.read", "sys/rotate/root/init", Value::Null, 200),
        row("sys-rotate-root-init.write", "sys/rotate/root/init", body, 200),
        row("sys-rotate-root-update.write", "sys/rotate/root/update", share(), 200),
        row("sys-rotate-root-verify.read", "sys/rotate/root/verify", Value::Null, 200),
        row("sys-rotate-root-verify.delete", "sys/rotate/root/verify", Value::Null, 200),
        row("sys-rotate-root-verify.write", "sys/rotate/root/verify", share(), 200),
        row("sys-rotate-root-init.delete", "sys/rotate/root/init", Value::Null, 204),
    ]
}

#[test]
fn procedures_of_key_holders_answer_as_agreed() {
    let (server, operators) = of_key_holders(1, 1);
    operators.unseal(&server);
    assert_all_agreed(&server, &operators, rows());
}

#[test]
fn procedures_of_recovery_keys_answer_as_agreed() {
    let (server, operators) = of_recovery_keys(1, 1);
    assert_all_agreed(&server, &operators, recovery_rows());
}

/// Sends each row in turn, with the keys and nonces of the answers before.
fn assert_all_agreed(server: &Bulkhead, operators: &Operators, rows: Vec<EndpointCall>) {
    let (nobody, root) = (server.client(None), operators.root(server));
    let (mut key, mut nonce) = (operators.keys[0].clone(), String::new());
    for row in rows {
        let client = if row.is_open() { &nobody } else { &root };
        if !row.is_open() {
            nobody.send(row.method(), row.path, b"").expect(403);
        }
        let body = match &row.body {
            Value::Null => String::new(),
            body => body.to_string().replace("{key}", &key).replace("{nonce}", &nonce),
        };
        let answer = client.send(row.method(), row.path, body.as_bytes()).expect(row.status);
        assert_golden(row.golden, &answer);
        for members in [&answer.body, &answer.body["data"]] {
            for name in ["nonce", "verification_nonce"] {
                let given = members[name].as_str().filter(|given| !given.is_empty());
                nonce = given.map_or(nonce, str::to_owned);
            }
            key = members["keys"][0].as_str().map_or(key, str::to_owned);
        }
    }
}

//! `seal "awskms"`: a server that opens by a key of AWS KMS, which refuses, rotates and is lost.

mod faults;

use bulkhead_tests::aws_kms::{AwsKms, Credentials, REGION};
use bulkhead_tests::operators::{Operators, seal_status};
use bulkhead_tests::paths::Folder;
use bulkhead_tests::sealed_server::{PATIENCE, SHAMIR, SealedServer, migrate, write_policy};
use bulkhead_tests::{static_seal, wait};
use serde_json::json;
use std::fs;
use std::time::Duration;

const ALIAS: &str = "alias/bulkhead";

/// A key management service, and a server that a key of the service opens.
struct KmsSeal {
    kms: AwsKms,
    sealed: SealedServer,
    credentials: Credentials,
    /// ARN of the first key.
    key: String,
}

/// Writes the credentials into their files, and returns the block of the seal.
fn block(folder: &Folder, kms: &AwsKms, credentials: &Credentials, more: &str) -> String {
    let file = |name: &str, content: &str| {
        let file = folder.path().join(name);
        static_seal::write_key(&file, content.as_bytes(), 0o600);
        format!("file://{}", file.display())
    };
    let secret_key = file("secret-key", &credentials.secret_key);
    let token = credentials.session_token.as_ref().map_or_else(String::new, |token| {
        format!("  session_token = {:?}\n", file("session-token", token))
    });
    format!(
        "seal \"awskms\" {{\n  region = {REGION:?}\n  endpoint = {:?}\n  \
         kms_key_id = {ALIAS:?}\n  access_key = {:?}\n  \
         secret_key = {secret_key:?}\n{token}{more}}}\n",
        kms.url(),
        credentials.access_key,
    )
}

impl KmsSeal {
    /// Starts a server on empty data, with an access key without an end.
    fn uninitialised() -> Self {
        Self::on(AwsKms::start(), AwsKms::issue)
    }

    fn on(kms: AwsKms, issue: impl Fn(&AwsKms) -> Credentials) -> Self {
        let key = kms.create_key();
        kms.point_alias(ALIAS, &key);
        let credentials = issue(&kms);
        let sealed = SealedServer::start(|folder| block(folder, &kms, &credentials, ""));
        Self { kms, sealed, credentials, key }
    }

    /// Initialises with two of three recovery keys, and writes the policy of the tests.
    fn initialised() -> (Self, Operators) {
        let seal = Self::uninitialised();
        let operators = seal.sealed.initialise(3, 2);
        write_policy(&operators.root(&seal.sealed.server));
        (seal, operators)
    }

    fn block(&self) -> String {
        block(&self.sealed.folder, &self.kms, &self.credentials, "")
    }

    /// Starts the server again, and asserts that the log names the cause of the refusal.
    #[track_caller]
    fn assert_refused(&mut self, cause: &str) {
        let before = self.sealed.kill_and_start();
        let is_named = || {
            let printed = self.sealed.server.printed()[before..].to_owned();
            printed.lines().any(|line| line.contains("not-unsealed") && line.contains(cause))
        };
        wait::until_true(&format!("not-unsealed with {cause:?}"), PATIENCE, is_named);
        self.sealed.assert_sealed("awskms");
        self.assert_silent();
    }

    /// Asserts that no output shows a secret.
    #[track_caller]
    fn assert_silent(&self) {
        self.sealed.server.assert_silent(&self.credentials.secret_key);
        if let Some(token) = &self.credentials.session_token {
            self.sealed.server.assert_silent(token);
        }
    }
}

#[test]
fn kms_seal_opens_after_init_kill_and_stop() {
    let mut seal = KmsSeal::uninitialised();
    let status = seal_status(&seal.sealed.server);
    assert_eq!((&status["type"], &status["initialized"]), (&json!("awskms"), &json!(false)));
    let operators = seal.sealed.initialise(3, 2);
    write_policy(&operators.root(&seal.sealed.server));
    seal.sealed.assert_open(&operators);
    seal.sealed.kill_and_start();
    seal.sealed.wait_until_open(&operators);
    let same = seal.block();
    seal.sealed.restart(&same);
    seal.sealed.wait_until_open(&operators);
    for secret in operators.keys.iter().chain([&operators.token]) {
        seal.sealed.server.assert_silent(secret);
    }
    seal.assert_silent();
    assert!(seal.kms.requests().len() >= 4);
}

#[test]
fn kms_seal_works_over_tls_with_session() {
    let mut seal = KmsSeal::on(AwsKms::start_with_tls(), AwsKms::issue_temporary);
    let body = json!({ "recovery_shares": 1, "recovery_threshold": 1 });
    let refused = seal.sealed.nobody().write("sys/init", &body);
    assert!(matches!(refused.status, 400 | 502), "no authority is trusted: {refused:?}");
    let ca = seal.sealed.folder.path().join("ca.pem");
    fs::write(&ca, seal.kms.authority()).expect("a file can be written");
    let ca = format!("  tls_ca_cert = {ca:?}\n");
    let trusted = block(&seal.sealed.folder, &seal.kms, &seal.credentials, &ca);
    seal.sealed.restart(&trusted);
    let operators = seal.sealed.initialise(1, 1);
    write_policy(&operators.root(&seal.sealed.server));
    seal.sealed.restart(&trusted);
    seal.sealed.wait_until_open(&operators);

    // The session ends, and an agent writes the next one into the files.
    seal.kms.expire(&seal.credentials);
    seal.assert_refused("session_token has ended");
    seal.credentials = seal.kms.issue_temporary();
    let renewed = block(&seal.sealed.folder, &seal.kms, &seal.credentials, &ca);
    seal.sealed.restart(&renewed);
    seal.sealed.wait_until_open(&operators);
    seal.assert_silent();
}

#[test]
fn refused_credentials_are_named_and_replaced() {
    let (mut seal, operators) = KmsSeal::initialised();
    let first = seal.credentials.clone();
    seal.credentials.secret_key = "a-secret-key-of-another-access-key".to_owned();
    let wrong = seal.block();
    seal.sealed.restart(&wrong);
    seal.assert_refused("secret_key does not belong to access_key");
    seal.credentials = first;
    let right = seal.block();
    seal.sealed.restart(&right);
    seal.sealed.wait_until_open(&operators);
    seal.kms.set_clock_ahead(Duration::from_secs(600));
    seal.assert_refused("set the clock");
    seal.kms.set_clock_ahead(Duration::ZERO);
    seal.kms.move_to_region("eu-west-1");
    seal.assert_refused("serves another region");
    seal.kms.move_to_region(REGION);
    seal.kms.deny(&seal.credentials, "Decrypt");
    seal.assert_refused("allow kms:Decrypt");
    seal.kms.delete(&seal.credentials);
    seal.assert_refused("access_key does not exist");
    seal.credentials = seal.kms.issue();
    // A right to encrypt is needed for a rotation alone.
    seal.kms.deny(&seal.credentials, "Encrypt");
    let replaced = seal.block();
    seal.sealed.restart(&replaced);
    seal.sealed.wait_until_open(&operators);
    seal.sealed.server.wait_for_print("newest-key-version-unknown");
}

#[test]
fn key_states_are_named_and_pass() {
    let (mut seal, operators) = KmsSeal::initialised();
    seal.kms.disable(&seal.key);
    seal.assert_refused("enable the key");
    seal.kms.schedule_deletion(&seal.key);
    seal.assert_refused("cancel the deletion");
    seal.kms.enable(&seal.key);
    seal.sealed.kill_and_start();
    seal.sealed.wait_until_open(&operators);
}

#[test]
fn rotated_kms_key_seals_anew_by_arn() {
    let (mut seal, operators) = KmsSeal::initialised();
    // New material behind the same ARN: nothing is to be done.
    seal.kms.rotate(&seal.key);
    let before = seal.sealed.kill_and_start();
    seal.sealed.wait_until_open(&operators);
    let printed = seal.sealed.server.printed();
    assert!(!printed[before..].contains("seal-key-replaced"), "{}", &printed[before..]);
    // Another key behind the alias.
    let other = seal.kms.create_key();
    seal.kms.point_alias(ALIAS, &other);
    let before = seal.sealed.kill_and_start();
    seal.sealed.server.wait_for_print_after(before, "seal-key-replaced");
    seal.sealed.wait_until_open(&operators);
    seal.kms.lose_key(&seal.key);
    seal.sealed.kill_and_start();
    seal.sealed.wait_until_open(&operators);
}

#[test]
fn lost_kms_key_leaves_data_to_recovery_keys() {
    let (mut seal, operators) = KmsSeal::initialised();
    seal.kms.lose_key(&seal.key);
    seal.assert_refused("allow kms:Decrypt");
    seal.sealed.restart(SHAMIR);
    assert_eq!(seal_status(&seal.sealed.server)["migration"], true);
    for key in &operators.keys[1..] {
        migrate(&seal.sealed.server, key).expect(200);
    }
    seal.sealed.assert_open(&operators);
    // The data migrate to another key of the service.
    seal.key = seal.kms.create_key();
    seal.kms.point_alias(ALIAS, &seal.key);
    let back = seal.block();
    seal.sealed.restart(&back);
    for key in &operators.keys[1..] {
        migrate(&seal.sealed.server, key).expect(200);
    }
    assert_eq!(seal_status(&seal.sealed.server)["type"], "awskms");
    seal.sealed.kill_and_start();
    seal.sealed.wait_until_open(&operators);
}

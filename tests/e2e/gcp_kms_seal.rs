//! `seal "gcpckms"`: a server that opens by a key of Google Cloud KMS, which refuses, rotates and
//! is lost.

mod faults;

use bulkhead_tests::gcp_kms::{Account, CRYPTO_KEY, GcpKms, KEY_RING, LOCATION, PROJECT};
use bulkhead_tests::internet::Fault;
use bulkhead_tests::operators::{Operators, seal_status};
use bulkhead_tests::paths::Folder;
use bulkhead_tests::sealed_server::{PATIENCE, SHAMIR, SealedServer, migrate, write_policy};
use bulkhead_tests::{static_seal, wait};
use serde_json::json;
use std::fs;
use std::time::Duration;

/// A Cloud KMS, and a server that its key opens.
struct KmsSeal {
    kms: GcpKms,
    sealed: SealedServer,
    account: Account,
}

/// Writes the key file, and returns the block of the seal.
fn block(folder: &Folder, kms: &GcpKms, account: &Account, more: &str) -> String {
    let file = folder.path().join("account.json");
    static_seal::write_key(&file, kms.key_file(account).as_bytes(), 0o600);
    format!(
        "seal \"gcpckms\" {{\n  project = {PROJECT:?}\n  region = {LOCATION:?}\n  \
         key_ring = {KEY_RING:?}\n  crypto_key = {CRYPTO_KEY:?}\n  credentials = {file:?}\n  \
         endpoint = {:?}\n{more}}}\n",
        kms.url()
    )
}

impl KmsSeal {
    fn uninitialised() -> Self {
        Self::on(GcpKms::start())
    }

    /// Starts a server on empty data.
    fn on(kms: GcpKms) -> Self {
        let account = kms.create_account();
        let sealed = SealedServer::start(|folder| block(folder, &kms, &account, ""));
        Self { kms, sealed, account }
    }

    /// Initialises with two of three recovery keys, and writes the policy of the tests.
    fn initialised() -> (Self, Operators) {
        let seal = Self::uninitialised();
        let operators = seal.sealed.initialise(3, 2);
        write_policy(&operators.root(&seal.sealed.server));
        (seal, operators)
    }

    fn block(&self) -> String {
        block(&self.sealed.folder, &self.kms, &self.account, "")
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
        self.sealed.assert_sealed("gcpckms");
        self.assert_silent();
    }

    /// Asserts that no output shows a part of the private key, or an access token.
    #[track_caller]
    fn assert_silent(&self) {
        let pem = self.account.signer.private_pem();
        self.sealed.server.assert_silent(pem.lines().nth(1).expect("a line of the key"));
        self.sealed.server.assert_silent("ya29.c.");
    }
}

#[test]
fn cloud_kms_seal_opens_after_init_and_stop() {
    let mut seal = KmsSeal::uninitialised();
    let status = seal_status(&seal.sealed.server);
    assert_eq!((&status["type"], &status["initialized"]), (&json!("gcpckms"), &json!(false)));
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
}

#[test]
fn cloud_kms_seal_works_over_tls() {
    let mut seal = KmsSeal::on(GcpKms::start_with_tls());
    let body = json!({ "recovery_shares": 1, "recovery_threshold": 1 });
    let refused = seal.sealed.nobody().write("sys/init", &body);
    assert!(matches!(refused.status, 400 | 502), "no authority is trusted: {refused:?}");
    let ca = seal.sealed.folder.path().join("ca.pem");
    fs::write(&ca, seal.kms.authority()).expect("a file can be written");
    let ca = format!("  tls_ca_cert = {ca:?}\n");
    let trusted = block(&seal.sealed.folder, &seal.kms, &seal.account, &ca);
    seal.sealed.restart(&trusted);
    let operators = seal.sealed.initialise(1, 1);
    write_policy(&operators.root(&seal.sealed.server));
    seal.sealed.restart(&trusted);
    seal.sealed.wait_until_open(&operators);
    seal.assert_silent();
}

#[test]
fn refused_account_is_named_and_replaced() {
    let (mut seal, operators) = KmsSeal::initialised();
    seal.kms.set_clock_ahead(7_200);
    seal.assert_refused("set the clock");
    seal.kms.set_clock_ahead(0);
    seal.kms.deny(&seal.account, "decrypt");
    seal.assert_refused("useToDecrypt");
    seal.kms.delete_key_of(&seal.account);
    seal.assert_refused("the key was deleted");
    seal.account = seal.kms.create_account();
    // A right to encrypt is needed for a rotation alone.
    seal.kms.deny(&seal.account, "encrypt");
    seal.block();
    seal.sealed.kill_and_start();
    seal.sealed.wait_until_open(&operators);
    seal.sealed.server.wait_for_print("newest-key-version-unknown");
    let printed = seal.sealed.server.printed();
    assert!(!printed.contains("seal-key-replaced"), "{printed}");
}

#[test]
fn rotated_cloud_key_seals_anew_at_next_start() {
    let (mut seal, operators) = KmsSeal::initialised();
    seal.kms.disable_version(1);
    seal.assert_refused("enable or restore the version");
    seal.kms.enable_version(1);
    seal.kms.rotate();
    let before = seal.sealed.kill_and_start();
    seal.sealed.server.wait_for_print_after(before, "seal-key-replaced");
    seal.sealed.wait_until_open(&operators);
    seal.kms.destroy_version(1);
    let before = seal.sealed.kill_and_start();
    seal.sealed.wait_until_open(&operators);
    let printed = seal.sealed.server.printed();
    assert!(!printed[before..].contains("seal-key-replaced"), "{}", &printed[before..]);
    // A new version that does not encrypt the key leaves the old one in use.
    seal.kms.rotate();
    seal.kms.fail("/encrypt", Fault::Delay(Duration::ZERO), 1);
    seal.kms.fail("/encrypt", Fault::Status(500), usize::MAX);
    let before = seal.sealed.kill_and_start();
    seal.sealed.server.wait_for_print_after(before, "seal-key-not-replaced");
    seal.sealed.wait_until_open(&operators);
}

#[test]
fn lost_cloud_key_leaves_data_to_recovery_keys() {
    let (mut seal, operators) = KmsSeal::initialised();
    seal.kms.destroy_version(1);
    seal.assert_refused("enable or restore the version");
    seal.sealed.restart(SHAMIR);
    assert_eq!(seal_status(&seal.sealed.server)["migration"], true);
    for key in &operators.keys[1..] {
        migrate(&seal.sealed.server, key).expect(200);
    }
    seal.sealed.assert_open(&operators);
    // The data migrate to another version of the key.
    seal.kms.rotate();
    let back = seal.block();
    seal.sealed.restart(&back);
    for key in &operators.keys[1..] {
        migrate(&seal.sealed.server, key).expect(200);
    }
    assert_eq!(seal_status(&seal.sealed.server)["type"], "gcpckms");
    seal.sealed.kill_and_start();
    seal.sealed.wait_until_open(&operators);
}

//! `seal "gcpckms"`: a server that opens by a key of Google Cloud KMS, which refuses, rotates and
//! is lost.

mod faults;

use crate::seal_service::{KeyKeeper, ServiceSeal};
use bulkhead_tests::gcp_kms::{Account, CRYPTO_KEY, GcpKms, KEY_RING, LOCATION, PROJECT};
use bulkhead_tests::internet::Fault;
use bulkhead_tests::paths::Folder;
use bulkhead_tests::static_seal;
use std::time::Duration;

/// A Cloud KMS, and a server that its key opens.
type GcpSeal = ServiceSeal<GcpKms>;

impl KeyKeeper for GcpKms {
    const KIND: &'static str = "gcpckms";
    const OPENING_PATHS: &'static [&'static str] = &["/token", "/decrypt"];
    type Credentials = Account;

    fn start() -> Self {
        Self::start()
    }

    fn issue(&self) -> Account {
        self.create_account()
    }

    fn block(&self, folder: &Folder, account: &Account, more: &str) -> String {
        let file = folder.path().join("account.json");
        static_seal::write_key(&file, self.key_file(account).as_bytes(), 0o600);
        format!(
            "seal \"gcpckms\" {{\n  project = {PROJECT:?}\n  region = {LOCATION:?}\n  \
             key_ring = {KEY_RING:?}\n  crypto_key = {CRYPTO_KEY:?}\n  credentials = {file:?}\n  \
             endpoint = {:?}\n{more}}}\n",
            self.url()
        )
    }

    /// Returns a part of the private key, and the beginning of all access tokens.
    fn secrets(account: &Account) -> Vec<String> {
        let pem = account.signer.private_pem();
        let line = pem.lines().nth(1).expect("a line of the key");
        vec![line.to_owned(), "ya29.c.".to_owned()]
    }

    fn lose_key(&self) {
        self.destroy_version(1);
    }

    fn replace_key(&mut self) {
        self.rotate();
    }
}

#[test]
fn cloud_kms_seal_opens_after_init_and_stop() {
    GcpSeal::uninitialised().assert_opens_after_init_and_stop();
}

#[test]
fn cloud_kms_seal_works_over_tls() {
    let kms = GcpKms::start_with_tls();
    let account = kms.create_account();
    GcpSeal::on(kms, account).assert_opens_over_tls();
}

#[test]
fn refused_account_is_named_and_replaced() {
    let (mut seal, operators) = GcpSeal::initialised();
    seal.service.set_clock_ahead(7_200);
    seal.assert_refused("set the clock");
    seal.service.set_clock_ahead(0);
    seal.service.deny(&seal.credentials, "decrypt");
    seal.assert_refused("useToDecrypt");
    seal.service.delete_key_of(&seal.credentials);
    seal.assert_refused("the key was deleted");
    seal.credentials = seal.service.create_account();
    // A right to encrypt is needed for a rotation alone.
    seal.service.deny(&seal.credentials, "encrypt");
    seal.block();
    seal.sealed.kill_and_start();
    seal.sealed.wait_until_open(&operators);
    seal.sealed.server.wait_for_print("newest-key-version-unknown");
    let printed = seal.sealed.server.printed();
    assert!(!printed.contains("seal-key-replaced"), "{printed}");
}

#[test]
fn rotated_cloud_key_seals_anew_at_next_start() {
    let (mut seal, operators) = GcpSeal::initialised();
    seal.service.disable_version(1);
    seal.assert_refused("enable or restore the version");
    seal.service.enable_version(1);
    seal.service.rotate();
    let before = seal.sealed.kill_and_start();
    seal.sealed.server.wait_for_print_after(before, "seal-key-replaced");
    seal.sealed.wait_until_open(&operators);
    seal.service.destroy_version(1);
    let before = seal.sealed.kill_and_start();
    seal.sealed.wait_until_open(&operators);
    let printed = seal.sealed.server.printed();
    assert!(!printed[before..].contains("seal-key-replaced"), "{}", &printed[before..]);
    // A new version that does not encrypt the key leaves the old one in use.
    seal.service.rotate();
    seal.service.fail("/encrypt", Fault::Delay(Duration::ZERO), 1);
    seal.service.fail("/encrypt", Fault::Status(500), usize::MAX);
    let before = seal.sealed.kill_and_start();
    seal.sealed.server.wait_for_print_after(before, "seal-key-not-replaced");
    seal.sealed.wait_until_open(&operators);
}

#[test]
fn lost_cloud_key_leaves_data_to_recovery_keys() {
    let (mut seal, operators) = GcpSeal::initialised();
    seal.assert_left_to_recovery_keys(&operators, "enable or restore the version");
}

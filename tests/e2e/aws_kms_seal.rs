//! `seal "awskms"`: a server that opens by a key of AWS KMS, which refuses, rotates and is lost.

mod faults;

use crate::seal_service::{KeyKeeper, ServiceSeal};
use bulkhead_tests::aws_kms::{AwsKms, Credentials, REGION};
use bulkhead_tests::paths::Folder;
use bulkhead_tests::static_seal;
use std::ops::{Deref, DerefMut};
use std::time::Duration;

const ALIAS: &str = "alias/bulkhead";

/// A key management service, and a server that a key of the service opens.
type AwsSeal = ServiceSeal<AwsService>;

/// A key management service with an alias of a key.
struct AwsService {
    kms: AwsKms,
    /// ARN of the key.
    key: String,
}

impl AwsService {
    fn on(kms: AwsKms) -> Self {
        let key = kms.create_key();
        kms.point_alias(ALIAS, &key);
        Self { kms, key }
    }
}

impl Deref for AwsService {
    type Target = <AwsKms as Deref>::Target;

    fn deref(&self) -> &Self::Target {
        &self.kms
    }
}

impl DerefMut for AwsService {
    fn deref_mut(&mut self) -> &mut Self::Target {
        &mut self.kms
    }
}

impl KeyKeeper for AwsService {
    const KIND: &'static str = "awskms";
    const OPENING_PATHS: &'static [&'static str] = &["/"];
    type Credentials = Credentials;

    fn start() -> Self {
        Self::on(AwsKms::start())
    }

    /// Returns an access key without an end.
    fn issue(&self) -> Credentials {
        self.kms.issue()
    }

    fn block(&self, folder: &Folder, credentials: &Credentials, more: &str) -> String {
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
            self.url(),
            credentials.access_key,
        )
    }

    fn secrets(credentials: &Credentials) -> Vec<String> {
        let token = credentials.session_token.clone();
        [credentials.secret_key.clone()].into_iter().chain(token).collect()
    }

    fn lose_key(&self) {
        self.kms.lose_key(&self.key);
    }

    fn replace_key(&mut self) {
        self.key = self.kms.create_key();
        self.kms.point_alias(ALIAS, &self.key);
    }
}

#[test]
fn kms_seal_opens_after_init_kill_and_stop() {
    let mut seal = AwsSeal::uninitialised();
    seal.assert_opens_after_init_and_stop();
    assert!(seal.service.requests().len() >= 4);
}

#[test]
fn kms_seal_works_over_tls_with_session() {
    let service = AwsService::on(AwsKms::start_with_tls());
    let session = service.kms.issue_temporary();
    let mut seal = AwsSeal::on(service, session);
    let (ca, operators) = seal.assert_opens_over_tls();

    // The session ends, and an agent writes the next one into the files.
    seal.service.kms.expire(&seal.credentials);
    seal.assert_refused("session_token has ended");
    seal.credentials = seal.service.kms.issue_temporary();
    let renewed = seal.block_with(&ca);
    seal.sealed.restart(&renewed);
    seal.sealed.wait_until_open(&operators);
    seal.assert_silent();
}

#[test]
fn refused_credentials_are_named_and_replaced() {
    let (mut seal, operators) = AwsSeal::initialised();
    let first = seal.credentials.clone();
    seal.credentials.secret_key = "a-secret-key-of-another-access-key".to_owned();
    let wrong = seal.block();
    seal.sealed.restart(&wrong);
    seal.assert_refused("secret_key does not belong to access_key");
    seal.credentials = first;
    let right = seal.block();
    seal.sealed.restart(&right);
    seal.sealed.wait_until_open(&operators);
    seal.service.kms.set_clock_ahead(Duration::from_secs(600));
    seal.assert_refused("set the clock");
    seal.service.kms.set_clock_ahead(Duration::ZERO);
    seal.service.kms.move_to_region("eu-west-1");
    seal.assert_refused("serves another region");
    seal.service.kms.move_to_region(REGION);
    seal.service.kms.deny(&seal.credentials, "Decrypt");
    seal.assert_refused("allow kms:Decrypt");
    seal.service.kms.delete(&seal.credentials);
    seal.assert_refused("access_key does not exist");
    seal.credentials = seal.service.kms.issue();
    // A right to encrypt is needed for a rotation alone.
    seal.service.kms.deny(&seal.credentials, "Encrypt");
    let replaced = seal.block();
    seal.sealed.restart(&replaced);
    seal.sealed.wait_until_open(&operators);
    seal.sealed.server.wait_for_print("newest-key-version-unknown");
}

#[test]
fn key_states_are_named_and_pass() {
    let (mut seal, operators) = AwsSeal::initialised();
    seal.service.kms.disable(&seal.service.key);
    seal.assert_refused("enable the key");
    seal.service.kms.schedule_deletion(&seal.service.key);
    seal.assert_refused("cancel the deletion");
    seal.service.kms.enable(&seal.service.key);
    seal.sealed.kill_and_start();
    seal.sealed.wait_until_open(&operators);
}

#[test]
fn rotated_kms_key_seals_anew_by_arn() {
    let (mut seal, operators) = AwsSeal::initialised();
    // New material behind the same ARN: nothing is to be done.
    seal.service.kms.rotate(&seal.service.key);
    let before = seal.sealed.kill_and_start();
    seal.sealed.wait_until_open(&operators);
    let printed = seal.sealed.server.printed();
    assert!(!printed[before..].contains("seal-key-replaced"), "{}", &printed[before..]);
    // Another key behind the alias.
    let other = seal.service.kms.create_key();
    seal.service.kms.point_alias(ALIAS, &other);
    let before = seal.sealed.kill_and_start();
    seal.sealed.server.wait_for_print_after(before, "seal-key-replaced");
    seal.sealed.wait_until_open(&operators);
    seal.service.lose_key();
    seal.sealed.kill_and_start();
    seal.sealed.wait_until_open(&operators);
}

#[test]
fn lost_kms_key_leaves_data_to_recovery_keys() {
    let (mut seal, operators) = AwsSeal::initialised();
    seal.assert_left_to_recovery_keys(&operators, "allow kms:Decrypt");
}

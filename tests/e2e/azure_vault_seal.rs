//! `seal "azurekeyvault"`: a server that opens by a key of Azure Key Vault, which refuses, rotates
//! and is lost.

mod faults;

use bulkhead_tests::azure_vault::{Application, AzureVault, KEY, TENANT};
use bulkhead_tests::operators::{Operators, seal_status};
use bulkhead_tests::paths::Folder;
use bulkhead_tests::sealed_server::{PATIENCE, SHAMIR, SealedServer, migrate, write_policy};
use bulkhead_tests::{static_seal, wait};
use serde_json::json;
use std::fs;

/// A vault, and a server that its key opens.
struct VaultSeal {
    vault: AzureVault,
    sealed: SealedServer,
    application: Application,
}

/// Writes the client secret, and returns the block of the seal.
fn block(folder: &Folder, vault: &AzureVault, application: &Application, more: &str) -> String {
    let file = folder.path().join("client-secret");
    static_seal::write_key(&file, application.client_secret.as_bytes(), 0o600);
    let (url, file) = (vault.url(), format!("file://{}", file.display()));
    format!(
        "seal \"azurekeyvault\" {{\n  tenant_id = {TENANT:?}\n  client_id = {:?}\n  \
         client_secret = {file:?}\n  vault_name = \"kv\"\n  key_name = {KEY:?}\n  \
         vault_url = {url:?}\n  authority_host = {url:?}\n{more}}}\n",
        application.client_id
    )
}

impl VaultSeal {
    fn uninitialised() -> Self {
        Self::on(AzureVault::start())
    }

    /// Starts a server on empty data.
    fn on(vault: AzureVault) -> Self {
        let application = vault.register();
        let sealed = SealedServer::start(|folder| block(folder, &vault, &application, ""));
        Self { vault, sealed, application }
    }

    /// Initialises with two of three recovery keys, and writes the policy of the tests.
    fn initialised() -> (Self, Operators) {
        let seal = Self::uninitialised();
        let operators = seal.sealed.initialise(3, 2);
        write_policy(&operators.root(&seal.sealed.server));
        (seal, operators)
    }

    fn block(&self) -> String {
        block(&self.sealed.folder, &self.vault, &self.application, "")
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
        self.sealed.assert_sealed("azurekeyvault");
        self.assert_silent();
    }

    /// Asserts that no output shows the client secret, or an access token.
    #[track_caller]
    fn assert_silent(&self) {
        self.sealed.server.assert_silent(&self.application.client_secret);
        self.sealed.server.assert_silent("eyJ0eXAi.");
    }
}

#[test]
fn key_vault_seal_opens_after_init_and_stop() {
    let mut seal = VaultSeal::uninitialised();
    let status = seal_status(&seal.sealed.server);
    assert_eq!((&status["type"], &status["initialized"]), (&json!("azurekeyvault"), &json!(false)));
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
fn key_vault_seal_works_over_tls() {
    let mut seal = VaultSeal::on(AzureVault::start_with_tls());
    let body = json!({ "recovery_shares": 1, "recovery_threshold": 1 });
    let refused = seal.sealed.nobody().write("sys/init", &body);
    assert!(matches!(refused.status, 400 | 502), "no authority is trusted: {refused:?}");
    let ca = seal.sealed.folder.path().join("ca.pem");
    fs::write(&ca, seal.vault.authority()).expect("a file can be written");
    let ca = format!("  tls_ca_cert = {ca:?}\n");
    let trusted = block(&seal.sealed.folder, &seal.vault, &seal.application, &ca);
    seal.sealed.restart(&trusted);
    let operators = seal.sealed.initialise(1, 1);
    write_policy(&operators.root(&seal.sealed.server));
    seal.sealed.restart(&trusted);
    seal.sealed.wait_until_open(&operators);
    seal.assert_silent();
}

#[test]
fn refused_application_is_named_and_replaced() {
    let (mut seal, operators) = VaultSeal::initialised();
    let first = seal.application.clone();
    seal.application.client_secret = "8Q~another-secret".to_owned();
    seal.block();
    seal.assert_refused("and not its id");
    seal.application = first;
    seal.block();
    seal.vault.deny(&seal.application, "unwrapkey");
    seal.assert_refused("allow get, wrapKey and unwrapKey");
    seal.vault.expire(&seal.application);
    seal.assert_refused("has ended");
    seal.application = seal.vault.register();
    // A right to get is needed for a rotation alone.
    seal.vault.deny(&seal.application, "get");
    let replaced = seal.block();
    seal.sealed.restart(&replaced);
    seal.sealed.wait_until_open(&operators);
    seal.sealed.server.wait_for_print("newest-key-version-unknown");
    let printed = seal.sealed.server.printed();
    assert!(!printed.contains("seal-key-replaced"), "{printed}");
}

#[test]
fn rotated_vault_key_seals_anew_at_next_start() {
    let (mut seal, operators) = VaultSeal::initialised();
    seal.vault.disable_version(1);
    seal.assert_refused("enable the version");
    seal.vault.enable_version(1);
    seal.vault.rotate();
    let before = seal.sealed.kill_and_start();
    seal.sealed.server.wait_for_print_after(before, "seal-key-replaced");
    seal.sealed.wait_until_open(&operators);
    seal.vault.lose_version(1);
    let before = seal.sealed.kill_and_start();
    seal.sealed.wait_until_open(&operators);
    let printed = seal.sealed.server.printed();
    assert!(!printed[before..].contains("seal-key-replaced"), "{}", &printed[before..]);
}

#[test]
fn lost_vault_key_leaves_data_to_recovery_keys() {
    let (mut seal, operators) = VaultSeal::initialised();
    seal.vault.lose_version(1);
    seal.assert_refused("recover the key");
    seal.sealed.restart(SHAMIR);
    assert_eq!(seal_status(&seal.sealed.server)["migration"], true);
    for key in &operators.keys[1..] {
        migrate(&seal.sealed.server, key).expect(200);
    }
    seal.sealed.assert_open(&operators);
    // The data migrate to another version of the key.
    seal.vault.rotate();
    let back = seal.block();
    seal.sealed.restart(&back);
    for key in &operators.keys[1..] {
        migrate(&seal.sealed.server, key).expect(200);
    }
    assert_eq!(seal_status(&seal.sealed.server)["type"], "azurekeyvault");
    seal.sealed.kill_and_start();
    seal.sealed.wait_until_open(&operators);
}

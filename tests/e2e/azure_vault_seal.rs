//! `seal "azurekeyvault"`: a server that opens by a key of Azure Key Vault, which refuses, rotates
//! and is lost.

mod faults;

use crate::seal_service::{KeyKeeper, ServiceSeal};
use bulkhead_tests::azure_vault::{Application, AzureVault, KEY, TENANT};
use bulkhead_tests::paths::Folder;
use bulkhead_tests::static_seal;

/// A vault, and a server that its key opens.
type AzureSeal = ServiceSeal<AzureVault>;

impl KeyKeeper for AzureVault {
    const KIND: &'static str = "azurekeyvault";
    const OPENING_PATHS: &'static [&'static str] = &["/token", "/unwrapkey"];
    type Credentials = Application;

    fn start() -> Self {
        Self::start()
    }

    fn issue(&self) -> Application {
        self.register()
    }

    fn block(&self, folder: &Folder, application: &Application, more: &str) -> String {
        let file = folder.path().join("client-secret");
        static_seal::write_key(&file, application.client_secret.as_bytes(), 0o600);
        let (url, file) = (self.url(), format!("file://{}", file.display()));
        format!(
            "seal \"azurekeyvault\" {{\n  tenant_id = {TENANT:?}\n  client_id = {:?}\n  \
             client_secret = {file:?}\n  vault_name = \"kv\"\n  key_name = {KEY:?}\n  \
             vault_url = {url:?}\n  authority_host = {url:?}\n{more}}}\n",
            application.client_id
        )
    }

    /// Returns the client secret, and the beginning of all access tokens.
    fn secrets(application: &Application) -> Vec<String> {
        vec![application.client_secret.clone(), "eyJ0eXAi.".to_owned()]
    }

    fn lose_key(&self) {
        self.lose_version(1);
    }

    fn replace_key(&mut self) {
        self.rotate();
    }
}

#[test]
fn key_vault_seal_opens_after_init_and_stop() {
    AzureSeal::uninitialised().assert_opens_after_init_and_stop();
}

#[test]
fn key_vault_seal_works_over_tls() {
    let vault = AzureVault::start_with_tls();
    let application = vault.register();
    AzureSeal::on(vault, application).assert_opens_over_tls();
}

#[test]
fn refused_application_is_named_and_replaced() {
    let (mut seal, operators) = AzureSeal::initialised();
    let first = seal.credentials.clone();
    seal.credentials.client_secret = "8Q~another-secret".to_owned();
    seal.block();
    seal.assert_refused("and not its id");
    seal.credentials = first;
    seal.block();
    seal.service.deny(&seal.credentials, "unwrapkey");
    seal.assert_refused("allow get, wrapKey and unwrapKey");
    seal.service.expire(&seal.credentials);
    seal.assert_refused("has ended");
    seal.credentials = seal.service.register();
    // A right to get is needed for a rotation alone.
    seal.service.deny(&seal.credentials, "get");
    let replaced = seal.block();
    seal.sealed.restart(&replaced);
    seal.sealed.wait_until_open(&operators);
    seal.sealed.server.wait_for_print("newest-key-version-unknown");
    let printed = seal.sealed.server.printed();
    assert!(!printed.contains("seal-key-replaced"), "{printed}");
}

#[test]
fn rotated_vault_key_seals_anew_at_next_start() {
    let (mut seal, operators) = AzureSeal::initialised();
    seal.service.disable_version(1);
    seal.assert_refused("enable the version");
    seal.service.enable_version(1);
    seal.service.rotate();
    let before = seal.sealed.kill_and_start();
    seal.sealed.server.wait_for_print_after(before, "seal-key-replaced");
    seal.sealed.wait_until_open(&operators);
    seal.service.lose_version(1);
    let before = seal.sealed.kill_and_start();
    seal.sealed.wait_until_open(&operators);
    let printed = seal.sealed.server.printed();
    assert!(!printed[before..].contains("seal-key-replaced"), "{}", &printed[before..]);
}

#[test]
fn lost_vault_key_leaves_data_to_recovery_keys() {
    let (mut seal, operators) = AzureSeal::initialised();
    seal.assert_left_to_recovery_keys(&operators, "recover the key");
}

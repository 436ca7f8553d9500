//! node-vault, a client that programs in JavaScript use, by the calls of `node_vault_calls.js`:
//! logins of both clouds.

use crate::clouds::{Azure, Google};
use bulkhead_tests::Bulkhead;
use bulkhead_tests::paths::{repository, target};
use serde_json::json;
use std::process::Command;

#[track_caller]
fn call(server: &Bulkhead, part: &str, environment: &[(&str, &str)]) {
    let client = target().join("clients/node-vault/node_modules");
    assert!(client.is_dir(), "node-vault is missing: run tests/clients/install.sh");
    let output = Command::new("node")
        .arg(repository().join("tests/clients/node_vault_calls.js"))
        .arg(part)
        .env_clear()
        .env("PATH", std::env::var_os("PATH").unwrap_or_default())
        .env("NODE_PATH", client)
        .env("VAULT_ADDR", server.url())
        .envs(environment.iter().copied())
        .output()
        .expect("node can be started");
    let printed = String::from_utf8_lossy(&output.stdout);
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{part}: {printed}{error}\n{}", server.printed());
    assert_eq!(printed.trim(), format!("{part}: done"), "the part ran to its end");
}

#[test]
fn machines_of_azure_log_in_by_it() {
    let azure = Azure::start();
    let role = json!({ "bound_locations": "westus2", "token_policies": "app" });
    azure.online.root.write("auth/azure/role/app", &role).expect(204);
    call(&azure.online.server, "azure", &azure.environment());
}

#[test]
fn accounts_and_instances_of_google_log_in_by_it() {
    let google = Google::start();
    call(&google.online.server, "gcp", &google.environment());
}

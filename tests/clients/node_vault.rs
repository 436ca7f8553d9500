//! node-vault, a client library for JavaScript, with the calls of `node_vault_calls.js`: logins of
//! both clouds, and secrets by path.

use crate::clouds::{Azure, Google};
use crate::program::Program;
use bulkhead_tests::Bulkhead;
use bulkhead_tests::bulkhead::ROOT;
use serde_json::json;

const PROGRAM: Program = Program {
    interpreter: "node",
    file: "node_vault_calls.js",
    client: "node-vault/node_modules",
    path: "NODE_PATH",
};

#[test]
fn machines_of_azure_log_in_by_it() {
    let azure = Azure::start();
    let role = json!({ "bound_locations": "westus2", "token_policies": "app" });
    azure.online.root.write("auth/azure/role/app", &role).expect(204);
    PROGRAM.call(&azure.online.server, "azure", &azure.environment());
}

#[test]
fn secrets_are_kept_and_read_by_it() {
    PROGRAM.call(&Bulkhead::start(), "kv", &[("VAULT_TOKEN", ROOT)]);
}

#[test]
fn google_accounts_and_instances_log_in_by_client() {
    let google = Google::start();
    PROGRAM.call(&google.online.server, "gcp", &google.environment());
}

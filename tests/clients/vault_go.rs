//! The Go modules of Vault's and OpenBao's API, with the calls of `go/vault`.

use crate::program::{expect_done, go_program};
use bulkhead_tests::bulkhead::ROOT;
use bulkhead_tests::database_nodes::{DatabaseNodes, NodeSeal, url_at};
use bulkhead_tests::operators::of_key_holders;
use bulkhead_tests::paths::{Folder, binary};
use bulkhead_tests::{Bulkhead, Kubernetes, Postgres};
use serde_json::json;

/// The programs: the same calls through the modules of Vault and of OpenBao.
const PROGRAMS: [&str; 2] = ["vault", "bao"];

/// Runs a part of each program against a new server.
#[track_caller]
fn call(part: &str) {
    for program in PROGRAMS {
        call_with(program, &Bulkhead::start(), part, &[]);
    }
}

/// Runs a part of the program against this server, with these additional variables.
#[track_caller]
fn call_with(program: &str, server: &Bulkhead, part: &str, environment: &[(&str, &str)]) {
    let mut command = go_program(program, part);
    command
        .env("VAULT_ADDR", server.url())
        .env("VAULT_TOKEN", ROOT)
        .envs(environment.iter().copied());
    expect_done(&mut command, part, server);
}

#[test]
fn client_server_queries_are_answered_as_expected() {
    call("state");
}

#[test]
fn it_unseals_rekeys_and_generates_a_root_token() {
    for program in PROGRAMS {
        let (server, operators) = of_key_holders(3, 2);
        let keys = operators.keys.join(",");
        let environment = [("VAULT_TOKEN", operators.token.as_str()), ("KEYS", &keys)];
        call_with(program, &server, "operator", &environment);
    }
}

#[test]
fn vault_go_reads_lines_of_the_log() {
    call("monitor");
}

#[test]
fn vault_go_mount_and_auth_calls_are_answered() {
    call("mounts");
}

#[test]
fn client_policy_calls_are_answered_as_expected() {
    call("policies");
}

#[test]
fn vault_go_plugin_calls_are_answered_as_expected() {
    call("plugins");
}

#[test]
fn vault_go_kv_v1_calls_are_answered() {
    call("kv1");
}

#[test]
fn vault_go_kv_v2_calls_are_answered() {
    call("kv2");
}

#[test]
fn metadata_of_secrets_are_answered_as_it_expects() {
    call("metadata");
}

#[test]
fn vault_go_path_calls_are_answered_over_tls() {
    let mut server = Bulkhead::prepared(binary(), Folder::new("vault-go-tls")).over_tls();
    server.start_again();
    let authority = server.authority().display().to_string();
    for program in PROGRAMS {
        call_with(program, &server, "logical", &[("VAULT_CACERT", &authority)]);
    }
}

#[test]
fn tokens_are_answered_as_it_expects() {
    call("tokens");
}

#[test]
fn token_roles_are_answered_as_it_expects() {
    call("roles");
}

#[test]
fn its_watcher_renews_a_token_until_the_end() {
    call("watcher");
}

#[test]
fn it_unwraps_once() {
    call("wrapping");
}

#[test]
fn single_object_reads_are_answered_as_expected() {
    call_with("vault", &Bulkhead::start(), "reads", &[]);
}

#[test]
fn people_log_in_by_it() {
    call_with("vault", &Bulkhead::start(), "userpass", &[]);
}

#[test]
fn vault_go_reads_own_writes_over_nodes() {
    let database = Postgres::start();
    let urls = [(); 2].map(|()| url_at(&database, database.port));
    let group = DatabaseNodes::start(&urls, NodeSeal::Shares);
    let other = group.nodes[1].url();
    let environment = [("VAULT_TOKEN", group.operators.token.as_str()), ("OTHER_ADDR", &other)];
    call_with("vault", &group.nodes[0], "nodes", &environment);
}

#[test]
fn machines_log_in_by_it() {
    call_with("vault", &Bulkhead::start(), "approle", &[]);
}

/// Uses a real API server.
#[test]
fn service_accounts_log_in_by_it() {
    let namespace = Kubernetes::shared().namespace(json!({}));
    for account in ["app", "other"] {
        namespace.make("serviceaccounts", &json!({ "metadata": { "name": account } }));
    }
    let about = json!({
        "host": namespace.kubernetes.url, "authority": namespace.kubernetes.authority,
        "reviewer": namespace.reviewer(), "namespace": namespace.name,
        "jwt": namespace.token("app"), "other": namespace.token("other"),
    });
    call_with("vault", &Bulkhead::start(), "kubernetes", &[("ABOUT", &about.to_string())]);
}

#[test]
fn vault_go_renews_and_revokes_database_users() {
    let postgres = Postgres::start();
    let creation = "CREATE ROLE \"{{name}}\" LOGIN PASSWORD '{{password}}' \
                    VALID UNTIL '{{expiration}}' IN ROLE readers";
    let about = json!({
        "url": postgres.url(), "user": "bulkhead", "password": postgres.password,
        "creation": creation,
    });
    let before = postgres.users();
    for program in PROGRAMS {
        call_with(program, &Bulkhead::start(), "leases", &[("ABOUT", &about.to_string())]);
        assert_eq!(postgres.users(), before, "all users are removed");
    }
}

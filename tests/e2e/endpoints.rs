//! Every endpoint, in an operator's order: refused without a token, refused with a weak token,
//! served with the right token, and the answer compared with its golden file.
//!
//! The rows are in the modules of this folder; `inspected.rs` fails if an endpoint has no row. A
//! row is named after its golden file: the path with the names of its captures, and the operation.

mod approle;
mod auth_token;
mod canaries;
mod cloud_a;
mod cloud_b;
mod cluster;
mod cubbyhole;
mod database;
mod declared_statuses;
mod directory;
mod host_page;
mod identity;
mod identity_oidc;
mod inspected;
mod jwt;
mod key_holders;
mod kubernetes;
mod kv;
mod numbers;
mod operators;
mod scheduler;
mod spellings;
mod sys_audit;
mod sys_auth;
mod sys_capabilities;
mod sys_internal_counters;
mod sys_internal_specs_openapi;
mod sys_internal_ui_mounts;
mod sys_leases;
mod sys_locked_users;
mod sys_metrics;
mod sys_mounts;
mod sys_plugins_catalog;
mod sys_policies;
mod sys_policies_password;
mod sys_quotas_lease_count;
mod sys_quotas_rate_limit;
mod sys_remount;
mod sys_storage_snapshot;
mod sys_tools;
mod sys_wrapping;
mod userpass;

use crate::world::{CREATION, World, with};
use bulkhead_tests::golden::assert_golden;
use bulkhead_tests::operators::{Operators, seal_status, uninitialised};
use bulkhead_tests::paths::guest;
use bulkhead_tests::wait::until;
use bulkhead_tests::{Client, DirectoryKind, DirectoryServer, Kubernetes};
use serde_json::{Value, json};
use std::time::Duration;

/// An endpoint. A body that is a string names a guest component, whose bytes are sent.
///
/// Path and body may contain placeholders for the latest values of the answers: `{lease}`,
/// `{token}`, `{accessor}`, `{migration}`, `{reload}`, `{mount}` (accessor of `auth/token`),
/// `{id}`, `{canonical_id}`, `{secret_id_accessor}` and `{wrapping}`.
struct EndpointCall {
    golden: &'static str,
    path: &'static str,
    body: Value,
    status: u16,
}

fn row(golden: &'static str, path: &'static str, body: Value, status: u16) -> EndpointCall {
    EndpointCall { golden, path, body, status }
}

impl EndpointCall {
    fn method(&self) -> &'static str {
        match self.golden.rsplit_once('.') {
            Some((_, "read")) => "GET",
            Some((_, "write")) => "POST",
            Some((_, "list")) => "LIST",
            Some((_, "delete")) => "DELETE",
            Some((_, "patch")) => "PATCH",
            _ => panic!("{} does not end in its operation", self.golden),
        }
    }

    /// True if the endpoint needs no token.
    fn is_open(&self) -> bool {
        inspected::endpoint_of(self).is_some_and(|endpoint| endpoint.unauthenticated)
    }

    /// True if the row is sent with a wrapping TTL.
    fn is_wrapped(&self) -> bool {
        self.golden.starts_with("sys-wrapping-wrap.")
    }

    /// True if the row is about the caller's own token, which should not be the root token.
    fn is_about_self(&self) -> bool {
        self.golden.contains("-self.")
    }
}

/// The latest values of the placeholders.
#[derive(Default)]
struct LatestValues {
    lease: String,
    token: String,
    accessor: String,
    migration: String,
    reload: String,
    mount: String,
    id: String,
    canonical_id: String,
    secret_id_accessor: String,
    wrapping: String,
}

impl LatestValues {
    fn fill(&self, text: &str) -> String {
        let text = text.replace("{lease}", &self.lease).replace("{token}", &self.token);
        let text = text.replace("{accessor}", &self.accessor).replace("{reload}", &self.reload);
        let text = text.replace("{migration}", &self.migration).replace("{mount}", &self.mount);
        let text = text.replace("{secret_id_accessor}", &self.secret_id_accessor);
        let text = text.replace("{wrapping}", &self.wrapping);
        text.replace("{id}", &self.id).replace("{canonical_id}", &self.canonical_id)
    }

    fn remember(&mut self, body: &Value) {
        let texts = [
            (&mut self.lease, &body["lease_id"]),
            (&mut self.token, &body["auth"]["client_token"]),
            (&mut self.accessor, &body["auth"]["accessor"]),
            (&mut self.migration, &body["data"]["migration_id"]),
            (&mut self.reload, &body["data"]["reload_id"]),
            (&mut self.mount, &body["data"]["token/"]["accessor"]),
            (&mut self.id, &body["data"]["id"]),
            (&mut self.canonical_id, &body["data"]["canonical_id"]),
            (&mut self.secret_id_accessor, &body["data"]["secret_id_accessor"]),
            (&mut self.wrapping, &body["wrap_info"]["token"]),
        ];
        for (slot, found) in texts {
            if let Some(found) = found.as_str().filter(|found| !found.is_empty()) {
                *slot = found.to_owned();
            }
        }
    }
}

fn all_rows() -> Vec<EndpointCall> {
    let files = [
        cloud_a::rows(),
        cluster::rows(&Value::Null, ""),
        kv::rows(),
        kv::rows_of_version_1(),
        scheduler::rows(),
        database::rows(&Value::Null),
        directory::rows(&Value::Null, &[String::new(), String::new()]),
        cloud_b::rows(),
        userpass::rows(),
        approle::rows(),
        kubernetes::rows(&Value::Null, "", ""),
        jwt::rows(),
        auth_token::rows(),
        identity_oidc::rows(),
        identity::entities(),
        identity::groups(),
        sys_policies::rows(),
        sys_policies_password::rows(),
        sys_quotas_lease_count::rows(),
        sys_quotas_rate_limit::rows(),
        sys_capabilities::rows(),
        sys_leases::rows(&Value::Null),
        sys_audit::rows(),
        sys_mounts::rows(),
        sys_auth::rows(),
        sys_locked_users::rows(),
        sys_metrics::rows(),
        sys_internal_counters::rows(),
        sys_remount::rows(),
        sys_storage_snapshot::rows(),
        sys_tools::rows(),
        sys_wrapping::rows(),
        cubbyhole::rows(),
        sys_plugins_catalog::rows(),
        sys_internal_ui_mounts::rows(),
        sys_internal_specs_openapi::rows(),
        operators::rows(),
        operators::rows_before_opening(),
        key_holders::rows(),
        key_holders::recovery_rows(),
    ];
    files.into_iter().flatten().collect()
}

fn send(client: &Client, row: &EndpointCall, latest: &LatestValues) -> bulkhead_tests::Answer {
    send_to(client, row, &latest.fill(row.path), latest)
}

/// Like [`send`], to another path.
fn send_to(
    client: &Client,
    row: &EndpointCall,
    path: &str,
    latest: &LatestValues,
) -> bulkhead_tests::Answer {
    let body = match &row.body {
        Value::Null => Vec::new(),
        Value::String(component) => guest(component),
        body => latest.fill(&body.to_string()).into_bytes(),
    };
    match row.is_wrapped() {
        true => client.wrapping("60").send(row.method(), path, &body),
        false => client.send(row.method(), path, &body),
    }
}

/// Like [`send`]; repeats the request until background work has ended.
fn send_until_settled(
    client: &Client,
    row: &EndpointCall,
    latest: &LatestValues,
) -> bulkhead_tests::Answer {
    let settled = || {
        let answer = send(client, row, latest);
        (answer.body["data"]["migration_info"]["status"] != "in-progress").then_some(answer)
    };
    until("the end of what goes on", Duration::from_secs(30), settled).0
}

/// Grants everything by policy, not as root.
const OPERATOR: &str = r#"path "*" {
    capabilities = ["create", "read", "update", "patch", "delete", "list", "sudo"]
}"#;

fn walk(world: &World, rows: &[EndpointCall]) {
    let nobody = world.bulkhead.client(None);
    let weak = world.weak();
    let operator = world.client_with("operator", OPERATOR);
    let mut latest = LatestValues::default();
    for row in rows {
        if !row.is_open() {
            for (who, client) in [("no token", &nobody), ("a weak token", &weak)] {
                let refused = send(client, row, &latest);
                assert_eq!(refused.status, 403, "{} with {who}: {refused:?}", row.golden);
                assert!(
                    refused.errors().contains("permission denied"),
                    "{} with {who}: {refused:?}",
                    row.golden
                );
            }
            spellings::assert_denied(world, &operator, row, &latest);
        }
        spellings::allow(world);
        numbers::assert_refused(world, row, &latest);
        let served = send_until_settled(
            if row.is_about_self() { &operator } else { &world.root },
            row,
            &latest,
        );
        let served = served.expect(row.status);
        let served = sys_internal_specs_openapi::outline(served);
        assert_golden(row.golden, &served);
        latest.remember(&served.body);
    }
}

#[test]
fn the_database_engine_answers_as_agreed() {
    let world = World::empty();
    world.postgres.query("CREATE ROLE app LOGIN PASSWORD 'of-before'");
    world.postgres.query("CREATE ROLE keeper SUPERUSER LOGIN PASSWORD 'of-the-keeper'");
    let keeper = json!({ "username": "keeper", "password": "of-the-keeper" });
    walk(&world, &database::rows(&with(world.connection(), keeper)));
    assert_eq!(world.postgres.users(), Vec::<String>::new());
}

#[test]
fn cloud_a_auth_method_answers_as_agreed() {
    let world = World::empty();
    walk(&world, &cloud_a::rows());
}

#[test]
fn userpass_auth_method_answers_as_agreed() {
    walk(&World::empty(), &userpass::rows());
}

#[test]
fn approle_auth_method_answers_as_agreed() {
    walk(&World::empty(), &approle::rows());
}

#[test]
fn kubernetes_auth_method_answers_as_agreed() {
    let namespace = Kubernetes::shared().namespace(json!({}));
    let config = json!({
        "kubernetes_host": namespace.kubernetes.url,
        "kubernetes_ca_cert": namespace.kubernetes.authority,
        "token_reviewer_jwt": namespace.reviewer(),
    });
    namespace.make("serviceaccounts", &json!({ "metadata": { "name": "app" } }));
    let token = namespace.token_for("app", &["bulkhead"]);
    walk(&World::empty(), &kubernetes::rows(&config, &namespace.name, &token));
}

#[test]
fn jwt_auth_method_answers_as_agreed() {
    walk(&World::empty(), &jwt::rows());
}

#[test]
fn the_scheduler_answers_operators_as_agreed() {
    walk(&World::empty(), &scheduler::rows());
}

#[test]
fn the_cluster_engine_answers_as_agreed() {
    let world = World::empty();
    let namespace = Kubernetes::shared().namespace(json!({}));
    let config = json!({
        "cluster_host": namespace.kubernetes.url,
        "cluster_ca_cert": namespace.kubernetes.authority,
        "service_account_jwt": namespace.engine(),
    });
    namespace.make("serviceaccounts", &json!({ "metadata": { "name": "app" } }));
    namespace.grant(1);
    walk(&world, &cluster::rows(&config, &namespace.name));
}

#[test]
fn the_key_value_engine_answers_as_agreed() {
    let world = World::empty();
    walk(&world, &kv::rows());
    world.root.write("sys/mounts/kv", &json!({ "type": "kv" })).expect(204);
    walk(&world, &kv::rows_of_version_1());
}

#[test]
fn cloud_b_auth_method_answers_as_agreed() {
    let world = World::empty();
    walk(&world, &cloud_b::rows());
}

#[test]
fn the_directory_engine_answers_as_agreed() {
    let world = World::empty();
    let branch = DirectoryServer::shared(DirectoryKind::OpenLdap).branch_called("golden");
    let accounts = ["build", "lent"].map(|name| {
        branch.add(name, "Qd7-Vm3-Wx5-Bn8");
        branch.full(name)
    });
    walk(&world, &directory::rows(&branch.config(), &accounts));
}

#[test]
fn leases_below_a_path_answer_as_agreed() {
    let world = World::empty();
    walk(&world, &sys_leases::rows(&world.connection()));
    assert_eq!(world.postgres.users(), Vec::<String>::new());
}

#[test]
fn tokens_answer_as_agreed() {
    let world = World::empty();
    walk(&world, &auth_token::rows());
}

#[test]
fn identity_keys_answer_as_agreed() {
    let world = World::empty();
    walk(&world, &identity_oidc::rows());
}

#[test]
fn entities_and_groups_answer_as_agreed() {
    let world = World::empty();
    walk(&world, &identity::entities());
    walk(&world, &identity::groups());
}

#[test]
fn policies_answer_as_agreed() {
    let world = World::empty();
    walk(&world, &sys_policies::rows());
}

#[test]
fn password_policies_answer_as_agreed() {
    let world = World::empty();
    walk(&world, &sys_policies_password::rows());
}

#[test]
fn quotas_answer_as_agreed() {
    let world = World::empty();
    walk(&world, &sys_quotas_lease_count::rows());
    walk(&world, &sys_quotas_rate_limit::rows());
}

#[test]
fn capabilities_answer_as_agreed() {
    let world = World::empty();
    walk(&world, &sys_capabilities::rows());
}

#[test]
fn audit_devices_answer_as_agreed() {
    let world = World::empty();
    walk(&world, &sys_audit::rows());
}

#[test]
fn mounts_answer_as_agreed() {
    let world = World::empty();
    walk(&world, &sys_mounts::rows());
    walk(&world, &sys_metrics::rows());
    walk(&world, &sys_internal_counters::rows());
    walk(&world, &sys_storage_snapshot::rows());
}

#[test]
fn auth_methods_answer_as_agreed() {
    let world = World::empty();
    walk(&world, &sys_auth::rows());
    walk(&world, &sys_locked_users::rows());
}

#[test]
fn wrapping_the_cubbyhole_and_tools_answer_as_agreed() {
    let world = World::empty();
    walk(&world, &sys_wrapping::rows());
    walk(&world, &cubbyhole::rows());
    walk(&world, &sys_tools::rows());
}

#[test]
fn moves_answer_as_agreed() {
    let world = World::empty();
    walk(&world, &sys_remount::rows());
}

#[test]
fn the_catalog_answers_as_agreed() {
    let world = World::empty();
    walk(&world, &sys_plugins_catalog::rows());
}

#[test]
fn visible_mounts_are_answered_as_agreed() {
    let world = World::empty();
    walk(&world, &sys_internal_ui_mounts::rows());
}

#[test]
fn the_openapi_document_has_the_endpoints_agreed() {
    let world = World::empty();
    walk(&world, &sys_internal_specs_openapi::rows());
}

#[test]
fn operator_endpoints_answer_as_agreed() {
    let world = World::empty();
    walk(&world, &operators::rows());
    assert_eq!(seal_status(&world.bulkhead)["sealed"], true);
}

/// The rows of a server that has issued no token yet.
#[test]
fn initialisation_and_unsealing_answer_as_agreed() {
    let server = uninitialised();
    let nobody = server.client(None);
    let mut key = String::new();
    for mut row in operators::rows_before_opening() {
        if row.golden == "sys-unseal.write" {
            row.body = json!({ "key": key });
        }
        let served = send(&nobody, &row, &LatestValues::default()).expect(row.status);
        assert_golden(row.golden, &served);
        if row.golden == "sys-init.write" {
            key = Operators::of(&served.body, 2).keys[0].clone();
        }
    }
}

#[test]
fn put_writes_like_post_and_get_can_list() {
    let world = World::new();
    let body = json!({ "default_ttl": "2h" }).to_string();
    world.root.send("PUT", "database/roles/reader", body.as_bytes()).expect(204);
    assert_eq!(world.root.read("database/roles/reader").body["data"]["default_ttl"], 7200);
    let by_verb = world.root.list("database/roles").expect(200).body["data"].clone();
    let by_query = world.root.read("database/roles?list=true").expect(200).body["data"].clone();
    assert_eq!(by_verb, json!({ "keys": ["reader"] }));
    assert_eq!(by_query, by_verb);
}

#[test]
fn missing_objects_are_404_with_empty_errors() {
    let world = World::empty();
    for path in ["database/config/nowhere", "database/roles/nobody"] {
        assert_eq!(world.root.read(path).expect(404).body, json!({ "errors": [] }));
        world.root.delete(path).expect(204);
    }
    for path in ["database/config", "database/roles"] {
        assert_eq!(world.root.list(path).expect(404).body, json!({ "errors": [] }));
    }
}

#[test]
fn an_update_keeps_omitted_fields() {
    let world = World::new();
    world.root.write("database/roles/reader", &json!({ "max_ttl": "8h" })).expect(204);
    let role = world.root.read("database/roles/reader").expect(200);
    assert_eq!(role.body["data"]["default_ttl"], 3600);
    assert_eq!(role.body["data"]["max_ttl"], 8 * 3600);
    assert_eq!(role.body["data"]["creation_statements"], json!([CREATION]));
    let only_roles = json!({ "allowed_roles": ["reader"] });
    assert!(world.root.write("database/config/demo", &only_roles).status < 300);
    let connection = world.root.read("database/config/demo").expect(200);
    assert_eq!(connection.body["data"]["allowed_roles"], json!(["reader"]));
    assert_eq!(connection.body["data"]["connection_details"]["username"], "bulkhead");
    world.credential("reader");
}

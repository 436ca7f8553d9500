//! Service accounts of a real API server log in to the binary that ships: only with tokens that the
//! API server confirms for the account, the audience and the present.

use bulkhead_tests::kubernetes::TOKEN_CACHE;
use bulkhead_tests::wait::until_true;
use bulkhead_tests::{Answer, Bulkhead, Client, Internet, Kubernetes, Namespace};
use serde_json::{Value, json};

/// The audience of the role.
const AUDIENCE: &str = "bulkhead";

/// A server in dev mode, which mounts the method at `auth/kubernetes`, and a namespace with the
/// account `app`.
struct KubernetesStage {
    server: Bulkhead,
    root: Client,
    namespace: Namespace,
    reviewer: String,
}

impl KubernetesStage {
    /// With a reviewer, and the role `web` for `app`.
    fn start() -> Self {
        let server = Bulkhead::start();
        let namespace = Kubernetes::shared().namespace(json!({}));
        let reviewer = namespace.reviewer();
        namespace.make("serviceaccounts", &json!({"metadata": {"name": "app"}}));
        let root = server.root();
        let gate = Self { server, root, namespace, reviewer };
        gate.configure(json!({"token_reviewer_jwt": gate.reviewer}));
        gate.role(json!({"audience": AUDIENCE}));
        gate
    }

    #[track_caller]
    fn configure(&self, fields: Value) {
        let cluster = self.namespace.kubernetes;
        let mut config =
            json!({"kubernetes_host": cluster.url, "kubernetes_ca_cert": cluster.authority});
        config.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
        self.root.write("auth/kubernetes/config", &config).expect(204);
    }

    #[track_caller]
    fn role(&self, fields: Value) {
        let mut role = json!({
            "bound_service_account_names": "app", "token_policies": "dev", "token_ttl": "10m",
            "bound_service_account_namespaces": self.namespace.name,
        });
        role.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
        self.root.write("auth/kubernetes/role/web", &role).expect_success();
    }

    fn login(&self, token: &str) -> Answer {
        let body = json!({"role": "web", "jwt": token});
        self.server.client(None).write("auth/kubernetes/login", &body)
    }

    #[track_caller]
    fn denied(&self, token: &str) -> String {
        let said = self.login(token).expect(403).errors();
        assert!(said.contains("permission denied"), "{said}");
        said
    }

    fn token(&self) -> String {
        self.namespace.token_for("app", &[AUDIENCE])
    }
}

#[test]
fn account_logs_in_and_token_follows_role() {
    let gate = KubernetesStage::start();
    let token = gate.token();
    let login = gate.login(&token).expect(200);
    let (auth, name) = (&login.body["auth"], &gate.namespace.name);
    assert_eq!(auth["policies"], json!(["default", "dev"]));
    assert_eq!(auth["lease_duration"], 600);
    let account = gate.namespace.read("serviceaccounts", "app");
    let uid = &account["metadata"]["uid"];
    let expected = json!({
        "role": "web", "service_account_name": "app", "service_account_namespace": name,
        "service_account_secret_name": "", "service_account_uid": uid,
    });
    assert_eq!(auth["metadata"], expected);
    let pod = gate.server.client(auth["client_token"].as_str());
    let shown = pod.read("auth/token/lookup-self").expect(200).body["data"].clone();
    assert_eq!(shown["display_name"], format!("kubernetes-{name}-app"));
    let entity =
        gate.root.read(&format!("identity/entity/id/{}", shown["entity_id"].as_str().unwrap()));
    assert_eq!(&entity.expect(200).body["data"]["aliases"][0]["name"], uid);
    pod.write("auth/token/renew-self", &json!({})).expect(200);
    gate.role(json!({"bound_service_account_names": "other"}));
    pod.write("auth/token/renew-self", &json!({})).expect(403);
    let shown = gate.root.read("auth/kubernetes/config").expect(200);
    assert_eq!(shown.body["data"]["token_reviewer_jwt_set"], true);
    for secret in [&token, &gate.reviewer] {
        gate.server.assert_silent(secret.rsplit_once('.').unwrap().1);
    }
}

#[test]
fn a_token_for_another_audience_logs_in_nowhere() {
    let gate = KubernetesStage::start();
    for token in [gate.namespace.token("app"), gate.namespace.token_for("app", &["other"])] {
        assert!(gate.denied(&token).contains("audience"));
    }
    gate.login(&gate.namespace.token_for("app", &["other", AUDIENCE])).expect(200);
    gate.role(json!({"audience": ""}));
    assert!(
        gate.denied(&gate.token()).contains("does not accept"),
        "the API server's own audience"
    );
    gate.login(&gate.namespace.token("app")).expect(200);
}

#[test]
fn a_token_with_changed_claims_logs_in_nowhere() {
    let gate = KubernetesStage::start();
    gate.namespace.make("serviceaccounts", &json!({"metadata": {"name": "guest"}}));
    let (own, guest) = (gate.token(), gate.namespace.token_for("guest", &[AUDIENCE]));
    assert!(gate.denied(&guest).contains("service account name not authorized"));
    let parts = |token: &str| token.split('.').map(str::to_owned).collect::<Vec<_>>();
    let (own, guest) = (parts(&own), parts(&guest));
    let grafted = format!("{}.{}.{}", guest[0], own[1], guest[2]);
    assert!(gate.denied(&grafted).contains("does not accept"));
    gate.login(&own.join(".")).expect(200);
}

#[test]
fn same_name_in_other_namespace_is_other_account() {
    let gate = KubernetesStage::start();
    let other = gate.namespace.kubernetes.namespace(json!({}));
    other.make("serviceaccounts", &json!({"metadata": {"name": "app"}}));
    let stranger = other.token_for("app", &[AUDIENCE]);
    assert!(gate.denied(&stranger).contains("namespace not authorized"));
    gate.role(json!({
        "bound_service_account_namespaces": [gate.namespace.name, other.name],
        "alias_name_source": "serviceaccount_name",
    }));
    let entity = |token: &str| {
        let login = gate.login(token).expect(200);
        login.body["auth"]["entity_id"].as_str().expect("an entity").to_owned()
    };
    assert_ne!(entity(&stranger), entity(&gate.token()));
}

#[test]
fn deleted_account_cannot_log_in_and_successor_differs() {
    let gate = KubernetesStage::start();
    let (unused, used) = (gate.token(), gate.token());
    let first = gate.login(&used).expect(200);
    gate.namespace.remove("serviceaccounts", "app");
    // The API server itself remembers a token that it accepted for some seconds.
    for token in [&unused, &used] {
        until_true("the token is refused", TOKEN_CACHE, || gate.login(token).status == 403);
    }
    gate.namespace.make("serviceaccounts", &json!({"metadata": {"name": "app"}}));
    gate.denied(&unused);
    gate.denied(&used);
    let second = gate.login(&gate.token()).expect(200);
    assert_ne!(first.body["auth"]["entity_id"], second.body["auth"]["entity_id"]);
}

#[test]
fn a_selector_admits_the_namespaces_with_its_labels() {
    let gate = KubernetesStage::start();
    let blue = gate.namespace.kubernetes.namespace(json!({"team": "blue", "tier": "web"}));
    let red = gate.namespace.kubernetes.namespace(json!({"team": "red"}));
    for namespace in [&blue, &red] {
        namespace.make("serviceaccounts", &json!({"metadata": {"name": "app"}}));
    }
    let [blue_token, red_token] = [&blue, &red].map(|it| it.token_for("app", &[AUDIENCE]));
    let selector = "{\"matchLabels\": {\"team\": \"blue\"}, \"matchExpressions\": [{\"key\": \
                    \"tier\", \"operator\": \"In\", \"values\": [\"web\", \"api\"]}]}";
    gate.role(json!({"bound_service_account_namespace_selector": selector}));
    assert!(gate.denied(&blue_token).contains("token_reviewer_jwt read namespaces"));
    gate.namespace.let_read_namespaces("reviewer", &gate.reviewer);
    let login = gate.login(&blue_token).expect(200);
    let metadata = &login.body["auth"]["metadata"];
    assert_eq!(metadata["service_account_namespace"], json!(blue.name));
    assert!(gate.denied(&red_token).contains("namespace not authorized"));
    gate.login(&gate.token()).expect(200);
    let pod = gate.server.client(login.body["auth"]["client_token"].as_str());
    pod.write("auth/token/renew-self", &json!({})).expect(200);
    let another = "matchLabels: {team: red}";
    gate.role(json!({"bound_service_account_namespace_selector": another}));
    pod.write("auth/token/renew-self", &json!({})).expect(403);
    gate.login(&red_token).expect(200);
    gate.denied(&blue_token);
}

#[test]
fn account_with_review_right_reviews_itself() {
    let gate = KubernetesStage::start();
    gate.configure(json!({"token_reviewer_jwt": ""}));
    gate.role(json!({"audience": ""}));
    assert!(gate.denied(&gate.namespace.token("app")).contains("review itself"));
    let other = gate.namespace.kubernetes.namespace(json!({}));
    other.make("serviceaccounts", &json!({"metadata": {"name": "app"}}));
    other.delegate("app");
    gate.role(json!({"bound_service_account_namespaces": other.name}));
    gate.login(&other.token("app")).expect(200);
}

#[test]
fn unprivileged_reviewer_or_unreachable_api_server_blocks_logins() {
    let gate = KubernetesStage::start();
    let token = gate.token();
    gate.configure(json!({"token_reviewer_jwt": gate.namespace.token("app")}));
    assert!(gate.denied(&token).contains("token_reviewer_jwt"));
    let authority = Internet::start().authority().to_owned();
    for fields in [
        json!({"kubernetes_ca_cert": authority, "token_reviewer_jwt": gate.reviewer}),
        json!({"kubernetes_host": "https://127.0.0.1:1", "token_reviewer_jwt": gate.reviewer}),
    ] {
        gate.configure(fields);
        gate.login(&token).expect(502);
    }
    let moved = json!({"kubernetes_host": "https://thief.example"});
    let refused = gate.root.write("auth/kubernetes/config", &moved).expect(400);
    assert!(refused.errors().contains("token_reviewer_jwt"), "{}", refused.errors());
    gate.configure(json!({"token_reviewer_jwt": gate.reviewer}));
    gate.login(&token).expect(200);
}

//! The server as a pod of the cluster: an empty configuration suffices, and rotated token and
//! authority files are read again.

use bulkhead_tests::paths::{Folder, binary};
use bulkhead_tests::storage;
use bulkhead_tests::wait::until_true;
use bulkhead_tests::{Answer, Bulkhead, Client, Kubernetes, Namespace, Operators};
use serde_json::json;
use std::fs;
use std::time::Duration;

/// Longest wait until a rotated file is read again.
const SOON: Duration = Duration::from_secs(20);

/// A token that the cluster never issued.
const FORGED: &str = "eyJhbGciOiJub25lIn0.eyJzdWIiOiJ4In0.c2ln";

/// A server in the environment of a pod.
struct Pod {
    server: Bulkhead,
    root: Client,
    namespace: Namespace,
    folder: Folder,
    token: String,
}

impl Pod {
    fn start() -> Self {
        let namespace = Kubernetes::shared().namespace(json!({}));
        let token = namespace.engine();
        namespace.make("serviceaccounts", &json!({"metadata": {"name": "app"}}));
        namespace.grant(1);
        let (folder, data) = (Folder::new("pod"), Folder::new("pod-data"));
        let text = format!(
            "listener \"tcp\" {{ address = \"127.0.0.1:0\" }}\n\
             {}\nambient {{ pod_folder = \"{}\" }}\n",
            storage::block(data.path()),
            folder.path().display(),
        );
        let file = folder.path().join("bulkhead.hcl");
        fs::write(&file, text).expect("a file can be written");
        let (host, port) = address(&namespace.kubernetes.url);
        let environment = [
            ("KUBERNETES_SERVICE_HOST", host),
            ("KUBERNETES_SERVICE_PORT_HTTPS", port.clone()),
            ("KUBERNETES_SERVICE_PORT", port),
        ];
        let mut server = Bulkhead::prepared(binary(), data).configured(file);
        server.start_with(&environment).unwrap_or_else(|_| panic!("{}", server.printed()));
        let operators = Operators::initialise(&server, 1, 1);
        operators.unseal(&server);
        let root = operators.root(&server);
        let mount = json!({"type": "cluster", "grants": ["http:*", "ambient:pod-identity"]});
        root.write("sys/mounts/cluster", &mount).expect(204);
        let pod = Self { server, root, namespace, folder, token };
        pod.mounts("token", &pod.token);
        pod.mounts("ca.crt", &pod.namespace.kubernetes.authority);
        pod.mounts("namespace", &pod.namespace.name);
        pod
    }

    /// Writes a file that the cluster mounts into its pods.
    fn mounts(&self, name: &str, text: &str) {
        fs::write(self.folder.path().join(name), text).expect("a file can be written");
    }

    fn give(&self) -> Answer {
        self.root.write("cluster/creds/one", &json!({}))
    }

    #[track_caller]
    fn gives_soon(&self, status: u16) {
        until_true("what was rotated is used", SOON, || self.give().status == status);
    }
}

/// Host and port of `https://HOST:PORT`.
fn address(url: &str) -> (String, String) {
    let authority = url.trim_start_matches("https://").trim_end_matches('/');
    let (host, port) = authority.rsplit_once(':').unwrap_or((authority, "443"));
    (host.to_owned(), port.to_owned())
}

#[test]
fn unconfigured_pod_rereads_rotated_token_and_authority() {
    let pod = Pod::start();
    assert!(pod.root.read("cluster/check").expect(200).text("cluster_host").contains("https://"));
    pod.root.write("cluster/config", &json!({})).expect(204);
    let role = json!({
        "allowed_cluster_namespaces": pod.namespace.name, "service_account_name": "app",
    });
    pod.root.write("cluster/roles/one", &role).expect(204);
    let given = pod.give().expect(200);
    let token = given.text("service_account_token");
    assert_eq!(
        pod.namespace.try_as(token, "GET", "configmaps"),
        403,
        "it is known, without rights"
    );
    pod.mounts("token", FORGED);
    pod.gives_soon(400);
    pod.mounts("token", &pod.namespace.token(&pod.namespace.name));
    pod.gives_soon(200);
    pod.mounts("ca.crt", &another_authority());
    pod.gives_soon(502);
    pod.mounts("ca.crt", &pod.namespace.kubernetes.authority);
    pod.gives_soon(200);
    super::assert_unprinted(&pod.server, &pod.token);
}

#[test]
fn pod_token_is_sent_to_no_other_server() {
    let pod = Pod::start();
    for config in [
        json!({"cluster_host": "https://other.example:6443"}),
        json!({"cluster_host": "https://127.0.0.1:1"}),
        json!({"disable_local_ca_jwt": true}),
    ] {
        let refused = pod.root.write("cluster/config", &config).expect(400);
        assert!(refused.errors().contains("service_account_jwt"), "{}", refused.errors());
        pod.root.read("cluster/config").expect(404);
    }
}

#[test]
fn pod_reviews_login_tokens_only_for_granted_mount() {
    let pod = Pod::start();
    pod.namespace.delegate(&pod.namespace.name);
    let jwt = pod.namespace.token_for("app", &["bulkhead"]);
    let login = |mount: &str| {
        let body = json!({"role": "web", "jwt": jwt});
        pod.server.client(None).write(&format!("auth/{mount}/login"), &body)
    };
    for (mount, grants) in
        [("granted", &["http:*", "ambient:pod-identity"][..]), ("narrowed", &["http:*"])]
    {
        let enabled = json!({"type": "kubernetes", "grants": grants});
        pod.root.write(&format!("sys/auth/{mount}"), &enabled).expect(204);
        let cluster = pod.namespace.kubernetes;
        let config =
            json!({"kubernetes_host": cluster.url, "kubernetes_ca_cert": cluster.authority});
        pod.root.write(&format!("auth/{mount}/config"), &config).expect(204);
        let role = json!({
            "bound_service_account_names": "app", "audience": "bulkhead",
            "bound_service_account_namespaces": pod.namespace.name,
        });
        pod.root.write(&format!("auth/{mount}/role/web"), &role).expect(204);
    }
    login("granted").expect(200);
    let refused = login("narrowed").expect(403).errors();
    assert!(refused.contains("review itself"), "{refused}");
    pod.mounts("token", FORGED);
    until_true("what was rotated is used", SOON, || login("granted").status == 403);
    super::assert_unprinted(&pod.server, &pod.token);
}

fn another_authority() -> String {
    bulkhead_tests::Internet::start().authority().to_owned()
}

//! A real Kubernetes API server.
//!
//! `tests/servers/kubernetes.sh` builds and starts the server. All tests of a program share one
//! server, each test in its own namespace. The server ends with the program, because its standard
//! input then closes. If `KUBECONFIG` is set, the tests use that cluster instead.

use crate::paths::{Folder, repository};
use crate::server_script::ServerScript;
use crate::wait::until_true;
use serde_json::{Value, json};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

const RBAC: &str = "apis/rbac.authorization.k8s.io/v1";

/// Resources of `RBAC` without a namespace.
const CLUSTER_WIDE: [&str; 2] = ["clusterroles", "clusterrolebindings"];

/// A cluster with an administrator's credentials.
pub struct Kubernetes {
    pub url: String,
    pub authority: String,
    authority_file: PathBuf,
    proof: AdminProof,
    /// Process id of the API server, if this program started the server.
    apiserver: Option<u32>,
    _files: Folder,
}

/// Credentials of the administrator, as options of curl.
enum AdminProof {
    Token(String),
    Certificate(PathBuf, PathBuf),
}

pub struct Namespace {
    pub kubernetes: &'static Kubernetes,
    pub name: String,
}

impl Kubernetes {
    /// The cluster that all tests of this program share.
    pub fn shared() -> &'static Self {
        static SHARED: OnceLock<Kubernetes> = OnceLock::new();
        SHARED.get_or_init(|| match std::env::var_os("KUBECONFIG") {
            Some(file) => Self::of_kubeconfig(Path::new(&file)),
            None => Self::start(),
        })
    }

    /// Starts a cluster for a test that stops the server.
    pub fn own() -> &'static Self {
        Box::leak(Box::new(Self::start()))
    }

    fn start() -> Self {
        let script = ServerScript::start("kubernetes", &[], &[]);
        let authority_file = script.said::<PathBuf>("folder").join("ca.crt");
        let ready = Self {
            url: format!("https://127.0.0.1:{}", script.said::<u16>("port")),
            authority: std::fs::read_to_string(&authority_file).expect("the authority is readable"),
            authority_file,
            proof: AdminProof::Token(script.said("token")),
            apiserver: Some(script.said("apiserver")),
            _files: Folder::new("kubernetes"),
        };
        script.keep();
        ready
    }

    /// Reads the cluster and the user of the current context, like `kubectl`.
    fn of_kubeconfig(file: &Path) -> Self {
        let arguments =
            ["config", "view", "--raw", "--minify", "--flatten", "-o", "json", "--kubeconfig"];
        let shown = Command::new("kubectl").args(arguments).arg(file).output();
        let shown = shown.expect("kubectl reads KUBECONFIG").stdout;
        let config: Value =
            serde_json::from_slice(&shown).expect("kubectl shows the configuration");
        let (cluster, user) = (&config["clusters"][0]["cluster"], &config["users"][0]["user"]);
        let files = Folder::new("kubernetes");
        let write_file = |name: &str, base64: &Value| {
            let path = files.path().join(name);
            let decoded = decoded(base64.as_str().expect("kubectl flattened it"));
            std::fs::write(&path, decoded).expect("a file of ours");
            path
        };
        let authority_file = write_file("ca.crt", &cluster["certificate-authority-data"]);
        let proof = match user["token"].as_str() {
            Some(token) => AdminProof::Token(token.to_owned()),
            None => AdminProof::Certificate(
                write_file("tls.crt", &user["client-certificate-data"]),
                write_file("tls.key", &user["client-key-data"]),
            ),
        };
        Self {
            url: cluster["server"].as_str().expect("a cluster has a server").to_owned(),
            authority: std::fs::read_to_string(&authority_file).expect("the authority is readable"),
            authority_file,
            proof,
            apiserver: None,
            _files: files,
        }
    }

    /// Sends a request with a bearer token, and returns status and body.
    pub fn ask_as(&self, token: &str, method: &str, path: &str, body: &Value) -> (u16, Value) {
        self.exchange(&["-H", &format!("authorization: Bearer {token}")], method, path, body)
    }

    /// Sends a request as administrator, and returns status and body.
    pub fn ask(&self, method: &str, path: &str, body: &Value) -> (u16, Value) {
        match &self.proof {
            AdminProof::Token(token) => self.ask_as(token, method, path, body),
            AdminProof::Certificate(certificate, key) => {
                let (certificate, key) = (certificate.to_string_lossy(), key.to_string_lossy());
                self.exchange(&["--cert", &certificate, "--key", &key], method, path, body)
            }
        }
    }

    /// Like [`Kubernetes::ask`], for a request that must succeed. An object that already exists
    /// counts as success.
    #[track_caller]
    pub fn must(&self, method: &str, path: &str, body: &Value) -> Value {
        let (status, answer) = self.ask(method, path, body);
        assert!(
            (200..300).contains(&status) || status == 409,
            "{method} {path}: {status} {answer}"
        );
        answer
    }

    fn exchange(&self, proof: &[&str], method: &str, path: &str, body: &Value) -> (u16, Value) {
        let text = match body {
            Value::String(yaml) => yaml.clone(),
            json => json.to_string(),
        };
        let kind = if body.is_string() { "application/yaml" } else { "application/json" };
        let mut curl = Command::new("curl");
        curl.args(["-sS", "--max-time", "90", "-w", "\n%{http_code}", "-X", method, "--cacert"])
            .arg(&self.authority_file)
            .args(proof)
            .args(["-H", &format!("content-type: {kind}"), "-H", "accept: application/json"])
            .arg(format!("{}/{path}", self.url))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped());
        if !body.is_null() {
            curl.args(["--data-binary", "@-"]);
        }
        let mut curl = curl.spawn().expect("curl can be started");
        let mut input = curl.stdin.take().expect("the standard input is piped");
        if !body.is_null() {
            input.write_all(text.as_bytes()).expect("curl reads the body");
        }
        drop(input);
        let answered = curl.wait_with_output().expect("curl ends").stdout;
        let answered = String::from_utf8_lossy(&answered);
        let (body, status) = answered.rsplit_once('\n').expect("curl says the status");
        (status.parse().unwrap_or_default(), serde_json::from_str(body).unwrap_or_default())
    }

    /// Creates a namespace with these labels.
    #[track_caller]
    pub fn namespace(&'static self, labels: Value) -> Namespace {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        // The time makes the name unique if others use the cluster and a process id repeats.
        let began = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970").as_secs();
        let name = format!("bulkhead-{began}-{}-{number}", std::process::id());
        self.must(
            "POST",
            "api/v1/namespaces",
            &json!({"metadata": {"name": name, "labels": labels}}),
        );
        Namespace { kubernetes: self, name }
    }

    /// Returns `true` if this program started the cluster and so knows its settings.
    pub fn is_ours(&self) -> bool {
        self.apiserver.is_some()
    }

    /// Pauses the API server until the guard is dropped: the system accepts connections and nothing
    /// answers.
    ///
    /// # Panics
    /// If this program did not start the cluster.
    pub fn pause(&self) -> Paused {
        let apiserver = self.apiserver.expect("a cluster that this test started");
        signal("-STOP", apiserver);
        Paused(apiserver)
    }
}

impl Namespace {
    /// Returns `api/v1/namespaces/NAME/KIND`.
    fn place(&self, kind: &str) -> String {
        match kind {
            kind if CLUSTER_WIDE.contains(&kind) => format!("{RBAC}/{kind}"),
            "roles" | "rolebindings" => format!("{RBAC}/namespaces/{}/{kind}", self.name),
            _ => format!("api/v1/namespaces/{}/{kind}", self.name),
        }
    }

    #[track_caller]
    pub fn make(&self, kind: &str, object: &Value) -> Value {
        self.kubernetes.must("POST", &self.place(kind), object)
    }

    #[track_caller]
    pub fn read(&self, kind: &str, name: &str) -> Value {
        self.kubernetes.must("GET", &format!("{}/{name}", self.place(kind)), &Value::Null)
    }

    #[track_caller]
    pub fn remove(&self, kind: &str, name: &str) {
        self.kubernetes.must("DELETE", &format!("{}/{name}", self.place(kind)), &Value::Null);
    }

    /// Applies a file of several objects. The words `apps` and `bulkhead` are replaced by this
    /// namespace's name, because other tests use the same cluster.
    #[track_caller]
    pub fn apply(&self, yaml: &str) {
        for document in yaml.split("\n---\n") {
            let word = |key: &str| {
                let line = document.lines().find_map(|line| line.strip_prefix(key));
                line.unwrap_or_else(|| panic!("{key} is missing: {document}")).trim().to_owned()
            };
            let kind = format!("{}s", word("kind:").to_lowercase());
            let renamed: Vec<String> =
                document.lines().map(|line| self.in_this_namespace(line)).collect();
            self.make(&kind, &Value::String(renamed.join("\n")));
        }
    }

    /// Gives the engine's account the rights of a section of `docs/cluster.md`: 1 to 3 for the
    /// modes, 4 for the whole cluster.
    #[track_caller]
    pub fn grant(&self, section: usize) {
        let page = repository().join("docs/cluster.md");
        let page = std::fs::read_to_string(page).expect("the page is there");
        let block = page.split("```yaml\n").nth(section).expect("the page has that section");
        self.apply(block.split("```").next().unwrap_or_default());
    }

    fn in_this_namespace(&self, line: &str) -> String {
        let replaced = ["namespace: apps", "namespace: bulkhead", "name: bulkhead"];
        match line.split_once(": ") {
            Some((key, _)) if replaced.contains(&line.trim_start_matches([' ', '-'])) => {
                format!("{key}: {}", self.name)
            }
            _ => line.to_owned(),
        }
    }

    /// Creates the engine's service account, named after the namespace, and returns a token.
    #[track_caller]
    pub fn engine(&self) -> String {
        self.make("serviceaccounts", &json!({"metadata": {"name": self.name}}));
        self.token(&self.name)
    }

    /// Returns a token of a service account for a day.
    #[track_caller]
    pub fn token(&self, account: &str) -> String {
        let path = format!("{}/{account}/token", self.place("serviceaccounts"));
        let request = json!({"spec": {"expirationSeconds": 86_000}});
        let answer = self.kubernetes.must("POST", &path, &request);
        answer["status"]["token"].as_str().expect("a token").to_owned()
    }

    /// Returns a token of a service account for other audiences than the API server's.
    #[track_caller]
    pub fn token_for(&self, account: &str, audiences: &[&str]) -> String {
        let path = format!("{}/{account}/token", self.place("serviceaccounts"));
        let request = json!({"spec": {"audiences": audiences, "expirationSeconds": 3_600}});
        let answer = self.kubernetes.must("POST", &path, &request);
        answer["status"]["token"].as_str().expect("a token").to_owned()
    }

    /// Creates the account `reviewer`, which may review tokens, and returns a token of the account.
    #[track_caller]
    pub fn reviewer(&self) -> String {
        self.make("serviceaccounts", &json!({"metadata": {"name": "reviewer"}}));
        self.delegate("reviewer");
        self.token("reviewer")
    }

    /// Lets an account of the namespace review tokens: one account of each namespace.
    #[track_caller]
    pub fn delegate(&self, account: &str) {
        self.bind(&self.name, "system:auth-delegator", account);
        let token = self.token(account);
        let review = json!({"spec": {"token": token}});
        let path = "apis/authentication.k8s.io/v1/tokenreviews";
        until_true("the account may review tokens", Duration::from_secs(10), || {
            self.kubernetes.ask_as(&token, "POST", path, &review).0 == 201
        });
    }

    #[track_caller]
    fn bind(&self, name: &str, role: &str, account: &str) {
        let group = "rbac.authorization.k8s.io";
        let binding = json!({
            "metadata": {"name": name},
            "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": role},
            "subjects": [{"kind": "ServiceAccount", "name": account, "namespace": self.name}],
        });
        self.make("clusterrolebindings", &binding);
    }

    /// Lets an account of the namespace, with this token, read all namespaces: one account of each
    /// namespace.
    #[track_caller]
    pub fn let_read_namespaces(&self, account: &str, token: &str) {
        let rule = json!({"apiGroups": [""], "resources": ["namespaces"], "verbs": ["get"]});
        let role = json!({"metadata": {"name": self.name}, "rules": [rule]});
        self.make("clusterroles", &role);
        self.bind(&format!("{}-namespaces", self.name), &self.name, account);
        let path = format!("api/v1/namespaces/{}", self.name);
        until_true("the account may read namespaces", Duration::from_secs(10), || {
            self.kubernetes.ask_as(token, "GET", &path, &Value::Null).0 == 200
        });
    }

    /// Lists kind and name of the objects with the label of a Bulkhead mount, sorted.
    #[track_caller]
    pub fn made(&self) -> Vec<String> {
        let mut found = Vec::new();
        for kind in
            ["clusterroles", "clusterrolebindings", "roles", "rolebindings", "serviceaccounts"]
        {
            let path = format!("{}?labelSelector=bulkhead%2Fmount", self.place(kind));
            let list = self.kubernetes.must("GET", &path, &Value::Null);
            for item in list["items"].as_array().into_iter().flatten() {
                if !CLUSTER_WIDE.contains(&kind) || self.owns(item) {
                    let name = item["metadata"]["name"].as_str().expect("a name");
                    found.push(format!("{kind}/{name}"));
                }
            }
        }
        found
    }

    /// Returns `true` if a role of this test created a cluster-wide object, which a label shows.
    fn owns(&self, item: &Value) -> bool {
        item["metadata"]["labels"]["test"] == self.name.as_str()
    }

    /// Returns the status of a request of this token on `kind` in this namespace.
    pub fn try_as(&self, token: &str, method: &str, kind: &str) -> u16 {
        let body = match method {
            "POST" => json!({"metadata": {"generateName": "x-"}}),
            _ => Value::Null,
        };
        self.kubernetes.ask_as(token, method, &self.place(kind), &body).0
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        let path = format!("api/v1/namespaces/{}", self.name);
        let _ = self.kubernetes.ask("DELETE", &path, &Value::Null);
        for kind in CLUSTER_WIDE {
            for name in [self.name.clone(), format!("{}-namespaces", self.name)] {
                let path = format!("{RBAC}/{kind}/{name}");
                let _ = self.kubernetes.ask("DELETE", &path, &Value::Null);
            }
        }
    }
}

/// A paused process, which continues when this is dropped.
pub struct Paused(u32);

impl Drop for Paused {
    fn drop(&mut self) {
        signal("-CONT", self.0);
    }
}

/// Time for which the API server may still accept a deleted token: the server caches valid tokens
/// for 10 s.
pub const TOKEN_CACHE: Duration = Duration::from_secs(12);

fn signal(name: &str, process: u32) {
    let sent = Command::new("kill").args([name, &process.to_string()]).status();
    assert!(sent.expect("kill can be started").success(), "kill {name} {process} failed");
}

fn decoded(base64: &str) -> Vec<u8> {
    let mut base = Command::new("base64")
        .arg("-d")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("base64 can be started");
    base.stdin
        .take()
        .expect("the standard input is piped")
        .write_all(base64.as_bytes())
        .expect("base64 reads");
    base.wait_with_output().expect("base64 ends").stdout
}

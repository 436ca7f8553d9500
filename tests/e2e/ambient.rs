//! Ambient credentials, each under a separate grant: values of the environment, tokens of two
//! clouds, and requests with the pod's service account.

mod cluster;
pub(crate) mod metadata;

use bulkhead_tests::leaks::{assert_sealed, assert_silent};
use bulkhead_tests::paths::{Folder, binary, guest};
use bulkhead_tests::storage;
use bulkhead_tests::{Answer, Bulkhead, Client, Operators};
use cluster::Cluster;
use metadata::{HEADER, MetadataServices, ServiceBehaviour, TOKEN, response};
use serde_json::{Value, json};
use std::fs;
use std::thread;
use std::time::{Duration, Instant};

/// The pod's first token, and its rotated token.
const POD_TOKENS: [&str; 2] = ["!Yx8^Lm3~Pq5$Rt6", "#Gh1%Jk7&Zc0!Wd4"];

const RESOURCE: &str = "https://vault.azure.example";
const SCOPE: &str = "https://www.googleapis.com/auth/cloud-platform";

/// Replacement of a secret that the probe repeats in an error.
const HIDDEN: &str = "[secret]";

/// A server in a simulated environment, with the probe mounted at `cloud/` without grants.
struct AmbientStage {
    server: Bulkhead,
    root: Client,
    metadata: MetadataServices,
    cluster: Cluster,
    pod: Folder,
}

impl AmbientStage {
    fn new(environment: &[(&str, &str)]) -> Self {
        let (metadata, cluster) = (MetadataServices::start(), Cluster::start());
        let (pod, data) = (Folder::new("pod"), Folder::new("ambient"));
        let text = format!(
            "listener \"tcp\" {{ address = \"127.0.0.1:0\" }}\n\
             {}\n\
             ambient {{\n  pod_folder = \"{}\"\n  azure_metadata = \"{}\"\n  \
             google_metadata = \"{}\"\n}}\n",
            storage::block(data.path()),
            pod.path().display(),
            metadata.address,
            metadata.address
        );
        let file = pod.path().join("bulkhead.hcl");
        fs::write(&file, text).expect("a file can be written");
        let mut environment: Vec<(&str, String)> =
            environment.iter().map(|(name, value)| (*name, (*value).to_owned())).collect();
        environment.extend([
            ("KUBERNETES_SERVICE_HOST", cluster.address.ip().to_string()),
            ("KUBERNETES_SERVICE_PORT", cluster.address.port().to_string()),
            ("HTTP_PROXY", "http://192.0.2.1:3128".to_owned()),
            ("http_proxy", "http://192.0.2.1:3128".to_owned()),
            ("GCE_METADATA_HOST", "192.0.2.1".to_owned()),
        ]);
        let mut server = Bulkhead::prepared(binary(), data).configured(file);
        server.start_with(&environment).unwrap_or_else(|_| panic!("{}", server.printed()));
        let operators = Operators::initialise(&server, 1, 1);
        operators.unseal(&server);
        let root = operators.root(&server);
        root.upload("sys/plugins/catalog/secret/probe", &guest("probe")).expect(204);
        root.write("sys/mounts/cloud", &json!({ "type": "probe" })).expect(204);
        Self { server, root, metadata, cluster, pod }
    }

    #[track_caller]
    fn grant(&self, line: &str) {
        let added = json!({ "add_grants": [line] });
        let stored = self.root.write("sys/mounts/cloud/tune", &added);
        assert_eq!((stored.status, &stored.body), (204, &Value::Null), "{line}: {stored:?}");
    }

    fn token(&self, cloud: &str, audience: &str) -> Answer {
        let path = format!("cloud/cloud-token/{cloud}");
        self.root.write(&path, &json!({ "audience": audience }))
    }

    fn in_the_pods_name(&self, url: &str, more: Value) -> Answer {
        let body = json!({ "url": url, "identity": "pod" });
        self.root.write("cloud/fetch/pod", &crate::world::with(body, more))
    }

    /// Asserts that the log and the data files do not contain `secret`.
    #[track_caller]
    fn is_silent(&self, secret: &str) {
        assert_silent("the server's log", &self.server.printed(), secret);
        assert_sealed(self.server.data(), secret);
    }

    /// Writes the files of a pod with `token`.
    fn be_pod(&self, token: &str) {
        for (name, text) in
            [("token", token), ("ca.crt", &self.cluster.authority), ("namespace", "vault\n")]
        {
            fs::write(self.pod.path().join(name), text).expect("a file can be written");
        }
    }
}

/// Asserts a refusal that prints the command for the missing grant `line`.
#[track_caller]
fn ungranted(refused: &Answer, line: &str) {
    assert_eq!(refused.status, 403, "{refused:?}");
    let command = format!("bulkhead secrets tune --grant '{line}' cloud/");
    assert!(refused.errors().contains(&command), "{}", refused.errors());
}

#[test]
fn each_environment_variable_needs_its_own_grant() {
    let secret = "%Tz6!Nb2^Vx9~Qw3";
    let stage = AmbientStage::new(&[
        ("PROBE_NAME", "contoso"),
        ("PROBE_SECRET", secret),
        ("BULKHEAD_TOKEN", "!Fg5^Hy8~Uj2#Ik7"),
    ]);
    let read = |name: &str| stage.root.read(&format!("cloud/environment/{name}"));
    ungranted(&read("PROBE_NAME"), "ambient:env/PROBE_NAME");
    stage.grant("ambient:env/PROBE_NAME");
    assert_eq!(read("PROBE_NAME").expect(200).text("value"), "contoso");
    ungranted(&read("PROBE_SECRET"), "ambient:env/PROBE_SECRET");
    stage.grant("ambient:env/PROBE_SECRET");
    let answer = read("PROBE_SECRET").refused(400, HIDDEN);
    assert!(!answer.errors().contains(secret), "a secret in an error");
    for own in ["BULKHEAD_TOKEN", "VAULT_TOKEN", "vault_addr"] {
        let refused = read(own).expect(403);
        assert!(refused.errors().contains("the server's own"), "{own}: {}", refused.errors());
        let line = json!({ "add_grants": [format!("ambient:env/{own}")] });
        let refused = stage.root.write("sys/mounts/cloud/tune", &line).expect(400);
        assert!(refused.errors().contains("the server's own"), "{own}: {}", refused.errors());
    }
    let unasked = read("PATH").expect(403);
    assert!(unasked.errors().contains("does not ask for ambient:env/PATH"), "{unasked:?}");
    stage.server.assert_silent(secret);
}

#[test]
fn a_cloud_token_is_requested_once_and_cached() {
    let stage = AmbientStage::new(&[]);
    ungranted(&stage.token("azure", RESOURCE), "ambient:cloud-token");
    assert_eq!(stage.metadata.asked(), [""; 0]);
    stage.grant("ambient:cloud-token");
    for (cloud, audience, begins) in [
        ("azure", RESOURCE, "GET /metadata/identity/oauth2/token?api-version=2018-02-01"),
        (
            "google",
            "http://vault/dev",
            "GET /computeMetadata/v1/instance/service-accounts/default/i",
        ),
        ("google", SCOPE, "GET /computeMetadata/v1/instance/service-accounts/default/t"),
    ] {
        let given: Vec<String> = thread::scope(|scope| {
            let asking: Vec<_> =
                (0..8).map(|_| scope.spawn(|| stage.token(cloud, audience))).collect();
            let given = asking.into_iter().map(|caller| caller.join().expect("an answer"));
            given.map(|answer| answer.expect(200).text("given").to_owned()).collect()
        });
        let requests = stage.metadata.asked();
        assert_eq!(requests.len(), 1, "{requests:?}");
        assert!(requests[0].starts_with(begins), "{requests:?}");
        assert!(given[0].starts_with(TOKEN) && given.iter().all(|it| *it == given[0]), "{given:?}");
    }
    stage.metadata.answers(ServiceBehaviour::Well { seconds: 60 });
    for _ in 0..2 {
        stage.token("azure", "https://short.example").expect(200);
    }
    assert_eq!(stage.metadata.asked().len(), 2, "a token that ends soon is not cached");
    let body = json!({ "audience": RESOURCE, "ttl": 1 });
    let answer = stage.root.write("cloud/cloud-token/azure", &body).refused(400, HIDDEN);
    assert_silent("an error", &answer.errors(), TOKEN);
    stage.token("amazon", RESOURCE).refused(400, "there is no cloud \"amazon\"");
    stage.token("azure", "two words").refused(400, "bytes of printable text");
    assert_eq!(stage.metadata.asked(), [""; 0]);
    stage.is_silent(TOKEN);
}

#[test]
fn metadata_service_answers_are_bounded_and_not_repeated() {
    let stage = AmbientStage::new(&[]);
    stage.grant("ambient:cloud-token");
    let endless = "x".repeat(100_000);
    let token_body = format!(r#"{{"access_token":"{TOKEN}","expires_in":3600}}"#);
    let error_body = format!(r#"{{"error":"invalid_scope","error_description":"{TOKEN}"}}"#);
    let redirect = format!("location: http://{}/elsewhere\r\n", stage.metadata.address);
    let google = "metadata-flavor: Google\r\n";
    let ssh = format!("SSH-2.0-{TOKEN}\r\n").into_bytes();
    let too_long = "over the limit of bytes";
    let bytes = ServiceBehaviour::Bytes;
    for (number, (manner, status, words)) in [
        (ServiceBehaviour::Endless, 502, too_long),
        (bytes(response(200, google, &endless)), 502, too_long),
        (bytes(response(200, "", &token_body)), 502, "without a valid token"),
        (bytes(response(302, &redirect, &error_body)), 400, "refuses with 302 (invalid_scope)"),
        (bytes(response(400, google, &error_body)), 400, "refuses with 400 (invalid_scope)"),
        (bytes(response(429, google, &error_body)), 503, "answered 429; try again later"),
        (bytes(ssh), 502, "the answer is not HTTP/1.1"),
        (bytes(Vec::new()), 502, "the connection ended before the answer did"),
    ]
    .into_iter()
    .enumerate()
    {
        stage.metadata.answers(manner.clone());
        let refused = stage.token("google", &format!("vault/{number}")).refused(status, words);
        assert_silent("an error", &refused.errors(), TOKEN);
        assert_eq!(stage.metadata.asked().len(), 1, "{manner:?}: nothing is followed or repeated");
    }
    stage.metadata.answers(ServiceBehaviour::Silent);
    let began = Instant::now();
    stage.token("google", "vault/silent").refused(502, "it took too long");
    assert!(began.elapsed() < Duration::from_secs(20), "{:?}", began.elapsed());
    stage.metadata.answers(ServiceBehaviour::Well { seconds: 3_600 });
    stage.token("google", "vault/well").expect(200);
    stage.is_silent(TOKEN);
}

#[test]
fn app_service_named_in_environment_is_used() {
    let metadata = MetadataServices::start();
    let endpoint = format!("http://{}/msi/token", metadata.address);
    let stage = AmbientStage::new(&[("IDENTITY_ENDPOINT", &endpoint), ("IDENTITY_HEADER", HEADER)]);
    stage.grant("ambient:cloud-token");
    assert!(stage.token("azure", RESOURCE).expect(200).text("given").starts_with(TOKEN));
    assert_eq!((metadata.asked().len(), stage.metadata.asked().len()), (1, 0));
    stage.server.assert_silent(HEADER);
    let far = AmbientStage::new(&[
        ("IDENTITY_ENDPOINT", "http://203.0.113.7/msi/token"),
        ("IDENTITY_HEADER", HEADER),
    ]);
    far.grant("ambient:cloud-token");
    far.token("azure", RESOURCE).refused(412, "is not an http:// URL of this machine");
    far.server.assert_silent(HEADER);
}

#[test]
fn pod_token_is_sent_only_to_its_cluster() {
    let stage = AmbientStage::new(&[]);
    let elsewhere = Cluster::start();
    let api = stage.cluster.url("/api");
    ungranted(&stage.root.read("cloud/pod"), "ambient:pod-identity");
    ungranted(&stage.in_the_pods_name(&api, json!({})), "ambient:pod-identity");
    stage.grant("ambient:pod-identity");
    let absent = stage.in_the_pods_name(&api, json!({}));
    absent.refused(412, "the pod's file token cannot be used");
    let [first, second] = POD_TOKENS;
    stage.be_pod(first);
    stage.cluster.know(first);
    let pod = stage.root.read("cloud/pod").expect(200);
    assert_eq!((pod.text("url"), pod.text("namespace")), (&*stage.cluster.url(""), "vault"));
    let data = stage.in_the_pods_name(&api, json!({})).expect(200).body["data"].clone();
    assert_eq!(data["status"], 200, "{data}");
    for url in [
        elsewhere.url("/api"),
        api.replace("127.0.0.1", "localhost"),
        api.replace("https:", "http:"),
        stage.server.url(),
        "https://169.254.169.254/".to_owned(),
    ] {
        let refused = stage.in_the_pods_name(&url, json!({})).expect(400);
        assert!(refused.errors().contains("in the pod's name only"), "{url}: {refused:?}");
    }
    let roots = json!({ "roots": elsewhere.authority });
    stage.in_the_pods_name(&api, roots).refused(502, "the server's certificate");
    let other = stage.in_the_pods_name(&api, json!({ "identity": "root" }));
    other.refused(400, "there is no request identity \"root\"");
    // This grant covers requests in the pod's name only.
    ungranted(
        &stage.root.write("cloud/fetch/own", &json!({ "url": api })),
        &format!("http:{}", stage.cluster.url("")),
    );
    assert_eq!(stage.cluster.shown(), [format!("Bearer {first}")]);
    assert_eq!(elsewhere.shown(), [""; 0]);
    // A cluster rotates the token by rewriting the file.
    stage.be_pod(second);
    stage.cluster.know(second);
    let data = stage.in_the_pods_name(&api, json!({})).expect(200).body["data"].clone();
    assert_eq!(data["status"], 200, "{data}");
    // A request with the component's own token trusts the cluster's authority and does not carry
    // the pod's token.
    let own = json!({ "headers": { "Authorization": "Bearer of-its-own" } });
    let data = stage.in_the_pods_name(&api, own).expect(200).body["data"].clone();
    assert_eq!(data["status"], 401, "{data}");
    let shown = [format!("Bearer {second}"), "Bearer of-its-own".to_owned()];
    assert_eq!(stage.cluster.shown(), shown);
    POD_TOKENS.iter().for_each(|token| stage.server.assert_silent(token));
}

#[test]
fn pod_token_echoed_by_server_is_never_shown() {
    let stage = AmbientStage::new(&[]);
    stage.grant("ambient:pod-identity");
    let [first, second] = POD_TOKENS;
    stage.be_pod(first);
    stage.cluster.know(second);
    for how in ["told", "logged"] {
        let answer = stage.in_the_pods_name(&stage.cluster.url("/api"), json!({ "how": how }));
        assert!(matches!(answer.status, 200 | 400), "{answer:?}");
        assert!(!answer.errors().contains(first), "{answer:?}");
    }
    assert!(!stage.server.printed().contains(first), "the pod's token in the log");
}

//! `POST cluster/creds/:name` of mode 1, against the bare TokenRequest of the engine: same API
//! server, account and token, in turns. The bare side keeps its connections open.

mod figures;
mod load;

use bulkhead_tests::bulkhead::ROOT;
use bulkhead_tests::tls_client;
use bulkhead_tests::{Bulkhead, Kubernetes, Namespace};
use figures::quantile;
use http_body_util::{BodyExt as _, Full};
use hyper::body::Bytes;
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper_util::rt::TokioIo;
use load::Connection;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::ServerName;
use rustls::pki_types::pem::PemObject as _;
use serde_json::{Value, json};
use std::time::{Duration, Instant};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

const CONNECTIONS: usize = 16;
const ROUNDS: usize = 5;
const TIME: Duration = Duration::from_secs(3);
const WARM_UP: Duration = Duration::from_secs(2);
/// Minimum share of the bare rate.
const SHARE_GOAL: f64 = 0.7;
/// Lifetime of each token, in seconds.
const TTL: u64 = 3_600;

/// Servers and credentials of one run.
struct Stage {
    namespace: Namespace,
    bulkhead: Bulkhead,
    /// The engine's own token.
    token: String,
    trust: TlsConnector,
}

fn main() {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .expect("a runtime can be built");
    let stage = Stage::new();
    runtime.block_on(stage.bare(WARM_UP));
    runtime.block_on(stage.engine(WARM_UP));
    let (mut shares, mut rates) = (Vec::new(), (0.0, 0.0));
    for _ in 0..ROUNDS {
        let bare = runtime.block_on(stage.bare(TIME));
        let engine = runtime.block_on(stage.engine(TIME));
        rates = (engine, bare);
        shares.push(engine / bare);
    }
    let share = quantile(&mut shares, 0.5);
    let is_held = share >= SHARE_GOAL;
    println!("tokens of mode 1, of the bare TokenRequest's rate   {:.1} %", share * 100.0);
    println!("  in the last turn {:.0} a second against {:.0}", rates.0, rates.1);
    println!("  {} (goal 70 %)", if is_held { "held" } else { "MISSED" });
    let result = json!({ "share": share, "share_goal": SHARE_GOAL, "held": is_held });
    figures::save("cluster", result);
}

impl Stage {
    fn new() -> Self {
        let namespace = Kubernetes::shared().namespace(json!({}));
        let token = namespace.engine();
        namespace.make("serviceaccounts", &json!({ "metadata": { "name": "app" } }));
        namespace.grant(1);
        let kubernetes = namespace.kubernetes;
        let bulkhead = Bulkhead::start();
        let root = bulkhead.root();
        let config = json!({
            "cluster_host": kubernetes.url, "cluster_ca_cert": kubernetes.authority,
            "service_account_jwt": token,
        });
        root.write("cluster/config", &config).expect(204);
        let role = json!({
            "allowed_cluster_namespaces": namespace.name, "service_account_name": "app",
            "token_default_ttl": TTL,
        });
        root.write("cluster/roles/one", &role).expect(204);
        let trust = trusting(&kubernetes.authority);
        Self { namespace, bulkhead, token, trust }
    }

    async fn engine(&self, time: Duration) -> f64 {
        let address = self.bulkhead.address();
        let began = Instant::now();
        let tasks = (0..CONNECTIONS).map(|_| async move {
            let mut connection = Connection::open(address).await;
            let request = load::post("cluster/creds/one", ROOT, "{}");
            let mut given = 0_u32;
            while began.elapsed() < time {
                let shown = connection.exchange(&request).await;
                assert!(shown.contains("service_account_token"), "{shown}");
                given += 1;
            }
            given
        });
        rate(began, tasks.map(tokio::spawn).collect()).await
    }

    async fn bare(&self, time: Duration) -> f64 {
        let began = Instant::now();
        let tasks = (0..CONNECTIONS).map(|_| {
            let (bare, trust) = (self.request(), self.trust.clone());
            let url = self.namespace.kubernetes.url.clone();
            async move {
                let mut sender = connect(&url, &trust).await;
                let mut given = 0_u32;
                while began.elapsed() < time {
                    let answer = sender.send_request(bare.clone()).await.expect("an answer");
                    let body = answer.into_body().collect().await.expect("a whole answer");
                    let reply: Value = serde_json::from_slice(&body.to_bytes()).expect("JSON");
                    assert!(reply["status"]["token"].is_string(), "{reply}");
                    given += 1;
                }
                given
            }
        });
        rate(began, tasks.map(tokio::spawn).collect()).await
    }

    /// Returns the same request as the engine sends.
    fn request(&self) -> hyper::Request<Full<Bytes>> {
        let (url, name) = (&self.namespace.kubernetes.url, &self.namespace.name);
        let body = json!({
            "apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest",
            "spec": { "audiences": [], "expirationSeconds": TTL },
        });
        let path = format!("/api/v1/namespaces/{name}/serviceaccounts/app/token");
        hyper::Request::post(path)
            .header("host", url.trim_start_matches("https://"))
            .header("accept", "application/json")
            .header("content-type", "application/json")
            .header("authorization", format!("Bearer {}", self.token))
            .body(Full::from(body.to_string()))
            .expect("a request")
    }
}

async fn rate(began: Instant, tasks: Vec<tokio::task::JoinHandle<u32>>) -> f64 {
    let mut given = 0;
    for task in tasks {
        given += task.await.expect("no task panics");
    }
    f64::from(given) / began.elapsed().as_secs_f64()
}

async fn connect(url: &str, trust: &TlsConnector) -> SendRequest<Full<Bytes>> {
    let address = url.trim_start_matches("https://");
    let stream = TcpStream::connect(address).await.expect("the API server accepts a connection");
    stream.set_nodelay(true).expect("a socket takes the option");
    let (host, _) = address.rsplit_once(':').expect("a URL of the suite has a port");
    let name = ServerName::try_from(host.to_owned()).expect("a name");
    let stream = trust.connect(name, stream).await.expect("its certificate is trusted");
    let (sender, connection) = handshake(TokioIo::new(stream)).await.expect("HTTP");
    tokio::spawn(connection);
    sender
}

fn trusting(authority: &str) -> TlsConnector {
    let certificate = CertificateDer::from_pem_slice(authority.as_bytes()).expect("a certificate");
    tls_client::trust([certificate], &[])
}

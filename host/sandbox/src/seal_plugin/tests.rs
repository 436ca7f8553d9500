//! Tests of seal plugins: the built components `seal-transit` and `seal-gcpckms` against servers in
//! this process.

use super::*;
use crate::structure;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use bulkhead_crypto::{KeyParameters, VerifyingKey};
use bulkhead_wire::failure::FailureKind;
use serde_json::json;
use std::path::PathBuf;
use std::sync::Mutex;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

const KEY: [u8; SEAL_KEY_BYTES] = *b"0123456789abcdef0123456789ABCDEF";
const TOKEN: &str = "hvs.token-of-the-seal";

/// A server with a transit key, which encrypts by turning the bytes around.
struct TransitServer {
    address: SocketAddr,
    state: Arc<Mutex<TransitState>>,
}

#[derive(Default)]
struct TransitState {
    /// Version of the key.
    version: u64,
    /// Status and body of each answer, instead of the usual answer.
    refusal: Option<(u16, String)>,
    /// Paths of the requests.
    paths: Vec<String>,
    /// Body of the last request.
    body: String,
}

impl TransitServer {
    async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let state = Arc::new(Mutex::new(TransitState { version: 1, ..TransitState::default() }));
        let shared = Arc::clone(&state);
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                tokio::spawn(serve(client, Arc::clone(&shared)));
            }
        });
        Self { address, state }
    }

    fn settings(&self) -> Map<String, Value> {
        settings(&format!("http://{}", self.address))
    }

    fn refuse(&self, status: u16, body: &str) {
        self.state.lock().unwrap().refusal = Some((status, body.to_owned()));
    }

    fn take_paths(&self) -> Vec<String> {
        std::mem::take(&mut self.state.lock().unwrap().paths)
    }
}

/// Answers one request.
async fn serve(mut client: TcpStream, state: Arc<Mutex<TransitState>>) {
    let mut received = Vec::new();
    let (head, body) = loop {
        let text = String::from_utf8_lossy(&received).into_owned();
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let length = head.lines().find_map(|line| {
                let (name, value) = line.split_once(':')?;
                name.eq_ignore_ascii_case("content-length").then(|| value.trim().parse().ok())?
            });
            if body.len() >= length.unwrap_or(0) {
                break (head.to_owned(), body.to_owned());
            }
        }
        if client.read_buf(&mut received).await.unwrap_or(0) == 0 {
            return;
        }
    };
    let (status, answer) = answer(&state, &head, &body);
    let length = answer.len();
    let answer = format!(
        "HTTP/1.1 {status} X\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n{answer}"
    );
    client.write_all(answer.as_bytes()).await.unwrap();
}

fn answer(state: &Mutex<TransitState>, head: &str, body: &str) -> (u16, String) {
    let mut state = state.lock().unwrap();
    let path = head.split(' ').nth(1).unwrap().to_owned();
    state.paths.push(path.clone());
    body.clone_into(&mut state.body);
    if let Some(refusal) = &state.refusal {
        return refusal.clone();
    }
    if !head.to_ascii_lowercase().contains(&format!("x-vault-token: {TOKEN}")) {
        return (403, json!({ "errors": ["permission denied"] }).to_string());
    }
    let body: Value = serde_json::from_str(body).unwrap_or_default();
    let turned = |text: &str| {
        let mut bytes = STANDARD.decode(text).unwrap();
        bytes.reverse();
        bytes
    };
    let answer = match path.rsplit('/').nth(1) {
        Some("encrypt") => {
            let bytes = [turned(body["plaintext"].as_str().unwrap()), vec![0; 28]].concat();
            let text = format!("vault:v{}:{}", state.version, STANDARD.encode(bytes));
            json!({ "data": { "ciphertext": text } })
        }
        Some("decrypt") => {
            let text = body["ciphertext"].as_str().unwrap().rsplit(':').next().unwrap();
            let bytes = turned(text);
            json!({ "data": { "plaintext": STANDARD.encode(&bytes[28..]) } })
        }
        _ if path.ends_with("lookup-self") => json!({ "data": { "ttl": 60, "renewable": true } }),
        _ => json!({ "auth": { "lease_duration": 3_600 } }),
    };
    (200, answer.to_string())
}

fn settings(address: &str) -> Map<String, Value> {
    let settings = json!({ "address": address, "token": TOKEN, "key_name": "unseal" });
    settings.as_object().unwrap().clone()
}

/// Returns a component of the build, with its compiled code.
fn built(path: &str) -> ComponentSource<'static> {
    let target: PathBuf = std::env::current_exe().unwrap().ancestors().nth(3).unwrap().into();
    let [wasm, compiled] = ["wasm", "cwasm"].map(|kind| {
        let bytes = std::fs::read(target.join(format!("{path}.{kind}")));
        bytes.unwrap_or_else(|_| panic!("{path}.{kind} is missing: run `make build`")).leak()
    });
    ComponentSource::Official { wasm, compiled: Some(compiled) }
}

type LogLines = Arc<Mutex<Vec<String>>>;

async fn load(
    artefact: ComponentSource<'static>,
    settings: &Map<String, Value>,
    own_addresses: &[SocketAddr],
) -> Result<(SealPlugin, LogLines), Failure> {
    let lines = LogLines::default();
    let shared = Arc::clone(&lines);
    let log: LogSink = Arc::new(move |level, plugin, event, pairs| {
        shared.lock().unwrap().push(format!("{} {} {event} {pairs:?}", level.word(), plugin.name));
    });
    let outbound = OutboundNetwork::default();
    let surroundings = SealSurroundings { own_addresses, outbound: &outbound, log };
    let runtime = SandboxRuntime::new().unwrap();
    Ok((SealPlugin::load(&runtime, artefact, settings, surroundings).await?, lines))
}

async fn transit(settings: &Map<String, Value>) -> (SealPlugin, LogLines) {
    load(built("plugins/seal-transit"), settings, &[]).await.unwrap()
}

#[tokio::test]
async fn seal_key_is_wrapped_and_opened() {
    let server = TransitServer::start().await;
    let (seal, lines) = transit(&server.settings()).await;
    let wrapped = seal.wrap_key(&KEY).await.unwrap();
    assert_eq!(wrapped.key_id, "v1");
    assert!(wrapped.blob.starts_with(b"vault:v1:"));
    assert_eq!(server.take_paths(), ["/v1/transit/encrypt/unseal"]);
    server.state.lock().unwrap().version = 2;
    let opened = seal.unwrap_key(&wrapped.blob).await.unwrap();
    assert_eq!((&*opened.key, opened.newest_key_id.as_str()), (&KEY, "v2"));
    assert_eq!(seal.wrap_key(&opened.key).await.unwrap().key_id, "v2");
    seal.check_health().await.unwrap();
    assert_eq!(seal.renew_credentials().await.unwrap(), Some(Duration::from_secs(2_400)));
    assert!(seal.identity().title().starts_with("plugin transit "));
    assert!(lines.lock().unwrap().is_empty());
}

#[tokio::test]
async fn refusals_and_log_lines_show_no_secret() {
    let server = TransitServer::start().await;
    let (seal, lines) = transit(&server.settings()).await;
    let plaintext = STANDARD.encode(KEY);
    server.refuse(400, &json!({ "errors": [TOKEN, plaintext.as_str()] }).to_string());
    let refused = seal.wrap_key(&KEY).await.unwrap_err();
    assert_eq!(refused.kind, FailureKind::InvalidRequest);
    server.refuse(307, "");
    let redirected = seal.check_health().await.unwrap_err();
    assert!(redirected.message.contains("follows no redirect"), "{redirected}");
    // The listener's port is free from here on, so that nobody answers.
    let closed = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    let (absent, more_lines) = transit(&settings(&format!("http://{closed}"))).await;
    let unreachable = absent.wrap_key(&KEY).await.unwrap_err();
    assert_eq!(unreachable.kind, FailureKind::Unreachable, "{unreachable}");
    let logged = [lines.lock().unwrap().join("\n"), more_lines.lock().unwrap().join("\n")].concat();
    assert!(logged.contains("http-failed"), "{logged}");
    for text in [&refused.message, &redirected.message, &unreachable.message, &logged] {
        assert!(!text.contains(TOKEN) && !text.contains(&plaintext), "{text}");
    }
}

#[tokio::test]
async fn seal_plugin_never_dials_own_listener() {
    let server = TransitServer::start().await;
    let own = [server.address];
    let component = built("plugins/seal-transit");
    let (seal, _lines) = load(component, &server.settings(), &own).await.unwrap();
    let refused = seal.check_health().await.unwrap_err();
    assert!(refused.message.contains("this very server"), "{refused}");
    assert!(server.take_paths().is_empty());
}

#[tokio::test]
async fn wrong_settings_and_components_are_refused() {
    let mut wrong = settings("https://vault.example:8200");
    wrong.insert("key".to_owned(), json!("unseal"));
    let refused = load(built("plugins/seal-transit"), &wrong, &[]).await.err().unwrap();
    assert_eq!(refused.kind, FailureKind::InvalidRequest);
    assert!(refused.message.contains("no setting \"key\""), "{refused}");
    let right = settings("https://vault.example:8200");
    let refused = load(built("guests/probe"), &right, &[]).await.err().unwrap();
    assert_eq!(refused.kind, FailureKind::Internal);
    let ComponentSource::Official { wasm, .. } = built("plugins/seal-transit") else { return };
    let uploaded = structure::check(wasm).unwrap_err();
    assert!(uploaded.contains("of its own binary"), "{uploaded}");
}

#[tokio::test]
async fn seal_plugin_signs_and_reaches_both_origins() {
    let (service, tokens) = (TransitServer::start().await, TransitServer::start().await);
    tokens.refuse(200, &json!({ "access_token": "ya29.a" }).to_string());
    service.refuse(403, "{}");
    let key = KeyParameters::read("rsa", 2_048, "pkcs8").unwrap().generate_key().unwrap();
    let token_uri = format!("http://{}/token", tokens.address);
    let settings = json!({
        "endpoint": format!("http://{}", service.address), "token_uri": token_uri,
        "project": "p", "region": "global", "key_ring": "r", "crypto_key": "k",
        "client_email": "seal@p", "private_key": &*key.private_key,
    });
    let settings = settings.as_object().unwrap();
    let component = built("plugins/seal-gcpckms");
    let (seal, lines) = load(component, settings, &[]).await.unwrap();
    let before = bulkhead_store::system_milliseconds() / 1_000;
    let refused = seal.wrap_key(&KEY).await.unwrap_err();
    assert!(refused.message.contains("useToEncrypt"), "{refused}");
    assert_eq!(tokens.take_paths(), ["/token"]);
    assert_eq!(
        service.take_paths(),
        ["/v1/projects/p/locations/global/keyRings/r/cryptoKeys/k:encrypt"]
    );
    let form = tokens.state.lock().unwrap().body.clone();
    let assertion = form.split("assertion=").nth(1).unwrap();
    let (signed, signature) = assertion.rsplit_once('.').unwrap();
    let signature = URL_SAFE_NO_PAD.decode(signature).unwrap();
    let public_key = VerifyingKey::read("RS256", &key.public_key.pem().unwrap()).unwrap();
    assert!(public_key.verify(signed.as_bytes(), &signature).unwrap());
    let claims = URL_SAFE_NO_PAD.decode(signed.split('.').nth(1).unwrap()).unwrap();
    let claims: Value = serde_json::from_slice(&claims).unwrap();
    assert!(claims["iat"].as_u64().unwrap() >= before, "{claims}");
    assert_eq!(claims["aud"], token_uri);
    for text in [&refused.message, &lines.lock().unwrap().join("\n")] {
        assert!(!text.contains("ya29.a") && !text.contains("PRIVATE KEY"), "{text}");
    }
}

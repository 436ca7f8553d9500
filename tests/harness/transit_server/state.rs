//! Keys and tokens of the transit server, and its answers. A refused key, version or ciphertext has
//! the status and the text of OpenBao, because the component of the seal reads both.

use crate::internet::{Request, Response};
use crate::key_service::ServiceState;
use aws_lc_rs::aead::{AES_256_GCM, Aad, LessSafeKey, Nonce, UnboundKey};
use aws_lc_rs::rand;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

const NONCE_BYTES: usize = 12;

/// Keys, tokens and the seal of the server itself.
#[derive(Clone, Default)]
pub struct TransitState {
    pub(super) keys: BTreeMap<String, TransitKey>,
    pub(super) tokens: BTreeMap<String, TransitToken>,
    pub(super) sealed: bool,
    pub(super) namespace: String,
}

/// A key with its versions.
#[derive(Clone, Default)]
pub(super) struct TransitKey {
    pub(super) versions: BTreeMap<u64, [u8; 32]>,
    newest: u64,
    pub(super) min_decryption: u64,
}

#[derive(Clone)]
pub(super) struct TransitToken {
    /// The only key that the token may use.
    key: String,
    /// Lifetime after a renewal. `None`: the token has no end and cannot be renewed.
    ttl: Option<Duration>,
    /// Lifetime in answers; [`Self::ttl`] unless set.
    pub(super) announced: Option<Duration>,
    end: Option<Instant>,
    pub(super) renewals: usize,
}

impl TransitState {
    pub(super) fn rotate(&mut self, name: &str) {
        let key = self.keys.entry(name.to_owned()).or_default();
        key.newest += 1;
        let mut bytes = [0; 32];
        rand::fill(&mut bytes).expect("random bytes");
        key.versions.insert(key.newest, bytes);
    }

    pub(super) fn key(&mut self, name: &str) -> &mut TransitKey {
        self.keys.get_mut(name).expect("a key of this server")
    }

    pub(super) fn issue(&mut self, key: &str, ttl: Option<Duration>) -> String {
        let mut random = [0; 18];
        rand::fill(&mut random).expect("random bytes");
        let text = format!("hvs.{}", STANDARD.encode(random).replace(['+', '/'], "x"));
        let end = ttl.map(|ttl| Instant::now() + ttl);
        let token = TransitToken { key: key.to_owned(), ttl, announced: None, end, renewals: 0 };
        self.tokens.insert(text.clone(), token);
        text
    }
}

impl ServiceState for TransitState {
    fn answer(&mut self, request: &Request) -> Response {
        if request.path == "/v1/sys/health" {
            let body = json!({ "initialized": true, "sealed": self.sealed, "standby": false });
            return Response::json(if self.sealed { 503 } else { 200 }, &body);
        }
        if self.sealed {
            return refused(503, "Vault is sealed");
        }
        let namespace = request.header("x-vault-namespace").trim_matches('/');
        let now = Instant::now();
        let Some(token) = self.tokens.get_mut(request.header("x-vault-token")) else {
            return denied();
        };
        if namespace != self.namespace || token.end.is_some_and(|end| end <= now) {
            return denied();
        }
        let writes = matches!(request.method.as_str(), "POST" | "PUT");
        let parts: Vec<&str> = request.path.split('/').skip(1).collect();
        match parts[..] {
            ["v1", "auth", "token", "lookup-self"] if request.method == "GET" => token.look_up(now),
            ["v1", "auth", "token", "renew-self"] if writes => token.renew(now),
            ["v1", "transit", act @ ("encrypt" | "decrypt"), name] if writes => {
                if token.key != name {
                    return denied();
                }
                let Some(key) = self.keys.get(name) else {
                    // The encryption with a missing key would create the key. The policy of the
                    // seal has `update` without `create`.
                    let is_creation = act == "encrypt";
                    return if is_creation {
                        denied()
                    } else {
                        refused(400, "encryption key not found")
                    };
                };
                let body = request.json();
                let answer = if act == "encrypt" { key.encrypt(&body) } else { key.decrypt(&body) };
                answer.unwrap_or_else(|why| refused(400, why))
            }
            _ => denied(),
        }
    }
}

impl TransitToken {
    fn look_up(&self, now: Instant) -> Response {
        let left = self.end.map_or(Duration::ZERO, |end| end - now);
        let left = self.announced.unwrap_or(left);
        let creation = self.announced.or(self.ttl).unwrap_or_default();
        success(&json!({
            "ttl": left.as_secs(), "creation_ttl": creation.as_secs(),
            "renewable": self.ttl.is_some(), "policies": ["default", "seal"], "type": "service",
        }))
    }

    fn renew(&mut self, now: Instant) -> Response {
        let Some(ttl) = self.ttl else { return refused(400, "lease is not renewable") };
        self.end = Some(now + ttl);
        self.renewals += 1;
        let lifetime = self.announced.unwrap_or(ttl).as_secs();
        let auth = json!({
            "lease_duration": lifetime, "renewable": true, "policies": ["default", "seal"],
        });
        Response::json(200, &json!({ "request_id": "r", "data": null, "auth": auth }))
    }
}

impl TransitKey {
    fn encrypt(&self, body: &Value) -> Result<Response, &'static str> {
        let plain = body["plaintext"].as_str().and_then(|text| STANDARD.decode(text).ok());
        let mut bytes = plain.ok_or("failed to base64-decode plaintext")?;
        let mut nonce = [0; NONCE_BYTES];
        rand::fill(&mut nonce).expect("random bytes");
        let sealed = cipher(self.versions.get(&self.newest).ok_or("no such key version")?);
        let used = Nonce::assume_unique_for_key(nonce);
        sealed.seal_in_place_append_tag(used, Aad::empty(), &mut bytes).expect("a short text");
        let text = STANDARD.encode([&nonce[..], &bytes].concat());
        let ciphertext = format!("vault:v{}:{text}", self.newest);
        Ok(success(&json!({ "ciphertext": ciphertext, "key_version": self.newest })))
    }

    fn decrypt(&self, body: &Value) -> Result<Response, &'static str> {
        let text = body["ciphertext"].as_str().and_then(|text| text.strip_prefix("vault:v"));
        let text = text.ok_or("invalid ciphertext: no prefix")?;
        let (version, text) =
            text.split_once(':').ok_or("invalid ciphertext: wrong number of fields")?;
        let version: u64 = version
            .parse()
            .map_err(|_| "invalid ciphertext: version number could not be decoded")?;
        if version > self.newest {
            return Err("invalid ciphertext: version is too new");
        }
        if version < self.min_decryption {
            return Err("ciphertext or signature version is disallowed by policy (too old)");
        }
        let key = self.versions.get(&version).ok_or("no such key version")?;
        let mut bytes =
            STANDARD.decode(text).map_err(|_| "invalid ciphertext: could not decode base64")?;
        if bytes.len() < NONCE_BYTES {
            return Err("invalid ciphertext length");
        }
        let mut sealed = bytes.split_off(NONCE_BYTES);
        let nonce = Nonce::try_assume_unique_for_key(&bytes).expect("the length of a nonce");
        let plain = cipher(key)
            .open_in_place(nonce, Aad::empty(), &mut sealed)
            .map_err(|_| "cipher: message authentication failed")?;
        Ok(success(&json!({ "plaintext": STANDARD.encode(plain) })))
    }
}

fn cipher(key: &[u8; 32]) -> LessSafeKey {
    LessSafeKey::new(UnboundKey::new(&AES_256_GCM, key).expect("32 bytes"))
}

fn success(data: &Value) -> Response {
    let body = json!({
        "request_id": "5f1c", "lease_id": "", "renewable": false, "lease_duration": 0,
        "data": data, "wrap_info": null, "warnings": null, "auth": null,
    });
    Response::json(200, &body)
}

fn refused(status: u16, why: &str) -> Response {
    Response::json(status, &json!({ "errors": [why] }))
}

fn denied() -> Response {
    refused(403, "1 error occurred:\n\t* permission denied\n\n")
}

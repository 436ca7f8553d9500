//! Accounts, access tokens and the key of Cloud KMS, and its answers. Statuses and texts of
//! refusals are those of Google, because the component of the seal reads both.

use super::Account;
use crate::internet::{Request, Response};
use crate::key_service::ServiceState;
use crate::signer::{Signer, unverified};
use aws_lc_rs::aead::{AES_256_GCM, Aad, LessSafeKey, Nonce, UnboundKey};
use aws_lc_rs::rand;
use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use time::OffsetDateTime;

pub const PROJECT: &str = "orders";
pub const LOCATION: &str = "global";
pub const KEY_RING: &str = "bulkhead";
pub const CRYPTO_KEY: &str = "unseal";
/// Name of the key.
pub const KEY_NAME: &str = "projects/orders/locations/global/keyRings/bulkhead/cryptoKeys/unseal";

const SCOPES: [&str; 2] =
    ["https://www.googleapis.com/auth/cloudkms", "https://www.googleapis.com/auth/cloud-platform"];
const GRANT_TYPE: &str = "urn:ietf:params:oauth:grant-type:jwt-bearer";
const NONCE_BYTES: usize = 12;
/// Longest lifetime of an assertion, and largest difference of the clocks, in seconds.
const MAX_LIFETIME: i64 = 3_600;
const MAX_SKEW: i64 = 300;

/// A refusal: status, code and message.
type Refusal = (u16, &'static str, &'static str);

/// Accounts, tokens and the versions of the key.
pub struct GcpState {
    accounts: BTreeMap<String, KmsAccount>,
    /// Names of accounts by access token.
    tokens: BTreeMap<String, String>,
    versions: BTreeMap<u64, KeyVersion>,
    /// URL of the endpoint for tokens.
    pub(super) audience: String,
    pub(super) clock_ahead: i64,
    pub(super) damages: bool,
}

impl Default for GcpState {
    fn default() -> Self {
        let mut state = Self {
            accounts: BTreeMap::new(),
            tokens: BTreeMap::new(),
            versions: BTreeMap::new(),
            audience: String::new(),
            clock_ahead: 0,
            damages: false,
        };
        state.rotate();
        state
    }
}

pub(super) struct KmsAccount {
    /// `None`: the key was deleted.
    pub(super) signer: Option<Signer>,
    /// Verbs without a right.
    pub(super) denied: BTreeSet<String>,
}

struct KeyVersion {
    /// `None`: the material was destroyed.
    material: Option<[u8; 32]>,
    is_enabled: bool,
}

impl GcpState {
    pub(super) fn create_account(&mut self) -> Account {
        let number = self.accounts.len() + 1;
        let email = format!("seal-{number}@{PROJECT}.iam.gserviceaccount.com");
        let signer = Signer::new(&format!("key-{number}"));
        let account = KmsAccount { signer: Some(signer.clone()), denied: BTreeSet::new() };
        self.accounts.insert(email.clone(), account);
        Account { email, signer }
    }

    pub(super) fn account(&mut self, account: &Account) -> &mut KmsAccount {
        self.accounts.get_mut(&account.email).expect("an account of this service")
    }

    pub(super) fn rotate(&mut self) {
        let number = self.versions.len() as u64 + 1;
        let version = KeyVersion { material: Some(random()), is_enabled: true };
        self.versions.insert(number, version);
    }

    pub(super) fn set_enabled(&mut self, version: u64, is_enabled: bool) {
        self.versions.get_mut(&version).expect("a version of the key").is_enabled = is_enabled;
    }

    pub(super) fn destroy(&mut self, version: u64) {
        self.versions.get_mut(&version).expect("a version of the key").material = None;
    }

    /// Exchanges an assertion for an access token.
    fn token(&mut self, request: &Request) -> Response {
        let refused = |why: &str| {
            Response::json(400, &json!({ "error": "invalid_grant", "error_description": why }))
        };
        let assertion = request.form("assertion").unwrap_or_default();
        if request.form("grant_type").as_deref() != Some(GRANT_TYPE) {
            return Response::json(400, &json!({ "error": "unsupported_grant_type" }));
        }
        let Some([header, claims]) = unverified(&assertion) else {
            return refused("Invalid JWT: Failed base64 decoding.");
        };
        let email = claims["iss"].as_str().unwrap_or_default();
        let Some(account) = self.accounts.get(email) else {
            return refused("Invalid grant: account not found");
        };
        let signer = account.signer.as_ref().filter(|signer| header["kid"] == signer.kid);
        if signer.and_then(|signer| signer.claims(&assertion)).is_none() {
            return refused("Invalid JWT Signature.");
        }
        let now = OffsetDateTime::now_utc().unix_timestamp() + self.clock_ahead;
        let time = |name: &str| claims[name].as_i64().unwrap_or_default();
        let (issued, end) = (time("iat"), time("exp"));
        let is_fresh = issued <= now + MAX_SKEW
            && end > now - MAX_SKEW
            && (1..=MAX_LIFETIME).contains(&(end - issued));
        if !is_fresh {
            return refused(
                "Invalid JWT: Token must be a short-lived token (60 minutes) and in a reasonable \
                 timeframe. Check your iat and exp values in the JWT claim.",
            );
        }
        if claims["aud"] != self.audience {
            return refused("Invalid JWT: audience is wrong");
        }
        let scope = claims["scope"].as_str().unwrap_or_default();
        if !scope.split(' ').any(|scope| SCOPES.contains(&scope)) {
            return Response::json(400, &json!({ "error": "invalid_scope" }));
        }
        let token = format!("ya29.c.{}", URL_SAFE_NO_PAD.encode(random::<32>()));
        self.tokens.insert(token.clone(), email.to_owned());
        let body = json!({ "access_token": token, "expires_in": 3_599, "token_type": "Bearer" });
        Response::json(200, &body)
    }

    fn answered(&self, request: &Request) -> Result<Response, Refusal> {
        const UNKNOWN: Refusal = (401, "UNAUTHENTICATED", "Request had invalid credentials.");
        let token = request.bearer().ok_or(UNKNOWN)?;
        let account = self.tokens.get(token).and_then(|email| self.accounts.get(email));
        let account = account.ok_or(UNKNOWN)?;
        let call = request.path.strip_prefix("/v1/").and_then(|path| path.split_once(':'));
        let (name, verb) = call.filter(|_| request.method == "POST").ok_or(NOT_FOUND)?;
        if account.denied.contains(verb) || !name.starts_with("projects/orders/") {
            return Err((403, "PERMISSION_DENIED", "Permission denied on resource"));
        }
        if name != KEY_NAME {
            return Err((404, "NOT_FOUND", "CryptoKey not found."));
        }
        match verb {
            "encrypt" => self.encrypt(&request.json()),
            "decrypt" => self.decrypt(&request.json()),
            _ => Err(NOT_FOUND),
        }
    }

    fn material(&self, version: u64) -> Result<&[u8; 32], Refusal> {
        const DISABLED: Refusal =
            (400, "FAILED_PRECONDITION", "is not enabled, current state is: DISABLED.");
        let version = self.versions.get(&version).ok_or(UNKNOWN_CIPHERTEXT)?;
        version.material.as_ref().filter(|_| version.is_enabled).ok_or(DISABLED)
    }

    fn encrypt(&self, body: &Value) -> Result<Response, Refusal> {
        let mut bytes = checked(body, ["plaintext", "plaintextCrc32c"])?;
        let version = self.versions.len() as u64;
        let material = self.material(version)?;
        let nonce: [u8; NONCE_BYTES] = random();
        let used = Nonce::assume_unique_for_key(nonce);
        let cipher = cipher(material);
        cipher.seal_in_place_append_tag(used, Aad::empty(), &mut bytes).expect("a short text");
        let mut ciphertext = [&version.to_be_bytes()[..], &nonce, &bytes].concat();
        let crc = crc32c(&ciphertext).to_string();
        if self.damages {
            ciphertext.reverse();
        }
        Ok(Response::json(
            200,
            &json!({
                "name": format!("{KEY_NAME}/cryptoKeyVersions/{version}"),
                "ciphertext": STANDARD.encode(ciphertext), "ciphertextCrc32c": crc,
                "verifiedPlaintextCrc32c": body["plaintextCrc32c"].is_string(),
                "protectionLevel": "SOFTWARE",
            }),
        ))
    }

    fn decrypt(&self, body: &Value) -> Result<Response, Refusal> {
        let ciphertext = checked(body, ["ciphertext", "ciphertextCrc32c"])?;
        let (version, rest) = ciphertext.split_first_chunk().ok_or(UNKNOWN_CIPHERTEXT)?;
        let version = u64::from_be_bytes(*version);
        let material = self.material(version)?;
        let (nonce, sealed) = rest.split_at_checked(NONCE_BYTES).ok_or(UNKNOWN_CIPHERTEXT)?;
        let nonce = Nonce::try_assume_unique_for_key(nonce).expect("the length of a nonce");
        let mut sealed = sealed.to_vec();
        let opened = cipher(material).open_in_place(nonce, Aad::empty(), &mut sealed);
        let mut plain = opened.map_err(|_| UNKNOWN_CIPHERTEXT)?.to_vec();
        let crc = crc32c(&plain).to_string();
        if self.damages {
            plain.reverse();
        }
        Ok(Response::json(
            200,
            &json!({
                "plaintext": STANDARD.encode(plain), "plaintextCrc32c": crc,
                "usedPrimary": version == self.versions.len() as u64,
                "protectionLevel": "SOFTWARE",
            }),
        ))
    }
}

const NOT_FOUND: Refusal = (404, "NOT_FOUND", "The requested URL was not found on this server.");
const UNKNOWN_CIPHERTEXT: Refusal =
    (400, "INVALID_ARGUMENT", "Decryption failed: verify that 'name' refers to the correct key.");

/// Returns the bytes of a field, if its checksum fits. The provider accepts a missing checksum.
fn checked(body: &Value, [field, checksum]: [&str; 2]) -> Result<Vec<u8>, Refusal> {
    let wrong = (400, "INVALID_ARGUMENT", "Invalid value");
    let bytes = body[field].as_str().and_then(|text| STANDARD.decode(text).ok()).ok_or(wrong)?;
    let computed = crc32c(&bytes).to_string();
    let fits = body[checksum].is_null() || body[checksum].as_str() == Some(&computed);
    if fits { Ok(bytes) } else { Err((400, "INVALID_ARGUMENT", "The checksum did not match")) }
}

impl ServiceState for GcpState {
    fn answer(&mut self, request: &Request) -> Response {
        if request.path == "/token" {
            return self.token(request);
        }
        self.answered(request).unwrap_or_else(|(code, status, message)| {
            let error = json!({ "code": code, "status": status, "message": message });
            Response::json(code, &json!({ "error": error }))
        })
    }

    /// Returns `/token`, `/encrypt` or `/decrypt`.
    fn fault_path(request: &Request) -> String {
        match request.path.rsplit_once(':') {
            Some((_, verb)) => format!("/{verb}"),
            None => request.path.clone(),
        }
    }
}

/// CRC32C by its table, without code of the product.
pub(super) fn crc32c(bytes: &[u8]) -> u32 {
    let table: Vec<u32> = (0..256)
        .map(|byte: u32| {
            (0..8).fold(
                byte,
                |rest, _| {
                    if rest % 2 == 1 { 0x82f6_3b78 ^ (rest / 2) } else { rest / 2 }
                },
            )
        })
        .collect();
    let rest = bytes.iter().fold(u32::MAX, |rest, byte| {
        table[((rest ^ u32::from(*byte)) & 0xff) as usize] ^ (rest >> 8)
    });
    !rest
}

fn random<const N: usize>() -> [u8; N] {
    let mut bytes = [0; N];
    rand::fill(&mut bytes).expect("random bytes");
    bytes
}

fn cipher(key: &[u8; 32]) -> LessSafeKey {
    LessSafeKey::new(UnboundKey::new(&AES_256_GCM, key).expect("32 bytes"))
}

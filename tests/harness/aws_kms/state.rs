//! Keys and access keys of the key management service, and its answers. Names and statuses of
//! errors are those of AWS, because the component of the seal reads both.

use super::signature::{Authorization, Refusal};
use crate::internet::{Request, Response};
use crate::key_service::ServiceState;
use aws_lc_rs::aead::{AES_256_GCM, Aad, LessSafeKey, Nonce, UnboundKey};
use aws_lc_rs::rand;
use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use time::OffsetDateTime;

/// Region of a new service.
pub const REGION: &str = "eu-central-1";

const NONCE_BYTES: usize = 12;

/// Credentials of an access key.
#[derive(Clone, Debug)]
pub struct Credentials {
    pub access_key: String,
    pub secret_key: String,
    /// `None` for an access key without an end.
    pub session_token: Option<String>,
}

/// Keys and access keys.
pub struct KmsState {
    pub(super) users: BTreeMap<String, User>,
    /// Keys by ARN.
    pub(super) keys: BTreeMap<String, KmsKey>,
    /// ARNs by alias.
    pub(super) aliases: BTreeMap<String, String>,
    pub(super) region: String,
    pub(super) clock_ahead: Duration,
    created: usize,
}

impl Default for KmsState {
    fn default() -> Self {
        Self {
            users: BTreeMap::new(),
            keys: BTreeMap::new(),
            aliases: BTreeMap::new(),
            region: REGION.to_owned(),
            clock_ahead: Duration::ZERO,
            created: 0,
        }
    }
}

pub(super) struct User {
    credentials: Credentials,
    pub(super) is_expired: bool,
    /// Operations without a right.
    pub(super) denied: BTreeSet<String>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum KeyState {
    Enabled,
    Disabled,
    PendingDeletion,
}

/// A key with its materials, of which the last encrypts.
pub(super) struct KmsKey {
    materials: Vec<[u8; 32]>,
    pub(super) state: KeyState,
}

impl KmsKey {
    pub(super) fn rotate(&mut self) {
        self.materials.push(random());
    }

    fn check_state(&self) -> Result<(), Refusal> {
        match self.state {
            KeyState::Enabled => Ok(()),
            KeyState::Disabled => Err(("DisabledException", "the key is disabled.")),
            KeyState::PendingDeletion => {
                Err(("KMSInvalidStateException", "the key is pending deletion."))
            }
        }
    }
}

impl KmsState {
    pub(super) fn issue(&mut self, is_temporary: bool) -> Credentials {
        let text = |bytes: [u8; 32]| URL_SAFE_NO_PAD.encode(bytes);
        let id = text(random()).to_ascii_uppercase().replace(['-', '_'], "X");
        let prefix = if is_temporary { "ASIA" } else { "AKIA" };
        let credentials = Credentials {
            access_key: format!("{prefix}{}", &id[..16]),
            secret_key: format!("{}+/", &text(random())[..38]),
            session_token: is_temporary.then(|| format!("FwoGZXIvYXdz{}==", text(random()))),
        };
        let user =
            User { credentials: credentials.clone(), is_expired: false, denied: BTreeSet::new() };
        self.users.insert(credentials.access_key.clone(), user);
        credentials
    }

    pub(super) fn user(&mut self, credentials: &Credentials) -> &mut User {
        self.users.get_mut(&credentials.access_key).expect("an access key of this service")
    }

    pub(super) fn create_key(&mut self) -> String {
        self.created += 1;
        let arn = format!(
            "arn:aws:kms:{}:111122223333:key/1234abcd-12ab-34cd-56ef-{:012}",
            self.region, self.created
        );
        let key = KmsKey { materials: vec![random()], state: KeyState::Enabled };
        self.keys.insert(arn.clone(), key);
        arn
    }

    pub(super) fn key(&mut self, arn: &str) -> &mut KmsKey {
        self.keys.get_mut(arn).expect("a key of this service")
    }

    fn answered(&self, request: &Request) -> Result<Response, Refusal> {
        let authorization = Authorization::of(request)?;
        let unknown = "The security token included in the request is invalid.";
        let unknown = ("UnrecognizedClientException", unknown);
        let user = self.users.get(authorization.access_key).ok_or(unknown)?;
        let token = user.credentials.session_token.as_deref().unwrap_or_default();
        if request.header("x-amz-security-token") != token {
            return Err(unknown);
        }
        let now = OffsetDateTime::now_utc() + self.clock_ahead;
        let used = (user.credentials.secret_key.as_str(), self.region.as_str());
        authorization.check(request, used, now)?;
        if user.is_expired {
            return Err(("ExpiredTokenException", "The security token has expired"));
        }
        if request.method != "POST" || request.path != "/" {
            return Err(("UnknownOperationException", ""));
        }
        if request.header("content-type") != "application/x-amz-json-1.1" {
            return Err(("SerializationException", ""));
        }
        let operation = request.header("x-amz-target").strip_prefix("TrentService.");
        let operation = operation.ok_or(("UnknownOperationException", ""))?;
        if user.denied.contains(operation) {
            return Err(("AccessDeniedException", "is not authorized to perform this operation"));
        }
        match operation {
            "Encrypt" => self.encrypt(&request.json()),
            "Decrypt" => self.decrypt(&request.json()),
            _ => Err(("UnknownOperationException", "")),
        }
    }

    /// Returns the ARN of a key id, an ARN, or an alias with or without its ARN.
    fn arn(&self, id: &str) -> Option<&str> {
        let alias = id.rsplit_once(":alias/").map(|(_, name)| format!("alias/{name}"));
        if let Some(arn) = self.aliases.get(alias.as_deref().unwrap_or(id)) {
            return Some(arn);
        }
        let is_meant = |arn: &&String| *arn == id || arn.ends_with(&format!(":key/{id}"));
        self.keys.keys().find(is_meant).map(String::as_str)
    }

    fn encrypt(&self, body: &Value) -> Result<Response, Refusal> {
        let id = body["KeyId"].as_str().ok_or(("ValidationException", ""))?;
        let plain = body["Plaintext"].as_str().and_then(|text| STANDARD.decode(text).ok());
        let plain = plain.filter(|plain| (1..=4_096).contains(&plain.len()));
        let mut bytes = plain.ok_or(("ValidationException", ""))?;
        let found = self.arn(id).and_then(|arn| self.keys.get_key_value(arn));
        let (arn, key) = found.ok_or(("NotFoundException", "Key does not exist"))?;
        key.check_state()?;
        let (number, material) = key.materials.iter().enumerate().next_back().expect("material");
        let nonce: [u8; NONCE_BYTES] = random();
        let used = Nonce::assume_unique_for_key(nonce);
        let cipher = cipher(material);
        cipher.seal_in_place_append_tag(used, Aad::empty(), &mut bytes).expect("a short text");
        // The blob names key and material, as blobs of the provider do in a form of its own.
        let head = format!("{arn}#{number}#");
        let blob = STANDARD.encode([head.as_bytes(), &nonce, &bytes].concat());
        Ok(success(&json!({
            "KeyId": arn, "CiphertextBlob": blob, "EncryptionAlgorithm": "SYMMETRIC_DEFAULT",
        })))
    }

    fn decrypt(&self, body: &Value) -> Result<Response, Refusal> {
        const WRONG: Refusal = ("InvalidCiphertextException", "");
        let blob = body["CiphertextBlob"].as_str().and_then(|text| STANDARD.decode(text).ok());
        let blob = blob.ok_or(("ValidationException", ""))?;
        let mut parts = blob.splitn(3, |byte| *byte == b'#');
        let mut next = || parts.next().ok_or(WRONG);
        let (arn, number, rest) = (next()?, next()?, next()?);
        let text = |bytes| std::str::from_utf8(bytes).map_err(|_| WRONG);
        let arn = text(arn)?;
        // The provider tells nobody whether a key of another account exists.
        let key = self.keys.get(arn).ok_or(("AccessDeniedException", "The ciphertext refers"))?;
        key.check_state()?;
        let number: usize = text(number)?.parse().map_err(|_| WRONG)?;
        let material = key.materials.get(number).ok_or(WRONG)?;
        let (nonce, sealed) = rest.split_at_checked(NONCE_BYTES).ok_or(WRONG)?;
        let nonce = Nonce::try_assume_unique_for_key(nonce).expect("the length of a nonce");
        let mut sealed = sealed.to_vec();
        let opened = cipher(material).open_in_place(nonce, Aad::empty(), &mut sealed);
        let plain = STANDARD.encode(opened.map_err(|_| WRONG)?);
        Ok(success(&json!({
            "KeyId": arn, "Plaintext": plain, "EncryptionAlgorithm": "SYMMETRIC_DEFAULT",
        })))
    }
}

impl ServiceState for KmsState {
    fn answer(&mut self, request: &Request) -> Response {
        self.answered(request).unwrap_or_else(|(kind, message)| {
            let body = json!({ "__type": kind, "message": message });
            Response::json(400, &body).with("content-type", "application/x-amz-json-1.1")
        })
    }

    /// Returns the operation: every request has the path `/`.
    fn fault_path(request: &Request) -> String {
        request.header("x-amz-target").replace("TrentService.", "/")
    }
}

fn success(body: &Value) -> Response {
    Response::json(200, body).with("content-type", "application/x-amz-json-1.1")
}

fn random<const N: usize>() -> [u8; N] {
    let mut bytes = [0; N];
    rand::fill(&mut bytes).expect("random bytes");
    bytes
}

fn cipher(key: &[u8; 32]) -> LessSafeKey {
    LessSafeKey::new(UnboundKey::new(&AES_256_GCM, key).expect("32 bytes"))
}

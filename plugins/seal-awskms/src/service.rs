//! Requests to the key management service, and their answers.
//!
//! This file prevents the secret key from leaving this machine, and the plaintext from reaching a
//! text: a request has a signature in place of the key, a redirect is a failure, and all of them
//! are declared as secrets of each request.

use crate::refusal::{KmsRequest, refused, unreadable};
use crate::settings::KmsSettings;
use crate::signature::{Signer, SigningTime};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bulkhead_sdk::Failure;
use bulkhead_sdk::http::Request;
use bulkhead_sdk::seal_plugin::SealHost;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

/// Timeout of a request, in milliseconds. Two requests fit into a call of the host.
const REQUEST_TIMEOUT: u32 = 10_000;

/// Name of the service in the scope of a signature.
const SERVICE: &str = "kms";

/// Format of the bodies.
const JSON: &str = "application/x-amz-json-1.1";

/// The key management service.
pub(crate) struct KeyService<'a> {
    pub(crate) host: &'a dyn SealHost,
    pub(crate) settings: &'a KmsSettings,
}

/// The body of a request.
#[derive(Default, Serialize)]
#[serde(rename_all = "PascalCase")]
struct RequestBody<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    key_id: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    plaintext: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    ciphertext_blob: Option<&'a str>,
}

/// The answer of `Encrypt`.
#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct EncryptAnswer {
    key_id: String,
    ciphertext_blob: String,
}

/// The answer of `Decrypt`. No `Debug`: the answer holds the key.
#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct DecryptAnswer {
    key_id: String,
    plaintext: String,
}

impl<'a> KeyService<'a> {
    pub(crate) fn new(host: &'a dyn SealHost, settings: &'a KmsSettings) -> Self {
        Self { host, settings }
    }

    /// Encrypts with the key of the settings. Returns the ARN of the key and the ciphertext.
    ///
    /// # Errors
    /// The host's failure if the service does not answer; the refusal of the service; unreachable
    /// if the answer has another form.
    pub(crate) fn encrypt(&self, bytes: &[u8]) -> Result<(String, Vec<u8>), Failure> {
        let plaintext = STANDARD.encode(bytes);
        let key_id = Some(self.settings.key_id.as_str());
        let body = RequestBody { key_id, plaintext: Some(&plaintext), ..RequestBody::default() };
        let answer: EncryptAnswer = self.send(KmsRequest::Encrypt, &body)?;
        let blob = STANDARD.decode(answer.ciphertext_blob).ok().filter(|blob| !blob.is_empty());
        match blob {
            Some(blob) if is_key_arn(&answer.key_id) => Ok((answer.key_id, blob)),
            _ => Err(unreadable(self.settings, KmsRequest::Encrypt)),
        }
    }

    /// Decrypts a ciphertext with the key that encrypted. Returns the ARN of the key and the bytes.
    ///
    /// # Errors
    /// As [`encrypt`](Self::encrypt).
    pub(crate) fn decrypt(&self, blob: &[u8]) -> Result<(String, Vec<u8>), Failure> {
        let blob = STANDARD.encode(blob);
        let body = RequestBody { ciphertext_blob: Some(&blob), ..RequestBody::default() };
        let answer: DecryptAnswer = self.send(KmsRequest::Decrypt, &body)?;
        match STANDARD.decode(answer.plaintext) {
            Ok(bytes) if is_key_arn(&answer.key_id) => Ok((answer.key_id, bytes)),
            _ => Err(unreadable(self.settings, KmsRequest::Decrypt)),
        }
    }

    /// Repeating a request harms nobody, so each request is safe in the sense of the contract.
    fn send<T: DeserializeOwned>(
        &self,
        request: KmsRequest,
        body: &RequestBody<'_>,
    ) -> Result<T, Failure> {
        let answer = self.host.send(&self.signed(request, body)?)?;
        if answer.status != 200 {
            return Err(refused(self.settings, request, &answer));
        }
        serde_json::from_slice(&answer.body).map_err(|_| unreadable(self.settings, request))
    }

    fn signed(&self, request: KmsRequest, body: &RequestBody<'_>) -> Result<Request, Failure> {
        let KmsSettings { endpoint, region, access_key, secret_key, session_token, tls, .. } =
            self.settings;
        let bytes = serde_json::to_vec(body)
            .map_err(|_| Failure::internal("the request's body cannot be written as JSON"))?;
        let time = SigningTime::of(self.host.now());
        let (host, target) = (self.settings.host_header(), request.target());
        let mut headers =
            vec![("content-type", JSON), ("host", &host), ("x-amz-date", time.text())];
        if let Some(token) = session_token {
            headers.push(("x-amz-security-token", token));
        }
        headers.push(("x-amz-target", &target));
        let signer = Signer { access_key, secret_key, region, service: SERVICE };
        let authorization = signer.authorization(&time, &headers, &bytes)?;
        let mut sent = Request::safe_post(&format!("{endpoint}/"))
            .header("authorization", &authorization)
            .secret(secret_key)
            .timeout(REQUEST_TIMEOUT);
        // The host writes the header `host` itself.
        for (name, value) in headers.iter().filter(|(name, _)| *name != "host") {
            sent = sent.header(name, value);
        }
        for secret in [body.plaintext, session_token.as_deref()].into_iter().flatten() {
            sent = sent.secret(secret);
        }
        if let Some(tls) = tls {
            sent = sent.tls(tls.clone());
        }
        sent.body = bytes;
        Ok(sent)
    }
}

/// Returns whether a text is the ARN of a key, of at most 256 bytes: the host stores the text as
/// the id of the key.
fn is_key_arn(text: &str) -> bool {
    let mut parts = text.splitn(6, ':');
    let mut next = || parts.next().unwrap_or_default();
    let (arn, partition, service) = (next(), next(), next());
    let (region, account, resource) = (next(), next(), next());
    let is_plain = text.bytes().all(|byte| byte.is_ascii_graphic()) && text.len() <= 256;
    arn == "arn"
        && service == SERVICE
        && [partition, region, account].iter().all(|part| !part.is_empty())
        && resource.strip_prefix("key/").is_some_and(|id| !id.is_empty())
        && is_plain
}

#[cfg(test)]
mod tests;

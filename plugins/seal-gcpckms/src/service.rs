//! Requests to Cloud KMS, and their answers.
//!
//! This file prevents bytes that changed on their way from becoming the wrapped key or the seal
//! key: checksums in both directions are required, and a mismatch is a failure.

use crate::access_token::{self, REQUEST_TIMEOUT};
use crate::crc32c::checksum;
use crate::refusal::{KmsRequest, damaged, refused, unreadable};
use crate::settings::KmsSettings;
use crate::wrapped_key::is_version_name;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bulkhead_sdk::Failure;
use bulkhead_sdk::http::Request;
use bulkhead_sdk::seal_plugin::SealHost;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

/// Cloud KMS, with an access token. No `Debug`: the type holds the token.
pub(crate) struct KeyService<'a> {
    pub(crate) host: &'a dyn SealHost,
    pub(crate) settings: &'a KmsSettings,
    token: String,
}

/// The body of a request.
#[derive(Default, Serialize)]
#[serde(rename_all = "camelCase")]
struct RequestBody<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    plaintext: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    plaintext_crc32c: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    ciphertext: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    ciphertext_crc32c: Option<String>,
}

/// The answer of `encrypt`.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct EncryptAnswer {
    name: String,
    ciphertext: String,
    ciphertext_crc32c: String,
    #[serde(default)]
    verified_plaintext_crc32c: bool,
}

/// The answer of `decrypt`. No `Debug`: the answer holds the key.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct DecryptAnswer {
    #[serde(default)]
    plaintext: String,
    plaintext_crc32c: String,
}

impl<'a> KeyService<'a> {
    /// Requests an access token for the service.
    ///
    /// # Errors
    /// The refusals of [`access_token::request`].
    pub(crate) fn open(host: &'a dyn SealHost, settings: &'a KmsSettings) -> Result<Self, Failure> {
        Ok(Self { host, settings, token: access_token::request(host, settings)? })
    }

    /// Encrypts with the primary version of the key. Returns the name of the version and the
    /// ciphertext.
    ///
    /// # Errors
    /// The host's failure if the service does not answer; the refusal of the service; unreachable
    /// if the answer has another form, another checksum, or the name of another key.
    pub(crate) fn encrypt(&self, bytes: &[u8]) -> Result<(String, Vec<u8>), Failure> {
        let plaintext = STANDARD.encode(bytes);
        let body = RequestBody {
            plaintext: Some(&plaintext),
            plaintext_crc32c: Some(checksum(bytes).to_string()),
            ..RequestBody::default()
        };
        let answer: EncryptAnswer = self.send(KmsRequest::Encrypt, &body)?;
        let ciphertext = STANDARD.decode(answer.ciphertext).ok().filter(|text| !text.is_empty());
        let Some(ciphertext) = ciphertext.filter(|_| self.is_version(&answer.name)) else {
            return Err(unreadable(self.settings, KmsRequest::Encrypt));
        };
        let is_whole = answer.verified_plaintext_crc32c
            && answer.ciphertext_crc32c == checksum(&ciphertext).to_string();
        match is_whole {
            true => Ok((answer.name, ciphertext)),
            false => Err(damaged(self.settings, KmsRequest::Encrypt)),
        }
    }

    /// Decrypts a ciphertext of any version of the key.
    ///
    /// # Errors
    /// As [`encrypt`](Self::encrypt).
    pub(crate) fn decrypt(&self, ciphertext: &[u8]) -> Result<Vec<u8>, Failure> {
        let text = STANDARD.encode(ciphertext);
        let body = RequestBody {
            ciphertext: Some(&text),
            ciphertext_crc32c: Some(checksum(ciphertext).to_string()),
            ..RequestBody::default()
        };
        let answer: DecryptAnswer = self.send(KmsRequest::Decrypt, &body)?;
        let bytes = STANDARD
            .decode(answer.plaintext)
            .map_err(|_| unreadable(self.settings, KmsRequest::Decrypt))?;
        match answer.plaintext_crc32c == checksum(&bytes).to_string() {
            true => Ok(bytes),
            false => Err(damaged(self.settings, KmsRequest::Decrypt)),
        }
    }

    /// Returns whether `name` is the name of a version of the key of the settings. Project and
    /// number of the project name the same project, so that only the part behind is compared.
    fn is_version(&self, name: &str) -> bool {
        let (behind_name, behind_key) =
            (behind_project(name), behind_project(&self.settings.key_name));
        let version = behind_name.zip(behind_key).and_then(|(name, key)| name.strip_prefix(key));
        is_version_name(name) && version.is_some_and(|rest| rest.starts_with("/cryptoKeyVersions/"))
    }

    /// Repeating a request harms nobody, so each request is safe in the sense of the contract.
    fn send<T: DeserializeOwned>(
        &self,
        request: KmsRequest,
        body: &RequestBody<'_>,
    ) -> Result<T, Failure> {
        let KmsSettings { endpoint, key_name, tls, .. } = self.settings;
        let url = format!("{endpoint}/v1/{key_name}:{}", request.verb());
        let mut sent =
            Request::safe_post(&url).json(body)?.bearer(&self.token).timeout(REQUEST_TIMEOUT);
        if let Some(plaintext) = body.plaintext {
            sent = sent.secret(plaintext);
        }
        if let Some(tls) = tls {
            sent = sent.tls(tls.clone());
        }
        let answer = self.host.send(&sent)?;
        if answer.status != 200 {
            return Err(refused(self.settings, request, &answer));
        }
        serde_json::from_slice(&answer.body).map_err(|_| unreadable(self.settings, request))
    }
}

/// Returns the part of a name behind the project.
fn behind_project(name: &str) -> Option<&str> {
    name.split_once("/locations/").map(|(_, rest)| rest)
}

#[cfg(test)]
mod tests;

//! Requests to the vault, and their answers.
//!
//! This file prevents a redirect from getting the access token, and the seal key from reaching a
//! text: a redirect is a failure, and both are secrets of each request.

use crate::access_token::{self, REQUEST_TIMEOUT};
use crate::key_version::KeyVersion;
use crate::refusal::{VaultRequest, disabled, refused, unreadable};
use crate::settings::VaultSettings;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use bulkhead_sdk::Failure;
use bulkhead_sdk::http::Request;
use bulkhead_sdk::seal_plugin::SealHost;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

const API_VERSION: &str = "7.4";
/// The algorithm: RSA with OAEP and SHA-256.
const ALGORITHM: &str = "RSA-OAEP-256";

/// The vault, with an access token. No `Debug`: the type holds the token.
pub(crate) struct KeyService<'a> {
    pub(crate) host: &'a dyn SealHost,
    pub(crate) settings: &'a VaultSettings,
    token: String,
}

/// The body of `wrapkey` and `unwrapkey`.
#[derive(Serialize)]
struct ConversionBody<'a> {
    alg: &'a str,
    value: &'a str,
}

/// The answer of `wrapkey` and `unwrapkey`. No `Debug`: the answer may hold the key.
#[derive(Deserialize)]
struct ConversionAnswer {
    kid: String,
    value: String,
}

/// The answer that describes the newest version of the key.
#[derive(Deserialize)]
struct KeyAnswer {
    key: KeyFields,
    #[serde(default)]
    attributes: KeyAttributes,
}

#[derive(Deserialize)]
struct KeyFields {
    kid: String,
}

#[derive(Default, Deserialize)]
struct KeyAttributes {
    enabled: Option<bool>,
}

impl<'a> KeyService<'a> {
    /// Requests an access token for the vault.
    ///
    /// # Errors
    /// The refusals of [`access_token::request`].
    pub(crate) fn open(
        host: &'a dyn SealHost,
        settings: &'a VaultSettings,
    ) -> Result<Self, Failure> {
        Ok(Self { host, settings, token: access_token::request(host, settings)? })
    }

    /// Returns the newest version of the key of the settings.
    ///
    /// # Errors
    /// The host's failure if the vault does not answer; the refusal of the vault; unreachable if
    /// the answer has another form or describes another key.
    pub(crate) fn newest_version(&self) -> Result<KeyVersion, Failure> {
        let name = &self.settings.key_name;
        let request = Request::get(&self.url(&format!("keys/{name}")));
        let answer: KeyAnswer = self.send(VaultRequest::Get, request)?;
        if answer.attributes.enabled == Some(false) {
            return Err(disabled(self.settings, VaultRequest::Get));
        }
        KeyVersion::of_id(&answer.key.kid)
            .filter(|version| version.is_of_key(name))
            .ok_or_else(|| unreadable(self.settings, VaultRequest::Get))
    }

    /// Encrypts with this version.
    ///
    /// # Errors
    /// As [`newest_version`](Self::newest_version).
    pub(crate) fn wrap(&self, version: &KeyVersion, bytes: &[u8]) -> Result<Vec<u8>, Failure> {
        self.convert(VaultRequest::Wrap, version, bytes)
    }

    /// Decrypts a ciphertext of this version.
    ///
    /// # Errors
    /// As [`newest_version`](Self::newest_version).
    pub(crate) fn unwrap(
        &self,
        version: &KeyVersion,
        ciphertext: &[u8],
    ) -> Result<Vec<u8>, Failure> {
        self.convert(VaultRequest::Unwrap, version, ciphertext)
    }

    fn convert(
        &self,
        request: VaultRequest,
        version: &KeyVersion,
        bytes: &[u8],
    ) -> Result<Vec<u8>, Failure> {
        let value = URL_SAFE_NO_PAD.encode(bytes);
        let url = self.url(&format!("keys/{}/{}", version.text(), request.operation()));
        let body = ConversionBody { alg: ALGORITHM, value: &value };
        let sent = Request::safe_post(&url).json(&body)?.secret(&value);
        let answer: ConversionAnswer = self.send(request, sent)?;
        let bytes = URL_SAFE_NO_PAD.decode(answer.value.trim_end_matches('=')).ok();
        let is_same = KeyVersion::of_id(&answer.kid).is_some_and(|of_answer| of_answer == *version);
        bytes
            .filter(|bytes| is_same && !bytes.is_empty())
            .ok_or_else(|| unreadable(self.settings, request))
    }

    fn url(&self, path: &str) -> String {
        format!("{}/{path}?api-version={API_VERSION}", self.settings.vault_url)
    }

    /// Repeating a request harms nobody, so each request is safe in the sense of the contract.
    fn send<T: DeserializeOwned>(
        &self,
        request: VaultRequest,
        sent: Request,
    ) -> Result<T, Failure> {
        let mut sent = sent.bearer(&self.token).timeout(REQUEST_TIMEOUT);
        if let Some(tls) = &self.settings.tls {
            sent = sent.tls(tls.clone());
        }
        let answer = self.host.send(&sent)?;
        if answer.status != 200 {
            return Err(refused(self.settings, request, &answer));
        }
        serde_json::from_slice(&answer.body).map_err(|_| unreadable(self.settings, request))
    }
}

#[cfg(test)]
mod tests;

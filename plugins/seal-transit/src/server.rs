//! Requests to the server with the transit engine, and their answers.
//!
//! This file prevents the token from following a redirect, and the plaintext from reaching a text:
//! a redirect is a failure, and both are declared as secrets of each request.

use crate::refusal::{TransitRequest, refused, unreadable};
use crate::settings::TransitSettings;
use bulkhead_sdk::Failure;
use bulkhead_sdk::http::Request;
use bulkhead_sdk::seal_plugin::SealHost;
use serde::Serialize;
use serde::de::DeserializeOwned;

/// Timeout of a request, in milliseconds. Two requests fit into a call of the host.
const REQUEST_TIMEOUT: u32 = 10_000;

/// The server with the transit engine.
pub(crate) struct TransitServer<'a> {
    pub(crate) host: &'a dyn SealHost,
    pub(crate) settings: &'a TransitSettings,
}

/// The body of a request of transit, or of the renewal of a token.
#[derive(Default, Serialize)]
pub(crate) struct RequestBody<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) plaintext: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) ciphertext: Option<&'a str>,
}

impl<'a> TransitServer<'a> {
    pub(crate) fn new(host: &'a dyn SealHost, settings: &'a TransitSettings) -> Self {
        Self { host, settings }
    }

    /// Sends a request with a body and returns the answer's JSON. Repeating a request harms nobody,
    /// also the renewal of a token, so each request is safe in the sense of the contract.
    ///
    /// # Errors
    /// The host's failure if the server does not answer; the refusal of the server; unreachable if
    /// the answer has another form.
    pub(crate) fn post<T: DeserializeOwned>(
        &self,
        request: TransitRequest,
        body: &RequestBody<'_>,
    ) -> Result<T, Failure> {
        let mut http_request = Request::safe_post(&self.url(request)).json(body)?;
        if let Some(plaintext) = body.plaintext {
            http_request = http_request.secret(plaintext);
        }
        self.send(request, http_request)
    }

    /// Sends a GET request and returns the answer's JSON.
    ///
    /// # Errors
    /// As [`post`](Self::post).
    pub(crate) fn get<T: DeserializeOwned>(&self, request: TransitRequest) -> Result<T, Failure> {
        self.send(request, Request::get(&self.url(request)))
    }

    /// Returns the failure for an answer of another form than the request has.
    pub(crate) fn unreadable(&self, request: TransitRequest) -> Failure {
        unreadable(self.settings, request)
    }

    fn url(&self, request: TransitRequest) -> String {
        format!("{}/v1/{}", self.settings.address, request.path(self.settings))
    }

    fn send<T: DeserializeOwned>(
        &self,
        request: TransitRequest,
        http_request: Request,
    ) -> Result<T, Failure> {
        let TransitSettings { token, namespace, tls, .. } = self.settings;
        let mut http_request = http_request
            .header("x-vault-token", token)
            // Agents and proxies in front of the server may refuse requests without this header.
            .header("x-vault-request", "true")
            .secret(token)
            .timeout(REQUEST_TIMEOUT);
        if let Some(namespace) = namespace {
            http_request = http_request.header("x-vault-namespace", namespace);
        }
        if let Some(tls) = tls {
            http_request = http_request.tls(tls.clone());
        }
        let answer = self.host.send(&http_request)?;
        if answer.status != 200 {
            return Err(refused(self.settings, request, &answer));
        }
        serde_json::from_slice(&answer.body).map_err(|_| self.unreadable(request))
    }
}

#[cfg(test)]
mod tests;

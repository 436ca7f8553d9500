//! Bridge between a component and a [`SealPlugin`]: converts the types of the contract and decides
//! nothing.

use crate::bindings::seal_plugin::bulkhead::plugin::types;
use crate::bindings::seal_plugin::bulkhead::plugin::{clock, crypto, http, log};
use crate::bindings::seal_plugin::exports::bulkhead::plugin::seal;
use crate::database_plugin::StoreTime;
use crate::host::{Http, Log, LogLevel};
use crate::http::{HttpTls, Request, Response};
use crate::seal_plugin::{KeySigner, SealPlugin, SealSettings, SystemClock};
use bulkhead_wire::failure::{Failure, FailureKind};
use std::marker::PhantomData;

/// A component with the answers of `P`.
pub struct SealComponent<P>(PhantomData<P>);

impl<P: SealPlugin> seal::Guest for SealComponent<P> {
    /// Returns the description; empty if it cannot be serialised, which the host refuses.
    fn describe() -> String {
        serde_json::to_string(&P::description()).unwrap_or_default()
    }

    fn wrap_key(settings: String, key: Vec<u8>) -> Result<seal::WrappedKey, types::Failure> {
        let wrapped = P::wrap_key(&SealImports, &read(&settings)?, &key).map_err(refusal)?;
        Ok(seal::WrappedKey { key_id: wrapped.key_id, blob: wrapped.blob, ext: Vec::new() })
    }

    fn unwrap_key(settings: String, blob: Vec<u8>) -> Result<seal::OpenedKey, types::Failure> {
        let opened = P::unwrap_key(&SealImports, &read(&settings)?, &blob).map_err(refusal)?;
        let (key, newest_key_id) = (opened.key, opened.newest_key_id);
        Ok(seal::OpenedKey { key, newest_key_id, ext: Vec::new() })
    }

    fn renew_credentials(settings: String) -> Result<Option<u64>, types::Failure> {
        P::renew_credentials(&SealImports, &read(&settings)?).map_err(refusal)
    }

    fn check_health(settings: String) -> Result<(), types::Failure> {
        P::check_health(&SealImports, &read(&settings)?).map_err(refusal)
    }
}

/// The imports of the world `seal-plugin`.
struct SealImports;

impl Http for SealImports {
    fn send(&self, request: &Request) -> Result<Response, Failure> {
        let headers = request.headers.iter();
        let headers =
            headers.map(|(name, value)| http::Header { name: name.clone(), value: value.clone() });
        let answer = http::send(&http::Request {
            method: request.method.clone(),
            url: request.url.clone(),
            headers: headers.collect(),
            body: request.body.clone(),
            timeout: request.timeout,
            tls: request.tls.as_ref().map(tls_words),
            secrets: request.secrets.clone(),
            safe: request.safe,
            identity: request.identity.clone(),
            ext: Vec::new(),
        });
        let answer = answer.map_err(failure)?;
        let headers = answer.headers.into_iter().map(|header| (header.name, header.value));
        Ok(Response { status: answer.status, headers: headers.collect(), body: answer.body })
    }
}

impl Log for SealImports {
    fn write(&self, level: LogLevel, event: &str, pairs: &[(&str, &str)]) {
        let level = match level {
            LogLevel::Debug => log::Level::Debug,
            LogLevel::Info => log::Level::Info,
            LogLevel::Warn => log::Level::Warn,
            LogLevel::Error => log::Level::Error,
        };
        let owned = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
        log::write(level, event, &pairs.iter().map(owned).collect::<Vec<_>>());
    }
}

impl SystemClock for SealImports {
    fn now(&self) -> StoreTime {
        clock::now()
    }
}

impl KeySigner for SealImports {
    fn sign(&self, algorithm: &str, private_key: &str, message: &[u8]) -> Result<Vec<u8>, Failure> {
        crypto::sign(algorithm, private_key, message).map_err(failure)
    }
}

fn read(settings: &str) -> Result<SealSettings, types::Failure> {
    serde_json::from_str(settings)
        .map_err(|_| refusal(Failure::internal("the host sent settings other than an object")))
}

fn tls_words(tls: &HttpTls) -> http::Tls {
    http::Tls {
        root_certificates: tls.root_certificates.clone(),
        client_certificate: tls.client_certificate.clone(),
        client_key: tls.client_key.clone(),
        server_name: tls.server_name.clone(),
        ext: Vec::new(),
    }
}

fn failure(why: types::Failure) -> Failure {
    let failure = Failure::new(FailureKind::of_code(&why.code), why.message);
    Failure { retry_after: why.retry_after, ..failure }
}

fn refusal(why: Failure) -> types::Failure {
    types::Failure {
        code: why.kind.code().to_owned(),
        message: why.message,
        retry_after: why.retry_after,
        ext: Vec::new(),
    }
}

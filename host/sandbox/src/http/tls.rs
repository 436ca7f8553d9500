//! TLS to other servers: the certificate is always checked, against the public roots or those that
//! were given alone.

use crate::bindings::secrets_engine::bulkhead::plugin::http::Tls;
use crate::grants::{Host, Origin};
use crate::limits;
use rustls::client::{ClientConfig, Resumption, WantsClientCert};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::version::{TLS12, TLS13};
use rustls::{ConfigBuilder, RootCertStore};
use std::sync::Arc;

/// How one connection is secured.
pub(crate) struct Secured {
    pub(super) config: Arc<ClientConfig>,
    /// The name that the certificate must bear.
    pub(super) name: ServerName<'static>,
}

/// How a connection to `origin` is secured; `None` for one that is not.
///
/// # Errors
/// What is wrong with the settings; no certificate or key is quoted.
pub(crate) fn secure(origin: &Origin, settings: Option<&Tls>) -> Result<Option<Secured>, String> {
    if !origin.tls {
        return match settings {
            Some(_) => {
                Err("tls is set for a URL that is not https://; leave one of them out".to_owned())
            }
            None => Ok(None),
        };
    }
    let name = match settings.and_then(|tls| tls.server_name.as_deref()) {
        Some(name) => {
            Host::parse(name).ok_or_else(|| "tls.server-name is no name of a host".to_owned())?
        }
        None => origin.host.clone(),
    };
    let name = match name {
        Host::Address(address) => ServerName::from(address),
        Host::Name(name) => ServerName::try_from(name)
            .map_err(|_| "no certificate can bear that name".to_owned())?,
    };
    let config = trust(roots(settings.and_then(|tls| tls.root_certificates.as_deref()))?)?;
    let mut config = match identity(settings)? {
        Some((chain, key)) => config.with_client_auth_cert(chain, key).map_err(|_| {
            "tls.client-certificate and tls.client-key do not belong together".to_owned()
        })?,
        None => config.with_no_client_auth(),
    };
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    // A connection is made for one request, and none remembers another.
    config.resumption = Resumption::disabled();
    Ok(Some(Secured { config: Arc::new(config), name }))
}

fn trust(roots: RootCertStore) -> Result<ConfigBuilder<ClientConfig, WantsClientCert>, String> {
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let versions =
        ClientConfig::builder_with_provider(provider).with_protocol_versions(&[&TLS13, &TLS12]);
    let versions = versions.map_err(|error| format!("the host's TLS does not start: {error}"))?;
    Ok(versions.with_root_certificates(roots))
}

fn roots(pem: Option<&str>) -> Result<RootCertStore, String> {
    let mut roots = RootCertStore::empty();
    let Some(pem) = pem else {
        roots.extend(webpki_roots::TLS_SERVER_ROOTS.iter().cloned());
        return Ok(roots);
    };
    for certificate in certificates("tls.root-certificates", pem)? {
        roots
            .add(certificate)
            .map_err(|_| "tls.root-certificates holds one that is no authority's".to_owned())?;
    }
    Ok(roots)
}

type Identity = (Vec<CertificateDer<'static>>, PrivateKeyDer<'static>);

fn identity(settings: Option<&Tls>) -> Result<Option<Identity>, String> {
    let Some(tls) = settings else { return Ok(None) };
    match (&tls.client_certificate, &tls.client_key) {
        (None, None) => Ok(None),
        (Some(chain), Some(key)) => {
            let chain = certificates("tls.client-certificate", chain)?;
            let key = PrivateKeyDer::from_pem_slice(check_length("tls.client-key", key)?);
            Ok(Some((
                chain,
                key.map_err(|_| "tls.client-key is no private key in PEM".to_owned())?,
            )))
        }
        _ => {
            Err("tls.client-certificate and tls.client-key are given together, or neither"
                .to_owned())
        }
    }
}

fn certificates(what: &str, pem: &str) -> Result<Vec<CertificateDer<'static>>, String> {
    let read: Result<Vec<_>, _> =
        CertificateDer::pem_slice_iter(check_length(what, pem)?).collect();
    let read = read.map_err(|_| format!("{what} is not PEM"))?;
    if read.is_empty() {
        return Err(format!("{what} holds no certificate"));
    }
    Ok(read)
}

fn check_length<'a>(what: &str, pem: &'a str) -> Result<&'a [u8], String> {
    if pem.len() > limits::PEM_BYTES {
        return Err(format!("{what} is longer than 64 KiB"));
    }
    Ok(pem.as_bytes())
}

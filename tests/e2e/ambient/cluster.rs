//! A simulated API server for a pod's token: HTTPS with a private authority, 401 for every unknown
//! token, and a record of received tokens.

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ServerConfig, ServerConnection, StreamOwned};
use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;

/// A simulated cluster and the tokens of its callers.
pub struct Cluster {
    pub address: SocketAddr,
    /// The certificate of the cluster's authority, in PEM.
    pub authority: String,
    /// The only token that the cluster accepts.
    pub knows: Arc<Mutex<String>>,
    shown: Arc<Mutex<Vec<String>>>,
}

impl Cluster {
    pub fn start() -> Self {
        let mut authority = CertificateParams::new(Vec::new()).expect("an authority");
        authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().expect("a key");
        let authority = CertifiedIssuer::self_signed(authority, key).expect("an authority");
        let key = KeyPair::generate().expect("a key");
        let names = vec!["127.0.0.1".to_owned(), "localhost".to_owned()];
        let certificate = CertificateParams::new(names).expect("names");
        let certificate = certificate.signed_by(&key, &authority).expect("a certificate");
        let chain = vec![CertificateDer::from(certificate.der().to_vec())];
        let key = PrivateKeyDer::from_pem_slice(key.serialize_pem().as_bytes()).expect("a key");
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .expect("versions")
            .with_no_client_auth()
            .with_single_cert(chain, key)
            .expect("a chain and its key");
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let address = listener.local_addr().expect("a port of ours");
        let (knows, shown) = (Arc::default(), Arc::default());
        let served = (Arc::new(config), Arc::clone(&knows), Arc::clone(&shown));
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (config, knows, shown) =
                    (Arc::clone(&served.0), Arc::clone(&served.1), Arc::clone(&served.2));
                // A client that trusts another authority disconnects.
                thread::spawn(move || serve(stream, config, &knows, &shown).ok());
            }
        });
        Self { address, authority: authority.pem(), knows, shown }
    }

    pub fn url(&self, path: &str) -> String {
        format!("https://{}{path}", self.address)
    }

    /// Accepts only `token` from now on.
    pub fn know(&self, token: &str) {
        token.clone_into(&mut self.knows.lock().expect("no thread panicked"));
    }

    /// The `authorization` headers of all requests since the last call.
    pub fn shown(&self) -> Vec<String> {
        std::mem::take(&mut self.shown.lock().expect("no thread panicked"))
    }
}

fn serve(
    stream: TcpStream,
    config: Arc<ServerConfig>,
    knows: &Mutex<String>,
    shown: &Mutex<Vec<String>>,
) -> Result<(), Box<dyn std::error::Error>> {
    let mut stream = BufReader::new(StreamOwned::new(ServerConnection::new(config)?, stream));
    let mut authorization = String::new();
    loop {
        let mut line = String::new();
        stream.read_line(&mut line)?;
        if let Some(value) = line.strip_prefix("authorization: ") {
            value.trim_end().clone_into(&mut authorization);
        }
        if line.trim_end().is_empty() {
            break;
        }
    }
    let expected = format!("Bearer {}", knows.lock().expect("no thread panicked"));
    // Like a careless server, repeats the token in the answer.
    let (status, body) = match authorization == expected {
        true => (200, "{\"kind\":\"APIVersions\"}".to_owned()),
        false => (401, format!("unknown: {authorization}")),
    };
    shown.lock().expect("no thread panicked").push(authorization);
    let length = body.len();
    let answer = format!("HTTP/1.1 {status} Told\r\ncontent-length: {length}\r\n\r\n{body}");
    stream.get_mut().write_all(answer.as_bytes())?;
    Ok(stream.get_mut().flush()?)
}

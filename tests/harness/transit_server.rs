//! The transit engine of another server, as a key service of a seal: a real HTTP or HTTPS server on
//! a loopback address of its own, with tokens, namespaces, key versions and AES-256-GCM. The server
//! can be killed and come back at the same port.
//!
//! ```no_run
//! use bulkhead_tests::internet::Fault;
//! use bulkhead_tests::transit_server::{KEY, TransitServer};
//!
//! let mut transit = TransitServer::start();
//! let token = transit.issue(None); // may encrypt and decrypt with KEY, and nothing else
//! transit.fail("/v1/transit/decrypt", Fault::Hang, 1);
//! transit.rotate(); // version 2 encrypts; version 1 still decrypts
//! transit.lose_version(1);
//! transit.kill();
//! transit.start_again();
//! # let _ = (token, KEY);
//! ```

mod state;

use crate::internet::fault::Faults;
use crate::internet::proxy::{SentBytes, SiteAuthority};
use crate::internet::{Fault, Request, held};
use crate::wait;
use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use state::TransitState;
use std::convert::Infallible;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpListener;
use tokio::runtime::Runtime;
use tokio_rustls::TlsAcceptor;

/// Name of the key that every token of [`TransitServer::issue`] may use.
pub const KEY: &str = "unseal";

/// Host of the faults.
const HOST: &str = "transit";

/// True lifetime of a token of [`TransitServer::issue_announcing`] after each renewal.
const TOKEN_LIFETIME: Duration = Duration::from_secs(120);

/// Longest wait for the port of a killed server.
const PORT_WAIT: Duration = Duration::from_secs(10);

/// A running or killed transit server.
pub struct TransitServer {
    address: SocketAddr,
    engine: Arc<TransitEngine>,
    tls: Option<(SiteAuthority, TlsAcceptor)>,
    /// Runs the server; `None` after [`TransitServer::kill`]. All connections end with the runtime.
    runtime: Option<Runtime>,
}

/// The part that survives a kill.
#[derive(Default)]
struct TransitEngine {
    state: Mutex<TransitState>,
    faults: Faults,
    requests: Mutex<Vec<Request>>,
}

impl TransitServer {
    /// Starts a server over plain HTTP, with one version of [`KEY`].
    pub fn start() -> Self {
        Self::on(free_address(), None)
    }

    /// Starts a server over TLS.
    pub fn start_with_tls() -> Self {
        let address = free_address();
        let authority = SiteAuthority::new();
        let acceptor = authority.acceptor(&address.ip().to_string());
        Self::on(address, Some((authority, acceptor)))
    }

    fn on(address: SocketAddr, tls: Option<(SiteAuthority, TlsAcceptor)>) -> Self {
        let engine = Arc::<TransitEngine>::default();
        held(&engine.state).rotate(KEY);
        let mut server = Self { address, engine, tls, runtime: None };
        server.start_again();
        server
    }

    /// Returns the address for the configuration of a seal.
    pub fn url(&self) -> String {
        let scheme = if self.tls.is_some() { "https" } else { "http" };
        format!("{scheme}://{}", self.address)
    }

    /// Returns the certificate of the authority of a server over TLS, in PEM.
    pub fn authority(&self) -> &str {
        self.tls.as_ref().map(|(authority, _)| authority.pem()).expect("a server over TLS")
    }

    /// Ends the server with all connections: a client is refused.
    pub fn kill(&mut self) {
        let runtime = self.runtime.take().expect("the server runs");
        runtime.shutdown_timeout(PORT_WAIT);
    }

    /// Starts a killed server at the same port, with the same keys and tokens.
    pub fn start_again(&mut self) {
        assert!(self.runtime.is_none(), "the server runs already");
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .build()
            .expect("threads");
        let bind = || runtime.block_on(TcpListener::bind(self.address));
        let (listener, _) = wait::until_ok("the port of the transit server", PORT_WAIT, bind);
        self.address = listener.local_addr().expect("a port of ours");
        let acceptor = self.tls.as_ref().map(|(_, acceptor)| acceptor.clone());
        runtime.spawn(serve(listener, acceptor, Arc::clone(&self.engine)));
        self.runtime = Some(runtime);
    }

    /// Injects a fault into the next `times` requests whose path begins with `path`.
    pub fn fail(&self, path: &str, fault: Fault, times: usize) {
        self.engine.faults.add(HOST, path, fault, times);
    }

    /// Ends all faults.
    pub fn heal(&self) {
        self.engine.faults.clear();
    }

    /// Issues a token that may use [`KEY`]. With a TTL, the token can be renewed for the same time.
    pub fn issue(&self, ttl: Option<Duration>) -> String {
        self.issue_for(KEY, ttl)
    }

    /// Issues a token that may encrypt and decrypt with one key, and look up and renew itself.
    pub fn issue_for(&self, key: &str, ttl: Option<Duration>) -> String {
        held(&self.engine.state).issue(key, ttl)
    }

    /// Issues a token as [`TransitServer::issue`]. Every answer announces the lifetime `announced`.
    /// The token lives for [`TOKEN_LIFETIME`], so that the token does not end between two renewals
    /// of a machine under load.
    pub fn issue_announcing(&self, announced: Duration) -> String {
        let mut state = held(&self.engine.state);
        let token = state.issue(KEY, Some(TOKEN_LIFETIME));
        state.tokens.get_mut(&token).expect("the new token").announced = Some(announced);
        token
    }

    /// Ends a token at once.
    pub fn revoke(&self, token: &str) {
        held(&self.engine.state).tokens.remove(token).expect("a token of this server");
    }

    /// Returns how often the token was renewed.
    pub fn renewals(&self, token: &str) -> usize {
        held(&self.engine.state).tokens.get(token).map_or(0, |token| token.renewals)
    }

    /// Adds a version to [`KEY`], which encrypts from now on.
    pub fn rotate(&self) {
        held(&self.engine.state).rotate(KEY);
    }

    /// Refuses the decryption by versions below `version`.
    pub fn set_min_decryption_version(&self, version: u64) {
        held(&self.engine.state).key(KEY).min_decryption = version;
    }

    /// Deletes a version of [`KEY`] for ever.
    pub fn lose_version(&self, version: u64) {
        held(&self.engine.state).key(KEY).versions.remove(&version).expect("a version of the key");
    }

    /// Deletes [`KEY`] for ever.
    pub fn lose_key(&self) {
        held(&self.engine.state).keys.remove(KEY).expect("the key");
    }

    /// Seals or unseals the server: while sealed, requests are answered with 503.
    pub fn set_sealed(&self, sealed: bool) {
        held(&self.engine.state).sealed = sealed;
    }

    /// Makes engine and tokens those of a namespace.
    pub fn want_namespace(&self, namespace: &str) {
        held(&self.engine.state).namespace = namespace.to_owned();
    }

    /// Returns every request that arrived completely.
    pub fn requests(&self) -> Vec<Request> {
        held(&self.engine.requests).clone()
    }
}

impl Drop for TransitServer {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

/// Returns a loopback address that no other server of the tests uses, so that the port of a killed
/// server stays free.
fn free_address() -> SocketAddr {
    static STARTED: AtomicU32 = AtomicU32::new(0);
    let (process, number) = (std::process::id(), STARTED.fetch_add(1, Ordering::Relaxed));
    let byte = |number: u32| u8::try_from(1 + number % 250).expect("less than 256");
    (Ipv4Addr::new(127, byte(process / 250), byte(process), byte(number)), 0).into()
}

async fn serve(listener: TcpListener, tls: Option<TlsAcceptor>, engine: Arc<TransitEngine>) {
    while let Ok((stream, _)) = listener.accept().await {
        let (tls, engine) = (tls.clone(), Arc::clone(&engine));
        tokio::spawn(async move {
            match tls {
                None => serve_connection(stream, engine).await,
                Some(acceptor) => {
                    // A client that trusts another authority disconnects here.
                    let Ok(stream) = acceptor.accept(stream).await else { return };
                    serve_connection(stream, engine).await;
                }
            }
        });
    }
}

async fn serve_connection(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    engine: Arc<TransitEngine>,
) {
    let answer = service_fn(move |request| {
        let engine = Arc::clone(&engine);
        async move { Ok::<_, Infallible>(engine.answer(request).await) }
    });
    let served = http1::Builder::new().serve_connection(TokioIo::new(stream), answer).await;
    // An error means that the client disconnected or that a fault truncated the answer.
    served.unwrap_or_default();
}

impl TransitEngine {
    async fn answer(&self, request: hyper::Request<Incoming>) -> hyper::Response<SentBytes> {
        let (head, body) = request.into_parts();
        // A client that disconnects during its request reads no answer.
        let body = body.collect().await.map(|body| body.to_bytes().to_vec()).unwrap_or_default();
        let request = Request {
            method: head.method,
            host: HOST.to_owned(),
            path: head.uri.path().to_owned(),
            raw_query: head.uri.query().unwrap_or_default().to_owned(),
            headers: head.headers,
            body,
        };
        held(&self.requests).push(request.clone());
        match self.faults.take(&request) {
            Some(fault) => fault.answer(|| held(&self.state).answer(&request)).await.into(),
            None => held(&self.state).answer(&request).into(),
        }
    }
}

#[cfg(test)]
mod tests;

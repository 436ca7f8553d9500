//! A service that keeps the key of a seal: a real HTTP or HTTPS server on a loopback address of its
//! own, which can be killed and come back at the same port, and whose answers can fail. The state
//! of the service answers the requests.

use crate::internet::fault::Faults;
use crate::internet::proxy::{SentBytes, SiteAuthority};
use crate::internet::{Fault, Request, Response, held};
use crate::wait;
use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use std::convert::Infallible;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpListener;
use tokio::runtime::Runtime;
use tokio_rustls::TlsAcceptor;

/// Host of the faults.
const HOST: &str = "key-service";

/// Longest wait for the port of a killed server.
const PORT_WAIT: Duration = Duration::from_secs(10);

/// The state of a service, which survives a kill.
pub trait ServiceState: Send + 'static {
    /// Returns the answer of a server without faults.
    fn answer(&mut self, request: &Request) -> Response;

    /// Returns the path by which a fault finds the request.
    fn fault_path(request: &Request) -> String {
        request.path.clone()
    }
}

/// A running or killed service.
pub struct KeyService<S> {
    address: SocketAddr,
    engine: Arc<ServiceEngine<S>>,
    tls: Option<(SiteAuthority, TlsAcceptor)>,
    /// Runs the server; `None` after [`KeyService::kill`]. All connections end with the runtime.
    runtime: Option<Runtime>,
}

/// The part that survives a kill.
struct ServiceEngine<S> {
    state: Mutex<S>,
    faults: Faults,
    requests: Mutex<Vec<Request>>,
}

impl<S: ServiceState> KeyService<S> {
    /// Starts a server over plain HTTP.
    pub fn start(state: S) -> Self {
        Self::on(free_address(), None, state)
    }

    /// Starts a server over TLS.
    pub fn start_with_tls(state: S) -> Self {
        let address = free_address();
        let authority = SiteAuthority::new();
        let acceptor = authority.acceptor(&address.ip().to_string());
        Self::on(address, Some((authority, acceptor)), state)
    }

    fn on(address: SocketAddr, tls: Option<(SiteAuthority, TlsAcceptor)>, state: S) -> Self {
        let (state, requests) = (Mutex::new(state), Mutex::default());
        let engine = Arc::new(ServiceEngine { state, faults: Faults::default(), requests });
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

    /// Returns the state.
    pub fn state(&self) -> MutexGuard<'_, S> {
        held(&self.engine.state)
    }

    /// Ends the server with all connections: a client is refused.
    pub fn kill(&mut self) {
        let runtime = self.runtime.take().expect("the server runs");
        runtime.shutdown_timeout(PORT_WAIT);
    }

    /// Starts a killed server at the same port, with the same state.
    pub fn start_again(&mut self) {
        assert!(self.runtime.is_none(), "the server runs already");
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .build()
            .expect("threads");
        let bind = || runtime.block_on(TcpListener::bind(self.address));
        let (listener, _) = wait::until_ok("the port of the key service", PORT_WAIT, bind);
        self.address = listener.local_addr().expect("a port of ours");
        let acceptor = self.tls.as_ref().map(|(_, acceptor)| acceptor.clone());
        runtime.spawn(serve(listener, acceptor, Arc::clone(&self.engine)));
        self.runtime = Some(runtime);
    }

    /// Injects a fault into the next `times` requests whose [`ServiceState::fault_path`] begins
    /// with `path`.
    pub fn fail(&self, path: &str, fault: Fault, times: usize) {
        self.engine.faults.add(HOST, path, fault, times);
    }

    /// Ends all faults.
    pub fn heal(&self) {
        self.engine.faults.clear();
    }

    /// Returns every request that arrived completely.
    pub fn requests(&self) -> Vec<Request> {
        held(&self.engine.requests).clone()
    }
}

impl<S> Drop for KeyService<S> {
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

async fn serve<S: ServiceState>(
    listener: TcpListener,
    tls: Option<TlsAcceptor>,
    engine: Arc<ServiceEngine<S>>,
) {
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

async fn serve_connection<S: ServiceState>(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    engine: Arc<ServiceEngine<S>>,
) {
    let answer = service_fn(move |request| {
        let engine = Arc::clone(&engine);
        async move { Ok::<_, Infallible>(engine.answer(request).await) }
    });
    let served = http1::Builder::new().serve_connection(TokioIo::new(stream), answer).await;
    // An error means that the client disconnected or that a fault truncated the answer.
    served.unwrap_or_default();
}

impl<S: ServiceState> ServiceEngine<S> {
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
        let named = Request { path: S::fault_path(&request), ..request.clone() };
        match self.faults.take(&named) {
            Some(fault) => fault.answer(|| held(&self.state).answer(&request)).await.into(),
            None => held(&self.state).answer(&request).into(),
        }
    }
}

//! The proxy: `CONNECT` to a known host becomes TLS with a certificate for that name. A plain
//! request is answered directly.

use super::fault::PreparedAnswer;
use super::message::{Request, Response};
use super::{SimulatedSites, held};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http_body_util::BodyExt as _;
use hyper::body::{Body, Bytes, Frame, Incoming, SizeHint};
use hyper::header::{CONTENT_LENGTH, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, StatusCode};
use hyper_util::rt::TokioIo;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use std::convert::Infallible;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

/// The authority of all sites' certificates.
pub(crate) struct SiteAuthority {
    issuer: CertifiedIssuer<'static, KeyPair>,
    pem: String,
}

impl SiteAuthority {
    pub(crate) fn new() -> Self {
        let mut own = CertificateParams::new(Vec::new()).expect("an authority");
        own.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().expect("a key");
        let issuer = CertifiedIssuer::self_signed(own, key).expect("an authority");
        let pem = issuer.pem();
        Self { issuer, pem }
    }

    pub(crate) fn pem(&self) -> &str {
        &self.pem
    }

    pub(crate) fn acceptor(&self, host: &str) -> TlsAcceptor {
        let key = KeyPair::generate().expect("a key");
        let certificate = CertificateParams::new(vec![host.to_owned()]).expect("a name");
        let certificate = certificate.signed_by(&key, &self.issuer).expect("a certificate");
        let chain = vec![CertificateDer::from(certificate.der().to_vec())];
        let key = PrivateKeyDer::from_pem_slice(key.serialize_pem().as_bytes()).expect("a key");
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .expect("versions")
            .with_no_client_auth()
            .with_single_cert(chain, key)
            .expect("a chain and its key");
        TlsAcceptor::from(Arc::new(config))
    }
}

/// Serves until the runtime ends.
pub(super) async fn serve(listener: TcpListener, world: Arc<SimulatedSites>) {
    while let Ok((stream, _)) = listener.accept().await {
        let world = Arc::clone(&world);
        let answer = service_fn(move |request| {
            let world = Arc::clone(&world);
            async move { Ok::<_, Infallible>(at_the_proxy(request, world).await) }
        });
        let served = http1::Builder::new().serve_connection(TokioIo::new(stream), answer);
        // A client may disconnect at any time.
        tokio::spawn(served.with_upgrades());
    }
}

async fn at_the_proxy(
    request: hyper::Request<Incoming>,
    world: Arc<SimulatedSites>,
) -> hyper::Response<SentBytes> {
    let shown = request.headers().get("proxy-authorization").cloned();
    let host = request.uri().host().unwrap_or_default().to_ascii_lowercase();
    if request.method() == Method::CONNECT {
        held(&world.tunnels).push(request.uri().to_string());
    }
    if !is_welcome(&world, shown.as_ref()) {
        return Response::empty(407).with("proxy-authenticate", "Basic").into();
    }
    if world.site(&host).is_none() {
        return Response::text(502, "no such host").into();
    }
    if request.method() != Method::CONNECT {
        return answer(request, host, &world).await;
    }
    tokio::spawn(async move {
        let Ok(upgraded) = hyper::upgrade::on(request).await else { return };
        let acceptor = world.authority.acceptor(&host);
        // A client that trusts another authority disconnects here.
        let Ok(stream) = acceptor.accept(TokioIo::new(upgraded)).await else { return };
        behind_tls(stream, host, world).await;
    });
    Response::empty(200).into()
}

fn is_welcome(world: &SimulatedSites, shown: Option<&HeaderValue>) -> bool {
    let wanted = held(&world.credentials);
    let Some(wanted) = wanted.as_deref() else { return true };
    let wanted = format!("Basic {}", STANDARD.encode(wanted));
    shown.is_some_and(|shown| shown.as_bytes() == wanted.as_bytes())
}

async fn behind_tls(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    host: String,
    world: Arc<SimulatedSites>,
) {
    let answer = service_fn(move |request| {
        let (host, world) = (host.clone(), Arc::clone(&world));
        async move { Ok::<_, Infallible>(answer(request, host, &world).await) }
    });
    let served = http1::Builder::new().serve_connection(TokioIo::new(stream), answer).await;
    // An error means that the client disconnected or that a fault truncated the answer.
    served.unwrap_or_default();
}

/// Returns the answer of the site at `host`, or of a fault.
async fn answer(
    request: hyper::Request<Incoming>,
    host: String,
    world: &SimulatedSites,
) -> hyper::Response<SentBytes> {
    let (head, body) = request.into_parts();
    // A client that disconnects during its request reads no answer.
    let body = body.collect().await.map(|body| body.to_bytes().to_vec()).unwrap_or_default();
    let request = Request {
        method: head.method,
        host: host.clone(),
        path: head.uri.path().to_owned(),
        raw_query: head.uri.query().unwrap_or_default().to_owned(),
        headers: head.headers,
        body,
    };
    held(&world.requests).push(request.clone());
    let Some(site) = world.site(&host) else { return Response::empty(502).into() };
    match world.faults.take(&request) {
        Some(fault) => fault.answer(move || site(&request)).await.into(),
        None => site(&request).into(),
    }
}

/// The bytes of an answer, optionally with a premature end.
pub(crate) struct SentBytes {
    bytes: Option<Bytes>,
    end: AnswerEnd,
}

/// End of an answer.
#[derive(Clone, Copy, PartialEq, Eq)]
enum AnswerEnd {
    Whole,
    /// A premature end after the bytes have been sent.
    Soon,
    Now,
}

impl Body for SentBytes {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, io::Error>>> {
        match (self.bytes.take(), self.end) {
            (Some(bytes), _) => Poll::Ready(Some(Ok(Frame::data(bytes)))),
            (None, AnswerEnd::Whole) => Poll::Ready(None),
            (None, AnswerEnd::Soon) => {
                self.end = AnswerEnd::Now;
                context.waker().wake_by_ref();
                Poll::Pending
            }
            (None, AnswerEnd::Now) => Poll::Ready(Some(Err(io::Error::other("cut short")))),
        }
    }

    fn is_end_stream(&self) -> bool {
        self.bytes.is_none() && self.end == AnswerEnd::Whole
    }

    fn size_hint(&self) -> SizeHint {
        match self.end {
            AnswerEnd::Whole => {
                SizeHint::with_exact(self.bytes.as_ref().map_or(0, Bytes::len) as u64)
            }
            AnswerEnd::Soon | AnswerEnd::Now => SizeHint::default(),
        }
    }
}

impl From<Response> for hyper::Response<SentBytes> {
    fn from(response: Response) -> Self {
        PreparedAnswer::from(response).into()
    }
}

impl From<PreparedAnswer> for hyper::Response<SentBytes> {
    fn from(sent: PreparedAnswer) -> Self {
        let PreparedAnswer { response, missing } = sent;
        let claimed = response.body.len() + missing;
        let bytes = Some(Bytes::from(response.body)).filter(|bytes| !bytes.is_empty());
        let end = if missing > 0 { AnswerEnd::Soon } else { AnswerEnd::Whole };
        let mut answer = Self::new(SentBytes { bytes, end });
        *answer.status_mut() = StatusCode::from_u16(response.status).expect("a status");
        *answer.headers_mut() = *response.headers;
        if missing > 0 {
            answer.headers_mut().insert(CONTENT_LENGTH, HeaderValue::from(claimed));
        }
        answer
    }
}

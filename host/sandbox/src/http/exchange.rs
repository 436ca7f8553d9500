//! A request and its answer: resolves the name, checks the addresses, dials a checked address,
//! starts TLS and sends the request. With a proxy, the proxy dials a granted name instead. A
//! request that changes nothing may reuse an idle connection.

use super::dial::dial;
use super::fault::{HttpFault, ProxyFault};
use super::kept::{Kept, Purpose};
use super::line::{Answered, Line};
use super::meter::Meter;
use super::tls::Secured;
use super::tunnel;
use crate::compartment::Connection;
use crate::grants::{self, Origin, Reach};
use crate::limits;
use crate::outbound::Proxy;
use http_body_util::Full;
use hyper::body::Bytes;
use std::net::SocketAddr;
use std::sync::Arc;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::{Instant, timeout_at};
use tokio_rustls::TlsConnector;

/// The target and the limits of a request.
pub(crate) struct Exchange {
    pub(crate) origin: Origin,
    pub(crate) reach: Reach,
    /// The proxy between Bulkhead and the server, if any.
    pub(crate) proxy: Option<Arc<Proxy>>,
    /// `None`: the request goes in clear.
    pub(crate) secured: Option<Secured>,
    pub(crate) until: Instant,
    pub(crate) meter: Meter,
    /// The mount's connection slot, held until the answer is complete.
    pub(crate) connection: Connection,
    /// `None`: the request is a change and has its own connection.
    pub(crate) keeping: Option<Keeping>,
}

/// The idle connections, and the purpose of the request's connection.
pub(crate) struct Keeping {
    pub(crate) kept: Arc<Kept>,
    pub(crate) purpose: Purpose,
}

/// Sends `request` and waits for its answer. Dropping the future closes the connection.
pub(crate) async fn exchange(
    asked: Exchange,
    request: hyper::Request<Full<Bytes>>,
) -> Result<Answered, HttpFault> {
    let until = asked.until;
    timeout_at(until, carry_out(asked, request)).await.unwrap_or(Err(HttpFault::TimedOut))
}

async fn carry_out(
    asked: Exchange,
    request: hyper::Request<Full<Bytes>>,
) -> Result<Answered, HttpFault> {
    let Exchange { origin, reach, proxy, secured, meter, connection, keeping, .. } = asked;
    let answered = match (proxy, keeping) {
        (Some(proxy), _) => {
            tunnel::check(&origin, &reach)?;
            Box::pin(converse_through(&proxy, &origin, secured, meter, request)).await
        }
        (None, None) => {
            let (mut line, _) = dialled(&origin, &reach, secured).await?;
            Ok(line.ask(request, meter, limits::HTTP_ANSWER_BYTES).await?)
        }
        (None, Some(keeping)) => {
            // Boxed, because the dialling future is large and the future of a request is moved.
            let dialled = async || Box::pin(dialled(&origin, &reach, secured)).await;
            let may = |address| reach.admit(address).is_ok();
            ask_again(keeping, may, dialled, meter, request).await
        }
    };
    drop(connection);
    answered
}

/// Asks over an idle connection, and over a new connection if the server closed the idle connection
/// meanwhile. Keeps the connection afterwards. Only for a request that changes nothing, because the
/// server may receive the request twice.
async fn ask_again(
    Keeping { kept, purpose }: Keeping,
    may: impl Fn(SocketAddr) -> bool,
    dialled: impl AsyncFnOnce() -> Result<(Line, SocketAddr), HttpFault>,
    meter: Meter,
    request: hyper::Request<Full<Bytes>>,
) -> Result<Answered, HttpFault> {
    let most = limits::HTTP_ANSWER_BYTES;
    if let Some((mut line, address)) = kept.take(&purpose, may) {
        match line.ask(request.clone(), meter.clone(), most).await {
            Ok(answered) => {
                kept.keep(purpose, line, address);
                return Ok(answered);
            }
            Err(unanswered) if !unanswered.is_silent => return Err(unanswered.into()),
            Err(_) => {}
        }
    }
    let (mut line, address) = dialled().await?;
    let answered = line.ask(request, meter, most).await?;
    kept.keep(purpose, line, address);
    Ok(answered)
}

/// Connects to a checked address. Also returns the address.
async fn dialled(
    origin: &Origin,
    reach: &Reach,
    secured: Option<Secured>,
) -> Result<(Line, SocketAddr), HttpFault> {
    let host = origin.host.to_string();
    let addresses = grants::resolve(&host, origin.port, reach).await?;
    let stream = dial(&addresses).await?;
    let address = stream.peer_addr().map_err(|error| HttpFault::Broken(error.kind()))?;
    Ok((open(stream, secured).await?, address))
}

async fn open(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    secured: Option<Secured>,
) -> Result<Line, HttpFault> {
    let Some(Secured { config, name }) = secured else { return Line::over(stream).await };
    let stream = TlsConnector::from(config).connect(name, stream).await;
    Line::over(stream.map_err(|error| HttpFault::of(&error))?).await
}

/// Asks through the proxy. A request with TLS goes through a tunnel, and the proxy sees only the
/// server's name. A request in clear goes to the proxy itself, so a status of 407 is the proxy's
/// own.
async fn converse_through(
    proxy: &Proxy,
    origin: &Origin,
    secured: Option<Secured>,
    meter: Meter,
    mut request: hyper::Request<Full<Bytes>>,
) -> Result<Answered, HttpFault> {
    if secured.is_some() {
        let mut line = open(tunnel::open(proxy, origin).await?, secured).await?;
        return Ok(line.ask(request, meter, limits::HTTP_ANSWER_BYTES).await?);
    }
    tunnel::address(&mut request, proxy, origin)?;
    let mut line = Line::over(tunnel::connect(proxy).await?).await?;
    let answered = line.ask(request, meter, limits::HTTP_ANSWER_BYTES).await?;
    match answered.status {
        407 => Err(ProxyFault::Refused(407).into()),
        _ => Ok(answered),
    }
}

/// Asks the metadata service at `address`, in clear, because the service is on the machine's own
/// link. No component chose the address.
pub(crate) async fn ask_metadata(
    address: SocketAddr,
    until: Instant,
    meter: Meter,
    request: hyper::Request<Full<Bytes>>,
) -> Result<Answered, HttpFault> {
    let asked = async {
        let mut line = Line::over(dial(&[address]).await?).await?;
        Ok::<_, HttpFault>(line.ask(request, meter, limits::METADATA_ANSWER_BYTES).await?)
    };
    timeout_at(until, asked).await.unwrap_or(Err(HttpFault::TimedOut))
}

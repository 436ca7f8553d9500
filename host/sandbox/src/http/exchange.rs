//! One request and its answer: resolve, vet, dial what was vetted, or have a proxy dial what was
//! granted; secure, speak. What changes nothing may go over a connection that was kept.

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

/// Where a request goes, and what may be spent on it.
pub(crate) struct Exchange {
    pub(crate) origin: Origin,
    pub(crate) reach: Reach,
    /// What stands between here and the server; `None`: nothing.
    pub(crate) proxy: Option<Arc<Proxy>>,
    /// `None`: in the clear.
    pub(crate) secured: Option<Secured>,
    pub(crate) until: Instant,
    pub(crate) meter: Meter,
    /// The mount's right to it, which lasts as long.
    pub(crate) connection: Connection,
    /// `None`: a change, which has a connection of its own.
    pub(crate) keeping: Option<Keeping>,
}

/// Where connections are kept, and for what.
pub(crate) struct Keeping {
    pub(crate) kept: Arc<Kept>,
    pub(crate) purpose: Purpose,
}

/// Sends `request` and waits for its answer. Dropping it ends the connection.
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
            // Its own future, where it is needed at all: it is large, and a request's is moved.
            let dialled = async || Box::pin(dialled(&origin, &reach, secured)).await;
            let may = |address| reach.admit(address).is_ok();
            ask_again(keeping, may, dialled, meter, request).await
        }
    };
    drop(connection);
    answered
}

/// Over a connection that was kept, unless its server closed it meanwhile; else over a new one,
/// which is kept then. For what changes nothing, and so may be asked twice.
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

/// A new connection to an address that was vetted, and which one that is.
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

/// With TLS through a tunnel, of which the proxy sees the server's name alone; in the clear by
/// asking the proxy, which answers 407 only for itself.
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

/// Asks the metadata service at `address`, which no component named, in the clear: it is of the
/// machine's own link.
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

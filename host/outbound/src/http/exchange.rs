//! A request and its answer: resolves the name, checks the addresses, dials a checked address,
//! starts TLS and sends the request. With a proxy, the proxy dials a granted name instead. A
//! request that changes nothing may reuse an idle connection.

use super::dial::dial;
use super::fault::{HttpFault, ProxyFault};
use super::line::{HttpAnswer, HttpConnection};
use super::meter::ByteMeter;
use super::pool::{ConnectionPool, HttpPoolKey};
use super::tls::HttpTlsSettings;
use super::tunnel;
use crate::addresses::{self, AddressRemedy, AllowedAddresses, Origin};
use crate::connections::ConnectionPermit;
use crate::limits;
use crate::proxy::HttpProxy;
use http_body_util::Full;
use hyper::body::Bytes;
use std::net::SocketAddr;
use std::sync::Arc;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::{Instant, timeout_at};

/// The target and the limits of a request.
pub struct HttpExchange {
    /// The server.
    pub origin: Origin,
    /// The addresses to which its name may resolve.
    pub reach: AllowedAddresses,
    /// The proxy between Bulkhead and the server, if any.
    pub proxy: Option<Arc<HttpProxy>>,
    /// `None`: the request goes in clear.
    pub secured: Option<HttpTlsSettings>,
    /// The latest end of the exchange.
    pub until: Instant,
    /// Counts the bytes of the exchange.
    pub meter: ByteMeter,
    /// The mount's connection slot, held until the answer is complete.
    pub connection: ConnectionPermit,
    /// `None`: the request is a change and has its own connection.
    pub keeping: Option<ConnectionReuse>,
}

/// The idle connections, and the purpose of the request's connection.
pub struct ConnectionReuse {
    /// The idle connections.
    pub kept: Arc<ConnectionPool>,
    /// The key of the connection.
    pub purpose: HttpPoolKey,
}

/// Sends `request` and waits for its answer. Dropping the future closes the connection.
pub async fn exchange(
    http_exchange: HttpExchange,
    request: hyper::Request<Full<Bytes>>,
) -> Result<HttpAnswer, HttpFault> {
    let until = http_exchange.until;
    timeout_at(until, carry_out(http_exchange, request)).await.unwrap_or(Err(HttpFault::TimedOut))
}

async fn carry_out(
    http_exchange: HttpExchange,
    request: hyper::Request<Full<Bytes>>,
) -> Result<HttpAnswer, HttpFault> {
    let HttpExchange { origin, reach, proxy, secured, meter, connection, keeping, .. } =
        http_exchange;
    let answered = match (proxy, keeping) {
        (Some(proxy), _) => {
            tunnel::check(&origin, &reach)?;
            Box::pin(send_through_proxy(&proxy, &origin, secured, meter, request)).await
        }
        (None, None) => {
            let (mut http_connection, _) = dial_server(&origin, &reach, secured).await?;
            Ok(http_connection.send_metered(request, meter, limits::HTTP_ANSWER_BYTES).await?)
        }
        (None, Some(keeping)) => {
            // Boxed, because the dialling future is large and the future of a request is moved.
            let dialled = async || Box::pin(dial_server(&origin, &reach, secured)).await;
            let may = |address| reach.check_address(address).is_ok();
            send_reusing(keeping, may, dialled, meter, request).await
        }
    };
    drop(connection);
    answered
}

/// Asks over an idle connection, and over a new connection if the server closed the idle connection
/// meanwhile. Keeps the connection afterwards. Only for a request that changes nothing, because the
/// server may receive the request twice.
async fn send_reusing(
    ConnectionReuse { kept: pool, purpose }: ConnectionReuse,
    may: impl Fn(SocketAddr) -> bool,
    dialled: impl AsyncFnOnce() -> Result<(HttpConnection, SocketAddr), HttpFault>,
    meter: ByteMeter,
    request: hyper::Request<Full<Bytes>>,
) -> Result<HttpAnswer, HttpFault> {
    let most = limits::HTTP_ANSWER_BYTES;
    if let Some((mut connection, address)) = pool.take(&purpose, may) {
        match connection.send_metered(request.clone(), meter.clone(), most).await {
            Ok(answered) => {
                pool.keep(purpose, connection, address);
                return Ok(answered);
            }
            Err(unanswered) if !unanswered.is_silent => return Err(unanswered.into()),
            Err(_) => {}
        }
    }
    let (mut connection, address) = dialled().await?;
    let answered = connection.send_metered(request, meter, most).await?;
    pool.keep(purpose, connection, address);
    Ok(answered)
}

/// Connects to a checked address. Also returns the address.
async fn dial_server(
    origin: &Origin,
    reach: &AllowedAddresses,
    secured: Option<HttpTlsSettings>,
) -> Result<(HttpConnection, SocketAddr), HttpFault> {
    let host = origin.host.to_string();
    let addresses = addresses::resolve(&host, origin.port, reach).await?;
    let stream = dial(&addresses).await?;
    let address = stream.peer_addr().map_err(|error| HttpFault::Broken(error.kind()))?;
    Ok((open(stream, secured).await?, address))
}

async fn open(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    secured: Option<HttpTlsSettings>,
) -> Result<HttpConnection, HttpFault> {
    let Some(HttpTlsSettings { client, name }) = secured else {
        return HttpConnection::over(stream).await;
    };
    let stream = client.connect(name, stream).await;
    HttpConnection::over(stream.map_err(|error| HttpFault::of(&error))?).await
}

/// Asks through the proxy. A request with TLS goes through a tunnel, and the proxy sees only the
/// server's name. A request in clear goes to the proxy itself, so a status of 407 is the proxy's
/// own.
async fn send_through_proxy(
    proxy: &HttpProxy,
    origin: &Origin,
    secured: Option<HttpTlsSettings>,
    meter: ByteMeter,
    mut request: hyper::Request<Full<Bytes>>,
) -> Result<HttpAnswer, HttpFault> {
    if secured.is_some() {
        let mut connection = open(tunnel::open(proxy, origin).await?, secured).await?;
        return Ok(connection.send_metered(request, meter, limits::HTTP_ANSWER_BYTES).await?);
    }
    tunnel::address(&mut request, proxy, origin)?;
    let mut connection = HttpConnection::over(tunnel::connect(proxy).await?).await?;
    let answered = connection.send_metered(request, meter, limits::HTTP_ANSWER_BYTES).await?;
    match answered.status {
        407 => Err(ProxyFault::Refused(407).into()),
        _ => Ok(answered),
    }
}

/// A server that the configuration of this server names; no component or caller chose the server.
#[derive(Clone)]
pub struct ConfiguredServer {
    /// The server.
    pub origin: Origin,
    /// The proxy between Bulkhead and the server, if any.
    pub proxy: Option<Arc<HttpProxy>>,
    /// `None`: the requests go in clear.
    pub secured: Option<HttpTlsSettings>,
}

/// Asks a server of the configuration, over a separate connection. Redirects are answers. Private
/// and loopback addresses are allowed; metadata services and link-local addresses are not.
///
/// # Errors
/// There was no complete answer until `until`.
pub async fn ask_configured(
    server: ConfiguredServer,
    until: Instant,
    request: hyper::Request<Full<Bytes>>,
) -> Result<HttpAnswer, HttpFault> {
    let ConfiguredServer { origin, proxy, secured } = server;
    let reach = AllowedAddresses {
        networks: Vec::new(),
        everything: true,
        own: Arc::new([]),
        remedy: AddressRemedy::new(|_| "no grant applies".to_owned()),
    };
    let answer = async {
        let meter = ByteMeter::new(&Arc::default(), usize::MAX);
        if let Some(proxy) = proxy {
            tunnel::check(&origin, &reach)?;
            return Box::pin(send_through_proxy(&proxy, &origin, secured, meter, request)).await;
        }
        let (mut connection, _) = dial_server(&origin, &reach, secured).await?;
        let most = limits::METADATA_ANSWER_BYTES;
        Ok::<_, HttpFault>(connection.send_metered(request, meter, most).await?)
    };
    timeout_at(until, answer).await.unwrap_or(Err(HttpFault::TimedOut))
}

/// Asks the metadata service at `address`, in clear, because the service is on the machine's own
/// link. No component chose the address.
pub async fn ask_metadata(
    address: SocketAddr,
    until: Instant,
    meter: ByteMeter,
    request: hyper::Request<Full<Bytes>>,
) -> Result<HttpAnswer, HttpFault> {
    let answer = async {
        let mut connection = HttpConnection::over(dial(&[address]).await?).await?;
        Ok::<_, HttpFault>(
            connection.send_metered(request, meter, limits::METADATA_ANSWER_BYTES).await?,
        )
    };
    timeout_at(until, answer).await.unwrap_or(Err(HttpFault::TimedOut))
}

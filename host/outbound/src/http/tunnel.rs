//! A connection through the network's proxy: a tunnel to a server with TLS, or the proxy itself for
//! a request in clear.
//!
//! Nothing resolves the server's name here: the proxy gets the name that the component asked for
//! and was granted. This file prevents an endless answer of a proxy, a proxy that hangs, and
//! sending the proxy's credentials to a server behind the proxy.

use super::dial::dial;
use super::fault::{HttpFault, ProxyFault};
use crate::addresses::{AddressRefusal, AllowedAddresses, Origin, ServerHost};
use crate::limits;
use crate::proxy::{self, HttpProxy};
use http_body_util::{Empty, Full};
use hyper::body::Bytes;
use hyper::client::conn::http1;
use hyper::header::{HOST, HeaderValue, PROXY_AUTHORIZATION};
use hyper::upgrade::Upgraded;
use hyper::{Method, Request, Uri};
use hyper_util::rt::TokioIo;
use std::net::SocketAddr;
use std::pin::pin;
use tokio::net::TcpStream;
use tokio::time::timeout;

/// Checks a server behind a proxy. A literal address needs the same grant as without a proxy, and a
/// cloud's metadata service is never reached through a proxy.
pub(super) fn check(origin: &Origin, reach: &AllowedAddresses) -> Result<(), HttpFault> {
    match &origin.host {
        ServerHost::Address(address) => {
            reach.check_address(SocketAddr::new(*address, origin.port)).map_err(HttpFault::from)
        }
        ServerHost::Name(name) if proxy::is_metadata(name) => {
            Err(AddressRefusal::Forbidden("a cloud's metadata service").into())
        }
        ServerHost::Name(_) => Ok(()),
    }
}

/// Opens a tunnel to `origin`.
pub(super) async fn open(
    proxy: &HttpProxy,
    origin: &Origin,
) -> Result<TokioIo<Upgraded>, ProxyFault> {
    let stream = connect(proxy).await?;
    let opened = timeout(limits::PROXY_ANSWER_TIME, ask(stream, proxy, origin));
    opened.await.unwrap_or(Err(ProxyFault::TimedOut))
}

/// Connects to the proxy. The operator configures the proxy, so the proxy needs no grant.
pub(super) async fn connect(proxy: &HttpProxy) -> Result<TcpStream, ProxyFault> {
    let addresses: Vec<SocketAddr> = match &proxy.host {
        ServerHost::Address(address) => vec![SocketAddr::new(*address, proxy.port)],
        ServerHost::Name(name) => {
            let found = timeout(
                limits::HTTP_CONNECT_TIME,
                tokio::net::lookup_host((name.as_str(), proxy.port)),
            );
            found
                .await
                .map_err(|_| ProxyFault::TimedOut)?
                .map_err(|_| ProxyFault::Unknown)?
                .collect()
        }
    };
    dial(&addresses).await.map_err(|fault| match fault {
        HttpFault::Broken(kind) => ProxyFault::Broken(kind),
        HttpFault::TimedOut => ProxyFault::TimedOut,
        _ => ProxyFault::Unknown,
    })
}

async fn ask(
    stream: TcpStream,
    proxy: &HttpProxy,
    origin: &Origin,
) -> Result<TokioIo<Upgraded>, ProxyFault> {
    let request = connecting(proxy, origin).ok_or(ProxyFault::NotHttp)?;
    let mut http = http1::Builder::new();
    http.max_buf_size(limits::PROXY_ANSWER_HEAD_BYTES)
        .max_header_size(limits::PROXY_ANSWER_HEAD_BYTES);
    let broken = |error: hyper::Error| ProxyFault::of(&HttpFault::of(&error));
    let (mut sender, connection) = http.handshake(TokioIo::new(stream)).await.map_err(broken)?;
    let answer = async move {
        let mut response = sender.send_request(request).await.map_err(broken)?;
        if !response.status().is_success() {
            return Err(ProxyFault::Refused(response.status().as_u16()));
        }
        hyper::upgrade::on(&mut response).await.map(TokioIo::new).map_err(broken)
    };
    let (mut connection, mut answer) = (pin!(connection.with_upgrades()), pin!(answer));
    tokio::select! {
        answered = &mut answer => return answered,
        // The connection also ends by becoming the tunnel; the answer shows which end it was.
        _ = &mut connection => {}
    }
    answer.await
}

/// Builds the request `CONNECT host:port`. `None`: the name cannot be sent.
fn connecting(proxy: &HttpProxy, origin: &Origin) -> Option<Request<Empty<Bytes>>> {
    let authority = format!("{}:{}", origin.host, origin.port);
    let mut request = Request::new(Empty::new());
    *request.method_mut() = Method::CONNECT;
    *request.uri_mut() = Uri::builder().authority(authority.as_str()).build().ok()?;
    request.headers_mut().insert(HOST, HeaderValue::from_str(&authority).ok()?);
    if let Some(shown) = &proxy.authorization {
        request.headers_mut().insert(PROXY_AUTHORIZATION, shown.clone());
    }
    Some(request)
}

/// Rewrites a request in clear for the proxy: with the whole URL and the proxy's credentials.
pub(super) fn address(
    request: &mut Request<Full<Bytes>>,
    proxy: &HttpProxy,
    origin: &Origin,
) -> Result<(), ProxyFault> {
    let full_url = format!("{origin}{}", request.uri());
    *request.uri_mut() = full_url.parse().map_err(|_| ProxyFault::NotHttp)?;
    if let Some(shown) = &proxy.authorization {
        request.headers_mut().insert(PROXY_AUTHORIZATION, shown.clone());
    }
    Ok(())
}

//! One request and its answer: resolve, vet, dial what was vetted, or have a proxy dial what was
//! granted; secure, speak.

use super::dial::dial;
use super::fault::{HttpFault, ProxyFault};
use super::meter::{Meter, Metered};
use super::tls::Secured;
use super::tunnel;
use crate::compartment::Connection;
use crate::grants::{self, Origin, Reach};
use crate::limits;
use crate::outbound::Proxy;
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::body::{Bytes, Incoming};
use hyper::client::conn::http1;
use hyper::{HeaderMap, Response};
use hyper_util::rt::TokioIo;
use std::net::SocketAddr;
use std::pin::pin;
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
}

/// A server's answer, whole. No `Debug`: it may hold a token.
pub(crate) struct Answered {
    pub(crate) status: u16,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Bytes,
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
    let Exchange { origin, reach, proxy, secured, meter, connection, .. } = asked;
    let answered = match proxy {
        Some(proxy) => {
            tunnel::check(&origin, &reach)?;
            converse_through(&proxy, &origin, secured, meter, request).await
        }
        None => {
            let host = origin.host.to_string();
            let addresses = grants::resolve(&host, origin.port, &reach).await?;
            converse(dial(&addresses).await?, secured, meter, request).await
        }
    };
    drop(connection);
    answered
}

async fn converse(
    stream: impl AsyncRead + AsyncWrite + Unpin + 'static,
    secured: Option<Secured>,
    meter: Meter,
    request: hyper::Request<Full<Bytes>>,
) -> Result<Answered, HttpFault> {
    let Some(Secured { config, name }) = secured else {
        return speak(stream, meter, request, limits::HTTP_ANSWER_BYTES).await;
    };
    let stream = TlsConnector::from(config).connect(name, stream).await;
    let stream = stream.map_err(|error| HttpFault::of(&error))?;
    speak(stream, meter, request, limits::HTTP_ANSWER_BYTES).await
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
        return converse(tunnel::open(proxy, origin).await?, secured, meter, request).await;
    }
    tunnel::address(&mut request, proxy, origin)?;
    let answered = converse(tunnel::connect(proxy).await?, None, meter, request).await?;
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
        let stream = dial(&[address]).await?;
        speak(stream, meter, request, limits::METADATA_ANSWER_BYTES).await
    };
    timeout_at(until, asked).await.unwrap_or(Err(HttpFault::TimedOut))
}

async fn speak(
    stream: impl AsyncRead + AsyncWrite + Unpin + 'static,
    meter: Meter,
    request: hyper::Request<Full<Bytes>>,
    most: usize,
) -> Result<Answered, HttpFault> {
    let io = TokioIo::new(Metered::new(stream, meter));
    let mut http = http1::Builder::new();
    // The one bounds what is read at a time, and only the other a head.
    http.max_buf_size(limits::HTTP_ANSWER_HEAD_BYTES)
        .max_header_size(limits::HTTP_ANSWER_HEAD_BYTES);
    let (mut sender, connection) =
        http.handshake(io).await.map_err(|error| HttpFault::of(&error))?;
    let answer = async move {
        let response = sender.send_request(request).await.map_err(|error| HttpFault::of(&error))?;
        read_whole(response, most).await
    };
    let (mut connection, mut answer) = (pin!(connection), pin!(answer));
    tokio::select! {
        answered = &mut answer => return answered,
        // What it read before its end is still there, and the answer says by itself how it ended.
        _ = &mut connection => {}
    }
    answer.await
}

async fn read_whole(response: Response<Incoming>, most: usize) -> Result<Answered, HttpFault> {
    let (head, body) = response.into_parts();
    if head.status.is_informational() {
        // Another protocol was not asked for.
        return Err(HttpFault::NotHttp);
    }
    let body = Limited::new(body, most).collect().await;
    let body = body.map_err(|error| HttpFault::of(error.as_ref()))?;
    Ok(Answered {
        status: head.status.as_u16(),
        headers: texts(&head.headers),
        body: body.to_bytes(),
    })
}

fn texts(headers: &HeaderMap) -> Vec<(String, String)> {
    let text =
        |value: &hyper::header::HeaderValue| String::from_utf8_lossy(value.as_bytes()).into_owned();
    headers.iter().map(|(name, value)| (name.as_str().to_owned(), text(value))).collect()
}

//! From an HTTP request to a [`Request`] and from a [`Response`] back: sizes, times, headers,
//! token.
//!
//! The attacks this file stops: bodies without end or in drops, more of them than there is memory
//! (see [`Bodies`]), and a client that hangs up halfway: what began for it goes on without it, see
//! [`Unbroken`].

use crate::bodies::{Bodies, Held};
use crate::config::Listener;
use crate::crowd::{Crowd, Served};
use crate::unbroken::{Panicked, Unbroken};
use crate::{headers, target};
use bulkhead_core::Service;
use bulkhead_core::random;
use bulkhead_wire::description::Verb;
use bulkhead_wire::failure::{Failure, Kind};
use bulkhead_wire::json;
use bulkhead_wire::request::{RawBody, Request};
use bulkhead_wire::response::Response;
use bulkhead_wire::size;
use http_body_util::{BodyExt, Full};
use hyper::StatusCode;
use hyper::body::{Body, Bytes};
use hyper::header::{
    CACHE_CONTROL, CONNECTION, CONTENT_LENGTH, CONTENT_TYPE, EXPECT, HeaderMap, HeaderValue,
    RETRY_AFTER, TRANSFER_ENCODING,
};
use hyper::http::request::Parts;
use serde_json::{Map, Value};
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc;

/// Of a body that is too large so many times the limit is read all the same: a client that is still
/// sending does not see the answer.
const DRAIN: u64 = 2;

/// How long a body may take to arrive, unless `request_timeout` is shorter.
const BODY_TIME: Duration = Duration::from_secs(30);

/// What stands behind the listener.
pub trait Answerer: Send + Sync + 'static {
    /// Answers one request; never fails, because failures are answers.
    fn answer(self: Arc<Self>, request: Request) -> impl Future<Output = Response> + Send;
}

impl Answerer for Service {
    async fn answer(self: Arc<Self>, request: Request) -> Response {
        self.handle(request).await
    }
}

/// Serves requests of every connection of a listener.
pub struct Front<A> {
    answerer: Arc<A>,
    told: Listener,
    bodies: Arc<Bodies>,
    crowd: Arc<Crowd>,
    /// Each request's task holds a clone, so that the receiver learns when the last has ended.
    work: mpsc::Sender<()>,
}

/// What goes out.
pub type Reply = hyper::Response<Full<Bytes>>;

/// A request, the room that its body takes while it is worked on, and its count where it came
/// through a proxy.
struct Understood {
    request: Request,
    held: Option<Held>,
    served: Option<Served>,
}

impl<A: Answerer> Front<A> {
    /// A front before `answerer` that lets in what it is `told` to. The receiver of `work` ends
    /// when this and every request is gone.
    pub fn new(answerer: Arc<A>, told: Listener, work: mpsc::Sender<()>) -> Self {
        let (bodies, crowd) =
            (Bodies::new(told.body_max), Crowd::new(told.connections_per_address));
        Self { answerer, told, bodies, crowd, work }
    }

    /// Serves one request that came over a connection with `peer`.
    pub async fn serve<B>(&self, request: hyper::Request<B>, peer: SocketAddr) -> Reply
    where
        B: Body<Data = Bytes>,
    {
        let (head, body) = request.into_parts();
        let (mut reply, is_last) = match self.understand(&head, body, peer).await {
            // A proxy in front may have seen the end of such a body somewhere else.
            Ok(understood) => {
                (reply(self.answer(understood).await), head.headers.contains_key(TRANSFER_ENCODING))
            }
            // Its body may be unread: whatever follows on this connection could be taken for a
            // request.
            Err(failure) => (reply(Response::failed(&failure)), true),
        };
        if is_last {
            reply.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
        }
        reply
    }

    async fn understand<B>(
        &self,
        head: &Parts,
        body: B,
        peer: SocketAddr,
    ) -> Result<Understood, Failure>
    where
        B: Body<Data = Bytes>,
    {
        headers::check_size(&head.headers)?;
        headers::check_server(head)?;
        let remote = self.told.proxies.client(peer, &head.headers)?;
        let served =
            (remote.ip() != peer.ip()).then(|| self.crowd.enter(remote.ip())).transpose()?;
        let target = target::read(&head.method, head.uri.path(), head.uri.query())?;
        headers::refuse_unserved(&head.headers)?;
        let token = headers::token(&head.headers)?;
        if target.verb == Verb::Patch {
            headers::check_patch(&head.headers)?;
        }
        let (content, body_bytes, held) = match target.verb {
            Verb::Write | Verb::Patch => {
                let mut held = self.bodies.begin(remote.ip());
                let bytes = read_body(&head.headers, body, &self.told, &mut held).await?;
                let size = u64::try_from(bytes.len()).unwrap_or(u64::MAX);
                (content_of(head, target.verb, bytes)?, size, Some(held))
            }
            // clients send bodies with reads and deletes, and mean nothing by it
            Verb::Read | Verb::List | Verb::Delete => {
                (Content { fields: target.fields, raw: None }, 0, None)
            }
        };
        let Content { fields, raw } = content;
        let id = random::uuid()?;
        let (remote, remote_port) = (remote.ip(), remote.port());
        let (verb, path) = (target.verb, target.path);
        let request =
            Request { id, verb, path, token, fields, raw, body_bytes, remote, remote_port };
        Ok(Understood { request, held, served })
    }

    async fn answer(&self, understood: Understood) -> Response {
        let Understood { request, held, served } = understood;
        let (answerer, work) = (Arc::clone(&self.answerer), self.work.clone());
        let answered = Unbroken::new(Box::pin(async move {
            let response = answerer.answer(request).await;
            drop((work, held, served));
            response
        }));
        // The panic itself is in the log already, without its text (see log.rs).
        answered
            .await
            .unwrap_or_else(|Panicked| Response::failed(&Failure::internal("internal error")))
    }
}

/// What a request brings along.
struct Content {
    fields: Map<String, Value>,
    /// The body, where that is bytes.
    raw: Option<RawBody>,
}

/// Reads a body: JSON, a form, or a component's bytes. Of the last alone the query is read too,
/// because nothing else can carry its fields; any other write would get fields from where its
/// policies were never asked about them.
fn content_of(head: &Parts, verb: Verb, bytes: Vec<u8>) -> Result<Content, Failure> {
    if verb == Verb::Write && is_component(&head.headers, &bytes) {
        let fields = target::parameters(head.uri.query().unwrap_or_default())?;
        return Ok(Content { fields, raw: Some(RawBody::new(bytes)) });
    }
    let fields = if headers::is_form(&head.headers, &bytes) {
        let form = std::str::from_utf8(&bytes)
            .map_err(|_| Failure::invalid("the form in the body is not UTF-8"))?;
        target::parameters(form)?
    } else {
        json::object(&bytes).map_err(Failure::invalid)?
    };
    Ok(Content { fields, raw: None })
}

/// Whether the body is WebAssembly: it says so, or it begins like it, as no JSON and no form can.
fn is_component(headers: &HeaderMap, bytes: &[u8]) -> bool {
    let said = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let said = said.split(';').next().unwrap_or_default().trim();
    said.eq_ignore_ascii_case("application/wasm") || bytes.starts_with(b"\0asm")
}

async fn read_body<B>(
    headers: &HeaderMap,
    body: B,
    told: &Listener,
    held: &mut Held,
) -> Result<Vec<u8>, Failure>
where
    B: Body<Data = Bytes>,
{
    let within = BODY_TIME.min(told.request_time);
    let declared =
        headers.get(CONTENT_LENGTH).and_then(|value| value.to_str().ok()?.parse::<u64>().ok());
    // A client that asks first is told before it sends.
    if headers.contains_key(EXPECT) && declared.is_some_and(|size| size > told.body_max) {
        return Err(too_large(told.body_max));
    }
    // What is too large is read to be answered, not kept.
    held.grow_to(declared.filter(|size| *size <= told.body_max).unwrap_or_default())?;
    let late =
        || Failure::invalid(format!("the body did not arrive within {} s", within.as_secs()));
    tokio::time::timeout(within, collect(body, told.body_max, held)).await.map_err(|_| late())?
}

async fn collect<B>(body: B, most: u64, held: &mut Held) -> Result<Vec<u8>, Failure>
where
    B: Body<Data = Bytes>,
{
    let mut body = pin!(body);
    let mut kept = Vec::new();
    let mut seen: u64 = 0;
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|_| Failure::invalid("the body ended before it was complete"))?;
        // trailers carry nothing for us
        let Ok(chunk) = frame.into_data() else { continue };
        seen = seen.saturating_add(u64::try_from(chunk.len()).unwrap_or(u64::MAX));
        if seen <= most {
            held.grow_to(seen)?;
            kept.extend_from_slice(&chunk);
        } else {
            kept = Vec::new();
        }
        if seen > most.saturating_mul(DRAIN) {
            break;
        }
    }
    if seen > most { Err(too_large(most)) } else { Ok(kept) }
}

fn too_large(most: u64) -> Failure {
    Failure::new(
        Kind::TooLarge,
        format!("request body too large: the most is {}", size::show(most)),
    )
}

/// Puts an answer into HTTP. hyper leaves the body out where the request was a HEAD.
fn reply(response: Response) -> Reply {
    let retry_after = response.retry_after;
    let (status, content_type, bytes) = response.into_bytes();
    // Both come from a component at times, whose nonsense is a fault of ours towards the client.
    let (Ok(status), Ok(content_type)) =
        (StatusCode::from_u16(status), HeaderValue::from_str(&content_type))
    else {
        return reply(Response::failed(&Failure::internal(
            "the answer has an impossible status or content type",
        )));
    };
    let mut reply = hyper::Response::new(Full::new(Bytes::from(bytes)));
    *reply.status_mut() = status;
    let headers = reply.headers_mut();
    headers.insert(CONTENT_TYPE, content_type);
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    if let Some(milliseconds) = retry_after {
        headers.insert(RETRY_AFTER, HeaderValue::from(milliseconds.div_ceil(1000)));
    }
    reply
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proxies::TrustedProxies;
    use hyper::body::Frame;
    use hyper::header::HOST;
    use serde_json::json;
    use std::convert::Infallible;
    use std::net::Ipv4Addr;
    use std::pin::Pin;
    use std::task::{Context, Poll};
    use tokio::sync::Notify;

    const MIB: usize = 1024 * 1024;
    const MOST: u64 = 4 << 20;

    fn told() -> Listener {
        Listener { body_max: MOST, ..Listener::at("127.0.0.1:0") }
    }

    fn held() -> Held {
        Bodies::new(MOST).begin(Ipv4Addr::LOCALHOST.into())
    }

    /// A body of `left` frames of 1 MiB, that then ends or stays silent.
    struct Frames {
        left: usize,
        silent: bool,
    }

    impl Body for Frames {
        type Data = Bytes;
        type Error = Infallible;

        fn poll_frame(
            mut self: Pin<&mut Self>,
            _: &mut Context<'_>,
        ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
            match self.left.checked_sub(1) {
                Some(left) => {
                    self.left = left;
                    Poll::Ready(Some(Ok(Frame::data(Bytes::from(vec![b' '; MIB])))))
                }
                None if self.silent => Poll::Pending,
                None => Poll::Ready(None),
            }
        }
    }

    /// Answers what it was asked; holds requests for `wait`, panics at `panic`.
    #[derive(Default)]
    struct Echo {
        entered: Notify,
        leave: Notify,
        left: Notify,
    }

    impl Answerer for Echo {
        async fn answer(self: Arc<Self>, request: Request) -> Response {
            match request.path.as_str() {
                "panic" => panic!("canary"),
                "busy" => {
                    return Response {
                        retry_after: Some(1500),
                        ..Response::failed(&Failure::new(Kind::Unavailable, "busy"))
                    };
                }
                "wait" => {
                    self.entered.notify_one();
                    self.leave.notified().await;
                    self.left.notify_one();
                }
                _ => {}
            }
            let token = request.token.map(|token| token.expose().to_owned());
            Response::bare(
                200,
                json!({"verb": format!("{:?}", request.verb), "path": request.path, "token": token,
                       "fields": request.fields, "bytes": request.body_bytes, "id": request.id,
                       "raw": request.raw.map(|raw| raw.bytes().len())}),
            )
        }
    }

    fn front() -> (Arc<Front<Echo>>, Arc<Echo>, mpsc::Receiver<()>) {
        let echo = Arc::new(Echo::default());
        let (work, ended) = mpsc::channel(1);
        (Arc::new(Front::new(Arc::clone(&echo), told(), work)), echo, ended)
    }

    fn request(method: &str, path: &str, body: &str) -> hyper::Request<Full<Bytes>> {
        let builder = hyper::Request::builder().method(method).uri(path).header(HOST, "x");
        builder.body(Full::new(Bytes::copy_from_slice(body.as_bytes()))).unwrap()
    }

    async fn served(request: hyper::Request<Full<Bytes>>) -> (u16, HeaderMap, Value) {
        let reply = front().0.serve(request, SocketAddr::from((Ipv4Addr::LOCALHOST, 40_112))).await;
        let (head, body) = reply.into_parts();
        let bytes = body.collect().await.unwrap().to_bytes();
        (head.status.as_u16(), head.headers, serde_json::from_slice(&bytes).unwrap())
    }

    #[tokio::test]
    async fn a_write_arrives_with_its_fields_size_and_token() {
        let mut asked = request("POST", "/v1/database/roles/r", r#"{"db_name":"d","ttl":null}"#);
        asked.headers_mut().insert("x-vault-token", "bhs.t".parse().unwrap());
        let (status, headers, body) = served(asked).await;
        assert_eq!(status, 200);
        assert_eq!(headers[CONTENT_TYPE], "application/json");
        assert_eq!(headers[CACHE_CONTROL], "no-store");
        assert_eq!(body["fields"], json!({"db_name": "d", "ttl": null}));
        assert_eq!(
            (&body["bytes"], &body["token"], &body["verb"]),
            (&json!(26), &json!("bhs.t"), &json!("Write"))
        );
        assert_eq!(body["id"].as_str().unwrap().len(), 36);
    }

    #[tokio::test]
    async fn the_body_of_a_read_or_delete_is_ignored_however_it_looks() {
        for method in ["GET", "DELETE", "LIST"] {
            let (status, _, body) = served(request(method, "/v1/a?x=1", "{not json")).await;
            assert_eq!(
                (status, &body["fields"], &body["bytes"]),
                (200, &json!({"x": "1"}), &json!(0)),
                "{method}"
            );
        }
    }

    #[tokio::test]
    async fn what_is_not_understood_is_an_error_list_and_reaches_nobody() {
        for (method, path, body, status) in [
            ("POST", "/v1/a", "[1]", 400),
            ("POST", "/v1/a", "{\"a\":1,\"a\":1}", 400),
            ("POST", "/v1/a/", "{}", 400),
            ("GET", "/v1/a%2fb", "", 400),
            ("OPTIONS", "/v1/a", "", 405),
            ("PATCH", "/v1/a", "{}", 415),
        ] {
            let (answered, headers, body) = served(request(method, path, body)).await;
            assert_eq!(answered, status, "{method} {path}");
            assert_eq!(headers[CONTENT_TYPE], "application/json");
            assert_eq!(headers[CONNECTION], "close", "the client learns that the connection ends");
            assert_eq!(body["errors"].as_array().unwrap().len(), 1, "{body}");
        }
        assert_eq!(served(request("GET", "/ui", "")).await.2, json!({"errors": []}));
    }

    #[tokio::test]
    async fn a_component_arrives_as_bytes_with_the_fields_of_the_query() {
        let fields = json!({"version": "1.0.0"});
        let (_, _, body) = served(request("PUT", "/v1/a?version=1.0.0", "\0asm{")).await;
        assert_eq!(
            (&body["raw"], &body["fields"], &body["bytes"]),
            (&json!(5), &fields, &json!(5))
        );
        for (said, content) in [("application/wasm", ""), ("Application/WASM; x=y", "{not json")] {
            let mut asked = request("POST", "/v1/a?version=1.0.0", content);
            asked.headers_mut().insert(CONTENT_TYPE, said.parse().unwrap());
            let (status, _, body) = served(asked).await;
            assert_eq!(
                (status, &body["raw"], &body["fields"]),
                (200, &json!(content.len()), &fields),
                "{said}"
            );
        }
    }

    #[tokio::test]
    async fn the_query_of_any_other_write_is_not_read() {
        let (_, _, body) = served(request("POST", "/v1/a?version=1.0.0", r#"{"x":1}"#)).await;
        assert_eq!((&body["fields"], &body["raw"]), (&json!({"x": 1}), &Value::Null));
        let mut asked = request("PATCH", "/v1/a?version=1.0.0", "\0asm");
        asked.headers_mut().insert(CONTENT_TYPE, "application/merge-patch+json".parse().unwrap());
        assert_eq!(served(asked).await.0, 400, "a patch is JSON whatever it begins with");
    }

    #[tokio::test]
    async fn a_form_is_read_as_fields() {
        let mut asked = request("PUT", "/v1/a", "a=1&b=x+y&a=2");
        asked
            .headers_mut()
            .insert(CONTENT_TYPE, "application/x-www-form-urlencoded".parse().unwrap());
        assert_eq!(served(asked).await.2["fields"], json!({"a": ["1", "2"], "b": "x y"}));
    }

    #[tokio::test]
    async fn a_body_over_the_limit_is_413_declared_or_not() {
        let sent =
            async |frames| collect(Frames { left: frames, silent: false }, MOST, &mut held()).await;
        assert_eq!(sent(4).await.unwrap().len(), 4 * MIB);
        for frames in [5, usize::MAX] {
            let failure = sent(frames).await.unwrap_err();
            assert_eq!(failure.kind, Kind::TooLarge);
            assert!(failure.message.ends_with("4MiB"), "{}", failure.message);
        }
        let mut asked = request("POST", "/v1/a", "");
        asked.headers_mut().insert(CONTENT_LENGTH, HeaderValue::from(MOST + 1));
        asked.headers_mut().insert(EXPECT, HeaderValue::from_static("100-continue"));
        assert_eq!(served(asked).await.0, 413);
    }

    #[tokio::test]
    async fn a_body_that_never_ends_is_given_up() {
        let stuck = Frames { left: 1, silent: true };
        let told = Listener { request_time: Duration::from_millis(5), ..told() };
        let failure = read_body(&HeaderMap::new(), stuck, &told, &mut held()).await.unwrap_err();
        assert_eq!(failure.kind, Kind::InvalidRequest);
        assert!(failure.message.contains("did not arrive"), "{}", failure.message);
    }

    #[tokio::test]
    async fn a_panic_is_a_500_that_says_nothing_and_the_next_request_is_served() {
        let (status, _, body) = served(request("GET", "/v1/panic", "")).await;
        assert_eq!((status, body), (500, json!({"errors": ["internal error"]})));
        assert_eq!(served(request("GET", "/v1/a", "")).await.0, 200);
    }

    #[tokio::test]
    async fn retry_after_is_in_whole_seconds_never_too_early() {
        let (status, headers, _) = served(request("GET", "/v1/busy", "")).await;
        assert_eq!((status, headers[RETRY_AFTER].to_str().unwrap()), (503, "2"));
    }

    #[tokio::test]
    async fn a_client_that_goes_away_cuts_nothing() {
        let (front, echo, mut ended) = front();
        let serving = Arc::clone(&front);
        let connection = tokio::spawn(async move {
            serving
                .serve(
                    request("GET", "/v1/wait", ""),
                    SocketAddr::from((Ipv4Addr::LOCALHOST, 40_112)),
                )
                .await
        });
        echo.entered.notified().await;
        connection.abort();
        assert!(connection.await.unwrap_err().is_cancelled());
        drop(front);
        assert!(
            ended.try_recv().is_err_and(|error| error == mpsc::error::TryRecvError::Empty),
            "still at work"
        );
        echo.leave.notify_one();
        echo.left.notified().await;
        assert_eq!(ended.recv().await, None);
    }

    #[tokio::test]
    async fn a_client_behind_a_proxy_has_so_many_requests_at_a_time_and_others_are_served() {
        let (echo, proxy) =
            (Arc::new(Echo::default()), SocketAddr::from((Ipv4Addr::LOCALHOST, 40_112)));
        let proxies = TrustedProxies::new(["127.0.0.1"]).unwrap();
        let told = Listener { proxies, connections_per_address: 1, ..told() };
        let front = Arc::new(Front::new(Arc::clone(&echo), told, mpsc::channel(1).0));
        let through = |client: &str, path: &str| {
            let mut request = request("GET", path, "");
            request.headers_mut().insert("x-forwarded-for", client.parse().unwrap());
            request
        };
        let (serving, first) = (Arc::clone(&front), through("192.0.2.1", "/v1/wait"));
        let waiting = tokio::spawn(async move { serving.serve(first, proxy).await.status() });
        echo.entered.notified().await;
        let refused = front.serve(through("192.0.2.1", "/v1/x"), proxy).await;
        assert_eq!(
            (refused.status().as_u16(), refused.headers()[RETRY_AFTER].to_str().unwrap()),
            (429, "1")
        );
        assert_eq!(front.serve(through("192.0.2.2", "/v1/x"), proxy).await.status(), 200);
        assert_eq!(
            front.serve(request("GET", "/v1/x", ""), proxy).await.status(),
            200,
            "the proxy itself"
        );
        echo.leave.notify_one();
        assert_eq!(waiting.await.unwrap(), 200);
        assert_eq!(front.serve(through("192.0.2.1", "/v1/x"), proxy).await.status(), 200);
    }

    #[test]
    fn an_impossible_content_type_is_a_500() {
        let body = bulkhead_wire::response::Body::Raw {
            content_type: "a\nb".to_owned(),
            bytes: Vec::new(),
        };
        assert_eq!(reply(Response { status: 200, body, retry_after: None }).status(), 500);
    }
}

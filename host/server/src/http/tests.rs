//! Valid and refused requests, endless bodies, and clients that disconnect.

use super::*;
use crate::body::{collect_body, read_body};
use crate::proxies::TrustedProxies;
use bulkhead_api::FileReceptions;
use bulkhead_wire::failure::FailureKind;
use bulkhead_wire::raw::{RawBasePath, RawRequest, RawResponse};
use bulkhead_wire::sync;
use http_body_util::Full;
use hyper::body::Frame;
use hyper::header::{CONTENT_LENGTH, EXPECT, HOST, HeaderMap};
use serde_json::{Value, json};
use std::convert::Infallible;
use std::fs;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Mutex;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::sync::Notify;

const MIB: usize = 1024 * 1024;
const MOST: u64 = 4 << 20;

fn config() -> ListenerConfig {
    ListenerConfig { body_max: MOST, ..ListenerConfig::at("127.0.0.1:0") }
}

fn memory() -> BodyMemory {
    BodyBudget::new(MOST).begin(Ipv4Addr::LOCALHOST.into())
}

/// A body of `left` frames of 1 MiB that then ends or stalls.
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

/// Returns the folder for bodies that are sent to this path.
fn file_folder(path: &str) -> PathBuf {
    let name = format!("bulkhead-http-{}-{}", std::process::id(), path.replace('/', "-"));
    std::env::temp_dir().join(name)
}

/// An answerer that repeats the request, delays requests for `wait`, and panics at `panic`.
#[derive(Default)]
struct Echo {
    entered: Notify,
    leave: Notify,
    left: Notify,
    /// Path, token and status of the refused requests that reached the answerer.
    refused: Mutex<Vec<(String, String, u16)>>,
}

impl RequestAnswerer for Echo {
    fn raw_place(&self, path: &str) -> Option<RawBasePath> {
        let name = path.split('/').next().filter(|name| ["acl", "large"].contains(name))?;
        let mount = MountPath::new(name).unwrap();
        let body_limit = if name == "acl" { 16 } else { 1 << 20 };
        Some(RawBasePath { mount, base: format!("/v1/{name}/"), body_limit })
    }

    fn is_row(&self, path: &str) -> bool {
        path == "acl/row"
    }

    fn own_raw_place(&self, mount: &MountPath) -> RawBasePath {
        RawBasePath { mount: mount.clone(), base: "/".to_owned(), body_limit: 16 }
    }

    async fn check_raw(&self, _: std::net::IpAddr) -> Result<(), Failure> {
        Ok(())
    }

    async fn identify_raw(&self, request: RawRequest) -> Result<bool, Failure> {
        assert!(request.body.is_empty(), "the caller is identified by the head");
        Ok(request.headers.iter().any(|(name, _)| name == "x-known"))
    }

    async fn answer_raw(self: Arc<Self>, request: RawRequest) -> RawResponse {
        if let Some(refusal) = &request.refusal {
            return RawResponse::failed(refusal);
        }
        let body = [request.path.as_bytes(), b"?", request.query.as_bytes(), b" ", &request.body];
        let headers = vec![("X-Method".to_owned(), request.method)];
        RawResponse { status: 200, headers, body: Arc::new(body.concat()) }
    }

    async fn admit_body(&self, head: &RequestHead<'_>) -> BodyAdmission {
        match head.path {
            "stranger" => BodyAdmission::Nothing,
            "flood" => {
                BodyAdmission::Refused(Box::new(Failure::new(FailureKind::RateLimited, "later")))
            }
            "open" => BodyAdmission::Fields(vec!["key".to_owned()]),
            "denied" => BodyAdmission::Discarded,
            path if path.starts_with("file/") => {
                BodyAdmission::File(FileReceptions::new(&file_folder(path)))
            }
            _ => BodyAdmission::Whole,
        }
    }

    async fn has_token(&self, head: &RequestHead<'_>) -> bool {
        head.token.is_some()
    }

    async fn answer(self: Arc<Self>, request: Request) -> Response {
        if let Some(refusal) = &request.refusal {
            assert!(request.fields.is_empty() && request.raw.is_none(), "nothing of it counts");
            let token = request.token.map_or_else(String::new, |token| token.expose().to_owned());
            sync::lock(&self.refused).push((request.path, token, refusal.kind.status()));
            return Response::failed(refusal);
        }
        match request.path.as_str() {
            "panic" => panic!("canary"),
            "busy" => {
                return Response {
                    retry_after: Some(1500),
                    ..Response::failed(&Failure::new(FailureKind::Unavailable, "busy"))
                };
            }
            "published" => {
                let body = bulkhead_wire::response::ResponseBody::Published {
                    document: json!({"keys": []}),
                    max_age: 3_600,
                };
                return Response::new(200, body);
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
                   "unread": request.is_unread,
                   "raw": request.raw.map(|raw| raw.bytes().len()),
                   "file": request.file.map(|file| fs::read_to_string(file.path()).unwrap())}),
        )
    }
}

fn front() -> (Arc<HttpFrontend<Echo>>, Arc<Echo>, mpsc::Receiver<()>) {
    let echo = Arc::new(Echo::default());
    let (work, ended) = mpsc::channel(1);
    (Arc::new(HttpFrontend::new(Arc::clone(&echo), config(), work)), echo, ended)
}

fn request(method: &str, path: &str, body: &str) -> hyper::Request<Full<Bytes>> {
    let builder = hyper::Request::builder().method(method).uri(path).header(HOST, "x");
    builder.body(Full::new(Bytes::copy_from_slice(body.as_bytes()))).unwrap()
}

/// An arrival that is the only request of its connection.
fn here() -> RequestArrival {
    RequestArrival { origin: SocketAddr::from((Ipv4Addr::LOCALHOST, 40_112)).into(), requests: 1 }
}

async fn serve_once(request: hyper::Request<Full<Bytes>>) -> (u16, HeaderMap, Value) {
    let reply = front().0.serve(request, here()).await;
    let (head, body) = reply.into_parts();
    let bytes = body.into_bytes();
    (head.status.as_u16(), head.headers, serde_json::from_slice(&bytes).unwrap())
}

#[tokio::test]
async fn write_arrives_with_fields_size_and_token() {
    let mut http_request = request("POST", "/v1/database/roles/r", r#"{"db_name":"d","ttl":null}"#);
    http_request.headers_mut().insert("x-vault-token", "bhs.t".parse().unwrap());
    let (status, headers, body) = serve_once(http_request).await;
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
async fn the_body_of_every_verb_is_read() {
    for method in ["GET", "DELETE", "LIST"] {
        let (status, _, body) = serve_once(request(method, "/v1/a?x=1", r#"{"y":2}"#)).await;
        assert_eq!(
            (status, &body["fields"], &body["bytes"]),
            (200, &json!({"x": "1", "y": 2}), &json!(7)),
            "{method}"
        );
    }
    let mut form = request("DELETE", "/v1/a", "secret_id=s");
    form.headers_mut().insert(CONTENT_TYPE, "application/x-www-form-urlencoded".parse().unwrap());
    assert_eq!(serve_once(form).await.2["fields"], json!({"secret_id": "s"}));
    let (status, _, body) = serve_once(request("DELETE", "/v1/stranger", "{not json")).await;
    assert_eq!((status, &body["unread"]), (200, &json!(true)), "a stranger's body is not parsed");
    let (_, _, body) = serve_once(request("GET", "/v1/open", r#"{"key":1,"other":2}"#)).await;
    assert_eq!(body["fields"], json!({"key": 1}), "few fields of a stranger are read");
}

#[tokio::test]
async fn unreadable_request_gets_error_list_and_closes_connection() {
    for (method, path, body, status) in [
        ("POST", "/v1/a", "[1]", 400),
        ("POST", "/v1/a", "{\"a\":1,\"a\":1}", 400),
        ("POST", "/v1/a/", "{}", 400),
        ("GET", "/v1/a%2fb", "", 400),
        ("OPTIONS", "/v1/a", "", 405),
        ("PATCH", "/v1/a", "{}", 415),
    ] {
        let (answered, headers, body) = serve_once(request(method, path, body)).await;
        assert_eq!(answered, status, "{method} {path}");
        assert_eq!(headers[CONTENT_TYPE], "application/json");
        assert_eq!(headers[CONNECTION], "close", "the client learns that the connection ends");
        assert_eq!(body["errors"].as_array().unwrap().len(), 1, "{body}");
    }
    assert_eq!(serve_once(request("GET", "/ui", "")).await.2, json!({"errors": []}));
}

#[tokio::test]
async fn unreadable_body_reaches_service_and_is_recorded() {
    let form = "application/x-www-form-urlencoded";
    let many = "a&".repeat(1_001);
    let large = " ".repeat(9 * MIB);
    let cases = [
        ("POST", "/v1/a", ("", ""), "[1]", 400),
        ("POST", "/v1/a", ("", ""), "{not json", 400),
        ("PUT", "/v1/a", ("", ""), "{\"a\":1,\"a\":1}", 400),
        ("POST", "/v1/open", ("", ""), "{not json", 400),
        ("POST", "/v1/a", ("content-type", form), "a=%ff", 400),
        ("POST", "/v1/a", ("content-type", form), many.as_str(), 400),
        ("POST", "/v1/a", ("", ""), large.as_str(), 413),
        ("POST", "/v1/open", ("", ""), large.as_str(), 413),
        ("POST", "/v1/stranger", ("", ""), large.as_str(), 413),
        ("PATCH", "/v1/a", ("", ""), "{}", 415),
        ("PATCH", "/v1/a", ("content-type", "application/merge-patch+json"), "[]", 400),
        ("POST", "/v1/a", ("x-vault-namespace", "team"), "{}", 400),
        ("GET", "/v1/a", ("x-vault-wrap-ttl", "soon"), "", 400),
        ("GET", "/v1/a?list=perhaps", ("", ""), "", 400),
        ("DELETE", "/v1/a?x=%ff", ("", ""), "", 400),
        ("DELETE", "/v1/a?help=1", ("", ""), "", 405),
        ("DELETE", "/v1/a?list=1", ("", ""), "", 405),
        ("GET", "/v1/a?x=1", ("", ""), "{\"x\":2}", 400),
        ("DELETE", "/v1/a", ("", ""), "{not json", 400),
        ("POST", "/v1/a?x=1", ("", ""), "{}", 400),
        ("GET", "/v1/a", ("x-bulkhead-wrap-tll", "60"), "", 400),
        ("GET", "/v1/a", ("x-vault-wrap-format", "jwt"), "", 400),
        ("POST", "/v1/a", ("content-encoding", "gzip"), "{}", 415),
    ];
    for version in [Version::HTTP_11, Version::HTTP_2] {
        for (method, path, (header, value), content, status) in cases {
            let (front, echo, _ended) = front();
            let mut http_request = request(method, path, content);
            *http_request.version_mut() = version;
            http_request.headers_mut().insert("x-vault-token", "bhs.t".parse().unwrap());
            if !header.is_empty() {
                let name: hyper::header::HeaderName = header.parse().unwrap();
                http_request.headers_mut().insert(name, value.parse().unwrap());
            }
            let reply = front.serve(http_request, here()).await;
            let shown = format!("{method} {path} {header} {}", content.len());
            assert_eq!(reply.status(), status, "{shown}");
            let path = path.split('?').next().unwrap().trim_start_matches("/v1/").to_owned();
            let refused = sync::lock(&echo.refused).clone();
            assert_eq!(refused, [(path, "bhs.t".to_owned(), status)], "{shown}");
            let ends = reply.headers().contains_key(CONNECTION);
            assert_eq!(ends, version == Version::HTTP_11, "{shown}: its body may be unread");
        }
    }
}

#[tokio::test]
async fn component_arrives_as_bytes_with_query_fields() {
    let fields = json!({"version": "1.0.0"});
    let (_, _, body) = serve_once(request("PUT", "/v1/a?version=1.0.0", "\0asm{")).await;
    assert_eq!((&body["raw"], &body["fields"], &body["bytes"]), (&json!(5), &fields, &json!(5)));
    for (said, content) in [("application/wasm", ""), ("Application/WASM; x=y", "{not json")] {
        let mut http_request = request("POST", "/v1/a?version=1.0.0", content);
        http_request.headers_mut().insert(CONTENT_TYPE, said.parse().unwrap());
        let (status, _, body) = serve_once(http_request).await;
        assert_eq!(
            (status, &body["raw"], &body["fields"]),
            (200, &json!(content.len()), &fields),
            "{said}"
        );
    }
}

#[tokio::test]
async fn the_query_of_any_other_write_is_refused() {
    for content in [r#"{"x":1}"#, ""] {
        let (status, _, body) = serve_once(request("POST", "/v1/a?version=1.0.0", content)).await;
        assert_eq!(status, 400, "{body}");
        assert!(body["errors"][0].as_str().unwrap().contains("query"), "{body}");
    }
    assert_eq!(serve_once(request("POST", "/v1/a?", r#"{"x":1}"#)).await.0, 200);
    let mut http_request = request("PATCH", "/v1/a?version=1.0.0", "\0asm");
    http_request
        .headers_mut()
        .insert(CONTENT_TYPE, "application/merge-patch+json".parse().unwrap());
    assert_eq!(
        serve_once(http_request).await.0,
        400,
        "a patch is JSON, also if its first byte is not"
    );
}

#[tokio::test]
async fn null_body_is_no_body_for_any_sender() {
    for path in ["/v1/a", "/v1/open"] {
        let (status, _, body) = serve_once(request("POST", path, "null")).await;
        assert_eq!((status, &body["fields"], &body["unread"]), (200, &json!({}), &json!(false)));
    }
    let mut patch = request("PATCH", "/v1/a", "null");
    patch.headers_mut().insert(CONTENT_TYPE, "application/merge-patch+json".parse().unwrap());
    assert_eq!(serve_once(patch).await.0, 200);
}

#[tokio::test]
async fn a_form_is_read_as_fields() {
    let mut http_request = request("PUT", "/v1/a", "a=1&b=x+y&a=2");
    http_request
        .headers_mut()
        .insert(CONTENT_TYPE, "application/x-www-form-urlencoded".parse().unwrap());
    assert_eq!(serve_once(http_request).await.2["fields"], json!({"a": ["1", "2"], "b": "x y"}));
}

#[tokio::test]
async fn a_body_of_a_stranger_is_not_parsed() {
    for content in ["{not json", r#"{"a":[{"a":0},{"a":0}]}"#, "\0asm"] {
        let (status, _, body) = serve_once(request("POST", "/v1/stranger", content)).await;
        assert_eq!(
            (status, &body["unread"], &body["fields"], &body["raw"], &body["bytes"]),
            (200, &json!(true), &json!({}), &Value::Null, &json!(content.len())),
            "{content}"
        );
    }
    let mut http_request = request("POST", "/v1/stranger", "{}");
    http_request.headers_mut().insert(EXPECT, HeaderValue::from_static("100-continue"));
    assert_eq!(
        serve_once(http_request).await.2["bytes"],
        0,
        "the client is not asked for its body"
    );
    let large = " ".repeat(5 * MIB);
    assert_eq!(serve_once(request("POST", "/v1/stranger", &large)).await.0, 413);
}

#[tokio::test]
async fn rate_limited_stranger_is_refused_before_body_read() {
    for content in ["{}".to_owned(), " ".repeat(5 * MIB)] {
        let (status, head, body) = serve_once(request("POST", "/v1/flood", &content)).await;
        assert_eq!((status, &body["errors"][0]), (429, &json!("later")));
        assert_eq!(head[CONNECTION], "close", "what follows could be taken for a request");
    }
}

#[tokio::test]
async fn open_endpoint_reads_own_fields_and_few_bytes() {
    let content = format!("{{\"key\":\"share\",\"x\":[{}0]}}", "{\"a\":0},".repeat(7_000));
    let (status, _, body) = serve_once(request("POST", "/v1/open", &content)).await;
    assert_eq!((status, &body["fields"]), (200, &json!({ "key": "share" })));
    let mut form = request("POST", "/v1/open", "key=share&x=y");
    form.headers_mut().insert(CONTENT_TYPE, "application/x-www-form-urlencoded".parse().unwrap());
    assert_eq!(serve_once(form).await.2["fields"], json!({ "key": "share" }));
    let (status, _, body) =
        serve_once(request("POST", "/v1/open", &" ".repeat((64 << 10) + 1))).await;
    assert!(status == 413 && body.to_string().contains("64KiB"), "{body}");
}

#[tokio::test]
async fn small_body_large_once_parsed_finds_no_room() {
    let (front, echo, _ended) = front();
    let content = format!("{{\"a\":[{}0]}}", "{\"a\":0},".repeat(60_000));
    let peer = here();
    let (serving, first) = (Arc::clone(&front), request("POST", "/v1/wait", &content));
    let waiting = tokio::spawn(async move { serving.serve(first, peer).await.status() });
    echo.entered.notified().await;
    let refused = front.serve(request("POST", "/v1/x", &content), peer).await;
    assert_eq!(refused.status(), 429, "{} bytes on the wire", content.len());
    echo.leave.notify_one();
    assert_eq!(waiting.await.unwrap(), 200);
    assert_eq!(front.serve(request("POST", "/v1/x", &content), peer).await.status(), 200);
}

#[tokio::test]
async fn body_over_limit_is_413_declared_or_not() {
    let sent = async |frames| {
        collect_body(Frames { left: frames, silent: false }, MOST, &mut memory()).await
    };
    assert_eq!(sent(4).await.unwrap().len(), 4 * MIB);
    for frames in [5, usize::MAX] {
        let failure = sent(frames).await.unwrap_err();
        assert_eq!(failure.kind, FailureKind::TooLarge);
        assert!(failure.message.ends_with("4MiB"), "{}", failure.message);
    }
    let mut http_request = request("POST", "/v1/a", "");
    http_request.headers_mut().insert(CONTENT_LENGTH, HeaderValue::from(MOST + 1));
    http_request.headers_mut().insert(EXPECT, HeaderValue::from_static("100-continue"));
    assert_eq!(serve_once(http_request).await.0, 413);
}

#[tokio::test]
async fn a_body_that_never_ends_is_given_up() {
    let stuck = Frames { left: 1, silent: true };
    let config = ListenerConfig { request_time: Duration::from_millis(5), ..config() };
    let failure = read_body(&HeaderMap::new(), stuck, &config, &mut memory()).await.unwrap_err();
    assert_eq!(failure.kind, FailureKind::InvalidRequest);
    assert!(failure.message.contains("did not arrive"), "{}", failure.message);
}

#[tokio::test]
async fn panic_gives_bare_500_and_next_request_succeeds() {
    let (status, _, body) = serve_once(request("GET", "/v1/panic", "")).await;
    assert_eq!((status, body), (500, json!({"errors": ["internal error"]})));
    assert_eq!(serve_once(request("GET", "/v1/a", "")).await.0, 200);
}

#[tokio::test]
async fn retry_after_is_rounded_up_to_seconds() {
    let (status, headers, _) = serve_once(request("GET", "/v1/busy", "")).await;
    assert_eq!((status, headers[RETRY_AFTER].to_str().unwrap()), (503, "2"));
}

#[tokio::test]
async fn published_document_is_cacheable_for_stated_time() {
    let (status, headers, _) = serve_once(request("GET", "/v1/published", "")).await;
    assert_eq!((status, headers[CACHE_CONTROL].to_str().unwrap()), (200, "max-age=3600"));
}

#[tokio::test]
async fn a_client_that_goes_away_cuts_nothing() {
    let (front, echo, mut ended) = front();
    let serving = Arc::clone(&front);
    let connection =
        tokio::spawn(async move { serving.serve(request("GET", "/v1/wait", ""), here()).await });
    echo.entered.notified().await;
    connection.abort();
    assert!(connection.await.err().is_some_and(|error| error.is_cancelled()));
    drop(front);
    assert!(
        ended.try_recv().is_err_and(|error| error == mpsc::error::TryRecvError::Empty),
        "the request is still being served"
    );
    echo.leave.notify_one();
    echo.left.notified().await;
    assert_eq!(ended.recv().await, None);
}

#[tokio::test]
async fn proxied_client_requests_are_bounded_and_others_served() {
    let (echo, proxy) = (Arc::new(Echo::default()), here());
    let proxies = TrustedProxies::new(["127.0.0.1"]).unwrap();
    let config = ListenerConfig { proxies, connections_per_address: 1, ..config() };
    let front = Arc::new(HttpFrontend::new(Arc::clone(&echo), config, mpsc::channel(1).0));
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

#[tokio::test]
async fn caller_without_token_or_proxy_has_few_streams() {
    let (front, _echo, _ended) = front();
    let most = MAX_PUBLIC_STREAMS;
    for (token, requests, status) in
        [(false, most, 200), (false, most + 1, 429), (true, most + 1, 200)]
    {
        let mut http_request = request("GET", "/v1/x", "");
        if token {
            http_request.headers_mut().insert("x-vault-token", "bhs.t".parse().unwrap());
        }
        let reply = front.serve(http_request, RequestArrival { requests, ..here() }).await;
        assert_eq!(reply.status(), status, "{requests}, token: {token}");
        assert_eq!(reply.headers().contains_key(RETRY_AFTER), status == 429);
    }
    let proxies = TrustedProxies::new(["127.0.0.1"]).unwrap();
    let config = ListenerConfig { proxies, ..config() };
    let front = HttpFrontend::new(Arc::default(), config, mpsc::channel(1).0);
    let http_request = request("GET", "/v1/x", "");
    let reply = HttpFrontend::<Echo>::serve(
        &front,
        http_request,
        RequestArrival { requests: 64, ..here() },
    );
    assert_eq!(reply.await.status(), 200);
}

#[test]
fn an_impossible_content_type_is_a_500() {
    let body = bulkhead_wire::response::ResponseBody::Raw {
        content_type: "a\nb".to_owned(),
        bytes: Vec::new(),
    };
    let response = Response::new(200, body);
    assert_eq!(into_reply(response, Client::OTHERS).status(), 500);
}

/// Returns the answer to a plain HTTP request: status, the header of the fake answerer, and the
/// body.
async fn plain(method: &str, path: &str, body: &str) -> (u16, Option<String>, String) {
    let (front, ..) = front();
    let body = http_body_util::Full::new(Bytes::from(body.to_owned()));
    let request = hyper::Request::builder().method(method).uri(path).header("host", "x");
    let request = request.body(body).unwrap();
    let origin = crate::proxies::ConnectionOrigin::Network(([127, 0, 0, 1], 1).into());
    let reply = front.serve(request, RequestArrival { origin, requests: 1 }).await;
    let header = reply.headers().get("x-method").map(|value| value.to_str().unwrap().to_owned());
    let status = reply.status().as_u16();
    let bytes = reply.into_body().into_bytes();
    (status, header, String::from_utf8(bytes).unwrap())
}

#[tokio::test]
async fn plain_http_passes_unchanged_and_row_spellings_match() {
    let text = |text: &str| text.to_owned();
    assert_eq!(
        plain("PURGE", "/v1/acl/a%20b/?x=%31", "body").await,
        (200, Some(text("PURGE")), text("a%20b/?x=%31 body"))
    );
    let (status, _, answer) = plain("POST", "/v1/acl/a", "more than sixteen bytes").await;
    assert_eq!(status, 413, "{answer}");
    assert!(!answer.starts_with('{'), "the answer is not plain text: {answer}");
    assert_eq!(plain("GET", "/v1/acl//a", "").await.0, 400);
    for row in ["/v1/acl/row", "/v1/acl/ro%77", "/v1/acl/row/"] {
        assert_eq!(plain("GET", row, "").await.1, None, "{row}");
    }
    assert_eq!(plain("HEAD", "/v1/acl/a", "").await, (200, Some(text("HEAD")), text("")));
}

#[tokio::test]
async fn large_plain_bodies_need_a_known_caller() {
    let (front, ..) = front();
    let statuses = async |header: &str, length: usize| {
        let request = hyper::Request::builder().method("POST").uri("/v1/large/x");
        let request = request.header("host", "x").header(header, "1");
        let body = Full::new(Bytes::from(vec![b'x'; length]));
        let reply = front.serve(request.body(body).unwrap(), here()).await;
        let is_closed = reply.headers().contains_key(CONNECTION);
        (reply.status().as_u16(), is_closed)
    };
    let public = usize::try_from(body::MAX_PUBLIC_BODY).unwrap();
    assert_eq!(statuses("x-other", public).await, (200, false));
    assert_eq!(statuses("x-other", public + 1).await, (413, true));
    assert_eq!(statuses("x-known", MIB).await, (200, false));
    assert_eq!(statuses("x-known", MIB + 1).await, (413, true));
}

#[tokio::test]
async fn plain_streams_over_limit_need_known_caller() {
    let (front, ..) = front();
    for (header, requests, status) in [
        ("x-other", MAX_PUBLIC_STREAMS, 200),
        ("x-other", MAX_PUBLIC_STREAMS + 1, 429),
        ("x-known", MAX_PUBLIC_STREAMS + 1, 200),
    ] {
        let request = hyper::Request::builder().uri("/v1/acl/x").header("host", "x");
        let request = request.header(header, "1").body(Full::<Bytes>::default()).unwrap();
        let reply = front.serve(request, RequestArrival { requests, ..here() }).await;
        assert_eq!(reply.status(), status, "{header}, {requests}");
    }
}

#[tokio::test]
async fn file_body_of_any_type_reaches_answerer() {
    let folder = file_folder("file/whole");
    fs::create_dir_all(&folder).unwrap();
    for content_type in ["", "application/json", "application/x-www-form-urlencoded", "text/plain"]
    {
        let mut http_request = request("POST", "/v1/file/whole", "{no JSON=&");
        if !content_type.is_empty() {
            http_request.headers_mut().insert(CONTENT_TYPE, content_type.parse().unwrap());
        }
        let (status, _, body) = serve_once(http_request).await;
        assert_eq!((status, &body["file"]), (200, &json!("{no JSON=&")), "{body}");
        let rest = (&body["bytes"], &body["fields"], &body["raw"], &body["unread"]);
        assert_eq!(rest, (&json!(10), &json!({}), &Value::Null, &json!(false)));
        assert_eq!(fs::read_dir(&folder).unwrap().count(), 0, "the file ends with the request");
    }
    let (status, _, body) = serve_once(request("POST", "/v1/file/whole?x=1", "a")).await;
    assert_eq!(status, 400, "{body}");
    let (status, _, body) = serve_once(request("POST", "/v1/file/whole", "")).await;
    assert_eq!((status, &body["file"]), (200, &Value::Null), "an empty body is not stored");
    assert_eq!(fs::read_dir(&folder).unwrap().count(), 0);
    fs::remove_dir_all(&folder).unwrap();
}

#[tokio::test]
async fn file_body_exceeds_limit_of_listener() {
    let folder = file_folder("file/large");
    fs::create_dir_all(&folder).unwrap();
    let frames = usize::try_from(MOST).unwrap() / MIB * 3;
    let body = Frames { left: frames, silent: false };
    let builder = hyper::Request::builder().method("PUT").uri("/v1/file/large").header(HOST, "x");
    let reply = front().0.serve(builder.body(body).unwrap(), here()).await;
    let body: Value = serde_json::from_slice(&reply.into_parts().1.into_bytes()).unwrap();
    assert_eq!(body["bytes"], json!(frames * MIB));
    assert_eq!(fs::read_dir(&folder).unwrap().count(), 0);
    fs::remove_dir_all(&folder).unwrap();
}

#[tokio::test]
async fn denied_file_body_is_never_too_large() {
    for left in [1, 100] {
        let body = Frames { left, silent: false };
        let builder = hyper::Request::builder().method("POST").uri("/v1/denied").header(HOST, "x");
        let reply = front().0.serve(builder.body(body).unwrap(), here()).await;
        let status = reply.status().as_u16();
        let body: Value = serde_json::from_slice(&reply.into_parts().1.into_bytes()).unwrap();
        assert_eq!((status, &body["unread"]), (200, &json!(true)), "{body}");
    }
    let builder = hyper::Request::builder().method("POST").uri("/v1/denied").header(HOST, "x");
    let body = Frames { left: 1, silent: true };
    let expecting = builder.header(EXPECT, "100-continue").body(body).unwrap();
    let reply = front().0.serve(expecting, here()).await;
    let body: Value = serde_json::from_slice(&reply.into_parts().1.into_bytes()).unwrap();
    assert_eq!((&body["bytes"], &body["unread"]), (&json!(0), &json!(true)));
}

//! Every method over both versions of HTTP: the same status, the right headers, and a body only if
//! allowed.

use super::over_tls::{client, connect, http2, start_tls};
use super::*;
use crate::tls::testing::TestAuthority;
use http_body_util::{BodyExt, Empty};
use hyper::body::{Bytes, Incoming};
use hyper::header::CONTENT_LENGTH;
use hyper::{Method, Request as HttpRequest, Response as HttpResponse};
use hyper_util::rt::TokioIo;

/// Methods with their status on `/v1/a`.
const METHODS: [(&str, u16); 13] = [
    ("GET", 200),
    ("HEAD", 200),
    ("POST", 200),
    ("PUT", 200),
    ("PATCH", 415),
    ("DELETE", 200),
    ("LIST", 200),
    ("OPTIONS", 405),
    ("TRACE", 405),
    ("NONSENSE", 405),
    ("get", 405),
    ("M-SEARCH", 405),
    ("PROPFIND", 405),
];

fn request(method: &str, uri: &str) -> HttpRequest<Empty<Bytes>> {
    HttpRequest::builder()
        .method(method)
        .uri(uri)
        .header("host", "localhost")
        .body(Empty::new())
        .unwrap()
}

/// Returns status, `content-length` and body of an answer.
async fn read(answer: HttpResponse<Incoming>) -> (u16, Option<String>, Bytes) {
    let length = answer.headers().get(CONTENT_LENGTH).map(|it| it.to_str().unwrap().to_owned());
    let status = answer.status().as_u16();
    (status, length, answer.into_body().collect().await.unwrap().to_bytes())
}

/// Returns the answer to the method over HTTP/1.1, and checks that the connection stays usable.
async fn over_http1(
    running: &Running,
    authority: &TestAuthority,
    method: &str,
    path: &str,
) -> (u16, Option<String>, Bytes) {
    let stream = connect(running.address, client(authority, "http/1.1")).await.unwrap();
    let (mut sender, connection) =
        hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.unwrap();
    tokio::spawn(async move { connection.await.unwrap_or_default() });
    let answered = read(sender.send_request(request(method, path)).await.unwrap()).await;
    if answered.0 < 300 {
        sender.ready().await.unwrap();
        let next = read(sender.send_request(request("GET", "/v1/a")).await.unwrap()).await;
        assert_eq!(next.0, 200, "after {method}, over HTTP/1.1");
    }
    answered
}

#[tokio::test]
async fn every_method_answers_alike_over_both_http_versions() {
    let authority = TestAuthority::new();
    let running = start_tls(&authority).await;
    let (mut sender, _connection) = http2(running.address, &authority).await;
    for (method, status) in METHODS {
        let http_request = request(method, "https://localhost/v1/a");
        let two = read(sender.send_request(http_request).await.unwrap()).await;
        let one = over_http1(&running, &authority, method, "/v1/a").await;
        assert_eq!((one.0, two.0), (status, status), "{method}");
        assert_eq!(two.2.is_empty(), method == "HEAD", "{method}: {:?}", two.2);
        assert_eq!(one.2.is_empty(), method == "HEAD", "{method}: {:?}", one.2);
        assert!(one.1.is_some() && two.1.is_some(), "{method}: {:?}, {:?}", one.1, two.1);
        let next = sender.send_request(request("GET", "https://localhost/v1/a")).await.unwrap();
        assert_eq!(read(next).await.0, 200, "after {method}, over HTTP/2");
    }
}

#[tokio::test]
async fn http2_head_has_headers_of_get_without_body() {
    let authority = TestAuthority::new();
    let running = start_tls(&authority).await;
    let (mut sender, _connection) = http2(running.address, &authority).await;
    for (path, status) in [("document", 200), ("large", 200), ("nothing", 204), ("%zz", 400)] {
        let uri = format!("https://localhost/v1/{path}");
        let get = read(sender.send_request(request("GET", &uri)).await.unwrap()).await;
        let head = read(sender.send_request(request("HEAD", &uri)).await.unwrap()).await;
        let (status, length) = (status, get.1.clone());
        assert_eq!((get.0, head.0), (status, status), "{path}");
        assert!(head.2.is_empty(), "{path}: {} bytes", head.2.len());
        assert_eq!(head.1, length, "{path}");
        let one = over_http1(&running, &authority, "HEAD", &format!("/v1/{path}")).await;
        assert_eq!((one.0, one.1, one.2.is_empty()), (status, length, true), "{path}");
    }
}

#[tokio::test]
async fn http2_connect_is_refused_and_connection_continues() {
    let authority = TestAuthority::new();
    let running = start_tls(&authority).await;
    let (mut sender, _connection) = http2(running.address, &authority).await;
    let builder = HttpRequest::builder().method(Method::CONNECT).uri("localhost:443");
    let refused = sender.send_request(builder.body(Empty::new()).unwrap()).await.unwrap();
    assert!([400, 404, 405].contains(&refused.status().as_u16()), "{}", refused.status());
    let next = sender.send_request(request("GET", "https://localhost/v1/a")).await.unwrap();
    assert_eq!(read(next).await.0, 200);
}

//! Requests to other servers: only granted requests leave; a change outside is not made twice; and
//! returned texts contain no secret of a request.

use crate::bed::{Bed, PATIENCE, error};
use crate::grants::grants;
use serde_json::{Value, json};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{mpsc, oneshot};
use tokio::time::timeout;

/// A web server with scripted answers.
pub(crate) struct Server {
    address: SocketAddr,
    connections: Arc<AtomicU32>,
    asked: mpsc::UnboundedReceiver<Asked>,
}

/// A request without an answer yet.
pub(crate) struct Asked {
    text: String,
    pub(crate) answer: oneshot::Sender<String>,
}

impl Server {
    pub(crate) async fn new() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let (address, connections) = (listener.local_addr().unwrap(), Arc::new(AtomicU32::new(0)));
        let (sender, receiver) = mpsc::unbounded_channel();
        let counted = Arc::clone(&connections);
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                counted.fetch_add(1, Ordering::SeqCst);
                tokio::spawn(serve(stream, sender.clone()));
            }
        });
        Self { address, connections, asked: receiver }
    }

    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    pub(crate) fn grant(&self) -> String {
        format!("http:http://{}", self.address)
    }

    pub(crate) fn connections(&self) -> u32 {
        self.connections.load(Ordering::SeqCst)
    }

    /// The next request.
    pub(crate) async fn next(&mut self) -> Asked {
        timeout(PATIENCE, self.asked.recv()).await.expect("no request was sent").unwrap()
    }

    /// Answers the next request, and returns the request.
    pub(crate) async fn reply(&mut self, answer: &str) -> String {
        let request = self.next().await;
        request.answer.send(answer.to_owned()).unwrap();
        request.text
    }
}

/// Reads a request with its body, and writes the given answer.
async fn serve(mut stream: TcpStream, sender: mpsc::UnboundedSender<Asked>) {
    let mut text = String::new();
    let mut buffer = [0; 4_096];
    loop {
        let read = stream.read(&mut buffer).await.unwrap();
        if read == 0 {
            return;
        }
        text.push_str(std::str::from_utf8(&buffer[..read]).unwrap());
        let Some((head, body)) = text.split_once("\r\n\r\n") else { continue };
        let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
        if body.len() >= length.map_or(0, |length| length.parse().unwrap()) {
            break;
        }
    }
    let (answer, receiver) = oneshot::channel();
    if sender.send(Asked { text, answer }).is_ok()
        && let Ok(answer) = receiver.await
    {
        stream.write_all(answer.as_bytes()).await.unwrap();
    }
}

pub(crate) fn ok(body: &str) -> String {
    format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{body}", body.len())
}

pub(crate) async fn granted(bed: &Bed, lines: &[String]) {
    let before = grants(bed, "probe").await;
    // In place of any server, which a component of the binary may reach where nothing is said.
    let other_grants = before.as_array().into_iter().flatten().filter(|line| **line != "http:*");
    let all: Vec<Value> =
        other_grants.cloned().chain(lines.iter().map(|line| json!(line))).collect();
    let (status, answer) = bed.write("sys/mounts/probe/tune", json!({"grants": all})).await;
    assert_eq!((status, answer), (204, Value::Null), "an http grant is stored without a warning");
}

#[tokio::test(flavor = "multi_thread")]
async fn granted_origin_receives_request_and_returns_answer() {
    let (bed, mut server) = (Bed::new("http-granted").await, Server::new().await);
    granted(&bed, &[server.grant()]).await;
    let url = server.url("/a?b=c");
    let fields = json!({"url": url, "method": "PUT", "headers": {"x-one": "1"}, "body": "text"});
    let (answer, request) = tokio::join!(
        bed.write("probe/fetch/a", fields),
        server.reply("HTTP/1.1 418 Teapot\r\nX-Two: 2\r\ncontent-length: 5\r\n\r\nshort")
    );
    assert_eq!(answer.0, 200, "{}", answer.1);
    let data = &answer.1["data"];
    assert_eq!((&data["status"], &data["body"]), (&json!(418), &json!("short")));
    assert!(data["headers"].as_array().unwrap().contains(&json!(["x-two", "2"])), "{data}");
    assert!(
        request.starts_with("PUT /a?b=c HTTP/1.1\r\n") && request.ends_with("\r\n\r\ntext"),
        "{request}"
    );
    let host = format!("host: {}\r\n", server.address);
    assert!(request.contains(&host) && request.contains("x-one: 1\r\n"), "{request}");
    bed.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn ungranted_request_never_leaves_and_prints_missing_grant() {
    let (bed, mut server) = (Bed::new("http-ungranted").await, Server::new().await);
    granted(&bed, &[]).await;
    let url = format!("http://localhost:{}/", server.address.port());
    // The origin, and each address of its name on this machine.
    for _ in 0..3 {
        let fetch = bed.write("probe/fetch/a", json!({"url": url}));
        let answer = tokio::select! {
            answer = fetch => answer,
            request = server.next() => {
                request.answer.send(ok("")).unwrap();
                return bed.end().await;
            }
        };
        assert_eq!(answer.0, 403, "{}", answer.1);
        assert_eq!(server.connections(), 0, "nothing leaves before all is granted");
        let command =
            error(&answer.1).split("to allow it: bulkhead secrets tune --grant '").nth(1).unwrap();
        let line = command.strip_suffix("' probe/").unwrap().to_owned();
        granted(&bed, &[line]).await;
    }
    panic!("three lines did not open the way to localhost");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_redirect_is_an_answer_and_leads_nowhere() {
    let (bed, mut server, elsewhere) =
        (Bed::new("http-redirect").await, Server::new().await, Server::new().await);
    granted(&bed, &[server.grant(), elsewhere.grant()]).await;
    let redirect = format!(
        "HTTP/1.1 302 Found\r\nlocation: {}\r\ncontent-length: 0\r\n\r\n",
        elsewhere.url("/")
    );
    let (answer, _) = tokio::join!(
        bed.write("probe/fetch/a", json!({"url": server.url("/")})),
        server.reply(&redirect)
    );
    assert_eq!(answer.1["data"]["status"], 302, "{}", answer.1);
    assert_eq!(elsewhere.connections(), 0);
    bed.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn forbidden_addresses_are_refused_despite_spelling_or_grant() {
    let bed = Bed::new("http-metadata").await;
    granted(
        &bed,
        &["http:http://169.254.169.254".to_owned(), "http:http://100.100.100.200".to_owned()],
    )
    .await;
    for host in [
        "169.254.169.254",
        "0xa9fea9fe",
        "2852039166",
        "[::ffff:169.254.169.254]",
        "100.100.100.200",
    ] {
        let (status, refused) =
            bed.write("probe/fetch/a", json!({"url": format!("http://{host}/")})).await;
        assert_eq!(status, 400, "{host}: {refused}");
        assert!(error(&refused).contains("never dialled"), "{host}: {refused}");
    }
    bed.end().await;
}

/// Fetches with `method` while the record that the call read is changed. Returns the answer, and
/// how often was asked.
async fn overtaken(bed: &Bed, server: &mut Server, method: &str, safe: bool) -> (u16, u32) {
    let before = server.connections();
    let (path, fields) = (
        format!("probe/fetch/{method}"),
        json!({"url": server.url("/"), "method": method, "safe": safe}),
    );
    let fetch = bed.write(&path, fields);
    let overtake = async {
        let first = server.next().await;
        assert_eq!(bed.write(&format!("probe/count/{method}"), json!({})).await.0, 204);
        first.answer.send(ok("")).unwrap();
        loop {
            server.reply(&ok("")).await;
        }
    };
    let answer = tokio::select! {
        answer = fetch => answer,
        () = overtake => unreachable!("it answers for ever"),
    };
    (answer.0, server.connections() - before)
}

#[tokio::test(flavor = "multi_thread")]
async fn conflict_reruns_get_requests_and_safe_posts_only() {
    let (bed, mut server) = (Bed::new("http-effects").await, Server::new().await);
    granted(&bed, &[server.grant()]).await;
    assert_eq!(overtaken(&bed, &mut server, "GET", false).await, (200, 2));
    assert_eq!(bed.read("probe/note/GET").await.1["data"]["note"], 2);
    assert_eq!(
        overtaken(&bed, &mut server, "POST", false).await,
        (503, 1),
        "it happened, and may have happened only once"
    );
    assert_eq!(overtaken(&bed, &mut server, "POST", true).await, (200, 2));
    let fields = json!({"url": server.url("/"), "method": "PUT", "safe": true});
    let (status, refused) = bed.write("probe/fetch/a", fields).await;
    assert_eq!(status, 400, "{refused}");
    assert!(error(&refused).contains("safe is for a POST"), "{refused}");
    bed.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn request_secret_appears_in_no_failure_or_log() {
    let (bed, mut server) = (Bed::new("http-secrets").await, Server::new().await);
    granted(&bed, &[server.grant()]).await;
    let echo = ok("you sent Bearer Tok-4711-x and hUNTER2-hunter2, piece: 4711");
    for how in ["told", "logged"] {
        let fields = json!({
            "url": server.url("/"),
            "headers": {"Authorization": "Bearer Tok-4711-x"},
            "secret": "hunter2-hunter2",
            "how": how,
        });
        let (answer, request) =
            tokio::join!(bed.write("probe/fetch/a", fields), server.reply(&echo));
        assert!(request.contains("authorization: Bearer Tok-4711-x"), "{request}");
        if how == "told" {
            assert_eq!(error(&answer.1), "you sent [secret] and [secret], piece: 4711");
        }
    }
    // The refusal names the origin and the missing grant, without the rest of the URL.
    let fields =
        json!({"url": "https://other.example/hunter2-hunter2", "secret": "hunter2-hunter2"});
    let (status, refused) = bed.write("probe/fetch/a", fields).await;
    assert_eq!(status, 403, "{refused}");
    assert!(error(&refused).contains("'http:https://other.example:443' probe/"), "{refused}");
    let lines = bed.log.0.lock().unwrap().join("\n").to_lowercase();
    assert!(
        lines.contains("http-failed") && lines.contains("https://other.example:443"),
        "{lines}"
    );
    assert!(!lines.contains("tok-4711") && !lines.contains("hunter2"), "{lines}");
    bed.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn exceeding_http_call_or_byte_limit_ends_call() {
    let (bed, mut server) = (Bed::new("http-limits").await, Server::new().await);
    granted(&bed, &[server.grant()]).await;
    let answering = |mut server: Server, answer: String| {
        tokio::spawn(async move {
            loop {
                server.reply(&answer).await;
            }
        })
    };
    let large = ok(&"x".repeat(100_000));
    let url = server.url("/");
    let (answer, _) =
        tokio::join!(bed.write("probe/fetch/a", json!({"url": url})), server.reply(&large));
    assert_eq!(answer.0, 200, "{}", answer.1);
    let connections = Arc::clone(&server.connections);
    let served = answering(server, large);
    let (status, answer) = bed.write("probe/fetch/a", json!({"url": url, "times": 21})).await;
    assert_eq!(status, 500, "{answer}");
    assert!(error(&answer).contains("limit http-calls=20"), "{answer}");
    assert_eq!(connections.load(Ordering::SeqCst), 21, "twenty of them left");
    granted(&bed, &["limit:http-bytes=256KiB".to_owned()]).await;
    let (status, answer) = bed.write("probe/fetch/a", json!({"url": url, "times": 3})).await;
    assert_eq!(status, 500, "{answer}");
    assert!(error(&answer).contains("limit http-bytes=256KiB"), "{answer}");
    served.abort();
    bed.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn one_mounts_grants_are_nobody_elses() {
    let (bed, server) = (Bed::new("http-mounts").await, Server::new().await);
    granted(&bed, &[server.grant()]).await;
    let narrowed = json!({"type": "probe", "grants": ["http:https://other.example"]});
    assert_eq!(bed.write("sys/mounts/other", narrowed).await.0, 204);
    let (status, refused) = bed.write("other/fetch/a", json!({"url": server.url("/")})).await;
    assert_eq!((status, server.connections()), (403, 0), "{refused}");
    bed.end().await;
}

//! Bare hyper: the upper bound for every HTTP server here.
//!
//! The benchmark starts itself again as a separate process, which answers each request with the
//! same bytes, over connections with the settings of the real listener.

use http_body_util::Full;
use hyper::body::Bytes;
use hyper::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use std::convert::Infallible;
use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};

/// First argument of the process.
const WORD: &str = "serve-bare-hyper";

pub struct Bare {
    process: Child,
    pub address: SocketAddr,
    pub pid: u32,
}

impl Bare {
    /// Starts a process whose answers have a body of `bytes` bytes.
    pub fn start(bytes: usize) -> Self {
        let this = std::env::current_exe().expect("a running program has a path");
        let mut process = Command::new(this)
            .args([WORD, &bytes.to_string()])
            .stdout(Stdio::piped())
            .spawn()
            .expect("this program can be started again");
        let mut line = String::new();
        let output = process.stdout.take().expect("its output was asked for");
        BufReader::new(output).read_line(&mut line).expect("it says where it listens");
        let address = line.trim().parse().expect("an address");
        let pid = process.id();
        Self { process, address, pid }
    }
}

impl Drop for Bare {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Serves forever, if this process was started as the bare server.
pub fn serve_if_asked() {
    let mut arguments = std::env::args().skip(1);
    if arguments.next().as_deref() != Some(WORD) {
        return;
    }
    let bytes: usize =
        arguments.next().and_then(|bytes| bytes.parse().ok()).expect("bytes of the body");
    let body = Bytes::from(vec![b' '; bytes]);
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .expect("a runtime can be built");
    runtime.block_on(async {
        let socket = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        println!("{}", socket.local_addr().expect("an address"));
        loop {
            let (stream, _) = socket.accept().await.expect("a connection");
            tokio::spawn(connection(stream, body.clone()));
        }
    })
}

async fn connection(stream: TcpStream, body: Bytes) {
    stream.set_nodelay(true).expect("a socket takes the option");
    let service = service_fn(move |_| {
        let mut answer = hyper::Response::new(Full::new(body.clone()));
        answer.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        answer.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
        async move { Ok::<_, Infallible>(answer) }
    });
    let mut protocol = http1::Builder::new();
    protocol
        .timer(TokioTimer::new())
        .header_read_timeout(Duration::from_secs(10))
        .max_header_size(64 * 1024);
    // An error means that the client disconnected.
    let _ = protocol.serve_connection(TokioIo::new(stream), service).await;
}

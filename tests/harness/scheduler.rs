//! A client for the scheduler's API: plain HTTP on a separate listener.

use crate::Bulkhead;
use crate::paths::{Folder, binary};
use serde_json::Value;
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::sync::OnceLock;
use std::time::Duration;
use tokio::net::TcpSocket;
use tokio::runtime::{Builder, Runtime};

/// Maximum wait for an answer: longer than any blocking query of a test.
const PATIENCE: Duration = Duration::from_secs(30);

/// A server with the scheduler's listener and a bootstrapped ACL system.
pub struct Scheduler {
    pub server: Bulkhead,
    /// Secret of the bootstrap token.
    pub management: String,
}

#[derive(Clone, Debug)]
pub struct PlainAnswer {
    pub status: u16,
    /// Names are in lower case.
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
}

#[derive(Clone, Default)]
pub struct PlainRequest {
    pub method: String,
    pub path: String,
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
    /// Source address of the connection.
    pub from: Option<Ipv4Addr>,
}

impl Scheduler {
    /// Starts a server and bootstraps its ACL system.
    pub fn start() -> Self {
        let mut scheduler = Self::before_bootstrap();
        let boot = scheduler.ask("PUT", "/v1/acl/bootstrap", "", &Value::Null);
        assert_eq!(boot.status, 200, "{}", boot.text());
        scheduler.management = boot.json()["SecretID"].as_str().expect("a secret").to_owned();
        scheduler
    }

    /// Starts a server without bootstrapping its ACL system.
    pub fn before_bootstrap() -> Self {
        let mut server = Bulkhead::prepared(binary(), Folder::new("scheduler"));
        start(&mut server);
        Self { server, management: String::new() }
    }

    /// Starts the server again on the same data.
    pub fn start_again(&mut self) {
        start(&mut self.server);
    }

    /// Returns the address of the scheduler's API.
    pub fn address(&self) -> SocketAddr {
        scheduler_address(&self.server)
    }

    /// Sends a request with this token, or without a token if empty. `Null` sends no body.
    pub fn ask(&self, method: &str, path: &str, token: &str, body: &Value) -> PlainAnswer {
        let mut request = PlainRequest::new(method, path).with_token(token);
        if !body.is_null() {
            request.body = body.to_string().into_bytes();
        }
        request.send(self.address())
    }

    /// Sends a request with the management token, and fails if the status is not 200.
    #[track_caller]
    pub fn manage(&self, method: &str, path: &str, body: &Value) -> PlainAnswer {
        let answer = self.ask(method, path, &self.management, body);
        assert_eq!(answer.status, 200, "{method} {path}: {}", answer.text());
        answer
    }
}

fn start(server: &mut Bulkhead) {
    let listener = ("BULKHEAD_DEV_SCHEDULER_LISTEN_ADDRESS", "127.0.0.1:0".to_owned());
    let started = server.start_with(&[listener]);
    started.unwrap_or_else(|status| panic!("ended with {status}:\n{}", server.printed()));
}

/// Returns the address of the scheduler's API that the last start of the server printed. An earlier
/// start printed another address, which no longer answers.
pub fn scheduler_address(server: &Bulkhead) -> SocketAddr {
    let (found, _) = crate::wait::until("the server has a scheduler listener", PATIENCE, || {
        let printed = server.printed();
        let (_, start) = printed.rsplit_once("listening on ")?;
        let (_, rest) = start.split_once("scheduler API on ")?;
        let (line, _) = rest.split_once('\n')?;
        line.split_once("://")?.1.trim().parse().ok()
    });
    found
}

impl PlainRequest {
    pub fn new(method: &str, path: &str) -> Self {
        Self { method: method.to_owned(), path: path.to_owned(), ..Self::default() }
    }

    /// Sets the token, unless empty.
    #[must_use]
    pub fn with_token(self, token: &str) -> Self {
        if token.is_empty() { self } else { self.with_header("X-Nomad-Token", token) }
    }

    #[must_use]
    pub fn with_header(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Sends the request without waiting for the answer.
    pub fn begin(&self, to: SocketAddr) -> TcpStream {
        let mut stream = self.connect(to);
        self.begin_on(&mut stream, "close");
        stream
    }

    /// Connects from the request's source address.
    pub fn connect(&self, to: SocketAddr) -> TcpStream {
        self.try_connect(to).expect("the server listens")
    }

    fn try_connect(&self, to: SocketAddr) -> io::Result<TcpStream> {
        // Shared by all connections, because tests open thousands within seconds.
        static RUNTIME: OnceLock<Runtime> = OnceLock::new();
        let runtime = RUNTIME.get_or_init(|| {
            Builder::new_multi_thread().worker_threads(1).enable_io().build().expect("a runtime")
        });
        let connected = runtime.block_on(async {
            let socket = TcpSocket::new_v4()?;
            if let Some(from) = self.from {
                socket.bind((from, 0).into())?;
            }
            socket.connect(to).await?.into_std()
        });
        let stream = connected?;
        stream.set_nonblocking(false)?;
        Ok(stream)
    }

    /// Sends the request with this `Connection` header: `close` or `keep-alive`.
    pub fn begin_on(&self, stream: &mut TcpStream, fate: &str) {
        self.try_begin_on(stream, fate).expect("the server takes a request");
    }

    fn try_begin_on(&self, stream: &mut TcpStream, fate: &str) -> io::Result<()> {
        let mut bytes = format!("{} {} HTTP/1.1\r\nHost: x\r\n", self.method, self.path);
        let mut is_chunked = false;
        for (name, value) in &self.headers {
            is_chunked |= name.eq_ignore_ascii_case("transfer-encoding");
            bytes.push_str(&format!("{name}: {value}\r\n"));
        }
        let has_body = !self.body.is_empty() || ["PUT", "POST"].contains(&self.method.as_str());
        if has_body && !is_chunked {
            bytes.push_str(&format!("Content-Length: {}\r\n", self.body.len()));
        }
        bytes.push_str(&format!("Connection: {fate}\r\n\r\n"));
        stream.write_all(bytes.as_bytes())?;
        stream.write_all(&self.body)
    }

    /// Sends the request to a server that may die, and returns the answer if one arrives.
    pub fn attempt(&self, to: SocketAddr) -> Option<PlainAnswer> {
        let mut stream = self.try_connect(to).ok()?;
        self.try_begin_on(&mut stream, "close").ok()?;
        PlainAnswer::try_receive(&mut stream)
    }

    /// Sends the request and waits for the answer.
    pub fn send(&self, to: SocketAddr) -> PlainAnswer {
        PlainAnswer::receive(self.begin(to))
    }
}

impl PlainAnswer {
    /// Reads the answer, and closes the connection.
    #[track_caller]
    pub fn receive(mut stream: TcpStream) -> Self {
        Self::receive_next(&mut stream)
    }

    /// Reads the next answer from a connection that stays open.
    #[track_caller]
    pub fn receive_next(stream: &mut TcpStream) -> Self {
        Self::try_receive(stream).expect("an answer in time")
    }

    /// Reads the next answer; `None` if the connection ends before the answer is complete.
    fn try_receive(stream: &mut TcpStream) -> Option<Self> {
        stream.set_read_timeout(Some(PATIENCE)).expect("a socket takes the option");
        let (mut bytes, mut buffer) = (Vec::new(), [0; 4096]);
        loop {
            if let Some(answer) = Self::parse_complete(&bytes) {
                return Some(answer);
            }
            match stream.read(&mut buffer).ok()? {
                // An answer to HEAD has a length and no body.
                0 => return Self::parse(&bytes),
                count => bytes.extend_from_slice(&buffer[..count]),
            }
        }
    }

    /// Parses an answer if all of its bytes have arrived.
    fn parse_complete(bytes: &[u8]) -> Option<Self> {
        let answer = Self::parse(bytes)?;
        let length: usize = answer.header("content-length")?.parse().ok()?;
        (answer.body.len() >= length).then_some(answer)
    }

    /// Parses an answer if its head has arrived.
    fn parse(bytes: &[u8]) -> Option<Self> {
        let end = bytes.windows(4).position(|four| four == b"\r\n\r\n")?;
        let head = String::from_utf8_lossy(&bytes[..end]).into_owned();
        let mut lines = head.lines();
        let status = lines.next().and_then(|line| line.split(' ').nth(1)?.parse().ok())?;
        let headers = lines.filter_map(|line| line.split_once(": "));
        let headers = headers.map(|(name, value)| (name.to_ascii_lowercase(), value.to_owned()));
        let body = bytes[end + 4..].to_vec();
        Some(Self { status, headers: headers.collect(), body })
    }

    pub fn header(&self, name: &str) -> Option<&str> {
        let name = name.to_ascii_lowercase();
        self.headers.iter().find(|(key, _)| *key == name).map(|(_, value)| value.as_str())
    }

    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    #[track_caller]
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body)
            .unwrap_or_else(|error| panic!("{error}: {} {}", self.status, self.text()))
    }

    #[track_caller]
    pub fn index(&self) -> u64 {
        let index = self.header("x-nomad-index").and_then(|index| index.parse().ok());
        index.unwrap_or_else(|| panic!("no index: {} {}", self.status, self.text()))
    }
}

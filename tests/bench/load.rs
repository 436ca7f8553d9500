//! The load: kept connections that repeat the same request as soon as the answer arrives.
//!
//! The load shares the processor cores with the server, so it does little: it has no HTTP library,
//! and checks only the status of an answer and its length, which is that of the first answer or
//! declared by the answer itself.
#![allow(dead_code, reason = "each benchmark includes it and uses its part")]

use std::net::SocketAddr;
use std::time::{Duration, Instant};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// Larger than any answer of a benchmark, in bytes.
const ANSWER_MAX: usize = 16 * 1024;

pub struct Connection {
    stream: TcpStream,
    answer: Vec<u8>,
}

/// Builds a GET such as `/v1/database/roles/reader`, without a body.
pub fn get(path: &str, token: &str) -> Vec<u8> {
    format!("GET /v1/{path} HTTP/1.1\r\nHost: bench\r\nX-Vault-Token: {token}\r\n\r\n").into_bytes()
}

/// Builds a POST of JSON text.
pub fn post(path: &str, token: &str, json: &str) -> Vec<u8> {
    let length = json.len();
    format!(
        "POST /v1/{path} HTTP/1.1\r\nHost: bench\r\nX-Vault-Token: {token}\r\n\
         Content-Length: {length}\r\n\r\n{json}"
    )
    .into_bytes()
}

impl Connection {
    pub async fn open(address: SocketAddr) -> Self {
        let stream = TcpStream::connect(address).await.expect("the server accepts a connection");
        stream.set_nodelay(true).expect("a socket takes the option");
        Self { stream, answer: vec![0; ANSWER_MAX] }
    }

    /// Sends a request and returns head and body of the answer. Fails if the answer is not a
    /// complete success.
    pub async fn exchange(&mut self, request: &[u8]) -> &str {
        let answer = self.attempt(request).await;
        assert!(answer.starts_with("HTTP/1.1 20"), "{answer}");
        answer
    }

    /// Like [`Connection::exchange`], for any status.
    pub async fn attempt(&mut self, request: &[u8]) -> &str {
        self.stream.write_all(request).await.expect("the server reads");
        let mut have = 0;
        loop {
            let more =
                self.stream.read(&mut self.answer[have..]).await.expect("the server answers");
            assert!(
                more > 0,
                "the server closed the connection, or its answer is longer than {ANSWER_MAX} bytes"
            );
            have += more;
            let text = std::str::from_utf8(&self.answer[..have]).expect("the answer is text");
            if length(text).is_some_and(|length| length <= have) {
                break;
            }
        }
        std::str::from_utf8(&self.answer[..have]).expect("the answer is text")
    }

    /// Like [`Connection::exchange`], without the answer. An answer of a given `answer_length` is
    /// not parsed.
    async fn exchange_of_length(&mut self, request: &[u8], answer_length: Option<usize>) {
        match answer_length {
            Some(length) => self.exchange_known(request, length).await,
            None => drop(self.exchange(request).await.len()),
        }
    }

    async fn exchange_known(&mut self, request: &[u8], length: usize) {
        self.stream.write_all(request).await.expect("the server reads");
        let answer = &mut self.answer[..length];
        self.stream.read_exact(answer).await.expect("the server answers");
        assert!(answer.starts_with(b"HTTP/1.1 20"), "{}", String::from_utf8_lossy(answer));
    }
}

/// Returns the length of the whole answer in bytes, once the head has arrived.
fn length(text: &str) -> Option<usize> {
    let (head, _) = text.split_once("\r\n\r\n")?;
    let declared = head.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        name.eq_ignore_ascii_case("content-length")
            .then(|| value.trim().parse::<usize>().expect("a length"))
    });
    Some(head.len() + 4 + declared.unwrap_or(0))
}

/// Lengths of the answers to a repeated request.
#[derive(Clone, Copy)]
pub enum AnswerLengths {
    /// All answers are as long as the first answer, so that the load parses no answer.
    Equal,
    /// The head of each answer declares the length, as for answers that contain a growing number.
    /// Parsing the head takes the load a few microseconds.
    Declared,
}

/// A server and the request to send.
pub struct Target {
    pub address: SocketAddr,
    pub pid: u32,
    /// The encoded request.
    pub request: Vec<u8>,
    pub lengths: AnswerLengths,
}

impl Target {
    /// Returns one answer for inspection.
    pub async fn look(&self) -> String {
        Connection::open(self.address).await.exchange(&self.request).await.to_owned()
    }

    /// Sends the request over `connections` for `time`. Fails if an answer is not a success, or
    /// does not have the expected length.
    pub async fn load(&self, connections: usize, time: Duration) -> Load {
        let first = self.look().await.len();
        let answer_length = match self.lengths {
            AnswerLengths::Equal => Some(first),
            AnswerLengths::Declared => None,
        };
        let mut open = Vec::new();
        for _ in 0..connections {
            open.push(Connection::open(self.address).await);
        }
        let used = [cpu(self.pid), cpu(std::process::id())];
        let began = Instant::now();
        let asking: Vec<_> = open
            .into_iter()
            .map(|mut connection| {
                let request = self.request.clone();
                tokio::spawn(async move {
                    let mut answered = 0_u32;
                    while began.elapsed() < time {
                        connection.exchange_of_length(&request, answer_length).await;
                        answered += 1;
                    }
                    answered
                })
            })
            .collect();
        let mut answered = 0;
        for one in asking {
            answered += one.await.expect("no connection failed");
        }
        let per_second = f64::from(answered) / began.elapsed().as_secs_f64();
        let [server, load] = [cpu(self.pid) - used[0], cpu(std::process::id()) - used[1]]
            .map(|s| s / f64::from(answered));
        Load { per_second, server, load }
    }
}

#[derive(Clone, Copy)]
pub struct Load {
    /// Answers per second.
    pub per_second: f64,
    /// Processor time of the server per answer, in seconds.
    pub server: f64,
    /// Processor time of the load per answer, in seconds.
    pub load: f64,
}

/// Returns the processor time of a process so far, in seconds. Linux counts in hundredths.
pub fn cpu(pid: u32) -> f64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/stat"))
        .expect("Linux shows the processor time of a process");
    let (_, after_name) = status.rsplit_once(')').expect("the name is in brackets");
    let ticks = after_name
        .split_whitespace()
        .skip(11)
        .take(2)
        .map(|ticks| ticks.parse::<f64>().expect("a number"));
    ticks.sum::<f64>() / 100.0
}

//! A steady load: clients that send a request at fixed times, and connect again if the server has
//! closed the connection.
//!
//! The time of an answer counts from the time at which its request was due. A pause of the server
//! thus counts for every request that was due in the pause.
#![allow(dead_code, reason = "each benchmark includes it and uses its part")]

use crate::figures::{micros, quantile};
use serde_json::{Value, json};
use std::io::ErrorKind;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// Larger than any answer of the load, in bytes.
const ANSWER_MAX: usize = 16 * 1024;

/// The use of connections by a client.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum ConnectionUse {
    /// A new connection for each request.
    Fresh,
    /// One connection, until the server closes the connection. A request is sent again on a new
    /// connection if the server closed the idle connection before the whole request was sent, or
    /// without a byte of an answer, as HTTP clients do. A reset after the whole request is a
    /// failure: the server has discarded a request.
    Kept,
}

/// The load of all clients together.
#[derive(Clone)]
pub struct SteadyLoad {
    pub address: SocketAddr,
    /// The encoded request.
    pub request: Vec<u8>,
    pub clients: u32,
    /// Requests per second of all clients.
    pub per_second: u32,
    pub connections: ConnectionUse,
}

/// The answers of all clients.
#[derive(Default)]
pub struct SteadyOutcome {
    pub times: Vec<Duration>,
    pub failures: Vec<String>,
    /// Number of requests that were sent again on a new connection.
    pub repeated: u32,
}

impl SteadyLoad {
    /// Sends the requests while `other` runs.
    pub async fn during<T>(&self, other: impl Future<Output = T>) -> (SteadyOutcome, T) {
        let is_over = Arc::new(AtomicBool::new(false));
        let began = Instant::now();
        let interval = Duration::from_secs(1) * self.clients / self.per_second;
        let clients: Vec<_> = (0..self.clients)
            .map(|place| {
                let first = began + interval * place / self.clients;
                let (load, is_over) = (self.clone(), Arc::clone(&is_over));
                tokio::spawn(async move { load.ask(first, interval, &is_over).await })
            })
            .collect();
        let done = other.await;
        is_over.store(true, Ordering::Relaxed);
        let mut outcome = SteadyOutcome::default();
        for client in clients {
            outcome.add(client.await.expect("no client panicked"));
        }
        (outcome, done)
    }

    async fn ask(self, first: Instant, interval: Duration, is_over: &AtomicBool) -> SteadyOutcome {
        let (mut open, mut outcome, mut due) = (None, SteadyOutcome::default(), first);
        while !is_over.load(Ordering::Relaxed) {
            tokio::time::sleep_until(due.into()).await;
            match self.exchange(&mut open).await {
                Ok(is_repeated) => outcome.repeated += u32::from(is_repeated),
                Err(why) => outcome.failures.push(why),
            }
            outcome.times.push(due.elapsed());
            due += interval;
        }
        outcome
    }

    /// Sends the request once, on the open connection if there is one. Returns whether the request
    /// was sent again on a new connection.
    ///
    /// # Errors
    /// The reason, or an answer that is not a success.
    pub async fn exchange(&self, open: &mut Option<TcpStream>) -> Result<bool, String> {
        let mut is_repeated = false;
        if let Some(mut stream) = open.take().filter(is_open) {
            match answered(&mut stream, &self.request).await {
                Ok(Some(answer)) => return self.keep(open, stream, &answer).map(|()| false),
                Ok(None) => is_repeated = true,
                Err(why) => return Err(why),
            }
        }
        let connected = TcpStream::connect(self.address).await;
        let mut stream = connected.map_err(|error| format!("connect: {error}"))?;
        stream.set_nodelay(true).map_err(|error| error.to_string())?;
        let answer = answered(&mut stream, &self.request).await?;
        let answer = answer.ok_or("the server closed a new connection without an answer")?;
        self.keep(open, stream, &answer).map(|()| is_repeated)
    }

    /// Checks the status, and keeps the connection for the next request unless the answer closes
    /// the connection.
    fn keep(
        &self,
        open: &mut Option<TcpStream>,
        stream: TcpStream,
        answer: &str,
    ) -> Result<(), String> {
        if !answer.starts_with("HTTP/1.1 20") {
            return Err(answer.to_owned());
        }
        let is_closing = answer.to_ascii_lowercase().contains("\r\nconnection: close\r\n");
        *open = Some(stream).filter(|_| self.connections == ConnectionUse::Kept && !is_closing);
        Ok(())
    }
}

/// Returns false if the server has closed the idle connection.
fn is_open(stream: &TcpStream) -> bool {
    stream.try_read(&mut [0]).is_err_and(|error| error.kind() == ErrorKind::WouldBlock)
}

/// Sends a request and returns the answer. `None`: the request could not be sent whole, or the
/// connection was closed in order before the first byte of an answer.
async fn answered(stream: &mut TcpStream, request: &[u8]) -> Result<Option<String>, String> {
    if stream.write_all(request).await.is_err() {
        return Ok(None);
    }
    let mut answer = Vec::with_capacity(ANSWER_MAX);
    loop {
        match stream.read_buf(&mut answer).await {
            Ok(0) if answer.is_empty() => return Ok(None),
            Ok(0) => return Err("the connection was closed inside of an answer".to_owned()),
            Ok(_) => {}
            Err(error) => return Err(format!("read: {error}")),
        }
        let text = std::str::from_utf8(&answer).map_err(|error| error.to_string())?;
        if length(text).is_some_and(|length| length <= text.len()) {
            return Ok(Some(text.to_owned()));
        }
    }
}

/// Returns the length of the whole answer in bytes, once the head has arrived.
fn length(text: &str) -> Option<usize> {
    let (head, _) = text.split_once("\r\n\r\n")?;
    let declared = head.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        let is_length = name.eq_ignore_ascii_case("content-length");
        is_length.then(|| value.trim().parse::<usize>().expect("a length"))
    });
    Some(head.len() + 4 + declared.unwrap_or(0))
}

impl SteadyOutcome {
    pub fn add(&mut self, other: Self) {
        self.times.extend(other.times);
        self.failures.extend(other.failures);
        self.repeated += other.repeated;
    }

    /// Returns the 99th percentile of the times.
    pub fn p99(&mut self) -> Duration {
        quantile(&mut self.times, 0.99)
    }

    /// Returns the longest time.
    pub fn longest(&mut self) -> Duration {
        quantile(&mut self.times, 1.0)
    }

    /// Prints a row, and up to three failures; returns the row.
    pub fn report(&mut self, name: &str) -> Value {
        let [p50, p99, longest] =
            [0.5, 0.99, 1.0].map(|share| micros(quantile(&mut self.times, share)));
        let (requests, failed) = (self.times.len(), self.failures.len());
        println!(
            "  {name:44} {requests:>7} requests, {failed} failed; p50 {p50:>6} us, \
             p99 {p99:>7} us, longest {longest:>8} us"
        );
        self.failures.iter().take(3).for_each(|why| println!("    {why}"));
        json!({
            "requests": requests, "failed": failed, "repeated": self.repeated,
            "p50_us": p50, "p99_us": p99, "longest_us": longest,
        })
    }
}

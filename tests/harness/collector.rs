//! A collector of traces on loopback: reads OTLP over HTTP strictly, and fails as real collectors
//! do.
//!
//! ```no_run
//! use bulkhead_tests::collector::{Collector, CollectorMode};
//!
//! let collector = Collector::start();
//! println!("{}", collector.block(1.0)); // the block `telemetry` of a configuration
//! collector.set(CollectorMode::Hang); // the next batches get no answer
//! assert!(collector.spans().is_empty());
//! ```

mod otlp;

pub use otlp::Span;

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Time for which a hanging collector keeps a connection open.
const HANG: Duration = Duration::from_secs(60);

/// The answer of the collector to a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CollectorMode {
    Accept,
    /// Reads the batch and answers nothing.
    Hang,
    /// Answers a redirect to the collector of [`Collector::redirect_to`].
    Redirect,
    /// Answers 200 with a page of HTML.
    Nonsense,
    /// Answers 503.
    Unavailable,
}

struct CollectorState {
    /// Place of redirects.
    elsewhere: SocketAddr,
    mode: CollectorMode,
    spans: Vec<Span>,
    /// Everything that arrived, heads included.
    bytes: Vec<u8>,
    /// Number of batches in each mode, in order.
    batches: Vec<CollectorMode>,
    faults: Vec<String>,
}

pub struct Collector {
    address: SocketAddr,
    state: Arc<Mutex<CollectorState>>,
}

impl Collector {
    /// Starts a collector that accepts every batch.
    pub fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let address = listener.local_addr().expect("a port of ours");
        let state = Arc::new(Mutex::new(CollectorState {
            elsewhere: address,
            mode: CollectorMode::Accept,
            spans: Vec::new(),
            bytes: Vec::new(),
            batches: Vec::new(),
            faults: Vec::new(),
        }));
        let shared = Arc::clone(&state);
        // The thread ends with the test program.
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let state = Arc::clone(&shared);
                std::thread::spawn(move || serve(stream, &state));
            }
        });
        Self { address, state }
    }

    /// Returns the block of the configuration that exports this part of all traces to the
    /// collector.
    pub fn block(&self, ratio: f64) -> String {
        let address = self.address;
        format!(
            "telemetry {{\n  otlp_endpoint = \"http://{address}\"\n  sample_ratio = {ratio}\n}}\n"
        )
    }

    /// Redirects to `other` in the mode [`CollectorMode::Redirect`].
    pub fn redirect_to(&self, other: &Self) {
        self.state().elsewhere = other.address;
    }

    pub fn set(&self, mode: CollectorMode) {
        self.state().mode = mode;
    }

    /// Returns the spans of all accepted batches.
    ///
    /// # Panics
    /// If a batch was not valid OTLP.
    #[track_caller]
    pub fn spans(&self) -> Vec<Span> {
        let state = self.state();
        assert!(state.faults.is_empty(), "{:?}", state.faults);
        state.spans.clone()
    }

    /// Returns everything that arrived, as text with replaced bytes.
    pub fn received(&self) -> String {
        String::from_utf8_lossy(&self.state().bytes).into_owned()
    }

    /// Returns the number of batches that arrived in this mode.
    pub fn batches_in(&self, mode: CollectorMode) -> usize {
        self.state().batches.iter().filter(|batch| **batch == mode).count()
    }

    fn state(&self) -> MutexGuard<'_, CollectorState> {
        lock(&self.state)
    }
}

fn lock(state: &Mutex<CollectorState>) -> MutexGuard<'_, CollectorState> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Serves one request of a connection.
fn serve(mut stream: TcpStream, state: &Mutex<CollectorState>) {
    let mut reader = BufReader::new(stream.try_clone().expect("a free descriptor"));
    let Some((head, body)) = receive(&mut reader) else { return };
    let decoded = otlp::decode(&body);
    let (mode, elsewhere) = {
        let mut state = lock(state);
        state.bytes.extend_from_slice(head.as_bytes());
        state.bytes.extend_from_slice(&body);
        let mode = state.mode;
        state.batches.push(mode);
        let lower = head.to_ascii_lowercase();
        if !head.starts_with("POST /v1/traces HTTP/1.1\r\n")
            || !lower.contains("\r\ncontent-type: application/x-protobuf\r\n")
        {
            state.faults.push(head);
        }
        match decoded {
            Ok(spans) if mode == CollectorMode::Accept => state.spans.extend(spans),
            Ok(_) => {}
            Err(fault) => state.faults.push(fault),
        }
        (mode, state.elsewhere)
    };
    let answer = match mode {
        CollectorMode::Accept => "HTTP/1.1 200 OK\r\nContent-Type: application/x-protobuf\r\n\
             Content-Length: 0\r\n\r\n"
            .to_owned(),
        CollectorMode::Redirect => format!(
            "HTTP/1.1 307 Elsewhere\r\nLocation: http://{elsewhere}/v1/traces\r\n\
             Content-Length: 0\r\n\r\n"
        ),
        CollectorMode::Nonsense => "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\
             Content-Length: 15\r\n\r\n<html>no</html>"
            .to_owned(),
        CollectorMode::Unavailable => "HTTP/1.1 503 Busy\r\nContent-Length: 0\r\n\r\n".to_owned(),
        CollectorMode::Hang => {
            // Ends early when the client gives up.
            stream.set_read_timeout(Some(HANG)).expect("a socket takes the option");
            let _ = stream.read(&mut [0]);
            return;
        }
    };
    let _ = stream.write_all(answer.as_bytes());
}

/// Reads a request; `None` for a connection that ends before.
fn receive(reader: &mut impl BufRead) -> Option<(String, Vec<u8>)> {
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        if reader.read_line(&mut head).ok()? == 0 {
            return None;
        }
    }
    let lower = head.to_ascii_lowercase();
    let length = lower.lines().find_map(|line| line.strip_prefix("content-length: "))?;
    let mut body = vec![0; length.trim().parse().ok()?];
    reader.read_exact(&mut body).ok()?;
    Some((head, body))
}

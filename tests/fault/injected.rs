//! One fault in the life of a server: its environment, its effect on calls, and a check that it
//! fired.

use crate::points;
use bulkhead_tests::paths::Folder;
use bulkhead_tests::{Answer, Bulkhead, Client};
use serde_json::Value;
use std::path::PathBuf;
use std::process::ExitStatus;
use std::time::{Duration, Instant};

/// The server ended, or answered with an error.
pub struct FaultObserved;

/// Longest time between a broken connection and the end of the process, on a busy machine.
const END: Duration = Duration::from_secs(30);

/// Longest time for which a server goes on after an error, and time without a failpoint after which
/// the server has undone or completed the interrupted change: longer than the first pause of a
/// retry, which is at most 1.2 s.
const AFTER_ERROR: Duration = Duration::from_secs(3);
const QUIET: Duration = Duration::from_millis(1_500);

/// Returns the answer, or [`FaultObserved`] for a 5xx or no answer.
pub fn answered(answer: Result<Answer, String>) -> Result<Answer, FaultObserved> {
    answer.ok().filter(|answer| answer.status < 500).ok_or(FaultObserved)
}

/// Sends a write that a fault may hit.
pub fn write(client: &Client, path: &str, body: &Value) -> Result<Answer, FaultObserved> {
    answered(client.attempt("POST", path, body.to_string().as_bytes()))
}

/// A fault at a failpoint.
pub struct InjectedFault<'a> {
    fault: &'a str,
    number: u32,
    notes: Folder,
}

impl<'a> InjectedFault<'a> {
    /// `fault` at the failpoint with this number, counted from 1.
    pub fn at(fault: &'a str, number: u32) -> Self {
        Self { fault, number, notes: Folder::new("trace") }
    }

    /// The environment that injects the fault into a server.
    pub fn environment(&self) -> [(&'static str, String); 2] {
        [
            ("BULKHEAD_FAULT", format!("{}@{}", self.fault, self.number)),
            ("BULKHEAD_FAULT_TRACE", self.trace().display().to_string()),
        ]
    }

    /// Starts a server on prepared data. Returns false if the server died during the start.
    pub fn start(&self, server: &mut Bulkhead) -> bool {
        let has_started = server.start_with(&self.environment()).is_ok();
        if has_started {
            points::await_stored_time(&self.trace());
        }
        has_started
    }

    /// Stops the server. `lived` is the outcome of its life. Returns false if the life ended before
    /// the fault fired.
    pub fn end<T>(&self, server: &mut Bulkhead, lived: &Result<T, FaultObserved>) -> bool {
        let ended = match lived {
            Ok(_) => server.ended(Duration::ZERO),
            Err(_) if self.fault == "abort" => server.ended(END),
            Err(_) => self.ended_after_error(server),
        };
        if ended.is_none() {
            server.kill();
        }
        match self.fault {
            "abort" => ended.is_some(),
            _ => points::passed(self.fault, &self.trace()) >= self.number,
        }
    }

    /// Waits until the server passes no more failpoints, and returns the exit status if the server
    /// ends.
    fn ended_after_error(&self, server: &mut Bulkhead) -> Option<ExitStatus> {
        let traced = || std::fs::metadata(self.trace()).map_or(0, |trace| trace.len());
        let start = Instant::now();
        let (mut length, mut changed) = (traced(), start);
        while changed.elapsed() < QUIET && start.elapsed() < AFTER_ERROR {
            let ended = server.ended(Duration::from_millis(20));
            if ended.is_some() {
                return ended;
            }
            if traced() != length {
                (length, changed) = (traced(), Instant::now());
            }
        }
        None
    }

    fn trace(&self) -> PathBuf {
        self.notes.path().join("trace")
    }
}

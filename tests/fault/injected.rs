//! One fault in the life of a server: its environment, its effect on calls, and a check that it
//! fired.

use crate::points;
use bulkhead_tests::paths::Folder;
use bulkhead_tests::{Answer, Bulkhead, Client};
use serde_json::Value;
use std::path::PathBuf;
use std::time::Duration;

/// The server ended, or answered with an error.
pub struct FaultObserved;

/// Longest time that a server may take to end after an error.
const END: Duration = Duration::from_secs(3);

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

    /// Stops the server. `lived` is the outcome of its life. Returns false if the life ended before
    /// the fault fired.
    pub fn end<T>(&self, server: &mut Bulkhead, lived: &Result<T, FaultObserved>) -> bool {
        let ended = server.ended(if lived.is_err() { END } else { Duration::ZERO });
        if ended.is_none() {
            server.kill();
        }
        match self.fault {
            "abort" => ended.is_some(),
            _ => points::passed(self.fault, &self.trace()) >= self.number,
        }
    }

    fn trace(&self) -> PathBuf {
        self.notes.path().join("trace")
    }
}

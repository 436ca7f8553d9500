//! One fault in the life of a server: how its server is told, what its calls become, and whether it
//! came.

use crate::points;
use bulkhead_tests::paths::Folder;
use bulkhead_tests::{Answer, Bulkhead, Client};
use serde_json::Value;
use std::path::PathBuf;
use std::time::Duration;

/// The server ended, or answered that something failed.
pub struct Troubled;

/// How long a server in trouble may take to end.
const END: Duration = Duration::from_secs(3);

/// What was answered, unless that was trouble.
pub fn answered(answer: Result<Answer, String>) -> Result<Answer, Troubled> {
    answer.ok().filter(|answer| answer.status < 500).ok_or(Troubled)
}

/// Writes, where a fault may come.
pub fn write(client: &Client, path: &str, body: &Value) -> Result<Answer, Troubled> {
    answered(client.attempt("POST", path, body.to_string().as_bytes()))
}

/// A fault at one point that can have it.
pub struct Injected<'a> {
    fault: &'a str,
    number: u32,
    notes: Folder,
}

impl<'a> Injected<'a> {
    /// `fault` at the point of that number, counted from 1.
    pub fn at(fault: &'a str, number: u32) -> Self {
        Self { fault, number, notes: Folder::new("trace") }
    }

    /// The environment of the server that is to meet it.
    pub fn environment(&self) -> [(&'static str, String); 2] {
        [
            ("BULKHEAD_FAULT", format!("{}@{}", self.fault, self.number)),
            ("BULKHEAD_FAULT_TRACE", self.trace().display().to_string()),
        ]
    }

    /// Ends the server, of which `lived` says whether it was in trouble. `false` where its life was
    /// over before the fault came.
    pub fn end<T>(&self, server: &mut Bulkhead, lived: &Result<T, Troubled>) -> bool {
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

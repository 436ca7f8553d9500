//! A private Prometheus, which scrapes one server and evaluates the alerts of `packaging/`.

use crate::paths::repository;
use crate::server_script::ServerScript;
use crate::wait::until_true;
use serde_json::Value;
use std::io::Write;
use std::process::{Command, Output, Stdio};
use std::time::Duration;

/// Longest wait for a value: the scrape and the evaluation take a second each.
const PATIENCE: Duration = Duration::from_secs(60);

/// A running Prometheus.
pub struct Prometheus {
    port: u16,
    _script: ServerScript,
}

impl Prometheus {
    /// Starts a server that scrapes `address` with `token`; `""` for a listener that asks for none.
    pub fn scraping(address: &str, token: &str) -> Self {
        let environment = [("BULKHEAD_ADDRESS", address), ("BULKHEAD_TOKEN", token)];
        let script = ServerScript::start("prometheus", &[], &environment);
        Self { port: script.said("port"), _script: script }
    }

    /// Returns the member `data` of an answer of the API.
    #[track_caller]
    pub fn data(&self, path: &str) -> Value {
        let url = format!("http://127.0.0.1:{}/api/v1/{path}", self.port);
        let output = Command::new("curl").args(["-sS", "--globoff", &url]).output();
        let output = output.expect("curl can be started");
        let answer: Value = serde_json::from_slice(&output.stdout).unwrap_or_else(|error| {
            panic!("{url}: {error}: {}", String::from_utf8_lossy(&output.stderr))
        });
        assert_eq!(answer["status"], "success", "{url}: {answer}");
        answer["data"].clone()
    }

    /// Returns the value of a query with one series; `None` if the query has no series yet.
    #[track_caller]
    pub fn value(&self, query: &str) -> Option<f64> {
        let data = self.data(&format!("query?query={query}"));
        let value = data["result"][0]["value"][1].as_str()?;
        Some(value.parse().unwrap_or_else(|_| panic!("{query}: {value}")))
    }

    /// Waits until a query has the value.
    #[track_caller]
    pub fn await_value(&self, query: &str, value: f64) {
        until_true(query, PATIENCE, || self.value(query) == Some(value));
    }
}

/// Runs `promtool` in the folder `packaging/prometheus`, with `input` as standard input.
pub fn promtool(arguments: &[&str], input: &str) -> Output {
    let mut process = Command::new("promtool")
        .args(arguments)
        .current_dir(repository().join("packaging/prometheus"))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("promtool can be started");
    let mut pipe = process.stdin.take().expect("the standard input is piped");
    // A program that reads no input may end before the input is written.
    let _ = pipe.write_all(input.as_bytes());
    drop(pipe);
    process.wait_with_output().expect("promtool ends")
}

//! A private server, run by `tests/servers/<name>.sh --until-eof`.
//!
//! Only the script knows how to start and stop its server. The script prints one line when the
//! server is ready (`ready port=… folder=…`), and stops the server when standard input closes. A
//! test program that dies in any way therefore leaves no server behind.

use crate::paths::repository;
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::str::FromStr;

/// A running script with a ready server, which stops on drop.
pub struct ServerScript {
    process: Child,
    name: &'static str,
    ready: String,
}

impl ServerScript {
    /// Starts `tests/servers/<name>.sh` with options for the server and variables for the script,
    /// and waits until the server is ready.
    pub fn start(name: &'static str, options: &[&str], environment: &[(&str, &str)]) -> Self {
        let mut process = Command::new(repository().join(format!("tests/servers/{name}.sh")))
            .arg("--until-eof")
            .args(options)
            .envs(environment.iter().copied())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap_or_else(|error| panic!("{name}.sh cannot be started: {error}"));
        let output = process.stdout.take().expect("the standard output is piped");
        let mut ready = String::new();
        BufReader::new(output).read_line(&mut ready).expect("the script prints a line");
        assert!(ready.starts_with("ready "), "{name}.sh did not get ready: {ready:?}");
        Self { process, name, ready }
    }

    /// Returns a value of the ready line (`port`, `folder`).
    pub fn said<T: FromStr>(&self, name: &str) -> T {
        let mut words = self.ready.split_whitespace();
        words
            .find_map(|word| word.strip_prefix(name)?.strip_prefix('=')?.parse().ok())
            .unwrap_or_else(|| panic!("{}.sh says no {name}: {:?}", self.name, self.ready))
    }

    /// Stops the server and waits for its end.
    pub fn stop(&mut self) {
        drop(self.process.stdin.take());
        self.process.wait().expect("a stopped server ends");
    }

    /// Keeps the server until this program ends, which closes the script's standard input.
    pub fn keep(self) {
        std::mem::forget(self);
    }
}

impl Drop for ServerScript {
    fn drop(&mut self) {
        drop(self.process.stdin.take());
        // A panic during drop would hide the failure of the test.
        let _ = self.process.wait();
    }
}

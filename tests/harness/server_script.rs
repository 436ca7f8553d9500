//! Any private server, as `tests/servers/<name>.sh --until-eof` keeps it.
//!
//! The script is the one home of how its server is started and stopped. It prints one line when the
//! server is ready (`ready port=… folder=…`) and watches its standard input, so that a test program
//! that dies, however it dies, leaves no server behind.

use crate::paths::repository;
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::str::FromStr;

/// A script whose server is ready, and ends with this.
pub struct ServerScript {
    process: Child,
    name: &'static str,
    ready: String,
}

impl ServerScript {
    /// Starts `tests/servers/<name>.sh` with the server's options and what the script reads from
    /// its environment, and waits for its server.
    ///
    /// # Panics
    /// When the server is not installed or does not start; `make test` installs it.
    pub fn start(name: &'static str, options: &[&str], environment: &[(&str, &str)]) -> Self {
        let mut process = Command::new(repository().join(format!("tests/servers/{name}.sh")))
            .arg("--until-eof")
            .args(options)
            .envs(environment.iter().copied())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap_or_else(|error| panic!("{name}.sh cannot be started: {error}"));
        let output = process.stdout.take().expect("its output was asked for");
        let mut ready = String::new();
        BufReader::new(output).read_line(&mut ready).expect("its output can be read");
        assert!(ready.starts_with("ready "), "{name}.sh did not get ready: {ready:?}");
        Self { process, name, ready }
    }

    /// What the line of readiness says of that (`port`, `folder`).
    ///
    /// # Panics
    /// When it does not say it, or something else than is wanted.
    pub fn said<T: FromStr>(&self, name: &str) -> T {
        let mut words = self.ready.split_whitespace();
        words
            .find_map(|word| word.strip_prefix(name)?.strip_prefix('=')?.parse().ok())
            .unwrap_or_else(|| panic!("{}.sh says no {name}: {:?}", self.name, self.ready))
    }

    /// Ends the server now, and waits until it has.
    ///
    /// # Panics
    /// When the script cannot be waited for.
    pub fn stop(&mut self) {
        drop(self.process.stdin.take());
        self.process.wait().expect("a stopped server ends");
    }

    /// Lets the server live as long as this program: its script's input closes when that ends.
    pub fn keep(self) {
        std::mem::forget(self);
    }
}

impl Drop for ServerScript {
    fn drop(&mut self) {
        drop(self.process.stdin.take());
        // nothing more can be done here, and a test that failed has said so already
        let _ = self.process.wait();
    }
}

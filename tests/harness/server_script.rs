//! A private server, run by `tests/servers/<name>.sh --until-eof`.
//!
//! Only the script knows how to start and stop its server. The script prints one line when the
//! server is ready (`ready port=… folder=…`), and stops the server when standard input closes. A
//! test program that dies in any way therefore leaves no server behind.

use crate::paths::repository;
use std::io::{BufRead, BufReader, Write as _};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::str::FromStr;
use std::sync::Mutex;

/// A running script with a ready server, which stops on drop.
pub struct ServerScript {
    process: Child,
    name: &'static str,
    ready: String,
    output: Mutex<BufReader<ChildStdout>>,
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
        let mut output = BufReader::new(output);
        let mut ready = String::new();
        output.read_line(&mut ready).expect("the script prints a line");
        assert!(ready.starts_with("ready "), "{name}.sh did not get ready: {ready:?}");
        Self { process, name, ready, output: Mutex::new(output) }
    }

    /// Returns a value of the ready line (`port`, `folder`).
    pub fn said<T: FromStr>(&self, name: &str) -> T {
        let mut words = self.ready.split_whitespace();
        words
            .find_map(|word| word.strip_prefix(name)?.strip_prefix('=')?.parse().ok())
            .unwrap_or_else(|| panic!("{}.sh says no {name}: {:?}", self.name, self.ready))
    }

    /// Orders an act of a script that serves orders, and waits for its end. Returns the values of
    /// the answer.
    ///
    /// # Panics
    /// If the act fails.
    #[track_caller]
    pub fn order(&self, act: &str) -> String {
        let mut output = self.output.lock().expect("no order failed");
        let mut input = self.process.stdin.as_ref().expect("the script was not stopped");
        writeln!(input, "{act}").expect("the script reads orders");
        let mut answer = String::new();
        output.read_line(&mut answer).expect("the script answers");
        let values = answer.trim_end().strip_suffix("done");
        values.unwrap_or_else(|| panic!("{}.sh: {act}: {answer:?}", self.name)).to_owned()
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

//! The built server as a process: started, killed, started again on the same data.

use crate::client::{Answers, Client};
use crate::paths::{Folder, binary};
use crate::{leaks, wait};
use std::io::{BufRead, BufReader, Read};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// The root token of every server that tests start.
pub const ROOT: &str = "bhs.the-root-token-of-the-tests";

/// How long a start may take on a busy machine.
const START: Duration = Duration::from_secs(30);

/// A dev server on a port of its own.
pub struct Bulkhead {
    process: Child,
    address: SocketAddr,
    data: Folder,
    printed: Arc<Mutex<String>>,
    answers: Answers,
}

impl Bulkhead {
    /// Starts one on an empty data folder.
    ///
    /// # Panics
    /// When it is not built, or does not say in time that it listens.
    pub fn start() -> Self {
        Self::on(Folder::new("data"))
    }

    /// Starts one on an empty data folder at `path`.
    ///
    /// # Panics
    /// As [`Bulkhead::start`].
    pub fn start_in(path: PathBuf) -> Self {
        Self::on(Folder::at(path))
    }

    fn on(data: Folder) -> Self {
        let printed = Arc::default();
        let (process, address) = launch(data.path(), &printed);
        Self { process, address, data, printed, answers: Answers::default() }
    }

    /// Kills it as a power cut would: no warning, no last words.
    pub fn kill(&mut self) {
        self.process.kill().expect("a running server can be killed");
        self.process.wait().expect("a killed server ends");
    }

    /// Starts it again on the data it left. Its address changes.
    pub fn start_again(&mut self) {
        (self.process, self.address) = launch(self.data.path(), &self.printed);
    }

    /// Asks it to stop, and returns whether it said that all is well.
    pub fn stop(&mut self) -> bool {
        let pid = self.process.id().to_string();
        let sent = Command::new("kill").args(["-TERM", &pid]).status().expect("kill can be started");
        assert!(sent.success(), "the server was gone before it was stopped");
        self.process.wait().expect("a stopped server ends").success()
    }

    /// A client with the root token.
    pub fn root(&self) -> Client {
        self.client(Some(ROOT))
    }

    /// A client with that token, or with none.
    pub fn client(&self, token: Option<&str>) -> Client {
        Client::new(&self.url(), token, self.answers.clone())
    }

    /// `http://127.0.0.1:PORT`.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Where it keeps its data.
    pub fn data(&self) -> &Path {
        self.data.path()
    }

    /// Everything it wrote to its output and error output, over all its lives.
    pub fn printed(&self) -> String {
        self.printed.lock().expect("no thread panicked with the log").clone()
    }

    /// A command of the command line, against this server.
    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(binary());
        command
            .args(arguments)
            .env_clear()
            .env("BULKHEAD_ADDR", self.url())
            .env("BULKHEAD_TOKEN", ROOT)
            .env("HOME", self.data.path());
        command
    }

    /// Fails when `secret` shows in an answer, in what it printed, or in a file of its data.
    #[track_caller]
    pub fn assert_silent(&self, secret: &str) {
        leaks::assert_silent("the server's log", &self.printed(), secret);
        leaks::assert_silent("an answer", &self.answers.all(), secret);
        leaks::assert_sealed(self.data.path(), secret);
    }
}

impl Drop for Bulkhead {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Starts the process and waits until it has said where it listens.
fn launch(data: &Path, printed: &Arc<Mutex<String>>) -> (Child, SocketAddr) {
    let before = printed.lock().expect("no thread panicked with the log").len();
    let mut process = Command::new(binary())
        .args(["server", "--dev", "--dev-listen-address", "127.0.0.1:0", "--dev-root-token-id", ROOT])
        .arg("--data-dir")
        .arg(data)
        .env_clear()
        .envs(HOSTILE_ENVIRONMENT)
        .env("HOME", data)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the server can be started");
    collect(process.stdout.take().expect("its output was asked for"), printed);
    collect(process.stderr.take().expect("its error output was asked for"), printed);
    let (address, _) = wait::until("the server says where it listens", START, || {
        if let Ok(Some(status)) = process.try_wait() {
            panic!("the server ended with {status}:\n{}", printed.lock().expect("the log"));
        }
        address_in(&printed.lock().expect("the log")[before..])
    });
    (process, address)
}

/// What a PostgreSQL client library would take from its environment. None of it may reach a connection.
const HOSTILE_ENVIRONMENT: [(&str, &str); 6] = [
    ("PGHOST", "192.0.2.1"),
    ("PGPORT", "1"),
    ("PGUSER", "somebody-else"),
    ("PGPASSWORD", "of-somebody-else"),
    ("PGSSLMODE", "verify-full"),
    ("PGOPTIONS", "-c statement_timeout=1"),
];

fn address_in(text: &str) -> Option<SocketAddr> {
    let (_, rest) = text.split_once("listening on ")?;
    let (line, _) = rest.split_once('\n')?;
    line.trim().trim_start_matches("http://").parse().ok()
}

fn collect(output: impl Read + Send + 'static, printed: &Arc<Mutex<String>>) {
    let printed = Arc::clone(printed);
    std::thread::spawn(move || {
        for line in BufReader::new(output).split(b'\n').map_while(Result::ok) {
            let mut text = printed.lock().expect("no thread panicked with the log");
            text.push_str(&String::from_utf8_lossy(&line));
            text.push('\n');
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_address_is_read_once_its_line_is_whole() {
        assert_eq!(address_in("Bulkhead\nlistening on 127.0.0.1:82"), None);
        let found = address_in("Bulkhead\nlistening on http://127.0.0.1:8200\n");
        assert_eq!(found, Some(([127, 0, 0, 1], 8200).into()));
    }
}

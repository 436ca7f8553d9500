//! The built server as a process: started, killed, started again on the same data.

use crate::client::{Answers, Client};
use crate::paths::{Folder, binary};
use crate::{leaks, wait};
use std::io::{BufRead, BufReader, Read};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// The root token of every server that tests start.
pub const ROOT: &str = "bhs.the-root-token-of-the-tests";

const FREE_PORT: &str = "127.0.0.1:0";

/// How long a start may take on a busy machine.
const START: Duration = Duration::from_secs(30);

/// How a server is started.
enum Mode {
    /// Open, with [`ROOT`] as its root token.
    Dev,
    /// The same over TLS, with a certificate of its own.
    DevTls,
    /// Sealed.
    Production,
    /// Sealed, and told everything by that file.
    Configured(PathBuf),
}

/// A server on a port of its own: in dev mode, unless [`Bulkhead::in_production`] or
/// [`Bulkhead::configured`] said otherwise.
pub struct Bulkhead {
    binary: PathBuf,
    mode: Mode,
    process: Option<Child>,
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
        let mut made = Self::prepared(binary(), data);
        made.start_again();
        made
    }

    /// One that has not started yet: another build of the server, or other data.
    pub fn prepared(binary: PathBuf, data: Folder) -> Self {
        let nowhere = SocketAddr::from(([127, 0, 0, 1], 0));
        let (printed, answers) = (Arc::default(), Answers::default());
        Self { binary, mode: Mode::Dev, process: None, address: nowhere, data, printed, answers }
    }

    /// The same server over TLS, with a certificate of its own.
    #[must_use]
    pub fn over_tls(mut self) -> Self {
        self.mode = Mode::DevTls;
        self
    }

    /// The authority of its certificate, where it is [`Bulkhead::over_tls`].
    pub fn authority(&self) -> PathBuf {
        self.data.path().join("tls/ca.pem")
    }

    /// The same server without dev mode: sealed at each start.
    #[must_use]
    pub fn in_production(mut self) -> Self {
        self.mode = Mode::Production;
        self
    }

    /// The same server without dev mode and without options but for that configuration file, which
    /// has to take a free port and [`Bulkhead::data`].
    #[must_use]
    pub fn configured(mut self, file: PathBuf) -> Self {
        self.mode = Mode::Configured(file);
        self
    }

    /// The process's number.
    pub fn pid(&self) -> u32 {
        self.process.as_ref().expect("the server was started").id()
    }

    /// Its resident memory, in bytes.
    ///
    /// # Panics
    /// When it does not run.
    pub fn memory(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.pid()))
            .expect("a running server");
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("its memory");
        line.trim().trim_end_matches(" kB").parse::<u64>().expect("a number") << 10
    }

    /// Kills it as a power cut would: no warning, no last words.
    pub fn kill(&mut self) {
        let process = self.process.as_mut().expect("the server was started");
        process.kill().expect("a running server can be killed");
        process.wait().expect("a killed server ends");
    }

    /// Starts it again on the data it left. Its address changes.
    ///
    /// # Panics
    /// When it does not say in time that it listens.
    pub fn start_again(&mut self) {
        self.start_with(&[])
            .unwrap_or_else(|status| panic!("the server ended with {status}:\n{}", self.printed()));
    }

    /// Starts it with additions to its environment, in its data folder, where a core file would be
    /// found.
    ///
    /// # Errors
    /// How it ended, when it did before it listened; [`Bulkhead::printed`] says what it said.
    ///
    /// # Panics
    /// When it lives and does not say in time that it listens.
    pub fn start_with(&mut self, environment: &[(&str, String)]) -> Result<(), ExitStatus> {
        let before = self.printed().len();
        let mut process = spawn(&self.binary, &self.mode, self.data.path(), environment);
        collect(process.stdout.take().expect("its output was asked for"), &self.printed);
        collect(process.stderr.take().expect("its error output was asked for"), &self.printed);
        let process = self.process.insert(process);
        let (listens, _) = wait::until("the server says where it listens", START, || {
            if let Some(status) = process.try_wait().expect("a process of ours can be asked") {
                return Some(Err(status));
            }
            address_in(&self.printed.lock().expect("the log")[before..]).map(Ok)
        });
        self.address = listens?;
        Ok(())
    }

    /// How it ended, if it did so within `limit`.
    pub fn ended(&mut self, limit: Duration) -> Option<ExitStatus> {
        let process = self.process.as_mut().expect("the server was started");
        let start = Instant::now();
        loop {
            let status = process.try_wait().expect("a process of ours can be asked");
            if status.is_some() || start.elapsed() >= limit {
                return status;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Sends it a signal, such as `HUP`.
    ///
    /// # Panics
    /// When it has ended.
    pub fn signal(&self, name: &str) {
        let sent =
            Command::new("kill").args([&format!("-{name}"), &self.pid().to_string()]).status();
        assert!(
            sent.expect("kill can be started").success(),
            "the server was gone before it got {name}"
        );
    }

    /// Asks it to stop, and returns how it ended.
    pub fn terminate(&mut self) -> ExitStatus {
        self.signal("TERM");
        let process = self.process.as_mut().expect("the server was started");
        process.wait().expect("a stopped server ends")
    }

    /// Asks it to stop, and returns whether it said that all is well.
    pub fn stop(&mut self) -> bool {
        self.terminate().success()
    }

    /// A client with the root token.
    pub fn root(&self) -> Client {
        self.client(Some(ROOT))
    }

    /// A client with that token, or with none.
    pub fn client(&self, token: Option<&str>) -> Client {
        Client::new(&self.url(), token, self.answers.clone())
    }

    /// `http://127.0.0.1:PORT`, or `https` over TLS.
    pub fn url(&self) -> String {
        let scheme = if matches!(self.mode, Mode::DevTls) { "https" } else { "http" };
        format!("{scheme}://{}", self.address)
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
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

    /// Fails when `secret` shows in an answer, in what it printed, or in a file of its data; a
    /// canary also where a run of it is in an audit line.
    #[track_caller]
    pub fn assert_silent(&self, secret: &str) {
        leaks::assert_silent("the server's log", &self.printed(), secret);
        leaks::assert_silent("an answer", &self.answers.all(), secret);
        let audited = std::fs::read_to_string(self.data.path().join("audit.log"));
        if let Ok(lines) = audited
            && secret == leaks::CANARY
        {
            leaks::assert_silent("an audit line", &lines, secret);
        }
        leaks::assert_sealed(self.data.path(), secret);
    }
}

impl Drop for Bulkhead {
    fn drop(&mut self) {
        let Some(process) = &mut self.process else { return };
        let _ = process.kill();
        let _ = process.wait();
    }
}

fn spawn(binary: &Path, mode: &Mode, data: &Path, environment: &[(&str, String)]) -> Child {
    let mut command = Command::new(binary);
    match mode {
        Mode::Dev | Mode::DevTls => command
            .args([
                "server",
                "--dev",
                "--dev-listen-address",
                FREE_PORT,
                "--dev-root-token-id",
                ROOT,
                "--data-dir",
            ])
            .arg(data)
            .args(matches!(mode, Mode::DevTls).then_some("--dev-tls")),
        Mode::Production => {
            command.args(["server", "--listen-address", FREE_PORT, "--data-dir"]).arg(data)
        }
        Mode::Configured(file) => command.args(["server", "--config"]).arg(file),
    };
    command
        .current_dir(data)
        .env_clear()
        .envs(HOSTILE_ENVIRONMENT)
        .env("HOME", data)
        .env("BULKHEAD_DEV_SCHEDULER_LISTEN_ADDRESS", "off")
        .envs(environment.iter().map(|(name, value)| (name, value)))
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command.spawn().expect("the server can be started")
}

/// What a PostgreSQL client library would take from its environment. None of it may reach a
/// connection.
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
    let (_, address) = line.trim().split_once("://")?;
    address.parse().ok()
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
        assert_eq!(address_in("Bulkhead\nlistening on http://127.0.0.1:82"), None);
        let found = address_in("Bulkhead\nlistening on http://127.0.0.1:8200\n");
        assert_eq!(found, Some(([127, 0, 0, 1], 8200).into()));
    }
}

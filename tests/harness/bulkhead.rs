//! The built server as a process: start, kill, and restart on the same data.

use crate::client::{Answers, Client};
use crate::paths::{Folder, binary};
use crate::{leaks, storage, wait};
use std::ffi::OsString;
use std::io::{BufRead, BufReader, Read};
use std::net::{SocketAddr, TcpListener};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// Root token of every server that tests start.
pub const ROOT: &str = "bhs.the-root-token-of-the-tests";

const FREE_PORT: &str = "127.0.0.1:0";

/// Maximum duration of a start on a busy machine.
const START: Duration = Duration::from_secs(30);

/// Starts the program of the arguments as a service manager does that hands over one descriptor:
/// standard input becomes the descriptor 3.
const HAND_OVER: &str =
    "exec 3<&0 0</dev/null; LISTEN_PID=$$ LISTEN_FDS=1; export LISTEN_PID LISTEN_FDS; exec \"$@\"";

/// Start mode of a server.
enum Mode {
    /// Unsealed, with [`ROOT`] as root token.
    Dev,
    /// Dev mode over TLS, with a generated certificate.
    DevTls,
    Production,
    /// Sealed; all settings are in this configuration file.
    Configured(PathBuf),
}

/// A server on its own port: in dev mode, unless made by [`Bulkhead::in_production`] or
/// [`Bulkhead::configured`].
pub struct Bulkhead {
    binary: PathBuf,
    mode: Mode,
    /// Listening socket, or another file, that each start gets as the descriptor 3.
    handed_over: Option<OwnedFd>,
    process: Option<Child>,
    address: SocketAddr,
    data: Folder,
    printed: Arc<Mutex<String>>,
    answers: Answers,
}

impl Bulkhead {
    /// Starts a server on an empty data folder.
    pub fn start() -> Self {
        Self::on(Folder::new("data"))
    }

    /// Starts a server on an empty data folder at `path`.
    pub fn start_in(path: PathBuf) -> Self {
        Self::on(Folder::at(path))
    }

    fn on(data: Folder) -> Self {
        let mut server = Self::prepared(binary(), data);
        server.start_again();
        server
    }

    /// Prepares a server for another binary or other data, and does not start it.
    pub fn prepared(binary: PathBuf, data: Folder) -> Self {
        let nowhere = SocketAddr::from(([127, 0, 0, 1], 0));
        let (printed, answers) = (Arc::default(), Answers::default());
        let (mode, handed_over, process) = (Mode::Dev, None, None);
        Self { binary, mode, handed_over, process, address: nowhere, data, printed, answers }
    }

    /// Hands `socket` over to each start, as a service manager does that keeps the socket.
    #[must_use]
    pub fn activated_by(self, socket: &TcpListener) -> Self {
        self.with_descriptor(socket.try_clone().expect("a free descriptor"))
    }

    /// Hands any descriptor over to each start.
    #[must_use]
    pub fn with_descriptor(mut self, descriptor: impl Into<OwnedFd>) -> Self {
        self.handed_over = Some(descriptor.into());
        self
    }

    #[must_use]
    pub fn over_tls(mut self) -> Self {
        self.mode = Mode::DevTls;
        self
    }

    /// The certificate authority of a server made by [`Bulkhead::over_tls`].
    pub fn authority(&self) -> PathBuf {
        self.data.path().join("tls/ca.pem")
    }

    /// Turns dev mode off: the server is sealed at each start.
    #[must_use]
    pub fn in_production(mut self) -> Self {
        self.mode = Mode::Production;
        self
    }

    /// Turns dev mode off, and passes the configuration file as the only option. The file must
    /// choose a free port and [`Bulkhead::data`].
    #[must_use]
    pub fn configured(mut self, file: PathBuf) -> Self {
        self.mode = Mode::Configured(file);
        self
    }

    /// Returns the id of the running process.
    pub fn pid(&self) -> u32 {
        self.process.as_ref().expect("the server was started").id()
    }

    /// Returns the server's resident memory in bytes.
    pub fn memory(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.pid()))
            .expect("a running server");
        let line = status
            .lines()
            .find_map(|line| line.strip_prefix("VmRSS:"))
            .expect("Linux shows the memory");
        line.trim().trim_end_matches(" kB").parse::<u64>().expect("a number") << 10
    }

    /// Returns the processor time that the server has used, in steps of 10 ms.
    pub fn processor_time(&self) -> Duration {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.pid()))
            .expect("a running server");
        // The name of the program, in parentheses, may contain spaces.
        let (_, fields) = stat.rsplit_once(')').expect("Linux shows the name");
        let field = |index: usize| {
            let text = fields.split_whitespace().nth(index).expect("Linux shows the times");
            text.parse::<u64>().expect("a number")
        };
        Duration::from_millis(10 * (field(11) + field(12)))
    }

    /// Kills the server with SIGKILL.
    pub fn kill(&mut self) {
        let process = self.process.as_mut().expect("the server was started");
        process.kill().expect("a running server can be killed");
        process.wait().expect("a killed server ends");
    }

    /// Starts the server again on the same data. The address changes.
    pub fn start_again(&mut self) {
        self.start_with(&[])
            .unwrap_or_else(|status| panic!("the server ended with {status}:\n{}", self.printed()));
    }

    /// Starts the server with additions to its environment. The working directory is the data
    /// folder, where a test would find a core file.
    ///
    /// # Errors
    /// The exit status, if the server ends before it listens; [`Bulkhead::printed`] has its output.
    pub fn start_with(&mut self, environment: &[(&str, String)]) -> Result<(), ExitStatus> {
        let before = self.printed().len();
        let mut process = self.spawn(environment);
        collect(process.stdout.take().expect("the standard output is piped"), &self.printed);
        collect(process.stderr.take().expect("the standard error is piped"), &self.printed);
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

    /// Returns the exit status if the server ends within `limit`.
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

    /// Sends the server a signal, such as `HUP`.
    pub fn signal(&self, name: &str) {
        let sent =
            Command::new("kill").args([&format!("-{name}"), &self.pid().to_string()]).status();
        assert!(
            sent.expect("kill can be started").success(),
            "the server was gone before it got {name}"
        );
    }

    /// Sends SIGTERM and returns the exit status.
    pub fn terminate(&mut self) -> ExitStatus {
        self.signal("TERM");
        let process = self.process.as_mut().expect("the server was started");
        process.wait().expect("a stopped server ends")
    }

    /// Sends SIGTERM, and returns `true` if the exit status is success.
    pub fn stop(&mut self) -> bool {
        self.terminate().success()
    }

    /// Returns a client with the root token of dev mode.
    pub fn root(&self) -> Client {
        self.client(Some(ROOT))
    }

    /// Returns a client with this token.
    pub fn client(&self, token: Option<&str>) -> Client {
        Client::new(&self.url(), token, self.answers.clone())
    }

    /// Returns `http://127.0.0.1:PORT`, or `https` over TLS.
    pub fn url(&self) -> String {
        let scheme = if matches!(self.mode, Mode::DevTls) { "https" } else { "http" };
        format!("{scheme}://{}", self.address)
    }

    /// Returns the address at which the server listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns the data directory.
    pub fn data(&self) -> &Path {
        self.data.path()
    }

    /// Returns stdout and stderr of all starts.
    pub fn printed(&self) -> String {
        self.printed.lock().expect("no thread panicked with the log").clone()
    }

    /// Waits until stdout or stderr contains `part`: the server writes a line before its answer,
    /// and the thread that reads the line may be slower than the client.
    ///
    /// # Panics
    /// After 10 s without `part`.
    pub fn wait_for_print(&self, part: &str) {
        self.wait_for_print_after(0, part);
    }

    /// Waits like [`Bulkhead::wait_for_print`], without the first `before` bytes of
    /// [`Bulkhead::printed`]: an earlier start may have printed the same line.
    ///
    /// # Panics
    /// After 10 s without `part`.
    pub fn wait_for_print_after(&self, before: usize, part: &str) {
        self.wait_for_print_within(Duration::from_secs(10), before, part);
    }

    /// Waits like [`Bulkhead::wait_for_print_after`], for `limit` at most.
    ///
    /// # Panics
    /// After `limit` without `part`.
    pub fn wait_for_print_within(&self, limit: Duration, before: usize, part: &str) {
        let what = format!("{part} is printed");
        let is_printed = || self.printed()[before..].contains(part);
        wait::until_true(&what, limit, is_printed);
    }

    /// Prepares a command of the command-line client for this server.
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

    /// Fails if `secret` is in an answer, in the server's output or in a file of its data. A run of
    /// characters of a canary in an audit line fails as well.
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

impl Bulkhead {
    fn spawn(&self, environment: &[(&str, String)]) -> Child {
        let data = self.data.path();
        let mut command = match &self.handed_over {
            Some(_) => Command::new("/bin/sh"),
            None => Command::new(&self.binary),
        };
        let stdin = match &self.handed_over {
            Some(descriptor) => {
                command.args(["-c", HAND_OVER, "sh"]).arg(&self.binary);
                Stdio::from(descriptor.try_clone().expect("a free descriptor"))
            }
            None => Stdio::null(),
        };
        add_arguments(&mut command, &self.mode, data);
        let storage = match self.mode {
            Mode::Configured(_) => None,
            Mode::Dev | Mode::DevTls | Mode::Production => storage::variable(data),
        };
        command
            .current_dir(data)
            .env_clear()
            .envs(HOSTILE_ENVIRONMENT)
            .env("HOME", data)
            .envs(branch_counts())
            .env("BULKHEAD_DEV_SCHEDULER_LISTEN_ADDRESS", "off")
            .envs(storage)
            .envs(environment.iter().map(|(name, value)| (name, value)))
            .stdin(stdin)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command.spawn().expect("the server can be started")
    }
}

impl Drop for Bulkhead {
    fn drop(&mut self) {
        let Some(process) = &mut self.process else { return };
        let _ = process.kill();
        let _ = process.wait();
    }
}

/// Returns the variable with the file in which a server of `make dist-pgo` counts its branches.
fn branch_counts() -> Option<(&'static str, OsString)> {
    const FILE: &str = "LLVM_PROFILE_FILE";
    std::env::var_os(FILE).map(|path| (FILE, path))
}

fn add_arguments(command: &mut Command, mode: &Mode, data: &Path) {
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
}

/// Variables that a PostgreSQL client library would read. None of them may affect a connection.
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
    fn address_is_read_from_whole_line_only() {
        assert_eq!(address_in("Bulkhead\nlistening on http://127.0.0.1:82"), None);
        let found = address_in("Bulkhead\nlistening on http://127.0.0.1:8200\n");
        assert_eq!(found, Some(([127, 0, 0, 1], 8200).into()));
    }
}

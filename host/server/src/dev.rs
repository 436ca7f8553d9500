//! `bulkhead server --dev`: from the command line to a served socket, and back to nothing.

use crate::listener;
use crate::options::DevOptions;
use bulkhead_core::log::Log;
use bulkhead_core::random;
use bulkhead_core::{Core, Official, Settings};
use bulkhead_wire::secret::Secret;
use std::fs::DirBuilder;
use std::io::{self, Write};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tokio::net::TcpListener;
use tokio::signal::unix::{Signal, SignalKind, signal};

/// Longest and default life of a lease or token, in seconds: 768 h, as clients of this API expect.
const LEASE_TTL: u64 = 768 * 3600;

/// Letters and digits of a random root token behind its prefix: 190 bits.
const TOKEN_LENGTH: usize = 32;

/// What clients are told (decision P5).
const REPORTED_VERSION: &str = "1.21.0+ent";

/// What the process brings along.
pub struct Process {
    /// How the user called the program, for the commands to try.
    pub program: String,
    /// The components inside the binary.
    pub officials: Vec<Official>,
    /// Where log lines go.
    pub log: Arc<dyn Log>,
}

/// Serves until SIGTERM or SIGINT. `out` gets the address, the root token and commands to try, and at
/// last a line `ready`: from then on every request is answered.
///
/// # Errors
/// Why the server did not start, for standard error.
pub async fn run(options: DevOptions, process: Process, out: &mut dyn Write) -> Result<(), String> {
    let data = Data::prepare(options.data)?;
    let log = Arc::clone(&process.log);
    let served = serve(&data, options.listen, options.root_token, process, out).await;
    data.remove(&log);
    served
}

async fn serve(
    data: &Data,
    listen: String,
    root_token: Option<Secret>,
    process: Process,
    out: &mut dyn Write,
) -> Result<(), String> {
    let Process { program, officials, log } = process;
    let stop = Stop::prepare().map_err(|error| format!("signals cannot be received: {error}"))?;
    let socket = bind(&listen, &log).await?;
    let address = socket.local_addr().map_err(|error| format!("the listener has no address: {error}"))?;
    let token = root_token.map_or_else(random_token, Ok)?;
    let core = Core::start(settings(data, officials, &token, &log)).await.map_err(|failure| failure.message)?;
    let started = Started { program: &program, address: address.to_string(), token: &token, data };
    if let Err(error) = started.tell(out) {
        core.stop().await;
        return Err(format!("standard output cannot be written: {error}"));
    }
    let complete = listener::serve(socket, Arc::clone(&core), Arc::clone(&log), stop.asked(&log)).await;
    core.stop().await;
    let level = if complete { "info" } else { "warn" };
    log.line(level, "stopped", &[("all-requests-answered", complete.to_string())]);
    Ok(())
}

async fn bind(listen: &str, log: &Arc<dyn Log>) -> Result<TcpListener, String> {
    let cannot = |error: io::Error| {
        format!("cannot listen on {listen}: {error}; choose another address with --dev-listen-address HOST:PORT")
    };
    let socket = TcpListener::bind(listen).await.map_err(cannot)?;
    let address = socket.local_addr().map_err(cannot)?;
    if !address.ip().is_loopback() {
        log.line("warn", "dev-server-open-to-others", &[("address", address.to_string())]);
    }
    Ok(socket)
}

fn random_token() -> Result<Secret, String> {
    let text = random::base62(TOKEN_LENGTH).map_err(|failure| failure.message)?;
    Ok(Secret::new(format!("bhs.{text}")))
}

fn settings(data: &Data, officials: Vec<Official>, token: &Secret, log: &Arc<dyn Log>) -> Settings {
    Settings {
        directory: data.path().to_path_buf(),
        officials,
        root_token: token.clone(),
        default_lease_ttl: LEASE_TTL,
        max_lease_ttl: LEASE_TTL,
        reported_version: REPORTED_VERSION.to_owned(),
        log: Arc::clone(log),
    }
}

/// Where the data are.
enum Data {
    /// Ours, removed at the end.
    Temporary(PathBuf),
    /// The operator's, kept.
    Kept(PathBuf),
}

impl Data {
    fn prepare(asked: Option<PathBuf>) -> Result<Self, String> {
        if let Some(path) = asked {
            return Ok(Self::Kept(path));
        }
        let name = random::base62(12).map_err(|failure| failure.message)?;
        let path = std::env::temp_dir().join(format!("bulkhead-dev-{name}"));
        // fails if the name is taken, by a link too
        let made = DirBuilder::new().mode(0o700).create(&path);
        made.map_err(|error| format!("cannot make the directory {}: {error}; set TMPDIR", path.display()))?;
        Ok(Self::Temporary(path))
    }

    fn path(&self) -> &Path {
        match self {
            Self::Temporary(path) | Self::Kept(path) => path,
        }
    }

    fn remove(self, log: &Arc<dyn Log>) {
        let Self::Temporary(path) = self else { return };
        if let Err(error) = std::fs::remove_dir_all(&path) {
            let pairs = [("path", path.display().to_string()), ("cause", error.to_string())];
            log.line("warn", "data-not-removed", &pairs);
        }
    }
}

/// The two signals that end a server. They are caught from the start, so that one that comes early
/// still lets the data be removed.
struct Stop {
    terminate: Signal,
    interrupt: Signal,
}

impl Stop {
    fn prepare() -> io::Result<Self> {
        Ok(Self { terminate: signal(SignalKind::terminate())?, interrupt: signal(SignalKind::interrupt())? })
    }

    async fn asked(mut self, log: &Arc<dyn Log>) {
        let name = tokio::select! {
            _ = self.terminate.recv() => "SIGTERM",
            _ = self.interrupt.recv() => "SIGINT",
        };
        log.line("info", "stopping", &[("signal", name.to_owned())]);
    }
}

/// What a user wants to know of a server that has just started.
struct Started<'a> {
    program: &'a str,
    address: String,
    token: &'a Secret,
    data: &'a Data,
}

impl Started<'_> {
    fn tell(&self, out: &mut dyn Write) -> io::Result<()> {
        let Self { program, address, token, data } = self;
        let token = token.expose();
        let fate = match data {
            Data::Temporary(_) => "removed when this server ends",
            Data::Kept(_) => "kept",
        };
        writeln!(out, "Bulkhead {}, dev mode: plain HTTP, not for real secrets.\n", env!("CARGO_PKG_VERSION"))?;
        writeln!(out, "listening on {address}")?;
        writeln!(out, "root token: {token}")?;
        writeln!(out, "data: {} ({fate})\n", data.path().display())?;
        writeln!(out, "Try, in another terminal:")?;
        writeln!(out, "  export BULKHEAD_ADDR=http://{address} BULKHEAD_TOKEN={token}")?;
        writeln!(out, "  {program} status")?;
        writeln!(out, "  {program} token lookup")?;
        writeln!(out, "  make demo-postgres      # a private PostgreSQL, and the commands to get a user of it\n")?;
        writeln!(out, "ready")?;
        out.flush()
    }
}

#[cfg(test)]
#[allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "tests fail by panicking"
)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;
    use std::sync::Mutex;

    #[derive(Default)]
    struct Lines(Mutex<Vec<String>>);

    impl Log for Lines {
        fn line(&self, _: &str, event: &str, _: &[(&str, String)]) {
            self.0.lock().unwrap().push(event.to_owned());
        }
    }

    #[test]
    fn a_temporary_directory_is_private_and_goes_with_the_process() {
        let log: Arc<dyn Log> = Arc::new(Lines::default());
        let data = Data::prepare(None).unwrap();
        let path = data.path().to_path_buf();
        std::fs::write(path.join("file"), "x").unwrap();
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o700);
        data.remove(&log);
        assert!(!path.exists());
    }

    #[test]
    fn a_directory_of_the_operator_stays() {
        let log: Arc<dyn Log> = Arc::new(Lines::default());
        let made = Data::prepare(None).unwrap();
        Data::prepare(Some(made.path().to_path_buf())).unwrap().remove(&log);
        assert!(made.path().exists());
        made.remove(&log);
    }

    #[test]
    fn a_directory_that_cannot_be_removed_is_reported() {
        let lines = Arc::new(Lines::default());
        let log: Arc<dyn Log> = Arc::clone(&lines) as Arc<dyn Log>;
        Data::Temporary(PathBuf::from("/nonexistent/bulkhead-dev-x")).remove(&log);
        assert_eq!(*lines.0.lock().unwrap(), ["data-not-removed"]);
    }

    #[test]
    fn a_started_server_tells_address_token_and_commands_and_then_is_ready() {
        let data = Data::Kept(PathBuf::from("./d"));
        let token = Secret::new("bhs.abc");
        let started = Started { program: "bulkhead", address: "127.0.0.1:4321".to_owned(), token: &token, data: &data };
        let mut out = Vec::new();
        started.tell(&mut out).unwrap();
        let text = String::from_utf8(out).unwrap();
        assert!(text.contains("\nlistening on 127.0.0.1:4321\nroot token: bhs.abc\ndata: ./d (kept)\n"), "{text}");
        assert!(text.contains("export BULKHEAD_ADDR=http://127.0.0.1:4321 BULKHEAD_TOKEN=bhs.abc\n"), "{text}");
        assert!(text.ends_with("\nready\n"), "{text}");
    }

    #[test]
    fn a_random_root_token_bears_our_prefix() {
        let token = random_token().unwrap();
        assert!(token.expose().starts_with("bhs.") && token.expose().len() == 4 + TOKEN_LENGTH);
    }

    #[tokio::test]
    async fn an_address_in_use_says_what_to_do() {
        let log: Arc<dyn Log> = Arc::new(Lines::default());
        let taken = bind("127.0.0.1:0", &log).await.unwrap();
        let error = bind(&taken.local_addr().unwrap().to_string(), &log).await.unwrap_err();
        assert!(error.starts_with("cannot listen on 127.0.0.1:") && error.contains("--dev-listen-address"), "{error}");
    }

    #[tokio::test]
    async fn listening_beyond_this_machine_is_warned_about() {
        let lines = Arc::new(Lines::default());
        let log: Arc<dyn Log> = Arc::clone(&lines) as Arc<dyn Log>;
        bind("0.0.0.0:0", &log).await.unwrap();
        assert_eq!(*lines.0.lock().unwrap(), ["dev-server-open-to-others"]);
    }
}

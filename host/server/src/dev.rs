//! `bulkhead server --dev`: an open server for trial use, from the command line to the removal of
//! its data.

use crate::config::{
    Config, DEFAULT_SCHEDULER_ADDRESS, DatabaseSettings, ListenerConfig, ListenerTransport,
};
use crate::dev_tls;
use crate::options::{DevOptions, DevScheduler, DevTransport};
use crate::process::{self, ServerProcess, StartedServer};
use bulkhead_access::log::{Log, cause};
use bulkhead_access::random;
use bulkhead_api::Service;
use bulkhead_audit::AuditSettings;
use bulkhead_wire::log_level::LogLevel;
use bulkhead_wire::secret::Secret;
use std::fs::DirBuilder;
use std::io::{self, Write};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Number of random characters in a root token after its prefix: 190 bits.
const TOKEN_LENGTH: usize = 32;

/// Serves until SIGTERM or SIGINT. Prints to `out` the address, the root token, the unseal key and
/// commands to try, and finally a line `ready`. From then on every request is answered.
///
/// # Errors
/// The reason why the server did not start, for standard error.
pub async fn run(
    mut options: DevOptions,
    process: ServerProcess,
    out: &mut dyn Write,
) -> Result<(), String> {
    let data = DevDirectory::prepare(options.data.take())?;
    let log = Arc::clone(&process.log) as Arc<dyn Log>;
    let served = serve(&data, options, process, out).await;
    data.remove(&log);
    served
}

async fn serve(
    data: &DevDirectory,
    options: DevOptions,
    process: ServerProcess,
    out: &mut dyn Write,
) -> Result<(), String> {
    let token = options.root_token.map_or_else(random_token, Ok)?;
    let program = process.program.clone();
    let (transport, ca_file) = transport(data.path(), &options.listen, options.tls)?;
    let mut config = Config {
        audit: AuditSettings::for_dev_mode(data.path()),
        database: DatabaseSettings::Known(options.database),
        ..Config::at(&options.listen, data.path())
    };
    process.configure_log(&config)?;
    config.listener.transport = transport;
    config.scheduler_is_optional = options.scheduler == DevScheduler::Usual;
    let scheduler = match &options.scheduler {
        DevScheduler::Off => None,
        DevScheduler::Usual => Some(DEFAULT_SCHEDULER_ADDRESS),
        DevScheduler::At(address) => Some(address.as_str()),
    };
    let transport = config.listener.transport.clone();
    let listener = |address| {
        let scheduler = ListenerConfig::of_scheduler(address)?;
        Ok::<_, String>(ListenerConfig { transport: transport.clone(), ..scheduler })
    };
    config.scheduler = scheduler.map(listener).transpose()?;
    let server =
        StartedServer::start(process, config, "with --dev-listen-address HOST:PORT").await?;
    let prepared = match open(server.service(), &token).await {
        Ok(unseal_key) => {
            let urls = server.urls();
            let config = server.config();
            let opened = DevAnnouncement {
                program: &program,
                urls: &urls,
                scheduler_urls: &server.scheduler_urls(),
                ca_file: ca_file.as_deref(),
                token: &token,
                unseal_key: &unseal_key,
                data,
                config,
            };
            opened.print(out).map_err(|error| format!("standard output cannot be written: {error}"))
        }
        Err(why) => Err(why),
    };
    server.serve(prepared).await
}

/// Returns the protection of the connections, and the file of the certificate authority for
/// clients.
fn transport(
    data: &Path,
    listen: &str,
    transport: DevTransport,
) -> Result<(ListenerTransport, Option<PathBuf>), String> {
    Ok(match transport {
        DevTransport::PlainHere => (ListenerTransport::PlainHere, None),
        DevTransport::Plain => (ListenerTransport::Plain, None),
        DevTransport::Tls(names) => {
            let server_tls = dev_tls::make(data, listen, &names)?;
            (
                ListenerTransport::Tls(server_tls.settings),
                Some(std::path::absolute(&server_tls.ca_file).unwrap_or(server_tls.ca_file)),
            )
        }
    })
}

/// Unseals the service with the root token `token`, and returns the unseal key.
async fn open(service: &Service, token: &Secret) -> Result<Secret, String> {
    service.open_dev(token).await.map_err(|failure| failure.message)?;
    service.dev_unseal_key().await.map_err(|failure| failure.message)
}

fn random_token() -> Result<Secret, String> {
    let text = random::base62(TOKEN_LENGTH).map_err(|failure| failure.message)?;
    Ok(Secret::new(format!("bhs.{text}")))
}

/// The data directory.
pub(crate) enum DevDirectory {
    /// Created by this process and removed at the end.
    Temporary(PathBuf),
    /// Chosen by the operator and kept.
    Kept(PathBuf),
}

impl DevDirectory {
    /// Returns the requested directory, or creates a private temporary directory.
    pub(crate) fn prepare(requested_path: Option<PathBuf>) -> Result<Self, String> {
        if let Some(path) = requested_path {
            return Ok(Self::Kept(path));
        }
        let name = random::base62(12).map_err(|failure| failure.message)?;
        let path = std::env::temp_dir().join(format!("bulkhead-dev-{name}"));
        // Fails if the name is taken, even by a symbolic link.
        let creation = DirBuilder::new().mode(0o700).create(&path);
        creation.map_err(|error| {
            format!("cannot make the directory {}: {error}; set TMPDIR", path.display())
        })?;
        Ok(Self::Temporary(path))
    }

    pub(crate) fn path(&self) -> &Path {
        match self {
            Self::Temporary(path) | Self::Kept(path) => path,
        }
    }

    /// Removes the directory if this process created it.
    pub(crate) fn remove(self, log: &Arc<dyn Log>) {
        let Self::Temporary(path) = self else { return };
        if let Err(error) = std::fs::remove_dir_all(&path) {
            let pairs = [("path", path.display().to_string()), cause(&error)];
            log.line(LogLevel::Warn, "data-not-removed", &pairs);
        }
    }
}

/// The start message for the user.
struct DevAnnouncement<'a> {
    program: &'a str,
    urls: &'a [String],
    scheduler_urls: &'a [String],
    ca_file: Option<&'a Path>,
    token: &'a Secret,
    unseal_key: &'a Secret,
    data: &'a DevDirectory,
    config: &'a Config,
}

impl DevAnnouncement<'_> {
    fn print(&self, out: &mut dyn Write) -> io::Result<()> {
        let Self { program, urls, scheduler_urls, ca_file, token, unseal_key, data, config } = self;
        let token = token.expose();
        let fate = match data {
            DevDirectory::Temporary(_) => "removed when this server ends",
            DevDirectory::Kept(_) => "kept",
        };
        writeln!(
            out,
            "Bulkhead {}, dev mode: {}not for real secrets.\n",
            env!("CARGO_PKG_VERSION"),
            if ca_file.is_some() { "" } else { "plain HTTP, " }
        )?;
        process::print_urls(urls, out)?;
        for url in *scheduler_urls {
            writeln!(out, "scheduler API on {url}")?;
        }
        writeln!(out, "root token: {token}")?;
        writeln!(out, "unseal key: {}", unseal_key.expose())?;
        writeln!(out, "data: {} ({fate})", config.place_of_data())?;
        for device in &config.audit.devices {
            writeln!(out, "audit log: {}", device.file.display())?;
        }
        writeln!(out, "\nTry, in another terminal:")?;
        let url = urls.first().map(String::as_str).unwrap_or_default();
        if let Some(file) = ca_file {
            writeln!(out, "  export BULKHEAD_CACERT={}", file.display())?;
        }
        writeln!(out, "  export BULKHEAD_ADDR={url} BULKHEAD_TOKEN={token}")?;
        writeln!(out, "  {program} status")?;
        writeln!(out, "  {program} token lookup")?;
        writeln!(
            out,
            "  make demo-postgres      # a private PostgreSQL, \
             and the commands to get a user\n"
        )?;
        writeln!(out, "ready")?;
        out.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::log::testing::RecordingLog;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn temporary_directory_is_private_and_ends_with_process() {
        let log: Arc<dyn Log> = Arc::new(RecordingLog::default());
        let data = DevDirectory::prepare(None).unwrap();
        let path = data.path().to_path_buf();
        std::fs::write(path.join("file"), "x").unwrap();
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o700);
        data.remove(&log);
        assert!(!path.exists());
    }

    #[test]
    fn a_directory_of_the_operator_stays() {
        let log: Arc<dyn Log> = Arc::new(RecordingLog::default());
        let directory = DevDirectory::prepare(None).unwrap();
        DevDirectory::prepare(Some(directory.path().to_path_buf())).unwrap().remove(&log);
        assert!(directory.path().exists());
        directory.remove(&log);
    }

    #[test]
    fn a_directory_that_cannot_be_removed_is_reported() {
        let lines = Arc::new(RecordingLog::default());
        let log: Arc<dyn Log> = Arc::clone(&lines) as Arc<dyn Log>;
        DevDirectory::Temporary(PathBuf::from("/nonexistent/bulkhead-dev-x")).remove(&log);
        assert_eq!(lines.events(), ["data-not-removed"]);
    }

    #[test]
    fn dev_announcement_shows_address_token_commands_and_readiness() {
        let data = DevDirectory::Kept(PathBuf::from("./d"));
        let (token, unseal_key) = (Secret::new("bhs.abc"), Secret::new("c0ffee"));
        let urls = ["http://127.0.0.1:4321".to_owned()];
        let path = data.path();
        let config =
            Config { audit: AuditSettings::for_dev_mode(path), ..Config::at("127.0.0.1:0", path) };
        let (token, unseal_key) = (&token, &unseal_key);
        let opened = DevAnnouncement {
            program: "bulkhead",
            urls: &urls,
            scheduler_urls: &[],
            ca_file: None,
            token,
            unseal_key,
            data: &data,
            config: &config,
        };
        let mut out = Vec::new();
        opened.print(&mut out).unwrap();
        let text = String::from_utf8(out).unwrap();
        let begin = "
listening on http://127.0.0.1:4321
root token: bhs.abc
unseal key: c0ffee
";
        assert!(
            text.contains(&format!(
                "{begin}data: ./d (kept)
audit log: ./d/audit.log\n\nTry"
            )),
            "{text}"
        );
        assert!(
            text.contains("export BULKHEAD_ADDR=http://127.0.0.1:4321 BULKHEAD_TOKEN=bhs.abc\n"),
            "{text}"
        );
        assert!(!text.contains("CACERT"), "{text}");
        assert!(text.ends_with("\nready\n"), "{text}");
    }

    #[test]
    fn a_random_root_token_bears_our_prefix() {
        let token = random_token().unwrap();
        assert!(token.expose().starts_with("bhs.") && token.expose().len() == 4 + TOKEN_LENGTH);
    }
}

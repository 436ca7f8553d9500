//! `bulkhead server`: a server with persistent data.
//!
//! Without an automatic seal the server holds no key at its start: operators unseal it through the
//! API, and the keys are in no file, option or environment variable of the process. With an
//! automatic seal the server opens the data before it accepts clients, or does not start. If
//! another server keeps the key and gives no key, the server starts sealed and opens later.

use crate::config::{
    self, Config, ConfigNotice, DatabaseSettings, ListenerTransport, unverified_server,
};
use crate::options::{ConfigSource, ProductionOptions};
use crate::process::{self, ServerProcess, StartedServer};
use crate::seal_wrapper::{self, KeeperSurroundings};
use bulkhead_access::log::Log;
use bulkhead_api::Service;
use bulkhead_core::OfficialSeal;
use bulkhead_core::seal::SealStatus;
use bulkhead_core::seal_setting::SealSetting;
use bulkhead_sandbox::SandboxRuntime;
use bulkhead_store::{DataDirectory, DatabaseChoice};
use bulkhead_wire::failure::Failure;
use bulkhead_wire::log_level::LogLevel;
use std::ffi::OsString;
use std::io::{self, Write};
use std::sync::Arc;

/// Serves until SIGTERM or SIGINT. Prints to `out` the address, the data directory, the state of
/// initialisation and the next command, and finally a line `ready`. From then on every request is
/// answered.
///
/// # Errors
/// The reason why the server did not start, for standard error.
pub async fn run(
    source: ConfigSource,
    process: ServerProcess,
    out: &mut dyn Write,
) -> Result<(), String> {
    let program = process.program.clone();
    let log = Arc::clone(&process.log);
    let (config, elsewhere) = load_config(source)?;
    process.configure_log(&config)?;
    for ConfigNotice { line, setting, note } in &config.notices {
        let pairs =
            [("line", line.to_string()), ("setting", setting.clone()), ("note", note.clone())];
        log.line(LogLevel::Warn, "setting-without-effect", &pairs);
    }
    warn_of_database(&config, &*log);
    let mut server = StartedServer::start(process, config, &elsewhere).await?;
    if let Some(file) = server.service().dev_key_file() {
        log.line(
            LogLevel::Warn,
            "unseal-key-stored-with-data",
            &[("file", file.display().to_string())],
        );
    }
    let (service, config) = (Arc::clone(server.service()), server.config().clone());
    let Some(opened) = server.unless_stopped(open_data(&service, &config)).await else {
        return server.stop_early().await;
    };
    let prepared = match opened {
        Ok(()) => announce(&server, &program, out).await,
        Err(failure) => Err(failure),
    };
    server.serve(prepared).await
}

/// Logs a password in the configuration, and connections to an unverified database server. A
/// database that cannot be used is left to the start.
fn warn_of_database(config: &Config, log: &dyn Log) {
    if config.database.has_written_password() {
        let remedy = "write the password to a file with mode 0600, and name it in password_file";
        log.line(
            LogLevel::Warn,
            "password-in-configuration",
            &[("setting", "connection_url".to_owned()), ("remedy", remedy.to_owned())],
        );
    }
    let Ok(DatabaseChoice::Postgres(place)) = config.database.load(&environment) else { return };
    if let Some((server, mode)) = unverified_server(&place) {
        let pairs = [("server", server.to_string()), ("sslmode", mode.to_owned())];
        log.line(LogLevel::Warn, "storage-server-unverified", &pairs);
    }
}

/// Initialises and opens the data if the configuration says so. The sources of the initialisation
/// are read only if they are needed: a password for the first start need not stay on the machine.
async fn open_data(service: &Arc<Service>, config: &Config) -> Result<(), String> {
    let message = |failure: Failure| failure.message;
    if !config.initialize.is_empty()
        && service.awaits_self_initialisation().await.map_err(message)?
    {
        let blocks = config::load_initial_blocks(&config.initialize, &environment)?;
        service.initialise_unattended(&blocks).await.map_err(message)?;
    }
    service.open_at_start().await.map_err(message)
}

/// Looks up a variable of this process.
pub(crate) fn environment(name: &str) -> Option<OsString> {
    std::env::var_os(name)
}

/// Prints the start message.
async fn announce(
    server: &StartedServer,
    program: &str,
    out: &mut dyn Write,
) -> Result<(), String> {
    let service = server.service();
    let status = service.seal_status().await.map_err(|failure| failure.message)?;
    let announcement = ProductionAnnouncement {
        program,
        urls: &server.urls(),
        scheduler_urls: &server.scheduler_urls(),
        config: server.config(),
        state: DataState::of(&status),
    };
    announcement.print(out).map_err(|error| format!("standard output cannot be written: {error}"))
}

/// Reads the files that `outbound` names, and the proxy's variables.
///
/// # Errors
/// The unusable file or variable, and the remedy.
pub(crate) fn check_outbound(config: &Config) -> Result<(), String> {
    config.outbound.load(&environment).map(drop)
}

/// Reads the files that `telemetry` names. Returns false if there is no collector.
///
/// # Errors
/// The unusable file, and the remedy.
pub(crate) fn check_telemetry(config: &Config) -> Result<bool, String> {
    // An unusable `outbound` has a result of its own.
    let outbound = config.outbound.load(&environment).unwrap_or_default();
    config.telemetry.load(&outbound).map(|access| access.is_some())
}

/// Reads the keys that `seal` names and, if there are no data, the variables and files of
/// `initialize`. Returns the seal.
///
/// # Errors
/// The unusable key, variable or file, and the remedy.
pub(crate) async fn check_seal(
    config: &Config,
    seals: &[OfficialSeal],
) -> Result<SealSetting, String> {
    let seal = config.seal.load(&environment, &|access| {
        let surroundings = KeeperSurroundings {
            seals: seals.to_vec(),
            runtime: SandboxRuntime::new()?,
            own_addresses: Vec::new(),
            outbound: config.outbound.load(&environment)?,
            log: Arc::new(|_, _, _, _| {}),
        };
        seal_wrapper::keeper(access, surroundings)
    })?;
    if !has_data(config).await {
        config::load_initial_blocks(&config.initialize, &environment)?;
    }
    Ok(seal)
}

/// Returns whether there are data, or may be: a database that cannot be used is a finding of its
/// own.
async fn has_data(config: &Config) -> bool {
    let Ok(options) = config.store_options(&environment) else { return true };
    match options.database {
        // No reader is needed, and a running server has the file.
        DatabaseChoice::SqliteFile => config.data.join("bulkhead.db").exists(),
        DatabaseChoice::Postgres(_) => DataDirectory::has_data(&options).await.unwrap_or(true),
    }
}

/// Checks the plugin directory, if there is one.
///
/// # Errors
/// The reason why the directory cannot be used, and the remedy.
pub(crate) fn check_plugin_directory(config: &Config) -> Result<(), String> {
    let Some(directory) = &config.plugin_directory else { return Ok(()) };
    let named = |failure: Failure| format!("plugin_directory: {}", failure.message);
    directory.check().map_err(named)
}

/// Returns the configuration, and the advice for choosing another address.
fn load_config(source: ConfigSource) -> Result<(Config, String), String> {
    match source {
        ConfigSource::Options(ProductionOptions { listen, data, database, tls_disable }) => {
            let database = DatabaseSettings::Known(database);
            let mut config = Config { database, ..Config::at(&listen, &data) };
            if tls_disable {
                config.listener.transport = ListenerTransport::Plain;
            }
            Ok((config, "with --listen-address HOST:PORT".to_owned()))
        }
        ConfigSource::File(file) => {
            let elsewhere =
                format!("in {}: listener \"tcp\" {{ address = \"HOST:PORT\" }}", file.display());
            Config::read(&file).map(|config| (config, elsewhere))
        }
    }
}

/// The state of the data when the server begins to serve.
enum DataState {
    NotInitialised {
        seal: SealKind,
    },
    Sealed,
    AwaitsMigration,
    /// The key service of the seal of this kind has not given the key.
    AwaitsKey(String),
    /// Opened by the automatic seal of this kind.
    Open(String),
}

/// The kind of the keys that an initialisation hands out.
enum SealKind {
    Shares,
    Automatic,
}

impl DataState {
    fn of(status: &SealStatus) -> Self {
        match status {
            SealStatus { initialized: false, is_automatic, .. } => {
                let seal = if *is_automatic { SealKind::Automatic } else { SealKind::Shares };
                Self::NotInitialised { seal }
            }
            SealStatus { sealed: false, kind, .. } => Self::Open(kind.clone()),
            SealStatus { awaits_migration: true, .. } => Self::AwaitsMigration,
            SealStatus { is_automatic: true, kind, .. } => Self::AwaitsKey(kind.clone()),
            _ => Self::Sealed,
        }
    }

    /// Returns the state, and the next command of `bulkhead`.
    fn words(&self) -> (String, &'static str) {
        let (state, next) = match self {
            Self::NotInitialised { seal: SealKind::Shares } => (
                "not initialised",
                "operator init       # prints the unseal keys and the root token, this once",
            ),
            Self::NotInitialised { seal: SealKind::Automatic } => (
                "not initialised",
                "operator init       # prints the recovery keys and the root token, this once",
            ),
            Self::Sealed => (
                "initialised, sealed",
                "operator unseal     # once for each key, until the threshold is reached",
            ),
            Self::AwaitsMigration => (
                "initialised, sealed, awaiting the migration to the configured seal",
                "operator unseal -migrate     # once for each key, until the threshold is reached",
            ),
            Self::AwaitsKey(kind) => {
                let state = format!(
                    "initialised, sealed; the seal {kind} opens the data after the cause in the \
                     log is removed"
                );
                return (state, "status");
            }
            Self::Open(kind) => {
                return (format!("initialised, unsealed by the seal {kind}"), "status");
            }
        };
        (state.to_owned(), next)
    }
}

/// The start message for the operator.
struct ProductionAnnouncement<'a> {
    program: &'a str,
    urls: &'a [String],
    scheduler_urls: &'a [String],
    config: &'a Config,
    state: DataState,
}

impl ProductionAnnouncement<'_> {
    fn print(&self, out: &mut dyn Write) -> io::Result<()> {
        let Self { program, urls, scheduler_urls, config, state } = self;
        let (state, next) = state.words();
        writeln!(out, "Bulkhead {}\n", env!("CARGO_PKG_VERSION"))?;
        process::print_urls(urls, out)?;
        for url in *scheduler_urls {
            writeln!(out, "scheduler API on {url}")?;
        }
        writeln!(out, "data: {} ({state})", config.place_of_data())?;
        if !config.database.is_file() {
            writeln!(out, "lock and uploads: {}", config.data.display())?;
        }
        for device in &config.audit.devices {
            writeln!(out, "audit log: {}", device.file.display())?;
        }
        if config.audit.devices.is_empty() {
            writeln!(
                out,
                "audit log: none. Unless the API made a device, no request is recorded;\n  \
                 add to the configuration: audit \"file\" \"main\" {{ path = \"FILE\" }}"
            )?;
        }
        writeln!(out, "\nNext, in another terminal:")?;
        let url = urls.first().map(String::as_str).unwrap_or_default();
        writeln!(out, "  export BULKHEAD_ADDR={url}")?;
        writeln!(out, "  {program} {next}\n")?;
        writeln!(out, "ready")?;
        out.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bulkhead_audit::AuditSettings;
    use std::path::Path;

    fn announcement(state: DataState) -> String {
        let urls = ["http://127.0.0.1:4321".to_owned()];
        let mut config = Config::at("127.0.0.1:0", Path::new("./d"));
        if !matches!(state, DataState::NotInitialised { .. }) {
            config.audit = AuditSettings::for_dev_mode(Path::new("/var/log"));
        }
        let sealed = ProductionAnnouncement {
            program: "bulkhead",
            urls: &urls,
            scheduler_urls: &[],
            config: &config,
            state,
        };
        let mut out = Vec::new();
        sealed.print(&mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn announcement_without_data_explains_initialisation() {
        let text = announcement(DataState::NotInitialised { seal: SealKind::Shares });
        assert!(
            text.contains(
                "\nlistening on http://127.0.0.1:4321\ndata: ./d (not initialised)\n\
                 audit log: none. "
            ),
            "{text}"
        );
        assert!(
            text.contains("no request is recorded") && text.contains("audit \"file\""),
            "{text}"
        );
        assert!(text.contains("\n  export BULKHEAD_ADDR=http://127.0.0.1:4321\n"), "{text}");
        assert!(
            text.contains("\n  bulkhead operator init ") && !text.contains("operator unseal"),
            "{text}"
        );
        assert!(text.ends_with("\nready\n"), "{text}");
    }

    #[test]
    fn announcement_with_data_explains_unseal_and_audit_log() {
        let text = announcement(DataState::Sealed);
        assert!(
            text.contains("data: ./d (initialised, sealed)\naudit log: /var/log/audit.log\n\nNext"),
            "{text}"
        );
        assert!(
            text.contains("\n  bulkhead operator unseal ") && !text.contains("operator init"),
            "{text}"
        );
    }

    #[test]
    fn announcement_of_automatic_seal_names_next_command() {
        let text = announcement(DataState::NotInitialised { seal: SealKind::Automatic });
        assert!(text.contains("operator init       # prints the recovery keys"), "{text}");
        let text = announcement(DataState::AwaitsMigration);
        assert!(text.contains("\n  bulkhead operator unseal -migrate "), "{text}");
        let text = announcement(DataState::AwaitsKey("transit".to_owned()));
        assert!(text.contains("(initialised, sealed; the seal transit opens the data"), "{text}");
        assert!(text.contains("\n  bulkhead status\n"), "{text}");
        let text = announcement(DataState::Open("static".to_owned()));
        assert!(text.contains("(initialised, unsealed by the seal static)"), "{text}");
        assert!(text.contains("\n  bulkhead status\n"), "{text}");
    }
}

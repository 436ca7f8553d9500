//! Command line of `bulkhead server`.
//!
//! This file prevents an option of one mode from being ignored in the other mode, which would leave
//! the server at another address, or less protected, than its operator believes.

mod environment;
mod usage;

use crate::config::{DEFAULT_ADDRESS, parse_log_format, parse_log_level};
use crate::log::{LogFormat, LogSettings};
use bulkhead_cli::{double_dashes, find_nearest};
use bulkhead_store::DatabaseChoice;
use bulkhead_wire::log_level::LogLevel;
use bulkhead_wire::secret::Secret;
use environment::{DATABASE_VARIABLE, EnvironmentLookup, database, typed_or_set};
use lexopt::ValueExt;
use std::ffi::OsString;
use std::path::PathBuf;

pub use usage::USAGE;

/// Maximum length of the root token id, in characters.
const TOKEN_MAX: usize = 128;

/// Environment variable equivalent to `--listen-address`.
const LISTEN_VARIABLE: &str = "BULKHEAD_LISTEN_ADDRESS";

/// Environment variable equivalent to `--data-dir`.
const DATA_VARIABLE: &str = "BULKHEAD_DATA_DIR";

/// Default data directory outside dev mode, relative to the working directory.
const DATA: &str = "./bulkhead-data";

/// The action that the command line asks for.
#[derive(Debug)]
pub enum ServerAction {
    /// Print [`USAGE`].
    Help,
    /// Check this file, report the server that it configures, and end.
    Check(PathBuf),
    /// Run a server.
    Serve(ServerMode, LogOptions),
}

/// The settings of the log on the command line, which replace those of the configuration.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LogOptions {
    level: Option<LogLevel>,
    format: Option<LogFormat>,
    file: Option<PathBuf>,
}

impl LogOptions {
    /// Returns `settings` with the settings of the command line.
    #[must_use]
    pub(crate) fn over(&self, settings: &LogSettings) -> LogSettings {
        LogSettings {
            level: self.level.unwrap_or(settings.level),
            format: self.format.unwrap_or(settings.format),
            file: self.file.clone().or_else(|| settings.file.clone()),
        }
    }
}

/// The two kinds of server.
#[derive(Debug)]
pub enum ServerMode {
    /// A server for trial use that opens itself at start.
    Dev(DevOptions),
    /// A server that stays sealed until its operators unseal it.
    Production(ConfigSource),
}

/// The source of the settings outside dev mode: options or a file, never both, because then neither
/// would show the complete settings.
#[derive(Debug)]
pub enum ConfigSource {
    /// Options, completed from the environment.
    Options(ProductionOptions),
    /// A configuration file alone.
    File(PathBuf),
}

/// A dev server's settings.
#[derive(Debug)]
pub struct DevOptions {
    /// `host:port`; port 0 takes a free port.
    pub listen: String,
    /// Requested root token. `None`: a random token.
    pub root_token: Option<Secret>,
    /// Data directory. `None`: a temporary directory that is removed with the process.
    pub data: Option<PathBuf>,
    /// Database with the records.
    pub database: DatabaseChoice,
    /// Protection of the server's connections.
    pub tls: DevTransport,
    /// Listener of the scheduler's API.
    pub scheduler: DevScheduler,
}

/// The listener of the scheduler's API in dev mode.
#[derive(Debug, PartialEq, Eq)]
pub enum DevScheduler {
    /// At the default address, if that address is free.
    Usual,
    /// No listener.
    Off,
    /// At this address.
    At(String),
}

/// The protection of a dev server's connections.
#[derive(Debug, PartialEq, Eq)]
pub enum DevTransport {
    /// Plain HTTP, on loopback addresses only.
    PlainHere,
    /// Plain HTTP on any address, by explicit request.
    Plain,
    /// TLS with a certificate made at the start, for these names besides the default names.
    Tls(Vec<String>),
}

/// The settings of a server without dev mode and without a configuration file.
#[derive(Debug)]
pub struct ProductionOptions {
    /// `host:port`; port 0 takes a free port.
    pub listen: String,
    /// Data directory.
    pub data: PathBuf,
    /// Database with the records.
    pub database: DatabaseChoice,
    /// Allow plain HTTP on addresses that other machines reach.
    pub tls_disable: bool,
}

/// Parses the arguments after `server`; `env` looks up an environment variable.
///
/// # Errors
/// A message for standard error; the process then exits with code 2.
pub fn parse(
    args: impl Iterator<Item = OsString>,
    env: EnvironmentLookup<'_>,
) -> Result<ServerAction, String> {
    use lexopt::Arg::{Long, Short};
    let mut typed = ParsedArguments::default();
    let mut parser = lexopt::Parser::from_args(double_dashes(args));
    while let Some(arg) = parser.next().map_err(|error| error.to_string())? {
        match arg {
            Long("help") | Short('h') => return Ok(ServerAction::Help),
            Long("dev") => typed.dev = true,
            Long("dev-root-token-id") => typed.token = Some(text_value(&mut parser)?),
            Long("dev-listen-address") => typed.dev_listen = Some(text_value(&mut parser)?),
            Long("dev-scheduler-listen-address") => {
                typed.dev_scheduler = Some(text_value(&mut parser)?)
            }
            Long("dev-no-store-token") => typed.no_store = true,
            Long("dev-tls") => typed.dev_tls = true,
            Long("dev-tls-san") => typed.names.push(text_value(&mut parser)?),
            Long("tls-disable") => typed.tls_disable = true,
            Long("listen-address") => typed.listen = Some(text_value(&mut parser)?),
            Long("data-dir") => {
                typed.data = Some(path_value(&mut parser, "--data-dir", "the folder for the data")?)
            }
            Long("config") if typed.config.is_some() => {
                return Err("--config is given twice: name a single file".to_owned());
            }
            Long("config") => {
                typed.config =
                    Some(path_value(&mut parser, "--config", "the file with the configuration")?)
            }
            Long("check") => typed.check = true,
            Long("log-level") => {
                typed.log.level = Some(parse_log_level(&text_value(&mut parser)?)?);
            }
            Long("log-format") => {
                typed.log.format = Some(parse_log_format(&text_value(&mut parser)?)?);
            }
            Long("log-file") => {
                let file = path_value(&mut parser, "--log-file", "the file of the log")?;
                typed.log.file = Some(file);
            }
            Long("no-color") => (),
            Long(name) => return Err(unknown_option(name)),
            other => return Err(format!("{}; see `bulkhead server --help`", other.unexpected())),
        }
    }
    typed.into_action(env)
}

/// Describes an option that the server does not have, with the nearest one.
fn unknown_option(name: &str) -> String {
    let option_names = USAGE.split([' ', '\n']).filter_map(|word| word.strip_prefix("--"));
    let near = find_nearest(name, option_names).map(|near| format!("; did you mean --{near}?"));
    let (name, near) = (name.escape_debug(), near.unwrap_or_default());
    format!("there is no option --{name}{near}; see `bulkhead server --help`")
}

fn text_value(parser: &mut lexopt::Parser) -> Result<String, String> {
    parser.value().and_then(|value| value.string()).map_err(|error| error.to_string())
}

fn path_value(parser: &mut lexopt::Parser, option: &str, meant: &str) -> Result<PathBuf, String> {
    let value = parser.value().map_err(|error| error.to_string())?;
    if value.is_empty() {
        return Err(format!("{option} is empty: name {meant}"));
    }
    Ok(value.into())
}

/// The parsed arguments, before the check that they fit together.
#[derive(Default)]
struct ParsedArguments {
    dev: bool,
    token: Option<String>,
    dev_listen: Option<String>,
    dev_scheduler: Option<String>,
    listen: Option<String>,
    data: Option<PathBuf>,
    config: Option<PathBuf>,
    check: bool,
    tls_disable: bool,
    dev_tls: bool,
    names: Vec<String>,
    no_store: bool,
    log: LogOptions,
}

impl ParsedArguments {
    fn into_action(self, env: EnvironmentLookup<'_>) -> Result<ServerAction, String> {
        let log = self.log.clone();
        let serve = |mode| ServerAction::Serve(mode, log);
        if self.dev {
            return self.dev_options(env).map(|options| serve(ServerMode::Dev(options)));
        }
        self.refuse_dev_options()?;
        match (&self.config, self.check) {
            (None, true) => {
                Err("--check is about a configuration file: add --config FILE".to_owned())
            }
            // The environment of this shell may differ from that of the server that will use the
            // file.
            (Some(_), true) => self.config_file(&|_| None).map(ServerAction::Check),
            (Some(_), false) => self
                .config_file(env)
                .map(|file| serve(ServerMode::Production(ConfigSource::File(file)))),
            (None, false) => self
                .production_options(env)
                .map(|options| serve(ServerMode::Production(ConfigSource::Options(options)))),
        }
    }

    /// Builds the dev settings. Missing options come from the environment, `BULKHEAD_` names first.
    fn dev_options(self, env: EnvironmentLookup<'_>) -> Result<DevOptions, String> {
        if self.listen.is_some() {
            return Err("--listen-address is for a server without --dev; \
                        with --dev write --dev-listen-address"
                .to_owned());
        }
        if self.config.is_some() || self.check {
            return Err(
                "--config and --check are for a server without --dev; leave --dev out".to_owned()
            );
        }
        let tls = match (self.dev_tls, self.tls_disable) {
            (true, true) => {
                return Err(
                    "--dev-tls and --tls-disable contradict each other; leave one of the two out"
                        .to_owned(),
                );
            }
            (false, _) if !self.names.is_empty() => {
                return Err(
                    "--dev-tls-san is about the certificate of --dev-tls; add --dev-tls".to_owned()
                );
            }
            (true, false) => DevTransport::Tls(self.names),
            (false, true) => DevTransport::Plain,
            (false, false) => DevTransport::PlainHere,
        };
        let either = |name: &str| [format!("BULKHEAD_DEV_{name}"), format!("VAULT_DEV_{name}")];
        let token = typed_or_set(self.token, env, &either("ROOT_TOKEN_ID"))?;
        let listen = typed_or_set(self.dev_listen, env, &either("LISTEN_ADDRESS"))?;
        let own = ["BULKHEAD_DEV_SCHEDULER_LISTEN_ADDRESS".to_owned()];
        let scheduler = typed_or_set(self.dev_scheduler, env, &own)?;
        let database = database(env)?;
        if self.data.is_none() && matches!(database, DatabaseChoice::Postgres(_)) {
            return Err(format!(
                "{DATABASE_VARIABLE} needs --data-dir, because the key of the data would be \
                 removed at the end"
            ));
        }
        Ok(DevOptions {
            database,
            scheduler: match scheduler.as_deref() {
                None => DevScheduler::Usual,
                Some("off") => DevScheduler::Off,
                Some(address) => DevScheduler::At(address.to_owned()),
            },
            listen: listen.unwrap_or_else(|| DEFAULT_ADDRESS.to_owned()),
            root_token: token.map(check_token).transpose()?,
            data: self.data,
            tls,
        })
    }

    /// Refuses the options of dev mode. The environment's dev settings are ignored, because they
    /// may be for another server of the same user.
    fn refuse_dev_options(&self) -> Result<(), String> {
        if self.token.is_some() {
            return Err("--dev-root-token-id is for dev mode: add --dev, or leave the option out \
                        and get the root token from `bulkhead operator init`"
                .to_owned());
        }
        if self.no_store {
            return Err("--dev-no-store-token is for dev mode: add --dev, or leave the option \
                        out; the token is stored in neither mode"
                .to_owned());
        }
        if self.dev_listen.is_some() {
            return Err(
                "--dev-listen-address is for dev mode: add --dev, or write --listen-address"
                    .to_owned(),
            );
        }
        if self.dev_scheduler.is_some() {
            return Err("--dev-scheduler-listen-address is for dev mode: add --dev, or write \
                        listener \"scheduler\" { address = … } into a configuration file"
                .to_owned());
        }
        if self.dev_tls || !self.names.is_empty() {
            return Err("--dev-tls is for dev mode: add --dev, or write tls_cert_file and \
                        tls_key_file into a configuration file"
                .to_owned());
        }
        Ok(())
    }

    /// Returns the configuration file if no other option or variable sets a value of that file.
    fn config_file(self, env: EnvironmentLookup<'_>) -> Result<PathBuf, String> {
        if self.tls_disable {
            return Err("--tls-disable is not read together with --config; \
                        write listener \"tcp\" { tls_disable = true } into the file"
                .to_owned());
        }
        let is_set = |name: &str| env(name).is_some_and(|value| !value.is_empty());
        for (typed, option, name, place) in [
            (
                self.listen.is_some(),
                "--listen-address",
                LISTEN_VARIABLE,
                "listener \"tcp\" { address = … }",
            ),
            (self.data.is_some(), "--data-dir", DATA_VARIABLE, "storage \"sqlite\" { path = … }"),
        ] {
            if typed || is_set(name) {
                let setting = if typed { option } else { name };
                return Err(format!(
                    "{setting} is not read together with --config; write {place} into the file and \
                     leave {setting} out"
                ));
            }
        }
        self.config.ok_or_else(|| "--config names no file".to_owned())
    }

    fn production_options(self, env: EnvironmentLookup<'_>) -> Result<ProductionOptions, String> {
        let listen = typed_or_set(self.listen, env, &[LISTEN_VARIABLE.to_owned()])?;
        let set = || env(DATA_VARIABLE).filter(|value| !value.is_empty()).map(PathBuf::from);
        Ok(ProductionOptions {
            listen: listen.unwrap_or_else(|| DEFAULT_ADDRESS.to_owned()),
            data: self.data.or_else(set).unwrap_or_else(|| PathBuf::from(DATA)),
            database: database(env)?,
            tls_disable: self.tls_disable,
        })
    }
}

/// Checks the root token id. Only characters that need no quoting in a shell or a header are
/// allowed, because the server prints the token in a command to copy.
fn check_token(text: String) -> Result<Secret, String> {
    let usable = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_');
    if text.is_empty() || text.len() > TOKEN_MAX || !text.chars().all(usable) {
        return Err(format!(
            "the root token id must be 1 to {TOKEN_MAX} of the characters A-Z a-z 0-9 . - _"
        ));
    }
    Ok(Secret::new(text))
}

#[cfg(test)]
mod tests;

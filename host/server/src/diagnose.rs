//! `bulkhead operator diagnose`: checks a configuration file, and whether a server can start with
//! the file on this machine.
//!
//! This file prevents a diagnosis that differs from the start: listeners, certificates, limits and
//! named files are checked by the functions of the start. No file is created or changed; addresses
//! are bound for a moment, unless a server already runs with the data directory.

mod database;
mod findings;
mod listeners;
mod machine;
mod running;
mod storage;

use crate::config::{Config, SealSettings};
use crate::production;
use bulkhead_cli::double_dashes;
use bulkhead_core::OfficialSeal;
use bulkhead_core::seal_setting::SealSetting;
use findings::CheckStatus;
pub(crate) use findings::Diagnosis;
use lexopt::ValueExt;
use std::ffi::OsString;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Help text of `bulkhead operator diagnose --help`.
pub const USAGE: &str = "\
Usage: bulkhead operator diagnose -config=FILE [-format=json]

Checks the configuration FILE, and whether a server can start with FILE on this machine: data
directory, free space, database server, addresses, certificates, directories of plugins and
snapshots, audit files, limits, clocks, and the health of a running server. Run this command as
the user of the server, with or without a running server.

Exit code 0: no problem; 1: the server does not start; 2: warnings; 3: wrong usage.
";

/// Exit code for wrong usage: 1 and 2 are results of the checks.
pub const WRONG_USAGE: u8 = 3;

/// Time for which the checks wait for the service that keeps the key of the seal.
const KEEPER_PATIENCE: Duration = Duration::from_secs(5);

/// The action that the command line asks for.
#[derive(Debug, PartialEq, Eq)]
pub enum DiagnoseAction {
    /// Print [`USAGE`].
    Help,
    /// Check a file.
    Diagnose(DiagnoseRequest),
}

/// The file to check, and the form of the report.
#[derive(Debug, PartialEq, Eq)]
pub struct DiagnoseRequest {
    file: PathBuf,
    json: bool,
}

/// Parses the arguments after `operator diagnose`.
///
/// # Errors
/// A message for standard error; the process then exits with [`WRONG_USAGE`].
pub fn parse(args: impl Iterator<Item = OsString>) -> Result<DiagnoseAction, String> {
    use lexopt::Arg::{Long, Short};
    let (mut file, mut json) = (None, false);
    let mut parser = lexopt::Parser::from_args(double_dashes(args));
    while let Some(arg) = parser.next().map_err(|error| error.to_string())? {
        match arg {
            Long("help") | Short('h') => return Ok(DiagnoseAction::Help),
            Long("config") if file.is_some() => {
                return Err("-config is given twice: name a single file".to_owned());
            }
            Long("config") => {
                let value = parser.value().map_err(|error| error.to_string())?;
                file = Some(PathBuf::from(value));
            }
            Long("format") => {
                let value = parser.value().and_then(|value| value.string());
                json = is_json(&value.map_err(|error| error.to_string())?)?;
            }
            other => {
                let other = other.unexpected();
                return Err(format!("{other}; see `bulkhead operator diagnose -help`"));
            }
        }
    }
    match file.filter(|file| !file.as_os_str().is_empty()) {
        Some(file) => Ok(DiagnoseAction::Diagnose(DiagnoseRequest { file, json })),
        None => Err("which file? name the server's configuration: -config=FILE".to_owned()),
    }
}

/// Returns true if `-format` asks for JSON.
///
/// # Errors
/// A format that is not known.
pub(crate) fn is_json(format: &str) -> Result<bool, String> {
    match format {
        "json" => Ok(true),
        "table" => Ok(false),
        other => Err(format!("-format={other} is not known; use json or table")),
    }
}

/// Checks the file and the machine, prints the report, and returns the exit code. `seals` are the
/// seal plugins of this binary.
///
/// # Errors
/// Standard output cannot be written.
pub async fn run(
    request: &DiagnoseRequest,
    seals: &[OfficialSeal],
    out: &mut dyn Write,
) -> io::Result<u8> {
    let diagnosis = diagnose(&request.file, seals).await;
    if request.json {
        diagnosis.print_json(out)?
    } else {
        diagnosis.print_lines(out)?
    }
    out.flush()?;
    Ok(diagnosis.status().exit_code())
}

async fn diagnose(file: &Path, seals: &[OfficialSeal]) -> Diagnosis {
    let mut diagnosis = Diagnosis::default();
    let config = match Config::read(file) {
        Ok(config) => config,
        Err(why) => {
            diagnosis.add("configuration", CheckStatus::Fail, why);
            return diagnosis;
        }
    };
    diagnosis.add("configuration", CheckStatus::Ok, format!("{} is valid", file.display()));
    for notice in &config.notices {
        diagnosis.add("configuration", CheckStatus::Warn, notice.to_string());
    }
    let is_in_use = check_places(&config, &mut diagnosis).await;
    listeners::check(&config, is_in_use, &mut diagnosis).await;
    check_files(&config, &mut diagnosis);
    check_seal(&config, seals, &mut diagnosis).await;
    machine::check_clock(&config.data, &mut diagnosis);
    if is_in_use {
        running::check(&config, &mut diagnosis);
    }
    diagnosis
}

/// Returns the findings about a start with `config`. A server that runs with the data and answers
/// at the addresses is not an obstacle, because the operator stops that server first.
pub(crate) async fn check_start(config: &Config, seals: &[OfficialSeal]) -> Diagnosis {
    let mut diagnosis = Diagnosis::default();
    let is_in_use = check_places(config, &mut diagnosis).await;
    listeners::check_start(config, is_in_use, &mut diagnosis).await;
    check_files(config, &mut diagnosis);
    check_seal(config, seals, &mut diagnosis).await;
    machine::check_clock(&config.data, &mut diagnosis);
    diagnosis
}

/// Checks the process, the data directory, the database server and the audit files. Returns whether
/// a server runs with the data.
async fn check_places(config: &Config, diagnosis: &mut Diagnosis) -> bool {
    machine::check_process(config, diagnosis);
    let is_in_use = storage::check(config, diagnosis).await;
    database::check(config, is_in_use, diagnosis).await;
    storage::check_audit(&config.audit, diagnosis);
    if let Some(file) = &config.log.file {
        storage::check_log_file(file, diagnosis);
    }
    is_in_use
}

/// Checks the files of the seal. A service that keeps the key of the seal must answer; if not, a
/// start waits sealed, so that the finding is a warning.
async fn check_seal(config: &Config, seals: &[OfficialSeal], diagnosis: &mut Diagnosis) {
    if config.seal.kind() == SealSettings::Shamir.kind() {
        return;
    }
    let loaded = production::check_seal(config, seals).await;
    if let Ok(SealSetting::External(seal)) = &loaded {
        let refused = match tokio::time::timeout(KEEPER_PATIENCE, seal.check()).await {
            Ok(checked) => checked.err().map(|failure| failure.message),
            Err(_) => Some(format!(
                "seal {:?}: no answer in {} s; check the address and the network",
                seal.kind(),
                KEEPER_PATIENCE.as_secs()
            )),
        };
        if let Some(why) = refused {
            let words = "a start waits sealed until the other server opens the data";
            diagnosis.add("seal", CheckStatus::Warn, format!("{why}; {words}"));
        }
    }
    let readable = "the keys and the sources of the self-initialisation can be read".to_owned();
    diagnosis.add_result("seal", loaded.map(|_| readable));
}

/// Checks the files for outgoing connections, and the directories of plugins and snapshots.
fn check_files(config: &Config, diagnosis: &mut Diagnosis) {
    diagnosis.add_result(
        "outbound",
        production::check_outbound(config).map(|()| "proxy and authorities are usable".to_owned()),
    );
    let telemetry = production::check_telemetry(config);
    if telemetry != Ok(false) {
        let usable = telemetry.map(|_| "the export of traces is usable".to_owned());
        diagnosis.add_result("telemetry", usable);
    }
    if let Some(directory) = &config.plugin_directory {
        let readable = format!("components can be read from {}", directory.path().display());
        let checked = production::check_plugin_directory(config);
        diagnosis.add_result("plugins", checked.map(|()| readable));
    }
    for plan in &config.snapshots {
        let writable = format!("{} can be saved to {}", plan.name, plan.directory.display());
        let checked = plan.check_directory(&config.data);
        let checked = checked.map(|()| writable).map_err(|failure| failure.message);
        diagnosis.add_result("snapshots", checked);
    }
}

#[cfg(test)]
mod tests;

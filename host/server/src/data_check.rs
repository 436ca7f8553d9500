//! `bulkhead operator check`: reads every record of a data directory or of a snapshot, opens the
//! records if unseal keys are given, and reports damage by mount and record.
//!
//! This file prevents a backup that nobody can restore: the check finds damage while the server and
//! older backups are still there. Nothing is changed.

use crate::config::Config;
use crate::diagnose::is_json;
use crate::production::environment;
use bulkhead_cli::double_dashes;
use bulkhead_cli::keyboard::{self, HideInput};
use bulkhead_core::mounts::StoredMountNames;
use bulkhead_store::{
    CheckReport, DataDamage, KeyShare, OpenedRecord, check_directory, check_snapshot, check_store,
    read_key_file, read_keys,
};
use lexopt::ValueExt;
use serde_json::{Value, json};
use std::ffi::OsString;
use std::io::{self, BufRead, Write};
use std::path::{Path, PathBuf};

/// Help text of `bulkhead operator check --help`.
pub const USAGE: &str = "\
Usage: bulkhead operator check PATH [-key-file=FILE|-] [-format=json]
       bulkhead operator check -config=FILE [-key-file=FILE|-] [-format=json]

Reads every record of PATH, a data directory that no server uses or a snapshot, and reports
damage by mount and record. Nothing is changed, and no server is asked.

  -config=FILE      check the data of the server with this configuration, also on PostgreSQL, where
                    a server may use the data at the same time
  -key-file=FILE    open every record with the keys in FILE: unseal keys or recovery keys, a key
                    in each line, or the key of a static seal. FILE must not be writable by its
                    group, nor open to others. With - the command asks at the terminal, or reads
                    standard input. Without keys only the structure is checked.
  -format=json      print the report as JSON

Exit code 0: no damage; 1: damage, or the data cannot be read; 2: wrong usage.
";

/// The action that the command line asks for.
#[derive(Debug, PartialEq, Eq)]
pub enum DataCheckAction {
    /// Print [`USAGE`].
    Help,
    /// Check data.
    Check(DataCheckRequest),
}

/// The data to check, and the form of the report.
#[derive(Debug, PartialEq, Eq)]
pub struct DataCheckRequest {
    data: CheckedData,
    key_file: Option<PathBuf>,
    json: bool,
}

/// The data to check.
#[derive(Debug, PartialEq, Eq)]
enum CheckedData {
    /// A data directory or a snapshot.
    Path(PathBuf),
    /// The data of the server with this configuration file.
    Configuration(PathBuf),
}

/// The terminal or pipe from which keys are read.
pub struct KeyInput<'a> {
    /// Standard input.
    pub stdin: &'a mut dyn BufRead,
    /// Output for questions.
    pub screen: &'a mut dyn Write,
    /// Hides typed characters. `None` if standard input is not a terminal.
    pub hide: Option<HideInput<'a>>,
}

/// Parses the arguments after `operator check`.
///
/// # Errors
/// A message for standard error; the process then exits with code 2.
pub fn parse(args: impl Iterator<Item = OsString>) -> Result<DataCheckAction, String> {
    use lexopt::Arg::{Long, Short, Value};
    let (mut data, mut key_file, mut json) = (None, None, false);
    let mut parser = lexopt::Parser::from_args(double_dashes(args));
    while let Some(arg) = parser.next().map_err(|error| error.to_string())? {
        match arg {
            Long("help") | Short('h') => return Ok(DataCheckAction::Help),
            Long("key-file") => {
                let value = parser.value().map_err(|error| error.to_string())?;
                if value.is_empty() || key_file.is_some() {
                    return Err("-key-file names a single file, or - for standard input".to_owned());
                }
                key_file = Some(PathBuf::from(value));
            }
            Long("format") => {
                let value = parser.value().and_then(|value| value.string());
                json = is_json(&value.map_err(|error| error.to_string())?)?;
            }
            Long("config") if data.is_none() => {
                let value = parser.value().map_err(|error| error.to_string())?;
                data = Some(CheckedData::Configuration(value.into()));
            }
            Value(value) if data.is_none() && !value.is_empty() => {
                data = Some(CheckedData::Path(value.into()));
            }
            other => {
                let other = other.unexpected();
                return Err(format!("{other}; see `bulkhead operator check -help`"));
            }
        }
    }
    let data = data.ok_or(
        "no data are named; give a data directory, the file of a snapshot, or -config=FILE",
    )?;
    Ok(DataCheckAction::Check(DataCheckRequest { data, key_file, json }))
}

/// Checks the data and prints the report. Returns whether there is no damage.
///
/// # Errors
/// The reason why the data cannot be checked, or why standard output cannot be written.
pub async fn run(
    request: &DataCheckRequest,
    input: KeyInput<'_>,
    out: &mut dyn Write,
) -> Result<bool, String> {
    let shares = match &request.key_file {
        None => Vec::new(),
        Some(file) if file == Path::new("-") => ask_keys(input)?,
        Some(file) => read_key_file(file).map_err(|fault| fault.to_string())?,
    };
    let mut names = StoredMountNames::default();
    let mut learn = |record: OpenedRecord<'_>| names.learn(record.address, record.body);
    let checked = match &request.data {
        CheckedData::Configuration(file) => {
            let options = Config::read(file)?.store_options(&environment)?;
            check_store(&options, shares, &mut learn).await
        }
        CheckedData::Path(path) if path.is_dir() => check_directory(path, shares, &mut learn).await,
        CheckedData::Path(path) => check_snapshot(path, shares, &mut learn).await,
    };
    let report = checked.map_err(|fault| fault.to_string())?;
    let printed = match request.json {
        true => print_json(&report, &names, out),
        false => print_lines(&report, &names, out),
    };
    printed.map_err(|error| format!("standard output cannot be written: {error}"))?;
    Ok(report.damages.is_empty())
}

/// Asks for keys at the terminal until an empty line, or reads standard input to its end.
fn ask_keys(input: KeyInput<'_>) -> Result<Vec<KeyShare>, String> {
    let KeyInput { stdin, screen, hide } = input;
    let Some(hide) = hide else {
        return read_keys(stdin).map_err(|fault| fault.to_string());
    };
    let mut shares = Vec::new();
    loop {
        let question = "Type an unseal key (not shown), or an empty line after the last key";
        let typed = keyboard::ask(question, hide, stdin, screen);
        let typed = typed.map_err(|error| format!("the terminal cannot be asked: {error}"))?;
        let key = typed.expose().trim();
        if key.is_empty() && shares.is_empty() {
            return Err("no key was typed; leave -key-file out for a check without a key".into());
        }
        if key.is_empty() {
            return Ok(shares);
        }
        shares.push(KeyShare::parse(key)?);
    }
}

/// Returns the mount and the record of a damaged place.
fn split_place<'a>(damage: &'a DataDamage, names: &'a StoredMountNames) -> (&'a str, String) {
    names.split_place(&damage.place).unwrap_or_else(|| ("", damage.place.clone()))
}

fn print_lines(
    report: &CheckReport,
    names: &StoredMountNames,
    out: &mut dyn Write,
) -> io::Result<()> {
    for damage in &report.damages {
        let (mount, record) = split_place(damage, names);
        let mount = if mount.is_empty() { String::new() } else { format!("mount {mount}: ") };
        let line = format!("{mount}{record}: {}", damage.fault);
        writeln!(out, "damaged: {}", line.escape_debug())?;
    }
    if report.more_damages > 0 {
        writeln!(out, "damaged: {} more places", report.more_damages)?;
    }
    let (records, damages) = (report.records, damages(report));
    match report.opened {
        Some(opened) => {
            writeln!(out, "{records} records read, {opened} opened, {damages} places damaged")
        }
        None => writeln!(
            out,
            "{records} records read, {damages} places damaged; no record was opened: give unseal \
             keys with -key-file"
        ),
    }?;
    out.flush()
}

fn print_json(
    report: &CheckReport,
    names: &StoredMountNames,
    out: &mut dyn Write,
) -> io::Result<()> {
    let of_damage = |damage: &DataDamage| {
        let (mount, record) = split_place(damage, names);
        json!({ "mount": mount, "record": record, "fault": damage.fault })
    };
    let damaged: Vec<Value> = report.damages.iter().map(of_damage).collect();
    let manifest = report.manifest.as_ref().map(|manifest| manifest.to_json());
    let json = json!({
        "manifest": manifest,
        "records": report.records,
        "opened": report.opened,
        "damages": damages(report),
        "damaged": damaged,
    });
    writeln!(out, "{json:#}")?;
    out.flush()
}

fn damages(report: &CheckReport) -> u64 {
    u64::try_from(report.damages.len()).unwrap_or(u64::MAX).saturating_add(report.more_damages)
}

#[cfg(test)]
mod tests;

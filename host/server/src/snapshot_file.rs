//! `bulkhead operator snapshot inspect`: the manifest of a snapshot, without a server and without a
//! key. Also the restore of a snapshot without a server.
//!
//! This file prevents an incomplete backup from being taken for a complete one: the manifest is
//! printed after the whole file was read and its digests were found right.

use crate::config::Config;
use crate::diagnose::is_json;
use crate::production::environment;
use bulkhead_cli::{RestorePlace, double_dashes};
use bulkhead_store::{
    SnapshotManifest, SnapshotSummary, StoreOptions, inspect_snapshot, restore_store,
};
use lexopt::ValueExt;
use serde_json::json;
use std::ffi::OsString;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// Help text of `bulkhead operator snapshot inspect --help`.
pub const USAGE: &str = "\
Usage: bulkhead operator snapshot inspect FILE [-format=json]

Reads the snapshot FILE to the end, checks its digests, and prints its manifest: cluster, time,
server version and number of records. Needs no server and no key.

Exit code 0: the snapshot is complete; 1: the file is damaged or cannot be read; 2: wrong usage.
";

/// The action that the command line asks for.
#[derive(Debug, PartialEq, Eq)]
pub enum SnapshotAction {
    /// Print [`USAGE`].
    Help,
    /// Print the manifest of a snapshot.
    Inspect(SnapshotRequest),
}

/// The snapshot to inspect, and the form of the answer.
#[derive(Debug, PartialEq, Eq)]
pub struct SnapshotRequest {
    file: PathBuf,
    json: bool,
}

/// Parses the arguments after `operator snapshot inspect`.
///
/// # Errors
/// A message for standard error; the process then exits with code 2.
pub fn parse(args: impl Iterator<Item = OsString>) -> Result<SnapshotAction, String> {
    use lexopt::Arg::{Long, Short, Value};
    let (mut file, mut json) = (None, false);
    let mut parser = lexopt::Parser::from_args(double_dashes(args));
    while let Some(arg) = parser.next().map_err(|error| error.to_string())? {
        match arg {
            Long("help") | Short('h') => return Ok(SnapshotAction::Help),
            Long("format") => {
                let value = parser.value().and_then(|value| value.string());
                json = is_json(&value.map_err(|error| error.to_string())?)?;
            }
            Value(value) if file.is_none() && !value.is_empty() => file = Some(value.into()),
            other => {
                let other = other.unexpected();
                return Err(format!("{other}; see `bulkhead operator snapshot inspect -help`"));
            }
        }
    }
    let file = file.ok_or("no file is named; give the file of a snapshot")?;
    Ok(SnapshotAction::Inspect(SnapshotRequest { file, json }))
}

/// Reads the snapshot and prints its manifest.
///
/// # Errors
/// The reason why the file is not a complete snapshot, or why standard output cannot be written.
pub fn run(request: &SnapshotRequest, out: &mut dyn Write) -> Result<(), String> {
    let summary = inspect_snapshot(&request.file).map_err(|fault| fault.to_string())?;
    let printed = match request.json {
        true => print_json(&summary, out),
        false => print_lines(&summary, out),
    };
    printed.map_err(|error| format!("standard output cannot be written: {error}"))
}

/// Checks a snapshot that was saved, and returns a line about the snapshot.
///
/// # Errors
/// The reason why the file is not a complete snapshot.
pub fn describe(file: &Path) -> Result<String, String> {
    let summary = inspect_snapshot(file).map_err(|fault| fault.to_string())?;
    Ok(describe_manifest(&summary.manifest))
}

fn describe_manifest(manifest: &SnapshotManifest) -> String {
    let SnapshotManifest { records, taken_at, .. } = manifest;
    format!("a snapshot of {records} records, taken at {taken_at}")
}

/// Restores a snapshot into the data of a server that does not run, and returns a line about the
/// place and the snapshot. `replaces` data at the place, if there are any.
///
/// # Errors
/// The reason why the data are unchanged.
pub async fn restore(
    place: RestorePlace<'_>,
    file: &Path,
    replaces: bool,
) -> Result<String, String> {
    let (name, options) = match place {
        RestorePlace::Directory(directory) => {
            (directory.display().to_string(), StoreOptions::at(directory))
        }
        RestorePlace::Configuration(config) => {
            let config = Config::read(config)?.with_database(&environment)?;
            (config.place_of_data(), config.store_options(&environment)?)
        }
    };
    let manifest = restore_store(options, file, replaces).await;
    let manifest = manifest.map_err(|fault| fault.to_string())?;
    Ok(format!("{name}: restored {}", describe_manifest(&manifest)))
}

fn print_json(summary: &SnapshotSummary, out: &mut dyn Write) -> io::Result<()> {
    let mut json = summary.manifest.to_json();
    if let Some(members) = json.as_object_mut() {
        members.insert("digest".to_owned(), json!(summary.digest));
    }
    writeln!(out, "{json:#}")?;
    out.flush()
}

fn print_lines(summary: &SnapshotSummary, out: &mut dyn Write) -> io::Result<()> {
    let manifest = &summary.manifest;
    let SnapshotSummary { digest, .. } = summary;
    writeln!(out, "Taken at          {}", manifest.taken_at.escape_debug())?;
    writeln!(out, "Cluster ID        {}", manifest.cluster_id.escape_debug())?;
    writeln!(out, "Server version    {}", manifest.server_version.escape_debug())?;
    writeln!(out, "Store format      {}, schema {}", manifest.format, manifest.schema)?;
    writeln!(out, "Key term          {}", manifest.key_term)?;
    writeln!(out, "Records           {}", manifest.records)?;
    writeln!(out, "Digest (SHA-256)  {digest}")?;
    out.flush()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse_words(words: &[&str]) -> Result<SnapshotAction, String> {
        parse(words.iter().map(OsString::from))
    }

    #[test]
    fn snapshot_inspect_needs_file_and_format() {
        let request = |json| {
            Ok(SnapshotAction::Inspect(SnapshotRequest { file: PathBuf::from("a.snap"), json }))
        };
        assert_eq!(parse_words(&["a.snap"]), request(false));
        assert_eq!(parse_words(&["-format=json", "a.snap"]), request(true));
        assert_eq!(parse_words(&["-help"]), Ok(SnapshotAction::Help));
        for (words, part) in [
            (&[][..], "no file is named"),
            (&["a", "b"], "operator snapshot inspect -help"),
            (&["a", "-format=xml"], "use json or table"),
        ] {
            let why = parse_words(words).unwrap_err();
            assert!(why.contains(part), "{words:?}: {why}");
        }
    }

    #[test]
    fn foreign_file_is_refused_with_its_fault() {
        let path = std::env::temp_dir().join(format!("bulkhead-snapshot-{}", std::process::id()));
        std::fs::write(&path, "not a snapshot").unwrap();
        let request = SnapshotRequest { file: path.clone(), json: false };
        let why = run(&request, &mut Vec::new()).unwrap_err();
        assert!(why.contains("not a complete snapshot"), "{why}");
        assert_eq!(describe(&path).unwrap_err(), why);
        std::fs::remove_file(&path).unwrap();
        assert!(describe(&path).unwrap_err().contains("cannot open the snapshot"));
    }
}

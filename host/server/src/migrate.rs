//! `bulkhead operator migrate`: copies all data of a server from one database to another, while no
//! server uses either.
//!
//! This file prevents an operator without an answer: the progress and each failed attempt are
//! shown, and the last lines say which server may be started.

mod progress;

pub use progress::ProgressScreen;

use crate::config::MigrationConfig;
use crate::production::environment;
use bulkhead_cli::double_dashes;
use bulkhead_store::{MigrationReport, remove_migration_mark};
use lexopt::ValueExt;
use std::ffi::OsString;
use std::io::{self, Write};
use std::path::PathBuf;

/// Help text of `bulkhead operator migrate --help`.
pub const USAGE: &str = "\
Usage: bulkhead operator migrate -config=FILE [-reset]

Copies all data of a server to another database, and compares every record. No server may use the
two places. Needs no keys: the records stay sealed. The source is only read; at the end the source
is marked, and no server starts there. FILE names both places:

    storage_source \"sqlite\" { path = \"/var/lib/bulkhead\" }
    storage_destination \"postgresql\" { connection_url = \"postgresql://bulkhead@db/bulkhead\" }

The destination is empty, or holds an unfinished migration of the same data, which continues where
it ended. Until the end, no server starts on the destination.

  -reset            copy nothing, and remove the mark from the source, so that a server starts there
                    again; never run servers on both copies
  -max-parallel=N   accepted without effect: records are copied in their order
  -log-level=LEVEL, -log-format=FORMAT
                    accepted without effect: the progress is text on standard error
  -start=KEY        refused: a migration always copies all records

Exit code 0: done; 1: failed, or the places cannot be used; 2: wrong usage.
";

/// The action that the command line asks for.
#[derive(Debug, PartialEq, Eq)]
pub enum MigrateAction {
    /// Print [`USAGE`].
    Help,
    /// Migrate, or remove the mark of a migration.
    Migrate(MigrateRequest),
}

/// The file with the places, and the work.
#[derive(Debug, PartialEq, Eq)]
pub struct MigrateRequest {
    file: PathBuf,
    is_reset: bool,
}

/// Parses the arguments after `operator migrate`.
///
/// # Errors
/// A message for standard error; the process then exits with code 2.
pub fn parse(args: impl Iterator<Item = OsString>) -> Result<MigrateAction, String> {
    use lexopt::Arg::{Long, Short};
    let (mut file, mut is_reset) = (None, false);
    let mut parser = lexopt::Parser::from_args(double_dashes(args));
    while let Some(arg) = parser.next().map_err(|error| error.to_string())? {
        match arg {
            Long("help") | Short('h') => return Ok(MigrateAction::Help),
            Long("config") if file.is_some() => {
                return Err("-config is given twice: name a single file".to_owned());
            }
            Long("config") => file = Some(PathBuf::from(text_value(&mut parser)?)),
            Long("reset") => is_reset = parse_flag(parser.optional_value())?,
            Long("start") => refuse_start(&text_value(&mut parser)?)?,
            Long("max-parallel") => check_parallel(&text_value(&mut parser)?)?,
            Long("log-level" | "log-format") => drop(text_value(&mut parser)?),
            other => {
                let other = other.unexpected();
                return Err(format!("{other}; see `bulkhead operator migrate -help`"));
            }
        }
    }
    match file.filter(|file| !file.as_os_str().is_empty()) {
        Some(file) => Ok(MigrateAction::Migrate(MigrateRequest { file, is_reset })),
        None => Err("no file is named: give -config=FILE with storage_source and \
                     storage_destination"
            .to_owned()),
    }
}

fn text_value(parser: &mut lexopt::Parser) -> Result<String, String> {
    parser.value().and_then(|value| value.string()).map_err(|error| error.to_string())
}

fn parse_flag(value: Option<OsString>) -> Result<bool, String> {
    match value.as_ref().map(|value| value.to_string_lossy()).as_deref() {
        None | Some("true" | "1") => Ok(true),
        Some("false" | "0") => Ok(false),
        Some(other) => Err(format!("-reset={other} is not a flag; write -reset, or leave it out")),
    }
}

fn refuse_start(key: &str) -> Result<(), String> {
    if key.is_empty() {
        return Ok(());
    }
    Err("-start is not supported: a migration copies all records, and an interrupted migration \
         continues by itself; leave -start out"
        .to_owned())
}

fn check_parallel(count: &str) -> Result<(), String> {
    match count.parse::<u32>() {
        Ok(1..) => Ok(()),
        _ => Err(format!("-max-parallel={count} is not a number from 1; leave the option out")),
    }
}

/// Migrates, or removes the mark of a migration. The progress goes to `screen`, the result to
/// `out`.
///
/// # Errors
/// The reason why the migration is not complete, or why the result cannot be written.
pub async fn run(
    request: &MigrateRequest,
    mut screen: ProgressScreen<'_>,
    out: &mut dyn Write,
) -> Result<(), String> {
    let MigrationConfig { source, destination, notices } =
        MigrationConfig::read(&request.file, &environment)?;
    for notice in &notices {
        screen.line(&format!("{}, {notice}", request.file.display()));
    }
    let written = if request.is_reset {
        let mark = remove_migration_mark(&source).await.map_err(|fault| fault.to_string())?;
        print_reset(mark.as_deref(), out)
    } else {
        let observe = &mut |event| screen.show(&event);
        let report = bulkhead_store::migrate(&source, &destination, observe).await;
        print_report(&report.map_err(|fault| fault.to_string())?, out)
    };
    written.map_err(|error| format!("standard output cannot be written: {error}"))
}

fn print_report(report: &MigrationReport, out: &mut dyn Write) -> io::Result<()> {
    let MigrationReport { records, cluster, source, destination, unmarked } = report;
    writeln!(
        out,
        "{records} records of the cluster {cluster} were copied, and every record was compared.\n\
         Source       {source}\n\
         Destination  {destination}\n\n\
         Write the destination into the storage block of the server's configuration, start the \
         server, and unseal the server with the same keys. Keep the source until the server has \
         worked on the destination."
    )?;
    match unmarked {
        None => writeln!(
            out,
            "No server starts on the source; `bulkhead operator migrate -config=FILE -reset` \
             permits the start again. Never run servers on both copies: both would end the same \
             leases and rotate the same passwords."
        )?,
        Some(why) => writeln!(
            out,
            "Warning: the source could not be marked, and a server would start there ({why}). \
             Never start a server on the source: both servers would end the same leases and rotate \
             the same passwords."
        )?,
    }
    out.flush()
}

fn print_reset(mark: Option<&str>, out: &mut dyn Write) -> io::Result<()> {
    match mark {
        Some(destination) => writeln!(
            out,
            "The mark was removed, and a server starts on the source again. Never start a server \
             on the copy in {} as well: both would end the same leases.",
            destination.escape_debug()
        )?,
        None => writeln!(out, "The source has no mark of a migration; nothing was changed.")?,
    }
    out.flush()
}

#[cfg(test)]
mod tests;

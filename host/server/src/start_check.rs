//! `bulkhead server --check`: describes a configuration file, and refuses the file if a start on
//! this machine would be refused.
//!
//! This file prevents a check that says "valid" before a start that fails: the functions of
//! `operator diagnose`, which are those of the start, decide. Nothing is created or changed;
//! addresses are bound for a moment.

use crate::config::Config;
use crate::diagnose;
use crate::production::environment;
use bulkhead_core::OfficialSeal;
use std::io::Write;
use std::path::Path;

/// Reads `file` and the certificates, keys and credentials that it names, tries the places and
/// addresses of the server, and describes the server to `out`, with warnings. `seals` are the seal
/// plugins of this binary.
///
/// # Errors
/// An invalid file, all reasons for which a start would be refused, or `out` cannot be written.
pub async fn run(file: &Path, seals: &[OfficialSeal], out: &mut dyn Write) -> Result<(), String> {
    let config = Config::read(file)?;
    let findings = diagnose::check_start(&config, seals).await;
    if let Some(refusal) = join_refusals(file, &findings.failures()) {
        return Err(refusal);
    }
    let config = config.with_database(&environment)?;
    let mut text = format!("{} is valid. A server with this file:\n\n{config}", file.display());
    let remarks = findings.remarks();
    if !remarks.is_empty() {
        text.push('\n');
        remarks.iter().for_each(|remark| text.push_str(&format!("{remark}\n")));
    }
    out.write_all(text.as_bytes())
        .and_then(|()| out.flush())
        .map_err(|error| format!("standard output cannot be written: {error}"))
}

/// Returns the refusals as one message; `None` without a refusal.
fn join_refusals(file: &Path, refusals: &[String]) -> Option<String> {
    match refusals {
        [] => None,
        [refusal] => Some(refusal.clone()),
        several => Some(format!(
            "a server with {} does not start, for {} reasons:\n  {}",
            file.display(),
            several.len(),
            several.join("\n  ")
        )),
    }
}

#[cfg(test)]
mod tests;

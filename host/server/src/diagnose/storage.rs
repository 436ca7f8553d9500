//! Checks of the data directory and of the audit files: rights, free space, and use by a server.

use super::findings::{CheckStatus, Diagnosis};
use crate::config::Config;
use crate::log::check_file_type;
use bulkhead_api::Service;
use bulkhead_audit::AuditSettings;
use bulkhead_store::StoreOptions;
use rustix::fs::{Access, access, statvfs};
use rustix::io::Errno;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

/// Free space below which the data are a warning, in bytes: a log of a busy day fits.
const LITTLE_SPACE: u64 = 1 << 30;

/// Free space below which the server soon accepts no writes, in bytes.
const NO_SPACE: u64 = 16 << 20;

/// Permission bits of other users on the data directory.
const OTHERS: u32 = 0o077;

/// Checks the data directory, and the database if it is a file there. Returns whether a server runs
/// with the directory.
pub(super) async fn check(config: &Config, diagnosis: &mut Diagnosis) -> bool {
    let data = &config.data;
    let shown = data.display();
    if !data.exists() {
        let result = check_writable(existing_ancestor(data));
        let result = result
            .map(|()| format!("{shown} does not exist yet; the first start creates the directory"));
        diagnosis.add_result("storage", result);
        check_space(existing_ancestor(data), diagnosis);
        return false;
    }
    if let Err(why) = check_directory(data) {
        diagnosis.add("storage", CheckStatus::Fail, why);
        return false;
    }
    let is_in_use = match Service::is_running_with(data) {
        Ok(is_in_use) => is_in_use,
        Err(failure) => {
            diagnosis.add("storage", CheckStatus::Fail, failure.message);
            return false;
        }
    };
    if !is_in_use
        && config.database.is_file()
        && let Err(failure) = Service::examine(&StoreOptions::at(data)).await
    {
        diagnosis.add("storage", CheckStatus::Fail, failure.message);
        return false;
    }
    let used = if is_in_use { ", and a server is using the data" } else { "" };
    diagnosis.add("storage", CheckStatus::Ok, format!("{shown} can be read and written{used}"));
    let mode = std::fs::metadata(data).map(|found| found.permissions().mode() & 0o7777);
    if let Ok(mode) = mode
        && mode & OTHERS != 0
    {
        let message = format!("{shown} is open to others (mode {mode:04o}); run chmod 700 {shown}");
        diagnosis.add("storage", CheckStatus::Warn, message);
    }
    check_space(data, diagnosis);
    is_in_use
}

fn check_directory(data: &Path) -> Result<(), String> {
    if !data.is_dir() {
        return Err(format!(
            "{} is not a directory; name another directory in storage",
            data.display()
        ));
    }
    check_writable(data)
}

/// Returns the nearest directory that exists: the directory itself, or the one in which it would be
/// made.
fn existing_ancestor(path: &Path) -> &Path {
    let named = path.ancestors().find(|ancestor| ancestor.exists());
    named.filter(|ancestor| !ancestor.as_os_str().is_empty()).unwrap_or_else(|| Path::new("."))
}

/// Checks that this user may read and write `path`, and make files in a directory.
fn check_writable(path: &Path) -> Result<(), String> {
    let rights = Access::READ_OK | Access::WRITE_OK;
    let rights = if path.is_dir() { rights | Access::EXEC_OK } else { rights };
    access(path, rights).map_err(|error| not_writable(path, error))
}

fn not_writable(path: &Path, error: Errno) -> String {
    format!(
        "{} cannot be written by this user: {error}; change the owner or mode, or run as the user \
         of the server",
        path.display()
    )
}

fn check_space(directory: &Path, diagnosis: &mut Diagnosis) {
    let shown = directory.display();
    let found = match statvfs(directory) {
        Ok(found) => found.f_bavail.saturating_mul(found.f_frsize),
        Err(error) => {
            let message = format!("the free space of {shown} is not known: {error}");
            diagnosis.add("space", CheckStatus::Warn, message);
            return;
        }
    };
    let (status, advice) = match found {
        0..NO_SPACE => (CheckStatus::Fail, "; make room"),
        NO_SPACE..LITTLE_SPACE => (CheckStatus::Warn, "; make room soon"),
        _ => (CheckStatus::Ok, ""),
    };
    let mebibytes = found >> 20;
    diagnosis.add("space", status, format!("{mebibytes} MiB are free in {shown}{advice}"));
}

/// Checks that a line can be appended to the file, or that the file can be created.
fn check_audit_file(file: &Path) -> Result<(), String> {
    let shown = file.display();
    if file.is_dir() {
        return Err(format!("{shown} is a directory; name a file in path"));
    }
    if file.exists() {
        return access(file, Access::WRITE_OK).map_err(|error| not_writable(file, error));
    }
    let folder = file.parent().filter(|folder| !folder.as_os_str().is_empty());
    let folder = folder.unwrap_or_else(|| Path::new("."));
    if !folder.is_dir() {
        let folder = folder.display();
        return Err(format!(
            "{shown} cannot be written, because there is no such folder; create {folder}"
        ));
    }
    let rights = Access::WRITE_OK | Access::EXEC_OK;
    access(folder, rights).map_err(|error| not_writable(folder, error))
}

/// Checks that the file of the log can be written.
pub(super) fn check_log_file(file: &Path, diagnosis: &mut Diagnosis) {
    let written = format!("lines can be written to {}", file.display());
    let named = |why| format!("log_file: {why}");
    let file_type = std::fs::metadata(file).map(|found| found.file_type());
    let checked = file_type
        .map_or(Ok(()), check_file_type)
        .map_err(|why| format!("{} cannot be the log: {why}; name a regular file", file.display()));
    let checked = checked.and_then(|()| check_audit_file(file));
    diagnosis.add_result("log", checked.map(|()| written).map_err(named));
}

/// Checks that the files of the audit devices can be written.
pub(super) fn check_audit(audit: &AuditSettings, diagnosis: &mut Diagnosis) {
    for device in &audit.devices {
        let file = &device.file;
        let written = format!("{}: {} can be written", device.name, file.display());
        let named = |why| format!("audit device {:?}: {why}", device.name);
        let checked = check_audit_file(file).map(|()| written).map_err(named);
        diagnosis.add_result("audit", checked);
    }
    if let Some(directory) = &audit.api_directory {
        let written = format!("devices of the API can write to {}", directory.display());
        let checked = check_writable(existing_ancestor(directory));
        diagnosis.add_result("audit", checked.map(|()| written));
    }
    if audit.devices.is_empty() && audit.api_directory.is_none() {
        let message = "no request will be recorded: there is no audit device; add audit \"file\" \
                       \"main\" { path = \"FILE\" }";
        diagnosis.add("audit", CheckStatus::Warn, message);
    }
}

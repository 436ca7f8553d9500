//! Hardening of the process before it holds its first secret: no core dumps, no tracing by other
//! processes of its user, no files that others may read, and no PostgreSQL settings from the
//! environment.

use std::os::unix::process::CommandExt;
use std::process::Command;

use rustix::fs::Mode;
use rustix::process::{
    DumpableBehavior, Resource, Rlimit, getrlimit, set_dumpable_behavior, setrlimit, umask,
};

/// Variable with the value of `PGPASSFILE` after a restart
/// ([`restart_without_database_settings`]). No driver reads a variable of this name.
pub(crate) const PASS_FILE_VARIABLE: &str = "BULKHEAD_PGPASSFILE";

/// Hardens this process, in every mode.
///
/// # Errors
/// The system refuses. A server that cannot protect its memory must not start.
pub fn harden() -> Result<(), String> {
    umask(Mode::from_raw_mode(0o077));
    let none = Rlimit { current: Some(0), maximum: Some(0) };
    setrlimit(Resource::Core, none)
        .map_err(|error| format!("core dumps cannot be switched off: {error}"))?;
    set_dumpable_behavior(DumpableBehavior::NotDumpable)
        .map_err(|error| format!("tracing by other processes cannot be switched off: {error}"))
}

/// Raises the file descriptor limit to the hard limit and returns the new limit. Each connection
/// takes a descriptor.
#[must_use]
pub fn raise_descriptor_limit() -> u64 {
    let limit = getrlimit(Resource::Nofile);
    let most = Rlimit { current: limit.maximum, maximum: limit.maximum };
    let taken =
        if setrlimit(Resource::Nofile, most).is_ok() { limit.maximum } else { limit.current };
    taken.unwrap_or(u64::MAX)
}

/// Restarts this program without the environment's PostgreSQL settings. Returns if there are none.
///
/// Prevents the environment from changing database connections: the driver takes missing parameters
/// (certificates, session options) from `PGSSLROOTCERT`, `PGOPTIONS` and similar variables. A
/// running process cannot remove variables safely; a new process can start without them. The value
/// of `PGPASSFILE` is passed on in [`PASS_FILE_VARIABLE`] for the configuration.
///
/// # Errors
/// The program cannot be started again.
pub fn restart_without_database_settings() -> Result<(), String> {
    let names: Vec<_> = std::env::vars_os()
        .map(|(name, _)| name)
        .filter(|name| is_database_setting(name))
        .collect();
    if names.is_empty() {
        return Ok(());
    }
    let program = std::env::current_exe()
        .map_err(|error| format!("this program cannot find itself: {error}"))?;
    let mut anew = Command::new(program);
    anew.args(std::env::args_os().skip(1));
    names.iter().for_each(|name| {
        anew.env_remove(name);
    });
    if let Some(file) = std::env::var_os("PGPASSFILE") {
        anew.env(PASS_FILE_VARIABLE, file);
    }
    // `exec` returns only if it fails.
    Err(format!(
        "this program cannot be started without the environment's PG* settings: {}",
        anew.exec()
    ))
}

fn is_database_setting(name: &std::ffi::OsStr) -> bool {
    name.to_string_lossy().starts_with("PG")
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::process::dumpable_behavior;

    #[test]
    fn hardened_process_neither_dumps_core_nor_shares_files() {
        harden().unwrap();
        assert_eq!(getrlimit(Resource::Core).current, Some(0));
        assert_eq!(dumpable_behavior().unwrap(), DumpableBehavior::NotDumpable);
        assert_eq!(umask(Mode::from_raw_mode(0o077)), Mode::from_raw_mode(0o077));
    }

    #[test]
    fn all_descriptors_that_may_be_had_are_taken() {
        let had = raise_descriptor_limit();
        let limit = getrlimit(Resource::Nofile);
        assert!(
            had > 0 && limit.current == limit.maximum && limit.current.unwrap_or(u64::MAX) == had
        );
    }
}

//! The start of the process's engine under the limits of the process.
//!
//! This file prevents a server that starts, is unsealed, and then runs no component, because the
//! system refuses executable memory; and an error that names a system call instead of the setting
//! that the operator has to change.

use crate::wasmtime_engine;
use rustix::process::{Resource, getrlimit};
use wasmtime::{Engine, Module};

/// A module with a function that does nothing: the least code that has to be executable.
const SMALLEST_CODE: &[u8] = &[
    0x00, 0x61, 0x73, 0x6d, 0x01, 0x00, 0x00, 0x00, // magic and version
    0x01, 0x04, 0x01, 0x60, 0x00, 0x00, // type: no parameters, no results
    0x03, 0x02, 0x01, 0x00, // one function of this type
    0x0a, 0x04, 0x01, 0x02, 0x00, 0x0b, // its body
];

/// Checks that the engine of this process can start, and runs nothing.
///
/// # Errors
/// The refusal of the system, and the setting to change.
pub fn check_engine() -> Result<(), String> {
    start().map(drop)
}

/// Makes the engine, and checks that code can be made executable.
///
/// # Errors
/// The refusal of the system, and the setting to change.
pub(crate) fn start() -> Result<Engine, String> {
    let limit = getrlimit(Resource::As).current;
    let refused = |error: wasmtime::Error| engine_refusal(&format!("{error:#}"), limit);
    // First, because a pool takes nearly the whole address space that a limit leaves.
    let prober = wasmtime_engine::prober().map_err(refused)?;
    Module::new(&prober, SMALLEST_CODE)
        .map_err(|error| code_refusal(&format!("{error:#}"), limit))?;
    wasmtime_engine::engine().map_err(refused)
}

/// Returns the message for an engine that does not start under this limit of address space, in
/// bytes.
fn engine_refusal(error: &str, limit: Option<u64>) -> String {
    match limit {
        Some(bytes) => format!(
            "the WebAssembly engine does not start, because its instances need more address space \
             than the limit of {} MiB allows ({error}); remove the limit: `ulimit -v unlimited` of \
             the shell, LimitAS=infinity of systemd",
            bytes >> 20
        ),
        None => format!("the WebAssembly engine does not start: {error}"),
    }
}

/// Returns the message for code that cannot be loaded.
fn code_refusal(error: &str, limit: Option<u64>) -> String {
    // The words of wasmtime for a refused change of the protection of pages.
    if !error.contains("executable") {
        return engine_refusal(error, limit);
    }
    format!(
        "the system refuses executable memory, and the code of components needs executable memory \
         ({error}); set MemoryDenyWriteExecute=no in the unit of systemd, or permit execmem in the \
         policy of SELinux"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn engine_starts_without_limits_of_the_process() {
        check_engine().unwrap();
    }

    #[test]
    fn refusal_names_the_setting_to_change() {
        let no_room = "mmap failed to allocate 0x1000 bytes: Cannot allocate memory (os error 12)";
        let refusal = engine_refusal(no_room, Some(4 << 30));
        for part in ["4096 MiB", "ulimit -v", "LimitAS=", no_room] {
            assert!(refusal.contains(part), "{part}: {refusal}");
        }
        assert!(!engine_refusal(no_room, None).contains("LimitAS="));
        let not_executable = "unable to make memory executable: Permission denied (os error 13)";
        for limit in [None, Some(1 << 40)] {
            let refusal = code_refusal(not_executable, limit);
            assert!(refusal.contains("MemoryDenyWriteExecute="), "{refusal}");
        }
        assert_eq!(code_refusal(no_room, Some(1)), engine_refusal(no_room, Some(1)));
    }
}

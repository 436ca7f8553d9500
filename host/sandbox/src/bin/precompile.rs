//! `precompile IN.wasm OUT.cwasm`: compiles a component for this kind of processor during the
//! server's build, so that a start of the server compiles nothing.

use std::ffi::OsString;
use std::fs;
use std::io::{self, Write};
use std::path::Path;
use std::process::ExitCode;

fn main() -> ExitCode {
    let args: Vec<OsString> = std::env::args_os().skip(1).collect();
    let done = match args.as_slice() {
        [wasm, compiled] => precompile(Path::new(wasm), Path::new(compiled)),
        _ => Err("usage: precompile IN.wasm OUT.cwasm".to_owned()),
    };
    let Err(message) = done else { return ExitCode::SUCCESS };
    // If standard error is closed, only the exit code reports the failure.
    writeln!(io::stderr(), "precompile: {message}").unwrap_or_default();
    ExitCode::FAILURE
}

/// Compiles the component, unless `compiled` holds the same code already. `make` starts this
/// program for every component after each edit of the sandbox, which seldom changes the code.
fn precompile(wasm: &Path, compiled: &Path) -> Result<(), String> {
    let bytes =
        fs::read(wasm).map_err(|error| format!("cannot read {}: {error}", wasm.display()))?;
    let of_component = |why: String| format!("{}: {why}", wasm.display());
    let key = bulkhead_sandbox::compilation_key(&bytes).map_err(of_component)?;
    let key_file = compiled.with_extension("cwasm.key");
    let is_current = compiled.is_file()
        && fs::read_to_string(&key_file).is_ok_and(|stored_key| stored_key == key);
    let done = if is_current {
        // The date of a copy tells make that the code is newer than this program.
        replace(compiled, |partial| fs::copy(compiled, partial).map(|_length| ()))
    } else {
        let code = bulkhead_sandbox::precompile(&bytes).map_err(of_component)?;
        write_code(compiled, &code, &key_file, &key)
    };
    done.map_err(|error| format!("cannot write {}: {error}", compiled.display()))
}

/// Writes the code, and the key last: an interrupted build must not leave a key beside the code of
/// another key.
fn write_code(compiled: &Path, code: &[u8], key_file: &Path, key: &str) -> io::Result<()> {
    if key_file.exists() {
        fs::remove_file(key_file)?;
    }
    replace(compiled, |partial| fs::write(partial, code))?;
    fs::write(key_file, key)
}

/// Replaces the file as a whole: an interrupted build must not leave half a file that is newer than
/// its source.
fn replace(file: &Path, write: impl FnOnce(&Path) -> io::Result<()>) -> io::Result<()> {
    let partial = file.with_extension("cwasm.partial");
    write(&partial)?;
    fs::rename(&partial, file)
}

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

fn precompile(wasm: &Path, compiled: &Path) -> Result<(), String> {
    let bytes =
        fs::read(wasm).map_err(|error| format!("cannot read {}: {error}", wasm.display()))?;
    let code =
        bulkhead_sandbox::precompile(&bytes).map_err(|why| format!("{}: {why}", wasm.display()))?;
    // An interrupted build must not leave half a file that is newer than its source.
    let partial = compiled.with_extension("cwasm.partial");
    let written = fs::write(&partial, code).and_then(|()| fs::rename(&partial, compiled));
    written.map_err(|error| format!("cannot write {}: {error}", compiled.display()))
}

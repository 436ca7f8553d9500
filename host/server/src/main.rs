//! `bulkhead`: `server` runs one, every other word talks to one.

use bulkhead_cli::keyboard::{self, Hide};
use bulkhead_core::Official;
use bulkhead_core::log::Log;
use bulkhead_server::dev;
use bulkhead_server::hardening::{harden, leave_database_settings};
use bulkhead_server::log::{Stderr, report_panics};
use bulkhead_server::options::{self, Ask, Mode, USAGE};
use bulkhead_server::process::Process;
use bulkhead_server::production;
use std::ffi::OsString;
use std::io::{self, IsTerminal, Write};
use std::process::ExitCode;
use std::sync::Arc;

#[cfg(not(official_components))]
compile_error!("official components are missing: run `make build`");

/// The components of every Bulkhead, as wasm and as code compiled when the binary was built.
#[cfg(official_components)]
const OFFICIALS: [Official; 2] = [
    Official {
        wasm: include_bytes!(concat!(env!("BULKHEAD_PLUGINS"), "/database.wasm")),
        compiled: include_bytes!(concat!(env!("BULKHEAD_PLUGINS"), "/database.cwasm")),
    },
    Official {
        wasm: include_bytes!(concat!(env!("BULKHEAD_PLUGINS"), "/database-postgresql.wasm")),
        compiled: include_bytes!(concat!(env!("BULKHEAD_PLUGINS"), "/database-postgresql.cwasm")),
    },
];
#[cfg(not(official_components))]
const OFFICIALS: [Official; 0] = [];

pub(crate) fn main() -> ExitCode {
    let mut args = std::env::args_os();
    let program = args.next().unwrap_or_else(|| "bulkhead".into());
    let mut args = args.peekable();
    if args.next_if(|first| first == "server").is_some() {
        return server(&program.to_string_lossy(), args);
    }
    client(args)
}

fn server(program: &str, args: impl Iterator<Item = OsString>) -> ExitCode {
    match options::parse(args, &|name| std::env::var_os(name)) {
        Ok(Ask::Help) => match io::stdout().write_all(USAGE.as_bytes()) {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => complain(1, &format!("standard output cannot be written: {error}")),
        },
        Ok(Ask::Serve(mode)) => match serve(program, mode) {
            Ok(()) => ExitCode::SUCCESS,
            Err(message) => complain(1, &message),
        },
        Err(message) => complain(2, &message),
    }
}

fn serve(program: &str, mode: Mode) -> Result<(), String> {
    leave_database_settings()?;
    harden()?;
    let log: Arc<dyn Log> = Arc::new(Stderr);
    report_panics(Arc::clone(&log));
    let process = Process { program: program.to_owned(), officials: OFFICIALS.into(), log };
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    let runtime = runtime.map_err(|error| format!("the process has no threads: {error}"))?;
    let out = &mut io::stdout();
    runtime.block_on(async {
        match mode {
            Mode::Dev(options) => dev::run(options, process, out).await,
            Mode::Production(options) => production::run(options, process, out).await,
        }
    })
}

/// Says on standard error why the server does not run, and gives the exit code.
fn complain(code: u8, message: &str) -> ExitCode {
    // When standard error is closed the exit code has to do.
    writeln!(io::stderr(), "Error starting the server: {message}").unwrap_or_default();
    ExitCode::from(code)
}

fn client(args: impl Iterator<Item = OsString>) -> ExitCode {
    let hide: Hide<'_> = &keyboard::hide;
    let mut io = bulkhead_cli::Io {
        stdin: &mut io::stdin().lock(),
        stdout: &mut io::stdout(),
        stderr: &mut io::stderr(),
        terminal: io::stdout().is_terminal(),
        hide: io::stdin().is_terminal().then_some(hide),
        env: &|name| std::env::var_os(name),
    };
    ExitCode::from(bulkhead_cli::run(args, &mut io))
}

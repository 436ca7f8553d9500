//! The `bulkhead` program: `server` runs a server, every other command is a client.

use bulkhead_cli::keyboard::{self, HideInput};
use bulkhead_core::{OfficialComponent, OfficialSeal};
use bulkhead_sandbox::{compile, open_page_map};
use bulkhead_server::compile_worker;
use bulkhead_server::data_check::{self, DataCheckAction, KeyInput};
use bulkhead_server::dev;
use bulkhead_server::diagnose::{self, DiagnoseAction};
use bulkhead_server::handed_sockets::HandedSockets;
use bulkhead_server::hardening::{harden, restart_without_database_settings};
use bulkhead_server::inspect;
use bulkhead_server::log::{ServerLog, report_panics};
use bulkhead_server::migrate::{self, MigrateAction, ProgressScreen};
use bulkhead_server::options::{self, LogOptions, ServerAction, ServerMode, USAGE};
use bulkhead_server::process::ServerProcess;
use bulkhead_server::snapshot_file::{self, SnapshotAction};
use bulkhead_server::{production, start_check};
use bulkhead_wire::log_level::LogLevel;
use std::ffi::OsString;
use std::io::{self, IsTerminal, Write};
use std::path::Path;
#[cfg(not(components_inside))]
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

/// The build with failpoints allocates with the C library, where tests count.
#[cfg(not(feature = "fault"))]
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Returns the official components, as wasm and as code compiled during the build.
/// `plugins/official.txt` lists the components.
#[cfg(components_inside)]
fn official_components() -> Result<Vec<OfficialComponent>, String> {
    const INSIDE: &[OfficialComponent] = include!(concat!(env!("OUT_DIR"), "/officials.rs"));
    Ok(INSIDE.into())
}

/// Returns the seal plugins of this binary.
#[cfg(components_inside)]
fn official_seals() -> Result<Vec<OfficialSeal>, String> {
    const INSIDE: &[OfficialSeal] = include!(concat!(env!("OUT_DIR"), "/seals.rs"));
    Ok(INSIDE.into())
}

/// Reads the seal plugins from the folder of the build, as [`official_components`] does.
///
/// # Errors
/// As `official_components`.
#[cfg(not(components_inside))]
fn official_seals() -> Result<Vec<OfficialSeal>, String> {
    const FILES: &[(&str, [&str; 2])] = include!(concat!(env!("OUT_DIR"), "/seals.rs"));
    let seal = |(kind, paths): &(&'static str, [&str; 2])| {
        Ok(OfficialSeal { kind, component: read_component(paths)? })
    };
    FILES.iter().map(seal).collect()
}

/// Reads the official components from the folder of the build, as wasm and as compiled code
/// (decision T52). The same build wrote this binary, so that the folder is as trusted as the
/// binary. `BULKHEAD_BUILD_PLUGINS` names a copy of the folder, for a user who cannot read it.
///
/// # Errors
/// The path of a missing file, or of code that is older than its component.
#[cfg(not(components_inside))]
fn official_components() -> Result<Vec<OfficialComponent>, String> {
    const FILES: &[[&str; 2]] = include!(concat!(env!("OUT_DIR"), "/officials.rs"));
    FILES.iter().map(read_component).collect()
}

/// Reads a component and its compiled code.
#[cfg(not(components_inside))]
fn read_component(paths: &[&str; 2]) -> Result<OfficialComponent, String> {
    let copy = std::env::var_os("BULKHEAD_BUILD_PLUGINS").map(PathBuf::from);
    let place = |path: &str| match (&copy, Path::new(path).file_name()) {
        (Some(folder), Some(name)) => folder.join(name),
        _ => PathBuf::from(path),
    };
    let read = |path: &Path| -> Result<&'static [u8], String> {
        let bytes = std::fs::read(path).map_err(|error| {
            format!("{} cannot be read: {error}; run `make build`", path.display())
        })?;
        Ok(bytes.leak())
    };
    let written = |path: &Path| std::fs::metadata(path).and_then(|facts| facts.modified()).ok();
    let [wasm, compiled] = paths.map(place);
    let component = OfficialComponent { wasm: read(&wasm)?, compiled: read(&compiled)? };
    // `make plugins`, or a build that was interrupted, leaves the code of the version before.
    if written(&compiled) < written(&wasm) {
        return Err(format!(
            "{} is older than {}; run `make build`",
            compiled.display(),
            wasm.display()
        ));
    }
    Ok(component)
}

pub(crate) fn main() -> ExitCode {
    let mut args = std::env::args_os();
    let program = args.next().unwrap_or_else(|| "bulkhead".into());
    let args: Vec<OsString> = args.collect();
    match args.as_slice() {
        [first, rest @ ..] if first == "server" => {
            run_server(&program.to_string_lossy(), rest.iter().cloned())
        }
        [first, bytes] if first == compile::COMPILE_SUBCOMMAND => compile_worker::run(bytes),
        [first, second, rest @ ..] if first == "plugin" && second == "inspect" => {
            run_inspect(rest.iter().cloned())
        }
        [first, second, rest @ ..] if first == "operator" && second == "diagnose" => {
            run_diagnose(rest.iter().cloned())
        }
        [first, second, rest @ ..] if first == "operator" && second == "check" => {
            run_data_check(rest.iter().cloned())
        }
        [first, second, rest @ ..] if first == "operator" && second == "migrate" => {
            run_migrate(rest.iter().cloned())
        }
        [first, second, third, rest @ ..]
            if first == "operator" && second == "snapshot" && third == "inspect" =>
        {
            run_snapshot_inspect(rest.iter().cloned())
        }
        // The name in scripts of Vault.
        [first, second, third, fourth, rest @ ..]
            if first == "operator"
                && second == "raft"
                && third == "snapshot"
                && fourth == "inspect" =>
        {
            run_snapshot_inspect(rest.iter().cloned())
        }
        _ => run_client(args.into_iter()),
    }
}

fn run_inspect(args: impl Iterator<Item = OsString>) -> ExitCode {
    let done = match inspect::parse(args) {
        Ok(inspect::InspectAction::Help) => {
            io::stdout().write_all(inspect::USAGE.as_bytes()).map_err(|error| error.to_string())
        }
        Ok(inspect::InspectAction::Inspect(inspection)) => {
            official_components().and_then(|officials| {
                let program = String::new();
                let (sockets, seals) = (HandedSockets::default(), Vec::new());
                // Without `info` lines, because the command prints a result.
                let log = Arc::new(ServerLog::on_stderr(LogLevel::Warn));
                let log_options = LogOptions::default();
                let process =
                    ServerProcess { program, officials, seals, sockets, log, log_options };
                let runtime = build_runtime()?;
                runtime.block_on(inspect::run(&inspection, process, &mut io::stdout()))
            })
        }
        Err(message) => Err(message),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            // If standard error is closed, the exit code has to suffice.
            writeln!(io::stderr(), "Error: {message}").unwrap_or_default();
            ExitCode::from(2)
        }
    }
}

fn run_diagnose(args: impl Iterator<Item = OsString>) -> ExitCode {
    let doing = "diagnosing";
    let request = match diagnose::parse(args) {
        Ok(DiagnoseAction::Diagnose(request)) => request,
        Ok(DiagnoseAction::Help) => return print_usage(diagnose::USAGE),
        Err(message) => return report_failure(diagnose::WRONG_USAGE, doing, &message),
    };
    let done = restart_without_database_settings().and_then(|()| build_runtime());
    let done = done.and_then(|runtime| {
        // A seal without its component is a finding of the checks.
        let seals = official_seals().unwrap_or_default();
        let done = runtime.block_on(diagnose::run(&request, &seals, &mut io::stdout()));
        done.map_err(|error| format!("standard output cannot be written: {error}"))
    });
    match done {
        Ok(code) => ExitCode::from(code),
        Err(message) => report_failure(1, doing, &message),
    }
}

fn run_snapshot_inspect(args: impl Iterator<Item = OsString>) -> ExitCode {
    let doing = "inspecting the snapshot";
    let done = match snapshot_file::parse(args) {
        Ok(SnapshotAction::Help) => return print_usage(snapshot_file::USAGE),
        Ok(SnapshotAction::Inspect(request)) => snapshot_file::run(&request, &mut io::stdout()),
        Err(message) => return report_failure(2, doing, &message),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => report_failure(1, doing, &message),
    }
}

fn run_data_check(args: impl Iterator<Item = OsString>) -> ExitCode {
    let doing = "checking the data";
    let request = match data_check::parse(args) {
        Ok(DataCheckAction::Check(request)) => request,
        Ok(DataCheckAction::Help) => return print_usage(data_check::USAGE),
        Err(message) => return report_failure(2, doing, &message),
    };
    let hide: HideInput<'_> = &keyboard::hide;
    let input = KeyInput {
        stdin: &mut io::stdin().lock(),
        screen: &mut io::stderr(),
        hide: io::stdin().is_terminal().then_some(hide),
    };
    let checked = restart_without_database_settings()
        .and_then(|()| build_runtime())
        .and_then(|runtime| runtime.block_on(data_check::run(&request, input, &mut io::stdout())));
    match checked {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(1),
        Err(message) => report_failure(1, doing, &message),
    }
}

fn run_migrate(args: impl Iterator<Item = OsString>) -> ExitCode {
    let doing = "migrating the data";
    let request = match migrate::parse(args) {
        Ok(MigrateAction::Migrate(request)) => request,
        Ok(MigrateAction::Help) => return print_usage(migrate::USAGE),
        Err(message) => return report_failure(2, doing, &message),
    };
    let done = restart_without_database_settings().and_then(|()| build_runtime());
    let done = done.and_then(|runtime| {
        let (is_terminal, screen) = (io::stderr().is_terminal(), &mut io::stderr());
        let screen = ProgressScreen::new(screen, is_terminal);
        runtime.block_on(migrate::run(&request, screen, &mut io::stdout()))
    });
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => report_failure(1, doing, &message),
    }
}

fn print_usage(usage: &str) -> ExitCode {
    match io::stdout().write_all(usage.as_bytes()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => report_failure(
            1,
            "showing the usage",
            &format!("standard output cannot be written: {error}"),
        ),
    }
}

fn build_runtime() -> Result<tokio::runtime::Runtime, String> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    runtime.map_err(|error| format!("the process has no threads: {error}"))
}

fn run_server(program: &str, args: impl Iterator<Item = OsString>) -> ExitCode {
    let starting = "starting the server";
    match options::parse(args, &|name| std::env::var_os(name)) {
        Ok(ServerAction::Help) => print_usage(USAGE),
        Ok(ServerAction::Check(file)) => match check(&file) {
            Ok(()) => ExitCode::SUCCESS,
            Err(message) => report_failure(1, "checking the configuration", &message),
        },
        Ok(ServerAction::Serve(mode, log)) => match serve(program, mode, log) {
            Ok(()) => ExitCode::SUCCESS,
            Err(message) => report_failure(1, starting, &message),
        },
        Err(message) => report_failure(2, starting, &message),
    }
}

fn check(file: &Path) -> Result<(), String> {
    restart_without_database_settings()?;
    // A seal without its component is a finding of the check.
    let seals = official_seals().unwrap_or_default();
    build_runtime()?.block_on(start_check::run(file, &seals, &mut io::stdout()))
}

fn serve(program: &str, mode: ServerMode, log_options: LogOptions) -> Result<(), String> {
    restart_without_database_settings()?;
    // Before anything is opened, so that no other file has the number of a handed-over socket.
    let sockets = HandedSockets::take(&|name| std::env::var_os(name))?;
    // Without a page map, calls are slower but work.
    let _is_there = open_page_map();
    harden()?;
    let log = Arc::new(ServerLog::on_stderr(LogLevel::Info));
    report_panics(Arc::clone(&log));
    let officials = official_components()?;
    let (program, seals) = (program.to_owned(), official_seals()?);
    let process = ServerProcess { program, officials, seals, sockets, log, log_options };
    let runtime = build_runtime()?;
    let out = &mut io::stdout();
    let served = runtime.block_on(async {
        match mode {
            ServerMode::Dev(options) => dev::run(options, process, out).await,
            ServerMode::Production(source) => production::run(source, process, out).await,
        }
    });
    // A thread that hangs in a system call must not keep a stopped process.
    runtime.shutdown_background();
    served
}

/// Prints the failed action and the reason to standard error, and returns the exit code.
fn report_failure(code: u8, what: &str, message: &str) -> ExitCode {
    // If standard error is closed, the exit code has to suffice.
    writeln!(io::stderr(), "Error {what}: {message}").unwrap_or_default();
    ExitCode::from(code)
}

fn run_client(args: impl Iterator<Item = OsString>) -> ExitCode {
    let hide: HideInput<'_> = &keyboard::hide;
    let mut io = bulkhead_cli::CommandIo {
        stdin: &mut io::stdin().lock(),
        stdout: &mut io::stdout(),
        stderr: &mut io::stderr(),
        terminal: io::stdout().is_terminal(),
        hide: io::stdin().is_terminal().then_some(hide),
        env: &|name| std::env::var_os(name),
        inspect_snapshot: &snapshot_file::describe,
        restore_data: &|place, snapshot, replaces| {
            // The command has neither read nor printed anything so far.
            restart_without_database_settings()?;
            build_runtime()?.block_on(snapshot_file::restore(place, snapshot, replaces))
        },
    };
    ExitCode::from(bulkhead_cli::run(args, &mut io))
}

//! The few WASI interfaces that a Rust standard library needs, linked individually.
//!
//! No filesystem, no sockets, no environment, no arguments. Output becomes lines of the operator's
//! log at the end of the call (`output.rs`), and the wall clock is store time. The context is made
//! when a guest first uses WASI, which our components hardly ever do.

use crate::output::{CallOutput, OutputKind};
use crate::resources::StoreResources;
use crate::state::CallState;
use std::sync::Arc;
use std::time::Duration;
use wasmtime::component::Linker;
use wasmtime_wasi::cli::{WasiCli, WasiCliView as _};
use wasmtime_wasi::clocks::{HostWallClock, WasiClocks, WasiClocksView as _};
use wasmtime_wasi::p2::bindings::{cli, clocks, random};
use wasmtime_wasi::random::WasiRandom;
use wasmtime_wasi::{WasiCtx, WasiCtxView, WasiView};

/// Maximum number of random bytes of a WASI request.
const RANDOM_BYTES: u64 = 4_096;

pub(crate) fn add_to_linker(linker: &mut Linker<CallState>) -> wasmtime::Result<()> {
    wasmtime_wasi_io::add_to_linker_async(linker)?;
    clocks::wall_clock::add_to_linker::<_, WasiClocks>(linker, |state| state.clocks())?;
    clocks::monotonic_clock::add_to_linker::<_, WasiClocks>(linker, |state| state.clocks())?;
    random::random::add_to_linker::<_, WasiRandom>(linker, |state| context(state).random())?;
    random::insecure_seed::add_to_linker::<_, WasiRandom>(linker, |state| context(state).random())?;
    cli::exit::add_to_linker::<_, WasiCli>(linker, |state| state.cli())?;
    cli::environment::add_to_linker::<_, WasiCli>(linker, |state| state.cli())?;
    cli::stdin::add_to_linker::<_, WasiCli>(linker, |state| state.cli())?;
    cli::stdout::add_to_linker::<_, WasiCli>(linker, |state| state.cli())?;
    cli::stderr::add_to_linker::<_, WasiCli>(linker, |state| state.cli())?;
    cli::terminal_input::add_to_linker::<_, WasiCli>(linker, |state| state.cli())?;
    cli::terminal_output::add_to_linker::<_, WasiCli>(linker, |state| state.cli())?;
    cli::terminal_stdin::add_to_linker::<_, WasiCli>(linker, |state| state.cli())?;
    cli::terminal_stdout::add_to_linker::<_, WasiCli>(linker, |state| state.cli())?;
    cli::terminal_stderr::add_to_linker::<_, WasiCli>(linker, |state| state.cli())
}

fn context(state: &mut CallState) -> &mut WasiCtx {
    let CallState { resources, wasi, output, .. } = state;
    wasi.get_or_insert_with(|| {
        let output = output.get_or_insert_with(CallOutput::default);
        let mut builder = WasiCtx::builder();
        builder.wall_clock(StoreTime(Arc::clone(resources))).max_random_size(RANDOM_BYTES);
        builder.stdout(output.sink(OutputKind::Stdout)).stderr(output.sink(OutputKind::Stderr));
        builder.build()
    })
}

impl WasiView for CallState {
    fn ctx(&mut self) -> WasiCtxView<'_> {
        context(self);
        let Self { wasi, table, .. } = self;
        WasiCtxView { ctx: wasi.get_or_insert_with(|| WasiCtx::builder().build()), table }
    }
}

impl wasmtime_wasi_io::IoView for CallState {
    fn table(&mut self) -> &mut wasmtime::component::ResourceTable {
        &mut self.table
    }
}

struct StoreTime(Arc<StoreResources>);

impl HostWallClock for StoreTime {
    fn resolution(&self) -> Duration {
        Duration::from_millis(1)
    }

    fn now(&self) -> Duration {
        Duration::from_millis(self.0.now())
    }
}

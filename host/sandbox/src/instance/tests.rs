//! Tests of components that do harm during instantiation, with instructions that Rust cannot
//! express.

use super::*;
use crate::Sandbox;
use crate::SandboxRuntime;
use crate::closing::CallInterruption;
use crate::context::CallContext;
use crate::encoding::{component, module, number, section};
use crate::grants::Publisher;
use crate::outcome::settle;
use bulkhead_store::{SealKey, Store as Rows, StoreOptions};
use bulkhead_wire::failure::{Failure, FailureKind};
use std::path::PathBuf;
use std::sync::Mutex;
use std::time::Duration;
use wasmtime::component::Component;

/// The instruction that ends a block and a function.
const END: u8 = 0x0b;
const AT_LEISURE: Duration = Duration::from_secs(10);

/// Encodes a section with a single entry.
fn one(id: u8, entry: &[u8]) -> Vec<u8> {
    section(id, &[&[1], entry].concat())
}

/// Encodes a component with a core module that has these `tables` and runs `code` at instantiation.
fn starting(tables: &[u8], code: &[u8]) -> Vec<u8> {
    starting_as(&[], tables, code)
}

/// Encodes such a component with a function that has this name in the name section.
fn starting_as(name: &[u8], tables: &[u8], code: &[u8]) -> Vec<u8> {
    let body = [&[0], code, &[END]].concat();
    let code = one(10, &[number(body.len()), body].concat());
    let functions = [vec![1, 0], number(name.len()), name.to_vec()].concat();
    let names = section(0, &[b"\x04name".to_vec(), section(1, &functions)].concat());
    let core =
        [one(1, &[0x60, 0, 0]), one(3, &[0]), tables.to_vec(), section(8, &[0]), code, names];
    component(&[module(&core), one(2, &[0, 0, 0])])
}

/// A sandbox with a separate store.
struct Stage {
    sandbox: Arc<Sandbox>,
    directory: PathBuf,
    /// Log lines as pairs.
    lines: Arc<Mutex<Vec<LogPairs>>>,
}

/// The pairs of a log line.
type LogPairs = Vec<(String, String)>;

impl Stage {
    async fn new(name: &str) -> Self {
        let directory =
            std::env::temp_dir().join(format!("bulkhead-instance-{name}-{}", std::process::id()));
        let store =
            Rows::open(StoreOptions::at(&directory), SealKey::generate().unwrap()).await.unwrap();
        Self {
            sandbox: Sandbox::new(
                SandboxRuntime::new().unwrap(),
                store,
                &[],
                &bulkhead_outbound::ambient::AmbientSources::default(),
                &bulkhead_outbound::proxy::OutboundNetwork::default(),
            ),
            directory,
            lines: Arc::default(),
        }
    }

    /// Instantiates the component for no mount, in an instance that is stopped after `time`.
    async fn instantiated(&self, wasm: &[u8], time: Duration) -> Result<(), Failure> {
        let runtime = &self.sandbox.runtime;
        let component = Component::from_binary(&runtime.resources.engine, wasm).unwrap();
        let component = runtime.linkers.secrets_engines.instantiate_pre(&component).unwrap();
        let (name, deadline) = ("harm".to_owned(), Instant::now() + time);
        let lines = Arc::clone(&self.lines);
        let services = detached::logging_services(Arc::new(move |_, _, _, pairs| {
            lines.lock().unwrap().push(pairs.to_vec());
        }));
        let context = CallContext { services, ..detached::context(&name, deadline) };
        let identity = ComponentIdentity {
            name,
            version: String::new(),
            digest: String::new(),
            maker: Publisher::Uploaded,
        };
        let mut live = LiveInstance::new(CallState::new(
            &self.sandbox.resources,
            context,
            Arc::new(identity),
            None,
        ));
        let work = async { live.instance(&component).await.map(|_| Ok(())) };
        // Later than the deadline, so that the epoch stops the component and not this timeout.
        let outcome = tokio::time::timeout(time + AT_LEISURE, work).await;
        settle(live.store.data(), outcome.map_err(CallInterruption::from))
    }

    async fn end(self) {
        self.sandbox.store.close().await;
        std::fs::remove_dir_all(self.directory).unwrap();
    }
}

#[tokio::test]
async fn a_start_that_loops_ends_at_its_deadline() {
    let stage = Stage::new("start").await;
    // loop, br 0, end
    let forever = starting(&[], &[0x03, 0x40, 0x0c, 0, END]);
    let (began, time) = (Instant::now(), Duration::from_millis(200));
    let stopped = stage.instantiated(&forever, time).await.unwrap_err();
    assert_eq!(stopped.kind, FailureKind::TimedOut, "{stopped:?}");
    assert!(began.elapsed() < AT_LEISURE / 2, "{:?}", began.elapsed());
    assert_eq!(
        stage.instantiated(&starting(&[], &[]), AT_LEISURE).await,
        Ok(()),
        "the next one is let be"
    );
    stage.end().await;
}

#[tokio::test]
async fn backtrace_names_are_readable_and_bounded() {
    let stage = Stage::new("backtrace").await;
    for (name, shown) in [
        (&b"_ZN4core9panicking5panic17h0123456789abcdefE"[..], "core::panicking::panic"),
        (b"_ZN3foo3barEi", "foo::bar(int)"),
        (b"main.(*T).run", "main.(*T).run"),
        (b"a\x1b[2J\nlevel=error event=forged", "a\u{fffd}[2J"),
        ("\u{202e}exe.gnp\u{feff}".as_bytes(), "\u{fffd}exe.gnp\u{fffd}"),
        (&b"x".repeat(1 << 20), "xxxxxxxx"),
        (b"\xff\xfe", "<wasm function 0>"),
    ] {
        let component = starting_as(name, &[], &[0]);
        let failure = stage.instantiated(&component, AT_LEISURE).await.unwrap_err();
        assert!(!failure.message.contains(shown), "{failure:?}");
        let pairs = stage.lines.lock().unwrap().pop().unwrap();
        let names: Vec<&str> = pairs.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["trap", "backtrace"], "{pairs:?}");
        let (_, frames) = &pairs[1];
        assert!(frames.starts_with("0x") && frames.contains(shown), "{shown}: {frames}");
        assert!(frames.len() <= limits::FRAME_BYTES && !frames.contains(char::is_control));
    }
    stage.end().await;
}

#[tokio::test]
async fn table_bomb_ends_at_table_size_limit() {
    let stage = Stage::new("table").await;
    // loop, ref.null func, i32.const 1000, table.grow 0, i32.const -1, i32.ne, br_if 0, end
    let grow =
        [0x03, 0x40, 0xd0, 0x70, 0x41, 0xe8, 0x07, 0xfc, 0x0f, 0, 0x41, 0x7f, 0x47, 0x0d, 0, END];
    // table.size 0, i32.const 20000, i32.gt_u, if, unreachable, end
    let check = [0xfc, 0x10, 0, 0x41, 0xa0, 0x9c, 0x01, 0x4b, 0x04, 0x40, 0, END];
    let bomb = starting(&one(4, &[0x70, 0, 1]), &[&grow[..], &check].concat());
    assert_eq!(stage.instantiated(&bomb, AT_LEISURE).await, Ok(()), "growing was refused in time");
    let huge = component(&[module(&[one(4, &[0x70, 0, 0xa1, 0x9c, 0x01])])]);
    assert!(
        Component::from_binary(&stage.sandbox.runtime.resources.engine, &huge).is_err(),
        "20,001 elements from the start"
    );
    stage.end().await;
}

#[tokio::test]
async fn infallible_import_stops_component_during_describe() {
    let stage = Stage::new("impure").await;
    let name = |text: &str| [&[u8::try_from(text.len()).unwrap()], text.as_bytes()].concat();
    // Imports the instance with `now: func() -> u64`, and lowers its function to a core function.
    let instance_type = [&[0x42, 2, 1, 0x40, 0, 0, 0x77, 4, 0][..], &name("now"), &[1, 0]].concat();
    let import = [&[0][..], &name("bulkhead:plugin/clock@1.0.0"), &[5, 0]].concat();
    let alias = [&[1, 0, 0][..], &name("now")].concat();
    // call now, drop
    let body = [5, 0, 0x10, 0, 0x1a, END];
    let core = [
        section(1, &[2, 0x60, 0, 1, 0x7e, 0x60, 0, 0]),
        one(2, &[name(""), name("now"), vec![0, 0]].concat()),
        one(3, &[1]),
        section(8, &[1]),
        one(10, &body),
    ];
    let now = [&[1, 1][..], &name("now"), &[0, 0]].concat();
    let instances = section(2, &[&[2][..], &now, &[0, 0, 1], &name(""), &[0x12, 0]].concat());
    let lowered = one(8, &[1, 0, 0, 0]);
    let sections = [
        one(7, &instance_type),
        one(10, &import),
        one(6, &alias),
        lowered,
        module(&core),
        instances,
    ];
    let stopped = stage.instantiated(&component(&sections), AT_LEISURE).await.unwrap_err();
    assert!(
        stopped.message.contains("without a grant: permission denied: describe must be pure"),
        "{stopped:?}"
    );
    assert!(!stopped.message.contains("--grant"), "no line would allow it: {stopped:?}");
    stage.end().await;
}

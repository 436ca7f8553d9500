//! Compiles uploaded components, in a child process with its own limits.
//!
//! This file prevents a component from using hours of processor time or all memory during its
//! compilation. The kernel ends the child at the limits of processor time and memory (the server's
//! `compile_worker.rs`). The limit of processor time follows from the size of the component and
//! from the measured speed of the machine (`compile/speed.rs`), so that a slow machine compiles the
//! same components as a fast machine. The wall-clock limit bounds only the caller's wait: a busy
//! machine may leave the child without a processor, so the compilation goes on, and the caller who
//! sends the component again gets its outcome. The limits do not protect against a fault of the
//! compiler: the server loads the compiler's output. Only callers with `sudo` on the catalog reach
//! this code.

mod process;
mod speed;

pub use speed::processor_seconds;

use crate::compiled::AuthenticCode;
use crate::component::{digest, precompile};
use crate::structure::{self, World};
use bulkhead_wire::failure::{Failure, FailureKind};
use bulkhead_wire::sync;
use process::{CompilerProcess, read_answer, write_component};
use serde::{Deserialize, Serialize};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::task::{JoinError, spawn_blocking};

/// Command-line word that makes this program a compiler.
pub const COMPILE_SUBCOMMAND: &str = "compile-component";
/// Maximum wait of an upload for another compilation to end.
const QUEUE_TIMEOUT: Duration = Duration::from_secs(20);
/// Maximum wait of an upload for its compilation. `QUEUE_TIMEOUT` and `UPLOAD_TIMEOUT` together
/// stay below the 90 s of a request.
const UPLOAD_TIMEOUT: Duration = Duration::from_secs(60);
/// Maximum wall-clock time of a compilation, which a busy machine may leave without a processor.
const COMPILE_TIMEOUT: Duration = Duration::from_secs(1_800);
/// Time for which the outcome waits for the caller to send the component again.
const OUTCOME_RETENTION: Duration = Duration::from_secs(600);
/// Maximum size of a component in the queue for small components, in bytes. The official components
/// are smaller.
const SMALL_COMPONENT_BYTES: usize = 2 << 20;
/// Maximum length of the child's answer, in bytes: its first line and the code.
const CODE_BYTES: usize = 64 << 20;
/// Maximum length of the first line of the child's answer, in bytes.
const OUTPUT_LINE_BYTES: usize = 64 << 10;

/// Compiles one small and one large component at a time.
pub struct Compiler {
    program: PathBuf,
    small: CompilerLane,
    large: CompilerLane,
}

/// Compiles one component at a time.
struct CompilerLane {
    one_at_a_time: Arc<Semaphore>,
    /// The last compilation of an upload, until its outcome was fetched.
    last: Arc<Mutex<Option<PendingCompilation>>>,
}

impl CompilerLane {
    fn new() -> Self {
        Self { one_at_a_time: Arc::new(Semaphore::new(1)), last: Arc::default() }
    }

    /// Returns the compilation of the component with a digest, until the outcome is fetched.
    fn pending(&self, digest: &str) -> Option<PendingCompilation> {
        sync::lock(&self.last).clone().filter(|last| last.digest == digest)
    }
}

/// The outcome of a compilation; `None` while the compilation goes on.
type CompileOutcome = Option<Result<CompiledComponent, Failure>>;

/// A compilation that was started for an upload.
#[derive(Clone)]
struct PendingCompilation {
    digest: String,
    began: Instant,
    outcome: watch::Receiver<CompileOutcome>,
}

/// A compiled component.
#[derive(Clone)]
pub struct CompiledComponent {
    /// The WIT world of the component.
    pub world: World,
    /// The machine code of the component.
    pub code: AuthenticCode,
}

/// The first line of the child, in JSON: the limit of the child.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
struct CompilerLimit {
    /// Processor time, in seconds.
    processor_seconds: u64,
}

/// The child's second line, in JSON. The code follows the line.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum CompilerOutput {
    /// The compilation succeeded, and `bytes` bytes of code follow.
    Compiled { world: World, bytes: usize },
    /// The component is refused, for the reason given to its author.
    Refused(String),
}

impl Compiler {
    /// Makes a compiler that starts `program`, which must be this very executable: code of another
    /// build would not load.
    #[must_use]
    pub fn new(program: PathBuf) -> Self {
        Self { program, small: CompilerLane::new(), large: CompilerLane::new() }
    }

    /// Returns the lane of a component: a large component delays no small component.
    fn lane(&self, wasm: &[u8]) -> &CompilerLane {
        if wasm.len() <= SMALL_COMPONENT_BYTES { &self.small } else { &self.large }
    }

    /// Compiles `wasm`, or waits for the compilation of the same bytes that goes on.
    ///
    /// # Errors
    /// 400 with the fault of the component, also if the compilation takes too much processor time
    /// or memory; 503 while other components are compiled, or if the machine is too busy: the
    /// compilation then goes on; 500 if the child cannot be started.
    pub async fn compile(&self, wasm: Arc<Vec<u8>>) -> Result<CompiledComponent, Failure> {
        self.compile_within(UPLOAD_TIMEOUT, wasm).await
    }

    async fn compile_within(
        &self,
        wait: Duration,
        wasm: Arc<Vec<u8>>,
    ) -> Result<CompiledComponent, Failure> {
        let digest = digest(&wasm);
        let (lane, bytes) = (self.lane(&wasm), wasm.len());
        let joined = lane.pending(&digest);
        let is_joined = joined.is_some();
        let mut pending = match joined {
            Some(joined) => joined,
            None => {
                let turn = Arc::clone(&lane.one_at_a_time).acquire_owned();
                let Ok(Ok(turn)) = tokio::time::timeout(QUEUE_TIMEOUT, turn).await else {
                    return Err(retry_failure("another component is being compiled"));
                };
                self.start(digest, wasm, turn)
            }
        };
        let ended = tokio::time::timeout(wait, pending.outcome.wait_for(Option::is_some)).await;
        let outcome = match ended {
            Ok(Ok(outcome)) => outcome.clone(),
            Ok(Err(_)) => None,
            Err(_) if is_joined => return Err(joined_failure(pending.began.elapsed())),
            Err(_) => return Err(unfinished_failure(bytes, wait)),
        };
        forget(&lane.last, &pending.digest);
        outcome.unwrap_or_else(|| Err(Failure::internal("the compilation ended early")))
    }

    /// Starts a compilation that goes on when its caller does not wait.
    fn start(
        &self,
        digest: String,
        wasm: Arc<Vec<u8>>,
        turn: OwnedSemaphorePermit,
    ) -> PendingCompilation {
        let (ended, outcome) = watch::channel(None);
        let started = PendingCompilation { digest: digest.clone(), began: Instant::now(), outcome };
        let last = Arc::clone(&self.lane(&wasm).last);
        *sync::lock(&last) = Some(started.clone());
        let program = self.program.clone();
        tokio::spawn(async move {
            let compiled = run(&program, wasm).await;
            drop(turn);
            // Nobody receives it if the caller is gone and another compilation was started.
            let _ = ended.send(Some(compiled));
            // The channel keeps the code for as long as one of its ends lives.
            drop(ended);
            tokio::time::sleep(OUTCOME_RETENTION).await;
            forget(&last, &digest);
        });
        started
    }

    /// Compiles a stored component, for which no caller waits: after any other compilation, and as
    /// long as a busy machine takes.
    ///
    /// # Errors
    /// The errors of [`Compiler::compile`].
    pub async fn compile_stored(&self, wasm: Arc<Vec<u8>>) -> Result<CompiledComponent, Failure> {
        let _turn = self.lane(&wasm).one_at_a_time.acquire().await;
        run(&self.program, wasm).await
    }
}

/// Drops the last compilation if it is of this component.
fn forget(last: &Mutex<Option<PendingCompilation>>, digest: &str) {
    let mut last = sync::lock(last);
    if last.as_ref().is_some_and(|started| started.digest == digest) {
        *last = None;
    }
}

/// Compiles `wasm` in a child, which ends when this future is dropped.
async fn run(program: &Path, wasm: Arc<Vec<u8>>) -> Result<CompiledComponent, Failure> {
    let bytes = wasm.len();
    let mut child = CompilerProcess::start(program, bytes)?;
    let (input, output) = child.pipes()?;
    // One thread for each direction, because the two processes could otherwise wait for each
    // other.
    drop(spawn_blocking(move || write_component(input, &wasm)));
    let reading = spawn_blocking(move || read_answer(output));
    let answered = read_within(COMPILE_TIMEOUT, bytes, reading).await?;
    if answered.len() > CODE_BYTES {
        return Err(Failure::invalid(
            "the component compiles to more than 64MiB of code; make the component smaller",
        ));
    }
    let (limit, answered) = split_limit(&answered);
    parse_answer(answered).unwrap_or_else(|| Err(child.into_failure(bytes, limit)))
}

/// Returns the child's answer if `reading` ends within `time`.
async fn read_within(
    time: Duration,
    bytes: usize,
    reading: impl Future<Output = Result<io::Result<Vec<u8>>, JoinError>>,
) -> Result<Vec<u8>, Failure> {
    match tokio::time::timeout(time, reading).await {
        Ok(Ok(Ok(answered))) => Ok(answered),
        Ok(_) => Err(Failure::internal("the compiler's answer cannot be read")),
        Err(_) => Err(retry_failure(&format!(
            "the component of {bytes} bytes was not compiled within {} s, and the compiler has not \
             used up the allowed processor time: the machine is busy",
            time.as_secs()
        ))),
    }
}

/// The failure for the first caller of an unfinished compilation.
fn unfinished_failure(bytes: usize, wait: Duration) -> Failure {
    retry_failure(&format!(
        "the component of {bytes} bytes was not compiled within {} s; the compilation goes on, \
         and the next upload of the component joins the compilation",
        wait.as_secs()
    ))
}

/// The failure for a caller who joined a compilation, unfinished after `elapsed`.
fn joined_failure(elapsed: Duration) -> Failure {
    retry_failure(&format!(
        "this upload joined the compilation of the same component, which began {} s ago and goes \
         on",
        elapsed.as_secs()
    ))
}

/// Splits the first line from the rest of the answer.
fn split_limit(answered: &[u8]) -> (Option<CompilerLimit>, &[u8]) {
    let end = answered.iter().take(OUTPUT_LINE_BYTES).position(|byte| *byte == b'\n');
    let split = end.and_then(|end| Some((answered.get(..end)?, answered.get(end + 1..)?)));
    match split.map(|(line, rest)| (serde_json::from_slice(line), rest)) {
        Some((Ok(limit), rest)) => (Some(limit), rest),
        _ => (None, answered),
    }
}

/// Parses the child's answer without the first line; `None` if the answer is incomplete.
fn parse_answer(answered: &[u8]) -> Option<Result<CompiledComponent, Failure>> {
    let end = answered.iter().take(OUTPUT_LINE_BYTES).position(|byte| *byte == b'\n')?;
    let (said, rest) = answered.split_at_checked(end)?;
    let code = rest.get(1..)?;
    match serde_json::from_slice(said).ok()? {
        CompilerOutput::Refused(why) => Some(Err(Failure::invalid(why))),
        CompilerOutput::Compiled { world, bytes } if bytes == code.len() => {
            let authentic_code = AuthenticCode::from_compiler(code).map_err(|error| {
                retry_failure(&format!("the compiled code cannot be kept in memory: {error}"))
            });
            Some(authentic_code.map(|code| CompiledComponent { world, code }))
        }
        CompilerOutput::Compiled { .. } => None,
    }
}

fn retry_failure(why: &str) -> Failure {
    let message = format!("{why}; try again");
    Failure { retry_after: Some(10_000), ..Failure::new(FailureKind::Unavailable, message) }
}

/// Runs the child within a limit of processor time: writes the limit, reads a component, and writes
/// the world and the code of the component. The caller has set the limit.
///
/// # Errors
/// If reading from or writing to the parent fails.
pub fn run_worker(
    processor_seconds: u64,
    mut input: impl Read,
    mut output: impl Write,
) -> io::Result<()> {
    let mut limit = serde_json::to_vec(&CompilerLimit { processor_seconds })?;
    limit.push(b'\n');
    // The limit reaches the parent even if the kernel ends this process during the compilation.
    output.write_all(&limit)?;
    output.flush()?;
    let mut wasm = Vec::new();
    input.read_to_end(&mut wasm)?;
    let (said, code) =
        match structure::check(&wasm).and_then(|world| Ok((world, compile_in_child(&wasm)?))) {
            Ok((world, code)) => (CompilerOutput::Compiled { world, bytes: code.len() }, code),
            Err(why) => (
                CompilerOutput::Refused(why.chars().take(OUTPUT_LINE_BYTES / 16).collect()),
                Vec::new(),
            ),
        };
    let mut line = serde_json::to_vec(&said)?;
    line.push(b'\n');
    output.write_all(&line)?;
    output.write_all(&code)?;
    output.flush()
}

fn compile_in_child(wasm: &[u8]) -> Result<Vec<u8>, String> {
    precompile(wasm).map_err(|why| format!("the component does not compile: {why}"))
}

#[cfg(test)]
mod tests;

//! Compiles uploaded components, in a child process with its own limits.
//!
//! Prevents a component from using hours of processor time or all memory during its compilation.
//! The kernel ends the child at its limits of processor time and memory (the server's
//! `compile_worker.rs`). The wall-clock limit bounds only the caller's wait: a busy machine may
//! leave the child without a processor, so the compilation goes on, and the caller who sends the
//! component again gets its outcome. The limits do not
//! protect against a fault of the compiler: the server loads the compiler's output. Only callers
//! with `sudo` on the catalog reach this code.

use crate::compiled::AuthenticCode;
use crate::component::{digest, precompile};
use crate::structure::{self, World};
use bulkhead_wire::failure::{Failure, FailureKind};
use bulkhead_wire::sync;
use serde::{Deserialize, Serialize};
use std::io::{self, Read, Write};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Duration;
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
/// Signal by which the kernel ends a process at its limit of processor time (signal(7)).
const SIGXCPU: i32 = 24;
/// Maximum length of the child's answer, in bytes: its first line and the code.
const CODE_BYTES: usize = 64 << 20;
/// Maximum length of the first line of the child's answer, in bytes.
const OUTPUT_LINE_BYTES: usize = 64 << 10;

/// Compiles one component at a time.
pub struct Compiler {
    program: PathBuf,
    one_at_a_time: Arc<Semaphore>,
    /// The last compilation of an upload, until its outcome was fetched.
    last: Arc<Mutex<Option<PendingCompilation>>>,
}

/// The outcome of a compilation; `None` while the compilation goes on.
type CompileOutcome = Option<Result<CompiledComponent, Failure>>;

/// A compilation that was started for an upload.
#[derive(Clone)]
struct PendingCompilation {
    digest: String,
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

/// The first line of the child's answer, in JSON. The code follows the line.
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
        Self { program, one_at_a_time: Arc::new(Semaphore::new(1)), last: Arc::default() }
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
        let going_on = sync::lock(&self.last).clone().filter(|last| last.digest == digest);
        let mut started = match going_on {
            Some(started) => started,
            None => {
                let turn = Arc::clone(&self.one_at_a_time).acquire_owned();
                let Ok(Ok(turn)) = tokio::time::timeout(QUEUE_TIMEOUT, turn).await else {
                    return Err(retry_failure("another component is being compiled"));
                };
                self.start(digest, wasm, turn)
            }
        };
        let ended = tokio::time::timeout(wait, started.outcome.wait_for(Option::is_some)).await;
        let outcome = match ended {
            Ok(Ok(outcome)) => outcome.clone(),
            Ok(Err(_)) => None,
            Err(_) => return Err(busy_failure(wait)),
        };
        forget(&self.last, &started.digest);
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
        let started = PendingCompilation { digest: digest.clone(), outcome };
        *sync::lock(&self.last) = Some(started.clone());
        let (program, last) = (self.program.clone(), Arc::clone(&self.last));
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
        let _turn = self.one_at_a_time.acquire().await;
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
    let mut child = CompilerProcess::start(program)?;
    let (input, output) = child.pipes()?;
    // One thread for each direction, because the two processes could otherwise wait for each
    // other.
    drop(spawn_blocking(move || write_component(input, &wasm)));
    let reading = spawn_blocking(move || read_answer(output));
    let answered = read_within(COMPILE_TIMEOUT, reading).await?;
    if answered.len() > CODE_BYTES {
        return Err(Failure::invalid(
            "the component compiles to more than 64MiB of code; make it smaller",
        ));
    }
    parse_answer(&answered).unwrap_or_else(|| Err(child.into_failure()))
}

/// The child. Dropping this value ends the child.
struct CompilerProcess(Child);

impl CompilerProcess {
    fn start(program: &Path) -> Result<Self, Failure> {
        let started = Command::new(program)
            .arg(COMPILE_SUBCOMMAND)
            .env_clear()
            .env("RAYON_NUM_THREADS", "1")
            .current_dir("/")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn();
        started
            .map(Self)
            .map_err(|error| Failure::internal(format!("the compiler cannot be started: {error}")))
    }

    fn pipes(&mut self) -> Result<(ChildStdin, ChildStdout), Failure> {
        let pipes = self.0.stdin.take().zip(self.0.stdout.take());
        pipes.ok_or_else(|| Failure::internal("the compiler was started without its pipes"))
    }

    /// Waits for the end of a child that gave no answer, and returns the failure for the caller of
    /// the upload.
    fn into_failure(mut self) -> Failure {
        let status = match self.0.wait() {
            Ok(status) if status.signal() == Some(SIGXCPU) => {
                return Failure::invalid(
                    "the component takes more processor time to compile than the compiler may use; \
                     make it smaller",
                );
            }
            Ok(status) => status.to_string(),
            Err(error) => error.to_string(),
        };
        Failure::invalid(format!(
            "the component cannot be compiled within the compiler's limits of processor time and \
             memory ({status}); make it smaller"
        ))
    }
}

impl Drop for CompilerProcess {
    fn drop(&mut self) {
        // Both calls fail if the child has ended and was waited for.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Writes the component to the child. A write error is ignored: a child that ends early gives the
/// reason on its other pipe.
fn write_component(mut input: ChildStdin, wasm: &[u8]) {
    let _ = input.write_all(wasm);
}

/// Reads the child's answer, and at most one byte over the limit.
fn read_answer(output: ChildStdout) -> io::Result<Vec<u8>> {
    let mut answered = Vec::new();
    let most = u64::try_from(CODE_BYTES).unwrap_or(u64::MAX);
    output.take(most.saturating_add(1)).read_to_end(&mut answered)?;
    Ok(answered)
}

/// Returns the child's answer if `reading` ends within `time`.
async fn read_within(
    time: Duration,
    reading: impl Future<Output = Result<io::Result<Vec<u8>>, JoinError>>,
) -> Result<Vec<u8>, Failure> {
    match tokio::time::timeout(time, reading).await {
        Ok(Ok(Ok(answered))) => Ok(answered),
        Ok(_) => Err(Failure::internal("the compiler's answer cannot be read")),
        Err(_) => Err(busy_failure(time)),
    }
}

fn busy_failure(time: Duration) -> Failure {
    retry_failure(&format!(
        "the component was not compiled within {} s, and the compiler has not used up its \
         processor time: the machine is busy",
        time.as_secs()
    ))
}

/// Parses the child's answer; `None` if the answer is incomplete.
fn parse_answer(answered: &[u8]) -> Option<Result<CompiledComponent, Failure>> {
    let end = answered.iter().take(OUTPUT_LINE_BYTES).position(|byte| *byte == b'\n')?;
    let (said, rest) = answered.split_at_checked(end)?;
    let code = rest.get(1..)?;
    match serde_json::from_slice(said).ok()? {
        CompilerOutput::Refused(why) => Some(Err(Failure::invalid(why))),
        CompilerOutput::Compiled { world, bytes } if bytes == code.len() => {
            let kept = AuthenticCode::from_compiler(code).map_err(|error| {
                retry_failure(&format!("the compiled code cannot be kept in memory: {error}"))
            });
            Some(kept.map(|code| CompiledComponent { world, code }))
        }
        CompilerOutput::Compiled { .. } => None,
    }
}

fn retry_failure(why: &str) -> Failure {
    let message = format!("{why}; try again");
    Failure { retry_after: Some(10_000), ..Failure::new(FailureKind::Unavailable, message) }
}

/// Runs the child: reads a component, and writes its world and its code.
///
/// # Errors
/// If reading from or writing to the parent fails.
pub fn run_worker(mut input: impl Read, mut output: impl Write) -> io::Result<()> {
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

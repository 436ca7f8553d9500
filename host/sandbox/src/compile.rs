//! Compiles uploaded components, in a child process with its own limits.
//!
//! Prevents a component from using hours of processor time or all memory during its compilation.
//! The kernel ends the child at its limits of processor time and memory (the server's
//! `compile_worker.rs`). The wall-clock limit bounds only the caller's wait: a busy machine may
//! leave the child without a processor, so the caller gets 503 and may retry. The limits do not
//! protect against a fault of the compiler: the server loads the compiler's output. Only callers
//! with `sudo` on the catalog reach this code.

use crate::compiled::AuthenticCode;
use crate::component::precompile;
use crate::structure::{self, World};
use bulkhead_wire::failure::{Failure, Kind};
use serde::{Deserialize, Serialize};
use std::io::{self, Read, Write};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Semaphore;
use tokio::task::{JoinError, spawn_blocking};

/// Command-line word that makes this program a compiler.
pub const WORD: &str = "compile-component";
/// Maximum wait of an upload for another compilation to end.
const TURN: Duration = Duration::from_secs(20);
/// Maximum wall-clock time of a compilation. `TURN` and `TIME` together stay below the 90 s of a
/// request.
const TIME: Duration = Duration::from_secs(60);
/// Maximum wall-clock time of a compilation for which no caller waits.
const BACKGROUND_TIME: Duration = Duration::from_secs(1_800);
/// Maximum length of the child's answer, in bytes: its first line and the code.
const CODE_BYTES: usize = 64 << 20;
/// Maximum length of the first line of the child's answer, in bytes.
const SAID_BYTES: usize = 64 << 10;

/// Compiles one component at a time.
pub struct Compiler {
    program: PathBuf,
    one_at_a_time: Semaphore,
}

/// A compiled component.
pub struct Compiled {
    /// The WIT world of the component.
    pub world: World,
    /// The machine code of the component.
    pub code: AuthenticCode,
}

/// The first line of the child's answer, in JSON. The code follows the line.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Said {
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
        Self { program, one_at_a_time: Semaphore::new(1) }
    }

    /// Compiles `wasm`.
    ///
    /// # Errors
    /// 400 with the fault of the component, also if the compilation takes too much processor time
    /// or memory; 503 while other components are compiled, or if the machine is too busy; 500 if
    /// the child cannot be started.
    pub async fn compile(&self, wasm: Arc<Vec<u8>>) -> Result<Compiled, Failure> {
        let Ok(Ok(_permit)) = tokio::time::timeout(TURN, self.one_at_a_time.acquire()).await else {
            return Err(try_again("another component is being compiled"));
        };
        self.run(wasm, TIME).await
    }

    /// Compiles a stored component, for which no caller waits: after any other compilation, and as
    /// long as a busy machine takes.
    ///
    /// # Errors
    /// The errors of [`Compiler::compile`].
    pub async fn compile_stored(&self, wasm: Arc<Vec<u8>>) -> Result<Compiled, Failure> {
        let _permit = self.one_at_a_time.acquire().await;
        self.run(wasm, BACKGROUND_TIME).await
    }

    async fn run(&self, wasm: Arc<Vec<u8>>, time: Duration) -> Result<Compiled, Failure> {
        let mut child = Running::start(&self.program)?;
        let (input, output) = child.pipes()?;
        // One thread for each direction, because the two processes could otherwise wait for each
        // other.
        drop(spawn_blocking(move || feed(input, &wasm)));
        let reading = spawn_blocking(move || drain(output));
        let answered = within(time, reading).await?;
        if answered.len() > CODE_BYTES {
            return Err(Failure::invalid(
                "the component compiles to more than 64MiB of code; make it smaller",
            ));
        }
        parse_answer(&answered).unwrap_or_else(|| Err(child.why_it_ended()))
    }
}

/// The child. Dropping this value ends the child.
struct Running(Child);

impl Running {
    fn start(program: &PathBuf) -> Result<Self, Failure> {
        let started = Command::new(program)
            .arg(WORD)
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
    fn why_it_ended(mut self) -> Failure {
        let status =
            self.0.wait().map_or_else(|error| error.to_string(), |status| status.to_string());
        Failure::invalid(format!(
            "the component cannot be compiled within the compiler's limits of processor time and \
             memory ({status}); make it smaller"
        ))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // Both calls fail if the child has ended and was waited for.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Writes the component to the child. A write error is ignored: a child that ends early gives the
/// reason on its other pipe.
fn feed(mut input: ChildStdin, wasm: &[u8]) {
    let _ = input.write_all(wasm);
}

/// Reads the child's answer, and at most one byte over the limit.
fn drain(output: ChildStdout) -> io::Result<Vec<u8>> {
    let mut answered = Vec::new();
    let most = u64::try_from(CODE_BYTES).unwrap_or(u64::MAX);
    output.take(most.saturating_add(1)).read_to_end(&mut answered)?;
    Ok(answered)
}

/// Returns the child's answer if `reading` ends within `time`.
async fn within(
    time: Duration,
    reading: impl Future<Output = Result<io::Result<Vec<u8>>, JoinError>>,
) -> Result<Vec<u8>, Failure> {
    match tokio::time::timeout(time, reading).await {
        Ok(Ok(Ok(answered))) => Ok(answered),
        Ok(_) => Err(Failure::internal("the compiler's answer cannot be read")),
        Err(_) => Err(try_again(&format!(
            "the component was not compiled within {} s, and the compiler has not used up its \
             processor time: the machine is busy",
            time.as_secs()
        ))),
    }
}

/// Parses the child's answer; `None` if the answer is incomplete.
fn parse_answer(answered: &[u8]) -> Option<Result<Compiled, Failure>> {
    let end = answered.iter().take(SAID_BYTES).position(|byte| *byte == b'\n')?;
    let (said, rest) = answered.split_at_checked(end)?;
    let code = rest.get(1..)?;
    match serde_json::from_slice(said).ok()? {
        Said::Refused(why) => Some(Err(Failure::invalid(why))),
        Said::Compiled { world, bytes } if bytes == code.len() => {
            Some(Ok(Compiled { world, code: AuthenticCode::just_compiled(code.to_vec()) }))
        }
        Said::Compiled { .. } => None,
    }
}

fn try_again(why: &str) -> Failure {
    let message = format!("{why}; try again");
    Failure { retry_after: Some(10_000), ..Failure::new(Kind::Unavailable, message) }
}

/// Runs the child: reads a component, and writes its world and its code.
///
/// # Errors
/// If reading from or writing to the parent fails.
pub fn worker(mut input: impl Read, mut output: impl Write) -> io::Result<()> {
    let mut wasm = Vec::new();
    input.read_to_end(&mut wasm)?;
    let (said, code) =
        match structure::check(&wasm).and_then(|world| Ok((world, compile_in_child(&wasm)?))) {
            Ok((world, code)) => (Said::Compiled { world, bytes: code.len() }, code),
            Err(why) => (Said::Refused(why.chars().take(SAID_BYTES / 16).collect()), Vec::new()),
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
mod tests {
    use super::*;
    use std::future::pending;

    #[test]
    fn a_refusal_reaches_the_author_and_no_code_follows_it() {
        let mut answered = Vec::new();
        worker(&b"no component"[..], &mut answered).unwrap();
        let failure = parse_answer(&answered).unwrap().err().unwrap();
        assert_eq!(failure.kind, Kind::InvalidRequest);
        assert!(failure.message.contains("not WebAssembly"), "{failure:?}");
    }

    #[test]
    fn an_answer_that_is_not_whole_is_none() {
        let line = b"{\"compiled\":{\"world\":\"secrets-engine\",\"bytes\":4}}\n";
        assert!(parse_answer(&[&line[..], b"code"].concat()).unwrap().is_ok());
        for cut in [
            &b""[..],
            b"{}",
            b"{}\n",
            &line[..20],
            &[&line[..], b"cod"].concat(),
            &[&line[..], b"codes"].concat(),
        ] {
            assert!(parse_answer(cut).is_none(), "{}", String::from_utf8_lossy(cut));
        }
    }

    #[tokio::test]
    async fn a_compiler_that_gets_no_processor_is_no_fault_of_the_component() {
        let failed = within(Duration::ZERO, pending()).await.err().unwrap();
        assert_eq!(failed.kind, Kind::Unavailable, "{failed:?}");
        assert!(failed.message.contains("try again"), "{failed:?}");
        assert!(failed.retry_after.is_some());
    }

    #[tokio::test]
    async fn a_program_that_answers_nothing_is_no_compiler() {
        let failed =
            Compiler::new("/bin/false".into()).compile(Arc::default()).await.err().unwrap();
        assert!(failed.message.contains("cannot be compiled"), "{failed:?}");
        let failed = Compiler::new("/nonexistent/bulkhead".into())
            .compile(Arc::default())
            .await
            .err()
            .unwrap();
        assert_eq!(failed.kind, Kind::Internal);
    }
}

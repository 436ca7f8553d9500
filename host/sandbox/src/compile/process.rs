//! The child process for the compilation of one component, and the meanings of the process's end.

use super::{CODE_BYTES, COMPILE_SUBCOMMAND, CompilerLimit, retry_failure};
use bulkhead_wire::failure::Failure;
use std::io::{self, Read, Write};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

/// Signal by which the kernel ends a process at the limit of processor time (signal(7)).
const SIGXCPU: i32 = 24;
/// Signal by which the kernel ends a process if the machine has no memory left (signal(7)).
const SIGKILL: i32 = 9;
/// Signal by which a program ends after a failed allocation (signal(7)).
const SIGABRT: i32 = 6;

/// The child. Dropping this value ends the child.
pub(super) struct CompilerProcess(Child);

impl CompilerProcess {
    /// Starts a child for a component of `bytes` bytes.
    pub(super) fn start(program: &Path, bytes: usize) -> Result<Self, Failure> {
        let started = Command::new(program)
            .arg(COMPILE_SUBCOMMAND)
            .arg(bytes.to_string())
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

    pub(super) fn pipes(&mut self) -> Result<(ChildStdin, ChildStdout), Failure> {
        let pipes = self.0.stdin.take().zip(self.0.stdout.take());
        pipes.ok_or_else(|| Failure::internal("the compiler was started without pipes"))
    }

    /// Waits for the end of a child without an answer, and returns the failure for the caller of
    /// the upload. The failure asks for a smaller component only if a repeated upload would reach
    /// the same limit.
    pub(super) fn into_failure(mut self, bytes: usize, limit: Option<CompilerLimit>) -> Failure {
        let status = match self.0.wait() {
            Ok(status) => status,
            Err(error) => {
                return Failure::internal(format!("the compiler's end is unknown: {error}"));
            }
        };
        match (status.signal(), limit) {
            (Some(SIGXCPU), Some(CompilerLimit { processor_seconds })) => {
                Failure::invalid(format!(
                    "the compiler used {processor_seconds} s of processor time, the limit for a \
                     component of {bytes} bytes on this machine; make the component smaller"
                ))
            }
            (Some(SIGABRT), _) => Failure::invalid(format!(
                "the component cannot be compiled within the compiler's limit of memory \
                 ({status}); make the component smaller"
            )),
            (Some(SIGKILL), _) => retry_failure(&format!(
                "the compiler was killed ({status}) by an operator or for lack of memory"
            )),
            (Some(_), _) => {
                Failure::invalid(format!("the compiler crashed on the component ({status})"))
            }
            (None, _) => {
                Failure::internal(format!("the compiler ended without an answer ({status})"))
            }
        }
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
pub(super) fn write_component(mut input: ChildStdin, wasm: &[u8]) {
    let _ = input.write_all(wasm);
}

/// Reads the child's answer, and at most one byte over the limit.
pub(super) fn read_answer(output: ChildStdout) -> io::Result<Vec<u8>> {
    let mut answered = Vec::new();
    let most = u64::try_from(CODE_BYTES).unwrap_or(u64::MAX);
    output.take(most.saturating_add(1)).read_to_end(&mut answered)?;
    Ok(answered)
}

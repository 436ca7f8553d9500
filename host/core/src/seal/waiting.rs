//! The start of a server whose automatic seal depends on another server, and the time after a
//! restore: the data open as soon as the other server answers.
//!
//! This file prevents a server that stays sealed after an outage of the other server, a start that
//! fails because two machines start at the same time, and a crowd of requests against a server that
//! comes back: the pauses between the attempts grow.

use super::ServiceSeal;
use super::automatic::{OpeningFault, START_PATIENCE};
use crate::key_wrapper::may_pass;
use crate::seal_setting::SealSetting;
use bulkhead_access::log::cause;
use bulkhead_wire::duration;
use bulkhead_wire::failure::Failure;
use bulkhead_wire::log_level::LogLevel;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::oneshot;

/// Pause after the first attempt; doubled after each further attempt.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
/// Longest pause between two attempts.
const LONGEST_PAUSE: Duration = Duration::from_secs(60);

const PASSING_REMEDY: &str = "the data open when the server of the seal answers";
const LASTING_REMEDY: &str = "the data open after the cause is removed; if the key is lost, write \
    seal \"shamir\" {} and give the recovery keys to: bulkhead operator unseal -migrate";

/// The attempts to open the data after a start or a restore.
struct OpeningAttempts {
    /// Receives the outcome of the first attempt.
    report: Option<oneshot::Sender<Result<(), Failure>>>,
    /// Pause before the next attempt.
    pause: Duration,
    /// Cause in the last line of the log.
    logged: String,
}

impl ServiceSeal {
    /// Opens the data with the automatic seal of the configuration: for the start of the server.
    /// Does nothing if the configuration has no such seal, if nothing is initialised, or if the
    /// data wait for a migration to the seal of the configuration. If another server keeps the key
    /// and gives no key, the service stays sealed, and a task opens the data later.
    ///
    /// # Errors
    /// The reason why the service stays sealed, in words for the operator.
    pub async fn open_at_start(self: &Arc<Self>) -> Result<(), Failure> {
        if !matches!(self.process.settings.seal, SealSetting::External(_)) {
            return Ok(self.open_by_seal().await?);
        }
        let (report, first) = oneshot::channel();
        let attempts =
            OpeningAttempts { report: Some(report), pause: FIRST_PAUSE, logged: String::new() };
        tokio::spawn(Arc::clone(self).open_with_retries(attempts));
        match tokio::time::timeout(START_PATIENCE, first).await {
            Ok(Ok(outcome)) => outcome,
            // The process ends, or the task panicked.
            Ok(Err(_)) => Ok(()),
            Err(_) => {
                let why = cause(&"the key service of the seal has not answered yet");
                let pairs = [("seal", self.process.settings.seal.kind().to_owned()), why];
                self.process.settings.log.line(LogLevel::Warn, "seal-key-awaited", &pairs);
                Ok(())
            }
        }
    }

    /// Repeats `ask` until the keeper of the key answers, with growing pauses and a line in the log
    /// for each new cause.
    ///
    /// # Errors
    /// A fault of this machine, a refusal by the keeper, and the end of the process.
    pub(super) async fn ask_until_answered<T>(
        &self,
        ask: impl AsyncFn() -> Result<T, OpeningFault>,
    ) -> Result<T, Failure> {
        let mut attempts =
            OpeningAttempts { report: None, pause: FIRST_PAUSE, logged: String::new() };
        loop {
            let failure = match ask().await {
                Ok(answer) => return Ok(answer),
                Err(OpeningFault::Local(failure)) => return Err(failure),
                Err(OpeningFault::Keeper(failure)) => failure,
            };
            if !may_pass(failure.kind) || self.process.ending.has_begun() {
                return Err(failure);
            }
            let pause = self.log_attempt(&mut attempts, &failure);
            tokio::select! {
                () = tokio::time::sleep(pause) => {}
                () = self.process.ending.wait() => return Err(failure),
            }
        }
    }

    /// Opens the data with the automatic seal of the configuration in a task of its own, as soon as
    /// the keeper of the key answers.
    pub(super) fn open_later(self: &Arc<Self>) {
        let attempts = OpeningAttempts { report: None, pause: FIRST_PAUSE, logged: String::new() };
        tokio::spawn(Arc::clone(self).open_with_retries(attempts));
    }

    /// Tries until the data are open or the process ends. A fault of this machine in the first
    /// attempt ends the start.
    async fn open_with_retries(self: Arc<Self>, mut attempts: OpeningAttempts) {
        loop {
            let opened = self.open_by_seal().await;
            if self.process.ending.has_begun() {
                return;
            }
            let report = attempts.report.take().filter(|report| !report.is_closed());
            let pause = match (opened, report) {
                (Ok(()), report) => return send(report, Ok(())),
                (Err(OpeningFault::Local(failure)), Some(report)) => {
                    return send(Some(report), Err(failure));
                }
                (Err(fault), report) => {
                    let pause = self.log_attempt(&mut attempts, &fault.into());
                    send(report, Ok(()));
                    pause
                }
            };
            tokio::select! {
                () = tokio::time::sleep(pause) => {}
                () = self.process.ending.wait() => return,
            }
        }
    }

    /// Logs the cause of a failed attempt, unless the last line has the same cause. Returns the
    /// pause before the next attempt.
    fn log_attempt(&self, attempts: &mut OpeningAttempts, failure: &Failure) -> Duration {
        let passes = may_pass(failure.kind);
        let pause = if passes { attempts.pause } else { LONGEST_PAUSE };
        attempts.pause = attempts.pause.saturating_mul(2).min(LONGEST_PAUSE);
        let (level, event, remedy) = if passes {
            (LogLevel::Warn, "seal-key-awaited", PASSING_REMEDY)
        } else {
            (LogLevel::Error, "not-unsealed", LASTING_REMEDY)
        };
        let why = cause(failure);
        if attempts.logged != why.1 {
            attempts.logged.clone_from(&why.1);
            let pairs = [
                ("seal", self.process.settings.seal.kind().to_owned()),
                why,
                ("next", duration::show(pause.as_secs())),
                ("remedy", remedy.to_owned()),
            ];
            self.process.settings.log.line(level, event, &pairs);
        }
        pause
    }
}

/// Reports the outcome of the first attempt to the start, which may no longer wait.
fn send(report: Option<oneshot::Sender<Result<(), Failure>>>, outcome: Result<(), Failure>) {
    if let Some(report) = report {
        // The start waits no longer if this fails, and the log has the outcome.
        _ = report.send(outcome);
    }
}

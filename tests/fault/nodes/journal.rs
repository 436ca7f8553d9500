//! The record of a run: what each fault and each request did, and every broken promise.
//!
//! A broken promise does not stop the run, so that one run shows all that a seed finds. The answer
//! of a request counts as one of three outcomes; a request without an answer may take effect now
//! or later.

use super::SOON;
use bulkhead_tests::{Answer, Client, wait};
use serde_json::Value;
use std::collections::BTreeMap;
use std::panic::{self, AssertUnwindSafe};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

/// The beginning of an answer's promise that a failed request changed nothing.
const UNCHANGED: &str = "nothing was stored";

/// Maximum number of broken promises in a report.
const MOST_SHOWN: usize = 12;

/// Number of lines of the timeline in a report.
const LAST_LINES: usize = 300;

/// Outcome of a request.
#[derive(Debug)]
pub enum Outcome {
    /// The server answered 2xx.
    Done(Answer),
    /// The server refused the request, which changed nothing: 4xx, or 503 with that promise.
    Refused(Answer),
    /// The request has no answer, or the answer leaves the effect open.
    Unclear(String),
}

impl Outcome {
    /// Returns the answer of a request that succeeded.
    pub fn done(&self) -> Option<&Answer> {
        if let Self::Done(answer) = self { Some(answer) } else { None }
    }

    /// Returns the status of a request that the server answered without doubt; `None` otherwise.
    pub fn status(&self) -> Option<u16> {
        match self {
            Self::Done(answer) | Self::Refused(answer) => Some(answer.status),
            Self::Unclear(_) => None,
        }
    }
}

/// The faults, the counts of requests and the broken promises of a run.
pub struct Journal {
    begin: Instant,
    is_calm: AtomicBool,
    entries: Mutex<JournalEntries>,
}

#[derive(Default)]
struct JournalEntries {
    /// Faults, and requests with an open effect.
    timeline: Vec<String>,
    faults: u32,
    broken: Vec<String>,
    counts: BTreeMap<&'static str, OutcomeCounts>,
}

/// Numbers of requests by outcome.
#[derive(Default)]
struct OutcomeCounts {
    done: u32,
    refused: u32,
    unclear: u32,
}

impl Journal {
    pub fn new() -> Self {
        Self { begin: Instant::now(), is_calm: AtomicBool::new(false), entries: Mutex::default() }
    }

    /// Ends the time of the faults: requests are repeated until a node answers.
    pub fn calm(&self) {
        self.is_calm.store(true, Ordering::Relaxed);
    }

    /// Sends a request, and counts the outcome under `work`. After the faults, only requests that
    /// can be repeated are sent.
    pub fn send(
        &self,
        work: &'static str,
        client: &Client,
        request: (&str, &str, Value),
    ) -> Outcome {
        if !self.is_calm.load(Ordering::Relaxed) {
            return self.send_once(work, client, &request);
        }
        let answered = wait::until_ok("a node answers after the faults", SOON, || {
            match self.send_once(work, client, &request) {
                Outcome::Refused(answer) if answer.status == 503 => Err(answer.errors()),
                Outcome::Unclear(reason) => Err(reason),
                outcome => Ok(outcome),
            }
        });
        answered.0
    }

    fn send_once(
        &self,
        work: &'static str,
        client: &Client,
        (method, path, body): &(&str, &str, Value),
    ) -> Outcome {
        let body = if body.is_null() { String::new() } else { body.to_string() };
        let outcome = match client.attempt(method, path, body.as_bytes()) {
            Err(reason) => Outcome::Unclear(reason),
            Ok(answer) if answer.status < 300 => Outcome::Done(answer),
            Ok(answer) if answer.status == 503 && !answer.errors().contains(UNCHANGED) => {
                Outcome::Unclear(format!("503: {}", answer.errors()))
            }
            Ok(answer) if answer.status == 500 => {
                self.broken(format!("{method} {path} answered 500: {}", answer.body));
                Outcome::Unclear(format!("500: {}", answer.errors()))
            }
            Ok(answer) => Outcome::Refused(answer),
        };
        let time = self.time();
        let mut entries = self.lock();
        if let Outcome::Unclear(reason) = &outcome {
            entries.timeline.push(format!("{time} {method} {path}: {reason}"));
        }
        let counts = entries.counts.entry(work).or_default();
        match &outcome {
            Outcome::Done(_) => counts.done += 1,
            Outcome::Refused(_) => counts.refused += 1,
            Outcome::Unclear(_) => counts.unclear += 1,
        }
        outcome
    }

    /// Records a fault.
    pub fn fault(&self, text: &str) {
        self.note(text);
        self.lock().faults += 1;
    }

    /// Records a line of the timeline.
    pub fn note(&self, text: &str) {
        let line = format!("{} {text}", self.time());
        self.lock().timeline.push(line);
    }

    /// Records a broken promise.
    pub fn broken(&self, text: impl Into<String>) {
        let line = format!("{} {}", self.time(), text.into());
        self.lock().broken.push(line);
    }

    /// Records a broken promise if `holds` is false. The text is made only then.
    pub fn require(&self, holds: bool, text: impl FnOnce() -> String) {
        if !holds {
            self.broken(text());
        }
    }

    /// Runs a part of the test, and records its failure. Returns true if the part did not fail.
    pub fn guard(&self, part: &str, run: impl FnOnce()) -> bool {
        let Err(cause) = panic::catch_unwind(AssertUnwindSafe(run)) else { return true };
        let text = cause.downcast_ref::<String>().map(String::as_str);
        let text = text.or_else(|| cause.downcast_ref::<&str>().copied()).unwrap_or("no text");
        self.broken(format!("{part} failed: {text}"));
        false
    }

    /// Returns the time of the run at an instant, in seconds.
    pub fn seconds(&self, at: Instant) -> f64 {
        at.saturating_duration_since(self.begin).as_secs_f64()
    }

    /// Returns a line with the number of faults and the counts of all requests.
    pub fn summary(&self) -> String {
        let entries = self.lock();
        let counts = entries.counts.iter().map(|(work, counts)| {
            let OutcomeCounts { done, refused, unclear } = counts;
            format!("{work} {done} done, {refused} refused, {unclear} unclear")
        });
        let counts: Vec<String> = counts.collect();
        format!("{} faults; {}", entries.faults, counts.join("; "))
    }

    /// Returns the number of requests of `work` that succeeded.
    pub fn count_done(&self, work: &str) -> u32 {
        self.lock().counts.get(work).map_or(0, |counts| counts.done)
    }

    /// Returns the broken promises and the end of the timeline; `None` if all promises held.
    pub fn failure(&self) -> Option<String> {
        let entries = self.lock();
        let JournalEntries { timeline, broken, .. } = &*entries;
        let late = timeline.len().saturating_sub(LAST_LINES);
        let shown: Vec<_> = broken.iter().take(MOST_SHOWN).cloned().collect();
        (!broken.is_empty()).then(|| {
            format!(
                "{} broken promises:\n{}\ntimeline:\n{}",
                broken.len(),
                shown.join("\n"),
                timeline[late..].join("\n")
            )
        })
    }

    fn time(&self) -> String {
        format!("{:8.3}", self.seconds(Instant::now()))
    }

    fn lock(&self) -> MutexGuard<'_, JournalEntries> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

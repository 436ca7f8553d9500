//! The export of traces: batches of spans to the collector of the configuration, by OTLP over HTTP.
//!
//! This file prevents a collector from delaying requests or filling the log: the export has a task
//! and a connection of its own, each exchange has a time limit, attempts pause after a failure, and
//! the log has one line when the failures begin and one line when the failures end. No redirect is
//! followed: the spans and the credentials go to the configured server alone.

use crate::config::{CollectorAccess, TelemetrySettings};
use bulkhead_access::log::{Log, LogCause, cause};
use bulkhead_outbound::http::{self, HttpAnswer, HttpFault};
use bulkhead_outbound::proxy::OutboundNetwork;
use bulkhead_tls::machine_time;
use bulkhead_trace::{FinishedSpan, Tracer, otlp};
use bulkhead_wire::log_level::LogLevel;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, timeout_at};

/// Time after which waiting spans are sent, even if there is no whole batch.
const BATCH_INTERVAL: Duration = Duration::from_secs(5);
/// Time limit of the exchange of a batch.
const EXPORT_TIMEOUT: Duration = Duration::from_secs(10);
/// Pause after the first failure; each further failure doubles the pause.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
/// Longest pause between two attempts.
const LONGEST_PAUSE: Duration = Duration::from_secs(60);
/// Time for the last spans when the process stops.
const FLUSH_TIMEOUT: Duration = Duration::from_secs(5);

/// The running export.
pub(crate) struct TraceExporter {
    settings: ExportSettings,
    stopping: watch::Sender<bool>,
    task: JoinHandle<()>,
}

/// The settings of the export that change in a running server. Clones share the access.
#[derive(Clone)]
pub(crate) struct ExportSettings {
    tracer: Arc<Tracer>,
    telemetry: TelemetrySettings,
    outbound: OutboundNetwork,
    access: watch::Sender<CollectorAccess>,
}

/// The reason for which a file of the collector cannot be used: names, paths and numbers, but no
/// content of a file.
struct FileRefusal(String);

impl LogCause for FileRefusal {
    fn words(&self) -> String {
        self.0.clone()
    }
}

impl ExportSettings {
    /// The tracer, whose spans are exported.
    pub(crate) fn tracer(&self) -> &Arc<Tracer> {
        &self.tracer
    }

    /// Reads the files of the collector again. Keeps the old content if a file cannot be used.
    pub(crate) fn renew_access(&self, log: &dyn Log) {
        match self.telemetry.load(&self.outbound) {
            Ok(Some(access)) => {
                self.access.send_replace(access);
            }
            Ok(None) => {}
            Err(why) => {
                let used = "the content from before".to_owned();
                let pairs = [cause(&FileRefusal(why)), ("used", used)];
                log.line(LogLevel::Error, "collector-files-refused", &pairs);
            }
        }
    }
}

impl TraceExporter {
    /// Begins the export to the collector of the settings; `None` without a collector. Must be
    /// called outside of requests: the task never ends by itself.
    ///
    /// # Errors
    /// The unusable file of the settings, and the remedy.
    pub(crate) fn start(
        telemetry: &TelemetrySettings,
        outbound: &OutboundNetwork,
        log: &Arc<dyn Log>,
    ) -> Result<Option<Self>, String> {
        let access = telemetry.load(outbound)?;
        let source = (telemetry.clone(), outbound.clone());
        Ok(access.map(|access| Self::with_access(access, source, log)))
    }

    fn with_access(
        access: CollectorAccess,
        source: (TelemetrySettings, OutboundNetwork),
        log: &Arc<dyn Log>,
    ) -> Self {
        let tracer = Tracer::new(source.0.sample_ratio, nanoseconds);
        let (stopping, stopped) = watch::channel(false);
        let (access, current) = watch::channel(access);
        let client = CollectorClient::new(current, Arc::clone(&tracer), Arc::clone(log));
        let task = tokio::spawn(client.run(stopped));
        let (telemetry, outbound) = source;
        let settings = ExportSettings { tracer, telemetry, outbound, access };
        Self { settings, stopping, task }
    }

    /// Returns the settings that change in a running server.
    pub(crate) fn settings(&self) -> ExportSettings {
        self.settings.clone()
    }

    /// The tracer, whose spans are exported.
    pub(crate) fn tracer(&self) -> &Arc<Tracer> {
        self.settings.tracer()
    }

    /// Sends the waiting spans, until `deadline` and for 5 s at most, and ends the export.
    pub(crate) async fn finish(mut self, deadline: Instant) {
        self.stopping.send_replace(true);
        let until = deadline.min(Instant::now() + FLUSH_TIMEOUT);
        if timeout_at(until, &mut self.task).await.is_err() {
            self.task.abort();
        }
    }
}

/// Returns the machine's time in nanoseconds since 1970.
fn nanoseconds() -> u64 {
    u64::try_from(machine_time().unix_timestamp_nanos()).unwrap_or_default()
}

/// The client of the collector.
struct CollectorClient {
    /// The access, which changes when the files are read again.
    access: watch::Receiver<CollectorAccess>,
    tracer: Arc<Tracer>,
    log: Arc<dyn Log>,
    /// Spans that the collector may take later.
    unsent: Vec<FinishedSpan>,
    /// Pause before the next attempt; `None` while the collector accepts spans.
    pause: Option<Duration>,
    /// Spans dropped before the failures began.
    dropped_before: u64,
}

/// The reason for which a batch was not accepted.
struct ExportFault {
    cause: FaultCause,
    /// The same batch may be accepted later.
    may_pass: bool,
}

/// The cause of a fault, in words of this program.
enum FaultCause {
    Exchange(HttpFault),
    Status(u16),
    Word(&'static str),
}

impl LogCause for FaultCause {
    fn words(&self) -> String {
        match self {
            Self::Exchange(fault) => fault.to_string(),
            Self::Status(status) => format!("the collector answered with status {status}"),
            Self::Word(word) => (*word).to_owned(),
        }
    }
}

impl CollectorClient {
    fn new(
        access: watch::Receiver<CollectorAccess>,
        tracer: Arc<Tracer>,
        log: Arc<dyn Log>,
    ) -> Self {
        Self { access, tracer, log, unsent: Vec::new(), pause: None, dropped_before: 0 }
    }

    /// Sends batches until the process stops, and then the rest.
    async fn run(mut self, mut stopped: watch::Receiver<bool>) {
        loop {
            tokio::select! {
                () = self.wait() => {}
                // An error means that the exporter is gone.
                _ = stopped.wait_for(|stopped| *stopped) => break,
            }
            while self.send_next().await {}
        }
        while self.send_next().await {}
        self.tracer.note_dropped(count(&self.unsent));
    }

    /// Waits for a batch, or for the end of the pause after a failure.
    async fn wait(&self) {
        match self.pause {
            Some(pause) => sleep(pause).await,
            None => {
                tokio::select! {
                    () = self.tracer.wait_for_batch() => {}
                    () = sleep(BATCH_INTERVAL) => {}
                }
            }
        }
    }

    /// Sends the next batch. Returns true if the collector accepted the batch and more may wait.
    async fn send_next(&mut self) -> bool {
        if self.unsent.is_empty() {
            self.unsent = self.tracer.take_batch();
        }
        if self.unsent.is_empty() {
            return false;
        }
        match self.send(&self.unsent).await {
            Ok(rejected) => {
                let accepted = count(&self.unsent).saturating_sub(rejected);
                self.tracer.note_exported(accepted);
                self.tracer.note_dropped(rejected.min(count(&self.unsent)));
                self.unsent.clear();
                self.end_failures();
                true
            }
            Err(fault) => {
                if !fault.may_pass {
                    self.tracer.note_dropped(count(&self.unsent));
                    self.unsent.clear();
                }
                self.note_failure(&fault.cause);
                false
            }
        }
    }

    /// Sends a batch. Returns the number of spans that the collector rejected.
    async fn send(&self, batch: &[FinishedSpan]) -> Result<u64, ExportFault> {
        let body = otlp::encode(batch, env!("CARGO_PKG_VERSION"));
        let access = self.access.borrow().clone();
        let request = access.prepare(body).map_err(|_| ExportFault {
            cause: FaultCause::Word("a header cannot be sent"),
            may_pass: false,
        })?;
        let until = Instant::now() + EXPORT_TIMEOUT;
        let answered = http::ask_configured(access.server, until, request).await;
        let answer = answered
            .map_err(|fault| ExportFault { cause: FaultCause::Exchange(fault), may_pass: true })?;
        read_answer(&answer)
    }

    /// Returns the address of the collector.
    fn collector(&self) -> String {
        self.access.borrow().server.origin.to_string()
    }

    /// Logs the beginning of failures, and lengthens the pause.
    fn note_failure(&mut self, why: &FaultCause) {
        let Some(pause) = self.pause else {
            self.pause = Some(FIRST_PAUSE);
            self.dropped_before = self.tracer.figures().dropped;
            let collector = self.collector();
            let pairs = [
                ("collector", collector),
                cause(why),
                ("effect", "requests are served; spans that do not fit the queue are lost".into()),
            ];
            return self.log.line(LogLevel::Warn, "trace-export-failing", &pairs);
        };
        self.pause = Some((pause * 2).min(LONGEST_PAUSE));
    }

    /// Logs the end of failures.
    fn end_failures(&mut self) {
        if self.pause.take().is_some() {
            let dropped = self.tracer.figures().dropped.saturating_sub(self.dropped_before);
            let collector = self.collector();
            let pairs = [("collector", collector), ("dropped-spans", dropped.to_string())];
            self.log.line(LogLevel::Info, "trace-export-restored", &pairs);
        }
    }
}

/// Returns the number of rejected spans of an answer. Only the statuses of OTLP for
/// temporary failures allow another attempt.
fn read_answer(answer: &HttpAnswer) -> Result<u64, ExportFault> {
    let refused = |cause, may_pass| Err(ExportFault { cause, may_pass });
    match answer.status {
        200..=299 => match otlp::rejected_spans(&answer.body) {
            Some(rejected) => Ok(rejected),
            None => refused(FaultCause::Word("the answer of the collector is not OTLP"), false),
        },
        300..=399 => {
            let why = "the collector redirects, and redirects are not followed; correct \
                       otlp_endpoint";
            refused(FaultCause::Word(why), false)
        }
        status @ (429 | 502 | 503 | 504) => refused(FaultCause::Status(status), true),
        status => refused(FaultCause::Status(status), false),
    }
}

fn count(spans: &[FinishedSpan]) -> u64 {
    u64::try_from(spans.len()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests;

//! The signals of the server: SIGTERM and SIGINT stop, SIGHUP reads files again.
//!
//! This file prevents a stop that no operator can hurry: a second signal ends the process at once.
//! The data stay consistent, because the store survives the death of the process at any moment.

use crate::config::Config;
use crate::log::ServerLog;
use crate::options::LogOptions;
use crate::service_manager::ServiceManager;
use crate::trace_export::ExportSettings;
use bulkhead_access::log::Log;
use bulkhead_api::Service;
use bulkhead_tls::ListenerTls;
use bulkhead_wire::log_level::LogLevel;
use std::convert::Infallible;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use tokio::signal::unix::{Signal, SignalKind, signal};

/// Exit code of a process that was stopped by a second signal.
const STOPPED_AT_ONCE: i32 = 1;

/// The server's signals. They are caught from the start, so that an early signal still closes the
/// data and, in dev mode, removes them.
pub(crate) struct ServerSignals {
    stop: StopSignals,
    hangup: Signal,
}

/// The signals that end the process.
pub(crate) struct StopSignals {
    terminate: Signal,
    interrupt: Signal,
}

/// The parts of the server that follow SIGHUP.
pub(crate) struct RenewedParts {
    pub(crate) service: Arc<Service>,
    pub(crate) tls: Vec<Arc<ListenerTls>>,
    pub(crate) manager: ServiceManager,
    pub(crate) log: LogSource,
    /// The settings of the export, if the configuration names a collector.
    pub(crate) traces: Option<ExportSettings>,
    /// File of the configuration, if there is one.
    pub(crate) config_file: Option<PathBuf>,
}

/// The log, and the settings of the command line, which keep their precedence.
pub(crate) struct LogSource {
    pub(crate) log: Arc<ServerLog>,
    pub(crate) options: LogOptions,
}

impl ServerSignals {
    /// Begins to catch the signals.
    ///
    /// # Errors
    /// The system has no descriptor left.
    pub(crate) fn catch() -> io::Result<Self> {
        let terminate = signal(SignalKind::terminate())?;
        let interrupt = signal(SignalKind::interrupt())?;
        let hangup = signal(SignalKind::hangup())?;
        Ok(Self { stop: StopSignals { terminate, interrupt }, hangup })
    }

    /// Waits for SIGTERM or SIGINT, and returns the name of the signal.
    pub(crate) async fn next_stop(&mut self) -> &'static str {
        self.stop.next().await
    }

    /// Waits for SIGTERM or SIGINT, even while a reopened audit device hangs. Returns the name of
    /// the signal, and the signals to wait for a second one.
    pub(crate) async fn until_stopped(self, renewed: RenewedParts) -> (&'static str, StopSignals) {
        let Self { mut stop, hangup } = self;
        let name = tokio::select! {
            name = stop.next() => name,
            never = renewed.renew_at_each(hangup) => match never {},
        };
        (name, stop)
    }
}

impl StopSignals {
    async fn next(&mut self) -> &'static str {
        tokio::select! {
            _ = self.terminate.recv() => "SIGTERM",
            _ = self.interrupt.recv() => "SIGINT",
        }
    }

    /// Ends the process at the next SIGTERM or SIGINT.
    pub(crate) async fn exit_at_next(mut self, log: Arc<dyn Log>) {
        let name = self.next().await;
        log.line(LogLevel::Warn, "stopped-at-once", &[("signal", name.to_owned())]);
        std::process::exit(STOPPED_AT_ONCE)
    }
}

impl RenewedParts {
    /// Reopens the log and the audit files and rereads the certificate at each SIGHUP, which an
    /// operator sends after rotating the files. The files of the collector are read again, too. Of
    /// the configuration, only the level of the log and the ratio of sampled traces are read again:
    /// half of the settings cannot change in a running server.
    async fn renew_at_each(self, mut hangup: Signal) -> Infallible {
        while hangup.recv().await.is_some() {
            let pairs = [
                ("signal", "SIGHUP".to_owned()),
                (
                    "configuration",
                    "unchanged until the next start, but for log_level and sample_ratio".to_owned(),
                ),
            ];
            self.log.log.reopen().await;
            self.log.log.line(LogLevel::Info, "reopening-audit", &pairs);
            self.manager.reloading().await;
            self.renew_settings();
            if let Some(traces) = &self.traces {
                traces.renew_access(&*self.log.log);
            }
            self.service.reopen_audit().await;
            for tls in &self.tls {
                tls.renew().await;
            }
            self.manager.ready().await;
        }
        std::future::pending().await
    }

    fn renew_settings(&self) {
        let Some(file) = &self.config_file else { return };
        let LogSource { log, options } = &self.log;
        let Ok(config) = Config::read(file) else {
            let pairs = [("remedy", "bulkhead server --config FILE --check".to_owned())];
            return log.line(LogLevel::Warn, "configuration-not-read", &pairs);
        };
        if let Some(traces) = &self.traces {
            traces.tracer().set_ratio(config.telemetry.sample_ratio);
        }
        let level = options.over(&config.log).level;
        log.threshold().configure(level);
        let pairs = [("log-level", level.word().to_owned())];
        log.line(LogLevel::Info, "log-level-read", &pairs);
    }
}

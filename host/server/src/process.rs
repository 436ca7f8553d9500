//! The server process in both modes: start and end.

use crate::config::{Config, ListenerConfig, ShutdownSettings};
use crate::connection_slots::{MAX_CONNECTIONS, MAX_WAITING_CONNECTIONS};
use crate::database_wait::await_database;
use crate::handed_sockets::{HandedSockets, ListenerSockets};
use crate::hardening::raise_descriptor_limit;
use crate::listener::{self, BoundSocket, DrainOutcome, ListenerLimits};
use crate::log::ServerLog;
use crate::options::LogOptions;
use crate::seal_wrapper::{self, KeeperSurroundings};
use crate::service_manager::ServiceManager;
use crate::signals::{LogSource, RenewedParts, ServerSignals};
use crate::trace_export::TraceExporter;
use bulkhead_access::log::{Log, cause};
use bulkhead_api::Service;
use bulkhead_core::seal_setting::SealSetting;
use bulkhead_core::{OfficialComponent, OfficialSeal, ServiceSettings};
use bulkhead_outbound::proxy::OutboundNetwork;
use bulkhead_sandbox::SandboxRuntime;
use bulkhead_store::StoreOptions;
use bulkhead_wire::duration;
use bulkhead_wire::log_level::LogLevel;
use bulkhead_wire::server_figures::ServerFigures;
use std::io::{self, Write};
use std::sync::Arc;
use tokio::sync::watch;
use tokio::time::Instant;

/// The parts of the process that exist before its configuration is known.
pub struct ServerProcess {
    /// The command that the user typed, for the suggested commands.
    pub program: String,
    /// The components built into the binary.
    pub officials: Vec<OfficialComponent>,
    /// The seal plugins built into the binary.
    pub seals: Vec<OfficialSeal>,
    /// Listening sockets that the service manager handed over.
    pub sockets: HandedSockets,
    /// The log of the server.
    pub log: Arc<ServerLog>,
    /// Settings of the log on the command line.
    pub log_options: LogOptions,
}

impl ServerProcess {
    /// Gives the log the settings of the configuration and of the command line.
    ///
    /// # Errors
    /// The file of the log cannot be opened.
    pub(crate) fn configure_log(&self, config: &Config) -> Result<(), String> {
        self.log.configure(&self.log_options.over(&config.log))
    }
}

/// A started service with bound listeners that do not accept yet. Early clients wait in the
/// system's accept queue.
pub(crate) struct StartedServer {
    service: Arc<Service>,
    config: Config,
    doors: Vec<BoundSocket>,
    /// The scheduler's own listener, if any.
    scheduler: Option<(ListenerConfig, Vec<BoundSocket>)>,
    signals: ServerSignals,
    manager: ServiceManager,
    log: Arc<dyn Log>,
    log_source: LogSource,
    /// The export of traces, if configured.
    traces: Option<TraceExporter>,
}

impl StartedServer {
    /// Installs the signal handlers, opens the sockets and opens the data directory, in this
    /// order: the steps that are cheapest to undo come first. `elsewhere` tells the operator how to
    /// choose another address, for the error message.
    ///
    /// # Errors
    /// The step that failed and its remedy.
    pub(crate) async fn start(
        process: ServerProcess,
        config: Config,
        elsewhere: &str,
    ) -> Result<Self, String> {
        let ServerProcess { officials, seals, sockets, log: server_log, log_options, .. } = process;
        let log: Arc<dyn Log> = Arc::clone(&server_log) as Arc<dyn Log>;
        let log_source = LogSource { log: Arc::clone(&server_log), options: log_options };
        tokio::spawn(async move { server_log.report_floods().await });
        let signals = ServerSignals::catch()
            .map_err(|error| format!("signals cannot be received: {error}"))?;
        let environment = |name: &str| std::env::var_os(name);
        let manager = ServiceManager::of_environment(&environment, &log);
        let (retries, config) =
            (config.database.connect_retries(), config.with_database(&environment)?);
        let store = config.store_options(&environment)?;
        let outbound = config.outbound.load(&environment)?;
        config.check_snapshot_directories().map_err(|failure| failure.message)?;
        let sockets = sockets.assign(&config).await?;
        let doors = BoundSocket::open_all(&config.listener, sockets.api, elsewhere, &log).await?;
        let scheduler = open_scheduler(&config, sockets.scheduler, &log).await?;
        let every_door = || doors.iter().chain(scheduler.iter().flat_map(|(_, doors)| doors));
        let own_addresses: Vec<_> = every_door().filter_map(BoundSocket::address).collect();
        let figures = ServerFigures {
            listeners: every_door().map(BoundSocket::figures).cloned().collect(),
            log: Arc::clone(log_source.log.figures()),
        };
        await_database(&store, retries, &*log).await;
        let runtime = SandboxRuntime::new()?;
        let seal = config.seal.load(&environment, &|access| {
            let surroundings = KeeperSurroundings {
                seals: seals.clone(),
                runtime: Arc::clone(&runtime),
                own_addresses: own_addresses.clone(),
                outbound: outbound.clone(),
                log: seal_wrapper::lines_to(&log),
            };
            seal_wrapper::keeper(access, surroundings)
        })?;
        let traces = TraceExporter::start(&config.telemetry, &outbound, &log)?;
        let settings = ServiceSettings {
            store,
            own_addresses,
            outbound,
            seal,
            figures,
            traces: traces.as_ref().map(|traces| Arc::clone(traces.tracer())),
            own_url: doors.iter().find_map(BoundSocket::dialled_url).unwrap_or_default(),
            log_threshold: Arc::clone(log_source.log.threshold()),
            log_monitors: Arc::clone(log_source.log.monitors()),
            ..service_settings(&config, officials, &log)
        };
        let service = Service::start(runtime, settings).await;
        let service = service.map_err(|failure| failure.message)?;
        Ok(Self { service, config, doors, scheduler, signals, manager, log, log_source, traces })
    }

    /// The service, for the preparations of a mode before the server accepts clients.
    pub(crate) fn service(&self) -> &Arc<Service> {
        &self.service
    }

    /// Does `work` unless SIGTERM or SIGINT comes before; then returns `None`.
    pub(crate) async fn unless_stopped<T>(&mut self, work: impl Future<Output = T>) -> Option<T> {
        let name = tokio::select! {
            done = work => return Some(done),
            name = self.signals.next_stop() => name,
        };
        self.log.line(LogLevel::Info, "stopping", &[("signal", name.to_owned())]);
        self.service.end_waiting();
        None
    }

    /// Stops the service before the server has accepted a client.
    ///
    /// # Errors
    /// Never; the end of [`StartedServer::serve`] has the same form.
    pub(crate) async fn stop_early(self) -> Result<(), String> {
        self.end_unserved().await;
        Ok(())
    }

    /// Stops the service, and writes the last spans and counts. No client was accepted.
    async fn end_unserved(self) {
        self.service.stop().await;
        if let Some(traces) = self.traces {
            traces.finish(Instant::now() + self.config.shutdown.timeout).await;
        }
        self.log_source.log.report_last_floods();
        self.log.line(LogLevel::Info, "stopped", &[("all-requests-answered", true.to_string())]);
    }

    /// The configuration of the server.
    pub(crate) fn config(&self) -> &Config {
        &self.config
    }

    /// Returns the URLs of the listener, with the bound port.
    pub(crate) fn urls(&self) -> Vec<String> {
        self.doors.iter().map(BoundSocket::url).collect()
    }

    /// Returns the URLs of the scheduler's own listener.
    pub(crate) fn scheduler_urls(&self) -> Vec<String> {
        self.scheduler.iter().flat_map(|(_, doors)| doors).map(BoundSocket::url).collect()
    }

    /// Serves until SIGTERM or SIGINT if `prepared` is `Ok`, and then for `shutdown_delay`. Stops
    /// the service in either case.
    ///
    /// # Errors
    /// The error of `prepared`.
    pub(crate) async fn serve(self, prepared: Result<(), String>) -> Result<(), String> {
        if prepared.is_err() {
            self.end_unserved().await;
            return prepared;
        }
        let Self { service, config, doors, scheduler, signals, manager, log, log_source, traces } =
            self;
        let every_door = doors.iter().chain(scheduler.iter().flat_map(|(_, doors)| doors));
        let tls = every_door.filter_map(BoundSocket::tls).cloned().collect();
        let (shutdown, server_log) = (config.shutdown, Arc::clone(&log_source.log));
        let listeners = 1 + u64::from(scheduler.is_some());
        let descriptors = raise_descriptor_limit() / listeners;
        let (stopping, stopped) = watch::channel(false);
        let stop = || {
            let mut stopped = stopped.clone();
            // An error means that the sender is gone: the process is stopping as well.
            async move { _ = stopped.wait_for(|stopped| *stopped).await }
        };
        let serve = |doors, config: ListenerConfig| {
            let most =
                if config.own_mount.is_some() { MAX_WAITING_CONNECTIONS } else { MAX_CONNECTIONS };
            let connections = listener::connection_limit(descriptors, most, &log);
            let limits = ListenerLimits {
                drain_time: shutdown.drain_time(),
                ..ListenerLimits::new(config, connections)
            };
            listener::serve(doors, Arc::clone(&service), limits, Arc::clone(&log), stop())
        };
        let of_scheduler = async {
            match scheduler {
                Some((config, doors)) => serve(doors, config).await,
                None => DrainOutcome { is_complete: true, cut: 0 },
            }
        };
        let renewed = RenewedParts {
            service: Arc::clone(&service),
            tls,
            manager: manager.clone(),
            log: log_source,
            traces: traces.as_ref().map(TraceExporter::settings),
            config_file: config.file.clone(),
        };
        let signalled = async {
            manager.ready().await;
            manager.follow(&service);
            let (signal, next) = signals.until_stopped(renewed).await;
            tokio::spawn(next.exit_at_next(Arc::clone(&log)));
            let stop = Stop { service: &service, manager: &manager, log: &server_log };
            let deadline = stop.begin(signal, shutdown).await;
            stopping.send_replace(true);
            deadline
        };
        let (of_api, of_scheduler, deadline) =
            tokio::join!(serve(doors, config.listener), of_scheduler, signalled);
        let stop = Stop { service: &service, manager: &manager, log: &server_log };
        stop.finish([of_api, of_scheduler], traces, deadline).await;
        Ok(())
    }
}

/// The orderly stop of a server.
struct Stop<'a> {
    service: &'a Service,
    manager: &'a ServiceManager,
    log: &'a ServerLog,
}

impl Stop<'_> {
    /// Announces the stop, and returns after `shutdown_delay`, during which every request is
    /// served, with the time at which the process has to end.
    async fn begin(&self, signal: &str, shutdown: ShutdownSettings) -> Instant {
        self.service.begin_stopping();
        let delay = duration::show(shutdown.delay.as_secs());
        self.log.line(
            LogLevel::Info,
            "stopping",
            &[("signal", signal.to_owned()), ("delay", delay)],
        );
        tokio::join!(self.manager.stopping(), tokio::time::sleep(shutdown.delay));
        self.service.end_waiting();
        self.log.monitors().close("the server stops");
        Instant::now() + shutdown.timeout
    }

    /// Closes the store, until `deadline` at most: a store that is not closed is recovered at the
    /// next start, as after the death of the process. Then sends the last spans.
    async fn finish(
        &self,
        listeners: [DrainOutcome; 2],
        traces: Option<TraceExporter>,
        deadline: Instant,
    ) {
        // The other half of the rest is for the closing of the store.
        let patience = deadline.saturating_duration_since(Instant::now()) / 2;
        let stop = self.service.stop_within(patience);
        let is_closed = tokio::time::timeout_at(deadline, stop).await.is_ok();
        if let Some(traces) = traces {
            traces.finish(deadline).await;
        }
        let is_complete = listeners.iter().all(|listener| listener.is_complete);
        self.log.report_last_floods();
        let cut: usize = listeners.iter().map(|listener| listener.cut).sum();
        let level = if is_complete && is_closed { LogLevel::Info } else { LogLevel::Warn };
        let pairs = [
            ("all-requests-answered", is_complete.to_string()),
            ("connections-cut", cut.to_string()),
            ("store-closed", is_closed.to_string()),
        ];
        self.log.line(level, "stopped", &pairs);
    }
}

/// Opens the scheduler's own listener, if configured. The default address of dev mode may be taken
/// by another server of the same user, so that its failure is only a warning.
async fn open_scheduler(
    config: &Config,
    sockets: ListenerSockets,
    log: &Arc<dyn Log>,
) -> Result<Option<(ListenerConfig, Vec<BoundSocket>)>, String> {
    let Some(listener) = &config.scheduler else { return Ok(None) };
    let elsewhere = "in listener \"scheduler\" { address = \"HOST:PORT\" }, or with \
                     --dev-scheduler-listen-address HOST:PORT";
    match BoundSocket::open_all(listener, sockets, elsewhere, log).await {
        Ok(doors) => Ok(Some((listener.clone(), doors))),
        Err(_) if config.scheduler_is_optional => {
            let pairs = [
                ("address", listener.address.clone().unwrap_or_default()),
                cause(&"another program has the address"),
                ("remedy", "--dev-scheduler-listen-address HOST:PORT".to_owned()),
            ];
            log.line(LogLevel::Warn, "scheduler-not-listening", &pairs);
            Ok(None)
        }
        Err(why) => Err(why),
    }
}

/// Prints a line for each URL.
pub(crate) fn print_urls(urls: &[String], out: &mut dyn Write) -> io::Result<()> {
    urls.iter().try_for_each(|url| writeln!(out, "listening on {url}"))
}

/// Builds the service settings. The caller adds a database other than SQLite, the level and the
/// monitors of the log, and the bound addresses, the outbound settings and the seal, which are
/// known only after the bind and after the files are read.
pub(crate) fn service_settings(
    config: &Config,
    officials: Vec<OfficialComponent>,
    log: &Arc<dyn Log>,
) -> ServiceSettings {
    ServiceSettings {
        store: StoreOptions::at(&config.data),
        seal: SealSetting::Shamir,
        officials,
        // Always the running binary, even if another file has replaced it on disk.
        compiler: "/proc/self/exe".into(),
        plugin_directory: config.plugin_directory.clone(),
        plugin_signatures: config.plugin_signatures.clone(),
        default_lease_ttl: config.default_lease_ttl,
        max_lease_ttl: config.max_lease_ttl,
        request_timeout: config.listener.request_time,
        suspend_due_work: config.suspend_due_work,
        allow_key_holders: config.allow_key_holders,
        reported_version: config.reported_version.clone(),
        api_address: config.api_address.clone(),
        configuration: config.shown(),
        own_url: String::new(),
        own_addresses: Vec::new(),
        ambient: config.ambient.clone(),
        outbound: OutboundNetwork::default(),
        snapshots: config.snapshots.clone(),
        audit: config.audit.clone(),
        log: Arc::clone(log),
        log_threshold: Arc::default(),
        log_monitors: Arc::default(),
        figures: ServerFigures::default(),
        traces: None,
    }
}

//! A server's process, in either mode: what it brings along, where it is, how it starts and how
//! it ends.

use crate::config::{Config, ListenerConfig};
use crate::connection_slots::{MOST, MOST_THAT_WAIT};
use crate::hardening::raise_descriptor_limit;
use crate::listener::{self, Door, Limits};
use crate::tls::Tls;
use bulkhead_core::log::{Log, cause};
use bulkhead_core::{Official, Service, Settings};
use bulkhead_sandbox::Outbound;
use std::convert::Infallible;
use std::io::{self, Write};
use std::sync::Arc;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::watch;

/// What the process brings along.
pub struct Process {
    /// How the user called the program, for the commands to try.
    pub program: String,
    /// The components inside the binary.
    pub officials: Vec<Official>,
    /// Where log lines go.
    pub log: Arc<dyn Log>,
}

/// A service behind doors that are not served yet: clients that come already wait in the system's
/// queue.
pub(crate) struct Server {
    service: Arc<Service>,
    config: Config,
    doors: Vec<Door>,
    /// The scheduler's own listener.
    scheduler: Option<(ListenerConfig, Vec<Door>)>,
    signals: Signals,
    log: Arc<dyn Log>,
}

impl Server {
    /// Takes the signals, the addresses and the data directory, in this order: what fails first is
    /// what costs nothing to take back. `elsewhere` says how another address is chosen, for the
    /// advice when this one cannot be had.
    ///
    /// # Errors
    /// What could not be had, and what to do.
    pub(crate) async fn start(
        process: Process,
        config: Config,
        elsewhere: &str,
    ) -> Result<Self, String> {
        let Process { officials, log, .. } = process;
        let signals =
            Signals::catch().map_err(|error| format!("signals cannot be received: {error}"))?;
        let outbound = config.outbound.load(&|name| std::env::var_os(name))?;
        let doors = Door::open_all(&config.listener, elsewhere, &log).await?;
        let scheduler = open_scheduler(&config, &log).await?;
        let of_scheduler = scheduler.iter().flat_map(|(_, doors)| doors);
        let settings = Settings {
            own_addresses: doors.iter().chain(of_scheduler).filter_map(Door::address).collect(),
            outbound,
            own_url: doors.iter().find_map(Door::dialled_url).unwrap_or_default(),
            ..service_settings(&config, officials, &log)
        };
        let service = Service::start(settings).await.map_err(|failure| failure.message)?;
        Ok(Self { service, config, doors, scheduler, signals, log })
    }

    /// The service, for what a mode does before it is served.
    pub(crate) fn service(&self) -> &Arc<Service> {
        &self.service
    }

    /// The configuration of the server.
    pub(crate) fn config(&self) -> &Config {
        &self.config
    }

    /// Where it listens, with the port that it really got.
    pub(crate) fn urls(&self) -> Vec<String> {
        self.doors.iter().map(Door::url).collect()
    }

    /// Where the scheduler's own listener is.
    pub(crate) fn scheduler_urls(&self) -> Vec<String> {
        self.scheduler.iter().flat_map(|(_, doors)| doors).map(Door::url).collect()
    }

    /// Serves until SIGTERM or SIGINT, if what the mode did before went well; ends the service in
    /// either case.
    ///
    /// # Errors
    /// That of `prepared`.
    pub(crate) async fn serve(self, prepared: Result<(), String>) -> Result<(), String> {
        let Self { service, config, doors, scheduler, signals, log } = self;
        if prepared.is_err() {
            service.stop().await;
            return prepared;
        }
        let every_door = doors.iter().chain(scheduler.iter().flat_map(|(_, doors)| doors));
        let tls = every_door.filter_map(Door::tls).cloned().collect();
        let listeners = 1 + u64::from(scheduler.is_some());
        let descriptors = raise_descriptor_limit() / listeners;
        let (stopping, stopped) = watch::channel(false);
        let stop = || {
            let mut stopped = stopped.clone();
            // An error means that the sender is gone, which is an end, too.
            async move { _ = stopped.wait_for(|stopped| *stopped).await }
        };
        let serve = |doors, config: ListenerConfig| {
            let most = if config.own_mount.is_some() { MOST_THAT_WAIT } else { MOST };
            let connections = listener::connection_limit(descriptors, most, &log);
            let limits = Limits { config, connections };
            listener::serve(doors, Arc::clone(&service), limits, Arc::clone(&log), stop())
        };
        let of_scheduler = async {
            match scheduler {
                Some((config, doors)) => serve(doors, config).await,
                None => true,
            }
        };
        let signalled = async {
            signals.until_stopped(&service, tls, &log).await;
            service.end_waiting();
            stopping.send_replace(true);
        };
        let (of_api, of_scheduler, ()) =
            tokio::join!(serve(doors, config.listener), of_scheduler, signalled);
        let complete = of_api && of_scheduler;
        service.stop().await;
        let level = if complete { "info" } else { "warn" };
        log.line(level, "stopped", &[("all-requests-answered", complete.to_string())]);
        Ok(())
    }
}

/// The scheduler's own listener, where there is one. An address that only dev mode chose may be
/// taken by another server of the same user.
async fn open_scheduler(
    config: &Config,
    log: &Arc<dyn Log>,
) -> Result<Option<(ListenerConfig, Vec<Door>)>, String> {
    let Some(listener) = &config.scheduler else { return Ok(None) };
    let elsewhere = "in listener \"scheduler\" { address = \"HOST:PORT\" }, or with \
                     --dev-scheduler-listen-address HOST:PORT";
    match Door::open_all(listener, elsewhere, log).await {
        Ok(doors) => Ok(Some((listener.clone(), doors))),
        Err(_) if config.scheduler_is_optional => {
            let pairs = [
                ("address", listener.address.clone().unwrap_or_default()),
                cause(&"another program has the address"),
                ("remedy", "--dev-scheduler-listen-address HOST:PORT".to_owned()),
            ];
            log.line("warn", "scheduler-not-listening", &pairs);
            Ok(None)
        }
        Err(why) => Err(why),
    }
}

/// Says where a server listens, on a line for each place.
pub(crate) fn print_urls(urls: &[String], out: &mut dyn Write) -> io::Result<()> {
    urls.iter().try_for_each(|url| writeln!(out, "listening on {url}"))
}

/// The part of the configuration that the service needs. Where it listens is known once the address
/// is bound, and how it reaches others once the files for that are read.
pub(crate) fn service_settings(
    config: &Config,
    officials: Vec<Official>,
    log: &Arc<dyn Log>,
) -> Settings {
    Settings {
        directory: config.data.clone(),
        officials,
        // The very file that runs, also where another lies in its place by now.
        compiler: "/proc/self/exe".into(),
        default_lease_ttl: config.default_lease_ttl,
        max_lease_ttl: config.max_lease_ttl,
        request_timeout: config.listener.request_time,
        suspend_due_work: config.suspend_due_work,
        reported_version: config.reported_version.clone(),
        api_address: config.api_address.clone(),
        own_url: String::new(),
        own_addresses: Vec::new(),
        surroundings: config.surroundings.clone(),
        outbound: Outbound::default(),
        audit: config.audit.clone(),
        log: Arc::clone(log),
    }
}

/// The signals that a server knows. They are caught from the start, so that one that comes early
/// still lets the data be closed, and in dev mode removed.
struct Signals {
    terminate: Signal,
    interrupt: Signal,
    hangup: Signal,
}

impl Signals {
    fn catch() -> io::Result<Self> {
        Ok(Self {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
            hangup: signal(SignalKind::hangup())?,
        })
    }

    /// Ends with SIGTERM or SIGINT. A device that hangs while it is reopened holds up neither.
    async fn until_stopped(self, service: &Service, tls: Vec<Arc<Tls>>, log: &Arc<dyn Log>) {
        let Self { mut terminate, mut interrupt, hangup } = self;
        let name = tokio::select! {
            _ = terminate.recv() => "SIGTERM",
            _ = interrupt.recv() => "SIGINT",
            never = renew_at_each(hangup, service, tls, log) => match never {},
        };
        log.line("info", "stopping", &[("signal", name.to_owned())]);
    }
}

/// Opens the audit's files anew at each SIGHUP, which an operator sends after moving the old ones
/// away, and reads the certificate anew. The configuration is not read again: half of it could not
/// change under a running server.
async fn renew_at_each(
    mut hangup: Signal,
    service: &Service,
    tls: Vec<Arc<Tls>>,
    log: &Arc<dyn Log>,
) -> Infallible {
    while hangup.recv().await.is_some() {
        let pairs = [
            ("signal", "SIGHUP".to_owned()),
            ("configuration", "unchanged until the next start".to_owned()),
        ];
        log.line("info", "reopening-audit", &pairs);
        service.reopen_audit().await;
        for tls in &tls {
            tls.renew(log).await;
        }
    }
    std::future::pending().await
}

//! The service over a data directory, sealed or open.
//!
//! A sealed service answers only requests for its state, for initialisation and for unsealing,
//! because the keys are not in memory. Sealing drops every key, session and claim, with the last
//! running request. The next unsealing waits for the end of such a request and undoes any change
//! that the request could not store.

mod body_admission;
mod included_state;
mod lost_claim;
mod open_metrics;
mod restore;
mod self_initialisation;

pub use body_admission::BodyAdmission;
pub use self_initialisation::{InitialBlock, InitialRequest, InitialValue};

use crate::endpoints::{self, EndpointHandler, HostTable, OpenScrapes};
use crate::file_reception::FileReceptions;
use crate::pipeline;
use bulkhead_access::request_metrics::RequestOutcome;
use bulkhead_access::sealing::sealed_failure;
use bulkhead_core::process::ProcessState;
use bulkhead_core::seal::{SealStatus, ServiceSeal};
use bulkhead_core::settings::ServiceSettings;
use bulkhead_core::tables::RouteTables;
use bulkhead_sandbox::{CallerPresence, SandboxRuntime};
use bulkhead_store::{DataDirectory, StoreOptions, failpoint};
use bulkhead_trace::{CallerTrace, RequestTrace, scope};
use bulkhead_wire::description::{RawAccess, Verb};
use bulkhead_wire::failure::{Failure, FailureKind};
use bulkhead_wire::name::MountPath;
use bulkhead_wire::raw::{RawBasePath, RawRequest, RawResponse};
use bulkhead_wire::request::{Request, RequestHead};
use bulkhead_wire::response::Response;
use bulkhead_wire::secret::Secret;
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;

/// Default limit for a body of plain HTTP, in bytes.
const RAW_BODY: u64 = 1 << 20;

/// The state of the service, as a service manager shows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ServiceState {
    /// The data directory is empty.
    NotInitialised,
    /// The keys are not in memory.
    Sealed,
    /// All requests are served.
    Unsealed,
    /// The process was asked to stop.
    Stopping,
}

fn stopping_failure() -> Failure {
    Failure::new(FailureKind::Unavailable, "the server stops; ask again")
}

/// Ends the trace of an answered request.
fn end_trace(trace: Option<RequestTrace>, status: u16) {
    if let Some(trace) = trace {
        trace.end(status, RequestOutcome::of_status(status).word());
    }
}

fn body_limit(access: &RawAccess) -> u64 {
    if access.body_limit == 0 { RAW_BODY } else { access.body_limit }
}

/// The running service.
pub struct Service {
    /// The endpoints of the host.
    table: HostTable,
    seal: Arc<ServiceSeal>,
    directory: Arc<DataDirectory>,
    receptions: FileReceptions,
    /// Metrics for callers without a token.
    scrapes: OpenScrapes,
}

impl Service {
    /// Locks the data directory, and serves on the runtime of the process, sealed until
    /// [`Service::handle`] or [`Service::open_dev`] opens the directory.
    ///
    /// # Errors
    /// The reason that keeps the service from starting, in words for the operator: a directory in
    /// use or with a foreign database, an audit device that cannot be opened.
    pub async fn start(
        runtime: Arc<SandboxRuntime>,
        settings: ServiceSettings,
    ) -> Result<Arc<Self>, Failure> {
        let directory = DataDirectory::hold(settings.store.clone()).await?;
        bulkhead_audit::check(&settings.audit).await?;
        let table = endpoints::table().map_err(Failure::internal)?;
        let receptions = FileReceptions::new(&settings.store.directory);
        let process = Arc::new(ProcessState::new(settings, runtime, &directory));
        let seal = Arc::new(ServiceSeal::new(process, Arc::clone(&directory)));
        lost_claim::begin(&seal);
        let scrapes = OpenScrapes::default();
        Ok(Arc::new(Self { table, seal, directory, receptions, scrapes }))
    }

    /// Returns whether a server, in this process or another, runs with the data directory.
    ///
    /// # Errors
    /// If the directory cannot be read.
    pub fn is_running_with(directory: &Path) -> Result<bool, Failure> {
        Ok(DataDirectory::is_held(directory)?)
    }

    /// Checks that the database of a store without a running server can be opened by this version.
    /// Nothing is created or changed.
    ///
    /// # Errors
    /// The reason why a start would refuse the store.
    pub async fn examine(store: &StoreOptions) -> Result<(), Failure> {
        Ok(DataDirectory::examine(store).await?)
    }

    /// Returns the file with the key of a dev seal, if the data directory has such a file. The
    /// directory alone is then enough to unseal.
    pub fn dev_key_file(&self) -> Option<PathBuf> {
        bulkhead_store::dev_key_file(&self.directory)
    }

    /// Unseals the directory with the automatic seal of the configuration, if there is one and the
    /// data are sealed by it. If the key is kept by another server that gives no key, the service
    /// stays sealed and opens later.
    ///
    /// # Errors
    /// The reason why the service stays sealed, in words for the operator.
    pub async fn open_at_start(&self) -> Result<(), Failure> {
        self.seal.open_at_start().await
    }

    /// Returns the state of the seal.
    ///
    /// # Errors
    /// If the data directory cannot be read.
    pub async fn seal_status(&self) -> Result<SealStatus, Failure> {
        self.seal.status().await
    }

    /// Unseals the directory with the dev key beside the data, and initialises an empty directory
    /// before. Then provisions dev mode: `root_token`, and every plugin at its default path.
    ///
    /// # Errors
    /// The reason why the service stays sealed, in words for the operator.
    pub async fn open_dev(&self, root_token: &Secret) -> Result<(), Failure> {
        self.seal.open_dev(root_token).await
    }

    /// Returns the only share of the dev seal, in base64.
    ///
    /// # Errors
    /// If the directory has no dev seal.
    pub async fn dev_unseal_key(&self) -> Result<Secret, Failure> {
        let key = bulkhead_store::dev_key(&self.directory)?;
        Ok(Secret::new(key.share().base64().as_str()))
    }

    /// Returns the tables of all served rows, or `None` while sealed, when the plugins are not
    /// loaded.
    #[must_use]
    pub fn tables(&self) -> Option<RouteTables> {
        self.seal.core().map(|core| RouteTables::of(self.table.rows(), &core.catalog))
    }

    /// Returns whether a request has a valid token, or the look-up fails. Takes no use of a token.
    pub async fn has_token(&self, head: &RequestHead<'_>) -> bool {
        let Some((core, _in_flight)) = self.seal.enter().await else { return false };
        core.tokens.is_held(head.token, head.remote).await.unwrap_or(true)
    }

    /// Returns the headers that an operator wants in the audit log, by lower-case name. The value
    /// is true for a header with a hashed value.
    #[must_use]
    pub fn audited_headers(&self) -> Arc<BTreeMap<String, bool>> {
        self.seal.core().map(|core| core.audit.request_headers()).unwrap_or_default()
    }

    /// Serves one request. Never fails: each failure is a response.
    pub async fn handle(self: &Arc<Self>, request: Request) -> Response {
        let parent = self.caller_trace(&request).await;
        let trace = self.begin_trace(&request.id, parent);
        let context = trace.as_ref().map(|trace| trace.context().clone());
        let answer = self.answer(&request);
        let response = scope::in_request(&request.id, context, answer).await;
        end_trace(trace, response.status);
        failpoint::reach_only("answer.leaves");
        response
    }

    /// Returns whether the service reads the trace context of requests.
    #[must_use]
    pub fn is_tracing(&self) -> bool {
        self.seal.settings().traces.is_some()
    }

    /// Begins the trace of a request; `None` without a collector, and for a request outside of
    /// traces.
    fn begin_trace(&self, id: &str, caller: Option<CallerTrace<'_>>) -> Option<RequestTrace> {
        self.seal.settings().traces.as_ref()?.begin_request(id, caller)
    }

    /// Returns the trace of the caller. The flag counts if the request has a valid token.
    async fn caller_trace<'a>(&self, request: &'a Request) -> Option<CallerTrace<'a>> {
        let parent = request.trace_parent.as_ref().filter(|_| self.is_tracing())?;
        let is_flag_counted = parent.is_sampled && self.is_of_caller(request).await;
        Some(CallerTrace { parent, is_flag_counted })
    }

    /// Returns whether a request has a valid token; `false` if the look-up fails.
    async fn is_of_caller(&self, request: &Request) -> bool {
        let Some((core, _in_flight)) = self.seal.enter().await else { return false };
        core.tokens.is_held(request.token.as_ref(), request.remote).await.unwrap_or(false)
    }

    async fn answer(self: &Arc<Self>, request: &Request) -> Response {
        let found = self.table.find(request.verb, &request.path);
        if let Ok(Some(found)) = &found
            && open_metrics::is_open(request)
        {
            return Box::pin(self.answer_open_metrics(&found.endpoint.route, request)).await;
        }
        if let Ok(Some(found)) = &found
            && let EndpointHandler::WhileSealed(handler) = &found.endpoint.answers
        {
            let route = &found.endpoint.route;
            // Reads cost nothing and are not audited, and load balancers send them: no rate limit.
            if request.verb == Verb::Write
                && let Err(refused) = self.seal.admit_stranger(request.remote).await
            {
                return Response::failed(&refused);
            }
            if let Some(refusal) = &request.refusal {
                return Response::failed(refusal);
            }
            let answered = endpoints::serve_while_sealed(&self.seal, route, handler, request);
            let answered = Box::pin(answered).await;
            return answered.unwrap_or_else(|failure| Response::failed(&failure));
        }
        let Some((core, in_flight)) = self.seal.enter().await else {
            let seals = matches!(&found, Ok(Some(found)) if found.endpoint.goes_unrecorded());
            return self.answer_closed(request, seals).await;
        };
        // Before the token loses a use.
        if let Err(failure) = included_state::catch_up(&core, request).await {
            return included_state::mark(&core, Response::failed(&failure)).await;
        }
        let response = pipeline::handle(&core, &self.table, request, found).await;
        let response = included_state::mark(&core, response).await;
        drop(in_flight);
        if let Some(prepared) = core.take_restore(&request.id) {
            return Box::pin(self.restore((core, prepared), request, response)).await;
        }
        if core.seal_is_asked() {
            Box::pin(self.seal.close_if(|open| Arc::ptr_eq(open, &core))).await;
        }
        response
    }

    /// Returns the place of a request by its URL, if the mount's component answers plain HTTP.
    /// `path` is the undecoded part behind `/v1/`. A row of the component's table takes precedence,
    /// see [`Service::is_row`].
    #[must_use]
    pub fn raw_place(&self, path: &str) -> Option<RawBasePath> {
        let core = self.seal.core()?;
        let (mount, _) = core.mounts.route(path.trim_end_matches('/'))?;
        let at = mount.record.path.as_str();
        path.strip_prefix(at)?;
        let access = mount.plugin.description().raw.as_ref()?;
        let base = format!("/v1/{at}");
        Some(RawBasePath { mount: mount.record.path.clone(), base, body_limit: body_limit(access) })
    }

    /// Returns whether a row of a component's table answers on the canonical `path`, for any verb.
    #[must_use]
    pub fn is_row(&self, path: &str) -> bool {
        let Some(core) = self.seal.core() else { return false };
        core.mounts.route(path).is_some_and(|(mount, below)| mount.table.has_path(below))
    }

    /// Returns the place of all requests to a separate listener of the mount.
    #[must_use]
    pub fn own_raw_place(&self, mount: &MountPath) -> RawBasePath {
        let mounted = self.seal.core().and_then(|core| core.mounts.at(mount));
        let access = mounted.and_then(|mount| mount.plugin.description().raw.clone());
        let body_limit = body_limit(&access.unwrap_or_default());
        RawBasePath { mount: mount.clone(), base: "/".to_owned(), body_limit }
    }

    /// Serves a request of plain HTTP. Never fails: each failure is a response. If the future is
    /// dropped, a request waiting for a change gives up its place, and a run that has changed
    /// nothing ends.
    pub async fn handle_raw(self: &Arc<Self>, request: RawRequest) -> RawResponse {
        let Some((core, in_flight)) = self.seal.enter().await else {
            return RawResponse::failed(&sealed_failure());
        };
        // Dropped with this future.
        let (_caller, presence) = CallerPresence::begin();
        let (service, id) = (Arc::clone(self), request.id.clone());
        // The host cannot verify the tokens of a component.
        let parent = request.trace_parent.as_ref();
        let caller = parent.map(|parent| CallerTrace { parent, is_flag_counted: false });
        let trace = self.begin_trace(&id, caller);
        let context = trace.as_ref().map(|trace| trace.context().clone());
        let served = tokio::spawn(async move {
            let work = pipeline::handle_raw(core, &service.table, request, in_flight, presence);
            scope::in_request(&id, context, work).await
        });
        let panicked = |_| RawResponse::failed(&Failure::internal("internal error"));
        let response = served.await.unwrap_or_else(panicked);
        end_trace(trace, response.status);
        failpoint::reach_only("answer.leaves");
        response
    }

    /// Checks that the client of a plain HTTP request is within the rate limit for
    /// unauthenticated callers, before the request's body is received. Counts nothing.
    ///
    /// # Errors
    /// 429 over the rate limit, after a delay.
    pub async fn check_raw(&self, remote: IpAddr) -> Result<(), Failure> {
        self.seal.check_stranger(remote).await
    }

    /// Returns whether the component knows the caller of a plain HTTP request, by the request's
    /// head: `request` has no body yet. If the future is dropped, the run ends.
    ///
    /// # Errors
    /// 429 over the rate limit for unauthenticated callers; 503 while sealed; failures of the
    /// component.
    pub async fn identify_raw(&self, request: RawRequest) -> Result<bool, Failure> {
        let (core, in_flight) = self.seal.enter().await.ok_or_else(sealed_failure)?;
        // Dropped with this future.
        let (_caller, presence) = CallerPresence::begin();
        let identified = tokio::spawn(async move {
            let is_known = pipeline::identify_raw(core, request, presence).await;
            drop(in_flight);
            is_known
        });
        identified.await.unwrap_or_else(|_| Err(Failure::internal("internal error")))
    }

    /// Notes that the process was asked to stop: `sys/health` answers 503 from then on, so that
    /// load balancers choose another server. Every other request is still served.
    pub fn begin_stopping(&self) {
        self.seal.begin_stopping();
    }

    /// Returns the state of the service. A data directory that cannot be read counts as sealed.
    pub async fn state(&self) -> ServiceState {
        if self.seal.is_stopping() {
            return ServiceState::Stopping;
        }
        match (self.seal.core(), self.seal.is_initialised().await) {
            (Some(_), _) => ServiceState::Unsealed,
            (None, Ok(false)) => ServiceState::NotInitialised,
            (None, Ok(true) | Err(_)) => ServiceState::Sealed,
        }
    }

    /// Returns a receiver that is notified when [`Service::state`] changes.
    #[must_use]
    pub fn state_changes(&self) -> watch::Receiver<()> {
        self.seal.changes()
    }

    /// Answers every request that waits for a change, refuses further waiting, and ends the
    /// migrations of mounts: for the end of the process.
    pub fn end_waiting(&self) {
        self.seal.end_waiting(&stopping_failure());
    }

    /// Opens the audit files again at the paths of the devices, after log rotation: for SIGHUP. If
    /// a file cannot be opened, logs the failure and keeps the old file. Does nothing while sealed,
    /// because unsealing opens the files.
    pub async fn reopen_audit(&self) {
        if let Some(core) = self.seal.core() {
            core.audit.reopen().await;
        }
    }

    /// Seals the service: for the end of the process, and for `sys/seal`. New requests are refused
    /// at once; requests in flight get a few seconds to end.
    pub async fn stop(&self) {
        self.seal.close_if(|_| true).await;
    }

    /// Seals the service like [`Service::stop`]; requests in flight get at most `patience` to end.
    pub async fn stop_within(&self, patience: Duration) {
        self.seal.close_within(patience).await;
    }
}

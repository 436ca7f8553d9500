//! The context of an instance that serves no call: no mount, no grant, no host services.

use crate::call_tree::CallTree;
use crate::compartment::Compartment;
use crate::context::CallContext;
use crate::database_plugin::DatabasePlugin;
use crate::grants::Grants;
use crate::host_services::{
    ConnectionChoice, HostServices, IdentityToken, ReservationRequest, TimerGuard, VisibleEntity,
};
use crate::identity::ComponentIdentity;
use crate::limits::MountLimits;
use async_trait::async_trait;
use bulkhead_store::Unit;
use bulkhead_wire::failure::Failure;
use bulkhead_wire::log_level::LogLevel;
use std::sync::{Arc, LazyLock};
use std::time::Duration;
use tokio::time::Instant;

/// Makes the context of an instance that is `doing` something until `deadline`, for no mount.
pub(crate) fn context(doing: &str, deadline: Instant) -> CallContext {
    CallContext {
        compartment: Compartment::new("", MountLimits::default()),
        grants: Arc::new(Grants::none(doing)),
        deadline,
        slots: 1,
        services: Arc::new(DetachedServices { lines: None }),
        tree: Arc::new(CallTree::default()),
        trace: None,
    }
}

/// Returns the context of idle instances, where no guest code runs. Made once, because the end of
/// every call sets this context.
pub(crate) fn idle_context() -> CallContext {
    static CONTEXT: LazyLock<CallContext> =
        LazyLock::new(|| context("between calls", Instant::now()));
    CONTEXT.clone()
}

/// Destination of a component's log lines: the severity, the component, the event and the pairs, as
/// in [`HostServices::log`].
pub type LogSink =
    Arc<dyn Fn(LogLevel, &ComponentIdentity, &str, &[(String, String)]) + Send + Sync>;

/// Returns the services of a call of no mount, which can only write `lines` to the operator's log.
pub(crate) fn logging_services(lines: LogSink) -> Arc<dyn HostServices> {
    Arc::new(DetachedServices { lines: Some(lines) })
}

/// The services of a call without host services.
struct DetachedServices {
    /// `None` drops log lines.
    lines: Option<LogSink>,
}

#[async_trait]
impl HostServices for DetachedServices {
    async fn password(&self, _unit: &mut Unit, _policy: &str) -> Result<String, Failure> {
        Err(impure_call_failure())
    }

    fn password_from(&self, _length: u32, _alphabet: &str) -> Result<String, Failure> {
        Err(impure_call_failure())
    }

    async fn identity_token(&self, _audience: &str, _ttl: u64) -> Result<IdentityToken, Failure> {
        Err(impure_call_failure())
    }

    async fn entity(&self, _id: &str) -> Result<Option<VisibleEntity>, Failure> {
        Err(impure_call_failure())
    }

    fn database_plugin(&self, _name: &str, _version: &str) -> Result<Arc<DatabasePlugin>, Failure> {
        Err(impure_call_failure())
    }

    async fn serving_plugin(
        &self,
        _connection: &str,
        _name: &str,
        _version: &str,
    ) -> Result<Arc<DatabasePlugin>, Failure> {
        Err(impure_call_failure())
    }

    async fn choose_plugin(
        &self,
        _unit: &mut Unit,
        _connection: &str,
        _choice: ConnectionChoice<'_>,
    ) -> Result<Arc<DatabasePlugin>, Failure> {
        Err(impure_call_failure())
    }

    fn release_plugin(&self, _unit: &mut Unit, _connection: &str) {}

    async fn load_database_plugin(&self, _plugin: &Arc<DatabasePlugin>) -> Result<(), Failure> {
        Err(impure_call_failure())
    }

    fn reserve(
        &self,
        _unit: &mut Unit,
        _reservation: ReservationRequest,
    ) -> Result<String, Failure> {
        Err(impure_call_failure())
    }

    async fn amend(&self, _unit: &mut Unit, _tag: &str, _internal: String) -> Result<(), Failure> {
        Err(impure_call_failure())
    }

    fn end_issued(&self, _unit: &mut Unit, _handle: &str) -> Result<(), Failure> {
        Err(impure_call_failure())
    }

    fn withdraw(&self, _tag: &str) -> Result<(), Failure> {
        Err(impure_call_failure())
    }

    fn guard(&self, _unit: &mut Unit, _guard: TimerGuard) -> Result<(), Failure> {
        Err(impure_call_failure())
    }

    fn earliest_wake(&self) -> u64 {
        0
    }

    fn widen_lane(&self, _lane: &str, _places: u32) {}

    fn rest_of_lane(&self, _lane: &str) -> Option<Duration> {
        None
    }

    async fn lease_count(&self, _lane: &str) -> Result<u32, Failure> {
        Err(impure_call_failure())
    }

    fn migration_cursor(&self) -> Result<Option<String>, Failure> {
        Err(impure_call_failure())
    }

    fn continue_migration(&self, _cursor: String) -> Result<(), Failure> {
        Err(impure_call_failure())
    }

    fn log(
        &self,
        level: LogLevel,
        plugin: &ComponentIdentity,
        event: &str,
        pairs: &[(String, String)],
    ) {
        if let Some(lines) = &self.lines {
            lines(level, plugin, event, pairs);
        }
    }
}

fn impure_call_failure() -> Failure {
    Failure::denied("describe must be pure: a component may not call an import during describe")
}

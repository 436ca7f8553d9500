//! Core services for calls outside of a request.

use super::CallServices;
use super::migration_step::MigrationStep;
use crate::core::Core;
use crate::mounts::{BreakerPass, Mount, OpenedMount};
use bulkhead_access::background::guards::CallGuards;
use bulkhead_sandbox::{
    CallPriority, CallScope, CallTree, HostServices, SlotPermit, SlotRequest, Termination, contract,
};
use bulkhead_wire::failure::Failure;
use bulkhead_wire::sync;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::time::Instant;

/// Maximum time for due work and renewals, which may have several effects in sequence.
const WORK_TIME: Duration = Duration::from_secs(90);
/// Milliseconds between the start of a wake and the first due time of its timers.
const WAKE_INTERVAL: u64 = 1_000;
/// Instance slots for due work and renewals, because any such call may reach a database plugin.
const INSTANCE_SLOTS: u32 = 2;

/// The services for a call outside of a request: the end or renewal of a lease, a timer, a
/// migration.
pub(crate) struct BackgroundServices {
    services: Arc<CallServices>,
    deadline: Instant,
    /// The call tree of the current or last attempt.
    tree: Mutex<Arc<CallTree>>,
}

/// Admitted work: it holds its instance slots, and the component does not rest after crashes.
pub(crate) struct AdmittedWork<'a> {
    _admission: SlotPermit,
    pass: BreakerPass<'a>,
}

impl BackgroundServices {
    /// Returns the services for due work. The time does not depend on the mount's request timeout,
    /// because a short timeout must not keep credentials from being revoked.
    pub(crate) fn for_due_work(core: &Arc<Core>, mount: &Arc<Mount>) -> Self {
        Self::within(core, mount, WORK_TIME)
    }

    /// Returns the services for a wake. Its timers are due only after an interval, so that a chain
    /// of wakes cannot spin.
    pub(crate) fn for_wake(core: &Arc<Core>, mount: &Arc<Mount>) -> Self {
        let mut services = CallServices::build_services(core, mount, None, "");
        services.earliest_wake = core.store.now().saturating_add(WAKE_INTERVAL);
        Self::of(services, WORK_TIME)
    }

    /// Returns the services for the step of a migration that begins at `cursor`.
    pub(crate) fn for_migration(
        core: &Arc<Core>,
        mount: &Arc<Mount>,
        cursor: Option<String>,
    ) -> Self {
        let mut services = CallServices::build_services(core, mount, None, "");
        services.migration = Some(MigrationStep::at(cursor));
        Self::of(services, time_for_caller(mount))
    }

    /// Returns the cursor that the last attempt of a migration's step asked to go on at, and
    /// forgets the cursor.
    pub(crate) fn take_next_cursor(&self) -> Option<String> {
        self.services.migration.as_ref().and_then(MigrationStep::take_next)
    }

    /// Returns the services for work on which a caller or the start waits. The time is at most that
    /// of a request of the mount.
    pub(crate) fn for_caller(core: &Arc<Core>, mount: &Arc<Mount>) -> Self {
        Self::within(core, mount, time_for_caller(mount))
    }

    fn within(core: &Arc<Core>, mount: &Arc<Mount>, time: Duration) -> Self {
        Self::of(CallServices::build_services(core, mount, None, ""), time)
    }

    fn of(services: CallServices, time: Duration) -> Self {
        let (services, deadline) = (Arc::new(services), Instant::now() + time);
        Self { services, deadline, tree: Mutex::default() }
    }

    /// Returns the time at which the call is stopped.
    pub(crate) fn deadline(&self) -> Instant {
        self.deadline
    }

    /// Waits for the instance slots of a call that may reach a database plugin.
    ///
    /// # Errors
    /// `unavailable`, which may pass: no slots became free before the deadline, the component rests
    /// after crashes, or its code is being compiled.
    pub(crate) async fn enter(&self, priority: CallPriority) -> Result<AdmittedWork<'_>, Failure> {
        let CallServices { core, mount, .. } = &*self.services;
        core.load_plugin(mount).await?;
        let pass = mount.may_call()?;
        let wanted = SlotRequest {
            compartment: &mount.compartment,
            slots: INSTANCE_SLOTS,
            priority,
            caller: None,
            deadline: self.deadline,
        };
        Ok(AdmittedWork { _admission: core.sandbox.admit(wanted).await?, pass })
    }

    /// Records how the component ended the call, and the bytes that the call wrote.
    pub(crate) fn note_end(&self, admitted: AdmittedWork<'_>, ended: Termination) {
        let CallServices { core, mount, .. } = &*self.services;
        mount.note_end(&*core.log, admitted.pass, ended);
        mount.count_due_writes(&*core.log, sync::lock(&self.tree).written_bytes());
    }

    /// Returns the guards of the call, which must be released at its end.
    pub(crate) fn guards(&self) -> &CallGuards {
        &self.services.guards
    }

    /// Releases the guards of the call. Must be the call's last act, after success or failure.
    pub(crate) async fn release_guards(&self) {
        self.services.release_guards().await;
    }

    /// Returns the call's context for the component. `longest` is the maximum lease of this call,
    /// in seconds.
    pub(crate) fn context(&self, longest: Option<u64>) -> contract::Context {
        let CallServices { core, mount, .. } = &*self.services;
        let left = self.deadline.saturating_duration_since(Instant::now());
        let milliseconds = u64::try_from(left.as_millis()).unwrap_or(u64::MAX);
        contract::Context {
            mount: mount.for_plugin(core.lifetimes, longest),
            deadline: core.store.now().saturating_add(milliseconds),
            ext: mount.compartment.limits().of_call().to_pairs(),
        }
    }

    /// Returns the call's scope: compartment, grants, deadline, slots and services.
    pub(crate) fn scope(&self, opened: &OpenedMount<'_>) -> CallScope {
        let tree = Arc::new(CallTree::default());
        *sync::lock(&self.tree) = Arc::clone(&tree);
        CallScope {
            compartment: Arc::clone(&opened.compartment),
            grants: Arc::clone(&opened.grants),
            reuse: opened.reuse.clone(),
            deadline: self.deadline,
            slots: INSTANCE_SLOTS,
            services: Arc::clone(&self.services) as Arc<dyn HostServices>,
            tree,
        }
    }
}

/// Returns the time for work on which a caller or the start waits.
fn time_for_caller(mount: &Mount) -> Duration {
    let of_mount = mount.compartment.limits().deadline;
    of_mount.map_or(WORK_TIME, |deadline| deadline.min(WORK_TIME))
}

//! Core services for a plugin call: the sandbox's `HostServices`, created for each call.

mod background;
mod migration_step;
mod used_databases;

use crate::catalog::{MountConnection, Plugin};
use crate::core::Core;
use crate::leases::{self, LeaseContext, LeaseReservation};
use crate::mounts::Mount;
use async_trait::async_trait;
use bulkhead_access::background::guards::{self, CallGuards, GuardRequest};
use bulkhead_access::identity::{self, EntityViewer};
use bulkhead_access::passwords;
use bulkhead_access::tokens::Caller;
use bulkhead_sandbox::component::ComponentIdentity;
use bulkhead_sandbox::{
    ConnectionChoice, DatabasePlugin, HostServices, IdentityToken, ReservationRequest, TimerGuard,
    VisibleEntity,
};
use bulkhead_store::{Space, Unit};
use bulkhead_wire::failure::{Failure, FailureKind};
use bulkhead_wire::log_level::LogLevel;
use bulkhead_wire::sync;
use std::sync::{Arc, Mutex};
use std::time::Duration;

pub(crate) use background::{AdmittedWork, BackgroundServices};
use migration_step::MigrationStep;
use used_databases::UsedDatabases;

/// Maximum length of a reservation's tag, in bytes.
const LONGEST_TAG: usize = 256;
/// Maximum length of the JSON that a lease stores for its plugin, in bytes.
const LONGEST_INTERNAL: usize = 64 << 10;
/// Maximum length of a lease handle (a request path and a hash), in bytes.
const LONGEST_HANDLE: usize = 64 << 10;
/// Maximum number of reservations of a call.
const MOST_RESERVATIONS: usize = 64;
/// Maximum number of leases that a count reports.
const MAX_COUNTED_LEASES: u32 = 10_000;

/// The core services for a single call, with its reservations and guards.
pub struct CallServices {
    core: Arc<Core>,
    mount: Arc<Mount>,
    /// Path of the call's leases; `None` for a call that cannot issue a lease.
    lease_path: Option<LeasePath>,
    /// Id of the caller's entity; empty without an entity.
    entity_id: String,
    /// Store time before which no timer of the call is due.
    earliest_wake: u64,
    reserved: Mutex<Vec<LeaseReservation>>,
    databases: UsedDatabases,
    guards: CallGuards,
    /// `None` for a call that is not a migration.
    migration: Option<MigrationStep>,
}

/// The request to which the leases of the call belong.
pub struct LeasePath {
    /// Path of the request, the first part of every lease id.
    pub path: String,
    /// Token of the request: owns the leases and bounds their lifetimes.
    pub caller: Caller,
    /// Deadline in milliseconds of store time.
    pub deadline: u64,
}

impl CallServices {
    /// Builds the services for the call of a request. An empty `entity_id` means no entity; without
    /// `lease_path`, the call cannot reserve a lease.
    pub fn new(
        core: &Arc<Core>,
        mount: &Arc<Mount>,
        lease_path: Option<LeasePath>,
        entity_id: &str,
    ) -> Arc<Self> {
        Arc::new(Self::build_services(core, mount, lease_path, entity_id))
    }

    fn build_services(
        core: &Arc<Core>,
        mount: &Arc<Mount>,
        lease_path: Option<LeasePath>,
        entity_id: &str,
    ) -> Self {
        let (core, mount) = (Arc::clone(core), Arc::clone(mount));
        Self {
            core,
            mount,
            lease_path,
            entity_id: entity_id.to_owned(),
            earliest_wake: 0,
            reserved: Mutex::default(),
            databases: UsedDatabases::default(),
            guards: CallGuards::default(),
            migration: None,
        }
    }

    /// Returns the lane's name with the mount's prefix, so equal names at two mounts are different
    /// lanes.
    fn full_lane(&self, lane: &str) -> String {
        format!("{}/{lane}", self.mount.record.uuid)
    }

    fn connection(&self, name: &str) -> MountConnection {
        MountConnection { mount: self.mount.record.uuid.clone(), name: name.to_owned() }
    }

    /// Takes the reservations at the end of the call.
    pub fn take_reserved(&self) -> Vec<LeaseReservation> {
        let mut reserved = std::mem::take(&mut *sync::lock(&self.reserved));
        let plugins = self.databases.names();
        reserved.iter_mut().for_each(|one| one.note_plugins(&plugins));
        reserved
    }

    /// Releases the guards of the call. Must be the call's last act, after success or failure.
    pub async fn release_guards(&self) {
        let earliest = self.earliest_wake;
        guards::release(&self.core.store, &*self.core.log, &self.guards, earliest).await;
    }
}

#[async_trait]
impl HostServices for CallServices {
    async fn password(&self, unit: &mut Unit, policy: &str) -> Result<String, Failure> {
        passwords::generate(unit, policy).await
    }

    fn password_from(&self, length: u32, alphabet: &str) -> Result<String, Failure> {
        passwords::generate_from(usize::try_from(length).unwrap_or(usize::MAX), alphabet)
    }

    async fn identity_token(&self, audience: &str, ttl: u64) -> Result<IdentityToken, Failure> {
        let signed = self.core.oidc.plugin_token(self.mount.token_holder(), audience, ttl).await?;
        Ok(IdentityToken { token: signed.token, expires: signed.expires.saturating_mul(1_000) })
    }

    async fn entity(&self, id: &str) -> Result<Option<VisibleEntity>, Failure> {
        let viewer =
            EntityViewer { accessor: &self.mount.record.accessor, entity_id: &self.entity_id };
        let found = identity::read_visible(&mut self.core.store.begin(), viewer, id).await?;
        Ok(found.map(|entity| VisibleEntity {
            id: entity.id.clone(),
            name: entity.name.clone(),
            metadata: entity.metadata.clone().into_iter().collect(),
        }))
    }

    fn database_plugin(&self, name: &str, version: &str) -> Result<Arc<DatabasePlugin>, Failure> {
        self.databases.find_named(&self.core.catalog, name, version)
    }

    async fn serving_plugin(
        &self,
        connection: &str,
        name: &str,
        version: &str,
    ) -> Result<Arc<DatabasePlugin>, Failure> {
        self.databases.serving(&self.core, self.connection(connection), (name, version)).await
    }

    async fn choose_plugin(
        &self,
        unit: &mut Unit,
        connection: &str,
        choice: ConnectionChoice<'_>,
    ) -> Result<Arc<DatabasePlugin>, Failure> {
        let connection = self.connection(connection);
        let plugin = self.core.catalog.choose_for_connection(unit, &connection, choice).await?;
        Ok(self.databases.note_chosen(connection, plugin))
    }

    fn release_plugin(&self, unit: &mut Unit, connection: &str) {
        self.connection(connection).release(unit);
    }

    async fn load_database_plugin(&self, plugin: &Arc<DatabasePlugin>) -> Result<(), Failure> {
        let plugin = Plugin::Database(Arc::clone(plugin));
        self.core.catalog.load_code(self.core.loader(), &plugin).await
    }

    fn reserve(&self, unit: &mut Unit, request: ReservationRequest) -> Result<String, Failure> {
        let mut reserved = sync::lock(&self.reserved);
        let Some(path) = &self.lease_path else {
            return Err(Failure::denied(
                "this call cannot hand out a lease: the route is not marked for leases",
            ));
        };
        if request.tag.is_empty()
            || request.tag.len() > LONGEST_TAG
            || request.internal.len() > LONGEST_INTERNAL
        {
            return Err(Failure::invalid(
                "a reservation needs a tag of 1 to 256 bytes and at most 64 KiB of data",
            ));
        }
        if reserved.len() >= MOST_RESERVATIONS
            || reserved.iter().any(|other| other.tag == request.tag)
        {
            return Err(Failure::invalid(
                "a call makes at most 64 reservations, each with a tag of its own",
            ));
        }
        let context = LeaseContext {
            store: &self.core.store,
            mount: &self.mount,
            path: &path.path,
            caller: &path.caller,
            deadline: path.deadline,
        };
        let plugins = self.databases.names();
        let one = leases::reserve(&context, &self.core.claims, unit, request, plugins)?;
        let handle = one.handle().to_owned();
        reserved.push(one);
        Ok(handle)
    }

    async fn amend(&self, unit: &mut Unit, tag: &str, internal: String) -> Result<(), Failure> {
        if internal.len() > LONGEST_INTERNAL {
            return Err(Failure::invalid("a reservation has at most 64 KiB of data"));
        }
        let is_ours = |one: &&mut LeaseReservation| one.tag == tag && !one.withdrawn;
        let found =
            sync::lock(&self.reserved).iter_mut().find(is_ours).map(|one| one.address.clone());
        if !leases::is_reserved(unit, &found.ok_or_else(no_reservation)?).await? {
            return Err(leases::ended_meanwhile());
        }
        let plugins = self.databases.names();
        let mut reserved = sync::lock(&self.reserved);
        let one = reserved.iter_mut().find(is_ours).ok_or_else(no_reservation)?;
        one.note_plugins(&plugins);
        one.amend(unit, internal)
    }

    fn end_issued(&self, unit: &mut Unit, handle: &str) -> Result<(), Failure> {
        if handle.is_empty() || handle.len() > LONGEST_HANDLE {
            return Err(Failure::invalid(
                "the text is not a handle of a lease: reserve gives a handle",
            ));
        }
        leases::end_issued(unit, &self.mount.record.uuid, handle);
        self.mount.lease_counts.note_gone(&format!("{}/{handle}", self.mount.record.uuid));
        Ok(())
    }

    fn withdraw(&self, tag: &str) -> Result<(), Failure> {
        let mut reserved = sync::lock(&self.reserved);
        match reserved.iter_mut().find(|reserved| reserved.tag == tag) {
            Some(reserved) => {
                reserved.withdrawn = true;
                Ok(())
            }
            None => Err(no_reservation()),
        }
    }

    fn guard(&self, unit: &mut Unit, guard: TimerGuard) -> Result<(), Failure> {
        let TimerGuard { timer, lane, deadline } = guard;
        self.guards.set(&self.core.claims, unit, GuardRequest { timer, lane, deadline })
    }

    fn earliest_wake(&self) -> u64 {
        self.earliest_wake
    }

    fn widen_lane(&self, lane: &str, places: u32) {
        let places = usize::try_from(places).unwrap_or(usize::MAX);
        self.core.claims.set_concurrency(&self.full_lane(lane), places);
    }

    fn rest_of_lane(&self, lane: &str) -> Option<Duration> {
        self.core.claims.remaining_rest(&self.full_lane(lane))
    }

    async fn lease_count(&self, lane: &str) -> Result<u32, Failure> {
        let lane = self.full_lane(lane);
        Ok(self.core.store.count_in_lane((Space::Lease, &lane), MAX_COUNTED_LEASES).await?)
    }

    fn migration_cursor(&self) -> Result<Option<String>, Failure> {
        let step = self.migration.as_ref().ok_or_else(migration_step::no_migration_failure)?;
        Ok(step.cursor())
    }

    fn continue_migration(&self, cursor: String) -> Result<(), Failure> {
        self.migration
            .as_ref()
            .ok_or_else(migration_step::no_migration_failure)?
            .continue_at(cursor)
    }

    fn shows_crashes(&self) -> bool {
        self.core.process.is_dev()
    }

    fn log(
        &self,
        level: LogLevel,
        plugin: &ComponentIdentity,
        event: &str,
        pairs: &[(String, String)],
    ) {
        let mount = ("mount", self.mount.record.path.to_string());
        let own = [mount].into_iter().chain(plugin.log_pairs());
        let pairs = pairs.iter().map(|(name, value)| (name.as_str(), value.clone()));
        let pairs: Vec<(&str, String)> = own.chain(pairs).collect();
        self.core.log.line(level, event, &pairs);
    }
}

fn no_reservation() -> Failure {
    Failure::new(FailureKind::NotFound, "this call made no reservation with this tag")
}

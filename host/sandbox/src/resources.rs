//! Resources that calls share: of the process, and of the open store.

use crate::admission::InstanceSlots;
use crate::cache::CacheRegistry;
use crate::closing::ClosingSignal;
use crate::cpu_permits::CpuPermits;
use crate::held_memory::HeldBytes;
use crate::limits;
use crate::memory::GuestMemory;
use crate::metrics::MetricsRegistry;
use crate::slow_work::SlowWork;
use crate::target_calls::TargetCalls;
use bulkhead_outbound::ambient::{AmbientSources, CloudTokens};
use bulkhead_outbound::http::ConnectionPool;
use bulkhead_outbound::ldap::LdapPools;
use bulkhead_outbound::password_changes::PasswordChanges;
use bulkhead_outbound::proxy::OutboundNetwork;
use bulkhead_outbound::sql::{KnownTargets, SessionPools};
use bulkhead_outbound::tls::TlsConfigs;
use bulkhead_store::{Store, system_milliseconds};
use std::net::SocketAddr;
use std::sync::Arc;
use tokio::sync::Semaphore;
use wasmtime::Engine;

/// Resources that all calls of the process share, whether the store is sealed or open.
pub(crate) struct ProcessResources {
    pub(crate) engine: Engine,
    pub(crate) slots: Arc<InstanceSlots>,
    pub(crate) cpu_permits: CpuPermits,
    pub(crate) guest_memory: Arc<GuestMemory>,
    /// Bytes that the host holds for the calls of all mounts.
    pub(crate) held_bytes: Arc<HeldBytes>,
    /// Outbound connections of HTTP and LDAP.
    pub(crate) connections: Arc<Semaphore>,
    pub(crate) slow_work: SlowWork,
}

impl ProcessResources {
    pub(crate) fn new(engine: Engine) -> Arc<Self> {
        Arc::new(Self {
            engine,
            slots: InstanceSlots::new(limits::INSTANCES),
            cpu_permits: CpuPermits::new(),
            guest_memory: Arc::default(),
            held_bytes: Arc::default(),
            connections: Arc::new(Semaphore::new(limits::CONNECTIONS)),
            slow_work: SlowWork::new(),
        })
    }
}

/// Further resources of calls: store time, the pools of outbound sessions, and caches of mounts.
/// The calls over an open store share one set. The calls of a seal plugin begin before any store is
/// open, and have a set without a store.
pub(crate) struct StoreResources {
    pub(crate) process: Arc<ProcessResources>,
    /// The clock of the calls; `None` for a seal plugin.
    store: Option<Arc<Store>>,
    pub(crate) pools: SessionPools,
    /// Password changes of the users that database sessions log in as.
    pub(crate) password_changes: PasswordChanges,
    /// The servers that database connections name.
    pub(crate) targets: KnownTargets,
    /// Idle sessions with directories.
    pub(crate) directories: LdapPools,
    /// Idle connections to servers, for safe requests.
    pub(crate) kept: Arc<ConnectionPool>,
    /// Parsed TLS settings.
    pub(crate) tls: Arc<TlsConfigs>,
    pub(crate) caches: CacheRegistry,
    pub(crate) metrics: MetricsRegistry,
    pub(crate) target_calls: TargetCalls,
    pub(crate) closing: ClosingSignal,
    /// The addresses on which the server listens. A component never dials them.
    pub(crate) own_addresses: Arc<[SocketAddr]>,
    pub(crate) ambient: AmbientSources,
    pub(crate) outbound: OutboundNetwork,
    pub(crate) cloud_tokens: CloudTokens,
}

impl StoreResources {
    pub(crate) fn new(
        process: &Arc<ProcessResources>,
        store: Option<Arc<Store>>,
        own_addresses: &[SocketAddr],
        ambient: &AmbientSources,
        outbound: &OutboundNetwork,
    ) -> Arc<Self> {
        let tls = TlsConfigs::new(outbound.authorities());
        Arc::new(Self {
            process: Arc::clone(process),
            store,
            pools: SessionPools::new(&tls),
            password_changes: PasswordChanges::default(),
            targets: KnownTargets::default(),
            directories: LdapPools::default(),
            kept: Arc::default(),
            tls,
            caches: CacheRegistry::default(),
            metrics: MetricsRegistry::default(),
            target_calls: TargetCalls::default(),
            closing: ClosingSignal::default(),
            own_addresses: own_addresses.into(),
            ambient: ambient.clone(),
            outbound: outbound.clone(),
            cloud_tokens: CloudTokens::default(),
        })
    }

    /// Returns the store time in milliseconds. A seal plugin, which runs before a store is open,
    /// reads the system's clock.
    pub(crate) fn now(&self) -> u64 {
        self.store.as_ref().map_or_else(system_milliseconds, |store| store.now())
    }

    /// Closes the outbound sessions of a mount, and drops the mount's data in memory.
    pub(crate) fn close_mount(&self, mount: &str) {
        self.pools.close_mount(mount);
        self.password_changes.forget_mount(mount);
        self.targets.forget(mount);
        self.directories.close_mount(mount);
        self.kept.close_mount(mount);
        self.caches.forget(mount);
        self.metrics.forget(mount);
        self.target_calls.forget(mount);
    }

    /// Cuts every call, drops every cache, and closes every outbound session.
    pub(crate) async fn close(&self) {
        self.closing.begin();
        self.caches.clear();
        self.cloud_tokens.clear();
        self.password_changes.clear();
        self.directories.close_all();
        self.kept.close_all();
        self.pools.close_all().await;
    }
}

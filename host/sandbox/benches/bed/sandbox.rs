//! Shared parts of the sandbox benchmarks: a component on an empty store, and calls to it.

use async_trait::async_trait;
use bulkhead_sandbox::component::ComponentIdentity;
use bulkhead_sandbox::contract::{Call, Caller, Mount};
use bulkhead_sandbox::{
    CallScope, CallTree, Compartment, ComponentSource, ConnectionChoice, DatabasePlugin,
    GrantLayers, Grants, HostServices, IdentityToken, InstanceReuse, MountLimits, MountablePlugin,
    Publisher, ReservationRequest, Sandbox, SandboxRuntime, TimerGuard, VisibleEntity,
};
use bulkhead_store::{SealKey, Store, StoreOptions, Unit};
use bulkhead_wire::failure::Failure;
use bulkhead_wire::log_level::LogLevel;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// An engine with a separate store.
pub(crate) struct Bed {
    pub(crate) store: Arc<Store>,
    pub(crate) engine: MountablePlugin,
    services: Arc<NoServices>,
    compartment: Arc<Compartment>,
}

impl Bed {
    pub(crate) async fn prepare(component: &Path, directory: &Path, limits: MountLimits) -> Self {
        let store =
            Store::open(StoreOptions::at(directory), SealKey::generate().unwrap()).await.unwrap();
        let sandbox = Sandbox::new(
            SandboxRuntime::new().unwrap(),
            Arc::clone(&store),
            &[],
            &bulkhead_outbound::ambient::AmbientSources::default(),
            &bulkhead_outbound::proxy::OutboundNetwork::default(),
        );
        let wasm = std::fs::read(component).expect("run `make build guests` first");
        let artefact = ComponentSource::Official { wasm: wasm.leak(), compiled: None };
        let engine = MountablePlugin::load(&sandbox, artefact, None).await.unwrap();
        let compartment = Compartment::new("mount", limits);
        Self { store, engine, services: Arc::new(NoServices), compartment }
    }

    pub(crate) fn scope(&self, reuse: &InstanceReuse) -> CallScope {
        let rights = GrantLayers {
            mount: "bench/",
            maker: Publisher::Official,
            asked: &[],
            ceiling: None,
            granted: None,
        };
        CallScope {
            compartment: Arc::clone(&self.compartment),
            grants: Arc::new(Grants::of(&rights)),
            reuse: reuse.clone(),
            deadline: tokio::time::Instant::now() + Duration::from_secs(90),
            slots: 1,
            services: Arc::clone(&self.services) as Arc<dyn HostServices>,
            tree: Arc::new(CallTree::default()),
        }
    }
}

/// Returns a call of a route for the object `name`.
pub(crate) fn call(operation: &str, route: &str, name: &str, fields: &serde_json::Value) -> Call {
    Call {
        id: "bench".into(),
        operation: operation.into(),
        route: route.into(),
        captures: vec![("name".into(), name.into())],
        fields: fields.to_string(),
        deadline: u64::MAX,
        caller: Caller {
            entity: String::new(),
            display_name: "token".into(),
            id: "caller".into(),
            capabilities: vec!["read".into()],
            remote_address: "127.0.0.1".into(),
            ext: Vec::new(),
        },
        mount: Mount {
            path: "database/".into(),
            accessor: "database_1".into(),
            kind: "database".into(),
            default_ttl: 3600,
            max_ttl: 86400,
            longest_lease: 86400,
            options: Vec::new(),
            ext: Vec::new(),
        },
        ext: Vec::new(),
    }
}

struct NoServices;

#[async_trait]
impl HostServices for NoServices {
    async fn password(&self, _unit: &mut Unit, _policy: &str) -> Result<String, Failure> {
        Err(Failure::internal("not measured"))
    }

    fn password_from(&self, _length: u32, _alphabet: &str) -> Result<String, Failure> {
        Err(Failure::internal("not measured"))
    }

    async fn identity_token(&self, _audience: &str, _ttl: u64) -> Result<IdentityToken, Failure> {
        Err(Failure::absent())
    }

    async fn entity(&self, _id: &str) -> Result<Option<VisibleEntity>, Failure> {
        Ok(None)
    }

    fn database_plugin(&self, _name: &str, _version: &str) -> Result<Arc<DatabasePlugin>, Failure> {
        Err(Failure::internal("not measured"))
    }

    async fn serving_plugin(
        &self,
        _connection: &str,
        _name: &str,
        _version: &str,
    ) -> Result<Arc<DatabasePlugin>, Failure> {
        Err(Failure::internal("not measured"))
    }

    async fn choose_plugin(
        &self,
        _unit: &mut Unit,
        _connection: &str,
        _choice: ConnectionChoice<'_>,
    ) -> Result<Arc<DatabasePlugin>, Failure> {
        Err(Failure::internal("not measured"))
    }

    fn release_plugin(&self, _unit: &mut Unit, _connection: &str) {}

    async fn load_database_plugin(&self, _plugin: &Arc<DatabasePlugin>) -> Result<(), Failure> {
        Err(Failure::absent())
    }

    fn reserve(
        &self,
        _unit: &mut Unit,
        _reservation: ReservationRequest,
    ) -> Result<String, Failure> {
        Err(Failure::internal("not measured"))
    }

    async fn amend(&self, _unit: &mut Unit, _tag: &str, _internal: String) -> Result<(), Failure> {
        Err(Failure::internal("not measured"))
    }

    fn end_issued(&self, _unit: &mut Unit, _handle: &str) -> Result<(), Failure> {
        Err(Failure::internal("not measured"))
    }

    fn withdraw(&self, _tag: &str) -> Result<(), Failure> {
        Err(Failure::internal("not measured"))
    }

    fn guard(&self, _unit: &mut Unit, _guard: TimerGuard) -> Result<(), Failure> {
        Err(Failure::internal("not measured"))
    }

    fn earliest_wake(&self) -> u64 {
        0
    }

    fn widen_lane(&self, _lane: &str, _places: u32) {}

    fn rest_of_lane(&self, _lane: &str) -> Option<std::time::Duration> {
        None
    }

    async fn lease_count(&self, _lane: &str) -> Result<u32, Failure> {
        Err(Failure::internal("not measured"))
    }

    fn migration_cursor(&self) -> Result<Option<String>, Failure> {
        Err(Failure::internal("not measured"))
    }

    fn continue_migration(&self, _cursor: String) -> Result<(), Failure> {
        Err(Failure::internal("not measured"))
    }

    fn log(
        &self,
        _level: LogLevel,
        plugin: &ComponentIdentity,
        event: &str,
        pairs: &[(String, String)],
    ) {
        let plugin = plugin.title();
        panic!("{plugin} logs {event}: {pairs:?}");
    }
}

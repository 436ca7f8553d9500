//! Asking a component what it is: once, at registration, in an instance without a single grant.

use crate::bindings::{database_plugin, secrets_engine};
use crate::call::{Root, Scope, new_store, settle};
use crate::component::{DatabasePlugin, Identity};
use crate::engine::Sandbox;
use crate::grants::Grants;
use crate::limits::Limits;
use crate::neighbours::{Guard, Level, Neighbours, Reservation};
use crate::state::CallState;
use async_trait::async_trait;
use bulkhead_store::Unit;
use bulkhead_wire::failure::Failure;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;
use wasmtime::Store;

/// Longest time that a description may take.
const TIME: Duration = Duration::from_secs(5);

/// The description of an engine, as JSON text.
pub(crate) async fn engine(
    sandbox: &Arc<Sandbox>,
    pre: &secrets_engine::SecretsEnginePre<CallState>,
    digest: &str,
) -> Result<String, String> {
    let mut store = ungranted(sandbox, digest);
    let work = async {
        let instance = pre.instantiate_async(&mut store).await?;
        instance.bulkhead_plugin_engine().call_describe(&mut store).await.map(Ok)
    };
    let outcome = tokio::time::timeout(TIME, work).await;
    settle(store.data(), outcome).map_err(|failure| failure.message)
}

/// The description of a database plugin, as JSON text.
pub(crate) async fn database_plugin(
    sandbox: &Arc<Sandbox>,
    pre: &database_plugin::DatabasePluginPre<CallState>,
    digest: &str,
) -> Result<String, String> {
    let mut store = ungranted(sandbox, digest);
    let work = async {
        let instance = pre.instantiate_async(&mut store).await?;
        instance.bulkhead_plugin_database_users().call_describe(&mut store).await.map(Ok)
    };
    let outcome = tokio::time::timeout(TIME, work).await;
    settle(store.data(), outcome).map_err(|failure| failure.message)
}

fn ungranted(sandbox: &Arc<Sandbox>, digest: &str) -> Store<CallState> {
    let name = "being described".to_owned();
    let identity = Identity { name: name.clone(), version: String::new(), digest: digest.to_owned() };
    let scope = Scope {
        mount: String::new(),
        grants: Arc::new(Grants::none(&name)),
        limits: Limits::default(),
        deadline: Instant::now() + TIME,
        neighbours: Arc::new(Nobody),
        root: Arc::new(Root::default()),
    };
    new_store(CallState::new(sandbox, scope, Arc::new(identity), None))
}

/// Neighbours of a call that has none.
struct Nobody;

#[async_trait]
impl Neighbours for Nobody {
    async fn password(&self, _policy: &str) -> Result<String, Failure> {
        Err(alone())
    }

    fn database_plugin(&self, _name: &str, _version: &str) -> Result<Arc<DatabasePlugin>, Failure> {
        Err(alone())
    }

    fn reserve(&self, _unit: &mut Unit, _reservation: Reservation) -> Result<(), Failure> {
        Err(alone())
    }

    fn withdraw(&self, _tag: &str) -> Result<(), Failure> {
        Err(alone())
    }

    fn guard(&self, _unit: &mut Unit, _guard: Guard) -> Result<(), Failure> {
        Err(alone())
    }

    async fn lease_count(&self, _lane: &str) -> Result<u32, Failure> {
        Err(alone())
    }

    fn log(&self, _level: Level, _plugin: &str, _event: &str, _pairs: &[(String, String)]) {}
}

fn alone() -> Failure {
    Failure::denied("describe must be pure: a component that is being described may call no import")
}

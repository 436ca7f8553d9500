//! Asks a component for its description: once, at registration, in an instance without any grant.

use crate::admission::{CallPriority, SlotPermit, SlotRequest};
use crate::bindings::{database_plugin, seal_plugin};
use crate::closing::CallInterruption;
use crate::compartment::Compartment;
use crate::detached;
use crate::grants::Publisher;
use crate::identity::ComponentIdentity;
use crate::instance::new_store;
use crate::limits::MountLimits;
use crate::outcome::settle;
use crate::resources::StoreResources;
use crate::sandbox::Sandbox;
use crate::state::CallState;
use bulkhead_wire::failure::Failure;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;
use wasmtime::Store;
use wasmtime::component::{ComponentExportIndex, InstancePre};

/// Maximum time of a description.
const DESCRIBE_TIMEOUT: Duration = Duration::from_secs(5);

impl Sandbox {
    /// Waits for the slot of a component that is asked for its description, in the queue of
    /// requests.
    ///
    /// # Errors
    /// The errors of [`Sandbox::admit`].
    pub async fn admit_description(&self) -> Result<SlotPermit, Failure> {
        let compartment = Compartment::new("", MountLimits::default());
        let (priority, deadline) = (CallPriority::Foreground, Instant::now() + DESCRIBE_TIMEOUT);
        let wanted =
            SlotRequest { compartment: &compartment, slots: 1, priority, caller: None, deadline };
        self.admit(wanted).await
    }
}

/// Returns the description of a mountable component, as JSON text. `describe` is the export to
/// call.
pub(crate) async fn describe_mountable(
    resources: &Arc<StoreResources>,
    pre: &InstancePre<CallState>,
    describe: ComponentExportIndex,
    digest: &str,
) -> Result<String, String> {
    let mut store = ungranted_store(resources, digest);
    let tree = Arc::clone(&store.data().context.tree);
    let work = async {
        let instance = pre.instantiate_async(&mut store).await?;
        let describe = instance.get_typed_func::<(), (String,)>(&mut store, describe)?;
        let (said,) = describe.call_async(&mut store, ()).await?;
        Ok(Ok(said))
    };
    let outcome = tree.cpu_meter.measure(tokio::time::timeout(DESCRIBE_TIMEOUT, work)).await;
    settle(store.data(), outcome.map_err(CallInterruption::from)).map_err(|failure| failure.message)
}

/// Returns the description of a database plugin, as JSON text.
pub(crate) async fn describe_database_plugin(
    resources: &Arc<StoreResources>,
    pre: &database_plugin::DatabasePluginPre<CallState>,
    digest: &str,
) -> Result<String, String> {
    let mut store = ungranted_store(resources, digest);
    let tree = Arc::clone(&store.data().context.tree);
    let work = async {
        let instance = pre.instantiate_async(&mut store).await?;
        instance.bulkhead_plugin_database_users().call_describe(&mut store).await.map(Ok)
    };
    let outcome = tree.cpu_meter.measure(tokio::time::timeout(DESCRIBE_TIMEOUT, work)).await;
    settle(store.data(), outcome.map_err(CallInterruption::from)).map_err(|failure| failure.message)
}

/// Returns the description of a seal plugin, as JSON text.
pub(crate) async fn describe_seal_plugin(
    resources: &Arc<StoreResources>,
    pre: &seal_plugin::SealPluginPre<CallState>,
    digest: &str,
) -> Result<String, String> {
    let mut store = ungranted_store(resources, digest);
    let tree = Arc::clone(&store.data().context.tree);
    let work = async {
        let instance = pre.instantiate_async(&mut store).await?;
        instance.bulkhead_plugin_seal().call_describe(&mut store).await.map(Ok)
    };
    let outcome = tree.cpu_meter.measure(tokio::time::timeout(DESCRIBE_TIMEOUT, work)).await;
    settle(store.data(), outcome.map_err(CallInterruption::from)).map_err(|failure| failure.message)
}

fn ungranted_store(resources: &Arc<StoreResources>, digest: &str) -> Store<CallState> {
    let name = "being described".to_owned();
    let context = detached::context(&name, Instant::now() + DESCRIBE_TIMEOUT);
    let identity = ComponentIdentity {
        name,
        version: String::new(),
        digest: digest.to_owned(),
        maker: Publisher::Uploaded,
    };
    new_store(CallState::new(resources, context, Arc::new(identity), None))
}

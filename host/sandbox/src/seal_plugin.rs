//! A seal plugin: a component that asks another server to wrap and unwrap the seal key.
//!
//! A seal plugin runs before any data are open, so that its calls have no store: no storage, no
//! mount, and the time of the system's clock. Each call has a fresh instance, a slot of the pool,
//! and the limits that a mount has unless an operator changes them.
//!
//! This file prevents the seal key and the credentials of the seal from reaching a log or a
//! failure: both are secrets of the call before the component runs. This file also prevents a
//! component from another origin than those of its addresses: only a component of this binary can
//! be loaded (decision H93).

use crate::admission::{self, AdmissionOutcome, CallPriority, SlotPermit, SlotRequest};
use crate::bindings::seal_plugin::SealPluginPre;
use crate::bindings::seal_plugin::exports::bulkhead::plugin::seal as words;
use crate::call_tree::CallTree;
use crate::closing::CallInterruption;
use crate::compartment::Compartment;
use crate::component::{self, ComponentSource};
use crate::context::CallContext;
use crate::contract;
use crate::describe;
use crate::detached::{self, LogSink};
use crate::grants::{Grants, Publisher};
use crate::host_services::HostServices;
use crate::identity::ComponentIdentity;
use crate::instance::new_store;
use crate::limits::MountLimits;
use crate::load;
use crate::outcome::settle;
use crate::resources::StoreResources;
use crate::sandbox::SandboxRuntime;
use crate::seal_settings::SealSettings;
use crate::state::CallState;
use crate::structure::{SEAL, interface_name};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bulkhead_outbound::ambient::AmbientSources;
use bulkhead_outbound::proxy::OutboundNetwork;
use bulkhead_wire::description::SealDescription;
use bulkhead_wire::failure::Failure;
use bulkhead_wire::hexadecimal;
use serde_json::{Map, Value};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;
use wasmtime::component::{
    Component, ComponentExportIndex, ComponentNamedList, InstancePre, Lift, Lower,
};
use zeroize::Zeroizing;

/// Length of a seal key in bytes.
pub const SEAL_KEY_BYTES: usize = 32;
/// Maximum time of a call of a seal plugin.
const SEAL_CALL_TIMEOUT: Duration = Duration::from_secs(35);
/// Maximum length of the id of a key of the service, in bytes.
const KEY_ID_BYTES: usize = 256;
/// Maximum length of a wrapped seal key, in bytes.
const WRAPPED_KEY_BYTES: usize = 64 << 10;

const _: () = assert!(SEAL_CALL_TIMEOUT.as_secs() >= MountLimits::LEAST_EFFECTFUL.as_secs());

/// The surroundings of a seal plugin.
pub struct SealSurroundings<'a> {
    /// The addresses on which the server listens. The plugin never dials these addresses.
    pub own_addresses: &'a [SocketAddr],
    /// The route of the plugin's HTTP.
    pub outbound: &'a OutboundNetwork,
    /// Destination of the plugin's log lines.
    pub log: LogSink,
}

/// A seal key as the service wrapped it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WrappedKey {
    /// The service's key that wrapped the seal key: printable ASCII.
    pub key_id: String,
    /// The wrapped key.
    pub blob: Vec<u8>,
}

/// An unwrapped seal key. No `Debug`: the key is a secret.
pub struct OpenedKey {
    /// The seal key.
    pub key: Zeroizing<[u8; SEAL_KEY_BYTES]>,
    /// The newest key of the service. If the blob has another id, the key should be wrapped again.
    pub newest_key_id: String,
}

/// A seal plugin with its settings.
pub struct SealPlugin {
    runtime: Arc<SandboxRuntime>,
    resources: Arc<StoreResources>,
    pre: InstancePre<CallState>,
    exports: SealExports,
    identity: Arc<ComponentIdentity>,
    settings: SealSettings,
    compartment: Arc<Compartment>,
    grants: Arc<Grants>,
    services: Arc<dyn HostServices>,
}

/// Positions of the component's exports, looked up once.
struct SealExports {
    wrap_key: ComponentExportIndex,
    unwrap_key: ComponentExportIndex,
    renew_credentials: ComponentExportIndex,
    check_health: ComponentExportIndex,
}

impl SealExports {
    fn of(component: &Component) -> Result<Self, String> {
        let interface = interface_name(SEAL);
        let instance = component.get_export_index(None, &interface);
        let find = |function: &str| {
            let found =
                instance.and_then(|instance| component.get_export_index(Some(&instance), function));
            found.ok_or_else(|| format!("the component does not export {function} of {interface}"))
        };
        Ok(Self {
            wrap_key: find("wrap-key")?,
            unwrap_key: find("unwrap-key")?,
            renew_credentials: find("renew-credentials")?,
            check_health: find("check-health")?,
        })
    }
}

impl SealPlugin {
    /// Loads a component of this binary, and checks the settings of the seal.
    ///
    /// # Errors
    /// `internal` for a component that is not a seal plugin; `invalid-request` for wrong settings.
    pub async fn load(
        runtime: &Arc<SandboxRuntime>,
        artefact: ComponentSource<'static>,
        settings: &Map<String, Value>,
        surroundings: SealSurroundings<'_>,
    ) -> Result<Self, Failure> {
        let SealSurroundings { own_addresses, outbound, log } = surroundings;
        let resources = StoreResources::new(
            &runtime.resources,
            None,
            own_addresses,
            &AmbientSources::default(),
            outbound,
        );
        let compartment = Compartment::new(SEAL, MountLimits::default());
        let unfit = |why: String| Failure::internal(format!("the component of the seal: {why}"));
        if !matches!(artefact, ComponentSource::Official { .. }) {
            return Err(unfit("an uploaded component cannot be a seal plugin".to_owned()));
        }
        let component = component::load_code(&runtime.resources.engine, artefact).map_err(unfit)?;
        let pre = load::link(&component, &runtime.linkers.seal_plugins).map_err(unfit)?;
        let exports = SealExports::of(&component).map_err(unfit)?;
        let slot = admit(runtime, &compartment, Instant::now() + SEAL_CALL_TIMEOUT).await?;
        let digest = artefact.digest();
        let description = describe(&resources, &pre, &digest).await.map_err(unfit)?;
        drop(slot);
        let settings = SealSettings::check(&description, settings)?;
        let SealDescription { name, version, .. } = description;
        let grants = Grants::for_seal(&format!("seal {name:?}"), &settings.origins);
        let identity = ComponentIdentity { name, version, digest, maker: Publisher::Official };
        Ok(Self {
            runtime: Arc::clone(runtime),
            resources,
            pre,
            exports,
            identity: Arc::new(identity),
            grants: Arc::new(grants),
            settings,
            compartment,
            services: detached::logging_services(log),
        })
    }

    /// Wraps a seal key with the newest key of the service.
    ///
    /// # Errors
    /// The refusal of the service or of the component, without a secret; `internal` for an answer
    /// outside of the contract.
    pub async fn wrap_key(&self, key: &[u8; SEAL_KEY_BYTES]) -> Result<WrappedKey, Failure> {
        // The component spells the key in base64 or hexadecimal, which the set of secrets finds
        // only if both are secrets of their own: the bytes of the key are not a text.
        let spellings =
            [Zeroizing::new(STANDARD.encode(key)), Zeroizing::new(hexadecimal::text(key))];
        let parameters = (self.settings.text.as_str(), key.as_slice());
        let wrapped: words::WrappedKey =
            self.enter(self.exports.wrap_key, &spellings, parameters).await?;
        self.check_key_id(&wrapped.key_id)?;
        let length = wrapped.blob.len();
        if !(1..=WRAPPED_KEY_BYTES).contains(&length) {
            return Err(self.violation(&format!("a wrapped key of {length} bytes")));
        }
        Ok(WrappedKey { key_id: wrapped.key_id, blob: wrapped.blob })
    }

    /// Unwraps a blob of [`wrap_key`](Self::wrap_key).
    ///
    /// # Errors
    /// As `wrap_key`.
    pub async fn unwrap_key(&self, blob: &[u8]) -> Result<OpenedKey, Failure> {
        let parameters = (self.settings.text.as_str(), blob);
        let opened: words::OpenedKey = self.enter(self.exports.unwrap_key, &[], parameters).await?;
        let bytes = Zeroizing::new(opened.key);
        self.check_key_id(&opened.newest_key_id)?;
        if bytes.len() != SEAL_KEY_BYTES {
            return Err(self.violation(&format!("a seal key of {} bytes", bytes.len())));
        }
        let mut key = Zeroizing::new([0; SEAL_KEY_BYTES]);
        key.copy_from_slice(&bytes);
        Ok(OpenedKey { key, newest_key_id: opened.newest_key_id })
    }

    /// Renews the credentials of the seal at the service. Returns the time until the next renewal,
    /// at least 1 s; `None`: the credentials need no renewal.
    ///
    /// # Errors
    /// As [`wrap_key`](Self::wrap_key).
    pub async fn renew_credentials(&self) -> Result<Option<Duration>, Failure> {
        let parameters = (self.settings.text.as_str(),);
        let seconds: Option<u64> =
            self.enter(self.exports.renew_credentials, &[], parameters).await?;
        Ok(seconds.map(|seconds| Duration::from_secs(seconds.max(1))))
    }

    /// Checks that the service would wrap a key now.
    ///
    /// # Errors
    /// As [`wrap_key`](Self::wrap_key).
    pub async fn check_health(&self) -> Result<(), Failure> {
        let parameters = (self.settings.text.as_str(),);
        self.enter(self.exports.check_health, &[], parameters).await
    }

    /// Returns the component's identity.
    #[must_use]
    pub fn identity(&self) -> &ComponentIdentity {
        &self.identity
    }

    /// Enters a fresh instance through one export. `secrets` join the secrets of the settings.
    async fn enter<P, T>(
        &self,
        export: ComponentExportIndex,
        secrets: &[Zeroizing<String>],
        parameters: P,
    ) -> Result<T, Failure>
    where
        P: ComponentNamedList + Lower + Send + Sync,
        T: Lift + Send + Sync + 'static,
    {
        let deadline = Instant::now() + SEAL_CALL_TIMEOUT;
        let _slot = admit(&self.runtime, &self.compartment, deadline).await?;
        let tree = Arc::new(CallTree::default());
        let all = self.settings.secrets.iter().chain(secrets);
        all.for_each(|secret| tree.secrets.add(secret));
        let context = CallContext {
            compartment: Arc::clone(&self.compartment),
            grants: Arc::clone(&self.grants),
            deadline,
            slots: 1,
            services: Arc::clone(&self.services),
            tree: Arc::clone(&tree),
            trace: None,
        };
        let identity = Arc::clone(&self.identity);
        let mut store = new_store(CallState::new(&self.resources, context, identity, None));
        let work = Box::pin(async {
            let permits = &self.runtime.resources.cpu_permits;
            tree.cpu_meter.admit(permits, &self.compartment).await;
            let instance = self.pre.instantiate_async(&mut store).await?;
            let function = instance
                .get_typed_func::<P, (Result<T, contract::Failure>,)>(&mut store, export)?;
            let (result,) = function.call_async(&mut store, parameters).await?;
            Ok(result)
        });
        let outcome = tree.cpu_meter.measure(tokio::time::timeout_at(deadline, work)).await;
        settle(store.data(), outcome.map_err(CallInterruption::from))
    }

    fn check_key_id(&self, id: &str) -> Result<(), Failure> {
        let is_fit = (1..=KEY_ID_BYTES).contains(&id.len())
            && id.bytes().all(|byte| matches!(byte, b' '..=b'~'));
        match is_fit {
            true => Ok(()),
            false => Err(self.violation("a key id outside of 1 to 256 bytes of printable ASCII")),
        }
    }

    /// Returns the failure for an answer outside of the contract.
    fn violation(&self, answer: &str) -> Failure {
        Failure::internal(format!("{} answered {answer}", self.identity.title()))
    }
}

/// Waits for a slot of the pool, among due work.
async fn admit(
    runtime: &SandboxRuntime,
    compartment: &Arc<Compartment>,
    deadline: Instant,
) -> Result<SlotPermit, Failure> {
    let priority = CallPriority::Background;
    let wanted = SlotRequest { compartment, slots: 1, priority, caller: None, deadline };
    match runtime.resources.slots.enter(&wanted) {
        AdmissionOutcome::Admitted(slot) => Ok(slot),
        AdmissionOutcome::Crowded => Err(admission::crowded()),
        AdmissionOutcome::Waits { admission, .. } => admission::wait(admission, deadline).await,
    }
}

/// Checks the types of all exports, and asks the component for its description.
async fn describe(
    resources: &Arc<StoreResources>,
    pre: &InstancePre<CallState>,
    digest: &str,
) -> Result<SealDescription, String> {
    let typed = SealPluginPre::new(pre.clone())
        .map_err(|error| format!("the component is not a seal plugin: {error:#}"))?;
    let text = describe::describe_seal_plugin(resources, &typed, digest).await?;
    let description: SealDescription = component::parse_description(&text)?;
    load::check_kind(&description.kind, "seal-plugin")?;
    Ok(description)
}

#[cfg(test)]
mod tests;

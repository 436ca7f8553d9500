//! Loading: from a component's code to an engine or a database plugin that can be called.

use crate::bindings::{database_plugin, secrets_engine};
use crate::component::{self, Artefact};
use crate::database_plugin::DatabasePlugin;
use crate::describe;
use crate::grants::{Ask, Maker};
use crate::identity::Identity;
use crate::instance_cache::Reuse;
use crate::limits::ReuseBounds;
use crate::sandbox::Sandbox;
use crate::state::CallState;
use bulkhead_wire::description::{DatabaseDescription, Description};
use std::sync::Arc;
use wasmtime::component::{Component, ComponentExportIndex, InstancePre, Linker};

/// A secrets engine, ready to be called.
pub struct Engine {
    pub(crate) sandbox: Arc<Sandbox>,
    pub(crate) pre: InstancePre<CallState>,
    pub(crate) exports: Exports,
    pub(crate) identity: Arc<Identity>,
    description: Description,
    ceiling: Option<Arc<[Ask]>>,
}

/// Where an engine's exports are, looked up once.
pub(crate) struct Exports {
    pub(crate) migrate: ComponentExportIndex,
    pub(crate) handle: ComponentExportIndex,
    pub(crate) wake: ComponentExportIndex,
    pub(crate) renew: ComponentExportIndex,
    pub(crate) revoke: ComponentExportIndex,
}

impl Exports {
    fn of(component: &Component) -> Result<Self, String> {
        let find = |interface: &str, function: &str| {
            let instance = component.get_export_index(None, interface);
            let found =
                instance.and_then(|instance| component.get_export_index(Some(&instance), function));
            found.ok_or_else(|| format!("the component does not export {function} of {interface}"))
        };
        let engine = |function: &str| find("bulkhead:plugin/engine@0.1.0", function);
        let leased = |function: &str| find("bulkhead:plugin/leased@0.1.0", function);
        let (migrate, handle, wake) = (engine("migrate")?, engine("handle")?, engine("wake")?);
        Ok(Self { migrate, handle, wake, renew: leased("renew")?, revoke: leased("revoke")? })
    }
}

impl Engine {
    /// Loads a component. `known` is the description stored at registration; without it the
    /// component is asked, in an instance without a single grant.
    ///
    /// # Errors
    /// What is wrong with the component, for its author: not a component, another world, unknown
    /// imports, a description that does not parse.
    pub async fn load(
        sandbox: &Arc<Sandbox>,
        artefact: Artefact<'_>,
        known: Option<Description>,
    ) -> Result<Self, String> {
        let pre = link(sandbox, artefact, &sandbox.runtime.linkers.secrets_engines)?;
        let typed = secrets_engine::SecretsEnginePre::new(pre.clone())
            .map_err(|error| format!("the component is not a secrets engine: {error:#}"))?;
        let exports = Exports::of(pre.component())?;
        let digest = artefact.digest();
        let description = match known {
            Some(description) => description,
            None => {
                let said = describe::engine(&sandbox.resources, &typed, &digest).await?;
                component::parse_description(&said)?
            }
        };
        check_kind(&description.kind, "secrets-engine")?;
        let identity = identity(&description.name, &description.version, digest, artefact.maker());
        Ok(Self {
            sandbox: Arc::clone(sandbox),
            pre,
            exports,
            identity,
            description,
            ceiling: artefact.ceiling(),
        })
    }

    /// Reuse of this component's instances for the mount with that uuid. The instances live as long
    /// as the value: it belongs to what ends when the mount or its version changes.
    #[must_use]
    pub fn reuse(&self, mount: &str, bounds: ReuseBounds) -> Reuse {
        Reuse::Bounded(self.sandbox.instance_caches.open(&self.identity, mount, bounds))
    }

    /// What it said of itself.
    #[must_use]
    pub fn description(&self) -> &Description {
        &self.description
    }

    /// Who it is.
    #[must_use]
    pub fn identity(&self) -> &Identity {
        &self.identity
    }

    /// What its entry in the catalog allows; `None`: all that it asks for.
    #[must_use]
    pub fn ceiling(&self) -> Option<&[Ask]> {
        self.ceiling.as_deref()
    }
}

impl DatabasePlugin {
    /// Loads a component; as [`Engine::load`].
    ///
    /// # Errors
    /// As [`Engine::load`].
    pub async fn load(
        sandbox: &Arc<Sandbox>,
        artefact: Artefact<'_>,
        known: Option<DatabaseDescription>,
    ) -> Result<Self, String> {
        let linked = link(sandbox, artefact, &sandbox.runtime.linkers.database_plugins)?;
        let pre = database_plugin::DatabasePluginPre::new(linked)
            .map_err(|error| format!("the component is not a database plugin: {error:#}"))?;
        let digest = artefact.digest();
        let description: DatabaseDescription = match known {
            Some(description) => description,
            None => {
                let said = describe::database_plugin(&sandbox.resources, &pre, &digest).await?;
                component::parse_description(&said)?
            }
        };
        check_kind(&description.kind, "database-plugin")?;
        let identity = identity(&description.name, &description.version, digest, artefact.maker());
        Self::new(identity, description, artefact.ceiling(), pre)
    }
}

fn check_kind(kind: &str, expected: &str) -> Result<(), String> {
    if kind == expected {
        return Ok(());
    }
    Err(format!("the description's kind is {kind:?}, not {expected:?}"))
}

fn link(
    sandbox: &Sandbox,
    artefact: Artefact<'_>,
    linker: &Linker<CallState>,
) -> Result<InstancePre<CallState>, String> {
    let component = component::load_code(&sandbox.resources.process.engine, artefact)?;
    linker
        .instantiate_pre(&component)
        .map_err(|error| format!("the component does not fit the contract: {error:#}"))
}

fn identity(name: &str, version: &str, digest: String, maker: Maker) -> Arc<Identity> {
    Arc::new(Identity { name: name.to_owned(), version: version.to_owned(), digest, maker })
}

//! Loads a component's code as a secrets engine, an auth method or a database plugin.

use crate::bindings::{auth_method, database_plugin, raw_engine, secrets_engine};
use crate::component::{self, Artefact};
use crate::database_plugin::DatabasePlugin;
use crate::describe;
use crate::grants::{Ask, Maker};
use crate::identity::Identity;
use crate::instance_cache::Reuse;
use crate::limits::ReuseBounds;
use crate::sandbox::Sandbox;
use crate::state::CallState;
use crate::structure::{World, interface_name};
use bulkhead_wire::description::{DatabaseDescription, Description};
use std::sync::Arc;
use wasmtime::component::{Component, ComponentExportIndex, InstancePre, Linker};

/// A mountable component, either a secrets engine or an auth method, ready to be called.
pub struct Engine {
    pub(crate) sandbox: Arc<Sandbox>,
    pub(crate) pre: InstancePre<CallState>,
    pub(crate) exports: Exports,
    pub(crate) identity: Arc<Identity>,
    description: Description,
    ceiling: Option<Arc<[Ask]>>,
}

/// Positions of the component's exports, looked up once.
pub(crate) struct Exports {
    describe: ComponentExportIndex,
    pub(crate) migrate: ComponentExportIndex,
    pub(crate) handle: ComponentExportIndex,
    pub(crate) wake: ComponentExportIndex,
    pub(crate) of_world: OfWorld,
    /// `serve` of `raw`, if the component exports it.
    pub(crate) serve: Option<ComponentExportIndex>,
}

/// The exports that exist in only one of the two worlds.
pub(crate) enum OfWorld {
    SecretsEngine { renew: ComponentExportIndex, revoke: ComponentExportIndex },
    AuthMethod { renew_login: ComponentExportIndex, alias_lookahead: ComponentExportIndex },
}

impl Exports {
    fn of(component: &Component, world: World) -> Result<Self, String> {
        let find = |interface: &str, function: &str| {
            let instance = component.get_export_index(None, interface);
            let found =
                instance.and_then(|instance| component.get_export_index(Some(&instance), function));
            found.ok_or_else(|| format!("the component does not export {function} of {interface}"))
        };
        let interface = world.exported();
        let own = |function: &str| find(&interface, function);
        let leased = |function: &str| find(&interface_name("leased"), function);
        let of_world = match world {
            World::AuthMethod => OfWorld::AuthMethod {
                renew_login: own("renew-login")?,
                alias_lookahead: own("alias-lookahead")?,
            },
            World::SecretsEngine | World::DatabasePlugin => {
                OfWorld::SecretsEngine { renew: leased("renew")?, revoke: leased("revoke")? }
            }
        };
        let (describe, migrate) = (own("describe")?, own("migrate")?);
        let (handle, wake) = (own("handle")?, own("wake")?);
        let serve = find(&interface_name("raw"), "serve").ok();
        Ok(Self { describe, migrate, handle, wake, of_world, serve })
    }
}

impl Engine {
    /// Loads a component. `known` is the description stored at registration; without it, the
    /// component is asked, in an instance without any grant.
    ///
    /// # Errors
    /// The fault of the component, for the author: not a component, another world, unknown imports,
    /// or a description that does not parse.
    pub async fn load(
        sandbox: &Arc<Sandbox>,
        artefact: Artefact<'_>,
        known: Option<Description>,
    ) -> Result<Self, String> {
        let component = component::load_code(&sandbox.resources.process.engine, artefact)?;
        let (world, pre) = link_mountable(sandbox, &component)?;
        let exports = Exports::of(&component, world)?;
        let digest = artefact.digest();
        let description: Description = match known {
            Some(description) => description,
            None => {
                let said = describe::mountable(&sandbox.resources, &pre, exports.describe, &digest)
                    .await?;
                component::parse_description(&said)?
            }
        };
        check_kind(&description.kind, world.word())?;
        check_raw(&description, &exports)?;
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

    /// Returns the component's world: a secrets engine or an auth method.
    #[must_use]
    pub fn world(&self) -> World {
        match self.exports.of_world {
            OfWorld::SecretsEngine { .. } => World::SecretsEngine,
            OfWorld::AuthMethod { .. } => World::AuthMethod,
        }
    }

    /// Returns reuse of this component's instances for the mount with this uuid. The instances live
    /// as long as the returned value, so the value must be dropped when the mount or its version
    /// changes.
    #[must_use]
    pub fn reuse(&self, mount: &str, bounds: ReuseBounds) -> Reuse {
        Reuse::Bounded(self.sandbox.instance_caches.open(&self.identity, mount, bounds))
    }

    /// Returns the component's own description.
    #[must_use]
    pub fn description(&self) -> &Description {
        &self.description
    }

    /// Returns the component's identity.
    #[must_use]
    pub fn identity(&self) -> &Identity {
        &self.identity
    }

    /// Returns the acts that the catalog entry allows; `None`: all acts that the component asks
    /// for.
    #[must_use]
    pub fn ceiling(&self) -> Option<&[Ask]> {
        self.ceiling.as_deref()
    }
}

impl DatabasePlugin {
    /// Loads a database plugin, as [`Engine::load`] does.
    ///
    /// # Errors
    /// The errors of [`Engine::load`].
    pub async fn load(
        sandbox: &Arc<Sandbox>,
        artefact: Artefact<'_>,
        known: Option<DatabaseDescription>,
    ) -> Result<Self, String> {
        let component = component::load_code(&sandbox.resources.process.engine, artefact)?;
        let linked = link(&component, &sandbox.runtime.linkers.database_plugins)?;
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

/// Checks that a component either both exports and describes plain HTTP, or neither.
fn check_raw(description: &Description, exports: &Exports) -> Result<(), String> {
    match (&description.raw, exports.serve) {
        (Some(_), None) => Err("the description has \"raw\", and the component does not export \
                                serve of bulkhead:plugin/raw"
            .to_owned()),
        (None, Some(_)) => Err("the component exports serve of bulkhead:plugin/raw, and its \
                                description does not say by \"raw\" which headers it reads"
            .to_owned()),
        _ => Ok(()),
    }
}

/// Links the component with the imports of its world. Checks all types of its exports, once.
fn link_mountable(
    sandbox: &Sandbox,
    component: &Component,
) -> Result<(World, InstancePre<CallState>), String> {
    let linkers = &sandbox.runtime.linkers;
    let is_auth = component.get_export_index(None, World::AuthMethod.exported()).is_some();
    if is_auth {
        let pre = link(component, &linkers.auth_methods)?;
        auth_method::AuthMethodPre::new(pre.clone())
            .map_err(|error| format!("the component is not an auth method: {error:#}"))?;
        return Ok((World::AuthMethod, pre));
    }
    let pre = link(component, &linkers.secrets_engines)?;
    secrets_engine::SecretsEnginePre::new(pre.clone())
        .map_err(|error| format!("the component is not a secrets engine: {error:#}"))?;
    if component.get_export_index(None, interface_name("raw")).is_some() {
        raw_engine::RawEnginePre::new(pre.clone())
            .map_err(|error| format!("the component's raw does not fit: {error:#}"))?;
    }
    Ok((World::SecretsEngine, pre))
}

fn link(
    component: &Component,
    linker: &Linker<CallState>,
) -> Result<InstancePre<CallState>, String> {
    linker
        .instantiate_pre(component)
        .map_err(|error| format!("the component does not fit the contract: {error:#}"))
}

fn identity(name: &str, version: &str, digest: String, maker: Maker) -> Arc<Identity> {
    Arc::new(Identity { name: name.to_owned(), version: version.to_owned(), digest, maker })
}

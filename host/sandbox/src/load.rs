//! Loads a component's code as a secrets engine, an auth method or a database plugin.
//!
//! A component whose description is stored can be known without its code: listings, mounts and
//! routes need only the description. The code is linked before the first call.

use crate::bindings::{auth_method, raw_engine, secrets_engine};
use crate::compiled::AuthenticCode;
use crate::component::{self, ComponentSource};
use crate::database_plugin::DatabasePlugin;
use crate::describe;
use crate::grants::{GrantPattern, Publisher};
use crate::identity::ComponentIdentity;
use crate::instance_cache::InstanceReuse;
use crate::limits::ReuseBounds;
use crate::linked_database_plugin::LinkedDatabasePlugin;
use crate::sandbox::Sandbox;
use crate::state::CallState;
use crate::structure::{World, interface_name, remark_on_minor};
use bulkhead_wire::description::{ComponentDescription, DatabaseDescription};
use std::sync::{Arc, OnceLock};
use wasmtime::component::{Component, ComponentExportIndex, InstancePre, Linker};

/// A mountable component, either a secrets engine or an auth method. Calls need its linked code.
pub struct MountablePlugin {
    pub(crate) sandbox: Arc<Sandbox>,
    pub(crate) identity: Arc<ComponentIdentity>,
    world: World,
    description: ComponentDescription,
    ceiling: Option<Arc<[GrantPattern]>>,
    linked: OnceLock<LinkedComponent>,
}

/// The machine code of a component, linked with the imports of its world.
struct LinkedComponent {
    pre: InstancePre<CallState>,
    exports: ComponentExports,
}

/// The code and the export that a call enters.
pub(crate) struct EntryPoint<'a> {
    pub(crate) pre: &'a InstancePre<CallState>,
    pub(crate) export: ComponentExportIndex,
}

/// Positions of the component's exports, looked up once.
pub(crate) struct ComponentExports {
    describe: ComponentExportIndex,
    pub(crate) migrate: ComponentExportIndex,
    pub(crate) handle: ComponentExportIndex,
    pub(crate) wake: ComponentExportIndex,
    of_world: WorldExports,
    /// `serve` of `raw`, if the component exports it.
    pub(crate) serve: Option<ComponentExportIndex>,
}

/// The exports that exist in only one of the two worlds.
enum WorldExports {
    SecretsEngine { renew: ComponentExportIndex, revoke: ComponentExportIndex },
    AuthMethod { renew_login: ComponentExportIndex, alias_lookahead: ComponentExportIndex },
}

impl ComponentExports {
    pub(crate) fn renew(&self) -> Option<ComponentExportIndex> {
        match self.of_world {
            WorldExports::SecretsEngine { renew, .. } => Some(renew),
            WorldExports::AuthMethod { .. } => None,
        }
    }

    pub(crate) fn revoke(&self) -> Option<ComponentExportIndex> {
        match self.of_world {
            WorldExports::SecretsEngine { revoke, .. } => Some(revoke),
            WorldExports::AuthMethod { .. } => None,
        }
    }

    pub(crate) fn renew_login(&self) -> Option<ComponentExportIndex> {
        match self.of_world {
            WorldExports::AuthMethod { renew_login, .. } => Some(renew_login),
            WorldExports::SecretsEngine { .. } => None,
        }
    }

    pub(crate) fn alias_lookahead(&self) -> Option<ComponentExportIndex> {
        match self.of_world {
            WorldExports::AuthMethod { alias_lookahead, .. } => Some(alias_lookahead),
            WorldExports::SecretsEngine { .. } => None,
        }
    }

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
            World::AuthMethod => WorldExports::AuthMethod {
                renew_login: own("renew-login")?,
                alias_lookahead: own("alias-lookahead")?,
            },
            World::SecretsEngine | World::DatabasePlugin => {
                WorldExports::SecretsEngine { renew: leased("renew")?, revoke: leased("revoke")? }
            }
        };
        let (describe, migrate) = (own("describe")?, own("migrate")?);
        let (handle, wake) = (own("handle")?, own("wake")?);
        let serve = find(&interface_name("raw"), "serve").ok();
        Ok(Self { describe, migrate, handle, wake, of_world, serve })
    }
}

impl MountablePlugin {
    /// Loads a component. `known_description` is the description stored at registration; without
    /// it, the component is asked, in an instance without any grant.
    ///
    /// # Errors
    /// The fault of the component, for the author: not a component, another world, unknown imports,
    /// or a description that does not parse.
    pub async fn load(
        sandbox: &Arc<Sandbox>,
        artefact: ComponentSource<'_>,
        known_description: Option<ComponentDescription>,
    ) -> Result<Self, String> {
        let (world, linked) = LinkedComponent::of(sandbox, artefact)?;
        let digest = artefact.digest();
        let description: ComponentDescription = match known_description {
            Some(description) => description,
            None => {
                let (describe, resources) = (linked.exports.describe, &sandbox.resources);
                let said =
                    describe::describe_mountable(resources, &linked.pre, describe, &digest).await?;
                component::parse_description(&said)?
            }
        };
        check_kind(&description.kind, world.word())?;
        check_raw(&description, &linked.exports)?;
        let identity = identity(&description.name, &description.version, digest, artefact.maker());
        let (sandbox, linked) = (Arc::clone(sandbox), OnceLock::from(linked));
        let ceiling = artefact.ceiling();
        Ok(Self { sandbox, identity, world, description, ceiling, linked })
    }

    /// Makes an uploaded component of `world` by its stored description, without its code.
    ///
    /// # Errors
    /// If the description is for another world.
    pub fn known(
        sandbox: &Arc<Sandbox>,
        (digest, ceiling): (&str, Option<&[GrantPattern]>),
        (world, description): (World, ComponentDescription),
    ) -> Result<Self, String> {
        check_kind(&description.kind, world.word())?;
        let (name, version) = (&description.name, &description.version);
        let identity = identity(name, version, digest.to_owned(), Publisher::Uploaded);
        let (sandbox, ceiling) = (Arc::clone(sandbox), ceiling.map(Arc::from));
        Ok(Self { sandbox, identity, world, description, ceiling, linked: OnceLock::new() })
    }

    /// Links the code of the component. Code that was linked before stays.
    ///
    /// # Errors
    /// The errors of [`MountablePlugin::check_code`].
    pub fn link(&self, code: &AuthenticCode) -> Result<(), String> {
        let linked = self.fitting(code)?;
        self.linked.get_or_init(|| linked);
        Ok(())
    }

    /// Checks that code fits the component, and drops the code.
    ///
    /// # Errors
    /// If the code is for another processor or build, or fits neither the contract nor the
    /// description.
    pub fn check_code(&self, code: &AuthenticCode) -> Result<(), String> {
        self.fitting(code).map(drop)
    }

    fn fitting(&self, code: &AuthenticCode) -> Result<LinkedComponent, String> {
        let artefact = ComponentSource::Uploaded {
            digest: &self.identity.digest,
            code,
            ceiling: self.ceiling(),
        };
        let (world, linked) = LinkedComponent::of(&self.sandbox, artefact)?;
        check_kind(self.world.word(), world.word())?;
        check_raw(&self.description, &linked.exports)?;
        Ok(linked)
    }

    /// Returns true if the code is linked, which calls need.
    #[must_use]
    pub fn is_linked(&self) -> bool {
        self.linked.get().is_some()
    }

    /// Returns the code with the export that `choose` picks; `None` without code or export.
    pub(crate) fn entry_point(
        &self,
        choose: impl FnOnce(&ComponentExports) -> Option<ComponentExportIndex>,
    ) -> Option<EntryPoint<'_>> {
        let LinkedComponent { pre, exports } = self.linked.get()?;
        Some(EntryPoint { pre, export: choose(exports)? })
    }

    /// Returns the component's world: a secrets engine or an auth method.
    #[must_use]
    pub fn world(&self) -> World {
        self.world
    }

    /// Returns reuse of this component's instances for the mount with this uuid. The instances live
    /// as long as the returned value, so the value must be dropped when the mount or its version
    /// changes.
    #[must_use]
    pub fn reuse(&self, mount: &str, bounds: ReuseBounds) -> InstanceReuse {
        InstanceReuse::Bounded(self.sandbox.instance_caches.open(&self.identity, mount, bounds))
    }

    /// Returns the component's own description.
    #[must_use]
    pub fn description(&self) -> &ComponentDescription {
        &self.description
    }

    /// Returns the component's identity.
    #[must_use]
    pub fn identity(&self) -> &ComponentIdentity {
        &self.identity
    }

    /// Returns the acts that the catalog entry allows; `None`: all acts that the component asks
    /// for.
    #[must_use]
    pub fn ceiling(&self) -> Option<&[GrantPattern]> {
        self.ceiling.as_deref()
    }
}

impl LinkedComponent {
    fn of(sandbox: &Sandbox, artefact: ComponentSource<'_>) -> Result<(World, Self), String> {
        let component = component::load_code(&sandbox.resources.process.engine, artefact)?;
        let (world, pre) = link_mountable(sandbox, &component)?;
        let exports = ComponentExports::of(&component, world)?;
        Ok((world, Self { pre, exports }))
    }
}

impl DatabasePlugin {
    /// Loads a database plugin, as [`MountablePlugin::load`] does.
    ///
    /// # Errors
    /// The errors of [`MountablePlugin::load`].
    pub async fn load(
        sandbox: &Arc<Sandbox>,
        artefact: ComponentSource<'_>,
        known_description: Option<DatabaseDescription>,
    ) -> Result<Self, String> {
        let pre = link_database_plugin(sandbox, artefact)?;
        let digest = artefact.digest();
        let description: DatabaseDescription = match known_description {
            Some(description) => description,
            None => {
                let said =
                    describe::describe_database_plugin(&sandbox.resources, &pre.users, &digest)
                        .await?;
                component::parse_description(&said)?
            }
        };
        check_kind(&description.kind, "database-plugin")?;
        let identity = identity(&description.name, &description.version, digest, artefact.maker());
        let plugin = Self::new(identity, description, artefact.ceiling())?;
        plugin.set_linked(pre);
        Ok(plugin)
    }

    /// Makes an uploaded database plugin by its stored description, without its code.
    ///
    /// # Errors
    /// If the description is for another world, or cannot be written as JSON.
    pub fn known(
        (digest, ceiling): (&str, Option<&[GrantPattern]>),
        description: DatabaseDescription,
    ) -> Result<Self, String> {
        check_kind(&description.kind, World::DatabasePlugin.word())?;
        let (name, version) = (&description.name, &description.version);
        let identity = identity(name, version, digest.to_owned(), Publisher::Uploaded);
        Self::new(identity, description, ceiling.map(Arc::from))
    }

    /// Links the code of the plugin. Code that was linked before stays.
    ///
    /// # Errors
    /// If the code is for another processor or build, or does not fit the contract.
    pub fn link(&self, sandbox: &Sandbox, code: &AuthenticCode) -> Result<(), String> {
        self.set_linked(self.fitting(sandbox, code)?);
        Ok(())
    }

    /// Checks that code fits the plugin, and drops the code.
    ///
    /// # Errors
    /// The errors of [`DatabasePlugin::link`].
    pub fn check_code(&self, sandbox: &Sandbox, code: &AuthenticCode) -> Result<(), String> {
        self.fitting(sandbox, code).map(drop)
    }

    fn fitting(
        &self,
        sandbox: &Sandbox,
        code: &AuthenticCode,
    ) -> Result<LinkedDatabasePlugin, String> {
        let digest = &self.identity().digest;
        link_database_plugin(
            sandbox,
            ComponentSource::Uploaded { digest, code, ceiling: self.ceiling() },
        )
    }
}

fn link_database_plugin(
    sandbox: &Sandbox,
    artefact: ComponentSource<'_>,
) -> Result<LinkedDatabasePlugin, String> {
    let component = component::load_code(&sandbox.resources.process.engine, artefact)?;
    let linked = link(&component, &sandbox.runtime.linkers.database_plugins)?;
    LinkedDatabasePlugin::of(&component, linked)
}

pub(crate) fn check_kind(kind: &str, expected: &str) -> Result<(), String> {
    if kind == expected {
        return Ok(());
    }
    Err(format!("the description's kind is {kind:?}, not {expected:?}"))
}

/// Checks that a component either both exports and describes plain HTTP, or neither.
fn check_raw(description: &ComponentDescription, exports: &ComponentExports) -> Result<(), String> {
    match (&description.raw, exports.serve) {
        (Some(_), None) => Err("the description has \"raw\", and the component does not export \
                                serve of bulkhead:plugin/raw"
            .to_owned()),
        (None, Some(_)) => {
            Err("the component exports serve of bulkhead:plugin/raw, and the description has no \
                 \"raw\" with the request headers to read"
                .to_owned())
        }
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

pub(crate) fn link(
    component: &Component,
    linker: &Linker<CallState>,
) -> Result<InstancePre<CallState>, String> {
    linker.instantiate_pre(component).map_err(|error| {
        let component_type = component.component_type();
        let imports = component_type.imports(component.engine());
        let remark = remark_on_minor(imports.map(|(name, _)| name));
        format!("the component does not fit the contract: {error:#}{remark}")
    })
}

fn identity(name: &str, version: &str, digest: String, maker: Publisher) -> Arc<ComponentIdentity> {
    Arc::new(ComponentIdentity {
        name: name.to_owned(),
        version: version.to_owned(),
        digest,
        maker,
    })
}

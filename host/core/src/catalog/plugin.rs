//! A plugin in the catalog, and the services for loading plugins.
//!
//! This file prevents a call of a component without a permit: the engine is a private field, and
//! only `EnginePlugin::callable` lends the engine, in exchange for a permit.

use super::entry::PluginType;
use super::origin::ComponentOrigin;
use super::pin::Pin;
use super::signatures::SignatureRules;
use crate::permit::Permit;
use bulkhead_access::log::Log;
use bulkhead_sandbox::compile::Compiler;
use bulkhead_sandbox::compiled::AuthenticCode;
use bulkhead_sandbox::component::ComponentIdentity;
use bulkhead_sandbox::structure::World;
use bulkhead_sandbox::{
    DatabasePlugin, GrantPattern, InstanceReuse, MountablePlugin, Publisher, ReuseBounds, Sandbox,
};
use bulkhead_store::Store;
use bulkhead_wire::api_version;
use bulkhead_wire::description::{ComponentDescription, Route, Verb};
use bulkhead_wire::failure::quoted;
use bulkhead_wire::route::{self, RouteMatch, RouteTable};
use std::collections::BTreeMap;
use std::sync::Arc;

/// A plugin for mounts, a secrets engine or an auth method, with its route table.
pub struct EnginePlugin {
    /// The component with identity and description; the first call may have to link the code.
    engine: MountablePlugin,
    /// The rows of every version of the API.
    pub table: Arc<RouteTable>,
    /// The rows of each version of the API; empty if the API has one version only.
    of_versions: BTreeMap<u64, Arc<RouteTable>>,
}

/// The path that serves the object of a path of an earlier version of the API.
pub struct ApiSuccessor {
    /// Version of the API that has the requested path.
    pub requested_version: u64,
    /// Version of the API that the mount serves.
    pub served: u64,
    /// Path below the mount.
    pub path: String,
}

/// A plugin of the catalog. Calls need its linked code.
#[derive(Clone)]
pub enum Plugin {
    /// A secrets engine or an auth method, for mounts.
    Engine(Arc<EnginePlugin>),
    /// A database plugin, for the connections of secrets engines.
    Database(Arc<DatabasePlugin>),
}

/// A committed change of the catalog.
pub enum CatalogChange {
    /// A plugin was added, or replaced the same version. With its origin.
    Registered(Plugin, ComponentOrigin),
    /// A registered component was registered again, without a change: type and name.
    Repeated(PluginType, String),
    /// A version of a plugin was removed: type, name and version.
    Removed(PluginType, String, String),
    /// A version was pinned: mounts of the plugin get the version from now on.
    Pinned(Pin),
    /// The pin of a plugin was removed: type and name.
    Unpinned(PluginType, String),
}

/// The services for loading a plugin.
#[derive(Clone, Copy)]
pub struct PluginLoader<'a> {
    pub(crate) store: &'a Arc<Store>,
    pub(crate) sandbox: &'a Arc<Sandbox>,
    pub(crate) compiler: &'a Compiler,
    pub(crate) signatures: &'a SignatureRules,
    pub(crate) log: &'a Arc<dyn Log>,
}

impl EnginePlugin {
    pub(super) fn new(engine: MountablePlugin) -> Result<Self, String> {
        let routes = engine.description().routes.clone();
        check_marks(&engine, &routes)?;
        let versions = engine.description().api_versions().into_iter();
        let of_versions = versions.map(|version| {
            let is_of = |route: &&Route| [0, version].contains(&route.api_version);
            Ok((version, table_of(&engine, routes.iter().filter(is_of).cloned().collect())?))
        });
        let of_versions = of_versions.collect::<Result<_, String>>()?;
        Ok(Self { table: table_of(&engine, routes)?, of_versions, engine })
    }

    /// Lends the engine for calls, in exchange for a permit.
    pub(crate) fn callable(&self, _permit: &Permit) -> &MountablePlugin {
        &self.engine
    }

    /// Returns the source of instances that serve several calls of `mount`, within `bounds`.
    pub(crate) fn reuse(&self, mount: &str, bounds: ReuseBounds) -> InstanceReuse {
        self.engine.reuse(mount, bounds)
    }

    /// Returns the name, version, digest and publisher of the component.
    pub fn identity(&self) -> &ComponentIdentity {
        self.engine.identity()
    }

    /// Returns the description that the component gave when the plugin was loaded.
    pub fn description(&self) -> &ComponentDescription {
        self.engine.description()
    }

    /// Returns the maximum grants of a mount; `None`: all acts that the plugin asks for.
    pub fn ceiling(&self) -> Option<&[GrantPattern]> {
        self.engine.ceiling()
    }

    /// Returns true if the code is linked, which calls need.
    pub(crate) fn is_linked(&self) -> bool {
        self.engine.is_linked()
    }

    /// Returns the rows that a mount with these options serves; none if the options ask for a
    /// version of the API that this version of the plugin does not have.
    pub(crate) fn table_for(&self, options: &BTreeMap<String, String>) -> Arc<RouteTable> {
        if self.of_versions.is_empty() {
            return Arc::clone(&self.table);
        }
        let option = options.get(api_version::OPTION).map(String::as_str);
        let version = self.description().api_version(option);
        version.and_then(|version| self.of_versions.get(&version)).cloned().unwrap_or_default()
    }

    /// Returns the version of the API that mounts with these options serve, and the version that a
    /// request to `path` was made for with the path that serves the same object now; `None` if no
    /// earlier version has the path.
    pub fn successor(
        &self,
        options: &BTreeMap<String, String>,
        (verb, path): (Verb, &str),
    ) -> Option<ApiSuccessor> {
        let option = options.get(api_version::OPTION).map(String::as_str);
        let served = self.description().api_version(option)?;
        self.of_versions.range(..served).rev().find_map(|(version, table)| {
            let RouteMatch::Row { route, captures, .. } = table.find(verb, path) else {
                return None;
            };
            let path = route::fill_pattern(route.successor.as_deref()?, &captures);
            Some(ApiSuccessor { requested_version: *version, served, path })
        })
    }

    /// Returns the version that a mount of the plugin records: none for a plugin of this binary,
    /// whose version changes with the binary.
    pub fn recorded_version(&self) -> String {
        let identity = self.identity();
        match identity.maker {
            Publisher::Official => String::new(),
            Publisher::Uploaded => identity.version.clone(),
        }
    }

    /// Returns the newest schema of stored data that the plugin reads without a migration.
    pub(crate) fn newest_schema(&self) -> u32 {
        let description = self.description();
        description.reads_schema_up_to.unwrap_or_default().max(description.schema)
    }

    /// Returns the type: secrets engine or auth method.
    pub fn kind(&self) -> PluginType {
        PluginType::of_world(self.engine.world())
    }
}

fn table_of(engine: &MountablePlugin, routes: Vec<Route>) -> Result<Arc<RouteTable>, String> {
    let table =
        RouteTable::new(routes).map_err(|why| format!("{}: {why}", engine.identity().title()))?;
    Ok(Arc::new(table))
}

/// Refuses route marks of the other type: a secrets engine cannot have a login, and an auth method
/// cannot hand out leases.
fn check_marks(engine: &MountablePlugin, routes: &[Route]) -> Result<(), String> {
    let is_auth = engine.world() == World::AuthMethod;
    let foreign = routes.iter().find(|route| if is_auth { route.leases } else { route.login });
    let Some(Route { verb, path, .. }) = foreign else { return Ok(()) };
    let (title, row) = (engine.identity().title(), format!("row {verb:?} of {}", quoted(path)));
    Err(match is_auth {
        true => format!("{title}: {row}: leases: an auth method has none"),
        false => format!("{title}: {row}: login: a secrets engine lets nobody in"),
    })
}

impl Plugin {
    /// Reports whether the code is linked, which calls need.
    pub(crate) fn is_linked(&self) -> bool {
        match self {
            Self::Engine(plugin) => plugin.is_linked(),
            Self::Database(plugin) => plugin.is_linked(),
        }
    }

    /// Links the code of the plugin.
    ///
    /// # Errors
    /// If the code does not fit the plugin.
    pub(super) fn link(&self, sandbox: &Sandbox, code: &AuthenticCode) -> Result<(), String> {
        match self {
            Self::Engine(plugin) => plugin.engine.link(code),
            Self::Database(plugin) => plugin.link(sandbox, code),
        }
    }

    /// Checks that code fits the plugin, and drops the code.
    ///
    /// # Errors
    /// As [`Plugin::link`].
    pub(super) fn check_code(&self, sandbox: &Sandbox, code: &AuthenticCode) -> Result<(), String> {
        match self {
            Self::Engine(plugin) => plugin.engine.check_code(code),
            Self::Database(plugin) => plugin.check_code(sandbox, code),
        }
    }

    pub(crate) fn kind(&self) -> PluginType {
        match self {
            Self::Engine(plugin) => plugin.kind(),
            Self::Database(_) => PluginType::Database,
        }
    }

    /// Returns the grants that the plugin asks for, as lines.
    pub(super) fn asks(&self) -> &[String] {
        match self {
            Self::Engine(plugin) => &plugin.description().asks,
            Self::Database(plugin) => &plugin.description().asks,
        }
    }

    pub(crate) fn identity(&self) -> &ComponentIdentity {
        match self {
            Self::Engine(plugin) => plugin.identity(),
            Self::Database(plugin) => plugin.identity(),
        }
    }
}

//! From bytes to something that can be called: digest, compiled code, description, pre-instantiation.
//!
//! The attack this file stops: compiled code is native code, so whoever can swap it owns the process.
//! It is loaded only from the place that the binary itself came from, and never from a path or a store.

use crate::bindings::{database_plugin, secrets_engine};
use crate::describe;
use crate::engine::{self, Sandbox};
use crate::state::CallState;
use bulkhead_wire::description::{DatabaseDescription, Description};
use bulkhead_wire::hexadecimal;
use std::sync::Arc;
use wasmtime::component::{Component, ComponentExportIndex, InstancePre};

/// A component's bytes, and what compiling them at build time gave, where that was done.
#[derive(Clone, Copy)]
pub struct Artefact {
    /// The component. Its SHA-256 is its identity.
    pub wasm: &'static [u8],
    /// Code compiled from `wasm` by [`precompile`], part of this very binary; anything else would be
    /// somebody else's machine code.
    pub compiled: Option<&'static [u8]>,
}

/// Who a component is, for logs and failures.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// Its name.
    pub name: String,
    /// Semantic version.
    pub version: String,
    /// SHA-256 of the component's bytes, hexadecimal.
    pub digest: String,
}

impl Identity {
    /// `plugin database 1.4.2 (sha256 9f2c…)`.
    #[must_use]
    pub fn title(&self) -> String {
        let short: String = self.digest.chars().take(8).collect();
        format!("plugin {} {} (sha256 {short}…)", self.name, self.version)
    }
}

/// A secrets engine, ready to be called.
pub struct Engine {
    pub(crate) sandbox: Arc<Sandbox>,
    pub(crate) pre: InstancePre<CallState>,
    pub(crate) exports: Exports,
    pub(crate) identity: Arc<Identity>,
    description: Description,
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
            let found = instance.and_then(|instance| component.get_export_index(Some(&instance), function));
            found.ok_or_else(|| format!("the component does not export {function} of {interface}"))
        };
        let engine = |function: &str| find("bulkhead:plugin/engine@0.1.0", function);
        let leased = |function: &str| find("bulkhead:plugin/leased@0.1.0", function);
        let (migrate, handle, wake) = (engine("migrate")?, engine("handle")?, engine("wake")?);
        Ok(Self { migrate, handle, wake, renew: leased("renew")?, revoke: leased("revoke")? })
    }
}

impl Engine {
    /// Loads a component. `known` is the description stored at registration; without it the component
    /// is asked, in an instance without a single grant.
    ///
    /// # Errors
    /// What is wrong with the component, for its author: not a component, another world, unknown
    /// imports, a description that does not parse.
    pub async fn load(sandbox: &Arc<Sandbox>, artefact: Artefact, known: Option<Description>) -> Result<Self, String> {
        let pre = compile(sandbox, artefact, &sandbox.runtime.secrets_engines)?;
        let typed = secrets_engine::SecretsEnginePre::new(pre.clone())
            .map_err(|error| format!("the component is not a secrets engine: {error:#}"))?;
        let exports = Exports::of(pre.component())?;
        let digest = digest(artefact.wasm);
        let description = match known {
            Some(description) => description,
            None => described(&describe::engine(sandbox, &typed, &digest).await?)?,
        };
        if description.kind != "secrets-engine" {
            return Err(format!("the description's kind is {:?}, not \"secrets-engine\"", description.kind));
        }
        let identity = identity(&description.name, &description.version, digest);
        Ok(Self { sandbox: Arc::clone(sandbox), pre, exports, identity, description })
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
}

/// A database plugin, ready to be reached by engines.
pub struct DatabasePlugin {
    pub(crate) sandbox: Arc<Sandbox>,
    pub(crate) pre: database_plugin::DatabasePluginPre<CallState>,
    pub(crate) identity: Arc<Identity>,
    description: DatabaseDescription,
    pub(crate) description_text: String,
}

impl DatabasePlugin {
    /// Loads a component; as [`Engine::load`].
    ///
    /// # Errors
    /// As [`Engine::load`].
    pub async fn load(
        sandbox: &Arc<Sandbox>,
        artefact: Artefact,
        known: Option<DatabaseDescription>,
    ) -> Result<Self, String> {
        let instance_pre = compile(sandbox, artefact, &sandbox.runtime.database_plugins)?;
        let pre = database_plugin::DatabasePluginPre::new(instance_pre)
            .map_err(|error| format!("the component is not a database plugin: {error:#}"))?;
        let digest = digest(artefact.wasm);
        let description: DatabaseDescription = match known {
            Some(description) => description,
            None => described(&describe::database_plugin(sandbox, &pre, &digest).await?)?,
        };
        if description.kind != "database-plugin" {
            return Err(format!("the description's kind is {:?}, not \"database-plugin\"", description.kind));
        }
        let identity = identity(&description.name, &description.version, digest);
        let description_text = serde_json::to_string(&description).map_err(|error| error.to_string())?;
        Ok(Self { sandbox: Arc::clone(sandbox), pre, identity, description, description_text })
    }

    /// What it said of itself.
    #[must_use]
    pub fn description(&self) -> &DatabaseDescription {
        &self.description
    }

    /// Who it is.
    #[must_use]
    pub fn identity(&self) -> &Identity {
        &self.identity
    }
}

/// Compiles a component for this machine, with the settings of the sandbox.
///
/// # Errors
/// What is wrong with the component.
pub fn precompile(wasm: &[u8]) -> Result<Vec<u8>, String> {
    let engine = engine::engine().map_err(|error| format!("{error:#}"))?;
    engine.precompile_component(wasm).map_err(|error| format!("{error:#}"))
}

/// SHA-256, hexadecimal.
#[must_use]
pub fn digest(bytes: &[u8]) -> String {
    hexadecimal::text(aws_lc_rs::digest::digest(&aws_lc_rs::digest::SHA256, bytes).as_ref())
}

fn identity(name: &str, version: &str, digest: String) -> Arc<Identity> {
    Arc::new(Identity { name: name.to_owned(), version: version.to_owned(), digest })
}

fn described<T: serde::de::DeserializeOwned>(text: &str) -> Result<T, String> {
    serde_json::from_str(text).map_err(|error| format!("its description does not parse: {error}"))
}

fn compile(
    sandbox: &Sandbox,
    artefact: Artefact,
    linker: &wasmtime::component::Linker<CallState>,
) -> Result<InstancePre<CallState>, String> {
    let built_in = artefact.compiled.and_then(|code| load_compiled(sandbox, code));
    let component = match built_in {
        Some(component) => component,
        None => Component::from_binary(&sandbox.runtime.engine, artefact.wasm)
            .map_err(|error| format!("the component does not compile: {error:#}"))?,
    };
    linker.instantiate_pre(&component).map_err(|error| format!("the component does not fit the contract: {error:#}"))
}

/// `None` where the code was compiled for another processor or build: it is compiled again instead.
#[allow(unsafe_code, reason = "the one place that loads compiled code; see SAFETY")]
fn load_compiled(sandbox: &Sandbox, code: &'static [u8]) -> Option<Component> {
    // SAFETY: `deserialize` trusts its input as native code. `Artefact::compiled` is `&'static`, made by
    // `precompile` during the build and embedded in this binary, so whoever could change it could
    // change the binary itself. wasmtime checks version, build, flags and processor features.
    unsafe { Component::deserialize(&sandbox.runtime.engine, code) }.ok()
}

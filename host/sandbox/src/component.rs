//! From bytes to something that can be called: digest, compiled code, description,
//! pre-instantiation.
//!
//! The attack this file stops: compiled code is native code, so whoever can swap it owns the
//! process. It is loaded from the place that the binary itself came from, or from the store with
//! this cluster's tag (see `compiled.rs`), and never from a path.

use crate::bindings::{database_plugin, secrets_engine};
use crate::compiled::AuthenticCode;
use crate::describe;
use crate::engine::{self, Sandbox};
use crate::grants::Ask;
use crate::state::CallState;
use bulkhead_wire::description::{DatabaseDescription, Description};
use bulkhead_wire::{hexadecimal, json};
use std::sync::Arc;
use wasmtime::component::{Component, ComponentExportIndex, InstancePre};

/// What a component is loaded from.
#[derive(Clone, Copy)]
pub enum Artefact<'a> {
    /// A part of this binary.
    Official {
        /// The component. Its SHA-256 is its identity.
        wasm: &'static [u8],
        /// Code compiled from `wasm` by [`precompile`] at build time, where that was done; part of
        /// this very binary, because anything else would be somebody else's machine code.
        compiled: Option<&'static [u8]>,
    },
    /// Somebody brought it.
    Uploaded {
        /// SHA-256 of the component, hexadecimal.
        digest: &'a str,
        /// What it was compiled to.
        code: &'a AuthenticCode,
        /// What its entry in the catalog allows; `None`: whatever it asks for.
        ceiling: Option<&'a [Ask]>,
    },
}

impl Artefact<'_> {
    fn digest(&self) -> String {
        match self {
            Self::Official { wasm, .. } => digest(wasm),
            Self::Uploaded { digest, .. } => (*digest).to_owned(),
        }
    }

    fn maker(&self) -> Maker {
        match self {
            Self::Official { .. } => Maker::Official,
            Self::Uploaded { .. } => Maker::Uploaded,
        }
    }

    fn ceiling(&self) -> Option<Arc<[Ask]>> {
        match self {
            Self::Official { .. } => None,
            Self::Uploaded { ceiling, .. } => ceiling.map(Arc::from),
        }
    }
}

/// Longest description, in bytes.
const DESCRIPTION_BYTES: usize = 1 << 20;

/// Who made a component. Rights follow from it, and so from bytes: a component that bears an
/// official's name has none of its rights.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Maker {
    /// It is part of this binary.
    Official,
    /// Somebody brought it.
    Uploaded,
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
    /// Who made it.
    pub maker: Maker,
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
        let pre = compile(sandbox, artefact, &sandbox.runtime.secrets_engines)?;
        let typed = secrets_engine::SecretsEnginePre::new(pre.clone())
            .map_err(|error| format!("the component is not a secrets engine: {error:#}"))?;
        let exports = Exports::of(pre.component())?;
        let digest = artefact.digest();
        let description = match known {
            Some(description) => description,
            None => described(&describe::engine(sandbox, &typed, &digest).await?)?,
        };
        if description.kind != "secrets-engine" {
            return Err(format!(
                "the description's kind is {:?}, not \"secrets-engine\"",
                description.kind
            ));
        }
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

    /// What its entry in the catalog allows; `None`: whatever it asks for.
    #[must_use]
    pub fn ceiling(&self) -> Option<&[Ask]> {
        self.ceiling.as_deref()
    }
}

/// A database plugin, ready to be reached by engines.
pub struct DatabasePlugin {
    pub(crate) sandbox: Arc<Sandbox>,
    pub(crate) pre: database_plugin::DatabasePluginPre<CallState>,
    pub(crate) identity: Arc<Identity>,
    description: DatabaseDescription,
    pub(crate) description_text: String,
    ceiling: Option<Arc<[Ask]>>,
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
        let instance_pre = compile(sandbox, artefact, &sandbox.runtime.database_plugins)?;
        let pre = database_plugin::DatabasePluginPre::new(instance_pre)
            .map_err(|error| format!("the component is not a database plugin: {error:#}"))?;
        let digest = artefact.digest();
        let description: DatabaseDescription = match known {
            Some(description) => description,
            None => described(&describe::database_plugin(sandbox, &pre, &digest).await?)?,
        };
        if description.kind != "database-plugin" {
            return Err(format!(
                "the description's kind is {:?}, not \"database-plugin\"",
                description.kind
            ));
        }
        let identity = identity(&description.name, &description.version, digest, artefact.maker());
        let description_text =
            serde_json::to_string(&description).map_err(|error| error.to_string())?;
        let (sandbox, ceiling) = (Arc::clone(sandbox), artefact.ceiling());
        Ok(Self { sandbox, pre, identity, description, description_text, ceiling })
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

    /// What its entry in the catalog allows; `None`: whatever it asks for.
    #[must_use]
    pub fn ceiling(&self) -> Option<&[Ask]> {
        self.ceiling.as_deref()
    }
}

/// Compiles a component for this machine, with the settings of the sandbox.
///
/// # Errors
/// What is wrong with the component.
pub fn precompile(wasm: &[u8]) -> Result<Vec<u8>, String> {
    let engine = engine::compiler().map_err(|error| format!("{error:#}"))?;
    engine.precompile_component(wasm).map_err(|error| format!("{error:#}"))
}

/// SHA-256, hexadecimal.
#[must_use]
pub fn digest(bytes: &[u8]) -> String {
    hexadecimal::text(aws_lc_rs::digest::digest(&aws_lc_rs::digest::SHA256, bytes).as_ref())
}

fn identity(name: &str, version: &str, digest: String, maker: Maker) -> Arc<Identity> {
    Arc::new(Identity { name: name.to_owned(), version: version.to_owned(), digest, maker })
}

fn described<T: serde::de::DeserializeOwned>(text: &str) -> Result<T, String> {
    if text.len() > DESCRIPTION_BYTES {
        return Err(format!(
            "its description has {} bytes; there may be at most {DESCRIPTION_BYTES}",
            text.len()
        ));
    }
    let wrong = |why: String| format!("its description does not parse: {why}");
    serde_json::from_value(json::value(text.as_bytes()).map_err(wrong)?)
        .map_err(|error| wrong(error.to_string()))
}

fn compile(
    sandbox: &Sandbox,
    artefact: Artefact<'_>,
    linker: &wasmtime::component::Linker<CallState>,
) -> Result<InstancePre<CallState>, String> {
    let component = match artefact {
        Artefact::Official { wasm, compiled } => {
            let built_in = compiled.and_then(|code| load_compiled(sandbox, Trusted::BuiltIn(code)));
            match built_in {
                Some(component) => component,
                None => Component::from_binary(&sandbox.runtime.engine, wasm)
                    .map_err(|error| format!("the component does not compile: {error:#}"))?,
            }
        }
        Artefact::Uploaded { code, .. } => load_compiled(sandbox, Trusted::Stored(code))
            .ok_or("its compiled code is for another processor or another build")?,
    };
    linker
        .instantiate_pre(&component)
        .map_err(|error| format!("the component does not fit the contract: {error:#}"))
}

/// Compiled code that may be loaded.
enum Trusted<'a> {
    /// Part of this binary.
    BuiltIn(&'static [u8]),
    /// Made by our own compiler, and unchanged since.
    Stored(&'a AuthenticCode),
}

/// `None` where the code was compiled for another processor or build: it is compiled again instead.
#[allow(unsafe_code, reason = "the one place that loads compiled code; see SAFETY")]
fn load_compiled(sandbox: &Sandbox, code: Trusted<'_>) -> Option<Component> {
    let code = match code {
        Trusted::BuiltIn(code) => code,
        Trusted::Stored(code) => code.bytes(),
    };
    // SAFETY: `deserialize` trusts its input as native code. What is built in is `&'static`, made
    // by `precompile` during the build and embedded in this binary, so whoever could change it
    // could change the binary itself. Stored code was made by a child of this program and bears the
    // tag of this cluster's key for just this code, component and build: `AuthenticCode` cannot be
    // had otherwise. wasmtime checks version, build, flags and processor features.
    unsafe { Component::deserialize(&sandbox.runtime.engine, code) }.ok()
}

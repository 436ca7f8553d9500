//! From bytes to code that can be linked: what a component is loaded from, and its description.
//!
//! The attack this file stops: compiled code is native code, so what can swap it owns the
//! process. It is loaded from the place that the binary itself came from, or from the store with
//! this cluster's tag (see `compiled.rs`), and never from a path.

use crate::compiled::AuthenticCode;
use crate::grants::Ask;
use crate::wasmtime_engine;
use bulkhead_wire::json;
use std::sync::Arc;
use wasmtime::Engine;
use wasmtime::component::Component;

pub use crate::grants::Maker;
pub use crate::identity::{Identity, digest};

/// What a component is loaded from.
#[derive(Clone, Copy)]
pub enum Artefact<'a> {
    /// A part of this binary.
    Official {
        /// The component. Its SHA-256 is its identity.
        wasm: &'static [u8],
        /// Code compiled from `wasm` by [`precompile`] at build time, where that was done; part of
        /// this very binary, because anything else could be another program's machine code.
        compiled: Option<&'static [u8]>,
    },
    /// A caller brought it.
    Uploaded {
        /// SHA-256 of the component, hexadecimal.
        digest: &'a str,
        /// What it was compiled to.
        code: &'a AuthenticCode,
        /// What its entry in the catalog allows; `None`: all that it asks for.
        ceiling: Option<&'a [Ask]>,
    },
}

impl Artefact<'_> {
    pub(crate) fn digest(&self) -> String {
        match self {
            Self::Official { wasm, .. } => digest(wasm),
            Self::Uploaded { digest, .. } => (*digest).to_owned(),
        }
    }

    pub(crate) fn maker(&self) -> Maker {
        match self {
            Self::Official { .. } => Maker::Official,
            Self::Uploaded { .. } => Maker::Uploaded,
        }
    }

    pub(crate) fn ceiling(&self) -> Option<Arc<[Ask]>> {
        match self {
            Self::Official { .. } => None,
            Self::Uploaded { ceiling, .. } => ceiling.map(Arc::from),
        }
    }
}

/// Longest description, in bytes.
const DESCRIPTION_BYTES: usize = 1 << 20;

/// Compiles a component for this machine, with the settings of the sandbox.
///
/// # Errors
/// What is wrong with the component.
pub fn precompile(wasm: &[u8]) -> Result<Vec<u8>, String> {
    let engine = wasmtime_engine::compiler().map_err(|error| format!("{error:#}"))?;
    engine.precompile_component(wasm).map_err(|error| format!("{error:#}"))
}

/// Reads a description.
///
/// # Errors
/// What is wrong with it, for the author of the component.
pub(crate) fn parse_description<T: serde::de::DeserializeOwned>(text: &str) -> Result<T, String> {
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

/// The code of a component, compiled now where it was not before.
///
/// # Errors
/// What is wrong with the component, for its author.
pub(crate) fn load_code(engine: &Engine, artefact: Artefact<'_>) -> Result<Component, String> {
    match artefact {
        Artefact::Official { wasm, compiled } => {
            let built_in = compiled.and_then(|code| load_compiled(engine, Trusted::BuiltIn(code)));
            match built_in {
                Some(component) => Ok(component),
                None => Component::from_binary(engine, wasm)
                    .map_err(|error| format!("the component does not compile: {error:#}")),
            }
        }
        Artefact::Uploaded { code, .. } => {
            load_compiled(engine, Trusted::Stored(code)).ok_or_else(|| {
                "its compiled code is for another processor or another build".to_owned()
            })
        }
    }
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
fn load_compiled(engine: &Engine, code: Trusted<'_>) -> Option<Component> {
    let code = match code {
        Trusted::BuiltIn(code) => code,
        Trusted::Stored(code) => code.bytes(),
    };
    // SAFETY: `deserialize` trusts its input as native code. What is built in is `&'static`, made
    // by `precompile` during the build and embedded in this binary, so what could change it
    // could change the binary itself. Stored code was made by a child of this program and bears the
    // tag of this cluster's key for just this code, component and build: `AuthenticCode` cannot be
    // had otherwise. wasmtime checks version, build, flags and processor features.
    unsafe { Component::deserialize(engine, code) }.ok()
}

//! Sources of a component's code, loading of the code, and the component's description.
//!
//! This file prevents native code of another program from being loaded: compiled code is native
//! code, so an attacker who can swap it owns the process. Code is loaded from this binary itself,
//! or from the store with this cluster's tag (see `compiled.rs`), and never from a path. The `dev`
//! binary alone reads the code of `make build` from the folder of the build
//! (`host/server/src/main.rs`).

use crate::compiled::AuthenticCode;
use crate::grants::GrantPattern;
use crate::wasmtime_engine;
use bulkhead_wire::json;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;
use wasmtime::Engine;
use wasmtime::component::Component;

pub use crate::grants::Publisher;
pub use crate::identity::{ComponentIdentity, digest};

/// The source of a component.
#[derive(Clone, Copy)]
pub enum ComponentSource<'a> {
    /// A component that is part of this binary.
    Official {
        /// The component. The SHA-256 of these bytes is the component's identity.
        wasm: &'static [u8],
        /// Code that [`precompile`] made from `wasm` at build time, if any; part of this very
        /// binary or of the same build, because code from elsewhere could be another program's
        /// machine code.
        compiled: Option<&'static [u8]>,
    },
    /// A component that a caller uploaded.
    Uploaded {
        /// SHA-256 of the component, hexadecimal.
        digest: &'a str,
        /// The compiled code.
        code: &'a AuthenticCode,
        /// Acts that the catalog entry allows; `None`: all acts that the component asks for.
        ceiling: Option<&'a [GrantPattern]>,
    },
}

impl ComponentSource<'_> {
    pub(crate) fn digest(&self) -> String {
        match self {
            Self::Official { wasm, .. } => digest(wasm),
            Self::Uploaded { digest, .. } => (*digest).to_owned(),
        }
    }

    pub(crate) fn maker(&self) -> Publisher {
        match self {
            Self::Official { .. } => Publisher::Official,
            Self::Uploaded { .. } => Publisher::Uploaded,
        }
    }

    pub(crate) fn ceiling(&self) -> Option<Arc<[GrantPattern]>> {
        match self {
            Self::Official { .. } => None,
            Self::Uploaded { ceiling, .. } => ceiling.map(Arc::from),
        }
    }
}

/// Maximum length of a description, in bytes.
const DESCRIPTION_BYTES: usize = 1 << 20;

/// Compiles a component for this machine, with the settings of the sandbox.
///
/// # Errors
/// The compiler's message about the component.
pub fn precompile(wasm: &[u8]) -> Result<Vec<u8>, String> {
    let engine = wasmtime_engine::compiler().map_err(|error| format!("{error:#}"))?;
    engine.precompile_component(wasm).map_err(|error| format!("{error:#}"))
}

/// Returns a text that differs wherever [`precompile`] makes other code of `wasm`: the digest of
/// the component, and a hash of the compiler's versions
/// ([`BUILD`](crate::compiled::BUILD)) and settings.
///
/// # Errors
/// The reason for which the compiler does not start.
pub fn compilation_key(wasm: &[u8]) -> Result<String, String> {
    let engine = wasmtime_engine::compiler().map_err(|error| format!("{error:#}"))?;
    let mut hasher = DefaultHasher::new();
    engine.precompile_compatibility_hash().hash(&mut hasher);
    Ok(format!("{} {:016x}", digest(wasm), hasher.finish()))
}

/// Parses a description.
///
/// # Errors
/// The fault of the description, for the author of the component.
pub(crate) fn parse_description<T: serde::de::DeserializeOwned>(text: &str) -> Result<T, String> {
    if text.len() > DESCRIPTION_BYTES {
        return Err(format!(
            "the description has {} bytes; there may be at most {DESCRIPTION_BYTES}",
            text.len()
        ));
    }
    let wrong = |why: String| format!("the description does not parse: {why}");
    serde_json::from_value(json::value(text.as_bytes()).map_err(wrong)?)
        .map_err(|error| wrong(error.to_string()))
}

/// Loads the code of a component. Compiles an official component that has no usable built-in code.
///
/// # Errors
/// The fault of the component, for the author.
pub(crate) fn load_code(
    engine: &Engine,
    artefact: ComponentSource<'_>,
) -> Result<Component, String> {
    match artefact {
        ComponentSource::Official { wasm, compiled } => {
            let built_in =
                compiled.and_then(|code| load_compiled(engine, TrustedCode::BuiltIn(code)));
            match built_in {
                Some(component) => Ok(component),
                None => Component::from_binary(engine, wasm)
                    .map_err(|error| format!("the component does not compile: {error:#}")),
            }
        }
        ComponentSource::Uploaded { code, .. } => load_compiled(engine, TrustedCode::Stored(code))
            .ok_or_else(|| {
                "the compiled code is for another processor or another build".to_owned()
            }),
    }
}

/// Compiled code that may be loaded.
enum TrustedCode<'a> {
    /// Part of this binary.
    BuiltIn(&'static [u8]),
    /// Code that our own compiler made, unchanged since.
    Stored(&'a AuthenticCode),
}

/// Loads compiled code. `None` if the code was compiled for another processor or build.
///
/// Stored code is mapped: its pages are those of the sealed file, and the file lives until the
/// component is dropped.
#[allow(unsafe_code, reason = "only this function loads compiled code; see SAFETY")]
fn load_compiled(engine: &Engine, code: TrustedCode<'_>) -> Option<Component> {
    // SAFETY: both functions trust their input as native code. Built-in code is `&'static`, made by
    // `precompile` during the build and embedded in this binary (`dist`) or stored in the folder of
    // the build that also holds this binary (`dev`), so an attacker who could change the code could
    // change the binary itself. Stored code was made by a child of this program and
    // bears the tag of this cluster's key for exactly this code, component and build:
    // `AuthenticCode` has no other constructor. The tag was checked of a sealed file, which nobody
    // can write from then on, so the mapped code is the checked code for as long as it is mapped.
    // wasmtime checks version, build, flags and processor features.
    let loaded = unsafe {
        match code {
            TrustedCode::BuiltIn(code) => Component::deserialize(engine, code),
            TrustedCode::Stored(code) => Component::deserialize_file(engine, code.path()),
        }
    };
    loaded.ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::{metadata, read, read_to_string};
    use std::os::unix::fs::MetadataExt;

    /// A line of `/proc/self/maps`.
    struct MemoryMapping {
        bytes: usize,
        rights: String,
    }

    /// Returns this process's mappings of the file with the number `inode`.
    fn mappings(inode: u64) -> Vec<MemoryMapping> {
        let maps = read_to_string("/proc/self/maps").unwrap();
        let of_file = maps.lines().filter(|line| {
            line.contains("memfd:compiled-code")
                && line.split_whitespace().nth(4) == Some(&inode.to_string())
        });
        let parse = |line: &str| {
            let mut words = line.split_whitespace();
            let (begin, end) = words.next().unwrap().split_once('-').unwrap();
            let [begin, end] = [begin, end].map(|text| usize::from_str_radix(text, 16).unwrap());
            MemoryMapping { bytes: end - begin, rights: words.next().unwrap().to_owned() }
        };
        of_file.map(parse).collect()
    }

    #[test]
    fn stored_code_is_mapped_once_per_component_lifetime() {
        let target = std::env::current_exe().unwrap().ancestors().nth(3).unwrap().to_path_buf();
        let file = read(target.join("guests/probe.cwasm"));
        let file = file.expect("the probe is missing: run `make guests`");
        let code = AuthenticCode::from_compiler(&file).unwrap();
        let inode = metadata(code.path()).unwrap().ino();
        assert!(mappings(inode).is_empty(), "nothing is mapped before the code is loaded");
        let engine = wasmtime_engine::compiler().unwrap();
        let artefact = ComponentSource::Uploaded { digest: "", code: &code, ceiling: None };
        let component = load_code(&engine, artefact).unwrap();
        drop(code);
        let mapped = mappings(inode);
        let bytes: usize = mapped.iter().map(|mapping| mapping.bytes).sum();
        assert_eq!(bytes.div_ceil(4096), file.len().div_ceil(4096), "each page is mapped once");
        assert!(mapped.iter().any(|mapping| mapping.rights == "r-xp"), "the code can run");
        assert!(
            mapped.iter().all(|mapping| !mapping.rights.contains('w')),
            "the mapped code is not writable"
        );
        drop(component);
        assert!(mappings(inode).is_empty(), "the mapping ends with the component");
    }
}

//! Checks the structure of an uploaded component before its compilation. The author learns the
//! faults, and the compiler never sees a component that is built to exhaust it.
//!
//! Reads sections and counts, in linear time; the compiler checks the code in them.

mod generation;

use crate::limits::{
    CORE_INSTANCES_PER_INSTANCE, MountLimits, TABLE_ELEMENTS, TABLES_PER_INSTANCE,
};
use bulkhead_wire::failure::quoted;
use serde::{Deserialize, Serialize};
use wasmparser::{BinaryReaderError, Encoding, Instance, Parser, Payload};

pub(crate) use generation::remark_on_minor;

/// Maximum nesting of components and modules.
const DEPTH: usize = 8;
/// Maximum number of core modules in a component.
const MODULES: u32 = 16;
/// Maximum number of functions of all modules of a component.
const FUNCTIONS: u32 = 100_000;
/// Maximum number of imports, and of exports.
const NAMES: usize = 64;
/// Maximum length of the name of an import or export, in bytes.
const NAME_BYTES: usize = 512;
/// Bytes of a page of linear memory.
const PAGE: u64 = 64 << 10;

/// The interface of seal plugins, which are never uploaded (decision H93).
pub(crate) const SEAL: &str = "seal";

/// WASI interfaces that are linked (see `wasi.rs`), of any version 0.2.
const WASI: [&str; 17] = [
    "wasi:io/error",
    "wasi:io/poll",
    "wasi:io/streams",
    "wasi:clocks/wall-clock",
    "wasi:clocks/monotonic-clock",
    "wasi:random/random",
    "wasi:random/insecure-seed",
    "wasi:cli/exit",
    "wasi:cli/environment",
    "wasi:cli/stdin",
    "wasi:cli/stdout",
    "wasi:cli/stderr",
    "wasi:cli/terminal-input",
    "wasi:cli/terminal-output",
    "wasi:cli/terminal-stdin",
    "wasi:cli/terminal-stdout",
    "wasi:cli/terminal-stderr",
];

/// The world of a component: its exports, and so its permitted imports.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum World {
    /// A mountable component that hands out secrets.
    SecretsEngine,
    /// A component that is mounted below `auth/` and proves the identity behind logins.
    AuthMethod,
    /// A component that the database engine calls.
    DatabasePlugin,
}

impl World {
    const ALL: [Self; 3] = [Self::SecretsEngine, Self::AuthMethod, Self::DatabasePlugin];

    /// Returns the name of the world in descriptions.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::SecretsEngine => "secrets-engine",
            Self::AuthMethod => "auth-method",
            Self::DatabasePlugin => "database-plugin",
        }
    }

    /// Returns the interface that identifies the world.
    fn export(self) -> &'static str {
        match self {
            Self::SecretsEngine => "engine",
            Self::AuthMethod => "auth",
            Self::DatabasePlugin => "database-users",
        }
    }

    /// Returns the full name of that interface, in the version that this server supports.
    pub(crate) fn exported(self) -> String {
        interface_name(self.export())
    }

    /// Returns our interfaces that components of the world may import.
    fn imports(self) -> &'static [&'static str] {
        match self {
            Self::SecretsEngine => &[
                "types",
                "database-types",
                "storage",
                "leases",
                "clock",
                "database",
                "crypto",
                "passwords",
                "http",
                "ldap",
                "cache",
                "identity",
                "ambient",
                "log",
                "metrics",
                "migration",
            ],
            Self::AuthMethod => &[
                "types",
                "storage",
                "clock",
                "crypto",
                "passwords",
                "http",
                "ldap",
                "cache",
                "identity",
                "ambient",
                "log",
                "metrics",
                "migration",
            ],
            Self::DatabasePlugin => &["types", "database-types", "sql", "crypto", "clock", "log"],
        }
    }
}

/// Counts so far, and the imports and exports of the outermost level.
#[derive(Default)]
struct ComponentStructure {
    depth: usize,
    modules: u32,
    functions: u32,
    memories: u32,
    tables: u32,
    core_instances: u32,
    imports: Vec<String>,
    exports: Vec<String>,
}

/// Returns the world of the component in `bytes`.
///
/// # Errors
/// The fault of the component, for its author.
pub fn check(bytes: &[u8]) -> Result<World, String> {
    if bytes.is_empty() {
        return Err("the body is empty; send the component's bytes".to_owned());
    }
    if !bytes.starts_with(b"\0asm") {
        return Err("the body is not WebAssembly: the first four bytes are not \\0asm".to_owned());
    }
    let mut structure = ComponentStructure::default();
    for payload in Parser::new(0).parse_all(bytes) {
        structure.add(&payload.map_err(damaged)?)?;
    }
    let world = structure.world()?;
    structure.check_imports(world)?;
    Ok(world)
}

fn damaged(error: BinaryReaderError) -> String {
    format!(
        "the component is incomplete or damaged at byte {}: {}",
        error.offset(),
        error.message()
    )
}

impl ComponentStructure {
    fn add(&mut self, payload: &Payload<'_>) -> Result<(), String> {
        match payload {
            Payload::Version { encoding: Encoding::Module, .. } if self.depth == 0 => {
                return Err(
                    "this is a core module, not a component; build for wasm32-wasip2, or wrap the \
                     module: `wasm-tools component new`"
                        .to_owned(),
                );
            }
            Payload::ModuleSection { .. } => {
                self.enter()?;
                count(&mut self.modules, 1, MODULES, "core modules")?;
            }
            Payload::ComponentSection { .. } => self.enter()?,
            Payload::End(_) => self.depth = self.depth.saturating_sub(1),
            Payload::FunctionSection(section) => {
                count(&mut self.functions, section.count(), FUNCTIONS, "functions")?
            }
            Payload::TableSection(section) => {
                count(&mut self.tables, section.count(), TABLES_PER_INSTANCE, "tables")?;
                for table in section.clone() {
                    check_table(table.map_err(damaged)?.ty.initial)?;
                }
            }
            Payload::MemorySection(section) => {
                count(&mut self.memories, section.count(), 1, "linear memories")?;
                for memory in section.clone() {
                    check_memory(memory.map_err(damaged)?.initial)?;
                }
            }
            Payload::InstanceSection(section) => {
                for instance in section.clone() {
                    if matches!(instance.map_err(damaged)?, Instance::Instantiate { .. }) {
                        let most = CORE_INSTANCES_PER_INSTANCE;
                        count(&mut self.core_instances, 1, most, "core instances")?;
                    }
                }
            }
            Payload::ComponentImportSection(section) if self.depth == 0 => {
                for import in section.clone() {
                    push_name(&mut self.imports, import.map_err(damaged)?.name.name, "imports")?;
                }
            }
            Payload::ComponentExportSection(section) if self.depth == 0 => {
                for export in section.clone() {
                    push_name(&mut self.exports, export.map_err(damaged)?.name.name, "exports")?;
                }
            }
            _ => {}
        }
        Ok(())
    }

    fn enter(&mut self) -> Result<(), String> {
        self.depth += 1;
        if self.depth > DEPTH {
            return Err(format!("components are nested more than {DEPTH} deep"));
        }
        Ok(())
    }

    fn world(&self) -> Result<World, String> {
        let exports = |world: &World| {
            self.exports.iter().any(|export| generation::names(export, world.export()))
        };
        let mut worlds = World::ALL.into_iter().filter(exports);
        match (worlds.next(), worlds.next()) {
            (Some(world), None) => Ok(world),
            (Some(one), Some(other)) => Err(format!(
                "the component exports both {} and {}; a component has a single world",
                one.exported(),
                other.exported()
            )),
            (None, None) if self.exports.iter().any(|export| generation::names(export, SEAL)) => {
                Err("the component is a seal plugin; the server loads only the seal plugins of its \
                     own binary, and no catalog holds them"
                    .to_owned())
            }
            (None, _) => Err(generation::later_major(&self.exports).unwrap_or_else(|| {
                format!(
                    "the component exports none of {}, and a plugin must export one; found \
                     exports: {}",
                    World::ALL.map(World::exported).join(", "),
                    list_names(&self.exports)
                )
            })),
        }
    }

    fn check_imports(&self, world: World) -> Result<(), String> {
        let unknown: Vec<String> =
            self.imports.iter().filter(|import| !is_served(world, import)).cloned().collect();
        if unknown.is_empty() {
            return Ok(());
        }
        Err(generation::later_major(&unknown).unwrap_or_else(|| {
            format!(
                "the component imports interfaces not offered to its world: {}{}",
                list_names(&unknown),
                remark_on_minor(unknown.iter().map(String::as_str))
            )
        }))
    }
}

/// Counts `more` items, and fails if the total exceeds `most`.
fn count(counted: &mut u32, more: u32, most: u32, items: &str) -> Result<(), String> {
    *counted = counted.saturating_add(more);
    if *counted > most {
        return Err(format!(
            "the component has {counted} {items} or more; there may be at most {most}"
        ));
    }
    Ok(())
}

fn check_memory(pages: u64) -> Result<(), String> {
    let (bytes, most) = (pages.saturating_mul(PAGE), MountLimits::default().memory_bytes as u64);
    if bytes > most {
        let most = bulkhead_wire::size::show(most);
        return Err(format!(
            "the initial memory has {pages} pages of 64KiB; there may be at most {most}"
        ));
    }
    Ok(())
}

fn check_table(elements: u64) -> Result<(), String> {
    if elements > TABLE_ELEMENTS as u64 {
        return Err(format!(
            "the initial table has {elements} elements; there may be at most {TABLE_ELEMENTS}"
        ));
    }
    Ok(())
}

fn push_name(names: &mut Vec<String>, name: &str, items: &str) -> Result<(), String> {
    if names.len() >= NAMES {
        return Err(format!("the component has more than {NAMES} {items}"));
    }
    if name.len() > NAME_BYTES {
        return Err(format!("a name of the {items} has more than {NAME_BYTES} bytes"));
    }
    names.push(name.to_owned());
    Ok(())
}

/// Returns the full name of an interface of ours, in the version that this server supports.
/// wasmtime also finds the interface under this name in components of other minor versions.
pub(crate) fn interface_name(interface: &str) -> String {
    generation::interface_name(interface)
}

fn is_served(world: World, import: &str) -> bool {
    if generation::is_ours(import) {
        return world.imports().iter().any(|interface| generation::names(import, interface));
    }
    let served = |interface: &&str| {
        import.strip_prefix(*interface).is_some_and(|rest| rest.starts_with("@0.2."))
    };
    WASI.iter().any(served)
}

fn list_names(names: &[String]) -> String {
    if names.is_empty() {
        return "none".to_owned();
    }
    names.iter().map(|name| quoted(name)).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests;

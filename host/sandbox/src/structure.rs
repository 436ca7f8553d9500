//! The structure of a component that somebody brought, read before anything is compiled: its author
//! learns what is wrong with it, and no compiler sees what is built to exhaust it.
//!
//! It reads sections and counts, in time of the bytes; that the code in them is valid is the
//! compiler's to check.

use crate::limits::{CORE_INSTANCES_PER_INSTANCE, Limits, TABLE_ELEMENTS, TABLES_PER_INSTANCE};
use bulkhead_wire::failure::quoted;
use serde::{Deserialize, Serialize};
use wasmparser::{BinaryReaderError, Encoding, Instance, Parser, Payload};

/// How deep components and modules may stand in each other.
const DEPTH: usize = 8;
/// Core modules in a component.
const MODULES: u32 = 16;
/// Functions of all its modules.
const FUNCTIONS: u32 = 100_000;
/// Imports, and as many exports.
const NAMES: usize = 64;
/// Longest name of an import or export, in bytes.
const NAME_BYTES: usize = 512;
/// Bytes of a page of linear memory.
const PAGE: u64 = 64 << 10;

/// Interfaces of ours: their package, and the version that this server speaks.
const PLUGIN: &str = "bulkhead:plugin/";
const VERSION: &str = "0.1.0";

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

/// The world that a component is built for: what it exports, and so what it may import.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum World {
    /// It can be mounted.
    SecretsEngine,
    /// The database engine reaches it.
    DatabasePlugin,
}

impl World {
    /// The interface that tells the world.
    fn export(self) -> &'static str {
        match self {
            Self::SecretsEngine => "engine",
            Self::DatabasePlugin => "database-users",
        }
    }

    /// Interfaces of ours that components of the world may import.
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
                "cache",
                "log",
            ],
            Self::DatabasePlugin => &["types", "database-types", "sql", "crypto", "clock", "log"],
        }
    }
}

/// What was counted so far, and what stands at the outermost level.
#[derive(Default)]
struct Seen {
    depth: usize,
    modules: u32,
    functions: u32,
    memories: u32,
    tables: u32,
    core_instances: u32,
    imports: Vec<String>,
    exports: Vec<String>,
}

/// The world of the component in `bytes`.
///
/// # Errors
/// What is wrong with it, for its author.
pub fn check(bytes: &[u8]) -> Result<World, String> {
    if bytes.is_empty() {
        return Err("the body is empty; send the component's bytes".to_owned());
    }
    if !bytes.starts_with(b"\0asm") {
        return Err(
            "the body is not WebAssembly: it does not begin with its four bytes \\0asm".to_owned()
        );
    }
    let mut seen = Seen::default();
    for payload in Parser::new(0).parse_all(bytes) {
        seen.add(&payload.map_err(damaged)?)?;
    }
    let world = seen.world()?;
    seen.check_imports(world)?;
    Ok(world)
}

fn damaged(error: BinaryReaderError) -> String {
    format!(
        "the component is incomplete or damaged at byte {}: {}",
        error.offset(),
        error.message()
    )
}

impl Seen {
    fn add(&mut self, payload: &Payload<'_>) -> Result<(), String> {
        match payload {
            Payload::Version { encoding: Encoding::Module, .. } if self.depth == 0 => {
                return Err("this is a core module, not a component; build it for wasm32-wasip2, or wrap it: \
                            `wasm-tools component new`"
                    .to_owned());
            }
            Payload::ModuleSection { .. } => {
                self.enter()?;
                add(&mut self.modules, 1, MODULES, "core modules")?;
            }
            Payload::ComponentSection { .. } => self.enter()?,
            Payload::End(_) => self.depth = self.depth.saturating_sub(1),
            Payload::FunctionSection(section) => {
                add(&mut self.functions, section.count(), FUNCTIONS, "functions")?
            }
            Payload::TableSection(section) => {
                add(&mut self.tables, section.count(), TABLES_PER_INSTANCE, "tables")?;
                for table in section.clone() {
                    check_table(table.map_err(damaged)?.ty.initial)?;
                }
            }
            Payload::MemorySection(section) => {
                add(&mut self.memories, section.count(), 1, "linear memories")?;
                for memory in section.clone() {
                    check_memory(memory.map_err(damaged)?.initial)?;
                }
            }
            Payload::InstanceSection(section) => {
                for instance in section.clone() {
                    if matches!(instance.map_err(damaged)?, Instance::Instantiate { .. }) {
                        let most = CORE_INSTANCES_PER_INSTANCE;
                        add(&mut self.core_instances, 1, most, "core instances")?;
                    }
                }
            }
            Payload::ComponentImportSection(section) if self.depth == 0 => {
                for import in section.clone() {
                    keep(&mut self.imports, import.map_err(damaged)?.name.name, "imports")?;
                }
            }
            Payload::ComponentExportSection(section) if self.depth == 0 => {
                for export in section.clone() {
                    keep(&mut self.exports, export.map_err(damaged)?.name.name, "exports")?;
                }
            }
            _ => {}
        }
        Ok(())
    }

    fn enter(&mut self) -> Result<(), String> {
        self.depth += 1;
        if self.depth > DEPTH {
            return Err(format!("components are nested in it more than {DEPTH} deep"));
        }
        Ok(())
    }

    fn world(&self) -> Result<World, String> {
        let exports =
            |world: &World| self.exports.iter().any(|export| *export == ours(world.export()));
        let mut worlds = [World::SecretsEngine, World::DatabasePlugin].into_iter().filter(exports);
        match (worlds.next(), worlds.next()) {
            (Some(world), None) => Ok(world),
            (Some(_), Some(_)) => Err(format!(
                "it exports both {} and {}; a component is of one world",
                ours(World::SecretsEngine.export()),
                ours(World::DatabasePlugin.export())
            )),
            (None, _) => Err(format!(
                "it exports neither {} nor {}, one of which a plugin must export; its exports are: {}",
                ours(World::SecretsEngine.export()),
                ours(World::DatabasePlugin.export()),
                listed(&self.exports)
            )),
        }
    }

    fn check_imports(&self, world: World) -> Result<(), String> {
        let unknown: Vec<String> =
            self.imports.iter().filter(|import| !is_served(world, import)).cloned().collect();
        if unknown.is_empty() {
            return Ok(());
        }
        Err(format!(
            "it imports what this server does not have for a component of its world: {}",
            listed(&unknown)
        ))
    }
}

/// Counts `more` of something that there may be `most` of.
fn add(count: &mut u32, more: u32, most: u32, what: &str) -> Result<(), String> {
    *count = count.saturating_add(more);
    if *count > most {
        return Err(format!("it has {count} {what} or more; there may be at most {most}"));
    }
    Ok(())
}

fn check_memory(pages: u64) -> Result<(), String> {
    let (bytes, most) = (pages.saturating_mul(PAGE), Limits::default().memory_bytes as u64);
    if bytes > most {
        let most = bulkhead_wire::size::show(most);
        return Err(format!(
            "its memory begins with {pages} pages of 64KiB; it may begin with at most {most}"
        ));
    }
    Ok(())
}

fn check_table(elements: u64) -> Result<(), String> {
    if elements > TABLE_ELEMENTS as u64 {
        return Err(format!(
            "its table begins with {elements} elements; it may begin with at most {TABLE_ELEMENTS}"
        ));
    }
    Ok(())
}

fn keep(names: &mut Vec<String>, name: &str, what: &str) -> Result<(), String> {
    if names.len() >= NAMES {
        return Err(format!("it has more than {NAMES} {what}"));
    }
    if name.len() > NAME_BYTES {
        return Err(format!("one of its {what} has a name of more than {NAME_BYTES} bytes"));
    }
    names.push(name.to_owned());
    Ok(())
}

fn ours(interface: &str) -> String {
    format!("{PLUGIN}{interface}@{VERSION}")
}

fn is_served(world: World, import: &str) -> bool {
    if import.starts_with(PLUGIN) {
        return world.imports().iter().any(|interface| ours(interface) == import);
    }
    let served = |interface: &&str| {
        import.strip_prefix(*interface).is_some_and(|rest| rest.starts_with("@0.2."))
    };
    WASI.iter().any(served)
}

fn listed(names: &[String]) -> String {
    if names.is_empty() {
        return "none".to_owned();
    }
    names.iter().map(|name| quoted(name)).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::encoding::{MODULE, component, module, number, section};

    /// An import section of instances (of the type 0) with these names.
    fn imports(names: &[&str]) -> Vec<u8> {
        let one = |name: &&str| {
            [vec![0], number(name.len()), name.as_bytes().to_vec(), vec![5, 0]].concat()
        };
        section(10, &[number(names.len()), names.iter().flat_map(one).collect()].concat())
    }

    /// An export section of instances with these names.
    fn exports(names: &[&str]) -> Vec<u8> {
        let one = |name: &&str| {
            [vec![0], number(name.len()), name.as_bytes().to_vec(), vec![5, 0, 0]].concat()
        };
        section(11, &[number(names.len()), names.iter().flat_map(one).collect()].concat())
    }

    const ENGINE: &str = "bulkhead:plugin/engine@0.1.0";

    fn why(bytes: &[u8]) -> String {
        check(bytes).unwrap_err()
    }

    #[test]
    fn a_component_is_of_the_world_that_its_exports_tell() {
        assert_eq!(check(&component(&[exports(&[ENGINE])])), Ok(World::SecretsEngine));
        let database = "bulkhead:plugin/database-users@0.1.0";
        assert_eq!(check(&component(&[exports(&[database])])), Ok(World::DatabasePlugin));
        assert!(why(&component(&[exports(&[ENGINE, database])])).contains("both"));
        let other = why(&component(&[exports(&["bulkhead:plugin/engine@0.9.0"])]));
        assert!(other.contains("neither") && other.contains("engine@0.9.0"), "{other}");
        assert!(why(&component(&[])).ends_with("its exports are: none"));
    }

    #[test]
    fn what_is_no_component_is_told_what_it_is() {
        assert!(why(b"").contains("empty"));
        assert!(why(b"#!/bin/sh").contains("not WebAssembly"));
        assert!(why(b"\0asm").contains("incomplete or damaged"));
        assert!(
            why(&MODULE).contains("core module")
                && why(&MODULE).contains("wasm-tools component new")
        );
    }

    #[test]
    fn a_component_cut_short_anywhere_is_refused() {
        let whole = component(&[module(&[]), exports(&[ENGINE])]);
        assert_eq!(check(&whole), Ok(World::SecretsEngine));
        for end in 0..whole.len() {
            assert!(check(&whole[..end]).is_err(), "cut at {end}");
        }
    }

    #[test]
    fn imports_that_are_not_served_are_all_listed() {
        let names = [
            "wasi:cli/stdout@0.2.3",
            "bulkhead:plugin/storage@0.1.0",
            "wasi:filesystem/types@0.2.3",
            "wasi:sockets/tcp@0.2.3",
            "wasi:cli/stdout@0.3.0",
            "bulkhead:plugin/sql@0.1.0",
            "bulkhead:plugin/storage@0.2.0",
        ];
        let refused = why(&component(&[imports(&names), exports(&[ENGINE])]));
        for name in &names[2..] {
            assert!(refused.contains(name), "{refused}");
        }
        assert!(!refused.contains(names[0]) && !refused.contains(names[1]), "{refused}");
    }

    #[test]
    fn whatever_is_changed_in_a_component_it_is_read_or_refused() {
        let table = module(&[section(4, &[1, 0x70, 0, 1]), section(5, &[1, 0, 1])]);
        let whole = component(&[table, imports(&["wasi:cli/stdout@0.2.3"]), exports(&[ENGINE])]);
        assert_eq!(check(&whole), Ok(World::SecretsEngine));
        let mut seed = 0x9e37_79b9_7f4a_7c15_u64;
        let mut next = |below: usize| {
            seed ^= seed << 13;
            seed ^= seed >> 7;
            seed ^= seed << 17;
            usize::try_from(seed % u64::try_from(below).unwrap()).unwrap()
        };
        let mut read = 0;
        for _ in 0..50_000 {
            let mut changed = whole.clone();
            for _ in 0..=next(3) {
                let at = 8 + next(changed.len() - 8);
                match next(3) {
                    0 => changed[at] = u8::try_from(next(256)).unwrap(),
                    1 => changed.truncate(at.max(9)),
                    _ => changed.insert(at, u8::try_from(next(256)).unwrap()),
                }
            }
            read += u32::from(check(&changed).is_ok());
        }
        assert!(read > 0 && read < 50_000, "{read} of them were read: the changes say nothing");
    }

    #[test]
    fn counts_and_sizes_have_an_end() {
        let functions = module(&[section(3, &number(1_000_000))]);
        assert!(why(&component(&[functions])).contains("1000000 functions"));
        let table = module(&[section(4, &[number(4), [0x70, 0, 1].repeat(4)].concat())]);
        assert!(why(&component(&[table])).contains("tables"));
        let table = module(&[section(4, &[vec![1, 0x70, 0], number(20_001)].concat())]);
        assert!(why(&component(&[table])).contains("20001 elements"));
        let memory = |pages: usize| module(&[section(5, &[vec![1, 0], number(pages)].concat())]);
        assert!(why(&component(&[memory(1_025)])).contains("64MiB"));
        assert!(why(&component(&[memory(1), memory(1)])).contains("linear memories"));
        assert!(why(&component(&vec![module(&[]); 17])).contains("core modules"));
        let nested = (0..9).fold(Vec::new(), |inner, _| section(4, &component(&[inner])));
        assert!(why(&component(&[nested])).contains("more than 8 deep"));
        let many: Vec<String> = (0..65).map(|one| format!("x{one}")).collect();
        let many: Vec<&str> = many.iter().map(String::as_str).collect();
        assert!(why(&component(&[imports(&many)])).contains("more than 64 imports"));
        assert!(
            why(&component(&[exports(&["x".repeat(513).as_str()])]))
                .contains("more than 512 bytes")
        );
    }
}

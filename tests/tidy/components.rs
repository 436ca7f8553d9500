//! The built components have a small initial memory, and do not depend on the machine that built
//! the components.
//!
//! A fresh instance is zeroed memory, so every request pays for the initial memory. The linker's
//! stack setting is silently ignored if `RUSTFLAGS` is set; this module detects such a build.

use bulkhead_tests::paths::{files_below, repository, target};
use std::env;
use std::fs;
use std::path::PathBuf;

/// Maximum initial linear memory of an official component, in bytes.
const INITIAL_MEMORY: u64 = 384 * 1024;

/// Size of a page of linear memory, in bytes.
const PAGE: u64 = 64 * 1024;

/// Returns the names in `plugins/official.txt`, in order.
fn official() -> Vec<String> {
    let list = fs::read_to_string(repository().join("plugins/official.txt"));
    let list = list.expect("plugins/official.txt is there");
    let mut names: Vec<String> =
        list.lines().filter_map(|line| line.split(' ').nth(1)).map(str::to_owned).collect();
    names.sort();
    names
}

/// Reads a wasm binary sequentially.
struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn byte(&mut self) -> Option<u8> {
        let (first, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(*first)
    }

    fn number(&mut self) -> Option<u64> {
        let mut value = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            value |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Some(value);
            }
        }
        None
    }

    fn take(&mut self, length: u64) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(usize::try_from(length).ok()?)?;
        self.0 = rest;
        Some(taken)
    }

    fn section(&mut self) -> Option<(u8, &'a [u8])> {
        let id = self.byte()?;
        let length = self.number()?;
        Some((id, self.take(length)?))
    }
}

/// Adds up the initial memory of all core modules in a component or module; `None` if `binary` is
/// not wasm.
fn initial_memory(binary: &[u8]) -> Option<u64> {
    let mut reader = Reader(binary);
    let header = reader.take(8)?;
    let is_component = match header {
        [0, b'a', b's', b'm', 1, 0, 0, 0] => false,
        [0, b'a', b's', b'm', _, 0, 1, 0] => true,
        _ => return None,
    };
    let mut total = 0;
    while !reader.0.is_empty() {
        let (id, content) = reader.section()?;
        total += match (is_component, id) {
            // A core module or a component inside a component.
            (true, 1 | 4) => initial_memory(content)?,
            // The memories of a core module.
            (false, 5) => memories(content)?,
            _ => 0,
        };
    }
    Some(total)
}

fn memories(content: &[u8]) -> Option<u64> {
    let mut reader = Reader(content);
    let mut total = 0;
    for _ in 0..reader.number()? {
        let has_maximum = reader.byte()? & 1 == 1;
        total += reader.number()? * PAGE;
        if has_maximum {
            reader.number()?;
        }
    }
    Some(total)
}

#[test]
fn official_components_have_a_small_initial_memory() {
    for name in official() {
        let path = target().join(format!("plugins/{name}.wasm"));
        let binary = fs::read(&path)
            .unwrap_or_else(|_| panic!("{} is missing: run `make build`", path.display()));
        let bytes = initial_memory(&binary)
            .unwrap_or_else(|| panic!("{} is not a component", path.display()));
        assert!(bytes > 0, "{name}: no memory was found in it");
        let kib = bytes / 1024;
        assert!(
            bytes <= INITIAL_MEMORY,
            "{name} begins with {kib} KiB; was it built with RUSTFLAGS set?"
        );
    }
}

/// Returns the folders of this machine with paths that a build passes to the compiler.
fn folders_of_this_machine() -> Vec<String> {
    let home = env::var_os("HOME").map(PathBuf::from).filter(|home| home.parent().is_some());
    let cargo = env::var_os("CARGO_HOME").map(PathBuf::from);
    let folders = [Some(repository()), Some(target()), home, cargo].into_iter().flatten();
    folders.map(|folder| format!("{}/", folder.display())).collect()
}

#[test]
fn components_contain_no_build_machine_folder() {
    let mut looked_at = 0;
    for path in files_below(&target().join("plugins")) {
        let binary = fs::read(&path).expect("a built component can be read");
        for folder in folders_of_this_machine() {
            let is_named = binary.windows(folder.len()).any(|bytes| bytes == folder.as_bytes());
            assert!(
                !is_named,
                "{} names {folder}, so that its digest is that of this machine only: is the folder \
                 in FOLDERS of the Makefile, and was RUSTFLAGS unset?",
                path.display()
            );
        }
        looked_at += 1;
    }
    assert!(looked_at >= 2 * official().len(), "only {looked_at} files: run `make build`");
}

#[test]
fn every_official_component_is_checked() {
    let mut built: Vec<String> = fs::read_dir(target().join("plugins"))
        .expect("`make build` leaves target/plugins")
        .filter_map(|entry| {
            entry.ok()?.file_name().to_str()?.strip_suffix(".wasm").map(str::to_owned)
        })
        .collect();
    built.sort();
    assert_eq!(built, official(), "left: built; right: plugins/official.txt");
}

#[test]
fn the_reader_adds_up_nested_memories() {
    let module = [0, b'a', b's', b'm', 1, 0, 0, 0, 5, 4, 1, 1, 3, 16];
    let mut component = vec![0, b'a', b's', b'm', 0x0d, 0, 1, 0];
    for _ in 0..2 {
        component.extend([1, 14]);
        component.extend(module);
    }
    assert_eq!(initial_memory(&module), Some(3 * PAGE));
    assert_eq!(initial_memory(&component), Some(6 * PAGE));
    assert_eq!(initial_memory(&component[..30]), None);
}

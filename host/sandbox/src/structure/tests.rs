//! Tests of components that are refused before compilation, and of the messages for their authors.

use super::*;
use crate::encoding::{MODULE, component, module, number, section};

/// Encodes an import section of instances (of type 0) with these names.
fn imports(names: &[&str]) -> Vec<u8> {
    let one =
        |name: &&str| [vec![0], number(name.len()), name.as_bytes().to_vec(), vec![5, 0]].concat();
    section(10, &[number(names.len()), names.iter().flat_map(one).collect()].concat())
}

/// Encodes an export section of instances with these names.
fn exports(names: &[&str]) -> Vec<u8> {
    let one = |name: &&str| {
        [vec![0], number(name.len()), name.as_bytes().to_vec(), vec![5, 0, 0]].concat()
    };
    section(11, &[number(names.len()), names.iter().flat_map(one).collect()].concat())
}

const ENGINE: &str = "bulkhead:plugin/engine@1.0.0";

fn why(bytes: &[u8]) -> String {
    check(bytes).unwrap_err()
}

#[test]
fn component_world_follows_from_exports() {
    assert_eq!(check(&component(&[exports(&[ENGINE])])), Ok(World::SecretsEngine));
    let database = "bulkhead:plugin/database-users@1.0.0";
    assert_eq!(check(&component(&[exports(&[database])])), Ok(World::DatabasePlugin));
    let auth = "bulkhead:plugin/auth@1.0.0";
    assert_eq!(check(&component(&[exports(&[auth])])), Ok(World::AuthMethod));
    for two in [[ENGINE, database], [ENGINE, auth], [auth, database]] {
        assert!(why(&component(&[exports(&two)])).contains("both"), "{two:?}");
    }
    let other = why(&component(&[exports(&["bulkhead:plugin/engine@0.9.0"])]));
    assert!(other.contains("none of") && other.contains("engine@0.9.0"), "{other}");
    assert!(why(&component(&[])).ends_with("found exports: none"));
}

#[test]
fn non_component_file_is_refused_with_kind() {
    assert!(why(b"").contains("empty"));
    assert!(why(b"#!/bin/sh").contains("not WebAssembly"));
    assert!(why(b"\0asm").contains("incomplete or damaged"));
    assert!(
        why(&MODULE).contains("core module") && why(&MODULE).contains("wasm-tools component new")
    );
}

#[test]
fn a_component_cut_short_anywhere_is_refused() {
    let wasm = component(&[module(&[]), exports(&[ENGINE])]);
    assert_eq!(check(&wasm), Ok(World::SecretsEngine));
    for end in 0..wasm.len() {
        assert!(check(&wasm[..end]).is_err(), "cut at {end}");
    }
}

#[test]
fn imports_that_are_not_served_are_all_listed() {
    let names = [
        "wasi:cli/stdout@0.2.3",
        "bulkhead:plugin/storage@1.0.0",
        "wasi:filesystem/types@0.2.3",
        "wasi:sockets/tcp@0.2.3",
        "wasi:cli/stdout@0.3.0",
        "bulkhead:plugin/sql@1.0.0",
        "bulkhead:plugin/storage@0.2.0",
    ];
    let refused = why(&component(&[imports(&names), exports(&[ENGINE])]));
    for name in &names[2..] {
        assert!(refused.contains(name), "{refused}");
    }
    assert!(!refused.contains(names[0]) && !refused.contains(names[1]), "{refused}");
}

#[test]
fn later_major_version_is_refused_in_one_sentence() {
    for (imported, exported) in [
        ("bulkhead:plugin/storage@2.0.0", "bulkhead:plugin/engine@2.0.0"),
        ("bulkhead:plugin/storage@1.0.0", "bulkhead:plugin/auth@2.1.0"),
        ("bulkhead:plugin/dreams@2.0.0", ENGINE),
    ] {
        let refused = why(&component(&[imports(&[imported]), exports(&[exported])]));
        for part in ["built for major version 2", "serves major version 1", "SDK of version 1"] {
            assert!(refused.contains(part), "{refused}");
        }
        assert!(!refused.contains('\n') && !refused.contains(". "), "{refused}");
    }
    let both = exports(&["bulkhead:plugin/engine@2.0.0", ENGINE]);
    assert_eq!(
        check(&component(&[both])),
        Ok(World::SecretsEngine),
        "a component of both versions is accepted"
    );
}

#[test]
fn component_of_any_minor_version_needs_known_imports() {
    for minor in ["1.0.0", "1.0.7", "1.1.0", "1.99.0"] {
        let names = [format!("bulkhead:plugin/storage@{minor}")];
        let engine = format!("bulkhead:plugin/engine@{minor}");
        let wasm = component(&[imports(&[&names[0]]), exports(&[&engine])]);
        assert_eq!(check(&wasm), Ok(World::SecretsEngine), "{minor}");
    }
    let names = ["bulkhead:plugin/dreams@1.99.0"];
    let refused = why(&component(&[imports(&names), exports(&[ENGINE])]));
    assert!(refused.contains(names[0]) && refused.contains("version 1.99"), "{refused}");
    let refused = why(&component(&[imports(&["wasi:sockets/tcp@0.2.3"]), exports(&[ENGINE])]));
    assert!(!refused.contains("newer server"), "{refused}");
    for name in ["1.0", "1.0.0.0", "1.0.0-rc", "one"] {
        let engine = format!("bulkhead:plugin/engine@{name}");
        assert!(why(&component(&[exports(&[&engine])])).contains("none of"), "{name}");
    }
}

#[test]
fn an_auth_method_cannot_import_the_lease_book() {
    let names = ["bulkhead:plugin/storage@1.0.0", "bulkhead:plugin/leases@1.0.0"];
    let auth = exports(&["bulkhead:plugin/auth@1.0.0"]);
    let refused = why(&component(&[imports(&names), auth]));
    assert!(refused.contains(names[1]) && !refused.contains(names[0]), "{refused}");
    assert!(check(&component(&[imports(&names), exports(&[ENGINE])])).is_ok());
}

#[test]
fn component_with_changed_bytes_is_read_or_refused() {
    let table = module(&[section(4, &[1, 0x70, 0, 1]), section(5, &[1, 0, 1])]);
    let wasm = component(&[table, imports(&["wasi:cli/stdout@0.2.3"]), exports(&[ENGINE])]);
    assert_eq!(check(&wasm), Ok(World::SecretsEngine));
    let mut seed = 0x9e37_79b9_7f4a_7c15_u64;
    let mut next = |below: usize| {
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        usize::try_from(seed % u64::try_from(below).unwrap()).unwrap()
    };
    let mut read = 0;
    for _ in 0..50_000 {
        let mut changed = wasm.clone();
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
        why(&component(&[exports(&["x".repeat(513).as_str()])])).contains("more than 512 bytes")
    );
}

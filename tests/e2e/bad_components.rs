//! Components that are wrong, or made to hurt: each is refused in bounded time and memory, with words for its author,
//! and leaves nothing.

use crate::world::World;
use bulkhead_tests::Answer;
use bulkhead_tests::paths::{guest, target};
use std::fs;
use std::time::{Duration, Instant};

const COMPONENT: [u8; 8] = [0, b'a', b's', b'm', 0x0d, 0, 1, 0];
const MODULE: [u8; 8] = [0, b'a', b's', b'm', 1, 0, 0, 0];
/// Where the probe is registered.
const PROBE: &str = "secret/probe";

/// A number in LEB128.
fn number(mut value: usize) -> Vec<u8> {
    let mut bytes = Vec::new();
    while value > 0x7f {
        bytes.push(u8::try_from(value & 0x7f).expect("seven bits") | 0x80);
        value >>= 7;
    }
    bytes.push(u8::try_from(value).expect("seven bits"));
    bytes
}

fn section(id: u8, content: &[u8]) -> Vec<u8> {
    [vec![id], number(content.len()), content.to_vec()].concat()
}

/// A component of one core module with these sections.
fn of_module(sections: &[Vec<u8>]) -> Vec<u8> {
    let module = [MODULE.to_vec(), sections.concat()].concat();
    [COMPONENT.to_vec(), section(1, &module)].concat()
}

/// As many functions that do nothing.
fn functions(count: usize) -> Vec<u8> {
    let types = section(1, &[1, 0x60, 0, 0]);
    let declared = section(3, &[number(count), vec![0; count]].concat());
    let code = section(10, &[number(count), [2, 0, 0x0b].repeat(count)].concat());
    of_module(&[types, declared, code])
}

/// The probe, with one text of its description replaced by another as long.
fn probe_with(text: &str, other: &str) -> Vec<u8> {
    assert_eq!(text.len(), other.len());
    let mut probe = guest("probe");
    let mut found = 0;
    for start in 0..probe.len() - text.len() {
        if probe[start..].starts_with(text.as_bytes()) {
            probe[start..start + text.len()].copy_from_slice(other.as_bytes());
            found += 1;
        }
    }
    assert!(found > 0, "{text} is not in the probe");
    probe
}

/// Resident memory of the server, in bytes.
fn memory(world: &World) -> u64 {
    let status = fs::read_to_string(format!("/proc/{}/status", world.bulkhead.pid())).expect("a running server");
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("its memory");
    line.trim().trim_end_matches(" kB").parse::<u64>().expect("a number") << 10
}

/// Uploads it, which is refused at once and with little memory, and leaves nothing.
#[track_caller]
fn refused(world: &World, to: &str, component: &[u8], why: &str) -> Answer {
    refused_within(Duration::from_secs(5), world, to, component, why)
}

/// As [`refused`], of a component that has to be compiled before it can be asked what it is: the compiler steps behind
/// everything else that the machine does.
#[track_caller]
fn refused_once_compiled(world: &World, to: &str, component: &[u8], why: &str) -> Answer {
    refused_within(Duration::from_secs(60), world, to, component, why)
}

#[track_caller]
fn refused_within(most: Duration, world: &World, to: &str, component: &[u8], why: &str) -> Answer {
    let (began, before) = (Instant::now(), memory(world));
    let answer = world.root.upload(&format!("sys/plugins/catalog/{to}"), component).expect(400);
    assert!(answer.errors().contains(why), "{why}: {answer:?}");
    assert!(began.elapsed() < most, "{why}: {:?}", began.elapsed());
    let grown = memory(world).saturating_sub(before);
    assert!(grown < 300 << 20, "{why}: {grown} bytes");
    let listed = world.root.list("sys/plugins/catalog/secret").expect(200);
    assert_eq!(listed.body["data"]["keys"], serde_json::json!(["database"]), "{why}");
    answer
}

pub(super) fn components_that_are_truncated_are_refused() {
    let (world, probe) = (World::empty(), guest("probe"));
    for part in 1..32 {
        refused(&world, PROBE, &probe[..probe.len() * part / 32], "");
    }
}

pub(super) fn what_is_no_component_is_told_what_it_is() {
    let (world, probe) = (World::empty(), guest("probe"));
    refused(&world, PROBE, b"", "the body is empty");
    refused(&world, PROBE, b"#!/bin/sh", "not WebAssembly");
    refused(&world, PROBE, &MODULE, "wasm-tools component new");
    let json = world.root.write("sys/plugins/catalog/secret/probe", &serde_json::json!({ "command": "probe" }));
    assert!(json.expect(400).errors().contains("application/wasm"));
    world.root.upload("sys/policies/acl/x", &probe).expect(415);
}

pub(super) fn components_of_another_world_are_told_their_type() {
    let world = World::empty();
    refused(&world, "database/probe", &guest("probe"), "register it as type secret");
    refused(&world, "auth/probe", &guest("probe"), "no world for auth methods");
    refused(&world, "wrong/probe", &guest("probe"), "no type of plugin");
    let postgresql = fs::read(target().join("plugins/database-postgresql.wasm")).expect("`make build` leaves it");
    refused(&world, "secret/x", &postgresql, "register it as type database");
}

pub(super) fn components_with_unknown_imports_are_refused_with_the_list() {
    let world = World::empty();
    let imports = probe_with("bulkhead:plugin/storage@0.1.0", "bulkhead:plugin/staring@0.1.0");
    refused(&world, PROBE, &imports, "staring");
    refused(&world, PROBE, &probe_with("wasi:cli/stderr@0.2", "wasi:cli/stdarr@0.2"), "wasi:cli/stdarr");
}

pub(super) fn components_of_too_many_functions_memory_or_levels_are_refused_soon() {
    let world = World::empty();
    refused(&world, PROBE, &functions(1_000_000), "1000000 functions");
    refused(&world, PROBE, &of_module(&[section(5, &[1, 0, 0x80, 0x80, 4])]), "64MiB");
    let deep = (0..10_000).fold(Vec::new(), |inner: Vec<u8>, _| [COMPONENT.to_vec(), section(4, &inner)].concat());
    refused(&world, PROBE, &deep, "");
}

pub(super) fn components_that_are_too_large_are_refused_before_they_are_kept() {
    let world = World::empty();
    let large = vec![0; 40 << 20];
    world.root.upload("sys/plugins/catalog/secret/probe", &large).expect(413);
    world.root.read("sys/mounts").expect(200);
}

pub(super) fn tables_that_collide_or_take_what_is_the_servers_are_refused_with_their_row() {
    let world = World::empty();
    refused_once_compiled(&world, PROBE, &probe_with("outside/{name}", "reserve/{name}"), "reserve/{name}");
    refused_once_compiled(&world, PROBE, &probe_with("count/{name}", "sys/x/{name}"), "\"sys\"");
}

#[test]
fn a_component_is_what_the_caller_says_or_it_is_refused_with_both() {
    let world = World::empty();
    let probe = guest("probe");
    refused_once_compiled(&world, "secret/other", &probe, "plugin name mismatch");
    refused_once_compiled(&world, "secret/probe?version=2.0.0", &probe, "plugin version mismatch");
    let zeros = "0".repeat(64);
    let answer = refused(&world, &format!("secret/probe?sha256={zeros}"), &probe, &zeros);
    assert!(answer.errors().contains("the component's sha256 is"), "{answer:?}");
    for name in ["secret/sys", "secret/a%20b", "secret/identity"] {
        refused(&world, name, &probe, "cannot be the name");
    }
    refused(&world, "secret/database", &probe, "built in");
    refused(&world, "database/postgresql-database-plugin", &probe, "built in");
}

//! Malformed and hostile components: the server refuses each upload in bounded time and memory,
//! tells the author why, and stores nothing.
//!
//! The functions without `#[test]` are rows of `bad_input/table.rs`.

use crate::world::World;
use bulkhead_tests::bulkhead::ROOT;
use bulkhead_tests::encoding::{COMPONENT, MODULE, number, section};
use bulkhead_tests::paths::{guest, plugin, with_text};
use bulkhead_tests::{Answer, Socket};
use std::time::{Duration, Instant};

/// Catalog path of the probe.
const PROBE: &str = "secret/probe";

/// Returns a component with a single core module of these sections.
fn of_module(sections: &[Vec<u8>]) -> Vec<u8> {
    let module = [MODULE.to_vec(), sections.concat()].concat();
    [COMPONENT.to_vec(), section(1, &module)].concat()
}

fn functions(count: usize) -> Vec<u8> {
    let types = section(1, &[1, 0x60, 0, 0]);
    let declared = section(3, &[number(count), vec![0; count]].concat());
    let code = section(10, &[number(count), [2, 0, 0x0b].repeat(count)].concat());
    of_module(&[types, declared, code])
}

/// Returns the probe with a text of its description replaced by another text of the same length.
fn probe_with(text: &str, other: &str) -> Vec<u8> {
    with_text(guest("probe"), text, other)
}

/// Asserts that the upload is refused quickly, with little memory, and stores nothing.
#[track_caller]
fn refused(world: &World, to: &str, component: &[u8], why: &str) -> Answer {
    refused_within(Duration::from_secs(5), world, to, component, why)
}

/// Like [`refused`], for a component that is compiled first. The compiler runs at low priority.
#[track_caller]
fn refused_once_compiled(world: &World, to: &str, component: &[u8], why: &str) -> Answer {
    refused_within(Duration::from_secs(60), world, to, component, why)
}

#[track_caller]
fn refused_within(most: Duration, world: &World, to: &str, component: &[u8], why: &str) -> Answer {
    let (began, before) = (Instant::now(), world.bulkhead.memory());
    let answer = world.root.upload(&format!("sys/plugins/catalog/{to}"), component).expect(400);
    assert!(answer.errors().contains(why), "{why}: {answer:?}");
    assert!(began.elapsed() < most, "{why}: {:?}", began.elapsed());
    let grown = world.bulkhead.memory().saturating_sub(before);
    assert!(grown < 300 << 20, "{why}: {grown} bytes");
    let listed = world.root.list("sys/plugins/catalog/secret").expect(200);
    assert_eq!(
        listed.body["data"]["keys"],
        serde_json::json!(["cluster", "database", "directory", "kv", "scheduler"]),
        "{why}"
    );
    answer
}

pub(super) fn components_cut_short_are_refused() {
    let world = World::empty();
    let probe = guest("probe");
    for part in 1..32 {
        refused(&world, PROBE, &probe[..probe.len() * part / 32], "incomplete or damaged at byte");
    }
}

pub(super) fn uploads_other_than_components_are_refused_with_their_kind() {
    let world = World::empty();
    refused(&world, PROBE, b"", "the body is empty");
    refused(&world, PROBE, b"#!/bin/sh", "not WebAssembly");
    refused(&world, PROBE, &MODULE, "wasm-tools component new");
    for (fields, why) in [
        (serde_json::json!({ "version": "1.0.0" }), "application/wasm"),
        (serde_json::json!({ "command": "probe" }), "this server has no plugin directory"),
    ] {
        let json = world.root.write("sys/plugins/catalog/secret/probe", &fields);
        assert!(json.expect(400).errors().contains(why), "{fields}");
    }
    let upload = world.root.upload("sys/policies/acl/x", &MODULE);
    upload.refused(415, "this path takes fields and not a component's bytes");
}

pub(super) fn components_of_another_world_are_refused_with_the_type_to_register() {
    let world = World::empty();
    refused(&world, "database/probe", &guest("probe"), "register it as type secret");
    refused(&world, "auth/probe", &guest("probe"), "register it as type secret");
    refused(&world, "secret/doorman", &guest("doorman"), "register it as type auth");
    let other = "bulkhead:plugin/staring@1.2.0";
    let imports = with_text(guest("doorman"), "bulkhead:plugin/storage@1.2.0", other);
    refused(&world, "auth/doorman", &imports, other);
    refused(&world, "wrong/probe", &guest("probe"), "not a type of plugin");
    refused(&world, "secret/x", &plugin("database-postgresql"), "register it as type database");
}

pub(super) fn unknown_imports_are_refused_with_their_list() {
    let world = World::empty();
    let imports = probe_with("bulkhead:plugin/storage@1.2.0", "bulkhead:plugin/staring@1.1.0");
    refused(&world, PROBE, &imports, "staring");
    refused(
        &world,
        PROBE,
        &probe_with("wasi:cli/stderr@0.2", "wasi:cli/stdarr@0.2"),
        "wasi:cli/stdarr",
    );
}

pub(super) fn a_component_of_a_later_contract_is_refused_with_both_versions() {
    let world = World::empty();
    for (served, later) in [("engine@1.", "engine@2."), ("storage@1.", "storage@2.")] {
        let answer = refused(&world, PROBE, &probe_with(served, later), "major version 2");
        assert!(answer.errors().contains("this server serves major version 1"), "{answer:?}");
    }
}

pub(super) fn a_million_functions_are_refused_before_they_are_compiled() {
    let world = World::empty();
    refused(&world, PROBE, &functions(1_000_000), "1000000 functions");
    refused(&world, PROBE, &of_module(&[section(5, &[1, 0, 0x80, 0x80, 4])]), "64MiB");
    let deep = (0..10_000)
        .fold(Vec::new(), |inner: Vec<u8>, _| [COMPONENT.to_vec(), section(4, &inner)].concat());
    refused(&world, PROBE, &deep, "nested more than 8 deep");
}

/// A `content-length` of 100 MB, and the first part of such a body: the server does not buffer
/// beyond its limit.
pub(super) fn a_hundred_megabytes_are_refused_in_bounded_memory() {
    let world = World::empty();
    let path = format!("sys/plugins/catalog/{PROBE}");
    let head = format!(
        "PUT /v1/{path} HTTP/1.1\r\nhost: x\r\nx-vault-token: {ROOT}\r\n\
         content-type: application/wasm\r\n\
         content-length: {}\r\n",
        100 << 20
    );
    let before = world.bulkhead.memory();
    let mut asks = Socket::open(&world.bulkhead);
    assert!(asks.send(format!("{head}expect: 100-continue\r\n\r\n")));
    let answer = asks
        .until_closed(Duration::from_secs(5))
        .expect("the server refuses before the body, and closes");
    assert!(answer.starts_with("HTTP/1.1 413 ") && answer.contains("32MiB"), "{answer}");

    let mut sends = Socket::open(&world.bulkhead);
    assert!(sends.send(format!("{head}\r\n")));
    let taken = sends.flood(&vec![0; 1 << 20], 100);
    assert!(taken < 100, "all of it was taken");
    drop(sends);
    world.root.upload(&path, &vec![0; 40 << 20]).refused(413, "the most is 32MiB");
    let grown = world.bulkhead.memory().saturating_sub(before);
    assert!(grown < 300 << 20, "{grown} bytes");
    world.root.read(&path).expect(404);
}

pub(super) fn tables_that_collide_are_refused_with_their_row() {
    let world = World::empty();
    refused_once_compiled(
        &world,
        PROBE,
        &probe_with("outside/{name}", "reserve/{name}"),
        "reserve/{name}",
    );
}

pub(super) fn tables_that_claim_reserved_paths_are_refused() {
    let world = World::empty();
    refused_once_compiled(&world, PROBE, &probe_with("count/{name}", "sys/x/{name}"), "\"sys\"");
}

#[test]
fn component_must_match_requested_name_version_and_digest() {
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
    // Mounts under an alias would be served by the upload.
    for alias in ["secret/kubernetes", "secret/ad", "auth/azure", "auth/gcp"] {
        refused(&world, alias, &probe, "built in");
    }
    refused(&world, "database/postgresql-database-plugin", &probe, "built in");
}

//! Fuzzes the check of an uploaded component's bytes with nearly valid components.

use bulkhead_sandbox::structure;
use std::num::TryFromIntError;
use wasmparser::{Validator, WasmFeatures};

/// The first bytes of a component.
const COMPONENT: [u8; 8] = [0, b'a', b's', b'm', 0x0d, 0, 1, 0];
/// A core module with a memory of a page, as a section of a component.
const MODULE: [u8; 15] = [1, 13, 0, b'a', b's', b'm', 1, 0, 0, 0, 5, 3, 1, 0, 1];

/// Maximum length of a refusal: it repeats names of imports, and there may be 64 of 512 bytes.
const REFUSAL: usize = 64 << 10;

/// Reads a guest from the build folder: this program is `<target>/debug/deps/fuzz-…`.
fn guest(name: &str) -> Result<Vec<u8>, String> {
    let this = std::env::current_exe().map_err(|error| error.to_string())?;
    let target = this.ancestors().nth(3).ok_or("this program has no folder")?;
    let path = target.join(format!("guests/{name}.wasm"));
    std::fs::read(&path).map_err(|_| format!("{} is missing: run `make guests`", path.display()))
}

/// Encodes an export of an instance, as a section.
fn export(name: &str) -> Result<Vec<u8>, TryFromIntError> {
    let item = [&[1, 0, u8::try_from(name.len())?], name.as_bytes(), &[5, 0, 0]].concat();
    Ok([&[11, u8::try_from(item.len())?], item.as_slice()].concat())
}

#[test]
fn component_bytes() {
    let engine = export("bulkhead:plugin/engine@1.0.0").unwrap();
    let components = [
        guest("probe").unwrap(),
        guest("hostile").unwrap(),
        [&COMPONENT[..], &engine].concat(),
        [&COMPONENT[..], &MODULE, &engine].concat(),
        [&COMPONENT[..], &[4, 8], &COMPONENT, &engine].concat(),
    ];
    for component in &components {
        assert!(
            structure::check(component).is_ok(),
            "a seed is refused: {:?}",
            structure::check(component)
        );
    }
    let seeds: Vec<&[u8]> = components.iter().map(Vec::as_slice).collect();
    let words = [
        "\0asm\u{d}\0\u{1}\0",
        "\0asm\u{1}\0\0\0",
        "bulkhead:plugin/database-users@1.0.0",
        "wasi:cli/stdout@0.2.0",
        "\u{7f}\u{7f}\u{7f}\u{7f}\u{1}",
        "\u{4}\u{4}\u{1}\u{70}\0\u{1}",
        "\u{5}\u{3}\u{1}\0\u{1}",
    ];
    bulkhead_fuzz::run("component bytes", &seeds, &words, |bytes| {
        if let Err(why) = structure::check(bytes) {
            assert!(why.len() < REFUSAL, "a refusal of {} bytes", why.len());
        }
        // The compiler's first step; the author sees its message. Here, it only has to end soon.
        let _ = Validator::new_with_features(WasmFeatures::default()).validate_all(bytes).is_ok();
    });
}

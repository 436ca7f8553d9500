//! Tells the crate the exact versions of wasmtime and its code generator, from the lock file.

use std::{env, fs, path::PathBuf};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let lock = PathBuf::from(env::var("CARGO_MANIFEST_DIR")?).join("../../Cargo.lock");
    println!("cargo:rerun-if-changed={}", lock.display());
    let text = fs::read_to_string(lock)?;
    for (variable, package) in [
        ("WASMTIME_VERSION", "wasmtime"),
        ("CRANELIFT_VERSION", "cranelift-codegen"),
        ("REGALLOC_VERSION", "regalloc2"),
    ] {
        let version = version_of(package, &text).ok_or(format!("Cargo.lock names no {package}"))?;
        println!("cargo:rustc-env={variable}={version}");
    }
    Ok(())
}

/// Returns the version of the package in the lock file.
fn version_of<'a>(package: &str, lock: &'a str) -> Option<&'a str> {
    let name = format!("name = \"{package}\"");
    let mut lines = lock.lines().skip_while(|line| *line != name);
    lines.nth(1)?.strip_prefix("version = \"")?.strip_suffix('"')
}

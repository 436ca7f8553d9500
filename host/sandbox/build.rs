//! Tells the crate the exact version of wasmtime that it is built with, from the lock file.

use std::{env, fs, path::PathBuf};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let lock = PathBuf::from(env::var("CARGO_MANIFEST_DIR")?).join("../../Cargo.lock");
    println!("cargo:rerun-if-changed={}", lock.display());
    let text = fs::read_to_string(lock)?;
    let mut lines = text.lines().skip_while(|line| *line != "name = \"wasmtime\"");
    let version =
        lines.nth(1).and_then(|line| line.strip_prefix("version = \"")?.strip_suffix('"'));
    println!("cargo:rustc-env=WASMTIME_VERSION={}", version.ok_or("Cargo.lock names no wasmtime")?);
    Ok(())
}

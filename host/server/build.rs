//! Tells the compiler where the official components are.
//!
//! It builds nothing: cargo inside a build script deadlocks on the target directory, so `make
//! build` orders the steps (components, `precompile`, `bulkhead`), and the binary refuses to
//! compile when the first two have not run.

#![allow(clippy::print_stdout, reason = "cargo is told things on standard output")]

use std::error::Error;
use std::path::{Path, PathBuf};

/// What the binary embeds, as `make plugins` and `make build` leave it.
const FILES: [&str; 14] = [
    "cloud-a.wasm",
    "cloud-a.cwasm",
    "cloud-b.wasm",
    "cloud-b.cwasm",
    "cluster.wasm",
    "cluster.cwasm",
    "database.wasm",
    "database.cwasm",
    "database-postgresql.wasm",
    "database-postgresql.cwasm",
    "database-mysql.wasm",
    "database-mysql.cwasm",
    "directory.wasm",
    "directory.cwasm",
];

fn main() -> Result<(), Box<dyn Error>> {
    let plugins = plugins_directory()?;
    println!("cargo::rustc-check-cfg=cfg(official_components)");
    println!("cargo::rustc-env=BULKHEAD_PLUGINS={}", plugins.display());
    let mut complete = true;
    for file in FILES.map(|name| plugins.join(name)) {
        println!("cargo::rerun-if-changed={}", file.display());
        complete &= file.is_file();
    }
    if complete {
        println!("cargo::rustc-cfg=official_components");
    }
    Ok(())
}

/// `<target>/plugins`, from `<target>/<profile>/build/<package>/out`: the binary is always built
/// without `--target`, which would put one more folder between.
fn plugins_directory() -> Result<PathBuf, Box<dyn Error>> {
    let out = PathBuf::from(std::env::var("OUT_DIR")?);
    let target = out.ancestors().nth(4).map(Path::to_path_buf);
    Ok(target
        .ok_or_else(|| format!("{} is not below a target directory", out.display()))?
        .join("plugins"))
}

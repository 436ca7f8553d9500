//! Tells the compiler where the official components are.
//!
//! The `dist` binary contains the components. The `dev` binary reads the components of `make build`
//! at its start, so that an edit of a component links nothing.
//!
//! This script builds nothing: cargo inside a build script deadlocks on the target directory, so
//! `make build` orders the steps (components, `precompile`, `bulkhead`). Without the first two
//! steps, the `dist` binary does not compile and the `dev` binary does not start.

#![allow(clippy::print_stdout, reason = "cargo is told things on standard output")]

use std::error::Error;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

/// Names the official components, one a line, behind the world of each.
const LIST: &str = "../../plugins/official.txt";

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo::rustc-check-cfg=cfg(components_inside)");
    println!("cargo::rerun-if-changed={LIST}");
    let plugins = plugins_directory()?;
    let list = std::fs::read_to_string(LIST)?;
    let names = list.lines().filter_map(|line| line.split(' ').nth(1));
    let files: Vec<[PathBuf; 2]> = names
        .map(|name| ["wasm", "cwasm"].map(|kind| plugins.join(format!("{name}.{kind}"))))
        .collect();
    // `dist` inherits from the profile `release`.
    let is_dist = std::env::var("PROFILE")? == "release";
    let officials = if is_dist { inside(&files)? } else { format!("&{files:?}") };
    let out = PathBuf::from(std::env::var("OUT_DIR")?);
    std::fs::write(out.join("officials.rs"), officials)?;
    Ok(())
}

/// Returns the Rust expression for components inside the binary. The compiler reports a missing
/// file by name.
fn inside(files: &[[PathBuf; 2]]) -> Result<String, Box<dyn Error>> {
    let mut officials = String::from("&[\n");
    for [wasm, compiled] in files {
        println!("cargo::rerun-if-changed={}", wasm.display());
        println!("cargo::rerun-if-changed={}", compiled.display());
        writeln!(
            officials,
            "OfficialComponent {{ wasm: include_bytes!({wasm:?}), \
             compiled: include_bytes!({compiled:?}) }},"
        )?;
    }
    println!("cargo::rustc-cfg=components_inside");
    officials.push_str("]\n");
    Ok(officials)
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

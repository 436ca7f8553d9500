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
    // `dist` inherits from the profile `release`.
    let is_dist = std::env::var("PROFILE")? == "release";
    if is_dist {
        println!("cargo::rustc-cfg=components_inside");
    }
    let (mut officials, mut seals) = (String::from("&[\n"), String::from("&[\n"));
    for (world, name) in list.lines().filter_map(|line| line.split_once(' ')) {
        let name = name.split(' ').next().unwrap_or_default();
        let files = ["wasm", "cwasm"].map(|kind| plugins.join(format!("{name}.{kind}")));
        let component = if is_dist { inside(&files) } else { format!("{files:?}") };
        match name.strip_prefix("seal-").filter(|_| world == "seal-plugin") {
            Some(kind) if is_dist => {
                writeln!(seals, "OfficialSeal {{ kind: {kind:?}, component: {component} }},")?;
            }
            Some(kind) => writeln!(seals, "({kind:?}, {component}),")?,
            None => writeln!(officials, "{component},")?,
        }
    }
    let out = PathBuf::from(std::env::var("OUT_DIR")?);
    std::fs::write(out.join("officials.rs"), officials + "]\n")?;
    std::fs::write(out.join("seals.rs"), seals + "]\n")?;
    Ok(())
}

/// Returns the Rust expression for a component inside the binary. The compiler reports a missing
/// file by name.
fn inside([wasm, compiled]: &[PathBuf; 2]) -> String {
    println!("cargo::rerun-if-changed={}", wasm.display());
    println!("cargo::rerun-if-changed={}", compiled.display());
    format!(
        "OfficialComponent {{ wasm: include_bytes!({wasm:?}), \
         compiled: include_bytes!({compiled:?}) }}"
    )
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

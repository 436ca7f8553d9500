//! Tells the compiler where the official components are.
//!
//! It builds nothing: cargo inside a build script deadlocks on the target directory, so `make
//! build` orders the steps (components, `precompile`, `bulkhead`), and the binary refuses to
//! compile when the first two have not run.

#![allow(clippy::print_stdout, reason = "cargo is told things on standard output")]

use std::error::Error;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

/// Names the official components, one a line, behind the world of each.
const LIST: &str = "../../plugins/official.txt";

fn main() -> Result<(), Box<dyn Error>> {
    let plugins = plugins_directory()?;
    println!("cargo::rustc-check-cfg=cfg(official_components)");
    println!("cargo::rerun-if-changed={LIST}");
    let list = std::fs::read_to_string(LIST)?;
    let names = list.lines().filter_map(|line| line.split(' ').nth(1));
    let (mut complete, mut officials) = (true, String::from("&[\n"));
    for name in names {
        let [wasm, compiled] = ["wasm", "cwasm"].map(|kind| plugins.join(format!("{name}.{kind}")));
        for file in [&wasm, &compiled] {
            println!("cargo::rerun-if-changed={}", file.display());
            complete &= file.is_file();
        }
        writeln!(
            officials,
            "OfficialComponent {{ wasm: include_bytes!({wasm:?}), \
             compiled: include_bytes!({compiled:?}) }},"
        )?;
    }
    officials.push_str("]\n");
    let out = PathBuf::from(std::env::var("OUT_DIR")?);
    std::fs::write(out.join("officials.rs"), officials)?;
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

//! What is put below any build of the server: a clock that is ahead, and a disk that flushes
//! nothing. Nothing in the product knows of either.

use crate::paths::{repository, target};
use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

/// The environment of a server whose clock is ahead by that time, in whole seconds: what is due by
/// then is due at its start.
pub fn clock_ahead(by: Duration) -> [(&'static str, String); 2] {
    [library("clock"), ("BULKHEAD_CLOCK_AHEAD", by.as_secs().to_string())]
}

/// The environment of a server that flushes nothing, as with `synchronous = OFF`.
pub fn no_flushes() -> [(&'static str, String); 1] {
    [library("lazy")]
}

/// The library of that source, compiled.
fn library(name: &str) -> (&'static str, String) {
    let source = repository().join(format!("tests/harness/preload/{name}.c"));
    let library = target().join(format!("{name}.so"));
    // Another server may have loaded the one that is there.
    let unfinished: PathBuf = target().join(format!("{name}-{}.so", fresh()));
    let compiled = Command::new("gcc")
        .args(["-O2", "-Wall", "-Wextra", "-shared", "-fPIC", "-o"])
        .args([&unfinished, &source])
        .output()
        .expect("gcc can be started; it is needed for building, too");
    assert!(compiled.status.success(), "{}", String::from_utf8_lossy(&compiled.stderr));
    fs::rename(unfinished, &library).expect("a file can be renamed");
    ("LD_PRELOAD", library.display().to_string())
}

/// A name that no other thread or program of the suite gives.
fn fresh() -> String {
    format!("{}-{:?}", std::process::id(), std::thread::current().id()).replace(['(', ')'], "-")
}

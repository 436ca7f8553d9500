//! Libraries for `LD_PRELOAD`, which replace functions of the C library in an ordinary build of the
//! server.

use crate::paths::{repository, target};
use std::path::PathBuf;
use std::process::Command;

/// Compiles `tests/harness/<name>.c`, and returns the path of the library.
pub(crate) fn compile(name: &str) -> PathBuf {
    let source = repository().join(format!("tests/harness/{name}.c"));
    let library = target().join(format!("{name}.so"));
    let compiled = Command::new("gcc")
        .args(["-O2", "-Wall", "-Wextra", "-shared", "-fPIC", "-o"])
        .args([&library, &source])
        .arg("-ldl")
        .output()
        .expect("gcc can be started; it is needed for building, too");
    assert!(compiled.status.success(), "{}", String::from_utf8_lossy(&compiled.stderr));
    library
}

/// Environment of a server whose flushes do nothing, as with SQLite's `synchronous = OFF`.
pub fn no_flushes() -> [(&'static str, String); 1] {
    [("LD_PRELOAD", compile("lazy").display().to_string())]
}

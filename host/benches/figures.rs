//! The file with the figures of the host's benchmarks. Each benchmark is its own program and
//! includes this module.

use std::path::PathBuf;

/// `<target>/dist/deps/this` → `<target>`.
pub(crate) fn target() -> PathBuf {
    std::env::current_exe().unwrap().ancestors().nth(3).unwrap().to_path_buf()
}

/// Adds the figures of the benchmark `name` to `<target>/bench.json`, which all benchmarks share.
pub(crate) fn write(name: &str, figures: serde_json::Value) {
    let path = target().join("bench.json");
    let stored = std::fs::read(&path).ok().and_then(|bytes| serde_json::from_slice(&bytes).ok());
    let mut all: serde_json::Map<String, serde_json::Value> = stored.unwrap_or_default();
    all.insert(name.to_owned(), figures);
    std::fs::write(path, serde_json::to_vec_pretty(&all).unwrap()).unwrap();
}

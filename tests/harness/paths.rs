//! Paths of the repository and of built files, and temporary folders.

use std::fs;
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

/// Returns the root of the repository.
pub fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .expect("tests/ lies in the repository")
        .to_path_buf()
}

/// The build's folder, derived from the path of the running test (`<target>/debug/deps/e2e-…`), so
/// that `CARGO_TARGET_DIR` need not be read.
pub fn target() -> PathBuf {
    profile().parent().expect("cargo puts tests three folders deep").to_path_buf()
}

/// The folder of the profile of the running test. The tests start binaries of the same profile.
pub fn profile() -> PathBuf {
    let this = std::env::current_exe().expect("a running program has a path");
    this.ancestors().nth(2).expect("cargo puts tests three folders deep").to_path_buf()
}

/// Reads a component from `tests/guests`.
pub fn guest(name: &str) -> Vec<u8> {
    let path = target().join(format!("guests/{name}.wasm"));
    std::fs::read(&path)
        .unwrap_or_else(|_| panic!("{} is missing: run `make guests`", path.display()))
}

/// Reads an official component.
pub fn plugin(name: &str) -> Vec<u8> {
    let path = target().join(format!("plugins/{name}.wasm"));
    std::fs::read(&path)
        .unwrap_or_else(|_| panic!("{} is missing: run `make plugins`", path.display()))
}

/// Replaces a text of a component by another text of the same length.
pub fn with_text(mut component: Vec<u8>, text: &str, other: &str) -> Vec<u8> {
    assert_eq!(text.len(), other.len());
    let found: Vec<usize> = component
        .windows(text.len())
        .enumerate()
        .filter(|(_, bytes)| *bytes == text.as_bytes())
        .map(|(start, _)| start)
        .collect();
    assert!(!found.is_empty(), "{text} is not in the component");
    for start in found {
        component[start..start + text.len()].copy_from_slice(other.as_bytes());
    }
    component
}

/// Returns the engine `name` in another version. In the component's description, name and version
/// are adjacent.
pub fn in_version(name: &str, version: &str) -> Vec<u8> {
    with_text(guest(name), &format!("{name}1.0.0"), &format!("{name}{version}"))
}

/// Path of the server's binary, or the path in `BULKHEAD_TEST_BINARY`. Fails if the binary is
/// missing.
pub fn binary() -> PathBuf {
    let Some(other) = std::env::var_os("BULKHEAD_TEST_BINARY").map(PathBuf::from) else {
        return built("bulkhead", "make build");
    };
    assert!(other.is_file(), "BULKHEAD_TEST_BINARY: {} is missing", other.display());
    other
}

/// Path of the server's binary with failpoints.
pub fn fault_binary() -> PathBuf {
    built("bulkhead-fault", "make build-fault")
}

fn built(name: &str, by: &str) -> PathBuf {
    let path = profile().join(name);
    assert!(path.is_file(), "{} is missing: run `{by}` first", path.display());
    path
}

/// A temporary folder that is removed on drop.
pub struct Folder(PathBuf);

impl Folder {
    /// Creates an empty folder; `purpose` is part of the name.
    pub fn new(purpose: &str) -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        Self::at(
            std::env::temp_dir()
                .join(format!("bulkhead-{purpose}-{}-{number}", std::process::id())),
        )
    }

    /// Empties and creates `path`.
    pub fn at(path: PathBuf) -> Self {
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(&path).expect("a folder can be made");
        Self(path)
    }

    /// Returns the path of the folder.
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// Writes a file that only the owner may read, and returns its path.
    pub fn file(&self, name: &str, text: &str) -> String {
        let path = self.0.join(name);
        let mut options = fs::OpenOptions::new();
        let file = options.write(true).create(true).mode(0o600).open(&path);
        file.and_then(|mut file| file.write_all(text.as_bytes())).expect("a file can be written");
        path.display().to_string()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Lists every file below `folder`, sorted.
pub fn files_below(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut waiting = vec![folder.to_path_buf()];
    while let Some(next) = waiting.pop() {
        for entry in fs::read_dir(&next).expect("a folder can be read") {
            let path = entry.expect("an entry can be read").path();
            if path.is_dir() {
                waiting.push(path);
            } else {
                found.push(path);
            }
        }
    }
    found.sort();
    found
}

//! Where things are: the repository, what was built, and folders that vanish with their owner.

use std::fs;
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

/// The repository's root.
pub fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .expect("tests/ lies in the repository")
        .to_path_buf()
}

/// The build's folder, found from the running test so that `CARGO_TARGET_DIR` needs no second
/// reading: `<target>/debug/deps/e2e-…`.
pub fn target() -> PathBuf {
    profile().parent().expect("cargo puts tests three folders deep").to_path_buf()
}

/// The folder of the profile that the running test was built with. The binaries it starts are
/// those of the same profile.
pub fn profile() -> PathBuf {
    let this = std::env::current_exe().expect("a running program has a path");
    this.ancestors().nth(2).expect("cargo puts tests three folders deep").to_path_buf()
}

/// A component of the tests.
///
/// # Panics
/// When it is not built.
pub fn guest(name: &str) -> Vec<u8> {
    let path = target().join(format!("guests/{name}.wasm"));
    std::fs::read(&path)
        .unwrap_or_else(|_| panic!("{} is missing: run `make guests`", path.display()))
}

/// A component of the product.
///
/// # Panics
/// When it is not built.
pub fn plugin(name: &str) -> Vec<u8> {
    let path = target().join(format!("plugins/{name}.wasm"));
    std::fs::read(&path)
        .unwrap_or_else(|_| panic!("{} is missing: run `make plugins`", path.display()))
}

/// A component with one of its texts replaced by another as long.
///
/// # Panics
/// When the text is not in it.
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

/// The engine `name` in another version: its description has the name and the version side by side.
pub fn in_version(name: &str, version: &str) -> Vec<u8> {
    with_text(guest(name), &format!("{name}1.0.0"), &format!("{name}{version}"))
}

/// The server's binary.
///
/// # Panics
/// When it was not built: a test of an older or missing binary would prove nothing.
pub fn binary() -> PathBuf {
    built("bulkhead", "make build")
}

/// The same server with failpoints in it.
///
/// # Panics
/// As [`binary`].
pub fn fault_binary() -> PathBuf {
    built("bulkhead-fault", "make build-fault")
}

fn built(name: &str, by: &str) -> PathBuf {
    let path = profile().join(name);
    assert!(path.is_file(), "{} is missing: run `{by}` first", path.display());
    path
}

/// A folder of its own below the temporary one, removed with its owner.
pub struct Folder(PathBuf);

impl Folder {
    /// Makes an empty one; `purpose` is part of its name.
    pub fn new(purpose: &str) -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        Self::at(
            std::env::temp_dir()
                .join(format!("bulkhead-{purpose}-{}-{number}", std::process::id())),
        )
    }

    /// Makes `path` anew.
    pub fn at(path: PathBuf) -> Self {
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(&path).expect("a folder can be made");
        Self(path)
    }

    /// Its path.
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// Writes a file into it that its owner alone may read. Its path.
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

/// Every file below `folder`, in order.
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

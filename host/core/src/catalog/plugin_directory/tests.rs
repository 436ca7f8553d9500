//! Tests of the plugin directory with real files.

use super::*;
use bulkhead_wire::failure::FailureKind;
use rustix::fs::{CWD, FileType, Mode};
use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, symlink};

/// A directory of its own with the file `shelf.wasm`, removed at the end of the test.
struct Shelf(PluginDirectory);

impl Shelf {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("bulkhead-{name}-{}", std::process::id()));
        fs::create_dir_all(&path).unwrap();
        chmod(&path, 0o755);
        fs::write(path.join("shelf.wasm"), b"component").unwrap();
        chmod(&path.join("shelf.wasm"), 0o644);
        Self(PluginDirectory::new(path))
    }

    fn at(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn read(&self, name: &str) -> Result<Vec<u8>, Failure> {
        self.0.open()?.file(name, 9)
    }

    #[track_caller]
    fn assert_refused(&self, name: &str, says: &str) {
        let failure = self.read(name).unwrap_err();
        assert_eq!(failure.kind, FailureKind::InvalidRequest, "{name}: {failure:?}");
        assert!(failure.message.contains(says), "{name}: {failure:?}");
    }
}

impl Drop for Shelf {
    fn drop(&mut self) {
        fs::remove_dir_all(self.0.path()).unwrap();
    }
}

fn chmod(path: &Path, mode: u32) {
    fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
}

#[test]
fn plugin_directory_file_is_read_up_to_limit() {
    let shelf = Shelf::new("limit");
    assert_eq!(shelf.read("shelf.wasm").unwrap(), b"component");
    fs::write(shelf.at("shelf.wasm"), b"a component").unwrap();
    shelf.assert_refused("shelf.wasm", "longer than");
    shelf.assert_refused("other.wasm", "there is no file");
}

#[test]
fn no_name_leads_out_of_the_directory() {
    let shelf = Shelf::new("names");
    let long = "x".repeat(256);
    for name in ["", ".", "..", "../shelf.wasm", "/etc/passwd", "a/b", "./shelf.wasm", &long, "a\0"]
    {
        shelf.assert_refused(name, "is not a name in the plugin directory");
    }
}

#[test]
fn links_pipes_and_folders_are_no_component() {
    let shelf = Shelf::new("links");
    symlink(shelf.at("shelf.wasm"), shelf.at("link.wasm")).unwrap();
    shelf.assert_refused("link.wasm", "links are not followed");
    rustix::fs::mknodat(CWD, shelf.at("pipe"), FileType::Fifo, Mode::RWXU, 0).unwrap();
    shelf.assert_refused("pipe", "not a regular file");
    fs::create_dir(shelf.at("folder")).unwrap();
    shelf.assert_refused("folder", "not a regular file");
    let link = shelf.0.path().with_extension("link");
    symlink(shelf.0.path(), &link).unwrap();
    let failure = PluginDirectory::new(link.clone()).check().unwrap_err();
    fs::remove_file(link).unwrap();
    assert!(failure.message.contains("links are not followed"), "{failure:?}");
}

#[test]
fn world_writable_plugin_files_are_not_read() {
    let shelf = Shelf::new("modes");
    chmod(&shelf.at("shelf.wasm"), 0o646);
    shelf.assert_refused("shelf.wasm", "run chmod o-w");
    chmod(&shelf.at("shelf.wasm"), 0o644);
    chmod(shelf.0.path(), 0o757);
    shelf.assert_refused("shelf.wasm", "run chmod o-w");
    assert!(shelf.0.check().is_err());
    chmod(shelf.0.path(), 0o755);
    assert!(shelf.0.check().is_ok() && shelf.read("shelf.wasm").is_ok());
}

//! The static seal of a server under test: its block of the configuration, and its keys in files.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// Returns the block with these keys: the current key, and maybe the previous one. A key is a file
/// of its name in `folder`; a missing file is written.
pub fn block(folder: &Path, names: &[&str]) -> String {
    let settings = ["current", "previous"].iter().zip(names).map(|(word, name)| {
        let file = key_file(folder, name);
        format!("  {word}_key_id = {name:?}\n  {word}_key = \"file://{}\"\n", file.display())
    });
    format!("seal \"static\" {{\n{}}}\n", settings.collect::<String>())
}

/// Returns the file of a key. Keys of different names differ.
pub fn key_file(folder: &Path, name: &str) -> PathBuf {
    let file = folder.join(name);
    if !file.exists() {
        let digit = name.bytes().fold(7, |sum: u8, byte| sum.wrapping_mul(31).wrapping_add(byte));
        write_key(&file, format!("{digit:02x}").repeat(32).as_bytes(), 0o600);
    }
    file
}

/// Writes a key file with this mode.
pub fn write_key(file: &Path, content: &[u8], mode: u32) {
    fs::write(file, content).expect("a key can be written");
    fs::set_permissions(file, fs::Permissions::from_mode(mode)).expect("a mode can be set");
}

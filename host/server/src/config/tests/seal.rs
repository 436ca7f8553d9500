//! The seals of a configuration, and the keys that they name.

use super::{read, refuse_all, refused};
use crate::config::{Config, SealSettings};
use bulkhead_core::seal_setting::SealSetting;
use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

const HEX: &str = "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f";

fn sealed(settings: &str) -> Config {
    read(&format!("{}seal \"static\" {{\n{settings}\n}}\n", super::STORAGE))
}

/// A folder of the test, removed at its end.
struct KeyFolder(PathBuf);

impl KeyFolder {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("bulkhead-{name}-{}", std::process::id()));
        fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    fn file(&self, content: &[u8], mode: u32) -> PathBuf {
        let path = self.0.join("seal.key");
        fs::write(&path, content).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        path
    }
}

impl Drop for KeyFolder {
    fn drop(&mut self) {
        fs::remove_dir_all(&self.0).unwrap();
    }
}

fn by_file(path: &Path) -> SealSettings {
    let key = format!("current_key_id = \"1\"\ncurrent_key = \"file://{}\"", path.display());
    sealed(&key).seal
}

fn load(
    seal: &SealSettings,
    environment: &dyn Fn(&str) -> Option<OsString>,
) -> Result<SealSetting, String> {
    seal.load(environment, &|_| Err("no other server".to_owned()))
}

/// Returns the error of reading the keys.
#[track_caller]
fn unreadable(seal: &SealSettings) -> String {
    load(seal, &|_| None).expect_err("the key is refused")
}

#[test]
fn static_seal_reads_file_and_variable() {
    let folder = KeyFolder::new("seal-files");
    for content in [format!("{HEX}\n").as_bytes(), &[7; 32]] {
        let seal = by_file(&folder.file(content, 0o600));
        assert_eq!(seal.kind(), "static");
        assert!(load(&seal, &|_| None).unwrap().is_automatic());
    }
    let seal = sealed(
        "current_key_id = \"new\" current_key = \"env://NEW_KEY\"\n\
         previous_key_id = \"old\" previous_key = \"env://OLD_KEY\"",
    )
    .seal;
    let shown = seal.to_string();
    assert!(shown.contains("\"new\" of current_key env://NEW_KEY"), "{shown}");
    assert!(shown.contains("once by \"old\" of previous_key env://OLD_KEY"), "{shown}");
    let variables = |name: &str| match name {
        "NEW_KEY" => Some(OsString::from(HEX)),
        "OLD_KEY" => Some(OsString::from(HEX.replace("00", "ff"))),
        _ => None,
    };
    let debug = format!("{:?}", load(&seal, &variables).unwrap());
    assert!(debug.contains("new") && !debug.contains("0102") && !debug.contains("ff01"), "{debug}");
    let missing = load(&seal, &|name| variables(name).filter(|_| name == "NEW_KEY")).unwrap_err();
    assert!(missing.contains("previous_key env://OLD_KEY is not set"), "{missing}");
    let same = load(&seal, &|_| Some(HEX.into())).unwrap_err();
    assert!(same.contains("are the same key"), "{same}");
}

#[test]
fn unusable_static_key_is_refused_and_hidden() {
    let folder = KeyFolder::new("seal-bad-files");
    for content in [
        "",
        "hunter2",
        "a passphrase of 32 characters :-)",
        &HEX[1..],
        &format!("{HEX}00"),
        &"g".repeat(64),
    ] {
        let message = unreadable(&by_file(&folder.file(content.as_bytes(), 0o600)));
        let bytes = format!("holds {} bytes", content.len());
        assert!(message.contains(&bytes) && message.contains("openssl rand"), "{message}");
        assert!(content.is_empty() || !message.contains(content), "{message}");
    }
    for mode in [0o604, 0o620, 0o644] {
        let message = unreadable(&by_file(&folder.file(HEX.as_bytes(), mode)));
        assert!(message.contains("open to others") && message.contains("chmod 600"), "{message}");
    }
    load(&by_file(&folder.file(HEX.as_bytes(), 0o640)), &|_| None).unwrap();
    let message = unreadable(&by_file(&folder.0.join("absent")));
    assert!(message.contains("current_key /") && message.contains("cannot be read"), "{message}");
}

#[test]
fn wrong_static_seal_settings_are_refused_by_line() {
    let block = |settings: &str| format!("seal \"static\" {{\n{settings}\n}}");
    let key = "current_key = \"file:///k\"";
    let id = "current_key_id = \"1\"";
    let refusals: Vec<(String, usize, &[&str])> = vec![
        (block(key), 2, &["needs current_key_id"]),
        (block(id), 2, &["needs current_key", "file:///"]),
        (block(&format!("{id}\n{key}\nprevious_key_id = \"0\"")), 2, &["needs previous_key"]),
        (block(&format!("{id}\n{key}\nprevious_key = \"file:///o\"")), 2, &["previous_key_id"]),
        (
            block(&format!("{id}\n{key}\nprevious_key = \"file:///o\"\nprevious_key_id = \"1\"")),
            6,
            &["\"1\" is current_key_id, too"],
        ),
        (block(&format!("current_key_id = \"\"\n{key}")), 3, &["name of a key"]),
        (block(&format!("{id}\ncurrent_key = \"file://k\"")), 4, &["place of a key"]),
        (block(&format!("{id}\ncurrent_key = \"env://\"")), 4, &["place of a key", "env://"]),
        (block(&format!("{id}\n{key}\ncurrent_kye = 1")), 5, &["current_key"]),
        (format!("seal \"shamir\" {{}}\n{}", block(&format!("{id}\n{key}"))), 3, &["-migrate"]),
    ];
    for (text, line, words) in &refusals {
        refuse_all(&[(text, *line, words)]);
    }
    let written = refused(&block(&format!("{id}\ncurrent_key = \"{HEX}\"")));
    assert!(!written.message.contains(HEX), "{written}");
}

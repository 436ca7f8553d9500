//! Files with the key of a snapshot.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;

use super::*;
use crate::testing::ScratchDirectory;
use bulkhead_record::cipher::KEY_BYTES;

#[test]
fn keys_are_lines_or_raw_bytes() {
    let key = SealKey::from_bytes([7; KEY_BYTES]);
    let lines = format!("\n {} \n{}\n", *key.share().hex(), *key.share().base64());
    let read = read_keys(lines.as_bytes()).unwrap();
    assert!(read.len() == 2 && read.iter().all(|share| share.is_same(&key.share())));
    let read = read_keys([7; KEY_BYTES].as_slice()).unwrap();
    assert!(read.len() == 1 && read[0].is_same(&key.share()));
    let long = "x".repeat(40_000);
    for (content, part) in
        [("", "no unseal key"), ("hunter2", "is not a share"), (&long, "more than 32768")]
    {
        let Err(StoreFault::Refused(text)) = read_keys(content.as_bytes()) else {
            panic!("{part}")
        };
        assert!(text.contains(part) && !text.contains("hunter2"), "{text}");
    }
}

#[test]
fn key_file_open_to_others_is_refused() {
    let scratch = ScratchDirectory::new();
    let path = scratch.path().join("keys");
    fs::write(&path, [7; KEY_BYTES]).unwrap();
    for mode in [0o604, 0o620, 0o644] {
        fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
        let Err(StoreFault::Refused(text)) = read_key_file(&path) else { panic!("{mode:o}") };
        assert!(text.contains(&format!("{mode:03o}")), "{text}");
    }
    for mode in [0o600, 0o640] {
        fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
        assert_eq!(read_key_file(&path).unwrap().len(), 1);
    }
}

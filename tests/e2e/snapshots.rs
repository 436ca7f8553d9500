//! Snapshots of a running server, as an operator takes, inspects and checks them.

use crate::foreign_files::flip_where;
use bulkhead_tests::Bulkhead;
use bulkhead_tests::operators::{open, operator};
use bulkhead_tests::paths::Folder;
use bulkhead_tests::storage::on_files;
use serde_json::{Value, json};
use std::fs;
use std::os::unix::fs::PermissionsExt;

/// Writes the unseal keys to a file with this mode.
fn write_keys(folder: &Folder, keys: &[String], mode: u32) -> String {
    let file = folder.path().join("keys");
    fs::write(&file, keys.join("\n")).expect("a file can be written");
    fs::set_permissions(&file, fs::Permissions::from_mode(mode)).expect("the mode can be set");
    file.display().to_string()
}

fn fill(server: &Bulkhead, token: &str) {
    let client = server.client(Some(token));
    client.write("sys/mounts/kv", &json!({ "type": "kv" })).expect(204);
    for number in 0..50 {
        client.write(&format!("kv/secret-{number}"), &json!({ "password": "canary" })).expect(204);
    }
}

#[test]
fn snapshot_is_saved_inspected_and_checked_with_keys() {
    let (server, operators) = open();
    fill(&server, &operators.token);
    let folder = Folder::new("snapshots");
    let file = folder.path().join("a.snap").display().to_string();
    for words in [["snapshot", "save"].as_slice(), &["raft", "snapshot", "save"]] {
        let words = [words, &[file.as_str()]].concat();
        let (code, text, error) = operator(&server, &operators.token, &words);
        assert!(code == 0 && text.contains("a snapshot of "), "{text}{error}");
    }
    let mode = fs::metadata(&file).expect("the file is there").permissions().mode() & 0o777;
    assert_eq!(mode, 0o600);
    assert!(!String::from_utf8_lossy(&fs::read(&file).expect("a file")).contains("canary"));
    let inspect = ["snapshot", "inspect", "-format=json", &file];
    let (code, text, error) = operator(&server, "", &inspect);
    let manifest: Value = serde_json::from_str(&text).expect("-format=json prints JSON");
    assert_eq!((code, error.as_str()), (0, ""));
    assert!(manifest["records"].as_u64() > Some(50), "{manifest}");
    let keys = write_keys(&folder, &operators.keys, 0o600);
    let check = ["check", "-format=json", "-key-file", &keys, &file];
    let (code, text, error) = operator(&server, "", &check);
    let report: Value = serde_json::from_str(&text).expect("-format=json prints JSON");
    assert_eq!((code, error.as_str()), (0, ""), "{report}");
    assert_eq!((&report["opened"], &report["damages"]), (&manifest["records"], &json!(0)));
    let open_keys = write_keys(&folder, &operators.keys, 0o644);
    let (code, _, error) = operator(&server, "", &["check", "-key-file", &open_keys, &file]);
    assert!(code == 1 && error.contains("set mode 600"), "{error}");
}

#[test]
fn damaged_snapshot_and_damaged_directory_are_reported() {
    let _files = on_files();
    let (mut server, operators) = open();
    fill(&server, &operators.token);
    let folder = Folder::new("damaged");
    let file = folder.path().join("a.snap").display().to_string();
    let (code, _, error) = operator(&server, &operators.token, &["snapshot", "save", &file]);
    assert_eq!(code, 0, "{error}");
    let data = server.data().display().to_string();
    let (code, _, error) = operator(&server, "", &["check", &data]);
    assert!(code == 1 && error.contains("in use"), "{error}");
    let bytes = fs::read(&file).expect("a file");
    fs::write(&file, &bytes[..bytes.len() - 20]).expect("a file can be written");
    for words in [["snapshot", "inspect", &file].as_slice(), &["check", &file]] {
        let (code, text, error) = operator(&server, "", words);
        assert!(code == 1 && text.is_empty(), "{text}");
        assert!(error.contains("not a complete snapshot"), "{error}");
    }
    let keys = write_keys(&folder, &operators.keys, 0o600);
    assert!(server.terminate().success(), "the server ends");
    let check = ["check", "-key-file", &keys, &data];
    let (code, text, error) = operator(&server, "", &check);
    assert!(code == 0 && text.contains(" 0 places damaged"), "{text}{error}");
    assert_eq!(flip_where(&server, "key LIKE '%/entry/secret-7'"), 1);
    let (code, text, error) = operator(&server, "", &check);
    let damage = "damaged: mount kv/: data:entry/secret-7: ";
    assert!(code == 1 && text.contains(damage), "{text}{error}");
    assert!(text.contains(" 1 places damaged"), "{text}");
}

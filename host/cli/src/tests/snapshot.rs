//! `bulkhead operator snapshot save`: the file under its name is complete.

use super::*;
use std::cell::RefCell;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

fn scratch(name: &str) -> PathBuf {
    let path = std::env::temp_dir().join(format!("bulkhead-cli-{}-{name}", std::process::id()));
    fs::create_dir_all(&path).unwrap();
    path
}

/// Saves to `file` from a server with this answer; `inspect` judges the saved file.
fn save(
    (status, body): (u16, &str),
    file: &Path,
    inspect: &dyn Fn(&Path) -> Result<String, String>,
) -> (Ran, Asked) {
    let canned = Canned::answering(status, body);
    let (mut out, mut err) = (Vec::new(), Vec::new());
    let address = OsString::from(&canned.address);
    let mut io = CommandIo {
        stdin: &mut &b""[..],
        stdout: &mut out,
        stderr: &mut err,
        terminal: false,
        hide: None,
        env: &|name| (name == "BULKHEAD_ADDR").then(|| address.clone()),
        inspect_snapshot: inspect,
        restore_data: &|_, _, _| Err("no directory".to_owned()),
    };
    let words = ["operator", "snapshot", "save"].map(OsString::from).into_iter();
    let code = run(words.chain([file.into()]), &mut io);
    let (out, err) = (String::from_utf8(out).unwrap(), String::from_utf8(err).unwrap());
    (Ran { code, out, err }, canned.asked_once())
}

#[test]
fn snapshot_is_checked_before_taking_its_name() {
    let folder = scratch("save");
    let file = folder.join("a.snap");
    fs::write(&file, "the previous one").unwrap();
    let seen = RefCell::new(Vec::new());
    let inspect = |path: &Path| {
        seen.borrow_mut().push((path.to_owned(), fs::read_to_string(path).unwrap()));
        Ok("7 records".to_owned())
    };
    let (ran, (line, _, _)) = save((200, "snapshot bytes"), &file, &inspect);
    assert_eq!((ran.code, ran.err.as_str()), (0, ""));
    assert!(ran.out.ends_with("a.snap: 7 records\n"), "{}", ran.out);
    assert_eq!(line, "GET /v1/sys/storage/snapshot HTTP/1.1");
    let seen = seen.into_inner();
    assert_eq!((seen.len(), seen[0].1.as_str()), (1, "snapshot bytes"));
    assert_ne!(seen[0].0, file);
    assert_eq!(fs::read_to_string(&file).unwrap(), "snapshot bytes");
    assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    assert_eq!(fs::read_dir(&folder).unwrap().count(), 1, "no other file is left");
    fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn refused_and_damaged_snapshots_leave_previous_file() {
    let folder = scratch("refused");
    let file = folder.join("a.snap");
    fs::write(&file, "the previous one").unwrap();
    let damaged = |_: &Path| Err("the file ends too early".to_owned());
    let refusal = r#"{"errors":["permission denied"]}"#;
    for (answer, part) in [((403, refusal), "permission denied"), ((200, "x"), "ends too early")] {
        let (ran, _) = save(answer, &file, &damaged);
        assert!(ran.code == 1 && ran.err.contains(part), "{}", ran.err);
        assert_eq!(fs::read_to_string(&file).unwrap(), "the previous one");
        assert_eq!(fs::read_dir(&folder).unwrap().count(), 1, "no other file is left");
    }
    fs::remove_dir_all(&folder).unwrap();
    assert_wrong(&["operator", "snapshot", "save", "/"], "not the name of a file");
    assert_wrong(&["operator", "raft", "snapshot", "save"], "operator raft snapshot save FILE");
}

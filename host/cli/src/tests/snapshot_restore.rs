//! `bulkhead operator snapshot restore`: the file is checked, then sent piece by piece.

use super::*;
use std::cell::RefCell;
use std::fs;
use std::path::{Path, PathBuf};

/// A file of this process, removed at the end of the test.
struct TestFile(PathBuf);

impl TestFile {
    fn new(name: &str, content: &str) -> Self {
        let name = format!("bulkhead-restore-{}-{name}", std::process::id());
        let path = std::env::temp_dir().join(name);
        fs::write(&path, content).unwrap();
        Self(path)
    }

    fn word(&self) -> &str {
        self.0.to_str().unwrap()
    }
}

impl Drop for TestFile {
    fn drop(&mut self) {
        fs::remove_file(&self.0).unwrap();
    }
}

/// Calls of the restore without a server: place, snapshot, and whether data are replaced.
type OfflineCalls = RefCell<Vec<(String, PathBuf, bool)>>;

/// Runs a command whose file is judged as `judged`. Without an address no server is reached.
fn restore(address: &str, words: &[&str], judged: Result<&str, &str>, calls: &OfflineCalls) -> Ran {
    let (mut out, mut err) = (Vec::new(), Vec::new());
    let env = |name: &str| match name {
        "BULKHEAD_ADDR" => Some(OsString::from(address)),
        "BULKHEAD_TOKEN" => Some(OsString::from("bhs.t")),
        _ => None,
    };
    let judged = || judged.map(str::to_owned).map_err(str::to_owned);
    let mut io = CommandIo {
        stdin: &mut &b""[..],
        stdout: &mut out,
        stderr: &mut err,
        terminal: false,
        hide: None,
        env: &env,
        inspect_snapshot: &|_| judged(),
        restore_data: &|place: RestorePlace<'_>, file: &Path, replaces| {
            calls.borrow_mut().push((format!("{place:?}"), file.to_owned(), replaces));
            judged()
        },
    };
    let code = run(words.iter().map(OsString::from), &mut io);
    Ran { code, out: String::from_utf8(out).unwrap(), err: String::from_utf8(err).unwrap() }
}

#[test]
fn snapshot_is_sent_whole_and_next_step_named() {
    let content = "a line of 24 characters\n".repeat(20_000);
    let file = TestFile::new("whole", &content);
    for (words, path) in [
        (&["operator", "snapshot", "restore"][..], "sys/storage/snapshot"),
        (&["operator", "snapshot", "restore", "-force"], "sys/storage/snapshot-force"),
        (&["operator", "raft", "snapshot", "restore", "-force"], "sys/storage/snapshot-force"),
    ] {
        let canned = Canned::answering(204, "");
        let words = [words, &[file.word()]].concat();
        let calls = OfflineCalls::default();
        let ran = restore(&canned.address, &words, Ok("7 records"), &calls);
        assert_eq!(ran.code, 0, "{}", ran.err);
        assert!(
            ran.out.contains("7 records") && ran.out.contains("bulkhead status"),
            "{}",
            ran.out
        );
        assert!(ran.err.contains("bulkhead operator release"), "{}", ran.err);
        let (line, headers, body) = canned.asked_once();
        assert_eq!(line, format!("POST /v1/{path} HTTP/1.1"));
        for part in ["expect: 100-continue", "x-vault-token: bhs.t", "content-length: 480000"] {
            assert!(headers.contains(part), "{headers}");
        }
        assert!(body == content && calls.borrow().is_empty());
    }
}

#[test]
fn sealed_server_prints_warning_and_no_release() {
    let file = TestFile::new("warned", "content");
    for (sealed, format) in [(true, "table"), (false, "table"), (true, "json")] {
        let body = json!({ "data": { "sealed": sealed }, "warnings": ["needs other keys"] });
        let canned = Canned::answering(200, &body.to_string());
        let option = format!("-format={format}");
        let words = ["operator", "snapshot", "restore", &option, file.word()];
        let ran = restore(&canned.address, &words, Ok("7 records"), &OfflineCalls::default());
        assert_eq!(ran.code, 0, "{}", ran.err);
        assert!(ran.err.contains("warning: needs other keys"), "{}", ran.err);
        assert_eq!(ran.err.contains("operator release"), !sealed, "{}", ran.err);
        canned.asked_once();
    }
}

#[test]
fn refusal_by_head_spares_sending_the_file() {
    let file = TestFile::new("refused", &"x".repeat(1 << 20));
    let socket = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}", socket.local_addr().unwrap());
    let server = thread::spawn(move || {
        let (mut stream, _) = socket.accept().unwrap();
        let mut reader = BufReader::new(stream.try_clone().unwrap());
        let mut line = String::new();
        while reader.read_line(&mut line).unwrap() > 2 {}
        let body = r#"{"errors":["permission denied"]}"#;
        let head = format!("HTTP/1.1 403 X\r\ncontent-length: {}\r\n\r\n", body.len());
        stream.write_all(format!("{head}{body}").as_bytes()).unwrap();
        let mut rest = Vec::new();
        // The client may close the connection in any way.
        reader.read_to_end(&mut rest).unwrap_or_default();
        rest.len()
    });
    let words = ["operator", "snapshot", "restore", file.word()];
    let ran = restore(&address, &words, Ok("7 records"), &OfflineCalls::default());
    assert!(ran.code == 1 && ran.err.contains("permission denied"), "{}", ran.err);
    assert_eq!(server.join().unwrap(), 0, "no byte of the file was sent");
}

#[test]
fn damaged_file_is_not_sent() {
    let calls = OfflineCalls::default();
    let words = ["operator", "snapshot", "restore", "a.snap"];
    let ran = restore("http://127.0.0.1:1", &words, Err("the file ends too early"), &calls);
    assert!(ran.code == 1 && ran.err.contains("ends too early"), "{}", ran.err);
    assert!(!ran.err.contains("cannot reach") && ran.out.is_empty(), "{}", ran.err);
    let ran = restore("http://127.0.0.1:1", &words, Ok("7 records"), &calls);
    assert!(ran.code == 2 && ran.err.contains("cannot read a.snap"), "{}", ran.err);
    assert_wrong(&["operator", "snapshot", "restore"], "operator snapshot restore [-force]");
    assert_wrong(&["operator", "raft", "snapshot", "restore", "a", "b"], "-data=DIR] FILE");
}

#[test]
fn named_data_are_restored_without_server() {
    let calls = OfflineCalls::default();
    for (option, place) in [
        ("-data=/d", RestorePlace::Directory(Path::new("/d"))),
        ("-config=/c.hcl", RestorePlace::Configuration(Path::new("/c.hcl"))),
    ] {
        for forces in [false, true] {
            let mut words = vec!["operator", "snapshot", "restore", option, "a.snap"];
            words.extend(forces.then_some("-force"));
            let judged = Ok("/d: restored 7 records");
            let ran = restore("http://127.0.0.1:1", &words, judged, &calls);
            assert_eq!(ran.code, 0, "{}", ran.err);
            assert_eq!(ran.out, "/d: restored 7 records; start the server\n");
            assert!(ran.err.contains("bulkhead operator release"), "{}", ran.err);
            let call = calls.borrow_mut().pop().unwrap();
            assert_eq!(call, (format!("{place:?}"), PathBuf::from("a.snap"), forces));
        }
        let words = ["operator", "snapshot", "restore", option, "a.snap"];
        let ran = restore("http://127.0.0.1:1", &words, Err("/d holds data"), &calls);
        assert!(ran.code == 1 && ran.err.contains("/d holds data"), "{}", ran.err);
    }
}

#[test]
fn restore_takes_one_place_of_data() {
    for (options, part) in [
        (&["-data="][..], "-data is empty"),
        (&["-config="], "-config is empty"),
        (&["-config=/c.hcl", "-data=/d"], "give only one of them"),
        (&["-data=/d", "-config="], "-config is empty"),
    ] {
        let words = [&["operator", "snapshot", "restore"], options, &["a.snap"]].concat();
        assert_wrong(&words, part);
    }
}

#[test]
fn printed_request_reads_file_while_sending() {
    let calls = OfflineCalls::default();
    let words = ["operator", "snapshot", "restore", "-output-curl-string", "a.snap"];
    let ran = restore("http://127.0.0.1:1", &words, Ok("7 records"), &calls);
    assert_eq!(ran.code, 0, "{}", ran.err);
    assert!(ran.out.contains("-X POST") && ran.out.contains(" -T a.snap "), "{}", ran.out);
    let words = ["operator", "snapshot", "restore", "-output-policy", "-force", "a.snap"];
    let ran = restore("http://127.0.0.1:1", &words, Ok("7 records"), &calls);
    assert!(ran.out.contains("\"sys/storage/snapshot-force\"") && ran.out.contains("\"sudo\""));
}

#[test]
fn release_starts_due_work_by_one_request() {
    assert_eq!(sent(&["operator", "release"]), ("POST /v1/sys/release".to_owned(), Value::Null));
    assert_wrong(&["operator", "release", "x"], "bulkhead operator release");
}

//! Whole commands against a server with canned answers: request, output and exit code.

mod audit;
mod key_holders;
mod kv;
mod lease;
mod login;
mod monitor;
mod mount;
mod nodes;
mod plugin;
mod shell;
mod snapshot;
mod snapshot_restore;
mod token;
mod unwrap;
mod wrapping;

use super::*;
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::thread::{self, JoinHandle};

/// A received request: request line, headers, body.
type Asked = (String, String, String);

/// A server that gives a single answer per connection, in order, and reports the received requests.
struct Canned {
    address: String,
    seen: JoinHandle<Vec<Asked>>,
}

impl Canned {
    fn answering(status: u16, body: &str) -> Self {
        Self::answering_in_turn(vec![(status, body.to_owned())])
    }

    fn answering_in_turn(answers: Vec<(u16, String)>) -> Self {
        let socket = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = format!("http://{}", socket.local_addr().unwrap());
        let answered = move |(status, body): (u16, String)| {
            let (mut stream, _) = socket.accept().unwrap();
            let request = read_request(&stream);
            let head = format!("HTTP/1.1 {status} X\r\ncontent-length: {}\r\n\r\n", body.len());
            stream.write_all(format!("{head}{body}").as_bytes()).unwrap();
            request
        };
        Self { address, seen: thread::spawn(move || answers.into_iter().map(answered).collect()) }
    }

    fn asked_once(self) -> Asked {
        let requests = self.seen.join().unwrap();
        <[Asked; 1]>::try_from(requests).unwrap().into_iter().next().unwrap()
    }
}

fn read_request(stream: &TcpStream) -> Asked {
    let mut reader = BufReader::new(stream);
    let mut line = String::new();
    reader.read_line(&mut line).unwrap();
    let mut headers = String::new();
    while reader.read_line(&mut headers).unwrap() > 2 {}
    let headers = headers.to_lowercase();
    if headers.contains("expect: 100-continue") {
        (&*stream).write_all(b"HTTP/1.1 100 Continue\r\n\r\n").unwrap();
    }
    let size =
        headers.lines().find_map(|line| line.strip_prefix("content-length: ")).unwrap_or("0");
    let mut body = vec![0; size.parse().unwrap()];
    reader.read_exact(&mut body).unwrap();
    (line.trim_end().to_owned(), headers, String::from_utf8(body).unwrap())
}

struct Ran {
    code: u8,
    out: String,
    err: String,
}

fn run_with(args: &[&str], stdin: &str, env: &[(&str, &str)]) -> Ran {
    let (mut out, mut err) = (Vec::new(), Vec::new());
    let env = |name: &str| {
        env.iter().find(|(key, _)| *key == name).map(|(_, value)| OsString::from(value))
    };
    let (terminal, hide) = (false, None);
    let mut io = CommandIo {
        stdin: &mut stdin.as_bytes(),
        stdout: &mut out,
        stderr: &mut err,
        terminal,
        hide,
        env: &env,
        inspect_snapshot: &|_| Ok("a snapshot".to_owned()),
        restore_data: &|_, _, _| Err("no directory".to_owned()),
    };
    let code = run(args.iter().map(OsString::from), &mut io);
    Ran { code, out: String::from_utf8(out).unwrap(), err: String::from_utf8(err).unwrap() }
}

/// Runs `args` against a server with this answer. Returns the run and the received request.
fn against(status: u16, body: &Value, args: &[&str], stdin: &str) -> (Ran, Asked) {
    let text = if body.is_null() { String::new() } else { body.to_string() };
    let canned = Canned::answering(status, &text);
    let ran =
        run_with(args, stdin, &[("BULKHEAD_ADDR", &canned.address), ("BULKHEAD_TOKEN", "bhs.t")]);
    (ran, canned.asked_once())
}

/// Returns the request line and body that a command sends to a server that answers 204.
fn sent(args: &[&str]) -> (String, Value) {
    let (ran, (line, _, body)) = against(204, &Value::Null, args, "");
    assert_eq!(ran.code, 0, "{}", ran.err);
    let line = line.strip_suffix(" HTTP/1.1").unwrap().to_owned();
    (line, if body.is_empty() { Value::Null } else { serde_json::from_str(&body).unwrap() })
}

/// Asserts that a command is refused as wrong usage, mentions `part`, and asks no server.
#[track_caller]
fn assert_wrong(args: &[&str], part: &str) {
    let ran = run_with(args, "", &[("BULKHEAD_ADDR", "http://127.0.0.1:1")]);
    assert!(ran.code == 2 && ran.out.is_empty(), "{args:?}: {}", ran.out);
    assert!(ran.err.contains(part) && !ran.err.contains("cannot reach"), "{args:?}: {}", ran.err);
}

#[test]
fn read_shows_a_credential() {
    let body = json!({"request_id": "r", "lease_id": "database/creds/x/1", "lease_duration": 60,
        "renewable": true, "auth": null, "warnings": ["soon over"],
        "data": {"username": "u", "password": "p"}});
    let (ran, (line, headers, sent)) = against(200, &body, &["read", "/database/creds/x/"], "");
    assert_eq!((line.as_str(), sent.as_str()), ("GET /v1/database/creds/x HTTP/1.1", ""));
    assert!(headers.contains("x-vault-token: bhs.t"), "{headers}");
    assert_eq!((ran.code, ran.err.as_str()), (0, "warning: soon over\n"));
    assert!(
        ran.out.contains("lease_duration     1m\n") && ran.out.contains("password           p\n"),
        "{}",
        ran.out
    );
    let (ran, _) = against(200, &body, &["read", "-field=password", "database/creds/x"], "");
    assert_eq!((ran.code, ran.out.as_str()), (0, "p"));
}

#[test]
fn write_sends_fields_and_confirms() {
    let args = ["write", "database/roles/r", "db_name=d", "s=a", "s=b", "p=-"];
    let (ran, (line, _, sent)) = against(204, &Value::Null, &args, "secret");
    assert_eq!(line, "PUT /v1/database/roles/r HTTP/1.1");
    assert_eq!(
        serde_json::from_str::<Value>(&sent).unwrap(),
        json!({"db_name": "d", "s": ["a", "b"], "p": "secret"})
    );
    assert_eq!((ran.code, ran.out.as_str()), (0, "wrote database/roles/r\n"));
    let (ran, (_, _, sent)) =
        against(204, &Value::Null, &["write", "-format=json", "-f", "database/reset/d"], "");
    assert_eq!((ran.code, ran.out.as_str(), sent.as_str()), (0, "", "{}"));
}

#[test]
fn write_without_fields_needs_force() {
    let ran = run_with(&["write", "a/b"], "", &[]);
    assert!(ran.code == 2 && ran.err.contains("-f"), "{}", ran.err);
}

#[test]
fn list_shows_names_or_their_json() {
    let body = json!({"request_id": "r", "data": {"keys": ["a", "b/"]}});
    let (ran, (line, _, _)) = against(200, &body, &["list", "database/roles/"], "");
    assert_eq!(line, "GET /v1/database/roles?list=true HTTP/1.1");
    assert_eq!(ran.out, "Keys\n----\na\nb/\n");
    let (ran, _) = against(200, &body, &["list", "-format=json", "database/roles"], "");
    assert_eq!(serde_json::from_str::<Value>(&ran.out).unwrap(), json!(["a", "b/"]));
}

#[test]
fn delete_prints_deleted_path() {
    let (ran, (line, _, _)) = against(204, &Value::Null, &["delete", "database/roles/r"], "");
    assert_eq!(
        (line.as_str(), ran.out.as_str()),
        ("DELETE /v1/database/roles/r HTTP/1.1", "deleted database/roles/r\n")
    );
}

#[test]
fn answer_with_only_warnings_succeeds_and_prints_warnings() {
    let body = json!({"request_id": "r", "lease_id": "", "data": null, "auth": null,
        "warnings": ["name lower-cased"]});
    let (ran, _) = against(200, &body, &["policy", "write", "P", "-"], "path \"a\" {}");
    assert_eq!(
        (ran.code, ran.out.as_str(), ran.err.as_str()),
        (0, "wrote policy P\n", "warning: name lower-cased\n")
    );
    let (ran, _) =
        against(200, &body, &["policy", "write", "-format=json", "P", "-"], "path \"a\" {}");
    assert_eq!((serde_json::from_str::<Value>(&ran.out).unwrap(), ran.err.as_str()), (body, ""));
}

#[test]
fn status_exit_code_distinguishes_sealed_unsealed_and_unknown() {
    assert_eq!(against(200, &json!({"sealed": false}), &["status"], "").0.code, 0);
    assert_eq!(against(200, &json!({"sealed": true}), &["status"], "").0.code, 2);
    assert_eq!(against(200, &json!({"hello": true}), &["status"], "").0.code, 1);
    let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
    assert_eq!(run_with(&["status", "-address", &format!("http://{free}")], "", &[]).code, 1);
    assert_eq!(run_with(&["read", "-address", &format!("http://{free}"), "x"], "", &[]).code, 2);
}

#[test]
fn status_shows_how_many_keys_are_still_needed() {
    let body = json!({"sealed": true, "initialized": true, "t": 3, "n": 5, "progress": 1,
        "nonce": "5e1c", "version": "1"});
    let (ran, _) = against(200, &body, &["status"], "");
    assert!(
        ran.out.contains("\nprogress       1/3\n") && ran.out.contains("\nnonce          5e1c\n"),
        "{}",
        ran.out
    );
    let (ran, _) = against(200, &body, &["status", "-format=json"], "");
    assert_eq!((ran.code, serde_json::from_str::<Value>(&ran.out).unwrap()), (2, body));
}

#[test]
fn init_prints_keys_in_order_with_instructions() {
    let keys: Vec<String> = (1..=12).map(|number| format!("key-{number}")).collect();
    let body = json!({"keys": ["c0"], "keys_base64": keys, "root_token": "bhs.root"});
    let (ran, (line, _, sent)) = against(200, &body, &["operator", "init", "-key-shares=12"], "");
    assert_eq!(line, "PUT /v1/sys/init HTTP/1.1");
    assert_eq!(sent, r#"{"secret_shares":12,"secret_threshold":3}"#);
    let listed = keys.iter().enumerate();
    let listed: Vec<String> =
        listed.map(|(index, key)| format!("Unseal Key {}: {key}\n", index + 1)).collect();
    let expected = format!("{}\nInitial Root Token: bhs.root\n", listed.concat());
    assert!(ran.code == 0 && ran.out.starts_with(&expected), "{}", ran.out);
    assert!(ran.out.contains("3 of 12") && ran.out.contains("operator unseal"), "{}", ran.out);
    let (ran, _) = against(200, &body, &["operator", "init", "-key-shares=5", "-format=json"], "");
    let expected = json!({"unseal_keys_b64": keys, "unseal_keys_hex": ["c0"], "unseal_shares": 5,
        "unseal_threshold": 3, "recovery_keys_b64": [], "recovery_keys_hex": [],
        "recovery_keys_shares": 0, "recovery_keys_threshold": 0, "root_token": "bhs.root"});
    assert_eq!(serde_json::from_str::<Value>(&ran.out).unwrap(), expected);
    let (ran, _) =
        against(200, &body, &["operator", "init", "-key-shares=5", "-field=root_token"], "");
    assert_eq!(ran.out, "bhs.root");
}

#[test]
fn init_completes_missing_numbers_and_forwards_wrong_ones() {
    let body = json!({"keys_base64": [], "root_token": "bhs.root"});
    for (args, shares, threshold) in [
        (&["-key-shares=5"][..], 5, 3),
        (&["-key-shares=1"], 1, 1),
        (&["-key-shares=2"], 2, 2),
        (&["-key-threshold=7"], 7, 7),
        (&["-key-shares=300", "-key-threshold=0"], 300, 0),
    ] {
        let (_, (_, _, sent)) = against(200, &body, &[&["operator", "init"], args].concat(), "");
        assert_eq!(
            sent,
            format!(r#"{{"secret_shares":{shares},"secret_threshold":{threshold}}}"#),
            "{args:?}"
        );
    }
    for bad in ["three", "-1", "1.5", ""] {
        let ran = run_with(&["operator", "init", &format!("-key-shares={bad}")], "", &[]);
        assert!(
            ran.code == 2 && ran.err.contains("-key-shares") && ran.err.contains(bad),
            "{}",
            ran.err
        );
    }
}

#[test]
fn keys_failing_to_print_are_reported_lost() {
    struct Full;
    impl Write for Full {
        fn write(&mut self, _: &[u8]) -> std::io::Result<usize> {
            Err(std::io::Error::other("disk full"))
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    let canned =
        Canned::answering(200, r#"{"keys_base64": ["canary"], "root_token": "bhs.canary"}"#);
    let (address, mut err) = (OsString::from(&canned.address), Vec::new());
    let env = |name: &str| (name == "BULKHEAD_ADDR").then(|| address.clone());
    let (terminal, hide) = (false, None);
    let mut io = CommandIo {
        stdin: &mut std::io::empty(),
        stdout: &mut Full,
        stderr: &mut err,
        terminal,
        hide,
        env: &env,
        inspect_snapshot: &|_| Ok("a snapshot".to_owned()),
        restore_data: &|_, _, _| Err("no directory".to_owned()),
    };
    assert_eq!(
        run(["operator", "init", "-key-shares=1"].map(OsString::from).into_iter(), &mut io),
        1
    );
    let err = String::from_utf8(err).unwrap();
    assert!(
        err.contains("disk full")
            && err.contains("initialise the server again")
            && !err.contains("canary"),
        "{err}"
    );
}

#[test]
fn unseal_reads_key_from_argument_or_stdin() {
    let body = json!({"sealed": true, "t": 3, "n": 5, "progress": 2});
    for (args, stdin) in [(&["c0ffee"][..], ""), (&["-"], "c0ffee\n"), (&[], " c0ffee\r\n")] {
        let (ran, (line, _, sent)) =
            against(200, &body, &[&["operator", "unseal"], args].concat(), stdin);
        assert_eq!(
            (line.as_str(), sent.as_str()),
            ("PUT /v1/sys/unseal HTTP/1.1", r#"{"key":"c0ffee"}"#)
        );
        assert!(
            ran.code == 0 && ran.out.contains("2/3") && !ran.out.contains("c0ffee"),
            "{}",
            ran.out
        );
    }
    let (_, (_, _, sent)) = against(200, &body, &["operator", "unseal", "-reset"], "c0ffee");
    assert_eq!(sent, r#"{"reset":true}"#);
}

#[test]
fn unseal_without_one_key_sends_nothing() {
    for (args, stdin) in [
        (&[][..], ""),
        (&["-"], " \n"),
        (&[], "canary canary\n"),
        (&["canary", "canary"], ""),
        (&["-reset", "canary"], ""),
    ] {
        let ran = run_with(
            &[&["operator", "unseal"], args].concat(),
            stdin,
            &[("BULKHEAD_ADDR", "http://127.0.0.1:1")],
        );
        assert!(
            ran.code == 2 && !ran.err.contains("cannot reach") && !ran.err.contains("canary"),
            "{}",
            ran.err
        );
    }
}

#[test]
fn unseal_key_prompt_hides_typed_key() {
    let canned = Canned::answering(200, r#"{"sealed": false, "t": 1, "n": 1, "progress": 0}"#);
    let (address, mut out, mut err) = (OsString::from(&canned.address), Vec::new(), Vec::new());
    let env = |name: &str| (name == "BULKHEAD_ADDR").then(|| address.clone());
    let hide = || Ok(Box::new(()) as Box<dyn std::any::Any>);
    let mut io = CommandIo {
        stdin: &mut &b"c0ffee\n"[..],
        stdout: &mut out,
        stderr: &mut err,
        terminal: true,
        hide: Some(&hide),
        env: &env,
        inspect_snapshot: &|_| Ok("a snapshot".to_owned()),
        restore_data: &|_, _, _| Err("no directory".to_owned()),
    };
    assert_eq!(run(["operator", "unseal"].map(OsString::from).into_iter(), &mut io), 0);
    assert_eq!(canned.asked_once().2, r#"{"key":"c0ffee"}"#);
    assert_eq!(String::from_utf8(err).unwrap(), "Type the unseal key (not shown): \n");
}

#[test]
fn seal_rotate_and_key_status_call_their_endpoints() {
    for (words, request_line, said) in [
        (["operator", "seal"], "PUT /v1/sys/seal HTTP/1.1", "the server is sealed\n"),
        (["operator", "rotate"], "PUT /v1/sys/rotate HTTP/1.1", "a new key encrypts from now on\n"),
    ] {
        let (ran, (line, headers, _)) = against(204, &Value::Null, &words, "");
        assert_eq!((ran.code, line.as_str(), ran.out.as_str()), (0, request_line, said));
        assert!(headers.contains("x-vault-token: bhs.t"), "{headers}");
    }
    let body = json!({"request_id": "r", "data": {"term": 2,
        "install_time": "2026-11-01T12:00:00Z"}, "term": 2});
    let (ran, (line, _, _)) = against(200, &body, &["operator", "key-status"], "");
    assert_eq!(line, "GET /v1/sys/key-status HTTP/1.1");
    assert!(ran.out.contains("\nterm            2\n"), "{}", ran.out);
}

#[test]
fn refusal_names_attempted_action_and_escapes_control_characters() {
    let body = json!({"errors": ["permission denied: \u{1b}]0;gotcha\u{7}"]});
    let (ran, _) = against(403, &body, &["read", "database/creds/x"], "");
    assert_eq!(ran.code, 1);
    let expected =
        "Error reading database/creds/x: permission denied: \\u{1b}]0;gotcha\\u{7} (403)\n";
    assert_eq!((ran.out.as_str(), ran.err.as_str()), ("", expected));
    let (ran, _) = against(404, &json!({"errors": []}), &["list", "database/roles"], "");
    assert_eq!((ran.code, ran.err.as_str()), (2, "nothing exists at database/roles\n"));
    let (ran, _) = against(500, &json!({"errors": ["one", "two"]}), &["delete", "x"], "");
    assert!(ran.code == 1 && ran.err.ends_with("answered 500:\n  one\n  two\n"), "{}", ran.err);
    let (ran, _) = against(307, &Value::Null, &["read", "x"], "");
    assert_eq!(ran.code, 1, "a redirect is not followed, for it would take the token along");
}

#[test]
fn policies_are_texts() {
    let (_, (line, _, sent)) =
        against(204, &Value::Null, &["policy", "write", "p", "-"], "path \"a\" {}\n");
    assert_eq!(line, "PUT /v1/sys/policies/acl/p HTTP/1.1");
    assert_eq!(serde_json::from_str::<Value>(&sent).unwrap(), json!({"policy": "path \"a\" {}\n"}));
    let body = json!({"request_id": "r", "data": {"name": "p", "policy": "path \"a\" {\n}\n"}});
    let (ran, _) = against(200, &body, &["policy", "read", "p"], "");
    assert_eq!(ran.out, "path \"a\" {\n}\n");
    assert_eq!(run_with(&["policy", "delete", ""], "", &[]).code, 2);
}

#[test]
fn help_and_wrong_usage_list_commands() {
    for args in [&["help"][..], &["-h"], &["--help"]] {
        let ran = run_with(args, "", &[]);
        assert!(
            ran.code == 0 && ran.out.contains("lease revoke") && ran.out.contains("server"),
            "{}",
            ran.out
        );
    }
    let ran = run_with(&["write", "-help"], "", &[]);
    assert!(
        ran.code == 0 && ran.out.contains("-force") && ran.out.contains("-format"),
        "{}",
        ran.out
    );
    let ran = run_with(&["frobnicate"], "", &[]);
    assert!(ran.code == 2 && ran.err.contains("frobnicate") && ran.out.is_empty(), "{}", ran.err);
    let ran = run_with(&["lease"], "", &[]);
    assert!(
        ran.code == 2 && ran.err.contains("lease renew") && !ran.err.contains("policy read"),
        "{}",
        ran.err
    );
    for args in [
        &[][..],
        &["read"],
        &["lease", "revoke"],
        &["lease", "revoke", "a", "b"],
        &["list", "a", "b"],
    ] {
        assert_eq!(run_with(args, "", &[]).code, 2, "{args:?}");
    }
}

#[test]
fn plain_text_is_never_sent_to_https_address() {
    let socket = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("https://{}", socket.local_addr().unwrap());
    let seen = thread::spawn(move || {
        let (mut stream, _) = socket.accept().unwrap();
        let mut sent = vec![0; 16 * 1024];
        let length = stream.read(&mut sent).unwrap();
        stream.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n").unwrap();
        sent.truncate(length);
        sent
    });
    let ran =
        run_with(&["read", "x"], "", &[("VAULT_ADDR", &address), ("VAULT_TOKEN", "bhs.canary")]);
    assert!(ran.code == 2 && ran.err.contains("does not speak TLS"), "{}", ran.err);
    let sent = seen.join().unwrap();
    assert_eq!(sent[0], 22, "a handshake");
    assert!(!String::from_utf8_lossy(&sent).contains("canary"));
}

#[test]
fn a_redirect_takes_the_token_nowhere() {
    let other = TcpListener::bind("127.0.0.1:0").unwrap();
    other.set_nonblocking(true).unwrap();
    let target = format!("http://{}/v1/x", other.local_addr().unwrap());
    let socket = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}", socket.local_addr().unwrap());
    let location = target.clone();
    let answering = thread::spawn(move || {
        let (mut stream, _) = socket.accept().unwrap();
        read_request(&stream);
        let head = format!("HTTP/1.1 307 X\r\nlocation: {location}\r\ncontent-length: 0\r\n\r\n");
        stream.write_all(head.as_bytes()).unwrap();
    });
    let ran =
        run_with(&["read", "x"], "", &[("BULKHEAD_ADDR", &address), ("BULKHEAD_TOKEN", "bhs.t")]);
    answering.join().unwrap();
    assert!(ran.code == 1 && ran.err.contains(&target), "{}", ran.err);
    assert!(other.accept().is_err(), "nothing goes there");
}

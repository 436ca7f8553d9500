//! The wrapping time of the settings, for every command: sent with the request whose answer is
//! printed, or refused.

use super::unwrap::wrapped;
use super::*;
use crate::wrapping::AnswerWrapping;
use std::sync::{Arc, Mutex};

/// Arguments with which each command asks the server, and its standard input.
const TYPED: [(&str, &[&str], &str); 75] = [
    ("read", &["a"], ""),
    ("write", &["a", "k=v"], ""),
    ("patch", &["a", "k=v"], ""),
    ("list", &["a"], ""),
    ("delete", &["a"], ""),
    ("unwrap", &["bhs.u"], ""),
    ("path-help", &["a"], ""),
    ("status", &[], ""),
    ("monitor", &[], ""),
    ("login", &["-method=userpass", "-no-store", "username=u", "password=p"], ""),
    ("print token", &[], ""),
    ("kv get", &["kv/a"], ""),
    ("kv put", &["kv/a", "k=v"], ""),
    ("kv patch", &["-method=rw", "kv/a", "k=v"], ""),
    ("kv list", &["kv/a"], ""),
    ("kv delete", &["kv/a"], ""),
    ("kv undelete", &["-versions=1", "kv/a"], ""),
    ("kv destroy", &["-versions=1", "kv/a"], ""),
    ("kv rollback", &["-version=1", "kv/a"], ""),
    ("kv metadata get", &["kv/a"], ""),
    ("kv metadata put", &["-max-versions=1", "kv/a"], ""),
    ("kv metadata patch", &["-max-versions=1", "kv/a"], ""),
    ("kv metadata delete", &["kv/a"], ""),
    ("kv enable-versioning", &["kv"], ""),
    ("secrets list", &[], ""),
    ("secrets enable", &["kv"], ""),
    ("secrets tune", &["-description=d", "kv"], ""),
    ("secrets move", &["a", "b"], ""),
    ("secrets disable", &["kv"], ""),
    ("auth list", &[], ""),
    ("auth enable", &["userpass"], ""),
    ("auth tune", &["-description=d", "userpass"], ""),
    ("auth move", &["a", "b"], ""),
    ("auth disable", &["userpass"], ""),
    ("lease list", &[], ""),
    ("lease lookup", &["l"], ""),
    ("lease renew", &["l"], ""),
    ("lease revoke", &["l"], ""),
    ("token create", &[], ""),
    ("token lookup", &[], ""),
    ("token renew", &[], ""),
    ("token revoke", &["-self"], ""),
    ("token capabilities", &["a"], ""),
    ("policy list", &[], ""),
    ("policy read", &["p"], ""),
    ("policy write", &["p", "-"], "path \"a\" {}"),
    ("policy delete", &["p"], ""),
    ("policy fmt", &["-"], ""),
    ("plugin register", &["-name=p", "-"], "\0asm"),
    ("plugin list", &[], ""),
    ("plugin info", &["p"], ""),
    ("plugin deregister", &["p"], ""),
    ("plugin pin", &["p", "1.0.0"], ""),
    ("plugin unpin", &["p"], ""),
    ("plugin reload", &["-plugin=p"], ""),
    ("plugin keygen", &["/nowhere/key"], ""),
    ("plugin sign", &["-key=/nowhere/key", "-"], ""),
    ("audit list", &[], ""),
    ("audit enable", &["file", "file_path=f"], ""),
    ("audit hash", &["file", "text"], ""),
    ("audit disable", &["file"], ""),
    ("operator init", &[], ""),
    ("operator unseal", &["key"], ""),
    ("operator seal", &[], ""),
    ("operator rotate", &[], ""),
    ("operator key-status", &[], ""),
    ("operator members", &[], ""),
    ("operator step-down", &[], ""),
    ("operator generate-root", &["-init"], ""),
    ("operator rekey", &["-init"], ""),
    ("operator snapshot save", &["a.snap"], ""),
    ("operator raft snapshot save", &["a.snap"], ""),
    ("operator snapshot restore", &["a.snap"], ""),
    ("operator raft snapshot restore", &["a.snap"], ""),
    ("operator release", &[], ""),
];

/// A server that wraps its answer if a request asks for that, and otherwise gives a secret away.
struct WrappingServer {
    address: String,
    seen: Arc<Mutex<Vec<Asked>>>,
}

impl WrappingServer {
    fn start() -> Self {
        let socket = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = format!("http://{}", socket.local_addr().unwrap());
        let seen = Arc::new(Mutex::new(Vec::new()));
        let noted = Arc::clone(&seen);
        thread::spawn(move || {
            for stream in socket.incoming() {
                let mut stream = stream.unwrap();
                let request = read_request(&stream);
                let body = if is_wrapping(&request) { wrapped() } else { clear() }.to_string();
                noted.lock().unwrap().push(request);
                let head = format!("HTTP/1.1 200 X\r\ncontent-length: {}\r\n\r\n", body.len());
                stream.write_all(format!("{head}{body}").as_bytes()).unwrap();
            }
        });
        Self { address, seen }
    }

    /// Runs a command with more variables, and returns the requests that it made.
    fn run(&self, args: &[&str], stdin: &str, more: &[(&str, &str)]) -> (Ran, Vec<Asked>) {
        let own = [("BULKHEAD_ADDR", self.address.as_str()), ("BULKHEAD_TOKEN", "bhs.t")];
        let ran = run_with(args, stdin, &[&own[..], more].concat());
        (ran, std::mem::take(&mut self.seen.lock().unwrap()))
    }
}

fn is_wrapping((_, headers, _): &Asked) -> bool {
    headers.contains("x-vault-wrap-ttl: 90")
}

/// An answer that serves every command which reads an answer itself.
fn clear() -> Value {
    json!({"request_id": "r", "lease_id": "", "auth": {"client_token": "canary"}, "data": {
        "path": "kv/", "options": {"version": "2"}, "data": {"password": "canary"},
        "metadata": {"version": 3}, "password": "canary", "keys": ["canary"],
        "capabilities": ["canary"], "policy": "canary", "migration_id": "canary"}})
}

#[test]
fn wrapping_time_reaches_every_command_or_is_refused() {
    let server = WrappingServer::start();
    let names: Vec<&str> = TYPED.iter().map(|(name, ..)| *name).collect();
    let command_words: Vec<&str> = commands::all().map(|command| command.words).collect();
    assert_eq!(names, command_words, "the table has every command, in the order of the help");
    for (command, (name, args, stdin)) in commands::all().zip(TYPED) {
        let words: Vec<&str> = name.split(' ').chain(args.iter().copied()).collect();
        let option = [&words[..], &["-wrap-ttl=90"]].concat();
        for (line, variables) in [
            (&words, &[("VAULT_WRAP_TTL", "90")][..]),
            (&words, &[("BULKHEAD_WRAP_TTL", "90"), ("VAULT_WRAP_TTL", "7")]),
            (&option, &[]),
        ] {
            let (ran, requests) = server.run(line, stdin, variables);
            let shown = format!("{line:?} {variables:?}: {}{}", ran.out, ran.err);
            match command.wrapping {
                AnswerWrapping::Sent | AnswerWrapping::Public => {
                    let (last, before) = requests.split_last().expect(&shown);
                    assert!(is_wrapping(last) && !before.iter().any(is_wrapping), "{shown}");
                    assert!(ran.out.contains("bhs.w") && !ran.out.contains("canary"), "{shown}");
                }
                AnswerWrapping::Refused(reason) => {
                    assert!(ran.code == 2 && ran.err.contains(reason), "{shown}");
                    assert!(requests.is_empty() && ran.out.is_empty(), "{shown}");
                }
                AnswerWrapping::Offline => {
                    assert_eq!(ran.err.contains("no answer to wrap"), *line == option, "{shown}");
                    assert!(requests.is_empty(), "{shown}");
                }
            }
        }
    }
}

#[test]
fn empty_wrapping_time_switches_variables_off() {
    let server = WrappingServer::start();
    let variable = [("VAULT_WRAP_TTL", "90")];
    for args in [&["kv", "get", "kv/a"][..], &["operator", "init"], &["read", "a"]] {
        let args = [args, &["-wrap-ttl="]].concat();
        let (ran, requests) = server.run(&args, "", &variable);
        assert!(ran.code == 0 && !requests.iter().any(is_wrapping), "{}", ran.err);
    }
}

#[test]
fn wrapping_of_fields_has_own_default_time() {
    let server = WrappingServer::start();
    let (_, requests) = server.run(&["write", "sys/wrapping/wrap", "a=b"], "", &[]);
    assert!(requests[0].1.contains("x-vault-wrap-ttl: 5m"), "{}", requests[0].1);
    let variable = [("VAULT_WRAP_TTL", "90")];
    let (_, requests) = server.run(&["write", "sys/wrapping/wrap", "a=b"], "", &variable);
    assert!(is_wrapping(&requests[0]), "{}", requests[0].1);
}

#[test]
fn unwrapped_answer_to_wrapping_request_warns() {
    let body = json!({"request_id": "r", "data": {"a": "b"}});
    for format in ["table", "json"] {
        let args = ["read", "-wrap-ttl=1m", &format!("-format={format}"), "x"];
        let (ran, _) = against(200, &body, &args, "");
        assert!(ran.code == 0 && ran.err.contains("did not wrap"), "{}", ran.err);
    }
    let (ran, _) = against(204, &Value::Null, &["delete", "-wrap-ttl=1m", "x"], "");
    assert_eq!((ran.code, ran.err.as_str()), (0, ""));
    let (ran, _) = against(200, &json!({"sealed": false}), &["status", "-wrap-ttl=1m"], "");
    assert_eq!((ran.code, ran.err.as_str()), (0, ""));
}

#[test]
fn curl_line_asks_for_wrapped_answer() {
    let env = [("BULKHEAD_ADDR", "http://127.0.0.1:1"), ("VAULT_WRAP_TTL", "90")];
    let ran = run_with(&["read", "-output-curl-string", "a"], "", &env);
    assert!(ran.out.contains("-H 'x-vault-wrap-ttl: 90'"), "{}", ran.out);
}

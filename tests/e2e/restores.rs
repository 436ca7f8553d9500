//! Restore of snapshots into a running server and into a directory: the data before and after,
//! refused files and callers, and the due work of a restored server.

use crate::foreign_files::flip_where;
use crate::world::World;
use bulkhead_tests::operators::{
    Operators, give, of_recovery_keys, open, operator, seal_status, uninitialised,
};
use bulkhead_tests::paths::Folder;
use bulkhead_tests::storage::{has_replaced_data, on_files};
use bulkhead_tests::wait::until_true;
use bulkhead_tests::{Bulkhead, Client};
use serde_json::{Value, json};
use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, SystemTime};

const PATIENCE: Duration = Duration::from_secs(30);

/// Paths of a restore with the check of the cluster, and without.
const CHECKED: [&str; 2] = ["sys/storage/snapshot", "sys/storage/raft/snapshot"];
const FORCED: [&str; 2] = ["sys/storage/snapshot-force", "sys/storage/raft/snapshot-force"];

/// Runs `bulkhead operator`, which has to succeed, and returns both outputs.
#[track_caller]
fn operate(server: &Bulkhead, token: &str, words: &[&str]) -> String {
    let (code, out, error) = operator(server, token, words);
    assert_eq!(code, 0, "{words:?}: {out}{error}\n{}", server.printed());
    format!("{out}{error}")
}

fn fill(client: &Client) {
    client.write("sys/mounts/kv", &json!({ "type": "kv" })).expect(204);
    for number in 0..50 {
        client.write(&format!("kv/secret-{number}"), &json!({ "number": number })).expect(204);
    }
}

/// Takes a snapshot into a file of `folder`, and returns the name of the file.
#[track_caller]
fn save(server: &Bulkhead, token: &str, folder: &Folder) -> String {
    let file = folder.path().join("a.snap").display().to_string();
    operate(server, token, &["snapshot", "save", &file]);
    file
}

/// Changes the data after the snapshot.
fn change(client: &Client) {
    client.write("kv/late", &json!({ "number": 1 })).expect(204);
    client.write("kv/secret-1", &json!({ "number": 1_000 })).expect(204);
    client.delete("kv/secret-2").expect(204);
}

/// Asserts that the data are those before [`change`].
#[track_caller]
fn assert_before(client: &Client) {
    client.read("kv/late").expect(404);
    for number in [1, 2, 49] {
        let secret = client.read(&format!("kv/secret-{number}")).expect(200);
        assert_eq!(secret.body["data"]["number"], json!(number));
    }
}

/// Asserts that the data are those after [`change`], and that no file of a body is left.
#[track_caller]
fn assert_after(server: &Bulkhead, client: &Client) {
    client.read("kv/late").expect(200);
    client.read("kv/secret-2").expect(404);
    assert_eq!(receptions(server), 0);
}

/// Number of files in the data folder that hold the body of a request.
fn receptions(server: &Bulkhead) -> usize {
    let entries = fs::read_dir(server.data()).expect("the data folder");
    let names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    names.filter(|name| name.starts_with("restore-")).count()
}

/// Time at which a file of the data folder was last created, renamed or removed.
fn folder_time(server: &Bulkhead) -> SystemTime {
    let folder = fs::metadata(server.data()).expect("the data folder");
    folder.modified().expect("a time of the last change")
}

/// Returns whether a node on PostgreSQL writes the mark of its last commit, and the present mark.
fn node_mark(server: &Bulkhead) -> (bool, Option<Vec<u8>>) {
    let path = server.data().join("database-mark");
    (path.with_extension("unfinished").exists(), fs::read(path).ok())
}

/// Codes of the conditions in `sys/health`.
fn conditions(server: &Bulkhead) -> String {
    let health = server.client(None).read("sys/health").body;
    health["degraded"].to_string()
}

#[track_caller]
fn assert_awaits_release(server: &Bulkhead, token: &str) {
    assert!(conditions(server).contains("release"), "{}", conditions(server));
    assert!(operate(server, token, &["release"]).contains("due work starts"));
    assert!(!conditions(server).contains("release"), "{}", conditions(server));
}

#[test]
fn running_server_returns_to_snapshot_and_stays_open() {
    for (server, operators) in [open(), of_recovery_keys(3, 2)] {
        let (client, folder) = (operators.root(&server), Folder::new("restores"));
        fill(&client);
        let file = save(&server, &operators.token, &folder);
        for words in [["snapshot", "restore"].as_slice(), &["raft", "snapshot", "restore"]] {
            change(&client);
            let said = operate(&server, &operators.token, &[words, &[&file]].concat());
            assert!(said.contains("a snapshot of ") && said.contains("operator release"), "{said}");
            assert_eq!(seal_status(&server)["sealed"], false);
            assert_before(&client);
            assert_awaits_release(&server, &operators.token);
        }
        let snapshot = fs::read(&file).expect("the snapshot");
        for path in CHECKED.into_iter().chain(FORCED) {
            for method in ["POST", "PUT"] {
                change(&client);
                client.send(method, path, &snapshot).expect(204);
                assert_before(&client);
                assert_eq!(receptions(&server), 0, "{path}");
            }
        }
        assert!(has_replaced_data(server.data()));
    }
}

#[test]
fn restored_data_survive_kill_and_next_start() {
    let (mut server, operators) = of_recovery_keys(3, 2);
    let (client, folder) = (operators.root(&server), Folder::new("restores"));
    fill(&client);
    let file = save(&server, &operators.token, &folder);
    change(&client);
    operate(&server, &operators.token, &["snapshot", "restore", &file]);
    server.kill();
    let unfinished = server.data().join("restore-1.unfinished");
    fs::write(&unfinished, "of a killed process").expect("a file can be written");
    server.start_again();
    assert!(!unfinished.exists(), "the start removes bodies of a killed process");
    assert_before(&operators.root(&server));
    assert_awaits_release(&server, &operators.token);
}

#[test]
fn other_cluster_needs_force_and_its_own_keys() {
    let ((first, its_operators), (second, operators)) = (open(), open());
    let (client, folder) = (operators.root(&second), Folder::new("restores"));
    fill(&its_operators.root(&first));
    let file = save(&first, &its_operators.token, &folder);
    fill(&client);
    change(&client);
    let (code, _, error) = operator(&second, &operators.token, &["snapshot", "restore", &file]);
    assert!(code == 1 && error.contains("cluster") && error.contains("-force"), "{error}");
    assert_after(&second, &client);
    operate(&second, &operators.token, &["snapshot", "restore", "-force", &file]);
    let status = seal_status(&second);
    assert_eq!((&status["sealed"], &status["progress"]), (&json!(true), &json!(0)));
    // The keys of the replaced data open nothing.
    give(&second, &operators.keys[0]).expect(200);
    give(&second, &operators.keys[1]).expect(400);
    assert_eq!(seal_status(&second)["sealed"], true);
    its_operators.unseal(&second);
    assert_before(&its_operators.root(&second));
    client.read("kv/late").expect(403);
    assert_awaits_release(&second, &its_operators.token);
}

#[test]
fn other_cluster_with_same_seal_opens_at_once() {
    let ((first, its_operators), (second, operators)) =
        (of_recovery_keys(3, 2), of_recovery_keys(3, 2));
    let folder = Folder::new("restores");
    fill(&its_operators.root(&first));
    let file = save(&first, &its_operators.token, &folder);
    operate(&second, &operators.token, &["snapshot", "restore", "-force", &file]);
    until_true("the server opens", PATIENCE, || seal_status(&second)["sealed"] == json!(false));
    assert_before(&its_operators.root(&second));
    operators.root(&second).read("kv/secret-1").expect(403);
}

#[test]
fn files_without_whole_snapshot_change_nothing() {
    let (server, operators) = open();
    let (client, folder) = (operators.root(&server), Folder::new("restores"));
    fill(&client);
    let file = save(&server, &operators.token, &folder);
    change(&client);
    let snapshot = fs::read(&file).expect("the snapshot");
    let mut edited = snapshot.clone();
    let middle = edited.len() / 2;
    edited[middle] ^= 0x10;
    let followed = [snapshot.as_slice(), b"more"].concat();
    let damaged =
        [&snapshot[..snapshot.len() - 20], &snapshot[..40], &edited, &followed, b"no snapshot"];
    for content in damaged {
        for path in CHECKED.into_iter().chain(FORCED) {
            let refused = client.send("POST", path, content).expect(400);
            assert!(refused.errors().contains("snapshot"), "{path}: {refused:?}");
            assert_after(&server, &client);
        }
        fs::write(&file, content).expect("a file can be written");
        let words = ["snapshot", "restore", "-force", &file];
        let (code, out, error) = operator(&server, &operators.token, &words);
        assert!(code == 1 && out.is_empty() && error.contains("snapshot"), "{error}");
    }
    for path in CHECKED.into_iter().chain(FORCED) {
        client.send("POST", path, b"").refused(400, "the body is empty");
    }
    assert_after(&server, &client);
    assert!(!has_replaced_data(server.data()));
    assert!(!conditions(&server).contains("release"));
}

#[test]
fn large_body_without_right_reaches_no_disk() {
    let (server, operators) = open();
    let root = operators.root(&server);
    let rules = "path \"sys/storage/*\" { capabilities = [\"create\", \"update\"] }";
    root.write("sys/policies/acl/weak", &json!({ "policy": rules })).expect(204);
    let created = root.write("auth/token/create", &json!({ "policies": ["weak"] })).expect(200);
    let weak = created.body["auth"]["client_token"].as_str().expect("a token").to_owned();
    // The mark follows the last commit, so that an attempt with another mark says nothing.
    let times = (0..5).find_map(|_| {
        let (mark, before) = (node_mark(&server), folder_time(&server));
        send_large_bodies(&server, &weak);
        let after = folder_time(&server);
        (node_mark(&server) == mark).then_some((before, after))
    });
    let (before, after) = times.expect("an attempt without a new mark");
    assert_eq!(after, before, "a body was stored");
    root.read("sys/policies/acl/weak").expect(200);
}

/// Sends large bodies without the right to restore: with the token `weak`, and without a valid
/// token.
fn send_large_bodies(server: &Bulkhead, weak: &str) {
    let body = vec![b'a'; 100 << 20];
    for token in [Some(weak), Some("wrong"), None] {
        let client = server.client(token);
        // The server stops reading at some time, and then the client may see no answer.
        if let Ok(answer) = client.attempt("POST", FORCED[0], &body) {
            assert_eq!(answer.status, 403, "{answer:?}");
        }
        client.send("POST", FORCED[0], &body[..1_000]).expect(403);
        // A client that asks first sends nothing.
        let answer = expecting(server, token, body.len()).1;
        assert!(answer.starts_with("HTTP/1.1 403 "), "{answer}");
        assert_eq!(answer.contains("without sudo"), token == Some(weak), "{answer}");
    }
}

/// Sends the head of a restore that asks for permission to send the body. Returns the first
/// part of the answer.
fn expecting(server: &Bulkhead, token: Option<&str>, length: usize) -> (TcpStream, String) {
    let mut stream = TcpStream::connect(server.address()).expect("a connection");
    let token = token.map_or(String::new(), |token| format!("X-Vault-Token: {token}\r\n"));
    let head = format!(
        "POST /v1/{} HTTP/1.1\r\nHost: a\r\n{token}Expect: 100-continue\r\n\
         Content-Length: {length}\r\n\r\n",
        FORCED[0],
    );
    stream.write_all(head.as_bytes()).expect("the head can be sent");
    stream.set_read_timeout(Some(PATIENCE)).expect("a timeout can be set");
    let (mut bytes, mut read) = (vec![0; 4096], 0);
    loop {
        let more = stream.read(&mut bytes[read..]).expect("an answer");
        read += more;
        let text = String::from_utf8_lossy(&bytes[..read]).into_owned();
        assert!(more > 0, "the connection ended: {text:?}");
        // The head and the body of a refusal may arrive apart.
        let is_continue = text.starts_with("HTTP/1.1 100 ") && text.ends_with("\r\n\r\n");
        if is_continue || text.trim_end().ends_with('}') {
            return (stream, text);
        }
    }
}

#[test]
fn client_that_breaks_off_leaves_no_file() {
    let (server, operators) = open();
    let client = operators.root(&server);
    fill(&client);
    change(&client);
    let (mut stream, answer) = expecting(&server, Some(&operators.token), 100 << 20);
    assert_eq!(answer, "HTTP/1.1 100 Continue\r\n\r\n");
    stream.write_all(&vec![b'a'; 1 << 20]).expect("a part of the body can be sent");
    until_true("the body is received", PATIENCE, || receptions(&server) == 1);
    // A second body has to wait, and the server goes on.
    client.send("POST", FORCED[0], b"no snapshot").refused(503, "another snapshot");
    client.write("kv/beside", &json!({ "number": 1 })).expect(204);
    drop(stream);
    until_true("the file is removed", PATIENCE, || receptions(&server) == 0);
    let refused = client.send("POST", FORCED[0], b"no snapshot").expect(400);
    assert!(refused.errors().contains("snapshot"), "{refused:?}");
    assert_after(&server, &client);
}

#[test]
fn restored_server_starts_no_due_work_before_release() {
    let (world, control) = (World::new(), World::new());
    for world in [&world, &control] {
        world.role("short", json!({ "default_ttl": "1s", "max_ttl": "1s" }));
    }
    let user = world.credential("reader");
    let root = bulkhead_tests::bulkhead::ROOT;
    let folder = Folder::new("restores");
    let file = save(&world.bulkhead, root, &folder);
    operate(&world.bulkhead, root, &["snapshot", "restore", &file]);
    assert!(world.postgres.has_user(&user.username));
    let ended = world.credential("short");
    let lease = json!({ "lease_id": ended.lease });
    until_true("the lease is over", PATIENCE, || {
        let found = world.root.write("sys/leases/lookup", &lease);
        found.status == 400 || found.body["data"]["ttl"].as_i64() <= Some(0)
    });
    // A server that was not restored ends a lease that is due later.
    let later = control.credential("short");
    until_true("the later lease ends", PATIENCE, || !control.postgres.has_user(&later.username));
    assert!(world.postgres.has_user(&ended.username), "due work ran before the release");
    assert_awaits_release(&world.bulkhead, root);
    until_true("the lease ends", PATIENCE, || !world.postgres.has_user(&ended.username));
    assert!(world.postgres.has_user(&user.username));
}

#[test]
fn directory_is_restored_by_command_without_server() {
    let _files = on_files();
    let (mut server, operators) = of_recovery_keys(3, 2);
    let (client, folder) = (operators.root(&server), Folder::new("restores"));
    fill(&client);
    let file = save(&server, &operators.token, &folder);
    change(&client);
    let data = format!("-data={}", server.data().display());
    let offline = ["snapshot", "restore", &data, &file];
    let forced = ["snapshot", "restore", &data, "-force", &file];
    for words in [offline.as_slice(), &forced] {
        let (code, _, error) = operator(&server, "", words);
        assert!(code == 1 && error.contains("in use"), "{error}");
    }
    assert_after(&server, &client);
    assert!(server.stop(), "{}", server.printed());
    let (code, _, error) = operator(&server, "", &offline);
    assert!(code == 1 && error.contains("-force"), "{error}");
    let said = operate(&server, "", &forced);
    assert!(said.contains("start the server") && said.contains("operator release"), "{said}");
    server.start_again();
    assert_before(&operators.root(&server));
    assert_awaits_release(&server, &operators.token);
    assert!(server.stop(), "{}", server.printed());
    // A database with a damaged record is replaced as well.
    assert_eq!(flip_where(&server, "key LIKE '%/entry/secret-7'"), 1);
    operate(&server, "", &forced);
    server.start_again();
    assert_before(&operators.root(&server));
}

#[test]
fn empty_server_is_restored_by_command_alone() {
    let _files = on_files();
    let (first, operators) = open();
    let folder = Folder::new("restores");
    fill(&operators.root(&first));
    let file = save(&first, &operators.token, &folder);
    let mut second = uninitialised();
    let snapshot = fs::read(&file).expect("the snapshot");
    for path in CHECKED.into_iter().chain(FORCED) {
        let refused = second.client(Some("any")).send("POST", path, &snapshot).expect(400);
        for way in ["restore -data=DIR FILE", "restore -config=CONFIG FILE"] {
            assert!(refused.errors().contains(way), "{refused:?}");
        }
    }
    assert!(second.stop(), "{}", second.printed());
    let data = format!("-data={}", second.data().display());
    operate(&second, "", &["raft", "snapshot", "restore", &data, &file]);
    second.start_again();
    assert_eq!(seal_status(&second)["sealed"], Value::Bool(true));
    operators.unseal(&second);
    assert_before(&Operators::root(&operators, &second));
    assert_awaits_release(&second, &operators.token);
}

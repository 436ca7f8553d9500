//! `bulkhead kv`: requests and output, for mounts with versions and without.

use super::*;

/// Runs `args` against a server with these answers and returns the received requests as request
/// line and body.
fn asking(answers: &[(u16, Value)], args: &[&str], stdin: &str) -> (Ran, Vec<(String, Value)>) {
    let text = |body: &Value| if body.is_null() { String::new() } else { body.to_string() };
    let canned = answers.iter().map(|(status, body)| (*status, text(body))).collect();
    let canned = Canned::answering_in_turn(canned);
    let env = [("BULKHEAD_ADDR", canned.address.as_str()), ("BULKHEAD_TOKEN", "bhs.t")];
    let ran = run_with(args, stdin, &env);
    let requests = canned.seen.join().unwrap().into_iter().map(|(line, _, body)| {
        let line = line.trim_end_matches(" HTTP/1.1").to_owned();
        (line, serde_json::from_str(&body).unwrap_or_default())
    });
    (ran, requests.collect())
}

/// The answer that says which mount serves a path.
fn mount(path: &str, version: &str) -> (u16, Value) {
    let data = json!({"path": path, "type": "kv", "options": {"version": version}});
    (200, json!({"request_id": "r", "data": data}))
}

fn answer(data: &Value) -> (u16, Value) {
    (200, json!({"request_id": "r", "lease_id": "", "data": data}))
}

fn metadata() -> Value {
    json!({"created_time": "2026-01-02T03:04:05Z", "custom_metadata": null, "deletion_time": "",
        "destroyed": false, "version": 3})
}

fn secret() -> (u16, Value) {
    answer(&json!({"data": {"password": "p", "user": "u"}, "metadata": metadata()}))
}

#[test]
fn get_shows_versioned_secret_path_metadata_and_data() {
    let (ran, requests) =
        asking(&[mount("secret/", "2"), secret()], &["kv", "get", "secret/a/b"], "");
    assert_eq!(requests[0].0, "GET /v1/sys/internal/ui/mounts/secret/a/b");
    assert_eq!(requests[1].0, "GET /v1/secret/data/a/b");
    let expected = "\
= Secret Path =
secret/data/a/b

======= Metadata =======
Key                Value
---                -----
created_time       2026-01-02T03:04:05Z
custom_metadata    <nil>
deletion_time      n/a
destroyed          false
version            3

====== Data ======
Key         Value
---         -----
password    p
user        u
";
    assert_eq!((ran.code, ran.out.as_str(), ran.err.as_str()), (0, expected, ""));
}

#[test]
fn separate_mount_option_leaves_secret_name_unchanged() {
    let (ran, requests) = asking(
        &[mount("team/kv/", "2"), secret()],
        &["kv", "get", "-mount=team/kv", "-version=2", "-format=json", "team/kv/x"],
        "",
    );
    assert_eq!(requests[0].0, "GET /v1/sys/internal/ui/mounts/team/kv");
    assert_eq!(requests[1].0, "GET /v1/team/kv/data/team/kv/x?version=2");
    assert_eq!(serde_json::from_str::<Value>(&ran.out).unwrap(), secret().1);
}

#[test]
fn field_option_selects_secret_field_or_whole_data() {
    let field = |name: &str| {
        let typed = format!("-field={name}");
        asking(&[mount("secret/", "2"), secret()], &["kv", "get", &typed, "secret/x"], "").0
    };
    assert_eq!((field("password").code, field("password").out.as_str()), (0, "p"));
    assert_eq!(
        serde_json::from_str::<Value>(&field("data").out).unwrap(),
        json!({"password": "p", "user": "u"})
    );
    assert_eq!(field("version").code, 1, "metadata are not fields of the secret");
}

#[test]
fn a_mount_without_versions_has_plain_paths() {
    let data = answer(&json!({"user": "u"}));
    let (ran, requests) = asking(&[mount("old/", "1"), data], &["kv", "get", "old/x"], "");
    assert_eq!(requests[1].0, "GET /v1/old/x");
    assert_eq!(ran.out, "==== Data ====\nKey     Value\n---     -----\nuser    u\n");
    let (ran, requests) =
        asking(&[mount("old/", "1"), (204, Value::Null)], &["kv", "put", "old/x", "a=1"], "");
    assert_eq!(requests[1], ("PUT /v1/old/x".to_owned(), json!({"a": "1"})));
    assert_eq!((ran.code, ran.out.as_str()), (0, "wrote old/x\n"));
    for args in [
        &["kv", "get", "-version=1", "old/x"][..],
        &["kv", "put", "-cas=1", "old/x", "a=1"],
        &["kv", "patch", "old/x", "a=1"],
        &["kv", "undelete", "-versions=1", "old/x"],
        &["kv", "metadata", "get", "old/x"],
    ] {
        let (ran, requests) = asking(&[mount("old/", "1")], args, "");
        assert_eq!((ran.code, requests.len()), (2, 1), "{args:?}");
        assert!(ran.err.contains("bulkhead kv enable-versioning old"), "{}", ran.err);
    }
}

#[test]
fn put_sends_data_with_options_and_shows_version() {
    let (ran, requests) = asking(
        &[mount("secret/", "2"), answer(&metadata())],
        &["kv", "put", "-mount=secret", "-cas=2", "x", "user=u", "password=-"],
        "p\n",
    );
    let body = json!({"data": {"user": "u", "password": "p\n"}, "options": {"cas": 2}});
    assert_eq!(requests[1], ("PUT /v1/secret/data/x".to_owned(), body));
    assert!(ran.out.starts_with("== Secret Path ==\nsecret/data/x\n\n======= Metadata"));
    assert!(ran.out.ends_with("version            3\n") && !ran.out.contains("p\\n"));
    let (ran, _) = asking(
        &[mount("secret/", "2"), answer(&metadata())],
        &["kv", "put", "-field=version", "secret/x", "a=b"],
        "",
    );
    assert_eq!(ran.out, "3");
}

#[test]
fn patch_falls_back_to_read_and_checked_write() {
    let written = answer(&metadata());
    let (_, requests) = asking(
        &[mount("secret/", "2"), written.clone()],
        &["kv", "patch", "-remove-data=user", "secret/x", "password=q"],
        "",
    );
    let body = json!({"data": {"password": "q", "user": null}, "options": {}});
    assert_eq!(requests[1], ("PATCH /v1/secret/data/x".to_owned(), body));
    let refused = (403, json!({"errors": ["permission denied"]}));
    let (ran, requests) = asking(
        &[mount("secret/", "2"), refused.clone(), secret(), written],
        &["kv", "patch", "-remove-data=user", "secret/x", "password=q"],
        "",
    );
    let body = json!({"data": {"password": "q"}, "options": {"cas": 3}});
    assert_eq!((ran.code, &requests[3]), (0, &("PUT /v1/secret/data/x".to_owned(), body)));
    let only = ["kv", "patch", "-method=patch", "secret/x", "a=b"];
    assert_eq!(asking(&[mount("secret/", "2"), refused], &only, "").0.code, 1);
}

#[test]
fn list_reads_metadata_and_empty_exits_two() {
    let keys = answer(&json!({"keys": ["a", "b/"]}));
    let (ran, requests) = asking(&[mount("secret/", "2"), keys], &["kv", "list", "secret"], "");
    assert_eq!(requests[1].0, "GET /v1/secret/metadata?list=true");
    assert_eq!(ran.out, "Keys\n----\na\nb/\n");
    let none = (404, json!({"errors": []}));
    let args = ["kv", "list", "-format=json", "secret/x"];
    let (ran, _) = asking(&[mount("secret/", "2"), none.clone()], &args, "");
    assert_eq!((ran.code, ran.out.as_str(), ran.err.as_str()), (2, "{}\n", ""));
    let (ran, _) = asking(&[mount("secret/", "2"), none.clone()], &["kv", "list", "secret/x"], "");
    assert_eq!((ran.code, ran.err.as_str()), (2, "nothing exists at secret/metadata/x\n"));
    let (ran, _) = asking(&[mount("secret/", "2"), none], &["kv", "get", "secret/x"], "");
    assert_eq!((ran.code, ran.err.as_str()), (2, "nothing exists at secret/data/x\n"));
}

#[test]
fn versions_are_deleted_brought_back_and_destroyed() {
    let done = (204, Value::Null);
    let second_request =
        |args: &[&str]| asking(&[mount("secret/", "2"), done.clone()], args, "").1.remove(1);
    assert_eq!(second_request(&["kv", "delete", "secret/x"]).0, "DELETE /v1/secret/data/x");
    for action in ["delete", "undelete", "destroy"] {
        assert_eq!(
            second_request(&["kv", action, "-versions=1,2", "-mount=secret", "x"]),
            (format!("PUT /v1/secret/{action}/x"), json!({"versions": [1, 2]}))
        );
    }
    assert_wrong(&["kv", "undelete", "secret/x"], "-versions");
    assert_wrong(&["kv", "destroy", "-versions=1,b", "secret/x"], "\"b\"");
}

#[test]
fn a_deleted_version_has_metadata_and_no_data() {
    let deleted = json!({"data": null, "metadata": metadata()});
    let deleted = (404, json!({"request_id": "r", "data": deleted}));
    let (ran, _) =
        asking(&[mount("secret/", "2"), deleted.clone()], &["kv", "get", "secret/x"], "");
    assert!(ran.code == 0 && ran.out.contains("Metadata") && !ran.out.contains("= Data ="));
    let args = ["kv", "get", "-field=password", "secret/x"];
    let (ran, _) = asking(&[mount("secret/", "2"), deleted], &args, "");
    assert!(ran.code == 2 && ran.err.contains("deleted"), "{}", ran.err);
}

#[test]
fn rollback_writes_older_data_unless_changed_meanwhile() {
    let older = json!({"data": {"password": "old"}, "metadata": {"version": 1}});
    let answers = [mount("secret/", "2"), secret(), answer(&older), answer(&metadata())];
    let (ran, requests) = asking(&answers, &["kv", "rollback", "-version=1", "secret/x"], "");
    assert_eq!(requests[2].0, "GET /v1/secret/data/x?version=1");
    let body = json!({"data": {"password": "old"}, "options": {"cas": 3}});
    assert_eq!((ran.code, &requests[3]), (0, &("PUT /v1/secret/data/x".to_owned(), body)));
    assert_wrong(&["kv", "rollback", "secret/x"], "-version=2");
}

#[test]
fn metadata_are_settings_and_versions_in_order() {
    let version = json!({"created_time": "t", "deletion_time": "", "destroyed": false});
    let data = json!({"cas_required": false, "current_version": 10, "max_versions": 0,
        "versions": {"10": version, "9": version}});
    let args = ["kv", "metadata", "get", "-mount=secret", "x"];
    let (ran, requests) = asking(&[mount("secret/", "2"), answer(&data)], &args, "");
    assert_eq!(requests[1].0, "GET /v1/secret/metadata/x");
    let headings: Vec<&str> = ran.out.lines().filter(|line| line.starts_with('=')).collect();
    let expected = [
        "= Metadata Path =",
        "======= Metadata =======",
        "====== Version 9 ======",
        "===== Version 10 =====",
    ];
    assert_eq!(headings, expected, "{}", ran.out);
    let done = (204, Value::Null);
    let second_request =
        |args: &[&str]| asking(&[mount("secret/", "2"), done.clone()], args, "").1.remove(1);
    let settings = ["-max-versions=5", "-custom-metadata=a=1", "secret/x"];
    assert_eq!(
        second_request(&[&["kv", "metadata", "put"], &settings[..]].concat()),
        (
            "PUT /v1/secret/metadata/x".to_owned(),
            json!({"max_versions": 5, "custom_metadata": {"a": "1"}})
        )
    );
    assert_eq!(
        second_request(&["kv", "metadata", "patch", "-remove-custom-metadata=a", "secret/x"]),
        ("PATCH /v1/secret/metadata/x".to_owned(), json!({"custom_metadata": {"a": null}}))
    );
    assert_eq!(
        second_request(&["kv", "metadata", "delete", "secret/x"]).0,
        "DELETE /v1/secret/metadata/x"
    );
}

#[test]
fn versions_are_turned_on_by_tuning_the_mount() {
    assert_eq!(
        sent(&["kv", "enable-versioning", "old/"]),
        ("POST /v1/sys/mounts/old/tune".to_owned(), json!({"options": {"version": "2"}}))
    );
}

#[test]
fn bare_mount_and_refused_preflight_send_nothing_further() {
    let (ran, requests) = asking(&[mount("secret/", "2")], &["kv", "get", "secret"], "");
    assert!(ran.code == 2 && requests.len() == 1 && ran.err.contains("secret/NAME"), "{}", ran.err);
    let refused = (403, json!({"errors": ["preflight capability check returned 403"]}));
    let (ran, requests) = asking(&[refused], &["kv", "put", "x/y", "password=canary"], "");
    assert!(ran.code == 1 && requests.len() == 1 && !ran.err.contains("canary"), "{}", ran.err);
    assert!(ran.err.contains("Next: bulkhead secrets list"), "{}", ran.err);
    assert_wrong(&["kv", "put", "secret/x"], "nothing to write");
    assert_wrong(&["kv", "get"], "type: bulkhead");
}

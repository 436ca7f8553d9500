//! Mistyped words, formats, headers, and requests that are printed instead of sent.

use super::*;

#[test]
fn mistyped_command_prints_one_line_with_nearest_command() {
    for (args, near) in [
        (&["raed", "secret/x"][..], "bulkhead read"),
        (&["kv", "gte", "secret/x"], "bulkhead kv get"),
        (&["secret", "list"], "bulkhead secrets list"),
        (&["token", "rvoke", "-self"], "bulkhead token revoke"),
        (&["kv", "metadata", "gett", "x"], "bulkhead kv metadata get"),
        (&["sever", "-dev"], "bulkhead server"),
    ] {
        let ran = run_with(args, "", &[]);
        assert_eq!((ran.code, ran.out.as_str(), ran.err.lines().count()), (2, "", 1), "{args:?}");
        assert!(ran.err.contains(&format!("did you mean `{near}`?")), "{}", ran.err);
    }
    for (args, list) in
        [(&["frobnicate"][..], "bulkhead help"), (&["lease", "x"], "bulkhead lease")]
    {
        let ran = run_with(args, "", &[]);
        assert_eq!((ran.code, ran.err.lines().count()), (2, 1), "{}", ran.err);
        assert!(ran.err.contains(&format!("`{list}` lists")), "{}", ran.err);
    }
    let ran = run_with(&["kv", "metadata", "-help"], "", &[]);
    assert!(ran.code == 0 && ran.out.contains("kv metadata patch"), "{}", ran.err);
    assert!(!ran.out.contains("kv rollback"), "{}", ran.out);
    assert_wrong(&["read", "-feild=a", "x"], "did you mean -field?");
}

#[test]
fn formats_come_from_the_option_or_the_environment() {
    let body = json!({"request_id": "r", "data": {"a": "1", "b": ["x"]}, "warnings": null});
    let (ran, _) = against(200, &body, &["read", "-format=yaml", "x"], "");
    let expected = "data:\n  a: \"1\"\n  b:\n  - x\nrequest_id: r\nwarnings: null\n";
    assert_eq!((ran.code, ran.out.as_str()), (0, expected));
    let (ran, _) = against(200, &body, &["read", "-format=raw", "x"], "");
    assert_eq!(ran.out, format!("{body}\n"));
    let (ran, _) = against(200, &body, &["read", "-format=json", "-field=b", "x"], "");
    assert_eq!(serde_json::from_str::<Value>(&ran.out).unwrap(), json!(["x"]));
    let canned = Canned::answering(200, &body.to_string());
    let env = [("BULKHEAD_ADDR", canned.address.as_str()), ("VAULT_FORMAT", "json")];
    let ran = run_with(&["read", "x"], "", &env);
    assert_eq!(serde_json::from_str::<Value>(&ran.out).unwrap(), body);
    assert_wrong(&["read", "-format=xml", "x"], "table, json, yaml or raw");
}

#[test]
fn empty_list_prints_empty_object_and_exits_two() {
    let none = json!({"errors": []});
    for (format, printed) in [("json", "{}\n"), ("yaml", "{}\n")] {
        let args = ["list", &format!("-format={format}"), "a"];
        let (ran, _) = against(404, &none, &args, "");
        assert_eq!((ran.code, ran.out.as_str(), ran.err.as_str()), (2, printed, ""));
    }
    let empty = json!({"request_id": "r", "data": {"keys": []}});
    let (ran, _) = against(200, &empty, &["list", "a"], "");
    assert_eq!((ran.code, ran.out.as_str(), ran.err.as_str()), (2, "", "nothing exists at a\n"));
}

#[test]
fn curl_output_prints_request_without_sending() {
    let env = [("BULKHEAD_ADDR", "http://127.0.0.1:1"), ("BULKHEAD_TOKEN", "bhs.canary")];
    let args = ["write", "-output-curl-string", "-header=X-A=b", "a/b", "k=v"];
    let ran = run_with(&args, "", &env);
    let expected = "curl -X PUT -H \"X-Vault-Token: $(bulkhead print token)\" \
        -H 'X-Vault-Request: true' -H 'x-a: b' -d '{\"k\":\"v\"}' http://127.0.0.1:1/v1/a/b\n";
    assert_eq!((ran.code, ran.out.as_str(), ran.err.as_str()), (0, expected, ""));
    let ran = run_with(&["status", "-output-curl-string"], "", &env);
    assert!(ran.code == 0 && ran.out.contains("/v1/sys/seal-status"), "{}", ran.err);
}

#[test]
fn headers_are_sent_and_a_namespace_is_refused() {
    let args = ["read", "-header=X-Forwarded-For=10.1.2.3", "x"];
    let (_, (_, headers, _)) = against(200, &json!({"data": {}}), &args, "");
    assert!(headers.contains("x-forwarded-for: 10.1.2.3"), "{headers}");
    assert_wrong(&["read", "-header=X-Vault-Token=canary", "x"], "bulkhead login");
    assert_wrong(&["read", "-namespace=team", "x"], "no namespaces");
}

#[test]
fn policy_of_request_is_printed_and_not_sent() {
    let env = [("BULKHEAD_ADDR", "http://127.0.0.1:1"), ("BULKHEAD_TOKEN", "bhs.canary")];
    let ran = run_with(&["write", "-output-policy", "a/b", "k=v"], "", &env);
    let expected = "path \"a/b\" {\n  capabilities = [\"create\", \"update\"]\n}\n";
    assert_eq!((ran.code, ran.out.as_str(), ran.err.as_str()), (0, expected, ""));
    let ran = run_with(&["operator", "seal", "-output-policy"], "", &env);
    assert!(ran.out.contains("\"sudo\""), "{}", ran.out);
}

#[test]
fn options_of_scripts_are_accepted_by_every_command() {
    let options = ["-no-color", "-disable-redirects", "-log-level=debug", "-policy-override"];
    for command in commands::all() {
        let words: Vec<&str> = command.words.split(' ').collect();
        let ran = run_with(&[&words[..], &options, &["-help"]].concat(), "", &[]);
        assert!(ran.code == 0 && ran.out.contains("-no-color"), "{words:?}: {}", ran.err);
        let ran = run_with(&[&words[..], &["-nocolor", "x"]].concat(), "", &[]);
        assert!(ran.code == 2 && ran.err.contains("did you mean -no-color?"), "{}", ran.err);
    }
}

#[test]
fn non_interactive_command_asks_nothing() {
    let hide = || Ok(Box::new(()) as Box<dyn std::any::Any>);
    let (mut out, mut err) = (Vec::new(), Vec::new());
    let mut io = CommandIo {
        stdin: &mut &b"c0ffee\n"[..],
        stdout: &mut out,
        stderr: &mut err,
        terminal: true,
        hide: Some(&hide),
        env: &|_| None,
        inspect_snapshot: &|_| Ok("a snapshot".to_owned()),
        restore_data: &|_, _, _| Err("no directory".to_owned()),
    };
    let args = ["operator", "unseal", "-non-interactive"].map(OsString::from);
    assert_eq!(run(args.into_iter(), &mut io), 2);
    let err = String::from_utf8(err).unwrap();
    assert!(err.contains("-non-interactive asks nothing"), "{err}");
    let args = ["operator", "unseal", "-non-interactive", "-output-curl-string"];
    let ran = run_with(&args, "c0ffee\n", &[]);
    assert!(ran.code == 0 && ran.out.contains("c0ffee"), "a pipe is read: {}", ran.err);
}

#[test]
fn patch_sends_merge_patch() {
    let (ran, (line, headers, body)) =
        against(204, &Value::Null, &["patch", "sys/x", "a=b", "c=-"], "text");
    assert_eq!(
        (line.as_str(), body.as_str()),
        ("PATCH /v1/sys/x HTTP/1.1", r#"{"a":"b","c":"text"}"#)
    );
    assert!(headers.contains("content-type: application/merge-patch+json"), "{headers}");
    assert_eq!((ran.code, ran.out.as_str()), (0, "changed sys/x\n"));
    assert_wrong(&["patch", "sys/x"], "-f to send a patch without fields");
    let (ran, _) = against(404, &json!({"errors": []}), &["patch", "a", "k=v"], "");
    assert_eq!((ran.code, ran.err.as_str()), (2, "nothing exists at a\n"));
}

#[test]
fn status_shows_ha_enabled_of_leader() {
    let canned = || {
        Canned::answering_in_turn(vec![
            (200, json!({"sealed": false, "version": "1"}).to_string()),
            (200, json!({"ha_enabled": false, "is_self": true}).to_string()),
        ])
    };
    let server = canned();
    let ran = run_with(&["status"], "", &[("BULKHEAD_ADDR", &server.address)]);
    assert!(ran.code == 0 && ran.out.contains("\nha_enabled    false\n"), "{}", ran.out);
    assert!(server.seen.join().unwrap()[1].0.starts_with("GET /v1/sys/leader "));
    let server = canned();
    let ran = run_with(&["status", "-format=json"], "", &[("BULKHEAD_ADDR", &server.address)]);
    assert_eq!(serde_json::from_str::<Value>(&ran.out).unwrap()["ha_enabled"], false);
    let own = json!({"sealed": false, "ha_enabled": true});
    let (ran, _) = against(200, &own, &["status"], "");
    assert!(ran.out.contains("\nha_enabled    true\n"), "asked once: {}", ran.out);
}

#[test]
fn sealed_and_uninitialized_servers_get_different_hints() {
    for (is_initialised, next) in
        [(true, "bulkhead operator unseal"), (false, "bulkhead operator init")]
    {
        let canned = Canned::answering_in_turn(vec![
            (503, r#"{"errors": ["Vault is sealed"]}"#.to_owned()),
            (200, json!({"sealed": true, "initialized": is_initialised}).to_string()),
        ]);
        let env = [("BULKHEAD_ADDR", canned.address.as_str()), ("BULKHEAD_TOKEN", "bhs.canary")];
        let ran = run_with(&["read", "x"], "", &env);
        let requests = canned.seen.join().unwrap();
        assert!(!requests[1].1.contains("canary"), "the second question needs no token");
        assert_eq!(ran.code, 1);
        assert!(ran.err.contains(&format!("Next: {next}")), "{}", ran.err);
    }
}

#[test]
fn error_names_next_command_without_token_or_server() {
    let canned = Canned::answering(403, r#"{"errors": ["permission denied"]}"#);
    let ran = run_with(&["read", "x"], "", &[("BULKHEAD_ADDR", &canned.address)]);
    assert!(ran.code == 1 && ran.err.contains("Next: bulkhead login"), "{}", ran.err);
    let ran = run_with(&["read", "x"], "", &[("BULKHEAD_ADDR", "http://127.0.0.1:1")]);
    assert!(ran.code == 2 && ran.err.contains("Next: export BULKHEAD_ADDR="), "{}", ran.err);
}

#[test]
fn init_status_is_an_exit_code() {
    for (is_initialised, code) in [(true, 0), (false, 2)] {
        let body = json!({"initialized": is_initialised});
        let (ran, (line, _, _)) = against(200, &body, &["operator", "init", "-status"], "");
        assert_eq!((line.as_str(), ran.code), ("GET /v1/sys/init HTTP/1.1", code));
    }
    let args = ["operator", "init", "-status", "-address=http://127.0.0.1:1"];
    assert_eq!(run_with(&args, "", &[]).code, 1);
}

#[test]
fn policy_read_prints_object_and_fmt_rewrites_file() {
    let body = json!({"request_id": "r", "data": {"name": "p", "policy": "path \"a\" {}\n"}});
    let (ran, _) = against(200, &body, &["policy", "read", "-format=json", "p"], "");
    let expected = json!({"policy": "path \"a\" {}\n"});
    assert_eq!(serde_json::from_str::<Value>(&ran.out).unwrap(), expected);
    let file = std::env::temp_dir().join(format!("bulkhead-cli-{}-fmt.hcl", std::process::id()));
    std::fs::write(&file, "path \"a\" {\ncapabilities=[\"read\"]\n}").unwrap();
    let ran = run_with(&["policy", "fmt", file.to_str().unwrap()], "", &[]);
    let text = std::fs::read_to_string(&file).unwrap();
    std::fs::remove_file(&file).unwrap();
    assert_eq!((ran.code, text.as_str()), (0, "path \"a\" {\n  capabilities = [\"read\"]\n}\n"));
    let ran = run_with(&["policy", "fmt", "-"], "a{\nb=1\n}", &[]);
    assert_eq!(ran.out, "a{\n  b = 1\n}\n");
}

#[test]
fn help_on_a_path_is_the_servers_text() {
    let body = json!({"help": "GET a/b\n    reads\u{1b}\n", "see_also": null});
    let (ran, (line, _, _)) = against(200, &body, &["path-help", "/a/b/"], "");
    assert_eq!(line, "GET /v1/a/b?help=true HTTP/1.1");
    assert_eq!((ran.code, ran.out.as_str()), (0, "GET a/b\n    reads\\u{1b}\n"));
}

#[test]
fn completion_is_of_a_known_shell() {
    let ran = run_with(&["completion", "fish"], "", &[]);
    assert!(ran.code == 0 && ran.out.contains("__bulkhead_in \"kv get\"' -o mount"), "{}", ran.out);
    for args in [&["completion"][..], &["completion", "tcsh"], &["completion", "bash", "zsh"]] {
        assert_wrong(args, "bash|zsh|fish");
    }
}

#[test]
fn list_asks_for_a_part() {
    let body = json!({"request_id": "r", "data": {"keys": ["b"]}});
    let (_, (line, _, _)) = against(200, &body, &["list", "-after=a", "-limit=1", "x"], "");
    assert_eq!(line, "GET /v1/x?list=true&after=a&limit=1 HTTP/1.1");
}

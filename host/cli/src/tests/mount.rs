//! `bulkhead secrets` and `bulkhead auth`: the same verbs at 2 paths of the API.

use super::*;

fn mounts() -> Value {
    json!({"request_id": "r", "data": {
        "sys/": {"type": "system", "accessor": "system_1", "description": "", "options": null,
            "uuid": "u-1", "config": {"default_lease_ttl": 0, "max_lease_ttl": 0}},
        "database/": {"type": "database", "accessor": "database_2",
            "description": "orders\u{1b}[2J", "uuid": "u-2",
            "options": {"a": "b"}, "running_plugin_version": "v1", "running_sha256": "9f2c",
            "config": {"default_lease_ttl": 3600, "max_lease_ttl": 86400}},
    }})
}

#[test]
fn list_is_a_table_of_paths() {
    let (ran, (line, _, _)) = against(200, &mounts(), &["secrets", "list"], "");
    assert_eq!(line, "GET /v1/sys/mounts HTTP/1.1");
    let expected = "\
Path         Type        Accessor      Description
----         ----        --------      -----------
database/    database    database_2    orders\\u{1b}[2J
sys/         system      system_1      n/a
";
    assert_eq!(ran.out, expected);
    let (_, (line, _, _)) = against(200, &mounts(), &["auth", "list"], "");
    assert_eq!(line, "GET /v1/sys/auth HTTP/1.1");
}

#[test]
fn detailed_list_shows_lifetimes_and_running_version() {
    let (ran, _) = against(200, &mounts(), &["secrets", "list", "-detailed"], "");
    let rows: Vec<Vec<&str>> =
        ran.out.lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(
        &rows[2][..8],
        ["database/", "database", "database_2", "1h", "1d", "n/a", "{\"a\":\"b\"}", "u-2"]
    );
    assert!(rows[2].contains(&"v1") && rows[2].contains(&"9f2c"), "{}", ran.out);
    assert_eq!(
        &rows[3][..8],
        ["sys/", "system", "system_1", "system", "system", "n/a", "n/a", "u-1"]
    );
}

#[test]
fn list_shows_status_of_mounts_with_condition() {
    let mut degraded = mounts();
    degraded["data"]["sys/"]["status"] = json!("serving");
    let database = degraded["data"]["database/"].as_object_mut().unwrap();
    for (name, value) in [
        ("status", "resting"),
        ("status_since", "2026-11-28T21:30:00Z"),
        ("status_reason", "it crashed\u{1b}[2J"),
    ] {
        database.insert(name.to_owned(), json!(value));
    }
    let (ran, _) = against(200, &degraded, &["secrets", "list"], "");
    let lines: Vec<&str> = ran.out.lines().collect();
    assert!(lines[0].ends_with("Status") && lines[2].ends_with("resting"), "{}", ran.out);
    assert!(lines[3].ends_with("serving") && !ran.out.contains("crashed"), "{}", ran.out);
    let (ran, _) = against(200, &degraded, &["auth", "list", "-detailed"], "");
    let lines: Vec<&str> = ran.out.lines().collect();
    assert!(lines[0].contains("Status") && lines[0].ends_with("Reason"), "{}", ran.out);
    assert!(
        lines[2].contains("2026-11-28T21:30:00Z") && lines[2].ends_with("it crashed\\u{1b}[2J"),
        "{}",
        ran.out
    );
}

#[test]
fn json_list_maps_paths_to_mounts() {
    let (ran, _) = against(200, &mounts(), &["secrets", "list", "-format=json"], "");
    assert_eq!(serde_json::from_str::<Value>(&ran.out).unwrap(), mounts()["data"]);
}

#[test]
fn enable_uses_type_as_default_path() {
    assert_eq!(
        sent(&["secrets", "enable", "database"]),
        ("POST /v1/sys/mounts/database".to_owned(), json!({"type": "database"}))
    );
    let (ran, (line, _, _)) =
        against(204, &Value::Null, &["auth", "enable", "-path=team/a/", "jwt"], "");
    assert_eq!(line, "POST /v1/sys/auth/team/a HTTP/1.1");
    assert_eq!(ran.out, "enabled auth method jwt at team/a/\n");
}

#[test]
fn enable_sends_settings_where_the_api_takes_them() {
    let args = [
        &[
            "auth",
            "enable",
            "-description=of ours",
            "-options=a=b",
            "-options=c=d",
            "-local",
            "-seal-wrap",
        ][..],
        &[
            "-default-lease-ttl=1h",
            "-max-lease-ttl=24h",
            "-listing-visibility=unauth",
            "-plugin-version=v1.2.0",
        ],
        &[
            "-audit-non-hmac-request-keys=role",
            "-audit-non-hmac-request-keys=name",
            "-token-type=batch",
        ],
        &[
            "-audit-non-hmac-response-keys=x",
            "-passthrough-request-headers=X-A",
            "-allowed-response-headers=X-B",
        ],
        &["-identity-token-key=k", "-force-no-cache", "-external-entropy-access", "jwt"],
    ];
    let expected = json!({
        "type": "jwt", "description": "of ours", "options": {"a": "b", "c": "d"}, "local": true,
        "seal_wrap": true, "external_entropy_access": true,
        "config": {
            "default_lease_ttl": "1h", "max_lease_ttl": "24h", "listing_visibility": "unauth",
            "plugin_version": "v1.2.0", "audit_non_hmac_request_keys": ["role", "name"],
            "audit_non_hmac_response_keys": ["x"], "passthrough_request_headers": ["X-A"],
            "allowed_response_headers": ["X-B"], "identity_token_key": "k", "force_no_cache": true,
            "token_type": "batch",
        },
    });
    assert_eq!(sent(&args.concat()).1, expected);
}

#[test]
fn tune_sends_typed_options_and_resets_empty_values() {
    let (line, body) =
        sent(&["secrets", "tune", "-max-lease-ttl=", "-audit-non-hmac-request-keys=", "database/"]);
    assert_eq!(line, "POST /v1/sys/mounts/database/tune");
    assert_eq!(body, json!({"max_lease_ttl": "system", "audit_non_hmac_request_keys": []}));
    let (line, body) = sent(&["auth", "tune", "-description=x", "-token-type=service", "jwt"]);
    assert_eq!(line, "POST /v1/sys/auth/jwt/tune");
    assert_eq!(body, json!({"description": "x", "token_type": "service"}));
    let added = ["secrets", "tune", "--grant", "limit:log=1KiB", "-grant=database:x", "database/"];
    assert_eq!(sent(&added).1, json!({"add_grants": ["limit:log=1KiB", "database:x"]}));
    let revoked = ["auth", "tune", "-revoke-grant=limit:log=1KiB", "jwt"];
    assert_eq!(sent(&revoked).1, json!({"remove_grants": ["limit:log=1KiB"]}));
    let enabled = ["secrets", "enable", "-grant=sql:postgres://db:5432", "database"];
    assert_eq!(sent(&enabled).1, json!({"type": "database", "grants": ["sql:postgres://db:5432"]}));
    assert_wrong(&["secrets", "tune", "database"], "nothing to change");
    assert_wrong(&["secrets", "tune", "-token-type=batch", "database"], "-token-type");
}

#[test]
fn disable_requires_mount_name_and_removes_that_mount() {
    assert_eq!(sent(&["secrets", "disable", "database/"]).0, "DELETE /v1/sys/mounts/database");
    assert_eq!(sent(&["auth", "disable", "jwt"]).0, "DELETE /v1/sys/auth/jwt");
    for group in ["secrets", "auth"] {
        assert_wrong(&[group, "disable", "/"], "needs a name");
        assert_wrong(&[group, "tune", "-description=x", ""], "needs a name");
        assert_wrong(&[group, "enable", "-path=", "jwt"], "needs a name");
        assert_wrong(&[group, "move", "/", "b"], "type: bulkhead");
        assert_wrong(&[group, "disable"], "type: bulkhead");
    }
}

/// Runs `secrets disable database` at a terminal where a person types `typed`, against a server
/// with this answer to the question for the mount. Returns the exit code, standard error, and the
/// requests.
fn disabled_by_person(shown: (u16, Value), typed: &str) -> (u8, String, Vec<String>) {
    let is_refused = !typed.starts_with("yes");
    let mut answers = vec![(shown.0, shown.1.to_string())];
    if !is_refused {
        answers.push((204, String::new()));
    }
    let canned = Canned::answering_in_turn(answers);
    let (address, mut out, mut err) = (OsString::from(&canned.address), Vec::new(), Vec::new());
    let env = |name: &str| match name {
        "BULKHEAD_ADDR" => Some(address.clone()),
        "BULKHEAD_TOKEN" => Some(OsString::from("bhs.t")),
        _ => None,
    };
    let hide = || Ok(Box::new(()) as Box<dyn std::any::Any>);
    let mut io = CommandIo {
        stdin: &mut typed.as_bytes(),
        stdout: &mut out,
        stderr: &mut err,
        terminal: true,
        hide: Some(&hide),
        env: &env,
        inspect_snapshot: &|_| Ok("a snapshot".to_owned()),
        restore_data: &|_, _, _| Err("no directory".to_owned()),
    };
    let code = run(["secrets", "disable", "database"].map(OsString::from).into_iter(), &mut io);
    let lines = canned.seen.join().unwrap().into_iter().map(|(line, _, _)| line).collect();
    (code, String::from_utf8(err).unwrap(), lines)
}

#[test]
fn disable_asks_before_an_only_copy_is_lost() {
    let mount = |only_copies: Value| {
        (200, json!({"request_id": "r", "data": {"only_copies": only_copies}}))
    };
    let secret = "the password of user \"root\" of connection \"orders\"";
    let (code, err, lines) = disabled_by_person(mount(json!([secret])), "no\n");
    assert_eq!((code, lines.len()), (1, 1), "{err}");
    for said in ["only this mount knows", secret, "Type yes", "nothing was changed"] {
        assert!(err.contains(said), "{err}");
    }
    let (code, _, lines) = disabled_by_person(mount(json!([secret])), "yes\n");
    assert_eq!((code, lines[1].as_str()), (0, "DELETE /v1/sys/mounts/database HTTP/1.1"));
    for quiet in [mount(Value::Null), (403, json!({"errors": ["no"]}))] {
        let (code, err, lines) = disabled_by_person(quiet, "yes, but nobody asks\n");
        assert_eq!((code, lines.len()), (0, 2), "{err}");
        assert!(!err.contains("Type yes"), "{err}");
    }
}

/// Runs a move against a server that reports `states` in order.
fn moved(args: &[&str], states: &[&str]) -> (Ran, Vec<Asked>) {
    let started = json!({"request_id": "r", "data": {"migration_id": "m-1"},
        "warnings": ["leases are revoked"]});
    let state = |state: &&str| {
        let data = json!({"migration_id": "m-1", "migration_info": {"status": state}});
        json!({"request_id": "r", "data": data})
    };
    let answers =
        [started].into_iter().chain(states.iter().map(state)).map(|body| (200, body.to_string()));
    let canned = Canned::answering_in_turn(answers.collect());
    let ran =
        run_with(args, "", &[("BULKHEAD_ADDR", &canned.address), ("BULKHEAD_TOKEN", "bhs.t")]);
    (ran, canned.seen.join().unwrap())
}

#[test]
fn move_returns_when_the_move_is_over() {
    let (ran, requests) =
        moved(&["secrets", "move", "a/", "b"], &["in-progress", "in-progress", "success"]);
    assert_eq!((ran.code, ran.out.as_str()), (0, "moved a/ to b/\n"));
    assert!(ran.err.contains("sys/remount/status/m-1"), "how to ask later: {}", ran.err);
    assert_eq!(
        (requests[0].0.as_str(), requests[0].2.as_str()),
        ("POST /v1/sys/remount HTTP/1.1", r#"{"from":"a","to":"b"}"#)
    );
    let questions: Vec<&str> = requests.iter().skip(1).map(|(line, _, _)| line.as_str()).collect();
    assert_eq!(questions, ["GET /v1/sys/remount/status/m-1 HTTP/1.1"; 3]);
}

#[test]
fn auth_move_sends_full_paths_in_any_spelling() {
    for words in [["jwt", "auth/other"], ["auth/jwt/", "other/"]] {
        let (_, requests) = moved(&[&["auth", "move"], &words[..]].concat(), &["success"]);
        assert_eq!(requests[0].2, r#"{"from":"auth/jwt","to":"auth/other"}"#);
    }
}

#[test]
fn failed_or_untraceable_move_exits_one() {
    for state in ["failure", "", "\u{1b}[2J"] {
        let (ran, _) = moved(&["secrets", "move", "a", "b"], &[state]);
        assert!(ran.code == 1 && ran.out.is_empty() && !ran.err.contains('\u{1b}'), "{}", ran.err);
    }
    let (ran, _) = against(204, &Value::Null, &["secrets", "move", "a", "b"], "");
    assert!(ran.code == 1 && ran.err.contains("names no migration"), "{}", ran.err);
}

#[test]
fn kv_version_is_sent_as_mount_option() {
    let (line, body) = sent(&["secrets", "enable", "-version=2", "-options=a=b", "kv"]);
    assert_eq!(line, "POST /v1/sys/mounts/kv");
    assert_eq!(body, json!({"type": "kv", "options": {"a": "b", "version": "2"}}));
    assert_wrong(&["auth", "enable", "-version=2", "jwt"], "-version");
}

#[test]
fn lockout_options_are_members_of_one_setting() {
    let lockout = json!({"lockout_threshold": 3, "lockout_duration": "5m",
        "lockout_counter_reset": "1m", "lockout_disable": true});
    let options = [
        "-user-lockout-threshold=3",
        "-user-lockout-duration=5m",
        "-user-lockout-counter-reset-duration=1m",
        "-user-lockout-disable",
    ];
    let (line, body) = sent(&[&["auth", "tune"], &options[..], &["userpass"]].concat());
    assert_eq!(line, "POST /v1/sys/auth/userpass/tune");
    assert_eq!(body, json!({ "user_lockout_config": lockout }));
    let (_, body) = sent(&[&["auth", "enable"], &options[..], &["userpass"]].concat());
    assert_eq!(body["config"], json!({ "user_lockout_config": lockout }));
    assert_wrong(&["secrets", "tune", "-user-lockout-threshold=3", "kv"], "no option");
}

#[test]
fn tune_version_is_an_option_of_engine() {
    let expected = ("POST /v1/sys/mounts/kv/tune".to_owned(), json!({"options": {"version": "2"}}));
    assert_eq!(sent(&["secrets", "tune", "-version=2", "kv"]), expected);
}

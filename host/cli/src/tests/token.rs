//! `bulkhead token`: endpoints, fields, and outputs that must not show a token.

use super::*;

fn created_token() -> Value {
    json!({"request_id": "r", "auth": {"client_token": "bhs.new", "accessor": "acc"}, "data": null})
}

#[test]
fn token_create_sends_typed_options_only() {
    let args = [
        &[
            "token",
            "create",
            "-policy=a",
            "-policy=b",
            "-ttl=1h",
            "-explicit-max-ttl=2h",
            "-period=30m",
        ][..],
        &["-use-limit=3", "-renewable=false", "-orphan", "-no-default-policy", "-type=service"],
        &["-display-name=me", "-metadata=k=v", "-metadata=team=a=b", "-entity-alias=e"],
    ];
    let (ran, (line, _, sent)) = against(200, &created_token(), &args.concat(), "");
    assert_eq!(line, "POST /v1/auth/token/create HTTP/1.1");
    let expected = json!({
        "policies": ["a", "b"], "ttl": "1h", "explicit_max_ttl": "2h", "period": "30m",
        "num_uses": 3, "renewable": false, "no_parent": true, "no_default_policy": true,
        "type": "service", "display_name": "me",
        "meta": {"k": "v", "team": "a=b"}, "entity_alias": "e",
    });
    assert_eq!(serde_json::from_str::<Value>(&sent).unwrap(), expected);
    assert!(ran.out.contains("bhs.new"), "{}", ran.out);
    assert_eq!(against(200, &created_token(), &["token", "create"], "").1.2, "{}");
    assert_eq!(
        against(200, &created_token(), &["token", "create", "-field=token"], "").0.out,
        "bhs.new"
    );
}

#[test]
fn create_for_a_role_asks_the_roles_endpoint() {
    let (_, (line, _, sent)) = against(200, &created_token(), &["token", "create", "-role=ci"], "");
    assert_eq!((line.as_str(), sent.as_str()), ("POST /v1/auth/token/create/ci HTTP/1.1", "{}"));
}

#[test]
fn chosen_token_is_read_from_stdin() {
    let (_, (_, _, sent)) =
        against(200, &created_token(), &["token", "create", "-id=-"], "my-token\n");
    assert_eq!(sent, r#"{"id":"my-token"}"#);
}

#[test]
fn empty_option_value_creates_no_token() {
    for name in ["policy", "ttl", "explicit-max-ttl", "period", "type", "role", "id"] {
        assert_wrong(
            &["token", "create", "-policy=reader", &format!("-{name}=")],
            &format!("-{name} is empty"),
        );
    }
    assert_wrong(&["token", "create", "-use-limit="], "-use-limit");
}

#[test]
fn lookup_and_renew_accept_self_token_or_accessor() {
    let body = json!({"request_id": "r", "data": {"ttl": 1}});
    let request = |args: &[&str], stdin| {
        let (_, (line, _, sent)) = against(200, &body, args, stdin);
        (line.replace(" HTTP/1.1", ""), sent)
    };
    let expected = |line: &str, body: &str| (line.to_owned(), body.to_owned());
    assert_eq!(request(&["token", "lookup"], ""), expected("GET /v1/auth/token/lookup-self", ""));
    let by_token = expected("POST /v1/auth/token/lookup", r#"{"token":"bhs.x"}"#);
    assert_eq!(request(&["token", "lookup", "-"], "bhs.x\n"), by_token);
    assert_eq!(request(&["token", "lookup", "bhs.x"], ""), by_token);
    let by_accessor = expected("POST /v1/auth/token/lookup-accessor", r#"{"accessor":"acc"}"#);
    assert_eq!(request(&["token", "lookup", "-accessor", "acc"], ""), by_accessor);
    assert_eq!(request(&["token", "renew"], ""), expected("POST /v1/auth/token/renew-self", "{}"));
    let by_token = expected("POST /v1/auth/token/renew", r#"{"increment":"1h","token":"bhs.x"}"#);
    assert_eq!(request(&["token", "renew", "-increment=1h", "-"], "bhs.x"), by_token);
    let by_accessor = expected("POST /v1/auth/token/renew-accessor", r#"{"accessor":"acc"}"#);
    assert_eq!(request(&["token", "renew", "acc", "-accessor"], ""), by_accessor);
    assert_wrong(&["token", "lookup", "-accessor"], "type: bulkhead");
    assert_wrong(&["token", "renew", "a", "b"], "type: bulkhead");
}

#[test]
fn token_of_caller_is_hidden_in_tables() {
    let looked_up =
        json!({"request_id": "r", "data": {"id": "bhs.canary", "accessor": "acc", "ttl": 60}});
    let renewed = json!({"request_id": "r", "data": null,
        "auth": {"client_token": "bhs.canary", "accessor": "acc", "lease_duration": 60}});
    for (body, args, field) in [
        (&looked_up, ["token", "lookup"], "-field=id"),
        (&renewed, ["token", "renew"], "-field=token"),
    ] {
        let (ran, _) = against(200, body, &args, "");
        assert!(
            !ran.out.contains("canary") && ran.out.contains("acc") && ran.out.contains(field),
            "{}",
            ran.out
        );
        assert_eq!(
            against(200, body, &[&args[..], &[field]].concat(), "").0.out,
            "bhs.canary",
            "asked for, it is shown"
        );
        let (ran, _) = against(200, body, &[&args[..], &["-format=json"]].concat(), "");
        assert_eq!(serde_json::from_str::<Value>(&ran.out).unwrap(), *body);
    }
    let by_accessor = json!({"request_id": "r", "data": {"id": "", "accessor": "acc"}});
    let (ran, _) = against(200, &by_accessor, &["token", "lookup", "-accessor", "acc"], "");
    assert!(!ran.out.contains("not shown"), "there is nothing to ask for: {}", ran.out);
}

#[test]
fn revoke_ends_only_named_token() {
    let token = json!({"token": "bhs.x"});
    let expected = |path: &str, body: &Value| (format!("POST /v1/auth/token/{path}"), body.clone());
    assert_eq!(sent(&["token", "revoke", "bhs.x"]), expected("revoke", &token));
    assert_eq!(sent(&["token", "revoke", "-self"]), expected("revoke-self", &json!({})));
    let accessor = json!({"accessor": "acc"});
    assert_eq!(
        sent(&["token", "revoke", "-accessor", "acc"]),
        expected("revoke-accessor", &accessor)
    );
    assert_eq!(
        sent(&["token", "revoke", "-mode=orphan", "bhs.x"]),
        expected("revoke-orphan", &token)
    );
    let (ran, (_, _, body)) = against(204, &Value::Null, &["token", "revoke", "-"], "bhs.canary\n");
    assert_eq!(
        (ran.out.as_str(), body.as_str()),
        (
            "revoked the token, if valid, with all leases and children\n",
            r#"{"token":"bhs.canary"}"#
        )
    );
}

#[test]
fn token_revoke_reports_effect() {
    let warned = json!({"request_id": "r", "data": null, "warnings": ["no token has it"]});
    for (status, answer, args, done) in [
        (204, Value::Null, &["-self"][..], "revoked your token, with all leases and children\n"),
        (
            204,
            Value::Null,
            &["-accessor", "a"],
            "revoked the token of this accessor, with all leases and children\n",
        ),
        (200, warned, &["-accessor", "a"], "no token was revoked\n"),
        (
            204,
            Value::Null,
            &["-mode=orphan", "bhs.x"],
            "revoked the token and all its leases; the children live on without a parent\n",
        ),
        (
            204,
            Value::Null,
            &["-mode=path", "auth/userpass/"],
            "revoked every token and lease below auth/userpass/\n",
        ),
    ] {
        let (ran, _) = against(status, &answer, &[&["token", "revoke"], args].concat(), "");
        assert_eq!((ran.code, ran.out.as_str()), (0, done), "{args:?}");
    }
    let (line, _) = sent(&["token", "revoke", "-mode=path", "auth/userpass"]);
    assert_eq!(line, "PUT /v1/sys/leases/revoke-prefix/auth/userpass");
}

#[test]
fn revoke_without_named_token_ends_none() {
    for (args, part) in [
        (&[][..], "-self"),
        (&["-self", "bhs.x"], "-self"),
        (&["-self", "-accessor"], "type: bulkhead"),
        (&["-self", "-mode=orphan"], "-mode=orphan"),
        (&["-accessor", "-mode=orphan", "acc"], "-mode=orphan"),
        (&["-mode=tree", "auth/x"], "-mode is orphan or path"),
        (&["-mode=path", "-self"], "-mode=path needs the path"),
        (&["-mode=path", "-accessor", "a"], "-mode=path needs the path"),
        (&["-mode=path", "/"], "the path needs a name"),
        (&["a", "b"], "type: bulkhead"),
        (&["-"], "no token was given"),
    ] {
        assert_wrong(&[&["token", "revoke"], args].concat(), part);
    }
}

#[test]
fn capabilities_print_as_line_or_json_list() {
    let data = json!({"a/b": ["read", "list"], "capabilities": ["read", "list"]});
    let body = json!({"request_id": "r", "data": data});
    let (ran, (line, _, sent)) = against(200, &body, &["token", "capabilities", "a/b"], "");
    assert_eq!(line, "POST /v1/sys/capabilities-self HTTP/1.1");
    assert_eq!((ran.out.as_str(), sent.as_str()), ("read, list\n", r#"{"paths":["a/b"]}"#));
    let (ran, (line, _, sent)) =
        against(200, &body, &["token", "capabilities", "-format=json", "-", "a/b"], "bhs.x\n");
    assert_eq!(line, "POST /v1/sys/capabilities HTTP/1.1");
    assert_eq!(sent, r#"{"paths":["a/b"],"token":"bhs.x"}"#);
    assert_eq!(serde_json::from_str::<Value>(&ran.out).unwrap(), json!(["read", "list"]));
    let (_, (line, _, sent)) =
        against(200, &body, &["token", "capabilities", "-accessor", "acc", "a/b"], "");
    assert_eq!(line, "POST /v1/sys/capabilities-accessor HTTP/1.1");
    assert_eq!(sent, r#"{"accessor":"acc","paths":["a/b"]}"#);
    let (ran, _) =
        against(200, &json!({"request_id": "r", "data": {}}), &["token", "capabilities", "a"], "");
    assert!(ran.code == 1 && ran.err.contains("no capabilities"), "{}", ran.err);
    assert_wrong(&["token", "capabilities"], "type: bulkhead");
}

//! `bulkhead plugin`: components, and the catalog of a server.

use super::*;

#[test]
fn register_sends_file_unchanged_and_derives_plugin_name() {
    let path =
        std::env::temp_dir().join(format!("bulkhead-cli-{}-engine.wasm", std::process::id()));
    std::fs::write(&path, b"\0asm bytes").unwrap();
    let server = Canned::answering(204, "");
    let (file, address) = (path.display().to_string(), format!("-address={}", server.address));
    let ran = run_with(&["plugin", "register", &address, "-version=1.0.0", &file], "", &[]);
    std::fs::remove_file(&path).unwrap();
    let (line, headers, body) = server.asked_once();
    let name = path.file_stem().unwrap().to_str().unwrap();
    assert_eq!(line, format!("PUT /v1/sys/plugins/catalog/secret/{name}?version=1.0.0 HTTP/1.1"));
    assert!(headers.contains("content-type: application/wasm"), "{headers}");
    assert_eq!((ran.code, body.as_str()), (0, "\0asm bytes"), "{}", ran.err);
    assert_eq!(ran.out, format!("registered the secret plugin {name} 1.0.0\n"));
}

#[test]
fn register_takes_version_from_file_name() {
    let registered = |args: &[&str]| {
        let (line, body) = sent(&[&["plugin", "register", "-sha256=ab"], args].concat());
        (line.rsplit('/').next().unwrap().to_owned(), body["version"].clone())
    };
    let expected = ("shelf".to_owned(), json!("1.2.3"));
    assert_eq!(registered(&["-command=shelf_1.2.3.wasm"]), expected);
    assert_eq!(registered(&["-version=1.2.3", "-command=shelf-v1.2.3"]), expected);
    let expected = ("shelf".to_owned(), json!("v1.2.3"));
    assert_eq!(registered(&["-version=v1.2.3", "-oci-image=shelf_1.2.3"]), expected);
    let expected = ("own".to_owned(), Value::Null);
    assert_eq!(registered(&["-name=own", "-command=shelf_1.2.3.wasm"]), expected);
    let other = ["plugin", "register", "-version=2.0.0", "-command=shelf_1.2.3.wasm"];
    assert_wrong(&other, "named by version 1.2.3, and -version is 2.0.0");
}

#[test]
fn register_from_standard_input_needs_a_name() {
    assert_wrong(&["plugin", "register", "-"], "-name");
    assert_wrong(&["plugin", "register"], "type: bulkhead");
}

#[test]
fn plugin_list_filters_by_type() {
    let plugin = |name: &str, kind: &str| {
        json!({"name": name, "type": kind, "version": "1.0.0",
            "builtin": false})
    };
    let detailed = [plugin("jwt", "auth"), plugin("kv", "secret")];
    let body = json!({"request_id": "r", "data": {"detailed": detailed, "auth": ["jwt"],
        "secret": ["kv"]}});
    let list = |args: &[&str]| against(200, &body, &[&["plugin", "list"], args].concat(), "");
    let (ran, (line, _, _)) = list(&[]);
    assert_eq!(line, "GET /v1/sys/plugins/catalog HTTP/1.1");
    let expected = "Name    Type      Version\n----    ----      -------\n\
        jwt     auth      1.0.0\nkv      secret    1.0.0\n";
    assert_eq!(ran.out, expected);
    assert_eq!(list(&["secret"]).0.out, "Name    Version\n----    -------\nkv      1.0.0\n");
    assert!(list(&["-detailed", "auth"]).0.out.contains("Built in\n"));
    let json_of = |args: &[&str]| serde_json::from_str::<Value>(&list(args).0.out).unwrap();
    assert_eq!(json_of(&["-format=json"]), json!({"auth": ["jwt"], "secret": ["kv"]}));
    assert_eq!(json_of(&["-format=json", "auth"]), json!(["jwt"]));
    assert_eq!(json_of(&["-format=json", "-detailed", "auth"]), json!([detailed[0]]));
    assert_wrong(&["plugin", "list", "secrets"], "\"secrets\"");
}

#[test]
fn info_and_deregister_name_the_type() {
    let gone = "DELETE /v1/sys/plugins/catalog/database/x?version=1.0.0".to_owned();
    assert_eq!(
        sent(&["plugin", "deregister", "-type=database", "-version=1.0.0", "x"]),
        (gone, Value::Null)
    );
    let (_, (line, _, _)) =
        against(200, &json!({"data": {}}), &["plugin", "info", "auth", "x"], "");
    assert_eq!(line, "GET /v1/sys/plugins/catalog/auth/x HTTP/1.1");
    assert_wrong(&["plugin", "info"], "type: bulkhead");
    assert_wrong(&["plugin", "info", "secrets", "x"], "type: bulkhead");
}

#[test]
fn forced_deregister_of_leased_plugin_sends_force_parameter() {
    let gone = "DELETE /v1/sys/plugins/catalog/database/x?force=true".to_owned();
    let forced = sent(&["plugin", "deregister", "-type=database", "-force", "x"]);
    assert_eq!(forced, (gone, Value::Null));
}

#[test]
fn pin_unpin_and_reload_name_plugin_and_version() {
    assert_eq!(
        sent(&["plugin", "pin", "-type=auth", "login", "1.2.0"]),
        ("POST /v1/sys/plugins/pins/auth/login".to_owned(), json!({ "version": "1.2.0" }))
    );
    assert_eq!(
        sent(&["plugin", "unpin", "notes"]),
        ("DELETE /v1/sys/plugins/pins/secret/notes".to_owned(), Value::Null)
    );
    let (line, _) = sent(&["plugin", "reload", "-type=database", "-plugin=x"]);
    assert_eq!(line, "POST /v1/sys/plugins/reload/database/x");
    assert_eq!(
        sent(&["plugin", "reload", "-mounts=a,auth/b"]),
        ("POST /v1/sys/plugins/reload/backend".to_owned(), json!({ "mounts": ["a", "auth/b"] }))
    );
    assert_eq!(
        sent(&["plugin", "info", "-version=1.0.0", "x"]).0,
        "GET /v1/sys/plugins/catalog/secret/x?version=1.0.0"
    );
    assert_wrong(&["plugin", "reload"], "-plugin=NAME");
    assert_wrong(&["plugin", "reload", "-plugin=x", "-mounts=a"], "-plugin=NAME");
    assert_wrong(&["plugin", "pin", "x"], "type: bulkhead");
}

#[test]
fn register_by_type_and_name_uses_directory_file() {
    let expected = |command: &str| {
        let line = "PUT /v1/sys/plugins/catalog/auth/login".to_owned();
        (line, json!({"command": command, "sha256": "ab", "version": "1.0.0"}))
    };
    let args = ["plugin", "register", "-sha256=ab", "-version=1.0.0"];
    assert_eq!(sent(&[&args[..], &["auth", "login"]].concat()), expected("login"));
    let named = ["-command=login.wasm", "auth", "login"];
    assert_eq!(sent(&[&args[..], &named].concat()), expected("login.wasm"));
    assert_wrong(&["plugin", "register", "secrets", "login"], "type: bulkhead");
}

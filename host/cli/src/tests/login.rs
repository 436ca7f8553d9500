//! `bulkhead login` and `bulkhead print token`: requests, the stored token, and the output.

use super::*;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

/// A home directory, removed when dropped.
struct Home(PathBuf);

impl Home {
    fn new(name: &str) -> Self {
        let home = std::env::temp_dir().join(format!("bulkhead-cli-{}-{name}", std::process::id()));
        fs::create_dir_all(&home).unwrap();
        Self(home)
    }

    fn token(&self) -> Option<String> {
        fs::read_to_string(self.0.join(".bulkhead-token")).ok()
    }

    /// Runs a command in this home against a server with one answer.
    fn login(&self, answer: &Value, args: &[&str], stdin: &str) -> (Ran, Asked) {
        let canned = Canned::answering(200, &answer.to_string());
        let env = [("BULKHEAD_ADDR", canned.address.as_str()), ("HOME", self.0.to_str().unwrap())];
        let ran = run_with(&[&["login"], args].concat(), stdin, &env);
        (ran, canned.asked_once())
    }
}

impl Drop for Home {
    fn drop(&mut self) {
        fs::remove_dir_all(&self.0).unwrap();
    }
}

fn auth() -> Value {
    json!({"request_id": "r", "data": null, "lease_id": "", "auth": {"client_token": "bhs.new",
        "accessor": "a", "lease_duration": 3600, "renewable": true, "policies": ["default"],
        "token_policies": ["default"], "metadata": {"username": "bob"}}})
}

fn body(request: &Asked) -> Value {
    serde_json::from_str(&request.2).unwrap_or_default()
}

#[test]
fn login_token_is_self_checked_and_stored_privately() {
    let home = Home::new("login-token");
    let found = json!({"request_id": "r", "data": {"id": "bhs.typed", "accessor": "a", "ttl": 60,
        "renewable": true, "policies": ["default"], "meta": null}});
    for (args, stdin) in [(&["bhs.typed"][..], ""), (&[], "bhs.typed\n"), (&["-"], "bhs.typed")] {
        let (ran, (line, headers, _)) = home.login(&found, args, stdin);
        assert_eq!(line, "GET /v1/auth/token/lookup-self HTTP/1.1");
        assert!(headers.contains("x-vault-token: bhs.typed"), "{headers}");
        assert!(ran.code == 0 && !ran.out.contains("bhs.typed"), "{}{}", ran.out, ran.err);
        assert!(ran.out.contains(".bulkhead-token") && ran.out.contains("token_duration"));
        assert_eq!(home.token().as_deref(), Some("bhs.typed"));
        let mode = fs::metadata(home.0.join(".bulkhead-token")).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
    }
    let env = [("HOME", home.0.to_str().unwrap())];
    let ran = run_with(&["print", "token"], "", &env);
    assert_eq!((ran.code, ran.out.as_str()), (0, "bhs.typed\n"));
    let ran = run_with(&["print", "token"], "", &[]);
    assert!(ran.code == 1 && ran.err.contains("Next: bulkhead login"), "{}", ran.err);
}

#[test]
fn a_refused_token_is_not_stored() {
    let home = Home::new("login-refused");
    let canned = Canned::answering(403, r#"{"errors": ["permission denied"]}"#);
    let env = [("BULKHEAD_ADDR", canned.address.as_str()), ("HOME", home.0.to_str().unwrap())];
    let ran = run_with(&["login", "bhs.canary"], "", &env);
    assert_eq!((ran.code, home.token()), (1, None));
    assert!(!ran.err.contains("canary"), "{}", ran.err);
}

#[test]
fn login_prompts_for_password_and_omits_old_token() {
    let home = Home::new("login-userpass");
    fs::write(home.0.join(".bulkhead-token"), "bhs.old").unwrap();
    let closed = fs::Permissions::from_mode(0o600);
    fs::set_permissions(home.0.join(".bulkhead-token"), closed).unwrap();
    let typed = ["-method=userpass", "-path=people", "username=bob"];
    let (ran, request) = home.login(&auth(), &typed, "pass word\n");
    assert_eq!(request.0, "PUT /v1/auth/people/login/bob HTTP/1.1");
    assert_eq!(body(&request), json!({"password": "pass word"}));
    assert!(!request.1.contains("x-vault-token"), "{}", request.1);
    assert!(ran.code == 0 && !ran.out.contains("bhs.new"), "{}{}", ran.out, ran.err);
    assert!(ran.out.contains("token_meta_username    bob\n"), "{}", ran.out);
    assert_eq!(home.token().as_deref(), Some("bhs.new"));
    assert_wrong(&["login", "-method=userpass"], "username=bob");
}

#[test]
fn every_method_sends_its_fields_to_its_login() {
    let home = Home::new("login-methods");
    for (args, stdin, path, fields) in [
        (
            &["-method=approle", "role_id=r", "secret_id=-"][..],
            "s\n",
            "approle",
            json!({"role_id": "r", "secret_id": "s"}),
        ),
        (&["-method=jwt", "role=dev"], "ey.x\n", "jwt", json!({"role": "dev", "jwt": "ey.x"})),
        (
            &["-method=azure", "-path=auth/cloud/", "role=vm", "jwt=ey.x", "vm_name=one"],
            "",
            "cloud",
            json!({"role": "vm", "jwt": "ey.x", "vm_name": "one"}),
        ),
        (&["-method=gcp", "role=g", "jwt=ey.x"], "", "gcp", json!({"role": "g", "jwt": "ey.x"})),
        (
            &["-method=kubernetes", "role=pod", "jwt=ey.x"],
            "",
            "kubernetes",
            json!({"role": "pod", "jwt": "ey.x"}),
        ),
        (&["-method=doorman", "word=open"], "", "doorman", json!({"word": "open"})),
    ] {
        let (ran, request) = home.login(&auth(), args, stdin);
        assert_eq!((ran.code, body(&request)), (0, fields), "{args:?}: {}", ran.err);
        assert_eq!(request.0, format!("PUT /v1/auth/{path}/login HTTP/1.1"));
    }
}

#[test]
fn login_names_methods_of_this_version() {
    for name in ["oidc", "github", "ldap", "okta", "radius", "cert", "aws", "saml"] {
        let method = format!("-method={name}");
        assert_wrong(&["login", &method, "username=u"], "token, userpass, approle, jwt");
        assert_wrong(&["login", &method], "-path=MOUNT");
    }
    assert_wrong(&["login", "-method=oidc"], "-method=jwt takes a signed token");
    let home = Home::new("login-own-ldap");
    let typed = ["-method=ldap", "-path=staff", "username=bob", "password=p"];
    let (ran, request) = home.login(&auth(), &typed, "");
    assert_eq!((ran.code, request.0.as_str()), (0, "PUT /v1/auth/staff/login/bob HTTP/1.1"));
    let refused = json!({"errors": ["permission denied: auth/door/login needs a token"]});
    let (ran, _) = against(403, &refused, &["login", "-method=door"], "");
    assert!(ran.code == 1 && ran.err.contains("The methods of this version are"), "{}", ran.err);
    let (ran, _) = against(403, &refused, &["login", "-method=approle"], "");
    assert!(ran.err.ends_with("is mounted at this path\n"), "{}", ran.err);
}

#[test]
fn login_options_control_printing_and_storing_of_token() {
    for (option, is_stored, printed) in [
        ("-token-only", false, Some("bhs.new")),
        ("-no-print", true, Some("")),
        ("-field=token", true, Some("bhs.new")),
        ("-no-store", false, None),
    ] {
        let home = Home::new("login-options");
        let (ran, _) = home.login(&auth(), &["-method=x", option], "");
        assert_eq!((ran.code, home.token().is_some()), (0, is_stored), "{option}: {}", ran.err);
        match printed {
            Some(text) => assert_eq!(ran.out, text, "{option}"),
            None => assert!(ran.out.contains("token                  bhs.new\n"), "{}", ran.out),
        }
    }
    let home = Home::new("login-json");
    let (ran, _) = home.login(&auth(), &["-method=x", "-format=json"], "");
    assert_eq!(serde_json::from_str::<Value>(&ran.out).unwrap(), auth());
    let (ran, _) = home.login(&json!({"request_id": "r", "data": {}}), &["-method=x"], "");
    assert!(ran.code == 1 && ran.err.contains("no token"), "{}", ran.err);
}

#[test]
fn login_names_variable_hiding_stored_token() {
    let home = Home::new("login-variable");
    let canned = Canned::answering(200, &auth().to_string());
    let env = [
        ("BULKHEAD_ADDR", canned.address.as_str()),
        ("HOME", home.0.to_str().unwrap()),
        ("VAULT_TOKEN", "bhs.variable"),
    ];
    let ran = run_with(&["login", "-method=x"], "", &env);
    assert!(ran.code == 0 && ran.err.contains("VAULT_TOKEN is set"), "{}", ran.err);
}

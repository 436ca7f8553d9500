//! Outbound HTTP of a component: through the configured proxy, and only as far as the mount's
//! grants allow.

use bulkhead_tests::internet::{Fault, Internet, Online, Response, secret_file};
use bulkhead_tests::leaks::assert_silent;
use bulkhead_tests::paths::{Folder, guest};
use bulkhead_tests::{Answer, Bulkhead};
use serde_json::{Value, json};
use std::fs;

const API: &str = "api.example";
const PASSWORD: &str = "^Kw7~Lq2!Vb9";

/// An internet with the site [`API`].
fn internet() -> Internet {
    let internet = Internet::start();
    internet.serve(API, |request| {
        Response::json(200, &json!({ "path": request.path, "host": request.header("host") }))
    });
    internet
}

/// Mounts the probe at `third/` with these grants.
fn mount(online: &Online, grants: &[&str]) {
    online.root.upload("sys/plugins/catalog/secret/probe", &guest("probe")).expect(204);
    let probe = json!({ "type": "probe", "grants": grants });
    online.root.write("sys/mounts/third", &probe).expect(204);
}

fn fetch(online: &Online, url: &str) -> Answer {
    online.root.write("third/fetch/x", &json!({ "url": url }))
}

#[test]
fn proxy_carries_request_and_sees_only_host() {
    let internet = internet();
    let online = internet.server("");
    mount(&online, &["http:https://api.example", "http:http://api.example:81"]);
    let answer = fetch(&online, "https://api.example/a?b").expect(200);
    assert_eq!(answer.body["data"]["status"], 200, "{answer:?}");
    assert_eq!(fetch(&online, "http://api.example:81/c").expect(200).body["data"]["status"], 200);
    assert_eq!(internet.tunnels(), ["api.example:443"]);
    let paths: Vec<String> = internet.requests().into_iter().map(|it| it.path).collect();
    assert_eq!(paths, ["/a", "/c"]);
    for (fault, status) in [(Fault::Status(503), 503), (Fault::Redirect("/x".to_owned()), 302)] {
        internet.fail(API, "/", fault, 1);
        let answer = fetch(&online, "https://api.example/").expect(200);
        assert_eq!(
            answer.body["data"]["status"], status,
            "a redirect is reported and not followed"
        );
    }
    internet.fail(API, "/", Fault::Truncate, 1);
    fetch(&online, "https://api.example/").expect(502);
}

#[test]
fn requests_without_a_grant_never_reach_the_proxy() {
    let internet = internet();
    let online = internet.server("");
    let metadata = ["http:http://169.254.169.254", "http:http://metadata.google.internal"];
    mount(&online, &["http:https://api.example", metadata[0], metadata[1]]);
    for (url, status) in [
        ("https://other.example/", 403),
        ("https://api.example:444/", 403),
        ("http://api.example/", 403),
        ("https://evil-api.example/", 403),
        ("http://169.254.169.254/latest", 400),
        ("http://metadata.google.internal/", 400),
    ] {
        let refused = fetch(&online, url);
        assert_eq!(refused.status, status, "{url}: {refused:?}");
    }
    assert!(internet.tunnels().is_empty(), "{:?}", internet.tunnels());
    assert!(internet.requests().is_empty());
    fetch(&online, "https://api.example/").expect(200);
    assert_eq!(internet.tunnels().len(), 1);
}

#[test]
fn failing_proxy_is_502_and_credentials_stay_hidden() {
    let internet = internet();
    internet.want_credentials(&format!("user:{PASSWORD}"));
    let folder = Folder::new("proxy");
    let file = secret_file(&folder, "credentials", &format!("user:{PASSWORD}\n"));
    let block = format!(
        "http_proxy = \"{}\"\n  http_proxy_credentials_file = \"{}\"",
        internet.proxy(),
        file.display()
    );
    let online = internet.server_with(folder, &block, &[]);
    mount(&online, &["http:https://api.example", "http:https://none.example"]);
    fetch(&online, "https://api.example/").expect(200);
    let seen = internet.asked(API);
    assert!(seen.iter().all(|it| it.header("proxy-authorization").is_empty()), "{seen:?}");
    let unknown = fetch(&online, "https://none.example/").expect(502);
    assert!(unknown.errors().contains("the proxy"), "{}", unknown.errors());
    internet.want_credentials("user:another");
    let refused = fetch(&online, "https://api.example/").expect(502);
    assert!(refused.errors().contains("(407)"), "{}", refused.errors());
    drop(internet);
    let away = fetch(&online, "https://api.example/").expect(502);
    assert!(away.errors().contains("the connection with the proxy"), "{}", away.errors());
    assert_silent("the server's log", &online.server.printed(), PASSWORD);
    for answer in [unknown, refused, away] {
        assert!(!answer.errors().contains(PASSWORD));
    }
}

#[test]
fn environment_sets_proxy_unless_file_does() {
    let internet = internet();
    let near = Internet::start();
    let block = "no_proxy = [\"10.0.0.0/8\", \".inside.invalid\"]";
    let environment = [("HTTPS_PROXY", internet.proxy()), ("NO_PROXY", "api.example".to_owned())];
    let online = internet.server_with(Folder::new("environment"), block, &environment);
    let this_machine = format!("http:http://{}", near.address);
    let grants = [
        "http:https://api.example",
        "http:https://a.inside.invalid",
        &this_machine,
        "address:127.0.0.0/8",
    ];
    mount(&online, &grants);
    fetch(&online, "https://api.example/").expect(200);
    assert_eq!(internet.tunnels(), ["api.example:443"], "the file's no_proxy counts alone");
    let unknown = fetch(&online, "https://a.inside.invalid/").expect(502);
    assert!(unknown.errors().contains("the name has no address"), "{}", unknown.errors());
    // Requests to this machine bypass the proxy; the other internet is called directly.
    fetch(&online, &format!("http://{}/", near.address)).expect(200);
    assert_eq!(internet.tunnels().len(), 1);
}

#[test]
fn check_reads_authorities_and_sighup_keeps_proxy_settings() {
    let internet = internet();
    let online = internet.server("");
    mount(&online, &["http:https://api.example"]);
    let file = online.configuration();
    let text = fs::read_to_string(&file).expect("a file");
    let check = |server: &Bulkhead| {
        let arguments = ["server", "--check", "--config", file.to_str().expect("a path")];
        let output = server.command(&arguments).output().expect("a command");
        (
            output.status.success(),
            String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned(),
        )
    };
    let (valid, output) = check(&online.server);
    assert!(valid && output.contains("through the proxy"), "{output}");
    fs::write(&file, text.replace("http_proxy = \"http://127", "http_proxy = \"http://u:p@127"))
        .expect("written");
    let (valid, output) = check(&online.server);
    assert!(!valid && output.contains("http_proxy_credentials_file"), "{output}");
    fs::write(&file, text.replace(&internet.proxy(), "http://192.0.2.1:9")).expect("written");
    let authority = file.with_file_name("authority.pem");
    fs::write(&authority, "nothing").expect("written");
    let (valid, output) = check(&online.server);
    assert!(!valid && output.contains("ca_file"), "{output}");
    online.server.signal("HUP");
    online.server.wait_for_print("SIGHUP");
    let answer = fetch(&online, "https://api.example/").expect(200);
    assert_ne!(answer.body, Value::Null);
}

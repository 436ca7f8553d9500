//! The requests about plugins of `vault plugin`, `vault secrets`, `vault write`, and of Terraform's
//! `vault_plugin` and `vault_plugin_pinned_version`. The bodies are as the Go module encodes
//! requests, and the tests check the members of answers that these programs decode.
//!
//! The programs themselves are not part of the suite. `vault plugin register` and the creation of a
//! `vault_plugin` send `command` and `sha256` of a file in the plugin directory:
//! `tests/e2e/plugin_sources.rs` has these requests.

use bulkhead_tests::paths::{guest, with_text};
use bulkhead_tests::{Answer, Bulkhead, Client};
use serde_json::{Value, json};

const NOTES: &str = "sys/plugins/catalog/secret/notes";
const PIN: &str = "sys/plugins/pins/secret/notes";

/// Starts a server with two versions of an engine.
fn server() -> Bulkhead {
    let server = Bulkhead::start();
    server.root().upload(NOTES, &guest("notes")).expect(204);
    server.root().upload(NOTES, &with_text(guest("notes"), "notes0.1.0", "notes0.2.0")).expect(204);
    server
}

/// Sends PUT, the method of the Go module for writes.
#[track_caller]
fn put(root: &Client, path: &str, body: &Value) -> Answer {
    root.send("PUT", path, body.to_string().as_bytes())
}

/// Enables a version as `vault secrets enable -plugin-version` does.
#[track_caller]
fn enable(root: &Client, path: &str, version: &str) {
    let body = json!({
        "type": "notes", "description": "",
        "config": {
            "options": null, "default_lease_ttl": "", "max_lease_ttl": "", "force_no_cache": false,
            "plugin_version": version,
        },
        "local": false, "seal_wrap": false, "external_entropy_access": false, "options": null,
    });
    root.write(&format!("sys/mounts/{path}"), &body).expect(204);
}

/// Returns the running version of the mount, as `vault secrets list -detailed` shows it.
#[track_caller]
fn running(root: &Client, path: &str) -> String {
    let mounts = root.read("sys/mounts").expect(200);
    let mount = &mounts.body["data"][format!("{path}/")];
    assert!(mount["plugin_version"].is_string() && mount["running_sha256"].is_string(), "{mount}");
    mount["running_plugin_version"].as_str().expect("a text").to_owned()
}

/// Returns a list of texts.
#[track_caller]
fn texts(list: &Value) -> Vec<&str> {
    let list = list.as_array().unwrap_or_else(|| panic!("{list} is a list"));
    list.iter().map(|text| text.as_str().expect("a text")).collect()
}

/// Fails unless the answer to `GET sys/plugins/catalog/:type/:name` decodes.
#[track_caller]
fn check_info(answer: &Answer, version: &str) {
    let data = &answer.body["data"];
    for name in ["name", "command", "sha256", "deprecation_status", "version"] {
        assert!(data[name].is_string(), "{name} of {answer:?}");
    }
    for name in ["oci_image", "runtime"] {
        assert!(data[name].is_string() || data[name].is_null(), "{name} of {answer:?}");
    }
    texts(&data["args"]);
    assert_eq!(data["builtin"], json!(false));
    assert_eq!((answer.text("name"), answer.text("version")), ("notes", version));
    assert_eq!(answer.text("sha256").len(), 64);
}

#[test]
fn plugin_list_finds_names_by_type_and_versions() {
    let server = server();
    let listed = server.root().read("sys/plugins/catalog").expect(200);
    let data = &listed.body["data"];
    for kind in ["auth", "database", "secret"] {
        assert!(!texts(&data[kind]).is_empty(), "{kind}");
    }
    let detailed = data["detailed"].as_array().expect("a list");
    for plugin in detailed {
        for name in ["type", "name", "version", "deprecation_status"] {
            assert!(plugin[name].is_string(), "{name} of {plugin}");
        }
        assert!(plugin["builtin"].is_boolean(), "{plugin}");
    }
    let versions = detailed.iter().filter(|plugin| plugin["name"] == "notes");
    assert_eq!(versions.count(), 2);
    let of_type = server.root().read("sys/plugins/catalog/secret?list=true").expect(200);
    assert!(texts(&of_type.body["data"]["keys"]).contains(&"notes"));
}

#[test]
fn plugin_info_finds_newest_named_or_no_version() {
    let server = server();
    let root = server.root();
    check_info(&root.read(NOTES).expect(200), "0.2.0");
    for version in ["0.1.0", "v0.1.0"] {
        check_info(&root.read(&format!("{NOTES}?version={version}")).expect(200), "0.1.0");
    }
    root.read(&format!("{NOTES}?version=0.3.0")).expect(404);
    root.read("sys/plugins/catalog/secret/absent").expect(404);
}

#[test]
fn plugin_deregister_looks_up_and_removes_one_version() {
    let server = server();
    let root = server.root();
    let first = format!("{NOTES}?version=0.1.0");
    check_info(&root.read(&first).expect(200), "0.1.0");
    root.delete(&first).expect(204);
    root.read(&first).expect(404);
    check_info(&root.read(NOTES).expect(200), "0.2.0");
    // Without -version, the program sends an empty parameter.
    root.delete(&format!("{NOTES}?version=")).expect(204);
    root.read(NOTES).expect(404);
    root.delete(&format!("{NOTES}?version=")).expect(204);
}

#[test]
fn plugin_reload_by_name_or_mounts_reports_status() {
    let server = server();
    let root = server.root();
    enable(&root, "third", "");
    let names = [
        json!({ "plugin": "notes", "mounts": null, "scope": "" }),
        json!({ "plugin": "", "mounts": ["third/"], "scope": "" }),
        json!({ "plugin": "notes", "mounts": null, "scope": "global" }),
    ];
    let mut reloads: Vec<Answer> =
        names.iter().map(|body| put(&root, "sys/plugins/reload/backend", body)).collect();
    for body in [json!({}), json!({ "scope": "global" })] {
        reloads.push(put(&root, "sys/plugins/reload/secret/notes", &body));
    }
    for reload in reloads {
        let id = reload.clone().expect(200).text("reload_id").to_owned();
        let path = format!("sys/plugins/reload/backend/status?reload_id={id}");
        let status = root.read(&path).expect(200);
        assert_eq!(status.text("reload_id"), id);
        let results = status.body["data"]["results"].as_object().expect("a map");
        assert!(!results.is_empty(), "{reload:?}");
        for result in results.values() {
            let time = result["timestamp"].as_str().expect("a time");
            assert!(time.contains('T') && time.ends_with('Z'), "{time}");
            assert_eq!(result["error"], json!(""));
        }
    }
}

#[test]
fn secrets_enable_and_tune_choose_mount_version() {
    let server = server();
    let root = server.root();
    enable(&root, "third", "v0.1.0");
    assert_eq!(running(&root, "third"), "0.1.0");
    let tuned = json!({
        "options": null, "default_lease_ttl": "", "max_lease_ttl": "", "force_no_cache": false,
        "plugin_version": "v0.2.0",
    });
    root.write("sys/mounts/third/tune", &tuned).expect(204);
    assert_eq!(running(&root, "third"), "0.2.0");
    let shown = root.read("sys/mounts/third/tune").expect(200);
    assert_eq!(shown.text("plugin_version"), "v0.2.0", "as written");
    // The next step in the documentation of the command line.
    let reload = json!({ "plugin": "notes", "mounts": null, "scope": "" });
    put(&root, "sys/plugins/reload/backend", &reload).expect(200);
    assert_eq!(running(&root, "third"), "0.2.0");
}

#[test]
fn pin_write_read_and_delete_apply_at_reload() {
    let server = server();
    let root = server.root();
    root.read(PIN).expect(404);
    put(&root, PIN, &json!({ "version": "v0.1.0" })).expect(204);
    let all = root.read("sys/plugins/pins").expect(200);
    let pins = all.body["data"]["pinned_versions"].as_array().expect("a list");
    assert_eq!(pins.len(), 1);
    for (name, value) in [("type", "secret"), ("name", "notes"), ("version", "v0.1.0")] {
        assert_eq!(pins[0][name], json!(value));
        assert_eq!(root.read(PIN).expect(200).text(name), value);
    }
    enable(&root, "third", "");
    assert_eq!(running(&root, "third"), "0.1.0");
    root.delete(&format!("{NOTES}?version=0.1.0")).expect(400);
    root.delete(PIN).expect(204);
    put(&root, "sys/plugins/reload/secret/notes", &json!({})).expect(200);
    assert_eq!(running(&root, "third"), "0.2.0");
}

/// Logs in like Terraform's provider: with a child token of the operator's token for the time of a
/// run.
fn terraform(server: &Bulkhead) -> Client {
    let root = server.root();
    let status = root.read("sys/seal-status").expect(200);
    let version = status.body["version"].as_str().expect("a version");
    let numbers = version.split(['.', '+', '-']).map(str::parse::<u32>);
    let numbers: Vec<u32> = numbers.take(2).map(|number| number.expect("a number")).collect();
    assert!(numbers >= vec![1, 16], "pins need 1.16 of the provider's server, and not {version}");
    root.read("auth/token/lookup-self").expect(200);
    let child = json!({ "ttl": "1200s", "explicit_max_ttl": "1200s", "renewable": false,
        "display_name": "terraform" });
    let answer = root.write("auth/token/create", &child).expect(200);
    server.client(Some(answer.body["auth"]["client_token"].as_str().expect("a token")))
}

#[test]
fn terraform_reads_without_difference_and_removes_plugin() {
    let server = server();
    let terraform = terraform(&server);
    let one = format!("{NOTES}?version=v0.1.0");
    let before = terraform.read(&one).expect(200);
    check_info(&before, "0.1.0");
    let again = terraform.read(&one).expect(200);
    assert_eq!(before.body["data"], again.body["data"], "nothing to change in a second plan");
    terraform.delete(&one).expect(204);
    // The provider takes only 404 as the sign that the resource is gone.
    terraform.read(&one).expect(404);
}

#[test]
fn terraform_keeps_a_pinned_version() {
    let server = server();
    let terraform = terraform(&server);
    for version in ["0.1.0", "0.2.0"] {
        put(&terraform, PIN, &json!({ "version": version })).expect(204);
        assert_eq!(terraform.read(PIN).expect(200).text("version"), version);
    }
    terraform.delete(PIN).expect(204);
    terraform.delete(PIN).expect(204);
}

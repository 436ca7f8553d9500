//! Plugin signatures: made by commands without a server, and required by a server's configuration.

use crate::plugin_sources::{PluginDirectoryServer, bulkhead, chmod, put, sha256};
use bulkhead_tests::Answer;
use bulkhead_tests::paths::{Folder, guest, in_version};
use serde_json::{Value, json};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

const PROBE: &str = "sys/plugins/catalog/secret/probe";

/// A key of `bulkhead plugin keygen` in a separate folder.
struct Signer {
    folder: Folder,
    public: String,
}

impl Signer {
    fn new() -> Self {
        let folder = Folder::new("signer");
        let file = folder.path().join("key.pem").display().to_string();
        let key_pair = shown(&["plugin", "keygen", "-format=json", &file]);
        let public = key_pair["data"]["public_key"].as_str().expect("a public key").to_owned();
        Self { folder, public }
    }

    fn key(&self) -> String {
        format!("-key={}", self.folder.path().join("key.pem").display())
    }

    fn sign(&self, component: &Path) -> String {
        let component = component.display().to_string();
        let signed = shown(&["plugin", "sign", "-format=json", &self.key(), &component]);
        assert_eq!(signed["data"]["sha256"], json!(sha256(Path::new(&component))));
        assert_eq!(signed["data"]["signed_by"], json!(self.public));
        signed["data"]["signature"].as_str().expect("a signature").to_owned()
    }
}

/// The JSON output of a command without a server.
#[track_caller]
fn shown(arguments: &[&str]) -> Value {
    let done = bulkhead(arguments);
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    serde_json::from_slice(&done.stdout).expect("JSON")
}

/// The error of a command without a server.
#[track_caller]
fn refused(arguments: &[&str]) -> String {
    let done = bulkhead(arguments);
    assert!(!done.status.success(), "{}", String::from_utf8_lossy(&done.stdout));
    String::from_utf8_lossy(&done.stderr).into_owned()
}

/// The settings of a server with this policy and these trusted signers.
fn policy(word: &str, signers: &[&Signer]) -> String {
    let keys: Vec<String> = signers.iter().map(|one| format!("\"{}\"", one.public)).collect();
    let keys = keys.join(", ");
    format!("plugin_signatures {{\n  policy = \"{word}\"\n  trusted_keys = [{keys}]\n}}")
}

impl PluginDirectoryServer {
    /// Registers a file of the plugin directory with a signature.
    fn register_signed(&self, file: &str, signature: &str) -> Answer {
        let digest = sha256(&self.at(file));
        let fields = json!({ "command": file, "sha256": digest, "signature": signature });
        self.root().write(PROBE, &fields)
    }
}

#[test]
fn required_signature_is_verified_and_key_is_shown() {
    let signer = Signer::new();
    let configured = PluginDirectoryServer::with(&policy("require", &[&Signer::new(), &signer]));
    let file = configured.at("probe.wasm");
    let unsigned = configured.register("probe.wasm", &sha256(&file)).expect(400).errors();
    assert!(unsigned.contains("is not signed") && unsigned.contains("plugin sign"), "{unsigned}");
    let uploaded = configured.root().upload(PROBE, &guest("probe")).expect(400).errors();
    assert!(uploaded.contains("is not signed"), "{uploaded}");
    configured.root().read(PROBE).expect(404);

    let signature = signer.sign(&file);
    let source = file.display().to_string();
    let option = format!("-signature={signature}");
    let mut register = configured.server.command(&["plugin", "register", &option, &source]);
    let done = register.env("BULKHEAD_TOKEN", &configured.operators.token).output();
    let done = done.expect("the program can be started");
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    let shown = configured.root().read(PROBE).expect(200);
    assert_eq!(shown.text("signed_by"), signer.public);
    // The catalog stores the signature with the signed bytes.
    configured.register("probe.wasm", &sha256(&file)).expect(204);
    assert_eq!(configured.root().read(PROBE).expect(200).text("signed_by"), signer.public);
    put(configured.plugins.path(), "probe-2.wasm", &in_version("probe", "2.0.0"));
    let second = sha256(&configured.at("probe-2.wasm"));
    configured.register("probe-2.wasm", &second).expect(400);
    let signature = signer.sign(&configured.at("probe-2.wasm"));
    configured.register_signed("probe-2.wasm", &signature).expect(204);
}

#[test]
fn no_policy_accepts_stranger_or_other_component_signature() {
    let (signer, stranger) = (Signer::new(), Signer::new());
    for word in ["none", "warn", "require"] {
        let configured = PluginDirectoryServer::with(&policy(word, &[&signer]));
        put(configured.plugins.path(), "other.wasm", &in_version("probe", "2.0.0"));
        let of_another = signer.sign(&configured.at("other.wasm"));
        let by_stranger = stranger.sign(&configured.at("probe.wasm"));
        for signature in [of_another, by_stranger] {
            let refused = configured.register_signed("probe.wasm", &signature).expect(400).errors();
            assert!(refused.contains("by no key that this server trusts"), "{word}: {refused}");
        }
        let torn = configured.register_signed("probe.wasm", "AAAA").expect(400).errors();
        assert!(torn.contains("not an Ed25519 signature in base64"), "{word}: {torn}");
        configured.root().read(PROBE).expect(404);
    }
    let configured = PluginDirectoryServer::with("");
    let signature = signer.sign(&configured.at("probe.wasm"));
    let refused = configured.register_signed("probe.wasm", &signature).expect(400).errors();
    assert!(refused.contains("this server trusts no key"), "{refused}");
}

#[test]
fn warn_policy_registers_unsigned_plugin_with_warning() {
    let signer = Signer::new();
    let configured = PluginDirectoryServer::with(&policy("warn", &[&signer]));
    let digest = sha256(&configured.at("probe.wasm"));
    let warned = configured.register("probe.wasm", &digest).expect(200).warnings();
    assert!(warned.contains("is not signed"), "{warned}");
    assert_eq!(configured.root().read(PROBE).expect(200).text("signed_by"), "");
    let signature = signer.sign(&configured.at("probe.wasm"));
    configured.register_signed("probe.wasm", &signature).expect(204);
    assert_eq!(configured.root().read(PROBE).expect(200).text("signed_by"), signer.public);
}

#[test]
fn plugins_without_trusted_signature_are_skipped_at_start() {
    let (before, after) = (Signer::new(), Signer::new());
    let mut configured = PluginDirectoryServer::with(&policy("none", &[&before]));
    let signature = before.sign(&configured.at("probe.wasm"));
    configured.register_signed("probe.wasm", &signature).expect(204);
    let root = configured.root();
    root.write("sys/mounts/third", &json!({ "type": "probe" })).expect(204);
    root.write("third/count/visits", &json!({})).expect(204);

    configured.restart_with(&policy("require", &[&after]));
    let root = configured.root();
    let shown = root.read(PROBE).expect(200);
    assert_eq!(shown.text("deprecation_status"), "unavailable");
    assert!(shown.warnings().contains("by no key that this server trusts"), "{shown:?}");
    root.write("third/count/visits", &json!({})).expect(503);
    root.read("sys/mounts").expect(200);
    configured.server.wait_for_print("plugin-not-loaded");

    let signature = after.sign(&configured.at("probe.wasm"));
    configured.register_signed("probe.wasm", &signature).expect(204);
    assert_eq!(root.read(PROBE).expect(200).text("signed_by"), after.public);
    root.write("third/count/visits", &json!({})).expect(204);
    assert_eq!(root.read("third/note/visits").expect(200).body["data"]["note"], json!(2));

    configured.restart_with(&policy("warn", &[&before]));
    configured.root().write("third/count/visits", &json!({})).expect(204);
    configured.server.wait_for_print("plugin-signature-not-trusted");
}

#[test]
fn private_key_has_mode_0600_and_resists_overwriting() {
    let signer = Signer::new();
    let file = signer.folder.path().join("key.pem");
    let mode = fs::metadata(&file).expect("a key").permissions().mode() & 0o7777;
    assert_eq!(mode, 0o600);
    let text = fs::read(&file).expect("a key");
    let path = file.display().to_string();
    let why = refused(&["plugin", "keygen", &path]);
    assert!(why.contains("name of a new file") && fs::read(&file).expect("a key") == text, "{why}");
    put(signer.folder.path(), "probe.wasm", &guest("probe"));
    let component = signer.folder.path().join("probe.wasm").display().to_string();
    chmod(&file, 0o640);
    let why = refused(&["plugin", "sign", &signer.key(), &component]);
    assert!(why.contains("open to others") && why.contains("chmod 600"), "{why}");
    chmod(&file, 0o600);
    let why = refused(&["plugin", "sign", &signer.key(), &path]);
    assert!(why.contains("not a WebAssembly component"), "{why}");
    fs::write(&file, "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n")
        .expect("the file can be written");
    let why = refused(&["plugin", "sign", &signer.key(), &component]);
    assert!(why.contains("signs no component"), "{why}");
    fs::write(&file, [text.as_slice(), &[b'\n'; 16 << 10]].concat()).expect("it");
    let why = refused(&["plugin", "sign", &signer.key(), &component]);
    assert!(why.contains("more than 16384 bytes"), "no key is cut: {why}");
    assert_eq!(bulkhead(&["plugin", "sign", &component]).status.code(), Some(2));
}

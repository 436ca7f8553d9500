//! Plugin sources other than uploads: the plugin directory, and refused files in it.

use bulkhead_tests::operators::Operators;
use bulkhead_tests::paths::{Folder, binary, guest, in_version};
use bulkhead_tests::storage;
use bulkhead_tests::{Answer, Bulkhead, Client};
use serde_json::{Value, json};
use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

const PROBE: &str = "sys/plugins/catalog/secret/probe";

/// A server with a plugin directory that contains `probe.wasm`.
pub(crate) struct PluginDirectoryServer {
    pub(crate) server: Bulkhead,
    pub(crate) operators: Operators,
    pub(crate) plugins: Folder,
}

impl PluginDirectoryServer {
    fn new() -> Self {
        Self::with("")
    }

    /// A server with additions to its configuration.
    pub(crate) fn with(more: &str) -> Self {
        let (plugins, data) = (Folder::new("plugins"), Folder::new("plugin-sources"));
        chmod(plugins.path(), 0o755);
        put(plugins.path(), "probe.wasm", &guest("probe"));
        let file = data.path().join("bulkhead.hcl");
        fs::write(&file, configuration(data.path(), plugins.path(), more)).expect("a file");
        let mut server = Bulkhead::prepared(binary(), data).configured(file);
        server.start_again();
        let operators = Operators::initialise(&server, 1, 1);
        operators.unseal(&server);
        Self { server, operators, plugins }
    }

    pub(crate) fn root(&self) -> Client {
        self.operators.root(&self.server)
    }

    pub(crate) fn at(&self, name: &str) -> PathBuf {
        self.plugins.path().join(name)
    }

    pub(crate) fn register(&self, command: &str, sha256: &str) -> Answer {
        self.root().write(PROBE, &json!({ "command": command, "sha256": sha256 }))
    }

    /// Asserts that the file is refused and that catalog and mounts are unchanged.
    #[track_caller]
    fn assert_refused(&self, command: &str, sha256: &str, says: &str) {
        let refused = self.register(command, sha256).expect(400).errors();
        assert!(refused.contains(says), "{command}: {refused}");
        self.root().read(PROBE).expect(404);
        self.root().read("sys/mounts").expect(200);
    }

    /// Restarts the server with other additions to its configuration.
    pub(crate) fn restart_with(&mut self, more: &str) {
        let text = configuration(self.server.data(), self.plugins.path(), more);
        fs::write(self.server.data().join("bulkhead.hcl"), text).expect("a file");
        self.server.kill();
        self.server.start_again();
        self.operators.unseal(&self.server);
    }
}

fn configuration(data: &Path, plugins: &Path, more: &str) -> String {
    format!(
        "listener \"tcp\" {{ address = \"127.0.0.1:0\" }}\n\
         {}\n\
         plugin_directory = \"{}\"\n{more}\n",
        storage::block(data),
        plugins.display()
    )
}

pub(crate) fn put(folder: &Path, name: &str, bytes: &[u8]) {
    fs::write(folder.join(name), bytes).expect("a file can be written");
    chmod(&folder.join(name), 0o644);
}

pub(crate) fn chmod(path: &Path, mode: u32) {
    fs::set_permissions(path, Permissions::from_mode(mode)).expect("a file of ours");
}

/// The digest as the system's own program prints it.
pub(crate) fn sha256(file: &Path) -> String {
    let done = Command::new("sha256sum").arg(file).output().expect("sha256sum is there");
    String::from_utf8(done.stdout).expect("text").split(' ').next().unwrap_or_default().to_owned()
}

#[test]
fn plugin_file_registered_by_name_and_digest_serves() {
    let mut configured = PluginDirectoryServer::new();
    let digest = sha256(&configured.at("probe.wasm"));
    let fields = json!({
        "command": "probe.wasm", "sha_256": digest, "version": "v1.0.0", "args": [], "env": null,
        "runtime": "",
    });
    configured.root().write(PROBE, &fields).expect(204);
    let shown = configured.root().read(PROBE).expect(200);
    assert_eq!((shown.text("command"), shown.text("sha256")), ("probe.wasm", digest.as_str()));
    assert_eq!(shown.body["data"]["args"], json!([]));
    let root = configured.root();
    root.write("sys/mounts/third", &json!({ "type": "probe" })).expect(204);
    root.write("third/count/visits", &json!({})).expect(204);
    // The bytes are stored: the server no longer needs the file.
    fs::remove_file(configured.at("probe.wasm")).expect("a file of ours");
    configured.restart_with("");
    let root = configured.root();
    root.write("third/count/visits", &json!({})).expect(204);
    assert_eq!(root.read(PROBE).expect(200).text("command"), "probe.wasm");
    root.upload(PROBE, &guest("probe")).expect(204);
    assert_eq!(root.read(PROBE).expect(200).text("command"), "", "the body is its source now");
}

#[test]
fn file_with_wrong_or_missing_digest_is_refused() {
    let configured = PluginDirectoryServer::new();
    configured.assert_refused("probe.wasm", "", "sha256 is required with command");
    let other = "0".repeat(64);
    let right = sha256(&configured.at("probe.wasm"));
    configured.assert_refused("probe.wasm", &other, &format!("sha256 is {right}, and not"));
    put(configured.plugins.path(), "empty.wasm", b"");
    let empty = sha256(&configured.at("empty.wasm"));
    configured.assert_refused("empty.wasm", &empty, "is empty");
    configured.register("probe.wasm", &right).expect(204);
}

#[test]
fn names_links_and_pipes_outside_directory_are_refused() {
    let configured = PluginDirectoryServer::new();
    let outside = Folder::new("outside");
    put(outside.path(), "probe.wasm", &guest("probe"));
    let digest = sha256(&configured.at("probe.wasm"));
    let full_path = configured.at("probe.wasm").display().to_string();
    for name in ["../probe.wasm", "..", ".", "a/../probe.wasm", "/etc/passwd", &full_path] {
        configured.assert_refused(name, &digest, "is not a name in the plugin directory");
    }
    symlink(outside.path().join("probe.wasm"), configured.at("out.wasm")).expect("a link");
    symlink("probe.wasm", configured.at("in.wasm")).expect("a link");
    for link in ["out.wasm", "in.wasm"] {
        configured.assert_refused(link, &digest, "links are not followed");
    }
    let status = Command::new("mkfifo").arg(configured.at("pipe")).status();
    assert!(status.expect("mkfifo is there").success());
    configured.assert_refused("pipe", &digest, "not a regular file");
    configured.assert_refused("absent.wasm", &digest, "there is no file");
}

#[test]
fn world_writable_plugin_files_are_refused() {
    let configured = PluginDirectoryServer::new();
    let digest = sha256(&configured.at("probe.wasm"));
    chmod(&configured.at("probe.wasm"), 0o666);
    configured.assert_refused("probe.wasm", &digest, "run chmod o-w");
    chmod(&configured.at("probe.wasm"), 0o644);
    chmod(configured.plugins.path(), 0o777);
    configured.assert_refused("probe.wasm", &digest, "run chmod o-w");
    let file = configured.server.data().join("bulkhead.hcl");
    let checked = bulkhead(&["server", "--check", "--config", &file.display().to_string()]);
    let why = String::from_utf8_lossy(&checked.stderr);
    assert!(!checked.status.success() && why.contains("plugin_directory: "), "{why}");
    chmod(configured.plugins.path(), 0o755);
    configured.register("probe.wasm", &digest).expect(204);
}

/// Runs a command without a server.
pub(crate) fn bulkhead(arguments: &[&str]) -> Output {
    let done = Command::new(binary()).args(arguments).env_clear().output();
    done.expect("the program can be started")
}

#[test]
fn process_settings_and_several_sources_are_refused() {
    let configured = PluginDirectoryServer::new();
    let digest = sha256(&configured.at("probe.wasm"));
    let root = configured.root();
    for (field, value) in
        [("args", json!(["-v"])), ("env", json!(["A=b"])), ("runtime", json!("runsc"))]
    {
        let mut fields = json!({ "command": "probe.wasm", "sha256": digest });
        fields[field] = value;
        let refused = root.write(PROBE, &fields).expect(400).errors();
        assert!(refused.contains(&format!("leave {field} out")), "{refused}");
    }
    let both = format!("{PROBE}?command=probe.wasm");
    let refused = root.upload(&both, &guest("probe")).expect(400).errors();
    assert!(refused.contains("leave one of the two out"), "{refused}");
    let neither = root.write(PROBE, &json!({ "sha256": digest })).expect(400).errors();
    assert!(neither.contains("there is no component"), "{neither}");
    root.read(PROBE).expect(404);
}

#[test]
fn a_server_without_a_plugin_directory_says_so() {
    let server = Bulkhead::start();
    let fields = json!({ "command": "probe.wasm", "sha256": "0".repeat(64) });
    let refused = server.root().write(PROBE, &fields).expect(400).errors();
    assert!(refused.contains("set plugin_directory in the configuration"), "{refused}");
}

#[test]
fn the_command_registers_two_versions_by_name() {
    let configured = PluginDirectoryServer::new();
    put(configured.plugins.path(), "probe-2.wasm", &in_version("probe", "2.0.0"));
    for (file, name) in [("probe.wasm", None), ("probe-2.wasm", Some("-name=probe"))] {
        let digest = format!("-sha256={}", sha256(&configured.at(file)));
        let command = format!("-command={file}");
        let arguments: Vec<&str> =
            ["plugin", "register", &command, &digest].into_iter().chain(name).collect();
        let mut register = configured.server.command(&arguments);
        let done = register.env("BULKHEAD_TOKEN", &configured.operators.token).output();
        let done = done.expect("the program can be started");
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    }
    let listed = configured.root().read("sys/plugins/catalog").expect(200);
    let detailed = listed.body["data"]["detailed"].as_array().cloned().unwrap_or_default();
    let versions: Vec<Value> = detailed
        .iter()
        .filter(|plugin| plugin["name"] == "probe")
        .map(|plugin| plugin["version"].clone())
        .collect();
    assert_eq!(versions, [json!("1.0.0"), json!("2.0.0")]);
    let usage = bulkhead(&["plugin", "register", "probe.wasm", "-command=probe.wasm"]);
    assert_eq!(usage.status.code(), Some(2));
}

/// Writes a component as the only layer of an image layout in the plugin directory.
fn put_image(configured: &PluginDirectoryServer, name: &str, component: &[u8]) {
    let folder = configured.at(name);
    let blobs = folder.join("blobs/sha256");
    fs::create_dir_all(&blobs).expect("folders can be made");
    for directory in [&folder, &folder.join("blobs"), &blobs] {
        chmod(directory, 0o755);
    }
    let blob = |media_type: &str, bytes: &[u8]| {
        put(&blobs, "new", bytes);
        let hex = sha256(&blobs.join("new"));
        fs::rename(blobs.join("new"), blobs.join(&hex)).expect("a file of ours");
        let digest = format!("sha256:{hex}");
        json!({ "mediaType": media_type, "digest": digest, "size": bytes.len() })
    };
    let config = blob("application/vnd.wasm.config.v0+json", b"{}");
    let layer = blob("application/wasm", component);
    let manifest = json!({ "schemaVersion": 2, "config": config, "layers": [layer] }).to_string();
    let manifest = blob("application/vnd.oci.image.manifest.v1+json", manifest.as_bytes());
    let index = json!({ "schemaVersion": 2, "manifests": [manifest] }).to_string();
    put(&folder, "index.json", index.as_bytes());
    put(&folder, "oci-layout", br#"{"imageLayoutVersion":"1.0.0"}"#);
}

#[test]
fn image_layout_component_registers_by_name_and_digest() {
    let configured = PluginDirectoryServer::new();
    put_image(&configured, "shelf", &guest("probe"));
    let digest = sha256(&configured.at("probe.wasm"));
    let root = configured.root();
    let register = |image: &str, sha256: &str| {
        root.write(PROBE, &json!({ "oci_image": image, "sha256": sha256 }))
    };
    let refused = |image: &str, sha256: &str, says: &str| {
        let why = register(image, sha256).expect(400).errors();
        assert!(why.contains(says), "{image}: {why}");
        root.read(PROBE).expect(404);
    };
    refused("shelf", "", "sha256 is required");
    refused("shelf", &"0".repeat(64), "and not");
    refused("absent", &digest, "there is no directory");
    refused("..", &digest, "is not a name in the plugin directory");
    refused("ghcr.io/example/shelf", &digest, "images are not fetched from a registry");
    let both = json!({ "oci_image": "shelf", "command": "probe.wasm", "sha256": digest });
    let why = root.write(PROBE, &both).expect(400).errors();
    assert!(why.contains("leave one of the two out"), "{why}");
    let layer = configured.at("shelf/blobs/sha256").join(&digest);
    put(layer.parent().expect("a folder"), &digest, &in_version("probe", "2.0.0"));
    refused("shelf", &digest, "create the image layout again");
    put(layer.parent().expect("a folder"), &digest, &guest("probe"));

    register("shelf", &digest).expect(204);
    let shown = root.read(PROBE).expect(200);
    assert_eq!((shown.text("oci_image"), shown.text("command")), ("shelf", ""));
    root.write("sys/mounts/third", &json!({ "type": "probe" })).expect(204);
    root.write("third/count/visits", &json!({})).expect(204);
}

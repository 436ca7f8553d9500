//! Image layouts that are whole, damaged or hostile, as files.

use super::super::plugin_directory::PluginDirectory;
use super::*;
use serde_json::{Value, json};
use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};

const COMPONENT: &[u8] = b"\0asm component";

/// A plugin directory with the image layout `shelf`, removed at the end of the test.
struct Layout(PathBuf);

impl Layout {
    fn new(name: &str) -> Self {
        let path =
            std::env::temp_dir().join(format!("bulkhead-image-{name}-{}", std::process::id()));
        fs::create_dir_all(path.join("shelf/blobs/sha256")).unwrap();
        for folder in ["", "shelf", "shelf/blobs", "shelf/blobs/sha256"] {
            chmod(&path.join(folder), 0o755);
        }
        let layout = Self(path);
        layout.put("oci-layout", json!({ "imageLayoutVersion": "1.0.0" }).to_string().as_bytes());
        layout.image(COMPONENT_TYPES[0], &|_| {});
        layout
    }

    fn at(&self, name: &str) -> PathBuf {
        self.0.join("shelf").join(name)
    }

    fn put(&self, name: &str, bytes: &[u8]) {
        fs::write(self.at(name), bytes).unwrap();
        chmod(&self.at(name), 0o644);
    }

    /// Writes a blob and returns its descriptor.
    fn blob(&self, media_type: &str, bytes: &[u8]) -> Value {
        let hex = digest(bytes);
        self.put(&format!("blobs/sha256/{hex}"), bytes);
        let name = format!("sha256:{hex}");
        json!({ "mediaType": media_type, "digest": name, "size": bytes.len() })
    }

    /// Writes the component as the only layer of the only image, with a changed manifest.
    fn image(&self, layer: &str, change: &dyn Fn(&mut Value)) {
        let config = self.blob("application/vnd.wasm.config.v0+json", b"{}");
        let layer = self.blob(layer, COMPONENT);
        let mut manifest = json!({ "schemaVersion": 2, "config": config, "layers": [layer] });
        change(&mut manifest);
        let manifest = self.blob("application/vnd.oci.image.manifest.v1+json", &bytes(&manifest));
        self.put("index.json", &bytes(&json!({ "schemaVersion": 2, "manifests": [manifest] })));
    }

    fn read(&self) -> Result<Vec<u8>, Failure> {
        component(&PluginDirectory::new(self.0.clone()).open()?.folder("shelf")?, 64)
    }

    #[track_caller]
    fn assert_refused(&self, says: &str) {
        let failure = self.read().unwrap_err();
        assert!(failure.message.contains(says), "{failure:?} does not say {says:?}");
    }
}

impl Drop for Layout {
    fn drop(&mut self) {
        fs::remove_dir_all(&self.0).unwrap();
    }
}

fn bytes(document: &Value) -> Vec<u8> {
    document.to_string().into_bytes()
}

fn chmod(path: &Path, mode: u32) {
    fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
}

#[test]
fn single_layer_of_single_image_is_component() {
    let layout = Layout::new("whole");
    assert_eq!(layout.read().unwrap(), COMPONENT);
    layout.image(COMPONENT_TYPES[1], &|_| {});
    assert_eq!(layout.read().unwrap(), COMPONENT);
}

#[test]
fn blob_not_matching_its_digest_is_refused() {
    for changed in ["layer", "config", "manifest"] {
        let layout = Layout::new(&format!("digest-{changed}"));
        let index: Value =
            serde_json::from_slice(&fs::read(layout.at("index.json")).unwrap()).unwrap();
        let name = index["manifests"][0]["digest"].as_str().unwrap();
        let of_manifest = name.strip_prefix("sha256:").unwrap().to_owned();
        let hex = match changed {
            "layer" => digest(COMPONENT),
            "config" => digest(b"{}"),
            _ => of_manifest,
        };
        layout.put(&format!("blobs/sha256/{hex}"), b"\0asm another");
        layout.assert_refused("create the image layout again");
        fs::remove_file(layout.at(&format!("blobs/sha256/{hex}"))).unwrap();
        layout.assert_refused("there is no file");
    }
    let layout = Layout::new("digest-size");
    layout.image(COMPONENT_TYPES[0], &|manifest| manifest["layers"][0]["size"] = json!(1));
    layout.assert_refused("and not 1 bytes");
}

#[test]
fn digest_or_link_never_leads_to_another_file() {
    let layout = Layout::new("elsewhere");
    let long = format!("sha256:{}", "../".repeat(22));
    for name in ["sha256:../../../oci-layout", "sha512:aa", "sha256:", "", long.as_str()] {
        let change = |manifest: &mut Value| manifest["layers"][0]["digest"] = json!(name);
        layout.image(COMPONENT_TYPES[0], &change);
        layout.assert_refused("is not a sha256 digest");
    }
    layout.image(COMPONENT_TYPES[0], &|_| {});
    let blob = layout.at(&format!("blobs/sha256/{}", digest(COMPONENT)));
    fs::rename(&blob, layout.0.join("outside")).unwrap();
    symlink(layout.0.join("outside"), &blob).unwrap();
    layout.assert_refused("links are not followed");
    fs::remove_file(&blob).unwrap();
    fs::rename(layout.0.join("outside"), &blob).unwrap();
    chmod(&layout.at("blobs"), 0o777);
    layout.assert_refused("run chmod o-w");
    chmod(&layout.at("blobs"), 0o755);
    fs::rename(layout.at(""), layout.0.join("other")).unwrap();
    symlink("other", layout.0.join("shelf")).unwrap();
    layout.assert_refused("links are not followed");
}

#[test]
fn multiple_images_layers_or_foreign_types_are_refused() {
    let layout = Layout::new("several");
    layout.image("application/vnd.oci.image.layer.v1.tar+gzip", &|_| {});
    layout.assert_refused("tar+gzip");
    layout.image(COMPONENT_TYPES[0], &|manifest| {
        let layer = manifest["layers"][0].clone();
        manifest["layers"] = json!([layer, layer]);
    });
    layout.assert_refused("the manifest of the image layout names 2 layers");
    layout.image(COMPONENT_TYPES[0], &|manifest| manifest["layers"] = json!([]));
    layout.assert_refused("names 0 layers");
    layout.put("index.json", br#"{"manifests":[]}"#);
    layout.assert_refused("index.json of the image layout names 0 manifests");
    layout.put("index.json", b"{");
    layout.assert_refused("is not a valid document");
    layout.put("oci-layout", br#"{"imageLayoutVersion":"2.0.0"}"#);
    layout.assert_refused("version \"2.0.0\"");
}

#[test]
fn documents_and_components_have_an_end() {
    let layout = Layout::new("long");
    layout.put("index.json", &vec![b' '; 2 << 20]);
    layout.assert_refused("longer than");
    let layout = Layout::new("long-layer");
    let layer = layout.blob(COMPONENT_TYPES[0], &[0; 65]);
    layout.image(COMPONENT_TYPES[0], &|manifest| manifest["layers"] = json!([layer]));
    layout.assert_refused("longer than 64");
}

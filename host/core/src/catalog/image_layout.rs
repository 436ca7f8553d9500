//! Components in image layouts on disk (OCI image format 1.1).
//!
//! The attacks this file prevents: a blob other than the one that its digest names, a digest that
//! leads to another file, and documents without end.

use super::folder::ProtectedFolder;
use bulkhead_sandbox::component::digest;
use bulkhead_wire::failure::{Failure, quoted};
use bulkhead_wire::json;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

/// Maximum length of an index, a manifest or a configuration, in bytes.
const DOCUMENT_BYTES: u64 = 1 << 20;

/// Media types of a layer that is a component.
const COMPONENT_TYPES: [&str; 2] =
    ["application/wasm", "application/vnd.wasm.content.layer.v1+wasm"];

/// The file `oci-layout`.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct LayoutMarker {
    image_layout_version: String,
}

/// The file `index.json`.
#[derive(Deserialize)]
struct ImageIndex {
    manifests: Vec<BlobDescriptor>,
}

/// The description of an image.
#[derive(Deserialize)]
struct ImageManifest {
    config: BlobDescriptor,
    layers: Vec<BlobDescriptor>,
}

/// The name of a blob.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct BlobDescriptor {
    media_type: String,
    digest: String,
    size: u64,
}

/// Reads the component of the only image of a layout. The digest of every blob is checked.
///
/// # Errors
/// 400 for a layout that is damaged, has several images, or has no component of at most `most`
/// bytes as its only layer.
pub(super) fn component(layout: &ProtectedFolder, most: u64) -> Result<Vec<u8>, Failure> {
    let marker: LayoutMarker = parse("oci-layout", &layout.file("oci-layout", DOCUMENT_BYTES)?)?;
    if !marker.image_layout_version.starts_with("1.") {
        return Err(Failure::invalid(format!(
            "the image layout has version {}; give a layout of version 1",
            quoted(&marker.image_layout_version)
        )));
    }
    let index: ImageIndex = parse("index.json", &layout.file("index.json", DOCUMENT_BYTES)?)?;
    let manifest = only_element("index.json", "manifest", &index.manifests)?;
    let blobs = layout.folder("blobs")?.folder("sha256")?;
    let manifest: ImageManifest =
        parse("the manifest", &manifest.read(&blobs, "the manifest", DOCUMENT_BYTES)?)?;
    manifest.config.read(&blobs, "the configuration", DOCUMENT_BYTES)?;
    let layer = only_element("the manifest", "layer", &manifest.layers)?;
    if !COMPONENT_TYPES.contains(&layer.media_type.as_str()) {
        return Err(Failure::invalid(format!(
            "the layer of the image has the media type {}; give an image with a component as the \
             layer ({})",
            quoted(&layer.media_type),
            COMPONENT_TYPES.join(" or ")
        )));
    }
    layer.read(&blobs, "the layer", most)
}

fn parse<T: DeserializeOwned>(part: &str, bytes: &[u8]) -> Result<T, Failure> {
    let read = json::object(bytes).ok();
    let read = read.and_then(|read| serde_json::from_value(Value::Object(read)).ok());
    read.ok_or_else(|| {
        Failure::invalid(format!(
            "{part} of the image layout is not a valid document; create the image layout again"
        ))
    })
}

/// Returns the only element.
fn only_element<'a, T>(part: &str, noun: &str, all: &'a [T]) -> Result<&'a T, Failure> {
    match all {
        [one] => Ok(one),
        several => Err(Failure::invalid(format!(
            "{part} of the image layout names {} {noun}s; give a layout with one",
            several.len()
        ))),
    }
}

impl BlobDescriptor {
    /// Reads the blob from the directory of blobs, and checks its size and its digest.
    fn read(&self, blobs: &ProtectedFolder, part: &str, most: u64) -> Result<Vec<u8>, Failure> {
        let is_digit = |c: char| c.is_ascii_digit() || ('a'..='f').contains(&c);
        let hex = self.digest.strip_prefix("sha256:");
        let hex = hex.filter(|hex| hex.len() == 64 && hex.chars().all(is_digit));
        let hex = hex.ok_or_else(|| {
            Failure::invalid(format!(
                "the digest {} of {part} is not a sha256 digest; create the image layout again",
                quoted(&self.digest)
            ))
        })?;
        let bytes = blobs.file(hex, most)?;
        let found = digest(&bytes);
        if found == hex && bytes.len() as u64 == self.size {
            return Ok(bytes);
        }
        Err(Failure::invalid(format!(
            "{part} of the image has {} bytes with sha256 {found}, and not {} bytes with sha256 \
             {hex}; create the image layout again",
            bytes.len(),
            self.size
        )))
    }
}

#[cfg(test)]
mod tests;

//! The origin of a registered component, stored with its entry.

use serde::{Deserialize, Serialize};

/// The source of a registered component, and its signature.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ComponentOrigin {
    /// Name of the file in the plugin directory.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub command: String,
    /// Name of the image layout in the plugin directory.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub oci_image: String,
    /// Signature in base64; empty if unsigned.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub signature: String,
    /// Key that made the signature, as the configuration writes the key.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub signed_by: String,
}

impl ComponentOrigin {
    /// Returns whether the component came as the body of a request.
    pub fn is_upload(&self) -> bool {
        self.command.is_empty() && self.oci_image.is_empty()
    }

    /// Returns whether nothing is known beyond an upload.
    pub(super) fn is_default(&self) -> bool {
        *self == Self::default()
    }

    /// Returns this origin with the signature of `stored_origin`, an origin of the same bytes,
    /// unless this origin has a signature.
    pub(super) fn with_signature_of(self, stored_origin: Option<&Self>) -> Self {
        match stored_origin {
            Some(stored_origin) if self.signature.is_empty() => {
                Self { signature: stored_origin.signature.clone(), ..self }
            }
            _ => self,
        }
    }
}

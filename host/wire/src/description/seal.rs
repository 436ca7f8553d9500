//! A seal plugin's description of itself.

use super::Field;
use serde::{Deserialize, Serialize};

/// A seal plugin's description (`seal.describe`). Not stored: the host asks for the description
/// before any data are open.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SealDescription {
    /// Always `seal-plugin`.
    pub kind: String,
    /// The word behind `seal` in the configuration: `transit`.
    pub name: String,
    /// Semantic version.
    pub version: String,
    /// One sentence for people.
    pub about: String,
    /// Name of the required setting with the URL of the service. The plugin reaches only the origin
    /// of this URL, and the origins of `further_addresses`.
    pub address: String,
    /// Names of further settings with URLs, such as an endpoint for tokens.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub further_addresses: Vec<String>,
    /// The plugin's settings, of the kinds [`String`](super::FieldKind::String) and
    /// [`Bool`](super::FieldKind::Bool).
    pub settings: Vec<Field>,
}

//! A database plugin's description of itself.

use super::Field;
use crate::stored::Stored;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// A database plugin's description (`database-users.describe`).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DatabaseDescription {
    /// Always `database-plugin`.
    pub kind: String,
    /// `postgresql-database-plugin`.
    pub name: String,
    /// Other names a connection may use for the plugin.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub aliases: Vec<String>,
    /// Semantic version.
    pub version: String,
    /// Grants the plugin wants, as grant lines: see
    /// [`ComponentDescription::asks`](super::ComponentDescription::asks).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub asks: Vec<String>,
    /// One sentence for people.
    pub about: String,
    /// `password`, `rsa_private_key`, `client_certificate`.
    pub credential_types: Vec<String>,
    /// Requires creation statements of every role, because the plugin has no default statements.
    pub creation_statements_required: bool,
    /// The plugin's known settings. Other settings are kept, with a warning.
    pub settings: Vec<Field>,
    /// The sentence for every refusal code. `{setting}`, `{statement}`, `{vendor-code}`,
    /// `{connection}` and names of `ext` pairs are filled in.
    pub codes: BTreeMap<String, String>,
    /// The sentence for every warning code.
    pub warnings: BTreeMap<String, String>,
}

/// Stored like [`ComponentDescription`](super::ComponentDescription).
impl Stored for DatabaseDescription {
    const KIND: &'static str = "database-description";
}

//! The state of a migration between two of its steps.

use serde::{Deserialize, Serialize};

/// A migration that stored at least one step, and not its last step. The data of the mount are
/// between two schemas, and only a component of the schema `to` may go on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct UnfinishedMigration {
    /// Schema to which the steps bring the data.
    pub(crate) to: u32,
    /// Cursor of the next step, in a form that the component chose; empty before the first step.
    pub(crate) cursor: String,
    /// Number of stored steps.
    pub(crate) steps: u32,
    /// Version of the plugin's API to which the steps bring the records; `None` for a migration to
    /// another schema.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) api_version: Option<u64>,
}

impl UnfinishedMigration {
    /// Returns the state before the first step of a change to `version` of the plugin's API, for
    /// data of the schema `schema`.
    pub(crate) fn to_api_version(version: u64, schema: u32) -> Self {
        Self { to: schema, cursor: String::new(), steps: 0, api_version: Some(version) }
    }

    /// Returns the cursor of the next step; `None` before the first step.
    pub(crate) fn cursor(&self) -> Option<String> {
        Some(self.cursor.clone()).filter(|cursor| !cursor.is_empty())
    }

    /// Describes the target of the migration.
    pub(crate) fn target(&self) -> String {
        match self.api_version {
            Some(version) => format!("version {version} of the API"),
            None => format!("schema {}", self.to),
        }
    }

    /// Returns the state after one more step towards the schema `to`; `None` after the last step.
    pub(crate) fn after_step(before: Option<&Self>, to: u32, next: Option<String>) -> Option<Self> {
        let steps = before.map_or(0, |before| before.steps).saturating_add(1);
        let api_version = before.and_then(|before| before.api_version);
        next.map(|cursor| Self { to, cursor, steps, api_version })
    }
}

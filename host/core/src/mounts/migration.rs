//! The state of a migration between two of its steps.

use serde::{Deserialize, Serialize};

/// A migration that stored at least one step, and not its last step. The data of the mount are
/// between two schemas, and only a component of the schema `to` may go on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct UnfinishedMigration {
    /// Schema to which the steps bring the data.
    pub(crate) to: u32,
    /// Cursor of the next step, in a form that the component chose.
    pub(crate) cursor: String,
    /// Number of stored steps.
    pub(crate) steps: u32,
}

impl UnfinishedMigration {
    /// Returns the state after one more step towards the schema `to`; `None` after the last step.
    pub(crate) fn after_step(before: Option<&Self>, to: u32, next: Option<String>) -> Option<Self> {
        let steps = before.map_or(0, |before| before.steps).saturating_add(1);
        next.map(|cursor| Self { to, cursor, steps })
    }
}

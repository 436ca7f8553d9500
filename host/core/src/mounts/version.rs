//! The version of a mount's plugin: the operator's choice, the probation of a new version, and the
//! version before.

use crate::catalog::VersionChoice;
use bulkhead_wire::failure::{Failure, quoted};
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// The operator's choice of a version.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct VersionSelection {
    /// Semantic version; empty if the operator left the choice to the server.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub plugin_version: String,
    /// True if `plugin_version` overrides a pinned version.
    #[serde(skip_serializing_if = "is_false")]
    pub override_pinned_version: bool,
}

impl VersionSelection {
    /// Returns the choice as the catalog takes it.
    pub fn choice(&self) -> VersionChoice<'_> {
        VersionChoice { version: &self.plugin_version, overrides_pin: self.override_pinned_version }
    }
}

/// A swap to be carried out.
#[derive(Clone, Debug)]
pub struct VersionSwap {
    /// The new version; empty for a plugin of this binary.
    pub version: String,
    /// The choice to store with the version.
    pub selection: VersionSelection,
    /// The rollback carried out by the swap; `None` for a swap at an operator's request.
    pub rollback: Option<RollbackRecord>,
}

/// The time after a swap in which a failure of the new version brings the version before back.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ProbationSettings {
    #[serde(skip_serializing_if = "RollbackMode::is_usual")]
    pub plugin_rollback: RollbackMode,
    /// Seconds.
    #[serde(skip_serializing_if = "is_usual_probation")]
    pub plugin_probation: u64,
}

/// Maximum time that a call may compute while the version of its plugin is on probation.
pub(super) const COMPUTING_ON_PROBATION: Duration = Duration::from_secs(1);
/// Default length of the probation, in seconds.
const USUAL_PROBATION: u64 = 60;
/// Maximum length of the probation, in seconds: one day.
const LONGEST_PROBATION: u64 = 86_400;

impl Default for ProbationSettings {
    fn default() -> Self {
        Self { plugin_rollback: RollbackMode::default(), plugin_probation: USUAL_PROBATION }
    }
}

impl ProbationSettings {
    /// Refuses a length out of range.
    ///
    /// # Errors
    /// 400 with the range.
    pub fn check(&self) -> Result<(), Failure> {
        if (1..=LONGEST_PROBATION).contains(&self.plugin_probation) {
            return Ok(());
        }
        Err(Failure::invalid(format!(
            "plugin_probation is {} s; give 1 s to {LONGEST_PROBATION} s, or plugin_rollback=off \
             to do without",
            self.plugin_probation
        )))
    }
}

/// The reaction to a failure of a new version during its probation: rollback to the version before,
/// or none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RollbackMode {
    /// Rollback if the breaker of the new version opens.
    #[default]
    Auto,
    /// No probation: the new version stays, even if the breaker opens.
    Off,
}

impl RollbackMode {
    /// Returns the word of the API.
    pub fn word(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Off => "off",
        }
    }

    /// Returns the mode with that word.
    ///
    /// # Errors
    /// 400 that names both words.
    pub fn of_word(word: &str) -> Result<Self, Failure> {
        [Self::Auto, Self::Off].into_iter().find(|mode| mode.word() == word).ok_or_else(|| {
            let word = quoted(word);
            Failure::invalid(format!("plugin_rollback {word} is unknown: give auto or off"))
        })
    }

    fn is_usual(&self) -> bool {
        *self == Self::default()
    }
}

/// The version that served a mount before its last swap, while the new version is on probation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct VersionBefore {
    /// Empty for a plugin of this binary.
    pub(crate) version: String,
    #[serde(flatten)]
    pub(crate) selection: VersionSelection,
    /// End of the probation, in milliseconds of store time.
    pub(crate) until: u64,
}

/// The last automatic rollback of a mount. The next swap deletes this record.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RollbackRecord {
    /// The version that failed.
    pub from: String,
    /// Target of the rollback: the version before. Empty for a plugin of this binary.
    pub to: String,
    /// Milliseconds of store time.
    pub time: u64,
    /// True if the version before serves again.
    pub(crate) is_done: bool,
    /// Cause of the rollback, or of its failure.
    pub reason: String,
}

impl RollbackRecord {
    /// Returns the outcome as one word for operators and monitoring.
    pub fn status(&self) -> &'static str {
        if self.is_done { "rolled-back" } else { "failed" }
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes references")]
fn is_false(value: &bool) -> bool {
    !*value
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes references")]
fn is_usual_probation(seconds: &u64) -> bool {
    *seconds == USUAL_PROBATION
}

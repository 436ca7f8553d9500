//! `telemetry` of a listener: access to the metrics without a token, with the names of Vault.

use super::section::{ConfigSection, ConfigValue, SectionWords};
use super::vault;

/// Name of the block.
pub(super) const BLOCK: &str = "telemetry";

const WORDS: SectionWords = SectionWords {
    keys: &["unauthenticated_metrics_access"],
    blocks: &[],
    foreign: vault::LISTENER_TELEMETRY,
};

/// Returns whether the listener answers `sys/metrics` without a token.
pub(super) fn opens_metrics(listener: &ConfigSection<'_>) -> bool {
    let Some(block) = listener.unlabelled_block(BLOCK) else { return false };
    let access = block.section(&WORDS).read("unauthenticated_metrics_access", ConfigValue::flag);
    access.unwrap_or(false)
}

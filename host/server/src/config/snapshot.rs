//! `snapshot "NAME" { schedule path retain }`: snapshots that the server takes by itself.

use super::Config;
use super::findings::ConfigError;
use super::section::{ConfigSection, ConfigValue, LabelledBlock, SectionWords};
use super::vault;
use bulkhead_core::snapshots::{
    MAX_RETAINED_SNAPSHOTS, MAX_SNAPSHOT_BLOCKS, ScheduledSnapshot, SnapshotName, SnapshotSchedule,
};
use bulkhead_wire::failure::{Failure, quoted};

const WORDS: SectionWords =
    SectionWords { keys: &["schedule", "path", "retain"], blocks: &[], foreign: vault::SNAPSHOT };

/// Reads the blocks, in order.
pub(super) fn settings(file: &ConfigSection<'_>) -> Vec<ScheduledSnapshot> {
    let mut found: Vec<ScheduledSnapshot> = Vec::new();
    for (place, block) in file.blocks("snapshot").enumerate() {
        if place == MAX_SNAPSHOT_BLOCKS {
            file.refuse(block.error(format!(
                "there are more than {MAX_SNAPSHOT_BLOCKS} snapshot blocks; leave some out"
            )));
            break;
        }
        let Some(name) = file.keep(block_name(&block)) else { continue };
        if found.iter().any(|other| other.name == name) {
            file.refuse(block.error(format!(
                "snapshot {} is given before; give each block a different name",
                quoted(name.as_str())
            )));
            continue;
        }
        found.extend(scheduled(&block.section(&WORDS), name));
    }
    found
}

fn block_name(block: &LabelledBlock<'_>) -> Result<SnapshotName, ConfigError> {
    match block.labels()[..] {
        [name] => SnapshotName::parse(name).map_err(|why| block.error(why)),
        _ => Err(block.error("the block takes a name: write snapshot \"nightly\" { … }")),
    }
}

/// Reads the content of a block. `None`: an error is kept.
fn scheduled(section: &ConfigSection<'_>, name: SnapshotName) -> Option<ScheduledSnapshot> {
    let schedule = section.required("schedule", "\"0 3 * * *\"");
    let path = section.required("path", "\"/var/backups/bulkhead\"");
    let retain = section.required("retain", "7");
    let schedule = schedule.and_then(|value| section.keep(parse_schedule(&value)));
    let directory = path.and_then(|value| section.keep(value.path()));
    let retain = retain.and_then(|value| section.keep(value.count(1, MAX_RETAINED_SNAPSHOTS)));
    let retain = usize::try_from(retain?).ok()?;
    Some(ScheduledSnapshot { name, schedule: schedule?, directory: directory?, retain })
}

fn parse_schedule(value: &ConfigValue<'_>) -> Result<SnapshotSchedule, ConfigError> {
    SnapshotSchedule::parse(value.text()?).map_err(|why| value.error(why))
}

impl Config {
    /// Checks the directories of the scheduled snapshots.
    ///
    /// # Errors
    /// The reason why the first unusable directory cannot be used, and the remedy.
    pub(crate) fn check_snapshot_directories(&self) -> Result<(), Failure> {
        self.snapshots.iter().try_for_each(|plan| plan.check_directory(&self.data))
    }
}

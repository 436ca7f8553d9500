//! All metrics of the host: the groups, and the collection of their series.
//!
//! `docs/observability.md` has a table for each group, which the test below writes and compares.

use super::family::MetricFamilies;
use super::registration::MetricGroup;
use super::{
    audit, components, due_work, leases, lifecycle, limits, listeners, log, mounts, process,
    requests, service, snapshots, store, targets, traces,
};
use bulkhead_core::Core;
use bulkhead_core::process::ProcessState;
use bulkhead_wire::failure::Failure;
use std::collections::BTreeSet;

const GROUPS: [&MetricGroup; 16] = [
    &requests::GROUP,
    &targets::GROUP,
    &leases::GROUP,
    &lifecycle::GROUP,
    &due_work::GROUP,
    &mounts::GROUP,
    &components::GROUP,
    &store::GROUP,
    &service::GROUP,
    &process::GROUP,
    &listeners::GROUP,
    &limits::GROUP,
    &audit::GROUP,
    &snapshots::GROUP,
    &log::GROUP,
    &traces::GROUP,
];

/// Returns a table in Markdown for each group, with the word of its marks on the page.
pub(super) fn tables() -> Vec<(&'static str, String)> {
    let head = "| metric | kind | labels | value | question |\n|---|---|---|---|---|\n";
    let table = |group: &&MetricGroup| {
        let rows: String = group.metrics.iter().map(|metric| metric.row()).collect();
        (group.mark, format!("{head}{rows}"))
    };
    GROUPS.iter().map(table).collect()
}

/// Returns the names of all metrics of the host.
pub(super) fn names() -> BTreeSet<&'static str> {
    GROUPS.iter().flat_map(|group| group.metrics).map(|metric| metric.name()).collect()
}

/// Adds the metrics of an open service.
///
/// # Errors
/// The store's failure.
pub(super) async fn add_open(core: &Core, families: &mut MetricFamilies) -> Result<(), Failure> {
    requests::add(core, families);
    targets::add(core, families);
    let rows = core.row_counts.read(&core.store).await?;
    leases::add(core, &rows, families).await?;
    lifecycle::add(core, &rows, families);
    due_work::add(core, families).await?;
    mounts::add(core, families).await?;
    components::add(core, families);
    store::add(core, families);
    limits::add(core, families);
    audit::add(core, families);
    snapshots::add(core, families);
    Ok(())
}

/// Adds the metrics that are shown while sealed, too; `core` is absent then. `now` is store time,
/// in milliseconds since 1970.
pub(super) fn add_process(
    process: &ProcessState,
    (core, now): (Option<&Core>, u64),
    families: &mut MetricFamilies,
) {
    let settings = &process.settings;
    service::add(core, settings, families);
    store::add_disk(process, families);
    process::add(families);
    traces::add(process, families);
    listeners::add(&settings.figures, now, families);
    limits::add_process(process, families);
    log::add(&settings.figures.log, families);
}

#[cfg(test)]
mod tests;

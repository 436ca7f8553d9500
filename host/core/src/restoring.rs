//! The preparation of a restore by an open service: a request's snapshot becomes a database beside
//! the present one, and the service replaces the data after the request.
//!
//! This file prevents a seal that waits for a restore of hours: the work ends when the service is
//! being sealed, or the process ends.

use crate::core::Core;
use bulkhead_store::{CheckedSnapshot, PreparedRestore, RestoreConditions, Store, StoreFault};
use bulkhead_wire::failure::{Failure, quoted};
use std::path::Path;
use std::sync::Arc;

/// The clusters whose snapshots a restore accepts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RestoreCheck {
    /// The cluster of the open data, which also proves that the cluster wrote the file.
    SameCluster,
    /// Any cluster: the file is as trustworthy as its sender.
    AnyCluster,
}

/// State of the service after a restore.
#[derive(Debug)]
pub enum RestoreOutcome {
    /// The service serves the restored data. Holds a warning with the next step, if there is one.
    Open(Option<String>),
    /// The data were replaced and the service is sealed. Holds the reason with the next step.
    Sealed(String),
}

/// Builds a database from the file `snapshot`. The present data stay in use until the service
/// replaces the data ([`Core::ask_restore`]).
///
/// # Errors
/// 400 if the file is not a complete snapshot, is of a newer version, or `check` refuses its
/// cluster; 503 during another restore, if the disk fails or has too little space, and if the
/// service is sealed meanwhile.
pub async fn prepare(
    core: &Core,
    snapshot: &Path,
    check: RestoreCheck,
) -> Result<PreparedRestore, Failure> {
    let directory = &core.process.directory;
    let here = directory.cluster_id().await?.unwrap_or_default();
    let (sealing, process) = (core.sealing.clone(), Arc::clone(&core.process));
    let may_continue = move || !sealing.has_begun() && !process.ending.has_begun();
    let accept = |checked: &CheckedSnapshot| match check {
        RestoreCheck::SameCluster => assert_of(checked, &core.store, &here),
        RestoreCheck::AnyCluster => Ok(()),
    };
    let conditions = RestoreConditions::any().accepting(accept).lasting_while(may_continue);
    let prepared = directory.prepare_restore(snapshot, conditions).await;
    prepared.map_err(|fault| match fault {
        StoreFault::Refused(reason) => Failure::invalid(reason),
        other => other.into(),
    })
}

/// Checks that the cluster of `store`, which has the name `here`, wrote the snapshot.
fn assert_of(checked: &CheckedSnapshot, store: &Store, here: &str) -> Result<(), StoreFault> {
    if checked.is_of(store) {
        return Ok(());
    }
    let of_snapshot = checked.manifest().cluster_id.as_str();
    let force = "sys/storage/snapshot-force (bulkhead operator snapshot restore -force)";
    Err(StoreFault::Refused(if here == of_snapshot {
        format!(
            "the snapshot names the cluster {} of this server, and the keyed hash in the file was \
             not made by this cluster: the file was changed; nothing was changed here; take \
             another copy, or, if you trust the file, restore with {force}",
            quoted(here)
        )
    } else {
        format!(
            "the snapshot is of the cluster {}, and this server has the data of the cluster {}; \
             nothing was changed; to replace all data by the data of the other cluster, restore \
             with {force}",
            quoted(of_snapshot),
            quoted(here)
        )
    }))
}

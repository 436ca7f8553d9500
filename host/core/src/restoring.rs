//! The preparation of a restore by an open service: a request's snapshot becomes a database beside
//! the present one, and the service replaces the data after the request.

use crate::core::Core;
use bulkhead_store::{PreparedRestore, StoreFault};
use bulkhead_wire::failure::{Failure, quoted};
use std::path::Path;

/// The clusters whose snapshots a restore accepts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RestoreCheck {
    /// The cluster of the open data, which also proves that the cluster wrote the file.
    SameCluster,
    /// Any cluster: the file is as trustworthy as its sender.
    AnyCluster,
}

/// Builds a database from the file `snapshot`. The present data stay in use until the service
/// replaces the data ([`Core::ask_restore`]).
///
/// # Errors
/// 400 if the file is not a complete snapshot, is of a newer version, or `check` refuses its
/// cluster; 503 during another restore, and if the disk fails.
pub async fn prepare(
    core: &Core,
    snapshot: &Path,
    check: RestoreCheck,
) -> Result<PreparedRestore, Failure> {
    let prepared = core.process.directory.prepare_restore(snapshot).await;
    let prepared = prepared.map_err(|fault| match fault {
        StoreFault::Refused(reason) => Failure::invalid(reason),
        other => other.into(),
    })?;
    if check == RestoreCheck::SameCluster && !prepared.is_of(&core.store) {
        return Err(other_cluster(core, &prepared.manifest().cluster_id).await?);
    }
    Ok(prepared)
}

async fn other_cluster(core: &Core, of_snapshot: &str) -> Result<Failure, Failure> {
    let here = core.process.directory.cluster_id().await?.unwrap_or_default();
    let force = "sys/storage/snapshot-force (bulkhead operator snapshot restore -force)";
    Ok(Failure::invalid(if here == of_snapshot {
        format!(
            "the snapshot names the cluster {} of this server, and the keyed hash in the file was \
             not made by this cluster: the file was changed; nothing was changed here; take \
             another copy, or, if you trust the file, restore with {force}",
            quoted(&here)
        )
    } else {
        format!(
            "the snapshot is of the cluster {}, and this server has the data of the cluster {}; \
             nothing was changed; to replace all data by the data of the other cluster, restore \
             with {force}",
            quoted(of_snapshot),
            quoted(&here)
        )
    }))
}

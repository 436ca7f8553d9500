//! The stored record of a mount, and the phases of its removal or move.

use super::class::MountClass;
use super::migration::UnfinishedMigration;
use super::settings::MountSettings;
use super::version::{RollbackRecord, VersionBefore};
use crate::catalog::PluginType;
use bulkhead_access::identity::AliasMount;
use bulkhead_store::{Address, IndexColumns, Record, Space, Store, StoreFault, Unit};
use bulkhead_wire::failure::Failure;
use bulkhead_wire::name::MountPath;
use bulkhead_wire::stored;
use bulkhead_wire::stored::Stored;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::sync::Arc;

/// Key prefix of mounts; the path follows.
pub(super) const PREFIX: &str = "mount/";
/// Key prefix of the target paths of moving mounts.
pub(super) const TARGET: &str = "mount-target/";
/// Key of an empty row that each write of a mount puts without reading it. Changes of different
/// mounts therefore do not conflict, and a unit that read all mounts depends on this row instead of
/// on every mount's row.
const WRITTEN: &str = "mounts-written";
/// Maximum number of tries of a phase change that conflicts with other changes of the same mount.
const MAX_RECORD_TRIES: u32 = 16;

/// The stored record of a mount.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct MountRecord {
    /// Path of the mount; the key of the record's row contains the same path.
    pub path: MountPath,
    /// The prefix of the mount's rows; stays the same when the mount moves.
    pub uuid: String,
    /// `<type>_<8 hex>`; `auth_<type>_<8 hex>` for an auth method.
    pub accessor: String,
    /// The type given when the mount was enabled.
    pub kind: String,
    /// Marks without effect, set when the mount was enabled.
    #[serde(flatten)]
    pub marks: MountMarks,
    /// Settings given at the enabling and changed by later tuning.
    #[serde(flatten)]
    pub settings: MountSettings,
    /// Version of the uploaded plugin that serves the mount. Empty for a plugin of this binary.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub version: String,
    /// Schema version of the stored data.
    pub(crate) schema: u32,
    /// `None` unless a migration from `schema` stopped between two steps.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) migration: Option<UnfinishedMigration>,
    /// The way back while the version that serves is on probation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) before_swap: Option<VersionBefore>,
    /// The last automatic rollback, for the operator to read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rollback: Option<RollbackRecord>,
    /// Progress of a removal or move; `Serving` otherwise.
    #[serde(default)]
    pub phase: MountPhase,
    /// Number of writes of this record, so that an older record never replaces a newer record in
    /// memory.
    #[serde(default)]
    pub(crate) revision: u64,
}

stored!(MountRecord, "mount", reads_stored_mounts);

/// Marks that clients may set and read, without effect: with a single kind of storage and a single
/// node, all values are equivalent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct MountMarks {
    /// Exclusion from replication; nothing is replicated to other clusters.
    pub local: bool,
    /// Extra encryption of values; every record is sealed in the same way.
    pub seal_wrap: bool,
    /// External source of randomness; this machine is the only source.
    pub external_entropy_access: bool,
}

/// The phase of a mount between serving and removed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum MountPhase {
    /// The mount answers requests.
    #[default]
    Serving,
    /// The mount answers no requests, and its leases are being ended. If a lease cannot be ended,
    /// the mount serves again.
    Ending,
    /// All leases have ended and the rows are being deleted: the removal cannot be undone.
    Erasing,
    /// The mount answers no requests and its leases are being ended; afterwards, the mount serves
    /// at `to`.
    Moving {
        /// The target path.
        to: MountPath,
        /// Id of the `MountMove` (`lifecycle/remount.rs`) that reports the move.
        migration: String,
    },
}

impl MountPhase {
    /// Returns the reason why the mount cannot be changed now; `None` while the mount serves.
    pub(crate) fn hindrance(&self) -> Option<String> {
        match self {
            Self::Serving => None,
            Self::Ending | Self::Erasing => Some("is being removed".to_owned()),
            Self::Moving { to, .. } => Some(format!("is being moved to {to}")),
        }
    }
}

impl MountRecord {
    /// Returns the row of the record, which follows from the path alone.
    pub fn address(&self) -> Address {
        address(&self.path)
    }

    /// Returns true if a migration of the stored data stopped between two steps.
    pub fn has_unfinished_migration(&self) -> bool {
        self.migration.is_some()
    }

    /// Returns the part of a request's path below the mount.
    pub fn below<'p>(&self, path: &'p str) -> &'p str {
        let rest = path.strip_prefix(self.path.as_str().trim_end_matches('/'));
        rest.unwrap_or(path).trim_start_matches('/')
    }

    /// Returns true if the mount uses this plugin.
    pub(crate) fn is_of(&self, kind: PluginType, name: &str) -> bool {
        self.kind == name && MountClass::of(&self.path).plugin_type() == kind
    }

    /// Returns the mount for aliases of entities and groups.
    pub fn for_aliases(&self) -> AliasMount {
        AliasMount {
            accessor: self.accessor.clone(),
            path: self.path.as_str().to_owned(),
            kind: self.kind.clone(),
        }
    }

    /// Writes the record into the unit, with the next revision.
    pub fn put(&mut self, unit: &mut Unit) -> Result<(), Failure> {
        self.revision += 1;
        unit.put(self.address(), self.to_bytes()?, IndexColumns::default());
        unit.put(Address::new(Space::Core, WRITTEN), Vec::new(), IndexColumns::default());
        Ok(())
    }

    /// Reads the stored mount at `path`.
    ///
    /// # Errors
    /// 500 for a row that is damaged or does not parse, 503 if the store cannot be read.
    pub async fn read(unit: &mut Unit, path: &MountPath) -> Result<Option<Self>, Failure> {
        let found = unit.get(&address(path)).await?;
        found.map(|record| Self::parse(&record, path.as_str())).transpose()
    }

    pub(super) fn parse(record: &Record, path: &str) -> Result<Self, Failure> {
        Self::from_bytes(&record.body)
            .map_err(|unreadable| unreadable.of(format_args!("the record of mount {path}")))
    }
}

/// Returns the uuids of all stored mounts, in any phase; `None` if a row is damaged or does not
/// parse, because the set would be incomplete.
pub(crate) async fn stored_uuids(unit: &mut Unit) -> Result<Option<BTreeSet<String>>, Failure> {
    let mut uuids = BTreeSet::new();
    for key in unit.keys(Space::Core, PREFIX, "", u32::MAX).await? {
        let found = match unit.get(&Address::new(Space::Core, key.as_str())).await {
            Err(StoreFault::Damaged(_)) => return Ok(None),
            found => found?,
        };
        let Some(Ok(record)) = found.map(|record| MountRecord::parse(&record, &key)) else {
            return Ok(None);
        };
        uuids.insert(record.uuid);
    }
    Ok(Some(uuids))
}

/// Returns the path of a stored mount, in any phase, that this version of a plugin serves. A mount
/// without a version was stored by an earlier release, and counts. A mount with a damaged row does
/// not count, because its type is unknown. A mount that is written meanwhile is a conflict of the
/// unit.
pub(crate) async fn stored_of(
    store: &Arc<Store>,
    unit: &mut Unit,
    kind: PluginType,
    (name, version): (&str, &str),
) -> Result<Option<MountPath>, Failure> {
    let is_served = |record: &MountRecord| record.version.is_empty() || record.version == version;
    find_stored(store, unit, |record| record.is_of(kind, name) && is_served(record)).await
}

/// Returns the path of a stored mount that signs with this OIDC key. A mount with a damaged row
/// does not count. A mount that is written meanwhile is a conflict of the unit.
pub async fn stored_with_identity_token_key(
    store: &Arc<Store>,
    unit: &mut Unit,
    name: &str,
) -> Result<Option<MountPath>, Failure> {
    find_stored(store, unit, |record| record.settings.identity_token_key == name).await
}

async fn find_stored(
    store: &Arc<Store>,
    unit: &mut Unit,
    is_wanted: impl Fn(&MountRecord) -> bool,
) -> Result<Option<MountPath>, Failure> {
    // Read before the first mount: a mount that is written from here on is a conflict of the unit.
    unit.get(&Address::new(Space::Core, WRITTEN)).await?;
    let mut scan = store.scan(Space::Core, PREFIX);
    while let Some(page) = scan.page().await? {
        for address in page {
            let found = match store.begin().get(&address).await {
                Err(StoreFault::Damaged(_)) => continue,
                found => found?,
            };
            let record = found.and_then(|record| MountRecord::parse(&record, &address.key).ok());
            if let Some(record) = record.filter(&is_wanted) {
                return Ok(Some(record.path));
            }
        }
    }
    Ok(None)
}

/// Returns the row of the mount at `path`.
pub(crate) fn address(path: &MountPath) -> Address {
    Address::new(Space::Core, format!("{PREFIX}{path}"))
}

/// Returns the row that reserves `path` for a moving mount. The body is the mount's uuid.
pub(crate) fn target(path: &MountPath) -> Address {
    Address::new(Space::Core, format!("{TARGET}{path}"))
}

/// Stores the next phase of the mount at `path`, if `may` accepts the stored phase. Uses a separate
/// commit, and retries if another change of the mount came first.
///
/// # Errors
/// 400 if the mount does not exist any more, or is in another phase by now; the store's failure.
pub(crate) async fn put_phase(
    store: &Arc<Store>,
    path: &MountPath,
    next: MountPhase,
    may: impl Fn(&MountPhase) -> bool,
) -> Result<MountRecord, Failure> {
    let mut turn = 1;
    loop {
        let mut unit = store.begin();
        let found = MountRecord::read(&mut unit, path).await?;
        let gone = || {
            Failure::invalid(format!(
                "the mount at {path} was changed meanwhile; look at the mount and try again"
            ))
        };
        let mut record = found.filter(|record| may(&record.phase)).ok_or_else(gone)?;
        record.phase = next.clone();
        record.put(&mut unit)?;
        match unit.commit().await {
            Err(StoreFault::Conflict) if turn < MAX_RECORD_TRIES => turn += 1,
            committed => return Ok(committed.map(|_| record)?),
        }
    }
}

#[cfg(test)]
mod tests;

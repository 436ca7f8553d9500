//! A mount as it is stored, and the steps on its way out or elsewhere.

use super::class::Class;
use super::settings::Settings;
use super::version::{Rollback, VersionBefore};
use crate::catalog::PluginType;
use crate::identity::AliasMount;
use bulkhead_store::{Address, Index, Record, Space, Store, StoreFault, Unit};
use bulkhead_wire::failure::Failure;
use bulkhead_wire::name::MountPath;
use bulkhead_wire::stored;
use bulkhead_wire::stored::Stored;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::sync::Arc;

/// Of the keys of mounts; the path follows.
pub(super) const PREFIX: &str = "mount/";
/// Of the keys of paths to which a mount is on its way.
pub(super) const TARGET: &str = "mount-target/";
/// The row that each write of a mount puts, without having read it and with nothing in it: those
/// who change different mounts are not in each other's way, and a unit that looked at all mounts
/// relies on this row instead of on each of them, however many there are.
const WRITTEN: &str = "mounts-written";
/// How often a change is tried against others of the same mount.
const TURNS: u32 = 16;

/// A mount as it is stored.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct MountRecord {
    pub(crate) path: MountPath,
    /// The prefix of its rows; stays when the mount moves.
    pub(crate) uuid: String,
    /// `<type>_<8 hex>`; `auth_<type>_<8 hex>` for an auth method.
    pub(crate) accessor: String,
    /// The type as it was enabled.
    pub(crate) kind: String,
    #[serde(flatten)]
    pub(crate) marks: Marks,
    #[serde(flatten)]
    pub(crate) settings: Settings,
    /// Version of the uploaded plugin that serves the mount. Empty for a plugin of this binary.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub(crate) version: String,
    /// Version of the stored data's shape.
    pub(crate) schema: u32,
    /// The way back while the version that serves is on probation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) before_swap: Option<VersionBefore>,
    /// The last automatic rollback, for the operator to read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) rollback: Option<Rollback>,
    #[serde(default)]
    pub(crate) phase: Phase,
    /// Counts the writes of this record, so that an older one never takes the place of a newer one
    /// in memory.
    #[serde(default)]
    pub(crate) revision: u64,
}

stored!(MountRecord, "mount", reads_stored_mounts);

/// What clients may ask of a mount and get told again: on one kind of storage and one node, each is
/// as good as the other.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Marks {
    pub(crate) local: bool,
    pub(crate) seal_wrap: bool,
    pub(crate) external_entropy_access: bool,
}

/// Where a mount stands between being there and being gone.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Phase {
    /// It answers requests.
    #[default]
    Serving,
    /// It answers none, and its leases are being ended. Where one cannot be ended, it serves again.
    Ending,
    /// Its leases ended and its rows are being deleted: there is no way back.
    Erasing,
    /// It answers none, its leases are being ended, and then it serves at `to`.
    Moving {
        /// Where it goes.
        to: MountPath,
        /// Id of the `Migration` (`lifecycle/remount.rs`) that tells of it.
        migration: String,
    },
}

impl Phase {
    /// Why it cannot be changed now; `None` while it serves.
    pub(crate) fn hindrance(&self) -> Option<String> {
        match self {
            Self::Serving => None,
            Self::Ending | Self::Erasing => Some("is being removed".to_owned()),
            Self::Moving { to, .. } => Some(format!("is being moved to {to}")),
        }
    }
}

impl MountRecord {
    pub(crate) fn address(&self) -> Address {
        address(&self.path)
    }

    /// What the path of one of its requests goes on with below the mount.
    pub(crate) fn below<'p>(&self, path: &'p str) -> &'p str {
        let rest = path.strip_prefix(self.path.as_str().trim_end_matches('/'));
        rest.unwrap_or(path).trim_start_matches('/')
    }

    /// Whether it is a mount of that plugin.
    pub(crate) fn is_of(&self, kind: PluginType, name: &str) -> bool {
        self.kind == name && Class::of(&self.path).plugin_type() == kind
    }

    /// As the aliases of entities and groups name it.
    pub(crate) fn for_aliases(&self) -> AliasMount {
        AliasMount {
            accessor: self.accessor.clone(),
            path: self.path.as_str().to_owned(),
            kind: self.kind.clone(),
        }
    }

    /// Writes the record, which is newer than the one there, into the unit.
    pub(crate) fn put(&mut self, unit: &mut Unit) -> Result<(), Failure> {
        self.revision += 1;
        unit.put(self.address(), self.to_bytes()?, Index::default());
        unit.put(Address::new(Space::Core, WRITTEN), Vec::new(), Index::default());
        Ok(())
    }

    /// The stored mount at `path`.
    ///
    /// # Errors
    /// 500 for a row that does not open or does not parse, 503 when the store cannot be read.
    pub(crate) async fn read(unit: &mut Unit, path: &MountPath) -> Result<Option<Self>, Failure> {
        let found = unit.get(&address(path)).await?;
        found.map(|record| Self::parse(&record, path.as_str())).transpose()
    }

    pub(super) fn parse(record: &Record, path: &str) -> Result<Self, Failure> {
        Self::from_bytes(&record.body)
            .map_err(|unreadable| unreadable.of(format_args!("the record of mount {path}")))
    }
}

/// The uuids of all mounts that are stored, whether they serve or not; `None` when one does not
/// open, so that they are not all known.
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

/// The path of some stored mount that this version of a plugin serves, in any phase. A mount
/// without a version was stored by an earlier release, and counts. The type of a mount whose row
/// does not open cannot be known, so that such a mount hinders nothing. A mount that is added
/// meanwhile is a conflict of the unit.
pub(crate) async fn stored_of(
    store: &Arc<Store>,
    unit: &mut Unit,
    kind: PluginType,
    (name, version): (&str, &str),
) -> Result<Option<MountPath>, Failure> {
    let is_served = |record: &MountRecord| record.version.is_empty() || record.version == version;
    find_stored(store, unit, |record| record.is_of(kind, name) && is_served(record)).await
}

/// The path of some stored mount for which the OIDC key of that name signs. Of a mount whose row
/// does not open it cannot be known. The unit relies on it, as above.
pub(crate) async fn stored_with_identity_token_key(
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
    // Before the first mount is looked at: one that is written from here on spoils the unit.
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

/// The row of the mount at `path`.
pub(super) fn address(path: &MountPath) -> Address {
    Address::new(Space::Core, format!("{PREFIX}{path}"))
}

/// The row that keeps `path` free for a mount on its way there. Its body is the mount's uuid.
pub(crate) fn target(path: &MountPath) -> Address {
    Address::new(Space::Core, format!("{TARGET}{path}"))
}

/// Stores the next phase of the mount at `path`, if `may` follow the stored one. In a commit of its
/// own, and again where another change of the mount came first.
///
/// # Errors
/// 400 when there is no such mount any more, or it is in another phase by now; the store's failure.
pub(crate) async fn put_phase(
    store: &Arc<Store>,
    path: &MountPath,
    next: Phase,
    may: impl Fn(&Phase) -> bool,
) -> Result<MountRecord, Failure> {
    let mut turn = 1;
    loop {
        let mut unit = store.begin();
        let found = MountRecord::read(&mut unit, path).await?;
        let gone = || {
            Failure::invalid(format!(
                "the mount at {path} was changed meanwhile; look at it and try again"
            ))
        };
        let mut record = found.filter(|record| may(&record.phase)).ok_or_else(gone)?;
        record.phase = next.clone();
        record.put(&mut unit)?;
        match unit.commit().await {
            Err(StoreFault::Conflict) if turn < TURNS => turn += 1,
            committed => return Ok(committed.map(|_| record)?),
        }
    }
}

#[cfg(test)]
mod tests;

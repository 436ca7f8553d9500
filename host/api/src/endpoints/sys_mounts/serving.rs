//! Entries of the mount listings: engines, auth methods, and the parts of the server.

use super::info;
use bulkhead_access::lifetimes::Lifetimes;
use bulkhead_core::Core;
use bulkhead_core::mounts::{
    BuiltinMount, Mount, MountClass, MountPhase, MountRecord, MountStatus, RunningPlugin,
    UnavailableMount,
};
use bulkhead_wire::failure::Failure;
use serde_json::{Map, Value};
use std::sync::Arc;

/// An entry of a mount listing.
pub(crate) enum MountListingEntry {
    Mount(Arc<Mount>),
    Builtin(BuiltinMount, Arc<MountRecord>),
    Unavailable(Box<UnavailableMount>),
}

/// Returns the serving mounts of a class, with the built-in parts of the server.
pub(crate) fn serving(core: &Core, class: MountClass) -> Vec<MountListingEntry> {
    let builtins = BuiltinMount::ALL
        .into_iter()
        .map(|which| MountListingEntry::Builtin(which, core.mounts.builtin(which)));
    let mounts = core
        .mounts
        .all()
        .into_iter()
        .filter(|mount| mount.record.phase == MountPhase::Serving)
        .map(MountListingEntry::Mount);
    let unavailable = core.mounts.list_unavailable().into_iter();
    let unavailable = unavailable.filter(|mount| mount.record.phase == MountPhase::Serving);
    let unavailable = unavailable.map(|mount| MountListingEntry::Unavailable(Box::new(mount)));
    builtins
        .chain(mounts)
        .chain(unavailable)
        .filter(|one| MountClass::of(&one.record().path) == class)
        .collect()
}

impl MountListingEntry {
    /// Returns the serving entry with the listed path `path`.
    ///
    /// # Errors
    /// 400 if there is no such entry, in the words that clients match on.
    pub(super) fn at(core: &Core, class: MountClass, path: &str) -> Result<Self, Failure> {
        let path = format!("{}/", path.trim_end_matches('/'));
        let found = serving(core, class).into_iter().find(|one| one.record().path.listed() == path);
        found.ok_or_else(|| absent(class, &path))
    }

    pub(crate) fn record(&self) -> &MountRecord {
        match self {
            Self::Mount(mount) => &mount.record,
            Self::Builtin(_, record) => record,
            Self::Unavailable(mount) => &mount.record,
        }
    }

    /// Returns the part of the server that the entry shows.
    pub(super) fn builtin(&self) -> Option<BuiltinMount> {
        match self {
            Self::Builtin(which, _) => Some(*which),
            Self::Mount(_) | Self::Unavailable(_) => None,
        }
    }

    pub(super) fn running(&self) -> RunningPlugin<'_> {
        match self {
            Self::Mount(mount) => mount.running(),
            Self::Builtin(..) => BuiltinMount::running(),
            Self::Unavailable(mount) => RunningPlugin::waiting_for(&mount.record.version),
        }
    }

    /// Returns the object that tuning reads.
    pub(super) fn effective_config(&self, system: Lifetimes) -> Map<String, Value> {
        info::effective_config(self.record(), self.running(), system)
    }

    /// Returns the condition of the mount at the store time `now`, in milliseconds.
    fn status(&self, now: u64) -> Option<MountStatus> {
        match self {
            Self::Mount(mount) => mount.status(now),
            Self::Builtin(..) => None,
            Self::Unavailable(mount) => Some(mount.status(now)),
        }
    }

    /// Returns the object of decision H13 at the store time `now`, in milliseconds.
    pub(crate) fn info(&self, now: u64) -> Map<String, Value> {
        let mut info = info::info(self.record(), self.running());
        info.extend(info::status_members(self.status(now)));
        if let Self::Unavailable(mount) = self {
            info.insert("deprecation_status".to_owned(), "unavailable".into());
            info.insert("unavailable_reason".to_owned(), mount.why.clone().into());
        }
        info
    }
}

/// The error 400 for a path without a mount.
pub(super) fn absent(class: MountClass, path: &str) -> Failure {
    Failure::invalid(match class {
        MountClass::Secret => format!("No secret engine mount at {path}"),
        MountClass::Auth => format!("No auth engine at {path}"),
    })
}

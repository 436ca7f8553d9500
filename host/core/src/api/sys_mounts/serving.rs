//! What is listed as a mount: engines, auth methods, and the parts of the server.

use super::info;
use crate::core::Core;
use crate::lifetimes::Lifetimes;
use crate::mounts::{Builtin, Class, Mount, MountRecord, Phase, Running};
use bulkhead_wire::failure::Failure;
use serde_json::{Map, Value};
use std::sync::Arc;

/// Something that is listed as a mount.
pub(crate) enum Serving {
    Mount(Arc<Mount>),
    Builtin(Builtin, Arc<MountRecord>),
}

/// The mounts of a class that serve, the parts of the server among them, with what runs behind
/// them.
pub(crate) fn serving(core: &Core, class: Class) -> Vec<Serving> {
    let builtins =
        Builtin::ALL.into_iter().map(|which| Serving::Builtin(which, core.mounts.builtin(which)));
    let mounts = core
        .mounts
        .all()
        .into_iter()
        .filter(|mount| mount.record.phase == Phase::Serving)
        .map(Serving::Mount);
    builtins.chain(mounts).filter(|one| Class::of(&one.record().path) == class).collect()
}

impl Serving {
    /// What is at `path`, as it stands in a listing, and serves.
    ///
    /// # Errors
    /// 400 in the words that clients look for.
    pub(super) fn at(core: &Core, class: Class, path: &str) -> Result<Self, Failure> {
        let path = format!("{}/", path.trim_end_matches('/'));
        let found = serving(core, class).into_iter().find(|one| one.record().path.listed() == path);
        found.ok_or_else(|| absent(class, &path))
    }

    pub(crate) fn record(&self) -> &MountRecord {
        match self {
            Self::Mount(mount) => &mount.record,
            Self::Builtin(_, record) => record,
        }
    }

    pub(super) fn running(&self) -> Running<'_> {
        match self {
            Self::Mount(mount) => mount.running(),
            Self::Builtin(..) => Builtin::running(),
        }
    }

    /// What tuning reads.
    pub(super) fn effective_config(&self, system: Lifetimes) -> Map<String, Value> {
        info::effective_config(self.record(), self.running(), system)
    }

    /// The object of decision H13.
    pub(crate) fn info(&self) -> Map<String, Value> {
        info::info(self.record(), self.running())
    }
}

/// 400: there is no mount at the path.
pub(super) fn absent(class: Class, path: &str) -> Failure {
    Failure::invalid(match class {
        Class::Secret => format!("No secret engine mount at {path}"),
        Class::Auth => format!("No auth engine at {path}"),
    })
}

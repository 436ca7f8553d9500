//! Moving a mount to another path. The rows stay in place; the leases end, because a lease id
//! begins with the path.
//!
//! This file prevents a mount at two paths, or at none, after a crash during a move. Both paths are
//! reserved for the mount from the first commit to the last, and the status of the move is stored
//! in the same commits.

use super::attempts::lost_a_race;
use super::ending::{
    claim_stopped, end_leases, end_requests, end_unavailable, in_background, log_and_pause,
};
use crate::core::Core;
use crate::mounts::{MountClass, MountPhase, MountRecord, Mounts, target};
use bulkhead_access::log::cause;
use bulkhead_access::random;
use bulkhead_store::{Address, IndexColumns, Record, Space, Store, Unit};
use bulkhead_wire::failure::{Failure, FailureKind};
use bulkhead_wire::log_level::LogLevel;
use bulkhead_wire::name::MountPath;
use bulkhead_wire::stored;
use bulkhead_wire::stored::Stored;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

const PREFIX: &str = "migration/";
/// Time after which the status of an ended move is deleted, in milliseconds.
const STATUS_LIFETIME: u64 = 24 * 60 * 60 * 1000;

/// The status of a move.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum MoveStatus {
    /// The mount serves at neither path.
    InProgress,
    /// The mount serves at the target.
    Success,
    /// The mount serves at the source again.
    Failure,
}

impl MoveStatus {
    /// Returns the word of the API.
    pub fn word(self) -> &'static str {
        match self {
            Self::InProgress => "in-progress",
            Self::Success => "success",
            Self::Failure => "failure",
        }
    }
}

/// A stored move.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct MountMove {
    /// Path before the move, and again after a failed move.
    pub source: MountPath,
    /// Path after the move, reserved for the mount until the move ends.
    pub target: MountPath,
    /// Outcome of the move; [`MoveStatus::InProgress`] until the mount serves again.
    pub status: MoveStatus,
    /// Store time, in milliseconds.
    began: u64,
    /// The reason of a failure; empty otherwise.
    pub error: String,
}

stored!(MountMove, "migration", reads_stored_migrations);

impl MountMove {
    fn put(&self, unit: &mut Unit, id: &str) -> Result<(), Failure> {
        unit.put(address(id), self.to_bytes()?, IndexColumns::default());
        Ok(())
    }

    /// Returns the status for clients, who read the mounts next: the move `id` is in progress until
    /// the table of mounts follows the commit of its end.
    pub fn visible_status(&self, id: &str, mounts: &Mounts) -> MoveStatus {
        let is_moving = mounts.record_at(&self.source).is_some_and(|found| match &found.phase {
            MountPhase::Moving { migration, .. } => migration == id,
            _ => false,
        });
        if is_moving { MoveStatus::InProgress } else { self.status }
    }

    /// Returns the move with the id `id`, or `None` if there is no such move or its status was
    /// deleted.
    ///
    /// # Errors
    /// 500 if the row cannot be opened or parsed, 503 if the store cannot be read.
    pub async fn read(unit: &mut Unit, id: &str) -> Result<Option<Self>, Failure> {
        let found = unit.get(&address(id)).await?;
        let parse = |record: Record| Self::from_bytes(&record.body);
        found.map(parse).transpose().map_err(|unreadable| unreadable.of("the status of a move"))
    }
}

fn address(id: &str) -> Address {
    Address::new(Space::Core, format!("{PREFIX}{id}"))
}

/// Writes the move of the mount at `from` to `to` into the unit, and deletes the statuses of old
/// moves. Returns the move's id and the record of the mount. After the commit, [`carry_out`]
/// carries out the move.
///
/// # Errors
/// 400 if there is no mount at `from`, the mount is being moved or removed already, or it cannot be
/// at `to`.
pub async fn begin(
    mounts: &Mounts,
    store: &Store,
    unit: &mut Unit,
    (from, to): (&MountPath, &MountPath),
) -> Result<(String, MountRecord), Failure> {
    if MountClass::of(from) != MountClass::of(to) {
        return Err(Failure::invalid(format!(
            "{from} cannot be moved to {to}: an auth method stays below auth/, and a secrets \
             engine outside of auth/"
        )));
    }
    let found = MountRecord::read(unit, from).await?;
    let mut record =
        found.ok_or_else(|| Failure::invalid(format!("nothing is mounted at {from}")))?;
    if let Some(why) = record.phase.hindrance() {
        return Err(Failure::invalid(format!("{from} {why}; wait for the end")));
    }
    if let Some(unfinished) = &record.migration {
        return Err(Failure::invalid(format!(
            "the data of {from} are between schema {} and schema {}; let a version finish the \
             migration, then move the mount, or disable it",
            record.schema, unfinished.to
        )));
    }
    mounts.check_free(unit, to).await?;
    forget_old(store, unit).await?;
    let id = random::uuid()?;
    record.phase = MountPhase::Moving { to: to.clone(), migration: id.clone() };
    record.put(unit)?;
    unit.put(target(to), record.uuid.clone().into_bytes(), IndexColumns::default());
    let (source, target) = (from.clone(), to.clone());
    let migration = MountMove {
        source,
        target,
        status: MoveStatus::InProgress,
        began: store.now(),
        error: String::new(),
    };
    migration.put(unit, &id)?;
    Ok((id, record))
}

/// Deletes the statuses of moves that ended long ago.
async fn forget_old(store: &Store, unit: &mut Unit) -> Result<(), Failure> {
    for key in unit.keys(Space::Core, PREFIX, "", u32::MAX).await? {
        let address = Address::new(Space::Core, key);
        // An unreadable status must not keep the mount from being moved.
        let found = unit.get_undamaged(&address).await?;
        let is_old =
            |migration: &MountMove| migration.began.saturating_add(STATUS_LIFETIME) < store.now();
        let ended = |migration: &MountMove| migration.status != MoveStatus::InProgress;
        if found
            .as_ref()
            .and_then(|record| MountMove::from_bytes(&record.body).ok())
            .is_some_and(|migration| is_old(&migration) && ended(&migration))
        {
            unit.delete(address);
        }
    }
    Ok(())
}

/// Carries out the move of the mount `uuid` to the path in the record, in a separate task. An
/// interrupted move is carried out after the next unsealing.
pub(crate) fn carry_out(core: &Arc<Core>, uuid: &str) {
    let work = carry_out_move(Arc::clone(core), uuid.to_owned());
    if let Err(failure) = in_background(core, work) {
        core.log.line(
            LogLevel::Warn,
            "mount-move-delayed",
            &[("mount", uuid.to_owned()), cause(&failure)],
        );
    }
}

async fn carry_out_move(core: Arc<Core>, uuid: String) {
    let Some(record) = core.mounts.record_of(&uuid) else { return };
    let _claimed = loop {
        match claim_stopped(&core, &record).await {
            Ok(claimed) => break claimed,
            Err(failure) => {
                if !log_and_pause(&core, &record, "move-delayed", failure).await {
                    return;
                }
            }
        }
    };
    // Another node may have carried out the move before this node had the claim.
    if core.mounts.record_of(&uuid).is_none_or(|now| now.phase != record.phase) {
        return;
    }
    let ended = match core.mounts.by_uuid(&uuid) {
        Some(mount) => {
            let _timers = end_requests(&core, &mount).await;
            end_leases(&core, &mount).await
        }
        None => end_unavailable(&core, &uuid).await,
    };
    if ended.is_err() && core.sealing.has_begun() {
        // Interrupted by sealing, which is not a failure of the move: the next unsealing goes on. A
        // lease whose end was interrupted fails with a separate message.
        return;
    }
    while let Err(failure) = arrive(&core, &record.path, ended.as_ref().err()).await {
        // A record changed concurrently. Neither path is served until this is stored.
        let goes_on = lost_a_race(&failure) && !core.sealing.has_begun();
        if !goes_on && !log_and_pause(&core, &record, "move-delayed", failure).await {
            return;
        }
    }
}

/// Stores the path at which the mount serves from now on: the target, or the source if a lease
/// could not be ended.
async fn arrive(
    core: &Arc<Core>,
    from: &MountPath,
    failed: Option<&Failure>,
) -> Result<(), Failure> {
    let mut unit = core.store.begin();
    let Some(mut record) = MountRecord::read(&mut unit, from).await? else {
        return Ok(());
    };
    let MountPhase::Moving { to, migration: id } = record.phase.clone() else { return Ok(()) };
    let status = if failed.is_some() { MoveStatus::Failure } else { MoveStatus::Success };
    if failed.is_none() {
        unit.delete(record.address());
        record.path = to.clone();
    }
    record.phase = MountPhase::Serving;
    record.put(&mut unit)?;
    unit.delete(target(&to));
    let status_row = match MountMove::read(&mut unit, &id).await {
        // An unreadable status must not keep the mount from being moved.
        Err(unreadable) if unreadable.kind == FailureKind::Internal => None,
        found => found?,
    };
    if let Some(migration) = status_row {
        let error = failed.map(|failure| failure.message.clone()).unwrap_or_default();
        MountMove { status, error, ..migration }.put(&mut unit, &id)?;
    }
    unit.commit().await?;
    let pairs =
        [("mount", from.to_string()), ("to", to.to_string()), ("status", status.word().to_owned())];
    core.log.line(LogLevel::Info, "mount-moved", &pairs);
    core.mounts.update(record, &core.catalog)
}

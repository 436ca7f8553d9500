//! Mounts: the table of paths and engines, and the only access to a component.

mod accessor;
pub(crate) mod api_version;
mod breaker;
mod builtin;
mod change;
mod class;
mod due_writes;
mod enable;
mod gate;
mod holders;
pub(crate) mod instance_reuse;
mod migration;
mod mount;
mod record;
mod rights;
mod settings;
mod table;
mod unavailable;
mod version;
mod waiting;

pub(crate) use breaker::BreakerPass;
pub(crate) use builtin::BuiltinMount;
pub(crate) use change::MountChange;
pub(crate) use class::MountClass;
pub(crate) use enable::NewMount;
pub(crate) use gate::{ClosedGate, GateEntry, PausedGate};
pub(crate) use holders::LeaseHolder;
pub(crate) use migration::UnfinishedMigration;
pub(crate) use mount::{Mount, OpenedMount, RunningPlugin};
pub(crate) use record::{
    MountMarks, MountPhase, MountRecord, put_phase, stored_of, stored_uuids,
    stored_with_identity_token_key, target,
};
pub(crate) use rights::default_grants;
pub(crate) use settings::{ListingVisibility, LoginTokenType, MountSettings};
pub(crate) use table::{MountEntryOutcome, Mounts};
pub(crate) use unavailable::UnavailableMount;
pub(crate) use version::{
    RollbackMode, RollbackRecord, VersionBefore, VersionSelection, VersionSwap,
};

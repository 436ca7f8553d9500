//! Mounts: the table of paths and engines, and the only access to a component.

mod accessor;
pub mod api_version;
mod breaker;
mod builtin;
mod change;
mod class;
mod due_writes;
mod enable;
mod gate;
mod holders;
pub mod instance_reuse;
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
pub use builtin::BuiltinMount;
pub use change::MountChange;
pub use class::MountClass;
pub use enable::NewMount;
pub use gate::{ClosedGate, GateEntry, PausedGate};
pub use holders::LeaseHolder;
pub(crate) use migration::UnfinishedMigration;
pub use mount::{Mount, OpenedMount, RunningPlugin};
pub use record::{MountMarks, MountPhase, MountRecord, stored_with_identity_token_key};
pub(crate) use record::{put_phase, stored_of, stored_uuids, target};
pub use rights::default_grants;
pub use settings::{ListingVisibility, LoginTokenType, MountSettings};
pub use table::{MountEntryOutcome, Mounts};
pub use unavailable::UnavailableMount;
pub use version::{RollbackMode, RollbackRecord, VersionBefore, VersionSelection, VersionSwap};

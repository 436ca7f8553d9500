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

pub(crate) use breaker::Pass;
pub(crate) use builtin::Builtin;
pub(crate) use change::Change;
pub(crate) use class::Class;
pub(crate) use enable::NewMount;
pub(crate) use gate::{Closed, Inside, Paused};
pub(crate) use holders::Holder;
pub(crate) use migration::UnfinishedMigration;
pub(crate) use mount::{Mount, Opened, Running};
pub(crate) use record::{
    Marks, MountRecord, Phase, put_phase, stored_of, stored_uuids, stored_with_identity_token_key,
    target,
};
pub(crate) use rights::usual;
pub(crate) use settings::{Settings, TokenType, Visibility};
pub(crate) use table::{Entrance, Mounts};
pub(crate) use unavailable::UnavailableMount;
pub(crate) use version::{Rollback, RollbackMode, Swap, VersionBefore};

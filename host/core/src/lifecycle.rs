//! Changes of state over time: opening and sealing the service, ending leases and tokens,
//! disabling, moving, migrating, reloading, reviving and swapping mounts, and the effects of a
//! commit.
//!
//! These functions reach the other modules through [`Core`](crate::core::Core) and fix the order of
//! the changes. They do not know requests: `api` and the pipeline call them.

mod after_commit;
mod attempts;
mod claim_mount;
mod compile_missing;
mod deregister;
mod disable;
mod due_work;
mod end_lease;
mod end_token;
mod ending;
mod erase;
mod follow_nodes;
mod foreign_migration;
mod lane_answers;
mod leave_groups;
mod migrate;
mod open;
mod provision_dev;
mod put_version;
mod release;
mod reload;
pub mod remount;
mod renew_lease;
mod renew_login;
mod resume;
mod revive;
mod swap;
mod take_snapshots;
mod upgrade_api;
mod wake_timer;
mod watch_health;
mod watch_seal;

pub use after_commit::{apply_audit_change, apply_catalog_change, apply_mount_change};
pub use attempts::CallAttempts;
pub use deregister::{DependentTreatment, PluginRemoval, RemovalOutcome, deregister};
pub use disable::disable;
pub use end_lease::end_lease;
pub use follow_nodes::catch_up;
pub use foreign_migration::outwait_foreign_migration;
pub use leave_groups::let_members_leave;
pub(crate) use open::{SEAL_PATIENCE, begin_due_work, open, stop};
pub(crate) use provision_dev::provision_dev;
pub use provision_dev::untouched_default;
pub use release::release;
pub use reload::{ReloadTargets, reload};
pub use renew_lease::renew_lease;
pub use renew_login::renew_login;
pub use swap::check_schema;

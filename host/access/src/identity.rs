//! Identity: the person or machine behind logins, and its groups.
//!
//! Auth methods know an [`Entity`] by its aliases: an alias (a name at a mount) belongs to a single
//! entity as long as the alias exists. Groups contain entities and other groups; the auth method
//! decides who is in an external group. A token refers to its entity, and the present rights of the
//! entity and its groups count in every decision about the token ([`entity_context`]).
//!
//! Every lookup reads records by key ([`index`]): neither a login nor a request scans all entities
//! or all groups. This module knows neither tokens nor the content of policies.
//!
//! This file prevents two entities for the same alias, which would give a caller the rights of two:
//! the login reads and writes the alias in its own unit of work, so the second of two concurrent
//! first logins fails with a conflict and is retried. This file also prevents a caller from keeping
//! rights after removal from a group, or after its entity was disabled or deleted: nothing is
//! cached besides the stored records. A token uses the groups and alias metadata of its own login,
//! never of another login ([`proof`]).

mod alias;
mod alias_change;
mod bounds;
mod change;
pub mod entity;
mod entity_context;
pub mod group;
mod hierarchy;
mod index;
pub mod membership;
mod merge;
mod mount_gone;
mod names;
mod proof;
mod sign_in;
mod visible;

pub use alias::{Alias, AliasMount};
pub use alias_change::{
    AliasChange, change_entity_alias, change_group_alias, delete_entity_alias, delete_group_alias,
};
pub use change::{GroupChange, IdentityChange, change_entity, change_group, delete_group};
pub use entity::Entity;
pub use entity_context::{
    EntityContext, EntityGroups, entity_in_force, groups_of, is_in_force, read_entity_context,
};
pub use group::{Group, GroupKind};
pub use index::{count_entities, count_groups};
pub use merge::{EntityMerge, merge};
pub use mount_gone::forget_mount;
pub use proof::LoginProof;
pub use sign_in::{ProvenAlias, SignedInEntity, sign_in};
pub use visible::{EntityViewer, read_visible};

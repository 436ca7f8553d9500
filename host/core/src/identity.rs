//! Identity: the one person or machine behind logins, and the groups that it is in.
//!
//! An [`Entity`] is known to auth methods by its aliases: one name at one mount is one entity, for
//! as long as the alias stands. Groups hold entities and other groups; an external group holds
//! those whom an auth method says to be in it. A token names its entity, and what entity and groups
//! may do counts in every decision about the token, as it is at that moment ([`standing`]).
//!
//! Each question is answered by reading records by their keys ([`index`]): neither a login nor a
//! request looks through all entities or all groups. Never knows tokens, nor what a policy says.
//!
//! The attacks these files stop: two entities for one alias, which would give one caller the rights
//! of two (the alias is read and written in the login's own unit of work, so that of two first
//! logins one begins anew); and a caller who stays what it was after it was taken out of a group,
//! disabled or deleted (nothing of it is kept besides what is stored). A token uses
//! the groups and alias metadata of its own login, never those of another login ([`proof`]).

mod alias;
mod alias_change;
mod bounds;
mod change;
pub(crate) mod entity;
pub(crate) mod group;
mod hierarchy;
mod index;
pub(crate) mod membership;
mod merge;
mod mount_gone;
mod names;
mod proof;
mod sign_in;
mod standing;
mod visible;

pub(crate) use alias::{Alias, AliasMount};
pub(crate) use alias_change::{
    AliasChange, change_entity_alias, change_group_alias, delete_entity_alias, delete_group_alias,
};
pub(crate) use change::{Change, GroupChange, change_entity, change_group, delete_group};
pub(crate) use entity::Entity;
pub(crate) use group::{Group, GroupKind};
pub(crate) use merge::{Merge, merge};
pub(crate) use mount_gone::forget_mount;
pub(crate) use proof::Proof;
pub(crate) use sign_in::{Proven, SignedIn, sign_in};
pub(crate) use standing::{Groups, Standing, entity_in_force, groups_of, is_in_force, standing};
pub(crate) use visible::{Viewer, visible};

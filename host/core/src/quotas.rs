//! Lease-count quotas: how many leases there may be at once at a mount, at a path below one, or
//! everywhere.
//!
//! The attack this file stops: a client in a loop that asks for credentials until the target has no
//! room for users, and the store none for leases. It is refused before a component is entered, so
//! that nothing outside is touched. Never knows what a lease is of.

mod lease_count;
mod table;
mod tally;

pub(crate) use lease_count::{LeaseCountQuota, delete, names, put, read};
pub(crate) use table::{Quotas, Usage};
pub(crate) use tally::Place;

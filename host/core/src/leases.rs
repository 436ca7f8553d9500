//! The lease book: reserve, confirm, renew, revoke.
//!
//! The attack this file stops: a credential that outlives its lease. A lease is written down, as a
//! reservation, before the thing it ends exists; a reservation that its call does not confirm, or
//! whose process dies, is undone by the engine's own revocation, so that there is one code path to
//! trust.

mod below;
mod due_now;
mod irrevocable;
mod names;
mod needing;
mod reach;
mod record;
mod reservation;
mod table;
mod tidy;
mod unanswered;

pub(crate) use below::Below;
pub(crate) use due_now::OnFailure;
pub(crate) use record::{End, LEASE_SPACES, LeaseRecord, put};
pub(crate) use reservation::{
    LeaseContext, Reserved, confirm, end_issued, ended_meanwhile, is_reserved, reserve, undo,
};
pub(crate) use table::Leases;

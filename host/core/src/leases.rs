//! The lease book: reserve, confirm, renew, revoke.
//!
//! Prevents a credential from outliving its lease. A lease is stored as a reservation before the
//! credential exists. If the call does not confirm the reservation, or the process dies, the
//! engine's own revocation removes the credential, so that there is a single code path to trust.

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
pub(crate) use record::{End, LeaseRecord, put};
pub(crate) use reservation::{
    LeaseContext, Reserved, confirm, end_issued, ended_meanwhile, is_reserved, reserve, undo,
};
pub(crate) use table::Leases;

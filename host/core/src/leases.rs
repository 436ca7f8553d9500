//! The lease book: reserve, confirm, renew, revoke.
//!
//! This file prevents a credential from outliving its lease. A lease is stored as a reservation
//! before the credential exists. If the call does not confirm the reservation, or the process dies,
//! the engine's own revocation removes the credential, so that there is a single code path to
//! trust.

mod due_now;
mod failed_response;
mod irrevocable;
mod lookup;
mod names;
mod pending_plugin;
mod prefix;
mod record;
mod reservation;
mod table;
mod tidy;

pub use due_now::OnFailure;
pub(crate) use prefix::LeasePrefix;
pub(crate) use record::put;
pub use record::{EndReason, LeaseRecord};
pub use reservation::{
    LeaseContext, LeaseReservation, confirm, ended_meanwhile, undo_reservations,
};
pub(crate) use reservation::{end_issued, is_reserved, reserve};
pub(crate) use table::Leases;

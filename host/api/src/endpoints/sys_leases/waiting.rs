//! Field and answer that the endpoints share which end leases: whether to wait for the end.

use crate::endpoints::reply::{Reply, ReplyBody};
use crate::endpoints::row::field;
use bulkhead_wire::description::{Field, FieldKind};

/// Returns the field `sync`, which makes the answer wait for the end.
pub(super) fn sync() -> Field {
    field("sync", FieldKind::Bool, "wait for the revocation, which is the default")
}

/// Returns 202: the revocation goes on after the answer.
pub(super) fn accepted(warning: &str) -> Reply {
    Reply::from(ReplyBody::Accepted).with_warnings([warning.to_owned()])
}

//! What the endpoints that end leases share: whether they wait, and what they answer if not.

use crate::api::reply::{Body, Reply};
use crate::api::row::field;
use bulkhead_wire::description::{Field, FieldKind};

/// The field that says whether the answer waits for the end.
pub(super) fn sync() -> Field {
    field("sync", FieldKind::Bool, "wait until it is revoked, which is the default")
}

/// 202: it goes on after the answer.
pub(super) fn accepted(warning: &str) -> Reply {
    Reply::from(Body::Accepted).with_warnings([warning.to_owned()])
}

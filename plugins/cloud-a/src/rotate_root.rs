//! `rotate-root`: replaces the client secret by one that no read ever shows.

use crate::root_rotation;
use bulkhead_sdk::{Answer, Call, Failure, Host};

/// Begins a rotation, which goes on by itself: the new secret counts when it works.
pub(crate) fn write(host: &dyn Host, call: &Call) -> Result<Answer, Failure> {
    Ok(Answer::nothing().warn(root_rotation::rotate(host, call.deadline)?))
}

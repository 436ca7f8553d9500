//! `rotate-root`: replaces the client secret by a secret that no read ever shows.

use crate::root_rotation;
use bulkhead_sdk::{Answer, Call, Failure, Host};

/// Starts a rotation. Timers complete the rotation: the new secret is used once it works.
pub(crate) fn write(host: &dyn Host, call: &Call) -> Result<Answer, Failure> {
    Ok(Answer::nothing().warn(root_rotation::rotate(host, call.deadline)?))
}

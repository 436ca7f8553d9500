//! The error of a step of a migration: whether another attempt may succeed.

use bulkhead_place::write_failure::WriteFailure;
use bulkhead_record::fault::StoreFault;

/// The error of a step.
pub(super) enum StepFault {
    /// Another attempt may succeed, and finds out how far this attempt came.
    Transient(StoreFault),
    /// An operator has to act first.
    Final(StoreFault),
}

impl From<StoreFault> for StepFault {
    fn from(fault: StoreFault) -> StepFault {
        match fault {
            StoreFault::Unavailable(_) | StoreFault::Conflict => StepFault::Transient(fault),
            other => StepFault::Final(other),
        }
    }
}

impl From<WriteFailure> for StepFault {
    fn from(failure: WriteFailure) -> StepFault {
        match failure {
            WriteFailure::Full(fault) | WriteFailure::Stopped(fault) => StepFault::Final(fault),
            other => StepFault::Transient(other.into()),
        }
    }
}

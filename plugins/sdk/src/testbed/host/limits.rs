//! Limits of the calls and commits of the host in memory, as the real host has them.

use super::TestHost;
use bulkhead_wire::call_limits::{COMMIT_BYTES, COMMIT_READS, COMMIT_RECORDS, CallLimits};
use bulkhead_wire::failure::{Failure, FailureKind};

impl TestHost {
    /// Returns the limits of each call: the component's own asks, or the defaults.
    #[must_use]
    pub fn limits(&self) -> CallLimits {
        self.script.limits()
    }

    /// Sets the limits of each call, as an operator's grants do.
    pub fn set_limits(&self, limits: CallLimits) {
        self.script.set_limits(limits);
    }

    /// Refuses a commit that is too large, as the store does.
    pub(in crate::testbed) fn check_commit(&self) -> Result<(), Failure> {
        let (records, bytes) = self.records.borrow().count_buffered();
        let records = records + self.timers.borrow().count_buffered();
        let is_read_only = records == 0;
        let is_too_large = records > COMMIT_RECORDS
            || bytes > COMMIT_BYTES
            || (!is_read_only && self.script.reads() > COMMIT_READS);
        match is_too_large {
            true => Err(Failure::new(
                FailureKind::TooLarge,
                format!(
                    "the commit has {records} records of {bytes} bytes after {} reads",
                    self.script.reads()
                ),
            )),
            false => Ok(()),
        }
    }
}

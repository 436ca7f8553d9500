//! The limits of a run of replication: a round ends before each limit and goes on in the next run.
//!
//! This file prevents a round that the host stops at a limit, which would lose its work and begin
//! anew for ever. The limits are those of the mount, told by the host: neither a constant of this
//! component nor a narrower grant of an operator can differ from them.

use crate::authority::unfit;
use crate::index::RecordTable;
use bulkhead_sdk::database_plugin::StoreTime;
use bulkhead_sdk::wire::call_limits::CallLimits;
use bulkhead_sdk::{Context, Failure, Host};
use std::cell::Cell;

/// Maximum bytes of an answer that the host accepts, with its headers, and the bytes of a request.
const ANSWER_BYTES: usize = (4 << 20) + (128 << 10);
/// Maximum bytes of a batch: the bound of a commit, 3 MiB, with a record that fills a value.
const BATCH_WRITES: usize = 4 << 20;
/// Host calls besides the calls for records: the scans of a table and the steps of a round.
const ROUND_CALLS: u32 = 1_000;
/// Maximum time for the commits at the end of a run, in milliseconds.
const FINISH_MS: u64 = 5_000;

/// The limits of a run and their use.
pub(super) struct RunBudget<'a> {
    host: &'a dyn Host,
    table: RecordTable,
    limits: CallLimits,
    deadline: StoreTime,
    http_calls: Cell<u32>,
    http_bytes: Cell<usize>,
    written: Cell<usize>,
    host_calls: Cell<u32>,
}

impl<'a> RunBudget<'a> {
    /// Creates the budget of a run that probes up to `probes` servers.
    pub(super) fn of(
        host: &'a dyn Host,
        context: &Context,
        table: RecordTable,
        probes: usize,
    ) -> Self {
        let probes = u32::try_from(probes).unwrap_or(u32::MAX);
        Self {
            host,
            table,
            limits: context.limits,
            deadline: context.deadline,
            http_calls: Cell::new(probes),
            http_bytes: Cell::new(0),
            written: Cell::new(0),
            host_calls: Cell::new(ROUND_CALLS),
        }
    }

    /// Counts a request and the bytes of its answer; `None` for an answer that was too large.
    pub(super) fn count_request(&self, bytes: Option<usize>) {
        self.http_calls.set(self.http_calls.get().saturating_add(1));
        let bytes = bytes.map_or(ANSWER_BYTES, |bytes| bytes.saturating_add(ANSWER_OVERHEAD));
        self.http_bytes.set(self.http_bytes.get().saturating_add(bytes));
    }

    /// Counts a batch of `records` that writes `bytes`.
    pub(super) fn count_batch(&self, records: usize, bytes: usize) {
        let calls = u32::try_from(records).unwrap_or(u32::MAX).saturating_mul(self.record_calls());
        self.host_calls.set(self.host_calls.get().saturating_add(calls));
        self.written.set(self.written.get().saturating_add(bytes));
    }

    /// Returns true if the run may send another request that takes up to `milliseconds`.
    pub(super) fn may_request(&self, milliseconds: u32) -> bool {
        let time = u64::from(milliseconds).saturating_add(FINISH_MS);
        self.http_calls.get() < self.limits.http_calls
            && self.http_bytes.get().saturating_add(ANSWER_BYTES) <= self.limits.http_bytes
            && self.has_time(time)
    }

    /// Returns true if the run may write a batch of `records`.
    pub(super) fn may_write(&self, records: usize) -> bool {
        let calls = u32::try_from(records).unwrap_or(u32::MAX).saturating_mul(self.record_calls());
        self.written.get().saturating_add(BATCH_WRITES) <= self.limits.storage_bytes
            && self.host_calls.get().saturating_add(calls) <= self.limits.host_calls
            && self.has_time(FINISH_MS)
    }

    /// Returns true if a batch was written.
    pub(super) fn has_written(&self) -> bool {
        self.written.get() > 0
    }

    /// Returns the failure of a run whose limits do not suffice for the list and a record.
    pub(super) fn too_small(&self) -> Failure {
        let CallLimits { host_calls, http_calls, http_bytes, storage_bytes } = self.limits;
        unfit(format!(
            "the limits of the mount (http-calls={http_calls}, http-bytes={http_bytes}B, \
             host-calls={host_calls}, storage={storage_bytes}B) and the time of a run do not \
             suffice for the list of {} and one record; grant more",
            self.table.name()
        ))
    }

    fn has_time(&self, milliseconds: u64) -> bool {
        self.deadline.saturating_sub(self.host.clock().now()) > milliseconds
    }

    /// Maximum number of host calls to apply a record. A token has an index entry and a timer.
    const fn record_calls(&self) -> u32 {
        match self.table {
            RecordTable::Policies | RecordTable::Roles => 8,
            RecordTable::Tokens => 16,
        }
    }
}

/// Bytes that a request and the headers of its answer count for, besides the answer's body.
const ANSWER_OVERHEAD: usize = 4 << 10;

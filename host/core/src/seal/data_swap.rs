//! The time in which a restore replaces the data: the service is closed and not sealed.

use std::sync::atomic::{AtomicBool, Ordering};

/// Whether a restore replaces the data at this moment.
#[derive(Default)]
pub(super) struct DataSwap(AtomicBool);

/// The time of a replacement, which ends when the value is dropped.
pub(super) struct SwapTime<'a>(&'a DataSwap);

impl DataSwap {
    pub(super) fn begin(&self) -> SwapTime<'_> {
        self.0.store(true, Ordering::SeqCst);
        SwapTime(self)
    }

    pub(super) fn is_under_way(&self) -> bool {
        self.0.load(Ordering::SeqCst)
    }
}

impl Drop for SwapTime<'_> {
    fn drop(&mut self) {
        self.0.0.store(false, Ordering::SeqCst);
    }
}

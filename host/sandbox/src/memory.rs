//! Linear memory: a limit for each instance, and a limit for all instances together.
//!
//! This file prevents a component from taking the memory of the server, in a single instance or in
//! many.

use crate::limits;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use wasmtime::ResourceLimiter;

/// Bytes of the linear memories of the process, or of the instances of a mount.
#[derive(Default)]
pub(crate) struct GuestMemory(AtomicUsize);

impl GuestMemory {
    fn take(&self, bytes: usize) -> bool {
        let before = self.0.fetch_add(bytes, Ordering::Relaxed);
        let fits = before.saturating_add(bytes) <= limits::GUEST_MEMORY_BYTES;
        if !fits {
            self.give_back(bytes);
        }
        fits
    }

    fn add(&self, bytes: usize) {
        self.0.fetch_add(bytes, Ordering::Relaxed);
    }

    fn give_back(&self, bytes: usize) {
        self.0.fetch_sub(bytes, Ordering::Relaxed);
    }

    /// Returns the bytes that instances have now.
    pub(crate) fn used(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }
}

/// The sum of all linear memories of an instance: wasmtime's own limit applies to each memory.
pub(crate) struct MemoryLimiter {
    used: usize,
    pub(crate) limit: usize,
    /// The instance asked for more than its limit.
    pub(crate) exhausted: bool,
    /// The instance asked for more than the process has left.
    pub(crate) starved: bool,
    all: Arc<GuestMemory>,
    of_mount: Arc<GuestMemory>,
}

impl MemoryLimiter {
    /// Returns true if the memory is small enough to keep the instance idle.
    pub(crate) fn is_small(&self) -> bool {
        !self.exhausted && self.used <= limits::REUSED_MEMORY_BYTES
    }

    /// Makes the limiter of an instance; its memory counts in `all` and in `of_mount`.
    pub(crate) fn new(limit: usize, all: &Arc<GuestMemory>, of_mount: &Arc<GuestMemory>) -> Self {
        let (all, of_mount) = (Arc::clone(all), Arc::clone(of_mount));
        Self { used: 0, limit, exhausted: false, starved: false, all, of_mount }
    }

    /// Takes over the count of the instance's memory: a linear memory never shrinks.
    pub(crate) fn carry(&mut self, before: &mut Self) {
        self.used = std::mem::take(&mut before.used);
    }
}

impl Drop for MemoryLimiter {
    fn drop(&mut self) {
        self.all.give_back(self.used);
        self.of_mount.give_back(self.used);
    }
}

impl ResourceLimiter for MemoryLimiter {
    fn memory_growing(
        &mut self,
        current: usize,
        desired: usize,
        _maximum: Option<usize>,
    ) -> wasmtime::Result<bool> {
        let more = desired.saturating_sub(current);
        let used = self.used.saturating_add(more);
        self.exhausted |= used > self.limit;
        if self.exhausted {
            return Ok(false);
        }
        self.starved |= !self.all.take(more);
        if self.starved {
            return Ok(false);
        }
        self.of_mount.add(more);
        self.used = used;
        Ok(true)
    }

    fn table_growing(
        &mut self,
        _current: usize,
        desired: usize,
        _maximum: Option<usize>,
    ) -> wasmtime::Result<bool> {
        Ok(desired <= limits::TABLE_ELEMENTS)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MEBIBYTE: usize = 1 << 20;

    #[test]
    fn memory_counted_for_instance_and_process_returns_once() {
        let (all, mount) = (Arc::new(GuestMemory::default()), Arc::default());
        let mut memory = MemoryLimiter::new(3 * MEBIBYTE, &all, &mount);
        assert!(memory.memory_growing(0, MEBIBYTE, None).unwrap());
        assert!(
            memory.memory_growing(0, 2 * MEBIBYTE, None).unwrap(),
            "a second memory of the instance may grow"
        );
        assert!(!memory.memory_growing(MEBIBYTE, 2 * MEBIBYTE, None).unwrap());
        assert!(memory.exhausted && all.used() == 3 * MEBIBYTE);
        assert_eq!(mount.used(), all.used());
        let mut next = MemoryLimiter::new(3 * MEBIBYTE, &all, &mount);
        next.carry(&mut memory);
        drop(memory);
        assert_eq!(all.used(), 3 * MEBIBYTE, "the instance lives on");
        assert_eq!(mount.used(), 3 * MEBIBYTE);
        drop(next);
        assert_eq!((all.used(), mount.used()), (0, 0));
    }

    #[test]
    fn exhausted_process_memory_blames_no_instance() {
        let (all, mount) = (Arc::new(GuestMemory::default()), Arc::default());
        let mut greedy = MemoryLimiter::new(usize::MAX, &all, &mount);
        assert!(greedy.memory_growing(0, limits::GUEST_MEMORY_BYTES, None).unwrap());
        let mut modest = MemoryLimiter::new(3 * MEBIBYTE, &all, &mount);
        assert!(!modest.memory_growing(0, 1, None).unwrap());
        assert!(modest.starved && !modest.exhausted);
        drop(greedy);
        let mut next = MemoryLimiter::new(3 * MEBIBYTE, &all, &mount);
        assert!(next.memory_growing(0, MEBIBYTE, None).unwrap());
    }
}

//! Memory that the host holds for guests: counted for each call, for the calls of a mount together,
//! and for the process.
//!
//! This file prevents many calls that each stay within their own limit from taking the memory of
//! the server together. A call that is refused for lack of memory is not at fault: the next try may
//! find room.

use crate::limits;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

/// A shared count of bytes.
#[derive(Default)]
pub(crate) struct HeldBytes(AtomicUsize);

impl HeldBytes {
    fn take(&self, bytes: usize, most: usize) -> bool {
        let before = self.0.fetch_add(bytes, Ordering::Relaxed);
        let fits = before.saturating_add(bytes) <= most;
        if !fits {
            self.give_back(bytes);
        }
        fits
    }

    /// Returns the bytes that are held now.
    pub(crate) fn bytes(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }

    fn give_back(&self, bytes: usize) {
        self.0.fetch_sub(bytes, Ordering::Relaxed);
    }
}

/// Bytes that work of the host takes while it lasts, possibly longer than the call that asked for
/// the work.
pub(crate) struct HostWorkMemory {
    bytes: usize,
    of: [Arc<HeldBytes>; 2],
}

impl Drop for HostWorkMemory {
    fn drop(&mut self) {
        self.of.iter().for_each(|of| of.give_back(self.bytes));
    }
}

/// Takes `bytes` of the mount's share and of the process's share, until the result is dropped.
/// `None` if either share has no room.
pub(crate) fn lend(
    bytes: usize,
    mount: &Arc<HeldBytes>,
    process: &Arc<HeldBytes>,
) -> Option<HostWorkMemory> {
    if !mount.take(bytes, limits::HELD_BYTES_OF_MOUNT) {
        return None;
    }
    if !process.take(bytes, limits::HELD_BYTES) {
        mount.give_back(bytes);
        return None;
    }
    Some(HostWorkMemory { bytes, of: [Arc::clone(mount), Arc::clone(process)] })
}

/// Bytes that a call and its nested calls hold, until all of them end.
#[derive(Default)]
pub(crate) struct HeldMemory {
    bytes: AtomicUsize,
    /// The counts of the mount and of the process.
    of: OnceLock<(Arc<HeldBytes>, Arc<HeldBytes>)>,
}

impl HeldMemory {
    /// Takes `bytes` more of the mount's share and of the process's share. Takes nothing and
    /// returns false if either share has no room.
    pub(crate) fn take(
        &self,
        bytes: usize,
        mount: &Arc<HeldBytes>,
        process: &Arc<HeldBytes>,
    ) -> bool {
        let (mount, process) = self.of.get_or_init(|| (Arc::clone(mount), Arc::clone(process)));
        if !mount.take(bytes, limits::HELD_BYTES_OF_MOUNT) {
            return false;
        }
        if !process.take(bytes, limits::HELD_BYTES) {
            mount.give_back(bytes);
            return false;
        }
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
        true
    }
}

impl Drop for HeldMemory {
    fn drop(&mut self) {
        if let Some((mount, process)) = self.of.get() {
            let bytes = *self.bytes.get_mut();
            mount.give_back(bytes);
            process.give_back(bytes);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(of: &HeldBytes) -> usize {
        of.0.load(Ordering::Relaxed)
    }

    #[test]
    fn memory_of_mount_calls_stays_within_share() {
        let (process, mount, other) = (Arc::default(), Arc::default(), Arc::default());
        let calls: Vec<HeldMemory> = (0..4).map(|_| HeldMemory::default()).collect();
        let quarter = limits::HELD_BYTES_OF_MOUNT / 4;
        assert!(calls.iter().all(|call| call.take(quarter, &mount, &process)));
        let next = HeldMemory::default();
        assert!(!next.take(1, &mount, &process));
        assert!(HeldMemory::default().take(1, &other, &process), "another mount is not held up");
        drop(calls);
        assert!(next.take(quarter, &mount, &process));
        drop(next);
        assert_eq!((bytes(&mount), bytes(&process)), (0, 0), "given back once");
    }

    #[test]
    fn lent_memory_counts_with_calls_and_returns_once() {
        let (process, mount) = (Arc::default(), Arc::default());
        let call = HeldMemory::default();
        assert!(call.take(limits::HELD_BYTES_OF_MOUNT - 1, &mount, &process));
        assert!(lend(2, &mount, &process).is_none());
        let lent = lend(1, &mount, &process);
        assert!(lent.is_some() && !call.take(1, &mount, &process));
        drop((lent, call));
        assert_eq!((bytes(&mount), bytes(&process)), (0, 0));
        assert!(lend(limits::HELD_BYTES_OF_MOUNT + 1, &mount, &process).is_none());
        assert_eq!(bytes(&mount), 0, "refused bytes are not counted");
    }

    #[test]
    fn memory_of_all_calls_stays_within_process_bound() {
        let process = Arc::default();
        let share = limits::HELD_BYTES_OF_MOUNT;
        let calls: Vec<HeldMemory> = (0..limits::HELD_BYTES / share)
            .map(|_| {
                let call = HeldMemory::default();
                assert!(call.take(share, &Arc::default(), &process));
                call
            })
            .collect();
        let mount = Arc::default();
        let late = HeldMemory::default();
        assert!(!late.take(1, &mount, &process));
        assert_eq!(bytes(&mount), 0, "refused bytes are not counted");
        drop(calls);
        assert!(late.take(1, &mount, &process));
    }
}

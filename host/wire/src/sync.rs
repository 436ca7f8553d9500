//! Locks that stay usable after a panic.
//!
//! A lock is poisoned if its holder panics, and every later attempt to lock fails: a fault in a
//! single request would end the service for all callers. The functions here ignore poisoning. This
//! is safe because locks in this program guard only memory: caches, counters and lists, which are
//! changed by whole values and rebuilt from the store if wrong. Changes that must be atomic are in
//! the store, which commits in one step.

use std::sync::{Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

/// Locks, even if an earlier holder panicked.
pub fn lock<T: ?Sized>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Locks for reading, even if an earlier holder panicked.
pub fn read<T: ?Sized>(lock: &RwLock<T>) -> RwLockReadGuard<'_, T> {
    lock.read().unwrap_or_else(PoisonError::into_inner)
}

/// Locks for writing, even if an earlier holder panicked.
pub fn write<T: ?Sized>(lock: &RwLock<T>) -> RwLockWriteGuard<'_, T> {
    lock.write().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::thread;

    #[test]
    fn panic_of_lock_holder_leaves_lock_usable() {
        let (mutex, shared) = (Mutex::new(1), RwLock::new(2));
        thread::scope(|scope| {
            let panicking = scope.spawn(|| {
                let _held = (lock(&mutex), write(&shared));
                panic!("while both are held");
            });
            panicking.join().unwrap_err();
        });
        assert!(mutex.is_poisoned() && shared.is_poisoned());
        assert_eq!(*lock(&mutex), 1);
        // One after the other: a guard lives to the end of its statement, and these locks exclude
        // each other.
        assert_eq!(*read(&shared), 2);
        assert_eq!(*write(&shared), 2);
    }
}

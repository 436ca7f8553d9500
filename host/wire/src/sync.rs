//! Locks that go on after a panic.
//!
//! A lock whose holder panicked is poisoned, and asking for it fails from then on: one request's
//! fault would end the service for all. Here every lock goes on instead. That is right because what
//! locks guard in this program is memory only: caches, counters and lists that are changed by whole
//! values, and are made anew from the store where they are wrong. What must never be half done is
//! in the store, whose commit is one step.

use std::sync::{Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

/// Locks, also after a panic of an earlier holder.
pub fn lock<T: ?Sized>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Locks for reading, also after a panic of an earlier holder.
pub fn read<T: ?Sized>(lock: &RwLock<T>) -> RwLockReadGuard<'_, T> {
    lock.read().unwrap_or_else(PoisonError::into_inner)
}

/// Locks for writing, also after a panic of an earlier holder.
pub fn write<T: ?Sized>(lock: &RwLock<T>) -> RwLockWriteGuard<'_, T> {
    lock.write().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::thread;

    #[test]
    fn a_panic_of_one_holder_leaves_the_lock_to_the_others() {
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
        // One after the other: a guard lives to the end of its statement, and these exclude each
        // other.
        assert_eq!(*read(&shared), 2);
        assert_eq!(*write(&shared), 2);
    }
}

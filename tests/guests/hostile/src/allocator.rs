//! An allocator that stops returning. The host calls the allocator to pass a result to the guest.

use crate::bulkhead::plugin::storage;
use crate::bulkhead::plugin::types::Call;
#[cfg(target_arch = "wasm32")]
use crate::traps;
use crate::{Ending, answers};
#[cfg(target_arch = "wasm32")]
use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicBool, Ordering};

static IS_STUCK: AtomicBool = AtomicBool::new(false);

#[cfg(target_arch = "wasm32")]
struct Allocator;

// SAFETY: delegates to the system allocator, or never returns.
#[cfg(target_arch = "wasm32")]
unsafe impl GlobalAlloc for Allocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if IS_STUCK.load(Ordering::Relaxed) {
            traps::forever();
        }
        // SAFETY: the caller upholds the contract of `alloc`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the caller upholds the contract of `dealloc`.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[cfg(target_arch = "wasm32")]
#[global_allocator]
static ALLOCATOR: Allocator = Allocator;

pub(crate) fn endless(_call: &Call) -> Ending {
    storage::put("kept", b"something")?;
    IS_STUCK.store(true, Ordering::Relaxed);
    storage::get("kept")?;
    Ok(answers::nothing())
}

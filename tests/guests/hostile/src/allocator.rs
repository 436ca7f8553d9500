//! An allocator that stops coming back: the host asks it for room when it hands a result over.

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

// SAFETY: it is the system's, or never returns.
#[cfg(target_arch = "wasm32")]
unsafe impl GlobalAlloc for Allocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if IS_STUCK.load(Ordering::Relaxed) {
            traps::forever();
        }
        // SAFETY: as our caller promises.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: as our caller promises.
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

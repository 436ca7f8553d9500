//! Acts that exhaust time, memory, handles and stack, or trap.

use crate::bulkhead::plugin::types::Call;
use crate::{Ending, answers};

pub(crate) fn forever() {
    let mut turns = 0_u64;
    loop {
        turns = std::hint::black_box(turns.wrapping_add(1));
    }
}

pub(crate) fn endless_loop(_call: &Call) -> Ending {
    forever();
    Ok(answers::nothing())
}

pub(crate) fn memory(_call: &Call) -> Ending {
    let mut blocks: Vec<Vec<u8>> = Vec::new();
    loop {
        blocks.push(std::hint::black_box(vec![1; 1 << 20]));
    }
}

// Same version as the standard library's import, so that the component has a single import.
#[cfg(target_arch = "wasm32")]
#[link(wasm_import_module = "wasi:clocks/monotonic-clock@0.2.6")]
unsafe extern "C" {
    #[link_name = "subscribe-duration"]
    fn subscribe_duration(nanoseconds: u64) -> i32;
}

#[cfg(not(target_arch = "wasm32"))]
unsafe fn subscribe_duration(_nanoseconds: u64) -> i32 {
    0
}

pub(crate) fn handles(_call: &Call) -> Ending {
    for _ in 0..1_000_000 {
        // SAFETY: the function takes one number and no pointers.
        unsafe { subscribe_duration(u64::MAX) };
    }
    Ok(answers::nothing())
}

pub(crate) fn stack(_call: &Call) -> Ending {
    fn deeper(level: u64) -> u64 {
        let room = std::hint::black_box([level; 64]);
        if level == u64::MAX { 0 } else { deeper(level + 1) + room.iter().sum::<u64>() }
    }
    Ok(answers::data(format!("{{\"level\":{}}}", deeper(0))))
}

pub(crate) fn panics(_call: &Call) -> Ending {
    panic!("on request")
}

pub(crate) fn unreachable(_call: &Call) -> Ending {
    #[cfg(target_arch = "wasm32")]
    core::arch::wasm32::unreachable();
    #[cfg(not(target_arch = "wasm32"))]
    std::process::abort();
}

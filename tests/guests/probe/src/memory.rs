//! State in memory from call to call, which an engine must not have.

use bulkhead_sdk::{Answer, Call, Failure, Host};
use serde_json::json;
use std::io::Read as _;
use std::sync::atomic::{AtomicU64, Ordering};

static CALLS: AtomicU64 = AtomicU64::new(0);

/// Returns the number of calls of this instance: 1, unless instances are reused.
pub(crate) fn tally(_host: &dyn Host, _call: &Call) -> Result<Answer, Failure> {
    Answer::data(&json!({"calls": CALLS.fetch_add(1, Ordering::Relaxed) + 1}))
}

/// Reserves memory, returns whether that succeeded, and frees the memory. The instance's memory
/// stays grown.
pub(crate) fn reserve(_host: &dyn Host, call: &Call) -> Result<Answer, Failure> {
    let kib: usize =
        call.text("name").parse().map_err(|_| Failure::invalid("the name is a number of KiB"))?;
    let mut room: Vec<u8> = Vec::new();
    let got = room.try_reserve_exact(kib << 10).is_ok();
    Answer::data(&json!({"got": got && std::hint::black_box(room).capacity() > 0}))
}

/// Reads from standard input. The C library opens the standard streams at the first read, and does
/// not close them.
pub(crate) fn input(_host: &dyn Host, _call: &Call) -> Result<Answer, Failure> {
    let read = std::io::stdin().read(&mut [0]);
    Answer::data(&json!({"bytes": read.map_err(|error| Failure::invalid(error.to_string()))?}))
}

/// Repeats the given text in an error.
pub(crate) fn say(_host: &dyn Host, call: &Call) -> Result<Answer, Failure> {
    Err(Failure::invalid(call.text("name").to_owned()))
}

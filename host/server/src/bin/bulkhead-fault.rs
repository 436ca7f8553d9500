//! The server with failpoints, for `tests/fault`: where a name is chosen by its environment, it
//! dies or fails there.
//!
//! Never for real secrets: a caller who sets its environment can stop it anywhere.

use std::process::ExitCode;

#[path = "../main.rs"]
mod bulkhead;

fn main() -> ExitCode {
    bulkhead::main()
}

//! The server with failpoints, for `tests/fault`: the process dies or fails at the failpoint that
//! its environment names.
//!
//! Never for real secrets: anyone who sets the environment can stop the server anywhere.

use std::process::ExitCode;

#[path = "../main.rs"]
mod bulkhead;

fn main() -> ExitCode {
    bulkhead::main()
}

//! C library functions that let a component end a panic without WASI.
//!
//! On a panic, Rust's standard library reads the environment (for the backtrace setting) and
//! prints. With the C library's functions for that, a component imports 19 functions of WASI:
//! streams, terminals, polling, the environment, exit. The host has nothing behind these functions,
//! and each import makes a fresh instance more expensive. With the two functions of this file, a
//! component imports only the contract (decision T34).
//!
//! A component that uses more of the system itself, such as the clock, links the C library's
//! functions and imports WASI functions for them.
#![allow(unsafe_code, reason = "the linker looks for these symbols in the C library otherwise")]

use std::ffi::{c_char, c_int, c_void};
use std::ptr;

/// `write(2)`: accepts and discards all bytes.
#[unsafe(no_mangle)]
extern "C" fn write(_descriptor: c_int, _bytes: *const c_void, length: usize) -> isize {
    isize::try_from(length).unwrap_or(isize::MAX)
}

/// `getenv(3)`: the environment is empty.
#[unsafe(no_mangle)]
extern "C" fn getenv(_name: *const c_char) -> *const c_char {
    ptr::null()
}

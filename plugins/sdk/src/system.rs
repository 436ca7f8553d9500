//! The end of a component that panics, without a system to tell it to.
//!
//! Rust's library looks into the environment whether to print much, and prints. With the functions
//! of the C library for that, a component imports 19 functions of WASI: streams, terminals,
//! polling, the environment, exit. The host has nothing behind any of these, and each makes a fresh
//! instance dearer. So the two functions are here, and a component imports nothing but the contract
//! (decision T34).
//!
//! A component that does more by itself, as to ask for the time, gets the C library's functions for
//! it, and imports what these need.
#![allow(unsafe_code, reason = "symbols that the linker looks for in the C library otherwise")]

use std::ffi::{c_char, c_int, c_void};
use std::ptr;

/// `write(2)`: all is taken and goes nowhere.
#[unsafe(no_mangle)]
extern "C" fn write(_descriptor: c_int, _bytes: *const c_void, length: usize) -> isize {
    isize::try_from(length).unwrap_or(isize::MAX)
}

/// `getenv(3)`: the environment is empty.
#[unsafe(no_mangle)]
extern "C" fn getenv(_name: *const c_char) -> *const c_char {
    ptr::null()
}

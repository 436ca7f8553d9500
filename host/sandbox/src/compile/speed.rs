//! The limit of processor time of a compilation, from the measured speed of the machine.
//!
//! This file prevents refusals of good components by a slow machine or an unoptimised build, and an
//! unbounded compilation on any machine. The measure is the compilation of a module of known size,
//! so that the limit grows with every cause of a slower compiler.

use crate::component::precompile;
use std::time::Duration;

/// Processor time of every compilation, in seconds, however small the component.
const MIN_SECONDS: u64 = 30;
/// Maximum processor time of a compilation, in seconds, however large the component.
const MAX_SECONDS: u64 = 600;
/// Factor by which a byte of a component may cost more than a byte of the reference module.
const TOLERANCE: f64 = 6.0;
/// Number of functions of the reference module.
const REFERENCE_FUNCTIONS: usize = 24;
/// Number of additions in each function of the reference module.
const REFERENCE_ADDITIONS: usize = 120;

/// Returns the limit of processor time for a component of `bytes` bytes, in whole seconds, and
/// measures the machine by compiling the reference module. `processor_time` returns the processor
/// time of the process.
///
/// # Errors
/// The compiler's message, if the reference module does not compile.
pub fn processor_seconds(
    bytes: usize,
    processor_time: impl Fn() -> Duration,
) -> Result<u64, String> {
    let reference = reference_component();
    // The first compilation also builds the tables of the compiler.
    precompile(&reference)?;
    let before = processor_time();
    precompile(&reference)?;
    let spent = processor_time().saturating_sub(before);
    Ok(limit_for(bytes, reference.len(), spent))
}

/// Returns the limit for `bytes` bytes on a machine that compiled `reference_bytes` bytes within
/// `spent`.
#[allow(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "an estimate, bounded before the conversion to seconds"
)]
fn limit_for(bytes: usize, reference_bytes: usize, spent: Duration) -> u64 {
    let by_byte = spent.as_secs_f64() / reference_bytes.max(1) as f64;
    let expected = by_byte * bytes as f64 * TOLERANCE;
    let most = (MAX_SECONDS - MIN_SECONDS) as f64;
    MIN_SECONDS + expected.min(most) as u64
}

/// Returns a component with one module of arithmetic functions, in WebAssembly's binary format.
fn reference_component() -> Vec<u8> {
    let mut body = vec![0];
    body.extend([0x20, 0]);
    for number in 0..REFERENCE_ADDITIONS {
        // local.get 0, i32.const, i32.mul, i32.add
        body.extend([0x20, 0, 0x41]);
        body.push(u8::try_from(number % 64).unwrap_or_default());
        body.extend([0x6c, 0x6a]);
    }
    body.push(0x0b);
    let bodies: Vec<Vec<u8>> = (0..REFERENCE_FUNCTIONS).map(|_| sized(&body)).collect();
    let mut module = b"\0asm\x01\0\0\0".to_vec();
    // The type (i32) -> i32.
    section(&mut module, 1, &[1, 0x60, 1, 0x7f, 1, 0x7f]);
    section(&mut module, 3, &vector(&vec![vec![0]; REFERENCE_FUNCTIONS]));
    section(&mut module, 10, &vector(&bodies));
    let mut component = b"\0asm\x0d\0\x01\0".to_vec();
    section(&mut component, 1, &module);
    component
}

/// Appends a section with number and length.
fn section(to: &mut Vec<u8>, number: u8, content: &[u8]) {
    to.push(number);
    to.extend(sized(content));
}

/// Returns the length of `content`, and `content`.
fn sized(content: &[u8]) -> Vec<u8> {
    let mut bytes = unsigned(content.len());
    bytes.extend(content);
    bytes
}

/// Returns `parts` after their number.
fn vector(parts: &[Vec<u8>]) -> Vec<u8> {
    let mut bytes = unsigned(parts.len());
    bytes.extend(parts.concat());
    bytes
}

/// Returns a number in LEB128, seven bits in each byte, the lowest first.
fn unsigned(mut number: usize) -> Vec<u8> {
    let mut bytes = Vec::new();
    loop {
        let low = u8::try_from(number & 0x7f).unwrap_or_default();
        number >>= 7;
        if number == 0 {
            bytes.push(low);
            return bytes;
        }
        bytes.push(low | 0x80);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    #[test]
    fn compile_limit_grows_with_size_and_slowness() {
        let slow = Duration::from_millis(100);
        assert_eq!(limit_for(0, 10_000, slow), MIN_SECONDS);
        assert_eq!(limit_for(1_000_000, 10_000, slow), MIN_SECONDS + 60);
        assert_eq!(limit_for(1_000_000, 10_000, slow / 10), MIN_SECONDS + 6);
        assert_eq!(limit_for(usize::MAX, 10_000, slow), MAX_SECONDS);
        assert_eq!(limit_for(1_000_000, 10_000, Duration::ZERO), MIN_SECONDS);
    }

    #[test]
    fn compile_speed_is_measured_by_the_second_compilation() {
        let calls = Cell::new(0_u64);
        let clock = || {
            calls.set(calls.get() + 1);
            Duration::from_secs(calls.get())
        };
        let bytes = reference_component().len();
        assert_eq!(processor_seconds(bytes * 10, clock).unwrap(), MIN_SECONDS + 60);
        assert_eq!(calls.get(), 2);
    }
}

//! A set of clients of bounded size, which counts few members exactly and many members nearly.
//!
//! Above [`MAX_EXACT_CLIENTS`] members the sketch is a HyperLogLog: a hash chooses a register, and
//! the register remembers the longest run of zeros among its hashes. The standard error of the
//! count is 1.6 %. Two sketches have a union, so that the clients of several months and mounts are
//! counted once.

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

/// Maximum number of clients of a sketch that are counted exactly.
const MAX_EXACT_CLIENTS: usize = 512;

/// Number of the bits of a hash that choose its register.
const REGISTER_BITS: u32 = 12;

/// Number of registers.
const REGISTERS: usize = 1 << REGISTER_BITS;

/// The same number, for the formula.
const REGISTERS_F64: f64 = 4096.0;

/// A set of hashes of clients.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "StoredSketch", into = "StoredSketch")]
pub struct ClientSketch(SketchForm);

#[derive(Clone, Debug, PartialEq, Eq)]
enum SketchForm {
    Exact(BTreeSet<u64>),
    /// [`REGISTERS`] registers.
    Estimated(Vec<u8>),
}

/// The stored form of a sketch.
#[derive(Clone, Serialize, Deserialize)]
struct StoredSketch {
    is_exact: bool,
    /// Base64 of the hashes, each of 8 bytes, or of the registers.
    bytes: String,
}

impl Default for ClientSketch {
    fn default() -> Self {
        Self(SketchForm::Exact(BTreeSet::new()))
    }
}

impl ClientSketch {
    /// Adds the hash of a client. Returns true if the sketch changed.
    pub fn add(&mut self, hash: u64) -> bool {
        match &mut self.0 {
            SketchForm::Exact(hashes) => {
                let is_new = hashes.insert(hash);
                if hashes.len() > MAX_EXACT_CLIENTS {
                    self.0 = SketchForm::Estimated(registers_of(hashes));
                }
                is_new
            }
            SketchForm::Estimated(registers) => raise(registers, hash),
        }
    }

    /// Adds all clients of another sketch. Returns true if this sketch changed.
    pub fn merge(&mut self, other: &Self) -> bool {
        match &other.0 {
            SketchForm::Exact(hashes) => {
                let mut changed = false;
                for hash in hashes {
                    changed |= self.add(*hash);
                }
                changed
            }
            SketchForm::Estimated(others) => self.merge_registers(others),
        }
    }

    fn merge_registers(&mut self, others: &[u8]) -> bool {
        if let SketchForm::Exact(hashes) = &self.0 {
            let mut registers = registers_of(hashes);
            merge_into(&mut registers, others);
            self.0 = SketchForm::Estimated(registers);
            return true;
        }
        match &mut self.0 {
            SketchForm::Estimated(registers) => merge_into(registers, others),
            SketchForm::Exact(_) => false,
        }
    }

    /// Returns the number of clients.
    #[must_use]
    pub fn count(&self) -> u64 {
        match &self.0 {
            SketchForm::Exact(hashes) => u64::try_from(hashes.len()).unwrap_or(u64::MAX),
            SketchForm::Estimated(registers) => estimate(registers),
        }
    }
}

fn registers_of(hashes: &BTreeSet<u64>) -> Vec<u8> {
    let mut registers = vec![0; REGISTERS];
    hashes.iter().for_each(|hash| _ = raise(&mut registers, *hash));
    registers
}

/// Notes a hash in its register. Returns true if the register changed.
fn raise(registers: &mut [u8], hash: u64) -> bool {
    let place = usize::try_from(hash >> (u64::BITS - REGISTER_BITS)).unwrap_or_default();
    let rank = (hash << REGISTER_BITS).leading_zeros().min(u64::BITS - REGISTER_BITS) + 1;
    let rank = u8::try_from(rank).unwrap_or(u8::MAX);
    match registers.get_mut(place) {
        Some(register) if *register < rank => {
            *register = rank;
            true
        }
        _ => false,
    }
}

fn merge_into(registers: &mut [u8], others: &[u8]) -> bool {
    let mut changed = false;
    for (register, other) in registers.iter_mut().zip(others) {
        changed |= *other > *register;
        *register = (*register).max(*other);
    }
    changed
}

/// Estimates the number of hashes: by the empty registers while many are empty, otherwise by the
/// harmonic mean of the registers.
fn estimate(registers: &[u8]) -> u64 {
    let empty = registers.iter().filter(|register| **register == 0).count();
    let empty = f64::from(u32::try_from(empty).unwrap_or_default());
    let sum: f64 = registers.iter().map(|register| 0.5_f64.powi(i32::from(*register))).sum();
    let correction = 0.7213 / (1.0 + 1.079 / REGISTERS_F64);
    let mean = correction * REGISTERS_F64 * REGISTERS_F64 / sum;
    let counted = if mean <= 2.5 * REGISTERS_F64 && empty > 0.0 {
        REGISTERS_F64 * (REGISTERS_F64 / empty).ln()
    } else {
        mean
    };
    rounded(counted)
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "an estimate is positive, and a cast of a float saturates"
)]
fn rounded(number: f64) -> u64 {
    number.round() as u64
}

impl From<ClientSketch> for StoredSketch {
    fn from(sketch: ClientSketch) -> Self {
        let (is_exact, bytes) = match sketch.0 {
            SketchForm::Exact(hashes) => {
                (true, hashes.into_iter().flat_map(u64::to_be_bytes).collect())
            }
            SketchForm::Estimated(registers) => (false, registers),
        };
        Self { is_exact, bytes: BASE64_STANDARD.encode(bytes) }
    }
}

impl TryFrom<StoredSketch> for ClientSketch {
    type Error = &'static str;

    fn try_from(stored: StoredSketch) -> Result<Self, Self::Error> {
        let bytes = BASE64_STANDARD.decode(stored.bytes).map_err(|_| "a sketch is not base64")?;
        if !stored.is_exact {
            let is_complete = bytes.len() == REGISTERS;
            return is_complete
                .then_some(Self(SketchForm::Estimated(bytes)))
                .ok_or("a sketch has another number of registers");
        }
        let (hashes, rest) = bytes.as_chunks::<8>();
        if !rest.is_empty() || hashes.len() > MAX_EXACT_CLIENTS {
            return Err("a sketch has half a hash or too many hashes");
        }
        let hashes = hashes.iter().map(|hash| u64::from_be_bytes(*hash)).collect();
        Ok(Self(SketchForm::Exact(hashes)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns hashes that are spread like those of a hash function.
    fn hashes(first: u64, count: u64) -> impl Iterator<Item = u64> {
        (first..first + count).map(|number| {
            let mixed = (number ^ (number >> 30)).wrapping_add(0x9e37_79b9_7f4a_7c15);
            let mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            mixed ^ (mixed >> 31)
        })
    }

    fn sketch(first: u64, count: u64) -> ClientSketch {
        let mut sketch = ClientSketch::default();
        hashes(first, count).for_each(|hash| _ = sketch.add(hash));
        sketch
    }

    #[test]
    fn few_clients_are_counted_exactly() {
        let mut few = sketch(0, 512);
        assert_eq!(few.count(), 512);
        let before = few.clone();
        assert!(!few.merge(&sketch(100, 100)) && few == before, "no client is new");
        assert!(few.merge(&sketch(600, 1)));
    }

    #[test]
    fn many_clients_are_counted_nearly() {
        for count in [513_u64, 4_000, 20_000, 300_000] {
            let error = sketch(7, count).count().abs_diff(count);
            assert!(error * 100 <= count * 6, "{count}: {error}");
        }
    }

    #[test]
    fn union_counts_shared_clients_once() {
        for (a, b) in [(sketch(0, 300), sketch(200, 200)), (sketch(0, 3_000), sketch(200, 200))] {
            let (mut left, mut right) = (a.clone(), b.clone());
            left.merge(&b);
            right.merge(&a);
            assert_eq!(left.count(), right.count());
            let largest = a.count().max(400);
            assert!(left.count().abs_diff(largest) * 100 <= largest * 6, "{}", left.count());
        }
    }

    #[test]
    fn sketches_survive_storage_and_refuse_rubbish() {
        for count in [0, 1, 512, 2_000] {
            let sketch = sketch(3, count);
            let stored = serde_json::to_string(&sketch).unwrap();
            assert!(stored.len() < 6_000, "{}", stored.len());
            assert_eq!(serde_json::from_str::<ClientSketch>(&stored).unwrap(), sketch);
        }
        for wrong in [
            r#"{"is_exact":true,"bytes":"AAAA"}"#,
            r#"{"is_exact":false,"bytes":"AAAA"}"#,
            r#"{"is_exact":true,"bytes":"?"}"#,
        ] {
            assert!(serde_json::from_str::<ClientSketch>(wrong).is_err(), "{wrong}");
        }
    }
}

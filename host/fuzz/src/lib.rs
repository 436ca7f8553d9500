//! Seeded fuzzing, for the tests of every crate that parses untrusted input.
//!
//! Cases are mutations of good examples and of words of the language. A case that panics or runs
//! longer than a second is printed in hexadecimal with its seed. `FUZZ_SECONDS` is the time for
//! each target (default 2), `FUZZ_SEED` the first seed, and `FUZZ_CASE=<hex>` a single case to run.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stdout,
    reason = "runs in tests, which fail by panicking, and prints the number of tries"
)]

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::time::{Duration, Instant};

/// Maximum time of a parser for a case, on a busy machine.
const SLOW: Duration = Duration::from_secs(1);

/// Maximum number of retries of a slow case.
const AGAIN: u32 = 3;

/// Maximum length of a case in bytes, unless a seed is longer.
const LONGEST: usize = 64 * 1024;

const SEED: u64 = 0x0bad_c0de;

/// A pseudo-random generator: the same seed gives the same numbers.
pub struct Dice(u64);

impl Dice {
    /// Creates a generator from a seed.
    #[must_use]
    pub fn of(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    /// Returns a number below `bound`, or 0 if `bound` is 0.
    ///
    /// # Panics
    /// Never: a remainder is as small as its divisor.
    pub fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from((self.0 >> 8) % u64::try_from(bound.max(1)).unwrap()).unwrap()
    }

    /// Chooses a member of `from`.
    ///
    /// # Panics
    /// If `from` is empty.
    pub fn pick<T: Clone>(&mut self, from: &[T]) -> T {
        from[self.below(from.len())].clone()
    }

    /// Chooses at most `most` members of `from`, with repetition.
    ///
    /// # Panics
    /// If `from` is empty.
    pub fn some<T: Clone>(&mut self, most: usize, from: &[T]) -> Vec<T> {
        (0..self.below(most + 1)).map(|_| self.pick(from)).collect()
    }

    fn span(&mut self, length: usize) -> std::ops::Range<usize> {
        let (a, b) = (self.below(length + 1), self.below(length + 1));
        a.min(b)..a.max(b)
    }
}

/// Runs `case` on mutations of `seeds` and `words` for `FUZZ_SECONDS`.
///
/// # Panics
/// With the seed and the bytes of the first case that panics or is slow.
pub fn run(name: &str, seeds: &[&[u8]], words: &[&str], case: impl Fn(&[u8])) {
    if let Ok(hexadecimal) = std::env::var("FUZZ_CASE") {
        return case(&decode(&hexadecimal));
    }
    let number = |name: &str, otherwise: u64| {
        std::env::var(name).map_or(otherwise, |text| text.parse().unwrap())
    };
    let (seconds, first) =
        (Duration::from_secs(number("FUZZ_SECONDS", 2)), number("FUZZ_SEED", SEED));
    let start = Instant::now();
    seeds.iter().for_each(|seed| try_case(name, first, seed, &case));
    let mut tried = 0;
    while start.elapsed() < seconds {
        let seed = first.wrapping_add(tried);
        try_case(name, seed, &mutation(&mut Dice::of(seed), seeds, words), &case);
        tried += 1;
    }
    println!("{name}: {tried} cases from seed {first} in {:?}", start.elapsed());
}

fn try_case(name: &str, seed: u64, bytes: &[u8], case: &impl Fn(&[u8])) {
    let start = Instant::now();
    let ended = catch_unwind(AssertUnwindSafe(|| case(bytes)));
    let repeat = || bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    if let Err(why) = ended {
        println!("{name}: seed {seed} panics; again with FUZZ_CASE={}", repeat());
        resume_unwind(why);
    }
    // A busy machine delays a good case; a slow case is slow in every retry.
    let mut took = start.elapsed();
    for _ in 0..AGAIN {
        if took < SLOW {
            return;
        }
        let start = Instant::now();
        case(bytes);
        took = start.elapsed();
    }
    assert!(took < SLOW, "{name}: seed {seed} takes {took:?}; again with FUZZ_CASE={}", repeat());
}

fn mutation(dice: &mut Dice, seeds: &[&[u8]], words: &[&str]) -> Vec<u8> {
    let mut bytes = seeds[dice.below(seeds.len())].to_vec();
    let longest = seeds.iter().map(|seed| seed.len()).fold(LONGEST, usize::max);
    for _ in 0..=dice.below(6) {
        mutate(dice, &mut bytes, seeds, words);
        bytes.truncate(longest);
    }
    bytes
}

fn mutate(dice: &mut Dice, bytes: &mut Vec<u8>, seeds: &[&[u8]], words: &[&str]) {
    let place = dice.below(bytes.len() + 1);
    match dice.below(7) {
        0 if place < bytes.len() => bytes[place] ^= 1 << dice.below(8),
        1 if place < bytes.len() => bytes[place] = u8::try_from(dice.below(256)).unwrap(),
        2 => drop(bytes.drain(dice.span(bytes.len()))),
        3 => {
            let other = seeds[dice.below(seeds.len())];
            bytes.splice(place..place, other[dice.span(other.len())].iter().copied());
        }
        4 => {
            let piece = bytes[dice.span(bytes.len().min(256))].repeat(dice.below(64));
            bytes.splice(place..place, piece);
        }
        _ if !words.is_empty() => {
            let word = words[dice.below(words.len())].bytes();
            bytes.splice(place..place, word);
        }
        _ => bytes.truncate(place),
    }
}

fn decode(hexadecimal: &str) -> Vec<u8> {
    let pairs = hexadecimal.as_bytes().chunks(2).map(|pair| std::str::from_utf8(pair).unwrap());
    pairs.map(|pair| u8::from_str_radix(pair, 16).unwrap()).collect()
}

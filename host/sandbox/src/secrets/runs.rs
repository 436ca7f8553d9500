//! Searches a text for runs of 12 characters of other texts.
//!
//! A run is kept as a number: the value of a polynomial modulo a prime at a random point. The
//! number of a run follows from the number of the run before. A caller cannot construct a text with
//! the same number as another text.

use super::spelling::DenseText;
use std::collections::HashSet;
use std::hash::{BuildHasher, BuildHasherDefault, Hasher, RandomState};
use std::sync::LazyLock;

/// Characters of the shortest piece of a secret that is not a coincidence.
pub(super) const RUN_LENGTH: usize = 12;
/// 2^61 - 1, a prime.
const PRIME: u64 = (1 << 61) - 1;
/// The point, the same for all calls of the process.
static POINT: LazyLock<EvaluationPoint> = LazyLock::new(EvaluationPoint::random);

/// Labels of the lines that begin and end PEM. Every key of a kind has the same label, and ordinary
/// sentences have its words: a message that says "no private key" repeats no secret.
const LABELS: [&str; 12] = [
    "CERTIFICATE",
    "CERTIFICATE REQUEST",
    "DH PARAMETERS",
    "DSA PRIVATE KEY",
    "EC PARAMETERS",
    "EC PRIVATE KEY",
    "ENCRYPTED PRIVATE KEY",
    "OPENSSH PRIVATE KEY",
    "PRIVATE KEY",
    "PUBLIC KEY",
    "RSA PRIVATE KEY",
    "TRUSTED CERTIFICATE",
];

/// The numbers of all runs in those lines, with and without blanks.
static PEM_LABEL_RUNS: LazyLock<HashSet<u64, BuildHasherDefault<IdentityHasher>>> =
    LazyLock::new(|| {
        let lines = LABELS.iter().flat_map(|label| {
            ["BEGIN", "END"].map(|edge| letters(&format!("-----{edge} {label}-----")))
        });
        let forms = lines.flat_map(|line| [DenseText::of(&line).letters, line]);
        forms.flat_map(|line| numbers(&line).collect::<Vec<_>>()).collect()
    });

/// The point at which polynomials are evaluated.
struct EvaluationPoint {
    value: u64,
    /// The value to the power of a run's length: the factor of the character that leaves the run.
    weight: u64,
}

impl EvaluationPoint {
    fn random() -> Self {
        let value = RandomState::new().hash_one(RUN_LENGTH) % PRIME;
        Self { value, weight: (0..RUN_LENGTH).fold(1, |power, _| multiply(power, value)) }
    }
}

/// The place where a character of a text was found.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum CharacterMatch {
    Nowhere,
    /// In a text that is shorter than a run, found as a whole word.
    AsWord,
    InRun,
}

/// The runs of some texts, and the texts that are shorter than a run.
#[derive(Default)]
pub(super) struct SecretRuns {
    numbers: HashSet<u64, BuildHasherDefault<IdentityHasher>>,
    /// Texts that are shorter than a run.
    words: HashSet<Vec<char>>,
}

impl SecretRuns {
    pub(super) fn is_empty(&self) -> bool {
        self.numbers.is_empty() && self.words.is_empty()
    }

    /// Adds the runs of a text, or a shorter text as a word.
    pub(super) fn add(&mut self, text: &[char]) {
        if text.len() < RUN_LENGTH {
            self.words.insert(text.to_vec());
            return;
        }
        self.numbers.reserve(text.len());
        self.numbers.extend(numbers(text));
    }

    /// Adds a secret, unless the secret is an ordinary word. Runs of the lines around PEM are left
    /// out.
    pub(super) fn add_secret(&mut self, text: &[char]) {
        let is_ordinary =
            text.len() < super::SHORTEST_SECRET || text.iter().all(|letter| letter.is_alphabetic());
        if text.len() >= RUN_LENGTH {
            self.numbers.reserve(text.len());
            self.numbers.extend(numbers(text).filter(|number| !PEM_LABEL_RUNS.contains(number)));
        } else if !is_ordinary {
            self.add(text);
        }
    }

    /// Adds the runs of a secret without its blanks and commas, unless the secret has none.
    pub(super) fn add_dense(&mut self, text: &[char]) {
        let dense = DenseText::of(text).letters;
        if dense.len() < text.len() && dense.len() >= RUN_LENGTH {
            self.add_secret(&dense);
        }
    }

    /// Returns for each character of `text` where the character is found.
    pub(super) fn find(&self, text: &[char]) -> Vec<CharacterMatch> {
        let mut found = vec![CharacterMatch::Nowhere; text.len()];
        if !self.words.is_empty() {
            self.mark_words(text, &mut found);
        }
        self.mark_runs(text, &mut found);
        found
    }

    /// Marks the characters of `text` in runs. Texts that are shorter than a run are not searched.
    pub(super) fn mark_runs(&self, text: &[char], found: &mut [CharacterMatch]) {
        if self.numbers.is_empty() {
            return;
        }
        for (start, number) in numbers(text).enumerate() {
            if self.numbers.contains(&number) {
                mark(found, (start, RUN_LENGTH), CharacterMatch::InRun);
            }
        }
    }

    fn mark_words(&self, text: &[char], found: &mut [CharacterMatch]) {
        let is_boundary = |at: usize| {
            let inside = |at: usize| text.get(at).is_some_and(|letter| letter.is_alphanumeric());
            at == 0 || !inside(at) || !inside(at - 1)
        };
        for start in (0..text.len()).filter(|start| is_boundary(*start)) {
            for length in 1..RUN_LENGTH.min(text.len() - start + 1) {
                let word = text.get(start..start + length);
                if is_boundary(start + length) && word.is_some_and(|word| self.words.contains(word))
                {
                    mark(found, (start, length), CharacterMatch::AsWord);
                }
            }
        }
    }
}

fn mark(found: &mut [CharacterMatch], (start, length): (usize, usize), how: CharacterMatch) {
    found.iter_mut().skip(start).take(length).for_each(|mark| *mark = how);
}

/// Returns the numbers of all runs of `text`, in order.
fn numbers(text: &[char]) -> impl Iterator<Item = u64> {
    let EvaluationPoint { value, weight } = *POINT;
    let mut number = 0;
    text.iter().enumerate().filter_map(move |(at, letter)| {
        number = add(multiply(number, value), u64::from(u32::from(*letter)));
        if let Some(first) = at.checked_sub(RUN_LENGTH).and_then(|at| text.get(at)) {
            let left = multiply(u64::from(u32::from(*first)), weight);
            number = add(number, PRIME - left);
        }
        (at + 1 >= RUN_LENGTH).then_some(number)
    })
}

fn add(one: u64, other: u64) -> u64 {
    let sum = one + other;
    if sum >= PRIME { sum - PRIME } else { sum }
}

fn multiply(one: u64, other: u64) -> u64 {
    let product = u128::from(one) * u128::from(other);
    // 2^61 is 1 modulo the prime: the upper bits are added to the lower ones.
    let part = |number: u128| u64::try_from(number & u128::from(PRIME)).unwrap_or_default();
    add(part(product), part(product >> 61))
}

/// Returns the characters of a text in lower case. The number of characters stays the same, so that
/// positions do not change.
pub(super) fn letters(text: &str) -> Vec<char> {
    let lower = |letter: char| match letter.is_ascii() {
        true => letter.to_ascii_lowercase(),
        false => letter.to_lowercase().next().unwrap_or(letter),
    };
    text.chars().map(lower).collect()
}

/// Hashes a number to itself, because the number is random.
#[derive(Default)]
struct IdentityHasher(u64);

impl Hasher for IdentityHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = self.0.rotate_left(8) ^ u64::from(*byte);
        }
    }

    fn write_u64(&mut self, number: u64) {
        // A hash map tells its entries apart by the upper bits, which are zero in the number.
        self.0 = number ^ (number << 3);
    }
}

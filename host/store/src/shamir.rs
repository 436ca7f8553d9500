//! Shares: the unseal key in the hands of several people, none of whom has it.
//!
//! The attacks this file stops: one keeper who opens the data alone, and shares that tell something
//! of the key while they are too few (Shamir's sharing over GF(2^8); the arithmetic is `vsss-rs`).
//! What it cannot know is whether enough shares give the right key; the root key's seal decides
//! that.
//!
//! A share's bytes are those of other tools for this kind of service: 32 values, then the share's
//! number.

use std::convert::Infallible;
use std::{fmt, mem};

use aws_lc_rs::{constant_time, rand};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bulkhead_wire::hexadecimal;
use rand_core::{TryCryptoRng, TryRng};
use vsss_rs::{DefaultShare, Gf256, IdentifierGf256, Polynomial, ReadableShareSet};
use zeroize::{Zeroize, Zeroizing};

use crate::cipher::{self, KEY_BYTES, SealKey};
use crate::fault::StoreFault;

/// As many numbers as GF(2^8) has besides 0, at which the key itself lies.
const MOST_SHARES: usize = 255;
/// The values, then the number.
const NUMBERED_BYTES: usize = KEY_BYTES + 1;
/// Both lengths of a share are this long in base64.
const BASE64_CHARACTERS: usize = 44;

/// Into how many shares a key is split, and how many of them open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SealConfig {
    /// Shares that are given out: 1 to 255.
    pub shares: u8,
    /// Shares that are needed: 1 to `shares`; 1 only where there is one share, which is then the
    /// key itself.
    pub threshold: u8,
}

impl SealConfig {
    /// One share, the key itself.
    pub const SINGLE: SealConfig = SealConfig { shares: 1, threshold: 1 };

    /// The configuration of these numbers, by the rules of decision H15.
    ///
    /// # Errors
    /// Which number is wrong and what it may be.
    pub fn new(shares: u64, threshold: u64) -> Result<SealConfig, String> {
        let count = u8::try_from(shares).ok().filter(|count| *count > 0);
        let count = count
            .ok_or_else(|| format!("{shares} shares cannot be made; ask for 1 to {MOST_SHARES}"))?;
        let needed = u8::try_from(threshold).ok().filter(|needed| (1..=count).contains(needed));
        let needed = needed.ok_or_else(|| {
            format!(
                "a threshold of {threshold} does not fit {shares} shares; ask for 1 to {shares}"
            )
        })?;
        if needed == 1 && count > 1 {
            return Err(format!(
                "with a threshold of 1 each of the {shares} shares would be the whole key; \
                 ask for 1 share, or for a threshold of 2 or more"
            ));
        }
        Ok(SealConfig { shares: count, threshold: needed })
    }

    /// This configuration, if it is one that [`SealConfig::new`] makes.
    ///
    /// # Errors
    /// [`StoreFault::Refused`] with its words.
    pub(crate) fn checked(self) -> Result<SealConfig, StoreFault> {
        SealConfig::new(self.shares.into(), self.threshold.into()).map_err(StoreFault::Refused)
    }
}

/// One share of a key, or the key itself where there is only one. Wiped from memory when dropped.
pub struct Share(Zeroizing<Vec<u8>>);

impl fmt::Debug for Share {
    /// Says that it is a share and nothing of its content.
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("Share")
    }
}

impl Share {
    /// Reads a share from hexadecimal or standard base64.
    ///
    /// # Errors
    /// What is wrong with the text, without repeating it.
    pub fn parse(text: &str) -> Result<Share, String> {
        let bytes =
            if text.len() == BASE64_CHARACTERS { of_base64(text) } else { of_hexadecimal(text) };
        let bytes = bytes
            .filter(|bytes| matches!(bytes.len(), KEY_BYTES | NUMBERED_BYTES))
            .ok_or_else(|| {
                format!(
                    "this text of {} bytes is no share; give it as it was printed: \
                 64 or 66 hexadecimal digits, or {BASE64_CHARACTERS} characters of base64",
                    text.len()
                )
            })?;
        Ok(Share(bytes))
    }

    /// The share in lower-case hexadecimal.
    pub fn hex(&self) -> Zeroizing<String> {
        Zeroizing::new(hexadecimal::text(&self.0))
    }

    /// The share in standard base64 with padding.
    pub fn base64(&self) -> Zeroizing<String> {
        Zeroizing::new(STANDARD.encode(&*self.0))
    }

    /// The values and the number of a numbered share.
    fn numbered(&self) -> Option<(&[u8; KEY_BYTES], u8)> {
        let (values, rest) = self.0.split_first_chunk()?;
        let &[number] = rest else { return None };
        Some((values, number))
    }
}

impl SealKey {
    /// The key as the only share of itself.
    pub fn share(&self) -> Share {
        Share(Zeroizing::new(self.bytes().to_vec()))
    }
}

fn of_base64(text: &str) -> Option<Zeroizing<Vec<u8>>> {
    let mut bytes = Zeroizing::new(Vec::with_capacity(text.len()));
    STANDARD.decode_vec(text, &mut bytes).ok()?;
    Some(bytes)
}

fn of_hexadecimal(text: &str) -> Option<Zeroizing<Vec<u8>>> {
    let mut bytes = Zeroizing::new(Vec::with_capacity(text.len() / 2));
    for pair in text.as_bytes().chunks(2) {
        let &[high, low] = pair else { return None };
        let value = char::from(high).to_digit(16)? << 4 | char::from(low).to_digit(16)?;
        bytes.push(u8::try_from(value).ok()?);
    }
    Some(bytes)
}

/// Splits `key` so that any `config.threshold` of the returned shares give it back, and fewer tell
/// nothing of it.
///
/// # Errors
/// [`StoreFault::Refused`] for numbers that [`SealConfig::new`] refuses;
/// [`StoreFault::Unavailable`] when the system gives no randomness.
pub fn split(key: &SealKey, config: SealConfig) -> Result<Vec<Share>, StoreFault> {
    let config = config.checked()?;
    if config.threshold == 1 {
        return Ok(vec![key.share()]);
    }
    let threshold = usize::from(config.threshold);
    let numbers = 1..=config.shares;
    let mut shares: Vec<Share> = numbers
        .clone()
        .map(|_| Share(Zeroizing::new(Vec::with_capacity(NUMBERED_BYTES))))
        .collect();
    let mut randomness = Randomness::default();
    for byte in key.bytes() {
        let mut polynomial = Points::none();
        let filled = Polynomial::<Point>::fill(
            &mut polynomial.0,
            &element(*byte),
            &mut randomness,
            threshold,
        );
        filled.map_err(|error| {
            StoreFault::Unavailable(format!("the key could not be split: {error}; try again"))
        })?;
        for (share, number) in shares.iter_mut().zip(numbers.clone()) {
            let mut value = element(0);
            Polynomial::<Point>::evaluate_in_place(
                &polynomial.0,
                &element(number),
                threshold,
                &mut value,
            );
            share.0.push(value.0.0);
        }
    }
    for (share, number) in shares.iter_mut().zip(numbers) {
        share.0.push(number);
    }
    if randomness.failed { Err(cipher::no_randomness()) } else { Ok(shares) }
}

/// Where the shares of one attempt stand.
pub enum Progress {
    /// So many different shares are there, and more are needed.
    More(u8),
    /// The key that the shares give, which need not be the right one. The collector is empty again.
    Enough(SealKey),
}

/// Shares as they come in, until there are enough; never more than the threshold. Dropped, it
/// forgets them.
pub struct ShareCollector {
    config: SealConfig,
    shares: Vec<Share>,
}

impl ShareCollector {
    /// None yet.
    pub fn new(config: SealConfig) -> ShareCollector {
        ShareCollector { config, shares: Vec::new() }
    }

    /// How many different shares are there.
    pub fn have(&self) -> u8 {
        u8::try_from(self.shares.len()).unwrap_or(u8::MAX)
    }

    /// Takes a share. One that is there already makes no progress.
    ///
    /// # Errors
    /// Why the share cannot be one of this configuration, or contradicts another one. What was
    /// gathered stays.
    pub fn add(&mut self, share: Share) -> Result<Progress, String> {
        if self.config.threshold == 1 {
            return self.whole_key(&share).map(Progress::Enough);
        }
        if self.is_new(&share)? {
            self.shares.push(share);
        }
        if self.have() < self.config.threshold {
            return Ok(Progress::More(self.have()));
        }
        combine(&mem::take(&mut self.shares)).map(Progress::Enough)
    }

    fn whole_key(&self, share: &Share) -> Result<SealKey, String> {
        let key = share.0.as_slice().try_into().map_err(|_| self.wrong_length(share))?;
        Ok(SealKey::from_bytes(key))
    }

    fn is_new(&self, share: &Share) -> Result<bool, String> {
        let (values, number) = share.numbered().ok_or_else(|| self.wrong_length(share))?;
        if !(1..=self.config.shares).contains(&number) {
            return Err(format!(
                "this share has number {number} and there are shares 1 to {}; give one of this server",
                self.config.shares
            ));
        }
        let same_number =
            self.shares.iter().filter_map(Share::numbered).find(|(_, theirs)| *theirs == number);
        let Some((known, _)) = same_number else { return Ok(true) };
        constant_time::verify_slices_are_equal(known, values).map(|()| false).map_err(|_| {
            format!("share number {number} was given before with other content; start again with the right shares")
        })
    }

    fn wrong_length(&self, share: &Share) -> String {
        format!(
            "this share has {} bytes, and those of {} shares with a threshold of {} have {}; give one of this server",
            share.0.len(),
            self.config.shares,
            self.config.threshold,
            if self.config.threshold == 1 { KEY_BYTES } else { NUMBERED_BYTES }
        )
    }
}

/// The key that lies at 0 of the polynomials through these shares, which have different numbers.
fn combine(shares: &[Share]) -> Result<SealKey, String> {
    let mut key = cipher::KeyBytes::default();
    for (position, byte) in key.iter_mut().enumerate() {
        let mut points = Points::none();
        for (point, (values, number)) in
            points.0.iter_mut().zip(shares.iter().filter_map(Share::numbered))
        {
            *point = Point {
                identifier: element(number),
                value: element(*values.get(position).unwrap_or(&0)),
            };
        }
        let given = points.0.get(..shares.len()).unwrap_or_default();
        let mut value = element(0);
        given
            .combine_in_place(&mut value)
            .map_err(|error| format!("the shares do not fit together: {error}"))?;
        *byte = value.0.0;
    }
    Ok(SealKey::from_bytes(*key))
}

type Element = IdentifierGf256;
type Point = DefaultShare<Element, Element>;

fn element(byte: u8) -> Element {
    IdentifierGf256(Gf256(byte))
}

/// The coefficients, or the points, of one byte of a key. Wiped when dropped.
struct Points([Point; MOST_SHARES]);

impl Points {
    fn none() -> Points {
        Points([Point { identifier: element(0), value: element(0) }; MOST_SHARES])
    }
}

impl Drop for Points {
    fn drop(&mut self) {
        for point in &mut self.0 {
            point.identifier.0.0.zeroize();
            point.value.0.0.zeroize();
        }
    }
}

/// The operating system's generator, for an interface that cannot be told of a failure: whoever
/// uses it must look at `failed` before using what was made.
#[derive(Default)]
struct Randomness {
    failed: bool,
}

impl TryRng for Randomness {
    type Error = Infallible;

    fn try_next_u32(&mut self) -> Result<u32, Infallible> {
        let mut bytes = [0; 4];
        self.try_fill_bytes(&mut bytes)?;
        Ok(u32::from_ne_bytes(bytes))
    }

    fn try_next_u64(&mut self) -> Result<u64, Infallible> {
        let mut bytes = [0; 8];
        self.try_fill_bytes(&mut bytes)?;
        Ok(u64::from_ne_bytes(bytes))
    }

    fn try_fill_bytes(&mut self, bytes: &mut [u8]) -> Result<(), Infallible> {
        self.failed |= rand::fill(bytes).is_err();
        Ok(())
    }
}

impl TryCryptoRng for Randomness {}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(shares: u8, threshold: u8) -> SealConfig {
        SealConfig { shares, threshold }
    }

    fn copy(share: &Share) -> Share {
        Share(share.0.clone())
    }

    /// What the shares at these positions give.
    fn gathered(
        shares: &[Share],
        config: SealConfig,
        positions: impl IntoIterator<Item = usize>,
    ) -> Option<SealKey> {
        let mut collector = ShareCollector::new(config);
        for position in positions {
            match collector.add(copy(&shares[position])).unwrap() {
                Progress::Enough(key) => return Some(key),
                Progress::More(_) => {}
            }
        }
        None
    }

    /// Multiplication in GF(2^8) modulo x^8 + x^4 + x^3 + x + 1, bit by bit, apart from the code
    /// that is tested.
    fn times(mut one: u8, mut other: u8) -> u8 {
        let mut product = 0;
        while other != 0 {
            if other & 1 == 1 {
                product ^= one;
            }
            let overflows = one & 0x80 != 0;
            one <<= 1;
            if overflows {
                one ^= 0x1b;
            }
            other >>= 1;
        }
        product
    }

    fn inverse(of: u8) -> u8 {
        (1..=255).find(|candidate| times(of, *candidate) == 1).unwrap()
    }

    /// The value at 0 of the polynomial through these points, by Lagrange's formula.
    fn at_zero(points: &[(u8, u8)]) -> u8 {
        let term = |&(x, y): &(u8, u8)| {
            let others = points.iter().filter(|(other, _)| *other != x);
            others.fold(y, |term, (other, _)| times(term, times(*other, inverse(other ^ x))))
        };
        points.iter().map(term).fold(0, |sum, term| sum ^ term)
    }

    fn key_of(shares: &[&Share]) -> Vec<u8> {
        let point = |share: &&Share, position: usize| (share.0[KEY_BYTES], share.0[position]);
        (0..KEY_BYTES)
            .map(|position| {
                at_zero(&shares.iter().map(|share| point(share, position)).collect::<Vec<_>>())
            })
            .collect()
    }

    #[test]
    fn the_field_of_the_tests_is_the_one_of_the_standard_examples() {
        // FIPS 197, section 4.2: {57} x {83} = {c1}, {57} x {13} = {fe}.
        assert_eq!((times(0x57, 0x83), times(0x57, 0x13)), (0xc1, 0xfe));
    }

    #[test]
    fn any_three_of_five_shares_open_and_no_two_do() {
        let key = SealKey::generate().unwrap();
        let shares = split(&key, config(5, 3)).unwrap();
        assert_eq!(
            shares.iter().map(|share| share.0[KEY_BYTES]).collect::<Vec<_>>(),
            [1, 2, 3, 4, 5]
        );
        for one in 0..5 {
            for two in (0..5).filter(|two| *two != one) {
                assert_ne!(key_of(&[&shares[one], &shares[two]]), key.bytes());
                assert!(gathered(&shares, config(5, 3), [one, two]).is_none());
                for three in (0..5).filter(|three| *three != one && *three != two) {
                    assert_eq!(key_of(&[&shares[one], &shares[two], &shares[three]]), key.bytes());
                    let opened = gathered(&shares, config(5, 3), [one, two, three]).unwrap();
                    assert_eq!(opened.bytes(), key.bytes());
                }
            }
        }
    }

    #[test]
    fn shares_that_were_computed_by_hand_open() {
        // f(x) = 2a + 03 x + 05 x^2 for every byte.
        let value = |x: u8| 0x2a ^ times(0x03, x) ^ times(0x05, times(x, x));
        assert_eq!([value(1), value(2), value(5)], [0x2c, 0x38, 0x70]);
        let text = |x: u8| format!("{}{x:02x}", format!("{:02x}", value(x)).repeat(KEY_BYTES));
        let shares: Vec<Share> = [5, 1, 2].map(|x| Share::parse(&text(x)).unwrap()).into();
        assert_eq!(gathered(&shares, config(5, 3), 0..3).unwrap().bytes(), &[0x2a; KEY_BYTES]);
    }

    #[test]
    fn every_value_of_a_share_occurs_so_that_one_share_tells_nothing() {
        let key = SealKey::from_bytes([0; KEY_BYTES]);
        let mut counts = [[0_u32; 256]; 3];
        for _ in 0..1_000 {
            let shares = split(&key, config(3, 3)).unwrap();
            for (share, counts) in shares.iter().zip(&mut counts) {
                for value in &share.0[..KEY_BYTES] {
                    counts[usize::from(*value)] += 1;
                }
            }
        }
        // 32,000 values a share: 125 each on average with a deviation of 11. Eight deviations never
        // happen.
        for counts in counts {
            assert!(counts.iter().all(|count| (35..=215).contains(count)), "{counts:?}");
        }
    }

    #[test]
    fn the_leading_coefficient_is_zero_as_often_as_it_is_anything_else() {
        let key = SealKey::from_bytes([9; KEY_BYTES]);
        // With two shares the polynomial is 9 + c x, and share 1 is 9 + c.
        let splits = (0..1_000).map(|_| split(&key, config(2, 2)).unwrap());
        let zero = splits
            .flat_map(|shares| shares[0].0[..KEY_BYTES].to_vec())
            .filter(|value| *value == 9)
            .count();
        assert!((35..=215).contains(&zero), "{zero} of 32,000");
    }

    #[test]
    fn all_of_255_shares_are_needed_when_the_threshold_says_so() {
        let (key, all) = (SealKey::generate().unwrap(), config(255, 255));
        let shares = split(&key, all).unwrap();
        assert!(gathered(&shares, all, 0..254).is_none());
        assert_eq!(gathered(&shares, all, (0..255).rev()).unwrap().bytes(), key.bytes());
        let two = split(&key, config(255, 2)).unwrap();
        assert_eq!(gathered(&two, config(255, 2), [254, 0]).unwrap().bytes(), key.bytes());
    }

    #[test]
    fn a_single_share_is_the_key_itself() {
        let key = SealKey::from_bytes([0xab; KEY_BYTES]);
        let shares = split(&key, SealConfig::SINGLE).unwrap();
        assert_eq!(*shares[0].hex(), "ab".repeat(KEY_BYTES));
        assert_eq!(gathered(&shares, SealConfig::SINGLE, [0]).unwrap().bytes(), key.bytes());
    }

    #[test]
    fn a_share_reads_back_from_both_of_its_texts() {
        for config in [SealConfig::SINGLE, config(2, 2)] {
            let share = split(&SealKey::generate().unwrap(), config).unwrap().remove(0);
            for text in [share.hex(), share.base64(), Zeroizing::new(share.hex().to_uppercase())] {
                assert_eq!(Share::parse(&text).unwrap().0, share.0);
            }
        }
    }

    #[test]
    fn text_that_is_no_share_is_refused_and_not_repeated() {
        let good = "ab".repeat(KEY_BYTES);
        let bad_digit = format!("{}zz", &good[2..]);
        let wide = "é".repeat(KEY_BYTES);
        for text in [
            "",
            "hunter2",
            &good[2..],
            &good[1..],
            &bad_digit,
            &wide,
            &"!".repeat(44),
            &"A".repeat(43),
        ] {
            let said = Share::parse(text).unwrap_err();
            assert!(text.is_empty() || !said.contains(text), "{said}");
            assert!(said.contains("base64"), "{said}");
        }
        // Bits that a decoder would drop: one share must not have several texts.
        assert!(Share::parse(&format!("{}B=", "A".repeat(42))).is_err());
    }

    #[test]
    fn nothing_of_a_share_is_shown_by_debug() {
        assert_eq!(format!("{:?}", SealKey::from_bytes([0xab; KEY_BYTES]).share()), "Share");
    }

    #[test]
    fn a_repeated_share_makes_no_progress_and_is_no_error() {
        let shares = split(&SealKey::generate().unwrap(), config(3, 2)).unwrap();
        let mut collector = ShareCollector::new(config(3, 2));
        for _ in 0..3 {
            assert!(matches!(collector.add(copy(&shares[1])), Ok(Progress::More(1))));
        }
        assert!(matches!(collector.add(copy(&shares[0])), Ok(Progress::Enough(_))));
        assert_eq!(collector.have(), 0, "it begins anew");
    }

    #[test]
    fn a_share_that_cannot_be_of_this_configuration_is_refused_and_the_others_stay() {
        let shares = split(&SealKey::generate().unwrap(), config(3, 2)).unwrap();
        let mut collector = ShareCollector::new(config(3, 2));
        collector.add(copy(&shares[0])).map(drop).unwrap();
        let numbered =
            |number: u8| Share::parse(&format!("{}{number:02x}", "ab".repeat(KEY_BYTES))).unwrap();
        for (share, said) in [
            (numbered(1), "other content"),
            (numbered(0), "number 0"),
            (numbered(4), "shares 1 to 3"),
            (SealKey::generate().unwrap().share(), "has 32 bytes"),
        ] {
            let text = collector.add(share).map(drop).unwrap_err();
            assert!(text.contains(said), "{text}");
            assert_eq!(collector.have(), 1);
        }
        let long = ShareCollector::new(SealConfig::SINGLE).add(numbered(1)).map(drop).unwrap_err();
        assert!(long.contains("has 33 bytes"), "{long}");
    }

    #[test]
    fn shares_of_two_keys_give_a_key_that_is_neither() {
        let keys = [SealKey::generate().unwrap(), SealKey::generate().unwrap()];
        let mut shares = split(&keys[0], config(2, 2)).unwrap();
        shares[1] = split(&keys[1], config(2, 2)).unwrap().remove(1);
        let mixed = gathered(&shares, config(2, 2), 0..2).unwrap();
        assert!(keys.iter().all(|key| key.bytes() != mixed.bytes()));
    }

    #[test]
    fn numbers_that_the_contract_refuses_are_refused_with_their_value() {
        for (shares, threshold, said) in [
            (0, 0, "0 shares"),
            (0, 1, "0 shares"),
            (256, 3, "256 shares"),
            (u64::MAX, 2, "18446744073709551615 shares"),
            (5, 0, "threshold of 0"),
            (5, 6, "threshold of 6"),
            (5, 258, "threshold of 258"),
            (3, 1, "threshold of 1"),
        ] {
            let text = SealConfig::new(shares, threshold).unwrap_err();
            assert!(text.contains(said) && text.contains("ask for"), "{text}");
        }
        for (shares, threshold) in [(1, 1), (2, 2), (5, 3), (255, 255), (255, 2)] {
            let config = SealConfig::new(shares, threshold).unwrap();
            assert_eq!(
                (u64::from(config.shares), u64::from(config.threshold)),
                (shares, threshold)
            );
        }
        assert!(matches!(
            split(&SealKey::from_bytes([1; 32]), config(3, 1)),
            Err(StoreFault::Refused(_))
        ));
    }
}

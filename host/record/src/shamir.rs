//! Shares: the unseal key split among several people, none of whom has the whole key.
//!
//! This file prevents a single keeper of a share from opening the data, and prevents too few shares
//! from revealing anything about the key (Shamir's sharing over GF(2^8); the arithmetic is
//! `vsss-rs`). Shares cannot tell whether the combined key is the right key; the seal of the root
//! key decides.
//!
//! The bytes of a share have the layout of other tools for this kind of service: 32 values, then
//! the share's number.

#[cfg(test)]
mod tests;
mod text;

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
use text::{of_base64, of_hexadecimal};

/// Maximum number of shares: the elements of GF(2^8) except 0, the position of the key itself.
const MOST_SHARES: usize = 255;
/// Length of a numbered share in bytes: the values, then the number.
const NUMBERED_BYTES: usize = KEY_BYTES + 1;
/// Length of a share in base64, with or without a number.
const BASE64_CHARACTERS: usize = 44;

/// The number of shares of a key, and the threshold that opens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SealConfig {
    /// Number of shares given out: 1 to 255.
    pub shares: u8,
    /// Number of shares needed: 1 to `shares`. A threshold of 1 is allowed only with a single
    /// share, which is then the key itself.
    pub threshold: u8,
}

impl SealConfig {
    /// A single share: the key itself.
    pub const SINGLE: SealConfig = SealConfig { shares: 1, threshold: 1 };

    /// Creates a configuration, by the rules of decision H15.
    ///
    /// # Errors
    /// The invalid number and the allowed range.
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

    /// Checks the configuration against the rules of [`SealConfig::new`].
    ///
    /// # Errors
    /// [`StoreFault::Refused`] with the message of [`SealConfig::new`].
    pub fn validate(self) -> Result<SealConfig, StoreFault> {
        SealConfig::new(self.shares.into(), self.threshold.into()).map_err(StoreFault::Refused)
    }
}

/// A share of a key, or the key itself if there is a single share. Wiped from memory when dropped.
#[derive(Clone)]
pub struct KeyShare(Zeroizing<Vec<u8>>);

impl fmt::Debug for KeyShare {
    /// Writes the type's name and nothing of the content.
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("Share")
    }
}

impl KeyShare {
    /// Reads a share from hexadecimal or standard base64.
    ///
    /// # Errors
    /// The problem with the text, without repeating the text.
    pub fn parse(text: &str) -> Result<KeyShare, String> {
        let bytes =
            if text.len() == BASE64_CHARACTERS { of_base64(text) } else { of_hexadecimal(text) };
        let bytes = bytes
            .filter(|bytes| matches!(bytes.len(), KEY_BYTES | NUMBERED_BYTES))
            .ok_or_else(|| {
                format!(
                    "this text of {} bytes is not a share; give the share as printed: 64 or 66 \
                     hexadecimal digits, or {BASE64_CHARACTERS} characters of base64",
                    text.len()
                )
            })?;
        Ok(KeyShare(bytes))
    }

    /// Returns the share in lower-case hexadecimal.
    pub fn hex(&self) -> Zeroizing<String> {
        Zeroizing::new(hexadecimal::text(&self.0))
    }

    /// Returns the share in standard base64 with padding.
    pub fn base64(&self) -> Zeroizing<String> {
        Zeroizing::new(STANDARD.encode(&*self.0))
    }

    /// Returns the share's number; `None` if the share is the key itself.
    pub fn number(&self) -> Option<u8> {
        self.values_and_number().map(|(_, number)| number)
    }

    /// Compares two shares in constant time.
    pub fn is_same(&self, other: &KeyShare) -> bool {
        constant_time::verify_slices_are_equal(&self.0, &other.0).is_ok()
    }

    /// Returns the values and the number of a numbered share.
    fn values_and_number(&self) -> Option<(&[u8; KEY_BYTES], u8)> {
        let (values, rest) = self.0.split_first_chunk()?;
        let &[number] = rest else { return None };
        Some((values, number))
    }
}

impl SealKey {
    /// Compares two keys in constant time.
    pub fn is_same(&self, other: &SealKey) -> bool {
        constant_time::verify_slices_are_equal(self.bytes(), other.bytes()).is_ok()
    }

    /// Returns the key as a single share.
    pub fn share(&self) -> KeyShare {
        KeyShare(Zeroizing::new(self.bytes().to_vec()))
    }
}

/// Splits `key` so that any `config.threshold` of the returned shares restore the key, and fewer
/// reveal nothing about `key`.
///
/// # Errors
/// [`StoreFault::Refused`] for numbers that [`SealConfig::new`] refuses;
/// [`StoreFault::Unavailable`] if the system gives no randomness.
pub fn split(key: &SealKey, config: SealConfig) -> Result<Vec<KeyShare>, StoreFault> {
    let config = config.validate()?;
    if config.threshold == 1 {
        return Ok(vec![key.share()]);
    }
    let threshold = usize::from(config.threshold);
    let numbers = 1..=config.shares;
    let mut shares: Vec<KeyShare> = numbers
        .clone()
        .map(|_| KeyShare(Zeroizing::new(Vec::with_capacity(NUMBERED_BYTES))))
        .collect();
    let mut randomness = FallibleRandom::default();
    for byte in key.bytes() {
        let mut polynomial = BytePoints::none();
        let filled = Polynomial::<SharePoint>::fill(
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
            Polynomial::<SharePoint>::evaluate_in_place(
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
    if randomness.failed { Err(cipher::missing_randomness()) } else { Ok(shares) }
}

/// The progress of an attempt to combine shares.
pub enum ShareProgress {
    /// This number of different shares is present, and more are needed.
    More(u8),
    /// The combined key, which need not be the right key. The collector is empty again.
    Enough(SealKey),
}

impl ShareProgress {
    /// Returns the key if there were enough shares.
    pub fn into_key(self) -> Option<SealKey> {
        match self {
            ShareProgress::More(_) => None,
            ShareProgress::Enough(key) => Some(key),
        }
    }
}

/// A collector of shares, never more than the threshold. Dropping the collector wipes the shares.
pub struct ShareCollector {
    config: SealConfig,
    shares: Vec<KeyShare>,
}

impl ShareCollector {
    /// Creates an empty collector.
    pub fn new(config: SealConfig) -> ShareCollector {
        ShareCollector { config, shares: Vec::new() }
    }

    /// Returns the number of different shares present.
    pub fn count(&self) -> u8 {
        u8::try_from(self.shares.len()).unwrap_or(u8::MAX)
    }

    /// Adds a share. A share that is already present makes no progress.
    ///
    /// # Errors
    /// The reason why the share does not fit this configuration or contradicts another share.
    /// Shares collected before stay.
    pub fn add(&mut self, share: KeyShare) -> Result<ShareProgress, String> {
        if self.config.threshold == 1 {
            return self.whole_key(&share).map(ShareProgress::Enough);
        }
        if self.is_new(&share)? {
            self.shares.push(share);
        }
        if self.count() < self.config.threshold {
            return Ok(ShareProgress::More(self.count()));
        }
        combine(&mem::take(&mut self.shares)).map(ShareProgress::Enough)
    }

    /// Compares `share` with the present share of the same number; `None` if there is no such
    /// share.
    fn compare_same_number(&self, share: &KeyShare) -> Option<bool> {
        let same_number = |other: &&KeyShare| other.number() == share.number();
        self.shares.iter().find(same_number).map(|other| other.is_same(share))
    }

    fn whole_key(&self, share: &KeyShare) -> Result<SealKey, String> {
        let key = share.0.as_slice().try_into().map_err(|_| self.wrong_length(share))?;
        Ok(SealKey::from_bytes(key))
    }

    fn is_new(&self, share: &KeyShare) -> Result<bool, String> {
        let (_, number) = share.values_and_number().ok_or_else(|| self.wrong_length(share))?;
        if !(1..=self.config.shares).contains(&number) {
            return Err(format!(
                "this share has number {number} and there are shares 1 to {}; give a share of this \
                 server",
                self.config.shares
            ));
        }
        match self.compare_same_number(share) {
            None => Ok(true),
            Some(true) => Ok(false),
            Some(false) => Err(format!(
                "share number {number} was given before with other content; \
                 start again with the right shares"
            )),
        }
    }

    fn wrong_length(&self, share: &KeyShare) -> String {
        format!(
            "this share has {} bytes, and each of {} shares with a threshold of {} has {}; give a \
             share of this server",
            share.0.len(),
            self.config.shares,
            self.config.threshold,
            if self.config.threshold == 1 { KEY_BYTES } else { NUMBERED_BYTES }
        )
    }
}

/// Interpolates the key at 0 from these shares, which have different numbers.
fn combine(shares: &[KeyShare]) -> Result<SealKey, String> {
    let mut key = cipher::KeyBytes::default();
    for (position, byte) in key.iter_mut().enumerate() {
        let mut points = BytePoints::none();
        for (point, (values, number)) in
            points.0.iter_mut().zip(shares.iter().filter_map(KeyShare::values_and_number))
        {
            *point = SharePoint {
                identifier: element(number),
                value: element(*values.get(position).unwrap_or(&0)),
            };
        }
        let share_points = points.0.get(..shares.len()).unwrap_or_default();
        let mut value = element(0);
        share_points
            .combine_in_place(&mut value)
            .map_err(|error| format!("the shares do not fit together: {error}"))?;
        *byte = value.0.0;
    }
    Ok(SealKey::from_bytes(*key))
}

type FieldElement = IdentifierGf256;
type SharePoint = DefaultShare<FieldElement, FieldElement>;

fn element(byte: u8) -> FieldElement {
    IdentifierGf256(Gf256(byte))
}

/// The coefficients, or the points, of a single byte of a key. Wiped when dropped.
struct BytePoints([SharePoint; MOST_SHARES]);

impl BytePoints {
    fn none() -> BytePoints {
        BytePoints([SharePoint { identifier: element(0), value: element(0) }; MOST_SHARES])
    }
}

impl Drop for BytePoints {
    fn drop(&mut self) {
        for point in &mut self.0 {
            point.identifier.0.0.zeroize();
            point.value.0.0.zeroize();
        }
    }
}

/// The operating system's generator behind an infallible interface. The caller checks `failed`
/// before using the result.
#[derive(Default)]
struct FallibleRandom {
    failed: bool,
}

impl TryRng for FallibleRandom {
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

impl TryCryptoRng for FallibleRandom {}

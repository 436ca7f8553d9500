//! Bounds of everything that is read, with their units in their names.

use bulkhead_wire::failure::Failure;

/// Bytes of a key or of certificates in PEM.
pub(crate) const PEM_BYTES: usize = 64 << 10;
/// Bytes of a key as JWK: one of 8,192 bits with all its parts has some 7 KiB.
pub(crate) const JWK_BYTES: usize = 16 << 10;
/// Bytes that are signed, verified or digested at once: some milliseconds.
pub const MESSAGE_BYTES: usize = 1 << 20;
/// Bits of an RSA modulus. Shorter ones can be broken, longer ones take too long to verify with.
pub(crate) const RSA_BITS: std::ops::RangeInclusive<u32> = 2_048..=8_192;
/// Bits of an RSA modulus to sign with: a signature takes eight times as long for twice as many.
pub(crate) const PRIVATE_RSA_BITS: u32 = 4_096;
/// Bits of an RSA exponent: verification takes as many steps.
pub(crate) const RSA_EXPONENT_BITS: u32 = 32;
/// Names of one certificate.
pub(crate) const CERTIFICATE_NAMES: usize = 256;
/// Extensions of one certificate.
pub(crate) const EXTENSIONS: usize = 64;
/// Bytes of one name of a certificate that is issued.
pub(crate) const NAME_BYTES: usize = 253;
/// Characters of a common name.
pub(crate) const COMMON_NAME_CHARACTERS: usize = 64;
/// Certificates between one and its root, and roots.
pub(crate) const CHAIN: usize = 16;
/// Roots that a chain may end in.
pub(crate) const ROOTS: usize = 64;
/// Bytes of a password.
pub(crate) const PASSWORD_BYTES: usize = 4 << 10;
/// Bytes of the text of a password's hash.
pub(crate) const HASH_TEXT_BYTES: usize = 512;
/// Memory of one password hash, in KiB.
pub(crate) const HASH_MEMORY_KIB: u32 = 64 << 10;
/// What all passes of one password hash may go over, in KiB: some hundred milliseconds.
pub(crate) const HASH_WORK_KIB: u32 = 256 << 10;

/// Refuses what is longer than may be read.
pub(crate) fn check_length(what: &str, bytes: usize, most: usize) -> Result<(), Failure> {
    if bytes <= most {
        return Ok(());
    }
    Err(Failure::invalid(format!("{what} has {bytes} bytes; the most is {most}")))
}

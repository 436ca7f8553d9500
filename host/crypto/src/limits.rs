//! Limits of all inputs, with units in their names.

use bulkhead_wire::failure::Failure;

/// Maximum bytes of a key or of certificates in PEM.
pub(crate) const PEM_BYTES: usize = 64 << 10;
/// Maximum bytes of a JWK: a full private key of 8,192 bits has some 7 KiB.
pub(crate) const JWK_BYTES: usize = 16 << 10;
/// Maximum bytes signed, verified or digested in one call: some milliseconds.
pub const MESSAGE_BYTES: usize = 1 << 20;
/// Permitted bits of an RSA modulus. Shorter keys can be broken, longer keys are slow to verify
/// with.
pub(crate) const RSA_BITS: std::ops::RangeInclusive<u32> = 2_048..=8_192;
/// Maximum bits of an RSA modulus for signing: a signature takes eight times as long for twice the
/// bits.
pub(crate) const PRIVATE_RSA_BITS: u32 = 4_096;
/// Maximum bits of an RSA exponent; the number of verification steps grows with the bits.
pub(crate) const RSA_EXPONENT_BITS: u32 = 32;
/// Maximum names in a certificate.
pub(crate) const CERTIFICATE_NAMES: usize = 256;
/// Maximum extensions in a certificate.
pub(crate) const EXTENSIONS: usize = 64;
/// Maximum bytes of a name in an issued certificate.
pub(crate) const NAME_BYTES: usize = 253;
/// Maximum characters of a common name.
pub(crate) const COMMON_NAME_CHARACTERS: usize = 64;
/// Maximum certificates in one text; in a chain, the leaf comes on top.
pub(crate) const CHAIN: usize = 16;
/// Maximum trusted roots of a chain.
pub(crate) const ROOTS: usize = 64;
/// Maximum bytes of a password.
pub(crate) const PASSWORD_BYTES: usize = 4 << 10;
/// Maximum bytes of the text of a password hash.
pub(crate) const HASH_TEXT_BYTES: usize = 512;
/// Maximum memory of a password hash, in KiB.
pub(crate) const HASH_MEMORY_KIB: u32 = 64 << 10;
/// Maximum memory traffic of all passes of a password hash, in KiB: some hundred milliseconds.
pub(crate) const HASH_WORK_KIB: u32 = 256 << 10;

/// Refuses an input of more than `most` bytes.
pub(crate) fn check_length(subject: &str, bytes: usize, most: usize) -> Result<(), Failure> {
    if bytes <= most {
        return Ok(());
    }
    Err(Failure::invalid(format!("{subject} has {bytes} bytes; the most is {most}")))
}

//! Cryptography that belongs outside of the sandbox.

use crate::crypto::{Certificate, CertificateChain, CertificateRequest, GeneratedKey, PublicKey};
use bulkhead_wire::failure::Failure;

/// Signatures, keys, certificates and password hashes. Signature algorithms have their JOSE names:
/// RS256, RS384, RS512, PS256, PS384, PS512, ES256, ES384, ES512 and EdDSA.
///
/// Every method answers invalid request for unreadable input and for input over a limit. Private
/// keys and passwords become secrets of the call, which the host removes from logs. For JWTs use
/// [`jwt`](crate::jwt).
pub trait Crypto {
    /// Derives a key of 32 bytes from a password by PBKDF2 with HMAC-SHA-256, slow on purpose.
    /// `iterations` is 1 to 100,000; any other number ends the call. To store passwords use
    /// [`hash_password`](Self::hash_password).
    fn pbkdf2_sha256(&self, password: &str, salt: &[u8], iterations: u32) -> Vec<u8>;

    /// Returns the digest by `sha256`, `sha384` or `sha512`.
    ///
    /// # Errors
    /// Invalid request.
    fn digest(&self, algorithm: &str, data: &[u8]) -> Result<Vec<u8>, Failure>;

    /// Returns the HMAC by `sha256`, `sha384` or `sha512`. Compare the result with
    /// [`is_equal`](crate::crypto::is_equal), which takes constant time.
    ///
    /// # Errors
    /// Invalid request.
    fn hmac(&self, algorithm: &str, key: &[u8], data: &[u8]) -> Result<Vec<u8>, Failure>;

    /// Returns true if `signature` is a signature of `message` by `public_key`. The host caches the
    /// parsed keys that the mount used last.
    ///
    /// # Errors
    /// Invalid request for the key or the algorithm. A damaged signature is not an error: the
    /// answer is false.
    fn verify(
        &self,
        algorithm: &str,
        public_key: &str,
        message: &[u8],
        signature: &[u8],
    ) -> Result<bool, Failure>;

    /// Signs the message.
    ///
    /// # Errors
    /// Permission denied without the grant `crypto:sign`; invalid request.
    fn sign(&self, algorithm: &str, private_key: &str, message: &[u8]) -> Result<Vec<u8>, Failure>;

    /// Reads a public key, or the public half of a private key.
    ///
    /// # Errors
    /// Invalid request.
    fn read_key(&self, key: &str) -> Result<PublicKey, Failure>;

    /// Generates a key: `rsa` of 2048, 3072 or 4096 bits, `ec` of 256, 384 or 521 bits, or
    /// `ed25519`; in the form `pkcs8` or `traditional`. 0 bits means the smallest size of the kind.
    /// An RSA key takes tenths of a second; a key of 4096 bits takes some seconds.
    ///
    /// # Errors
    /// Permission denied without the grant `crypto:generate-key`; invalid request.
    fn generate_key(&self, kind: &str, bits: u32, form: &str) -> Result<GeneratedKey, Failure>;

    /// Reads the first certificate of a PEM text.
    ///
    /// # Errors
    /// Invalid request.
    fn read_certificate(&self, pem: &str) -> Result<Certificate, Failure>;

    /// Verifies a certificate by a chain to one of the given roots.
    ///
    /// # Errors
    /// Permission denied if the certificate cannot be trusted; invalid request.
    fn verify_chain(&self, chain: &CertificateChain<'_>) -> Result<(), Failure>;

    /// Issues a certificate, in PEM.
    ///
    /// # Errors
    /// Permission denied without the grant `crypto:issue-certificate`; invalid request.
    fn issue_certificate(&self, request: &CertificateRequest) -> Result<String, Failure>;

    /// Hashes the password by argon2id, as a PHC string.
    ///
    /// # Errors
    /// Invalid request for more than 4 KiB.
    fn hash_password(&self, password: &str) -> Result<String, Failure>;

    /// Returns true if `hash` is a hash of `password`.
    ///
    /// # Errors
    /// Invalid request if `hash` is not an argon2id hash, or costs too much memory or time.
    fn verify_password(&self, password: &str, hash: &str) -> Result<bool, Failure>;
}

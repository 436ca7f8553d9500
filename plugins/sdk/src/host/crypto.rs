//! Cryptography that belongs outside a sandbox.

use crate::crypto::{Certificate, CertificateRequest, Chain, GeneratedKey, PublicKey};
use bulkhead_wire::failure::Failure;

/// Signatures, keys, certificates and password hashes. Algorithms of signatures have their names in
/// JOSE: RS256, RS384, RS512, PS256, PS384, PS512, ES256, ES384, ES512 and EdDSA.
///
/// What cannot be read, and what is over a bound, is an invalid request in each of them. Private
/// keys and passwords join the secrets of the call. For JWTs use [`jwt`](crate::jwt).
pub trait Crypto {
    /// A key of 32 bytes from a password, slowly on purpose: PBKDF2 with HMAC-SHA-256. `iterations`
    /// from 1 to 100,000; others end the call. To keep passwords use
    /// [`hash_password`](Self::hash_password).
    fn pbkdf2_sha256(&self, password: &str, salt: &[u8], iterations: u32) -> Vec<u8>;

    /// The digest by `sha256`, `sha384` or `sha512`.
    ///
    /// # Errors
    /// Invalid request.
    fn digest(&self, algorithm: &str, data: &[u8]) -> Result<Vec<u8>, Failure>;

    /// HMAC by `sha256`, `sha384` or `sha512`. Compare it by
    /// [`is_equal`](crate::crypto::is_equal).
    ///
    /// # Errors
    /// Invalid request.
    fn hmac(&self, algorithm: &str, key: &[u8], data: &[u8]) -> Result<Vec<u8>, Failure>;

    /// Whether the signature is of that message and by that public key. The host keeps the keys
    /// that the mount used last parsed.
    ///
    /// # Errors
    /// Invalid request, for the key and the algorithm. A damaged signature is none.
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

    /// Reads a key: a public one, or the public half of a private one.
    ///
    /// # Errors
    /// Invalid request.
    fn read_key(&self, key: &str) -> Result<PublicKey, Failure>;

    /// Makes a key: `rsa` of 2048, 3072 or 4096 bits, `ec` of 256, 384 or 521, or `ed25519`; as
    /// `pkcs8` or `traditional`. 0 bits are the least of a kind. An RSA key takes tenths of a
    /// second, and one of 4096 bits some seconds.
    ///
    /// # Errors
    /// Permission denied without the grant `crypto:generate-key`; invalid request.
    fn generate_key(&self, kind: &str, bits: u32, form: &str) -> Result<GeneratedKey, Failure>;

    /// What the first certificate of a text in PEM says.
    ///
    /// # Errors
    /// Invalid request.
    fn read_certificate(&self, pem: &str) -> Result<Certificate, Failure>;

    /// Believes a certificate, by a chain to one of the roots that are given.
    ///
    /// # Errors
    /// Permission denied where it is not to be believed; invalid request.
    fn verify_chain(&self, chain: &Chain<'_>) -> Result<(), Failure>;

    /// Issues a certificate, in PEM.
    ///
    /// # Errors
    /// Permission denied without the grant `crypto:issue-certificate`; invalid request.
    fn issue_certificate(&self, request: &CertificateRequest) -> Result<String, Failure>;

    /// A hash of the password by argon2id, as PHC string.
    ///
    /// # Errors
    /// Invalid request for more than 4 KiB.
    fn hash_password(&self, password: &str) -> Result<String, Failure>;

    /// Whether the hash is of that password.
    ///
    /// # Errors
    /// Invalid request for what is no hash of argon2id, and for one that takes too much.
    fn verify_password(&self, password: &str, hash: &str) -> Result<bool, Failure>;
}

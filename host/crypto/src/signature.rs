//! Signing and verification.

use crate::algorithm::SignatureAlgorithm;
use crate::limits::{MESSAGE_BYTES, check_length};
use crate::private_key::PrivateKey;
use crate::public_key::PublicKey;
use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::signature::{
    ECDSA_P256_SHA256_FIXED_SIGNING, ECDSA_P384_SHA384_FIXED_SIGNING,
    ECDSA_P521_SHA512_FIXED_SIGNING, EcdsaKeyPair, EcdsaSigningAlgorithm, Ed25519KeyPair,
    ParsedPublicKey, RSA_PKCS1_SHA256, RSA_PKCS1_SHA384, RSA_PKCS1_SHA512, RSA_PSS_SHA256,
    RSA_PSS_SHA384, RSA_PSS_SHA512, RsaEncoding, RsaKeyPair,
};
use bulkhead_wire::failure::Failure;

/// A public key for a single algorithm; other algorithms cannot use the key.
#[derive(Debug)]
pub struct VerifyingKey(ParsedPublicKey);

impl VerifyingKey {
    /// Reads a public key (see [`PublicKey::read`]) for an algorithm.
    ///
    /// # Errors
    /// Invalid request for an unsupported algorithm, an invalid key, or a key for another
    /// algorithm.
    pub fn read(algorithm: &str, text: &str) -> Result<Self, Failure> {
        let algorithm: SignatureAlgorithm = algorithm.parse()?;
        let key = PublicKey::read(text)?;
        algorithm.check(key.kind(), key.alg())?;
        key.parse(algorithm.verification()).map(Self)
    }

    /// Returns whether `signature` is the key's signature of `message`; `false` for a damaged
    /// signature.
    ///
    /// # Errors
    /// Invalid request for a message of more than 1 MiB.
    pub fn verify(&self, message: &[u8], signature: &[u8]) -> Result<bool, Failure> {
        check_length("the message", message.len(), MESSAGE_BYTES)?;
        Ok(self.0.verify_sig(message, signature).is_ok())
    }
}

/// A private key for a single algorithm; other algorithms cannot use the key. The library wipes the
/// key on drop.
pub struct SigningKey(SigningPair);

enum SigningPair {
    Rsa(RsaKeyPair, &'static dyn RsaEncoding),
    Ecdsa(EcdsaKeyPair),
    Ed25519(Ed25519KeyPair),
}

impl SigningKey {
    /// Prepares a private key for signing with an algorithm.
    ///
    /// # Errors
    /// Invalid request for a key for another algorithm, or with parts that do not belong together.
    pub fn read(algorithm: &str, key: &PrivateKey) -> Result<Self, Failure> {
        let algorithm: SignatureAlgorithm = algorithm.parse()?;
        algorithm.check(key.kind(), key.alg())?;
        let rsa = |encoding| Ok(SigningPair::Rsa(key.rsa()?, encoding));
        let ecdsa = |curve| Ok(SigningPair::Ecdsa(key.ecdsa(curve)?));
        let pair: Result<SigningPair, Failure> = match algorithm {
            SignatureAlgorithm::Rs256 => rsa(&RSA_PKCS1_SHA256),
            SignatureAlgorithm::Rs384 => rsa(&RSA_PKCS1_SHA384),
            SignatureAlgorithm::Rs512 => rsa(&RSA_PKCS1_SHA512),
            SignatureAlgorithm::Ps256 => rsa(&RSA_PSS_SHA256),
            SignatureAlgorithm::Ps384 => rsa(&RSA_PSS_SHA384),
            SignatureAlgorithm::Ps512 => rsa(&RSA_PSS_SHA512),
            SignatureAlgorithm::Es256 => ecdsa(&ECDSA_P256_SHA256_FIXED_SIGNING),
            SignatureAlgorithm::Es384 => ecdsa(&ECDSA_P384_SHA384_FIXED_SIGNING),
            SignatureAlgorithm::Es512 => ecdsa(&ECDSA_P521_SHA512_FIXED_SIGNING),
            SignatureAlgorithm::EdDsa => Ok(SigningPair::Ed25519(key.ed25519()?)),
        };
        pair.map(Self)
    }

    /// Signs a message.
    ///
    /// # Errors
    /// Invalid request for a message of more than 1 MiB.
    pub fn sign(&self, message: &[u8]) -> Result<Vec<u8>, Failure> {
        check_length("the message", message.len(), MESSAGE_BYTES)?;
        match &self.0 {
            SigningPair::Rsa(pair, encoding) => sign_by_rsa(pair, *encoding, message),
            SigningPair::Ecdsa(pair) => sign_by_ecdsa(pair, message),
            SigningPair::Ed25519(pair) => {
                let signed = pair.try_sign(message).map_err(|_| signing_failure())?;
                Ok(signed.as_ref().to_vec())
            }
        }
    }
}

/// Signs a single message.
///
/// # Errors
/// As [`SigningKey::read`] and [`SigningKey::sign`].
pub fn sign(algorithm: &str, key: &PrivateKey, message: &[u8]) -> Result<Vec<u8>, Failure> {
    SigningKey::read(algorithm, key)?.sign(message)
}

/// Signs with RSA and the given encoding.
pub(crate) fn sign_rsa(
    key: &PrivateKey,
    encoding: &'static dyn RsaEncoding,
    message: &[u8],
) -> Result<Vec<u8>, Failure> {
    sign_by_rsa(&key.rsa()?, encoding, message)
}

fn sign_by_rsa(
    pair: &RsaKeyPair,
    encoding: &'static dyn RsaEncoding,
    message: &[u8],
) -> Result<Vec<u8>, Failure> {
    let mut signature = vec![0; pair.public_modulus_len()];
    pair.sign(encoding, &SystemRandom::new(), message, &mut signature)
        .map_err(|_| signing_failure())?;
    Ok(signature)
}

/// Signs with ECDSA, on the algorithm's curve and in the algorithm's encoding.
pub(crate) fn sign_ecdsa(
    key: &PrivateKey,
    algorithm: &'static EcdsaSigningAlgorithm,
    message: &[u8],
) -> Result<Vec<u8>, Failure> {
    sign_by_ecdsa(&key.ecdsa(algorithm)?, message)
}

fn sign_by_ecdsa(pair: &EcdsaKeyPair, message: &[u8]) -> Result<Vec<u8>, Failure> {
    let signed = pair.sign(&SystemRandom::new(), message).map_err(|_| signing_failure())?;
    Ok(signed.as_ref().to_vec())
}

pub(crate) fn signing_failure() -> Failure {
    Failure::internal("the host's library made no signature")
}

#[cfg(test)]
mod tests;

//! Signatures: made, and checked.

use crate::algorithm::Algorithm;
use crate::limits::{MESSAGE_BYTES, check_length};
use crate::private_key::PrivateKey;
use crate::public_key::PublicKey;
use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::signature::{
    ECDSA_P256_SHA256_FIXED_SIGNING, ECDSA_P384_SHA384_FIXED_SIGNING,
    ECDSA_P521_SHA512_FIXED_SIGNING, EcdsaSigningAlgorithm, ParsedPublicKey, RSA_PKCS1_SHA256,
    RSA_PKCS1_SHA384, RSA_PKCS1_SHA512, RSA_PSS_SHA256, RSA_PSS_SHA384, RSA_PSS_SHA512,
    RsaEncoding,
};
use bulkhead_wire::failure::Failure;

/// A public key that was read for one algorithm, and serves no other.
#[derive(Debug)]
pub struct VerifyingKey(ParsedPublicKey);

impl VerifyingKey {
    /// Reads a public key (see [`PublicKey::read`]) for an algorithm.
    ///
    /// # Errors
    /// Invalid request for an algorithm that is not served, a key that is none, and a key that is
    /// not for that algorithm.
    pub fn read(algorithm: &str, text: &str) -> Result<Self, Failure> {
        let algorithm: Algorithm = algorithm.parse()?;
        let key = PublicKey::read(text)?;
        algorithm.check(key.kind(), key.alg())?;
        key.parse(algorithm.verification()).map(Self)
    }

    /// Whether the signature is the key's, of that message. A damaged one is not.
    ///
    /// # Errors
    /// Invalid request for a message of more than a MiB.
    pub fn verify(&self, message: &[u8], signature: &[u8]) -> Result<bool, Failure> {
        check_length("the message", message.len(), MESSAGE_BYTES)?;
        Ok(self.0.verify_sig(message, signature).is_ok())
    }
}

/// Signs a message.
///
/// # Errors
/// Invalid request for a key that is not for the algorithm or whose parts do not belong together,
/// and for a message of more than a MiB.
pub fn sign(algorithm: &str, key: &PrivateKey, message: &[u8]) -> Result<Vec<u8>, Failure> {
    let algorithm: Algorithm = algorithm.parse()?;
    algorithm.check(key.kind(), key.alg())?;
    check_length("the message", message.len(), MESSAGE_BYTES)?;
    match algorithm {
        Algorithm::Rs256 => sign_rsa(key, &RSA_PKCS1_SHA256, message),
        Algorithm::Rs384 => sign_rsa(key, &RSA_PKCS1_SHA384, message),
        Algorithm::Rs512 => sign_rsa(key, &RSA_PKCS1_SHA512, message),
        Algorithm::Ps256 => sign_rsa(key, &RSA_PSS_SHA256, message),
        Algorithm::Ps384 => sign_rsa(key, &RSA_PSS_SHA384, message),
        Algorithm::Ps512 => sign_rsa(key, &RSA_PSS_SHA512, message),
        Algorithm::Es256 => sign_ecdsa(key, &ECDSA_P256_SHA256_FIXED_SIGNING, message),
        Algorithm::Es384 => sign_ecdsa(key, &ECDSA_P384_SHA384_FIXED_SIGNING, message),
        Algorithm::Es512 => sign_ecdsa(key, &ECDSA_P521_SHA512_FIXED_SIGNING, message),
        Algorithm::EdDsa => {
            let signed = key.ed25519()?.try_sign(message).map_err(|_| unsigned())?;
            Ok(signed.as_ref().to_vec())
        }
    }
}

/// RSA, by an encoding.
pub(crate) fn sign_rsa(
    key: &PrivateKey,
    encoding: &'static dyn RsaEncoding,
    message: &[u8],
) -> Result<Vec<u8>, Failure> {
    let pair = key.rsa()?;
    let mut signature = vec![0; pair.public_modulus_len()];
    pair.sign(encoding, &SystemRandom::new(), message, &mut signature).map_err(|_| unsigned())?;
    Ok(signature)
}

/// ECDSA, on a curve and in an encoding.
pub(crate) fn sign_ecdsa(
    key: &PrivateKey,
    algorithm: &'static EcdsaSigningAlgorithm,
    message: &[u8],
) -> Result<Vec<u8>, Failure> {
    let pair = key.ecdsa(algorithm)?;
    let signed = pair.sign(&SystemRandom::new(), message).map_err(|_| unsigned())?;
    Ok(signed.as_ref().to_vec())
}

pub(crate) fn unsigned() -> Failure {
    Failure::internal("the host's library made no signature")
}

#[cfg(test)]
mod tests;

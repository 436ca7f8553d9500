//! Cryptography for `jsonwebtoken`: keys and signatures of `host/crypto`.
//!
//! This file prevents algorithm confusion: `host/crypto` reads each key for a single algorithm, as
//! for components.

use super::algorithm::TokenAlgorithm;
use super::public_key::{self, PublicJwk};
use bulkhead_crypto::{PrivateKey, SigningKey, VerifyingKey, encode_pem};
use bulkhead_wire::failure::Failure;
use jsonwebtoken::crypto::{CryptoProvider, JwtSigner, JwtVerifier, KeyUtils};
use jsonwebtoken::errors::{Error, ErrorKind, new_error};
use jsonwebtoken::signature;
use jsonwebtoken::{Algorithm as Jose, AlgorithmFamily, DecodingKey, DecodingKeyKind, EncodingKey};
use std::sync::OnceLock;
use zeroize::Zeroizing;

/// The provider of this process.
static PROVIDER: CryptoProvider = CryptoProvider {
    signer_factory: signer,
    verifier_factory: verifier,
    // The library needs these for key sets and thumbprints, which this crate makes itself.
    key_utils: KeyUtils {
        rsa_pub_components_from_private_key: |_| Err(unsupported_error()),
        rsa_pub_components_from_public_key: |_| Err(unsupported_error()),
        ec_pub_components_from_private_key: |_, _| Err(unsupported_error()),
        ed_pub_components_from_private_key: |_, _| Err(unsupported_error()),
        compute_digest: |_, _| Err(unsupported_error()),
    },
};

static INSTALLED: OnceLock<bool> = OnceLock::new();

/// Installs the provider. Every use of the library comes after this call.
///
/// # Errors
/// 500 if the process has another provider already.
pub(super) fn install() -> Result<(), Failure> {
    match INSTALLED.get_or_init(|| PROVIDER.install_default().is_ok()) {
        true => Ok(()),
        false => Err(Failure::internal("another provider of cryptography signs in this process")),
    }
}

impl TokenAlgorithm {
    /// The library's name of the algorithm; `None` for ES512, which the library lacks.
    pub(super) fn in_library(self) -> Option<Jose> {
        self.word().parse().ok()
    }

    /// The algorithm with that name in the library. The library's other algorithms are refused.
    fn of_library(word: Jose) -> Result<Self, Error> {
        let found = Self::ALL.into_iter().find(|one| one.in_library() == Some(word));
        found.ok_or_else(unsupported_error)
    }
}

struct JoseSigner(Jose, SigningKey);

impl signature::Signer<Vec<u8>> for JoseSigner {
    fn try_sign(&self, message: &[u8]) -> Result<Vec<u8>, signature::Error> {
        self.1.sign(message).map_err(|failure| signature::Error::from_source(failure.message))
    }
}

impl JwtSigner for JoseSigner {
    fn algorithm(&self) -> Jose {
        self.0
    }
}

struct JoseVerifier(Jose, VerifyingKey);

impl signature::Verifier<Vec<u8>> for JoseVerifier {
    fn verify(&self, message: &[u8], signature: &Vec<u8>) -> Result<(), signature::Error> {
        match self.1.verify(message, signature) {
            Ok(true) => Ok(()),
            Ok(false) => Err(signature::Error::new()),
            Err(failure) => Err(signature::Error::from_source(failure.message)),
        }
    }
}

impl JwtVerifier for JoseVerifier {
    fn algorithm(&self) -> Jose {
        self.0
    }
}

fn signer(algorithm: &Jose, key: &EncodingKey) -> Result<Box<dyn JwtSigner>, Error> {
    let word = TokenAlgorithm::of_library(*algorithm)?.word();
    let pem = Zeroizing::new(encode_pem("PRIVATE KEY", key.as_bytes()));
    let key = PrivateKey::read(&pem).and_then(|key| SigningKey::read(word, &key));
    Ok(Box::new(JoseSigner(*algorithm, key.map_err(convert_failure)?)))
}

fn verifier(algorithm: &Jose, key: &DecodingKey) -> Result<Box<dyn JwtVerifier>, Error> {
    let algorithm_of_ours = TokenAlgorithm::of_library(*algorithm)?;
    let jwk = public_half(algorithm_of_ours, key)?.jwk();
    let key = VerifyingKey::read(algorithm_of_ours.word(), &jwk).map_err(convert_failure)?;
    Ok(Box::new(JoseVerifier(*algorithm, key)))
}

/// Converts a key of the library into a published key.
fn public_half(algorithm: TokenAlgorithm, key: &DecodingKey) -> Result<PublicJwk, Error> {
    let unfit = || new_error(ErrorKind::InvalidKeyFormat);
    match (key.kind(), key.family()) {
        (DecodingKeyKind::RsaModulusExponent { n, e }, _) => {
            Ok(PublicJwk::Rsa { n: public_key::encode_base64(n), e: public_key::encode_base64(e) })
        }
        (DecodingKeyKind::SecretOrDer(point), AlgorithmFamily::Ec) => {
            let curve = algorithm.curve().ok_or_else(unfit)?;
            PublicJwk::of_point(curve, point).ok_or_else(unfit)
        }
        (DecodingKeyKind::SecretOrDer(key), AlgorithmFamily::Ed) => Ok(PublicJwk::of_ed25519(key)),
        _ => Err(unfit()),
    }
}

fn convert_failure(failure: Failure) -> Error {
    new_error(ErrorKind::Provider(failure.message))
}

fn unsupported_error() -> Error {
    new_error(ErrorKind::UnsupportedAlgorithm)
}

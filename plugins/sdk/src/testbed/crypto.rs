//! Real cryptography, by the code of the host. Grants are not checked and nothing is counted; a
//! test refuses a step to see how an engine reacts.

use super::script::Script;
use crate::crypto::{Certificate, CertificateChain, CertificateRequest, GeneratedKey, PublicKey};
use crate::host::{Crypto, Random};
use bulkhead_crypto as native;
use bulkhead_wire::failure::Failure;
use sha2::Sha256;
use std::cell::Cell;
use std::rc::Rc;

/// The host's cryptography, at the time of the script.
pub(super) struct TestCrypto {
    script: Rc<Script>,
    drawn: Cell<u32>,
}

impl TestCrypto {
    pub(super) fn new(script: &Rc<Script>) -> Self {
        Self { script: Rc::clone(script), drawn: Cell::new(0) }
    }
}

impl Random for TestCrypto {
    /// Returns counted bytes instead of random bytes, so that tests are repeatable.
    fn bytes(&self, length: u32) -> Vec<u8> {
        let start = self.drawn.get() + 1;
        self.drawn.set(start);
        let counted = (0..length).map(|offset| start.wrapping_add(offset).to_le_bytes());
        counted.map(|[lowest, ..]| lowest).collect()
    }
}

impl Crypto for TestCrypto {
    fn pbkdf2_sha256(&self, password: &str, salt: &[u8], iterations: u32) -> Vec<u8> {
        pbkdf2::pbkdf2_hmac_array::<Sha256, 32>(password.as_bytes(), salt, iterations).to_vec()
    }

    fn digest(&self, algorithm: &str, data: &[u8]) -> Result<Vec<u8>, Failure> {
        self.script.step("digest", None, || native::digest(algorithm, data))
    }

    fn hmac(&self, algorithm: &str, key: &[u8], data: &[u8]) -> Result<Vec<u8>, Failure> {
        self.script.step("hmac", None, || native::hmac(algorithm, key, data))
    }

    fn verify(
        &self,
        algorithm: &str,
        public_key: &str,
        message: &[u8],
        signature: &[u8],
    ) -> Result<bool, Failure> {
        self.script.step("verify-signature", None, || {
            native::VerifyingKey::read(algorithm, public_key)?.verify(message, signature)
        })
    }

    fn sign(&self, algorithm: &str, private_key: &str, message: &[u8]) -> Result<Vec<u8>, Failure> {
        self.script.step("sign", None, || {
            native::sign(algorithm, &native::PrivateKey::read(private_key)?, message)
        })
    }

    fn read_key(&self, key: &str) -> Result<PublicKey, Failure> {
        self.script.step("read-key", None, || {
            let read = match native::is_private(key) {
                true => native::PrivateKey::read(key)?.public()?,
                false => native::PublicKey::read(key)?,
            };
            public_key(&read)
        })
    }

    fn generate_key(&self, kind: &str, bits: u32, form: &str) -> Result<GeneratedKey, Failure> {
        self.script.step("generate-key", None, || {
            let key_pair = native::KeyParameters::read(kind, bits, form)?.generate_key()?;
            let public_key = public_key(&key_pair.public_key)?;
            Ok(GeneratedKey { private_key: key_pair.private_key.to_string(), public_key })
        })
    }

    fn read_certificate(&self, pem: &str) -> Result<Certificate, Failure> {
        self.script.step("read-certificate", None, || certificate(native::Certificate::read(pem)?))
    }

    fn verify_chain(&self, chain: &CertificateChain<'_>) -> Result<(), Failure> {
        self.script.step("verify-chain", None, || {
            let chain = native::ChainVerification {
                certificates: chain.certificates,
                roots: chain.roots,
                usage: chain.usage.parse()?,
                name: chain.name,
                now: self.script.now(),
            };
            chain.verify()
        })
    }

    fn issue_certificate(&self, request: &CertificateRequest) -> Result<String, Failure> {
        self.script.step("issue-certificate", None, || {
            let wanted = native::CertificateIssuance {
                authority: &request.authority,
                public_key: &request.public_key,
                common_name: &request.common_name,
                names: &request.names,
                usages: &request.usages,
                not_before: request.not_before,
                not_after: request.not_after,
                signature_bits: request.signature_bits,
            };
            native::issue(&wanted, &native::PrivateKey::read(&request.authority_key)?)
        })
    }

    fn hash_password(&self, password: &str) -> Result<String, Failure> {
        self.script.step("hash-password", None, || native::hash_password(password))
    }

    fn verify_password(&self, password: &str, hash: &str) -> Result<bool, Failure> {
        self.script.step("verify-password", None, || native::verify_password(password, hash))
    }
}

fn public_key(read: &native::PublicKey) -> Result<PublicKey, Failure> {
    let kind = read.kind().word().to_owned();
    Ok(PublicKey { kind, bits: read.bits(), pem: read.pem()?, jwk: read.jwk()? })
}

fn certificate(read: native::Certificate) -> Result<Certificate, Failure> {
    Ok(Certificate {
        public_key: read.public_key.as_ref().map(public_key).transpose()?,
        subject: read.subject,
        issuer: read.issuer,
        common_name: read.common_name,
        serial: read.serial,
        not_before: read.not_before,
        not_after: read.not_after,
        is_authority: read.is_authority,
        names: read.names.into_iter().map(|(kind, name)| (kind.to_owned(), name)).collect(),
        usages: read.usages,
        fingerprint_sha1: read.sha1,
        fingerprint_sha256: read.sha256,
        key_id: read.key_id,
        authority_key_id: read.authority_key_id,
    })
}

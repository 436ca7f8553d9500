//! The interface of cryptography, implemented with its import.

use super::{Imports, failure, import};
use crate::crypto::{Certificate, CertificateChain, CertificateRequest, GeneratedKey, PublicKey};
use crate::host::Crypto;
use bulkhead_wire::failure::Failure;

impl Crypto for Imports {
    fn pbkdf2_sha256(&self, password: &str, salt: &[u8], iterations: u32) -> Vec<u8> {
        import::crypto::pbkdf2_sha256(password, salt, iterations)
    }

    fn digest(&self, algorithm: &str, data: &[u8]) -> Result<Vec<u8>, Failure> {
        import::crypto::digest(algorithm, data).map_err(failure)
    }

    fn hmac(&self, algorithm: &str, key: &[u8], data: &[u8]) -> Result<Vec<u8>, Failure> {
        import::crypto::hmac(algorithm, key, data).map_err(failure)
    }

    fn verify(
        &self,
        algorithm: &str,
        public_key: &str,
        message: &[u8],
        signature: &[u8],
    ) -> Result<bool, Failure> {
        import::crypto::verify(algorithm, public_key, message, signature).map_err(failure)
    }

    fn sign(&self, algorithm: &str, private_key: &str, message: &[u8]) -> Result<Vec<u8>, Failure> {
        import::crypto::sign(algorithm, private_key, message).map_err(failure)
    }

    fn read_key(&self, key: &str) -> Result<PublicKey, Failure> {
        import::crypto::read_key(key).map(public_key).map_err(failure)
    }

    fn generate_key(&self, kind: &str, bits: u32, form: &str) -> Result<GeneratedKey, Failure> {
        let key_pair = import::crypto::generate_key(kind, bits, form).map_err(failure)?;
        Ok(GeneratedKey {
            private_key: key_pair.private_key,
            public_key: public_key(key_pair.public_key),
        })
    }

    fn read_certificate(&self, pem: &str) -> Result<Certificate, Failure> {
        import::crypto::read_certificate(pem).map(certificate).map_err(failure)
    }

    fn verify_chain(&self, chain: &CertificateChain<'_>) -> Result<(), Failure> {
        let host_chain = import::crypto::Chain {
            certificates: chain.certificates.to_owned(),
            roots: chain.roots.to_owned(),
            usage: chain.usage.to_owned(),
            name: chain.name.to_owned(),
            ext: Vec::new(),
        };
        import::crypto::verify_chain(&host_chain).map_err(failure)
    }

    fn issue_certificate(&self, request: &CertificateRequest) -> Result<String, Failure> {
        let host_request = import::crypto::CertificateRequest {
            authority: request.authority.clone(),
            authority_key: request.authority_key.clone(),
            public_key: request.public_key.clone(),
            common_name: request.common_name.clone(),
            names: request.names.clone(),
            usages: request.usages.clone(),
            not_before: request.not_before,
            not_after: request.not_after,
            signature_bits: request.signature_bits,
            ext: Vec::new(),
        };
        import::crypto::issue_certificate(&host_request).map_err(failure)
    }

    fn hash_password(&self, password: &str) -> Result<String, Failure> {
        import::crypto::hash_password(password).map_err(failure)
    }

    fn verify_password(&self, password: &str, hash: &str) -> Result<bool, Failure> {
        import::crypto::verify_password(password, hash).map_err(failure)
    }
}

fn public_key(read: import::crypto::PublicKey) -> PublicKey {
    PublicKey { kind: read.kind, bits: read.bits, pem: read.pem, jwk: read.jwk }
}

fn certificate(read: import::crypto::Certificate) -> Certificate {
    Certificate {
        subject: read.subject,
        issuer: read.issuer,
        common_name: read.common_name,
        serial: read.serial,
        not_before: read.not_before,
        not_after: read.not_after,
        is_authority: read.is_authority,
        names: read.names,
        usages: read.usages,
        public_key: read.public_key.map(public_key),
        fingerprint_sha1: read.fingerprint_sha1,
        fingerprint_sha256: read.fingerprint_sha256,
        key_id: read.key_id,
        authority_key_id: read.authority_key_id,
    }
}

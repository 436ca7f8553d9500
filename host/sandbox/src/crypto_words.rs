//! Keys and certificates in the contract's words.

use crate::bindings::secrets_engine::bulkhead::plugin::crypto as words;
use bulkhead_crypto::{
    Certificate, CertificateIssuance, ChainVerification, GeneratedKeyPair, PublicKey,
};
use bulkhead_wire::failure::Failure;

pub(crate) fn public_key(key: &PublicKey) -> Result<words::PublicKey, Failure> {
    Ok(words::PublicKey {
        kind: key.kind().word().to_owned(),
        bits: key.bits(),
        pem: key.pem()?,
        jwk: key.jwk()?,
        ext: Vec::new(),
    })
}

pub(crate) fn generated(key_pair: &GeneratedKeyPair) -> Result<words::GeneratedKey, Failure> {
    Ok(words::GeneratedKey {
        private_key: key_pair.private_key.to_string(),
        public_key: public_key(&key_pair.public_key)?,
        ext: Vec::new(),
    })
}

pub(crate) fn certificate(read: Certificate) -> Result<words::Certificate, Failure> {
    Ok(words::Certificate {
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
        ext: Vec::new(),
    })
}

pub(crate) fn chain(request: &words::Chain, now: u64) -> Result<ChainVerification<'_>, Failure> {
    Ok(ChainVerification {
        certificates: &request.certificates,
        roots: &request.roots,
        usage: request.usage.parse()?,
        name: &request.name,
        now,
    })
}

pub(crate) fn issuance(request: &words::CertificateRequest) -> CertificateIssuance<'_> {
    CertificateIssuance {
        authority: &request.authority,
        public_key: &request.public_key,
        common_name: &request.common_name,
        names: &request.names,
        usages: &request.usages,
        not_before: request.not_before,
        not_after: request.not_after,
        signature_bits: request.signature_bits,
    }
}

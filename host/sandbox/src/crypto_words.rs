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

pub(crate) fn generated(made: &GeneratedKeyPair) -> Result<words::GeneratedKey, Failure> {
    Ok(words::GeneratedKey {
        private_key: made.private_key.to_string(),
        public_key: public_key(&made.public_key)?,
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

pub(crate) fn chain(asked: &words::Chain, now: u64) -> Result<ChainVerification<'_>, Failure> {
    Ok(ChainVerification {
        certificates: &asked.certificates,
        roots: &asked.roots,
        usage: asked.usage.parse()?,
        name: &asked.name,
        now,
    })
}

pub(crate) fn issuance(asked: &words::CertificateRequest) -> CertificateIssuance<'_> {
    CertificateIssuance {
        authority: &asked.authority,
        public_key: &asked.public_key,
        common_name: &asked.common_name,
        names: &asked.names,
        usages: &asked.usages,
        not_before: asked.not_before,
        not_after: asked.not_after,
        signature_bits: asked.signature_bits,
    }
}

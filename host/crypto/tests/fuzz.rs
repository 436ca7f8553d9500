//! Fuzz tests of keys, certificates, chains and password hashes, with almost valid inputs.
#![allow(clippy::unwrap_used, reason = "a test of its own crate, of which clippy does not know it")]

use bulkhead_crypto::{
    Certificate, CertificateUsage, ChainVerification, HashCost, KeyParameters, PrivateKey,
    PublicKey, VerifyingKey, encode_pem, is_private, secrets_of, sign,
};
use rcgen::{BasicConstraints, CertificateParams, IsCa, KeyPair};

/// 2030-01-01.
const NOW: u64 = 1_893_456_000_000;

/// Returns a key of each kind, in both forms, with the public half as PEM and as JWK.
fn keys() -> Vec<String> {
    let kinds = [("rsa", 0), ("ec", 256), ("ec", 384), ("ec", 521), ("ed25519", 0)];
    let forms = ["pkcs8", "traditional"];
    let mut texts = Vec::new();
    for (kind, bits) in kinds {
        for form in forms {
            let key_pair = KeyParameters::read(kind, bits, form).unwrap().generate_key().unwrap();
            texts.push(key_pair.private_key.to_string());
            texts.push(key_pair.public_key.pem().unwrap());
            texts.push(key_pair.public_key.jwk().unwrap());
        }
    }
    texts
}

fn certificate(key: &str) -> String {
    let mut parameters =
        CertificateParams::new(["a.example".to_owned(), "10.0.0.1".to_owned()]).unwrap();
    parameters.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    parameters.self_signed(&KeyPair::from_pem(key).unwrap()).unwrap().pem()
}

/// Returns the bytes of a PEM text. Mutations apply to the bytes, because mutated PEM itself rarely
/// gets past the PEM parser.
fn der(pem: &str) -> Vec<u8> {
    use base64::Engine as _;
    let body: String = pem.lines().filter(|line| !line.starts_with('-')).collect();
    base64::engine::general_purpose::STANDARD.decode(body).unwrap()
}

/// Parses the text in every way, and uses any key found.
fn read(text: &str) {
    let _parts = (is_private(text), secrets_of(text).len());
    if let Ok(key) = PublicKey::read(text) {
        let again = PublicKey::read(&key.jwk().unwrap()).unwrap();
        assert_eq!((again.kind(), again.bits()), (key.kind(), key.bits()));
        assert!(PublicKey::read(&key.pem().unwrap()).is_ok());
    }
    for algorithm in ["RS256", "PS512", "ES256", "ES384", "ES512", "EdDSA"] {
        if let Ok(key) = VerifyingKey::read(algorithm, text) {
            assert_eq!(key.verify(b"message", &[1; 64]), Ok(false));
        }
        if let Ok(signature) = PrivateKey::read(text).and_then(|key| sign(algorithm, &key, b"m")) {
            assert!(!signature.is_empty());
        }
    }
}

#[test]
fn key_texts() {
    let keys = keys();
    let seeds: Vec<&[u8]> = keys.iter().map(String::as_bytes).collect();
    let words = [
        "-----BEGIN ",
        "-----END ",
        "PRIVATE KEY-----",
        "\"kty\":\"RSA\"",
        "\"crv\":\"P-256\"",
        "\"d\":\"AA\"",
        "\"e\":\"AQ\"",
        "\n",
        "=",
    ];
    bulkhead_fuzz::run("key texts", &seeds, &words, |bytes| {
        read(&String::from_utf8_lossy(bytes));
    });
}

#[test]
fn key_bytes() {
    let keys = keys();
    let ders: Vec<Vec<u8>> =
        keys.iter().filter(|key| key.starts_with('-')).map(|key| der(key)).collect();
    let seeds: Vec<&[u8]> = ders.iter().map(Vec::as_slice).collect();
    let words = ["\u{2}\u{1}\0", "0\0", "\u{3}\u{1}\0", "\u{4}\0", "\u{6}\u{3}+ep"];
    let labels = ["PRIVATE KEY", "RSA PRIVATE KEY", "EC PRIVATE KEY", "PUBLIC KEY", "CERTIFICATE"];
    bulkhead_fuzz::run("key bytes", &seeds, &words, |bytes| {
        labels.iter().for_each(|label| read(&encode_pem(label, bytes)));
    });
}

#[test]
fn certificate_bytes() {
    let key_pair = KeyParameters::read("ec", 256, "pkcs8").unwrap().generate_key().unwrap();
    let root = certificate(&key_pair.private_key);
    let seed = der(&root);
    let words = ["0\0", "\u{6}\u{3}U\u{1d}\u{11}", "\u{4}\0", "\u{1}\u{1}\u{ff}", "a3\u{2}"];
    bulkhead_fuzz::run("certificate bytes", &[&seed], &words, |bytes| {
        let text = encode_pem("CERTIFICATE", bytes);
        if let Ok(read) = Certificate::read(&text) {
            assert!(read.names.len() <= 256);
        }
        for (certificates, roots) in [(&text, &root), (&root, &text)] {
            let usage = CertificateUsage::ServerAuth;
            let chain =
                ChainVerification { certificates, roots, usage, name: "a.example", now: NOW };
            // A root is not valid as a server certificate, and a mutated root is not valid at all.
            assert!(chain.verify().is_err());
        }
    });
}

#[test]
fn password_hashes() {
    let seeds: [&[u8]; 2] = [
        b"$argon2id$v=19$m=65536,t=2,p=1$c29tZXNhbHQ$CTFhFdXPJO1aFaMaO6Mm5c8y7cJHAph8ArZWb2GRPPc",
        b"$argon2id$v=19$m=19456,t=2,p=1$MDEyMzQ1Njc4OWFiY2RlZg$AAAAAAAAAAAAAAAAAAAAAA",
    ];
    let words =
        ["$", "m=4294967295", "t=4294967295", "p=16777215", "v=16", ",keyid=AAAA", "argon2i"];
    bulkhead_fuzz::run("password hashes", &seeds, &words, |bytes| {
        // The cost is known before anything is computed.
        if let Ok(cost) = HashCost::of(&String::from_utf8_lossy(bytes)) {
            assert!(cost.memory() <= 64 << 20 && cost.work() <= 256 << 20);
        }
    });
}

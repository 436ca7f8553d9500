//! Tests of policies, keys and signatures, with keys made for the purpose.

use super::*;
use bulkhead_crypto::{KeyParameters, PrivateKey, sign};

const DIGEST: &str = "9f2c00112233445566778899aabbccddeeff00112233445566778899aabbccdd";

/// A signer with its own key.
struct Signer {
    private: PrivateKey,
    key: TrustedKey,
}

impl Signer {
    fn new() -> Self {
        let pair = KeyParameters::read("ed25519", 0, "pkcs8").unwrap().generate_key().unwrap();
        let private = PrivateKey::read(&pair.private_key).unwrap();
        let key = TrustedKey::parse(&pair.public_key.pem().unwrap()).unwrap();
        Self { private, key }
    }

    fn sign(&self, message: &str) -> ComponentOrigin {
        let signature = STANDARD.encode(sign("EdDSA", &self.private, message.as_bytes()).unwrap());
        ComponentOrigin { signature, ..ComponentOrigin::default() }
    }
}

fn rules(policy: SignaturePolicy, signers: &[&Signer]) -> SignatureRules {
    SignatureRules { policy, trusted_keys: signers.iter().map(|one| one.key.clone()).collect() }
}

#[test]
fn trusted_signature_passes_every_policy_and_names_key() {
    let (other, signer) = (Signer::new(), Signer::new());
    for policy in SignaturePolicy::ALL {
        let rules = rules(policy, &[&other, &signer]);
        let (origin, warning) = rules.admit(DIGEST, signer.sign(&signed_text(DIGEST))).unwrap();
        assert_eq!((origin.signed_by.as_str(), warning), (signer.key.line(), None));
        assert_eq!(rules.check_stored(DIGEST, &origin), Ok(None));
    }
}

#[test]
fn policy_ignores_warns_or_refuses_missing_signature() {
    let signer = Signer::new();
    let admit = |policy| rules(policy, &[&signer]).admit(DIGEST, ComponentOrigin::default());
    let stored =
        |policy| rules(policy, &[&signer]).check_stored(DIGEST, &ComponentOrigin::default());
    assert_eq!(admit(SignaturePolicy::None).unwrap().1, None);
    assert_eq!(stored(SignaturePolicy::None), Ok(None));
    assert!(admit(SignaturePolicy::Warn).unwrap().1.unwrap().contains("is not signed"));
    assert!(stored(SignaturePolicy::Warn).unwrap().unwrap().contains("is not signed"));
    let refused = admit(SignaturePolicy::Require).unwrap_err();
    assert!(refused.message.contains("bulkhead plugin sign"), "{refused:?}");
    assert!(stored(SignaturePolicy::Require).unwrap_err().contains("is not signed"));
}

#[test]
fn foreign_or_misused_signature_is_refused() {
    let (signer, untrusted_signer) = (Signer::new(), Signer::new());
    let other = DIGEST.replace("9f2c", "0f2c");
    let digest_alone = signer.sign(DIGEST);
    for policy in SignaturePolicy::ALL {
        let rules = rules(policy, &[&signer]);
        for signed in [
            untrusted_signer.sign(&signed_text(DIGEST)),
            signer.sign(&signed_text(&other)),
            digest_alone.clone(),
        ] {
            let refused = rules.admit(DIGEST, signed).unwrap_err();
            assert!(refused.message.contains("by no key that this server trusts"), "{refused:?}");
        }
    }
}

#[test]
fn malformed_signature_is_refused_with_expected_format() {
    let signer = Signer::new();
    let rules = rules(SignaturePolicy::None, &[&signer]);
    let valid_signature = signer.sign(&signed_text(DIGEST)).signature;
    let short = valid_signature.get(..80).unwrap().to_owned();
    for signature in
        ["x".to_owned(), "AAAA".to_owned(), "A".repeat(1 << 20), short, valid_signature + "\n"]
    {
        let refused = rules
            .admit(DIGEST, ComponentOrigin { signature, ..ComponentOrigin::default() })
            .unwrap_err();
        assert!(refused.message.contains("not an Ed25519 signature in base64"), "{refused:?}");
    }
}

#[test]
fn key_no_longer_trusted_validates_no_loaded_plugin() {
    let signer = Signer::new();
    let signed = signer.sign(&signed_text(DIGEST));
    let left_out = |policy| rules(policy, &[&Signer::new()]).check_stored(DIGEST, &signed);
    assert_eq!(left_out(SignaturePolicy::None), Ok(None));
    assert!(left_out(SignaturePolicy::Warn).unwrap().unwrap().contains("trusts"));
    assert!(left_out(SignaturePolicy::Require).unwrap_err().contains("trusts"));
    let no_key = rules(SignaturePolicy::Require, &[]).check_stored(DIGEST, &signed);
    assert!(no_key.unwrap_err().contains("trusts no key"));
}

#[test]
fn other_key_kinds_and_texts_are_not_trusted() {
    let ec = KeyParameters::read("ec", 256, "pkcs8").unwrap().generate_key().unwrap();
    let private =
        KeyParameters::read("ed25519", 0, "pkcs8").unwrap().generate_key().unwrap().private_key;
    let of_ec = ec.public_key.pem().unwrap();
    for text in ["", "AAAA", of_ec.as_str(), private.as_str(), "not base64", &"A".repeat(4_096)] {
        assert!(TrustedKey::parse(text).unwrap_err().contains("plugin keygen"), "{text}");
    }
}

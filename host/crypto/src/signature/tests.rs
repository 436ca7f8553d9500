//! Tests with signatures and keys of other implementations, and with almost valid signatures and
//! keys.

use super::*;
use crate::generate::KeyParameters;
use crate::kind::KeyKind;
use crate::pem;
use aws_lc_rs::signature::{RsaKeyPair, RsaPssSaltLength};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

/// Keys and tokens from the RFCs, one example per line.
const EXAMPLES: &str = include_str!("../../fixtures/jose.jsonl");

/// Returns the key and the token of an example.
fn example(of: &str) -> (String, String) {
    let line = EXAMPLES.lines().find(|line| line.contains(of)).unwrap();
    let line: serde_json::Value = serde_json::from_str(line).unwrap();
    (line["key"].to_string(), line["token"].as_str().unwrap_or_default().to_owned())
}

fn rsa() -> String {
    example("RFC 7515 A.2").0
}

fn p256() -> String {
    example("RFC 7515 A.3").0
}

fn p521() -> String {
    example("RFC 7515 A.4").0
}

fn ed25519() -> String {
    example("RFC 8037 A.4").0
}

/// The order of the P-256 group.
const P256_ORDER: [u8; 32] = [
    0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xbc, 0xe6,
    0xfa, 0xad, 0xa7, 0x17, 0x9e, 0x84, 0xf3, 0xb9, 0xca, 0xc2, 0xfc, 0x63, 0x25, 0x51,
];

fn public_of(jwk: &str) -> String {
    match jwk.contains("\"d\"") {
        true => PrivateKey::read(jwk).unwrap().public().unwrap().jwk().unwrap(),
        false => jwk.to_owned(),
    }
}

/// Splits a JWT into message and signature.
fn parts(token: &str) -> (&[u8], Vec<u8>) {
    let (message, signature) = token.rsplit_once('.').unwrap();
    (message.as_bytes(), URL_SAFE_NO_PAD.decode(signature).unwrap())
}

fn verify(algorithm: &str, key: &str, message: &[u8], signature: &[u8]) -> bool {
    VerifyingKey::read(algorithm, key).unwrap().verify(message, signature).unwrap()
}

fn refusal(algorithm: &str, key: &str) -> String {
    VerifyingKey::read(algorithm, key).unwrap_err().message
}

#[test]
fn standard_examples_verify_and_altered_examples_fail() {
    for (algorithm, of) in [
        ("RS256", "RFC 7515 A.2"),
        ("ES256", "RFC 7515 A.3"),
        ("PS384", "RFC 7520 4.2"),
        ("EdDSA", "RFC 8037 A.4"),
        ("Ed25519", "RFC 8037 A.4"),
    ] {
        let (key, token) = example(of);
        let (message, signature) = parts(&token);
        let jwk = public_of(&key);
        let pem = PublicKey::read(&jwk).unwrap().pem().unwrap();
        for key in [&jwk, &pem] {
            assert!(verify(algorithm, key, message, &signature), "{algorithm}");
            assert!(!verify(algorithm, key, &message[1..], &signature), "{algorithm}");
            for place in [0, signature.len() / 2, signature.len() - 1] {
                let mut changed = signature.clone();
                changed[place] ^= 1;
                assert!(!verify(algorithm, key, message, &changed), "{algorithm} {place}");
            }
            let longer = [signature.as_slice(), &[0]].concat();
            let shorter = &signature[..signature.len() - 1];
            for wrong in [&[][..], shorter, &longer, &vec![0; signature.len()]] {
                assert!(!verify(algorithm, key, message, wrong), "{algorithm} {}", wrong.len());
            }
        }
    }
}

#[test]
fn standard_private_keys_produce_standard_signatures() {
    let (key, token) = example("RFC 8037 A.4");
    let (message, expected) = parts(&token);
    let key = PrivateKey::read(&key).unwrap();
    assert_eq!(sign("EdDSA", &key, message), Ok(expected), "the one algorithm without chance");
    for (algorithm, key, length) in [("ES256", p256(), 64), ("ES512", p521(), 132)] {
        let signature = sign(algorithm, &PrivateKey::read(&key).unwrap(), b"message").unwrap();
        assert_eq!(signature.len(), length, "two numbers behind each other, no DER");
        assert!(verify(algorithm, &public_of(&key), b"message", &signature));
    }
    assert_eq!(format!("{key:?}"), "PrivateKey(Ed25519)", "it shows nothing of itself");
}

#[test]
fn elliptic_signatures_of_impossible_numbers_are_none() {
    let (key, token) = example("RFC 7515 A.3");
    let key = public_of(&key);
    let (message, good) = parts(&token);
    let (r, s) = good.split_at(32);
    let (zero, order) = ([0; 32], P256_ORDER);
    for (r, s) in [(&zero[..], s), (r, &zero), (&order, s), (r, &order), (&zero, &zero), (s, r)] {
        assert!(!verify("ES256", &key, message, &[r, s].concat()));
    }
    // The same numbers in DER, as in certificates.
    let der = [&[0x30, 70, 2, 33, 0], r, &[2, 33, 0], s].concat();
    assert!(!verify("ES256", &key, message, &der));
}

#[test]
fn pss_salt_length_equals_digest_length() {
    let key_pair = KeyParameters::read("rsa", 0, "pkcs8").unwrap().generate_key().unwrap();
    let sections = pem::read("it", &key_pair.private_key).unwrap();
    let pair = RsaKeyPair::from_pkcs8(&sections[0].bytes).unwrap();
    let sign = |encoding: &'static dyn RsaEncoding| {
        let mut signature = vec![0; pair.public_modulus_len()];
        pair.sign(encoding, &SystemRandom::new(), b"message", &mut signature).unwrap();
        signature
    };
    let key = key_pair.public_key.pem().unwrap();
    assert!(verify("PS256", &key, b"message", &sign(&RSA_PSS_SHA256)));
    let none = &const { RSA_PSS_SHA256.with_pss_salt_length(RsaPssSaltLength::Custom(0)) };
    let most = &const { RSA_PSS_SHA256.with_pss_salt_length(RsaPssSaltLength::Max) };
    let short = &const { RSA_PSS_SHA256.with_pss_salt_length(RsaPssSaltLength::Custom(31)) };
    for other in [none, most, short] {
        assert!(!verify("PS256", &key, b"message", &sign(other)));
    }
    for algorithm in ["PS384", "PS512", "RS256"] {
        assert!(!verify(algorithm, &key, b"message", &sign(&RSA_PSS_SHA256)), "{algorithm}");
    }
}

#[test]
fn algorithms_that_prove_nothing_are_refused() {
    for algorithm in ["none", "None", "", "HS256", "HS512", "RS1", "rs256", "ES256K", "RSA1_5"] {
        let why = refusal(algorithm, &rsa());
        assert!(why.contains("is not a signature algorithm: RS256, "), "{algorithm}: {why}");
        let key = PrivateKey::read(&ed25519()).unwrap();
        assert!(sign(algorithm, &key, b"").is_err(), "{algorithm}");
    }
}

#[test]
fn key_serves_only_algorithms_of_kind_and_name() {
    let p256 = public_of(&p256());
    for (algorithm, key) in
        [("RS256", &p256), ("ES384", &p256), ("EdDSA", &p256), ("ES512", &public_of(&ed25519()))]
    {
        let why = refusal(algorithm, key);
        assert!(why.contains(&format!("{algorithm} takes a key of kind ")), "{why}");
    }
    assert!(refusal("ES256", &rsa()).contains("the key is of kind RSA"));
    let named = p256.replace("{", r#"{"alg":"ES384","#);
    assert!(refusal("ES256", &named).contains("for another algorithm than ES256"));
    let named = p256.replace("{", r#"{"alg":"ES256","use":"sig","#);
    assert!(VerifyingKey::read("ES256", &named).is_ok());
    let named = p256.replace("{", r#"{"use":"enc","#);
    assert!(refusal("ES256", &named).contains("use is not sig"));
    let secret = r#"{"kty":"oct","k":"AAAA"}"#;
    assert!(refusal("RS256", secret).contains("give a public key"));
}

#[test]
fn a_private_key_is_not_a_public_one() {
    for key in [ed25519(), make_key("ec", "pkcs8"), make_key("ec", "traditional")] {
        for algorithm in ["EdDSA", "ES256"] {
            let why = refusal(algorithm, &key);
            assert_eq!(why, "the key is a private key; give the public half");
        }
    }
}

fn make_key(kind: &str, form: &str) -> String {
    KeyParameters::read(kind, 0, form).unwrap().generate_key().unwrap().private_key.to_string()
}

/// Returns a JWK of an RSA key with a modulus of `bits` bits and the given exponent.
fn rsa_of(bits: usize, exponent: &[u8]) -> String {
    let mut modulus = vec![0xff; bits.div_ceil(8)];
    modulus[0] = 0xff >> (modulus.len() * 8 - bits);
    let (n, e) = (URL_SAFE_NO_PAD.encode(&modulus), URL_SAFE_NO_PAD.encode(exponent));
    format!(r#"{{"kty":"RSA","n":"{n}","e":"{e}"}}"#)
}

#[test]
fn rsa_keys_out_of_bounds_are_refused_early() {
    for bits in [0_usize, 8, 512, 1_024, 2_047, 8_193, 16_384, 65_536] {
        let bits = bits.max(1);
        let why = refusal("RS256", &rsa_of(bits, &[1, 0, 1]));
        let expected = format!("the RSA key has {bits} bits; give one of 2048 to 8192");
        assert!(why == expected || why.contains("the most is 16384"), "{bits}: {why}");
    }
    for exponent in
        [&[][..], &[0], &[1], &[2], &[1, 0, 0], &[1, 0, 0, 0, 1], &[0xff; 255], &[0xff; 1_024]]
    {
        let why = refusal("RS256", &rsa_of(2_048, exponent));
        assert!(why.contains("exponent is not an odd number") || why.contains("damaged"), "{why}");
    }
    assert!(VerifyingKey::read("RS256", &rsa_of(8_192, &[3])).is_ok());
}

#[test]
fn points_off_curve_are_no_keys() {
    let p256 = public_of(&p256());
    for (from, to) in [
        ("f83OJ3D2", "f83OJ3D3"),
        ("\"x\":\"f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU\"", "\"x\":\"\""),
        ("VEU\"", "VEUA\""),
        ("P-256", "P-384"),
        ("P-256", "secp256k1"),
        ("\"y\"", "\"z\""),
        ("VEU\"", "VEU=\""),
        ("VEU\"", "VEV\""),
    ] {
        assert!(p256.contains(from));
        assert!(VerifyingKey::read("ES256", &p256.replace(from, to)).is_err(), "{from} {to}");
    }
    let infinity = pem::encode_pem("PUBLIC KEY", &[0x30, 0x00]);
    for text in [&infinity, "{}", "[]", "null", "{\"kty\":\"EC\"}", "", "not a key"] {
        assert!(VerifyingKey::read("ES256", text).is_err(), "{text}");
    }
    let twice = p256.replace("{", r#"{"kty":"EC","#);
    assert!(refusal("ES256", &twice).contains("each member once"));
}

#[test]
fn mismatched_private_key_parts_are_refused() {
    let other = PrivateKey::read(&make_key("ec", "pkcs8")).unwrap().public().unwrap();
    let x = URL_SAFE_NO_PAD.encode(&other.as_bytes()[1..33]);
    let y = URL_SAFE_NO_PAD.encode(&other.as_bytes()[33..]);
    let mixed = p256()
        .replace("f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU", &x)
        .replace("x_FEzRu9m36HLN_tue659LNpXW6pCyStikYjKIWI5a0", &y);
    assert!(PrivateKey::read(&mixed).is_err());
    let zero = URL_SAFE_NO_PAD.encode([0; 32]);
    let secret = "jpsQnnGQmL-YBIffH1136cspYG6-0iY7X1fCE9-E9LI";
    assert!(PrivateKey::read(&p256().replace(secret, &zero)).is_err());
    let order = URL_SAFE_NO_PAD.encode(P256_ORDER);
    assert!(PrivateKey::read(&p256().replace(secret, &order)).is_err());
    let mixed = ed25519().replace("11qYAYKx", "11qYAYKy");
    assert!(PrivateKey::read(&mixed).is_err());
    let why = PrivateKey::read(
        "-----BEGIN ENCRYPTED PRIVATE KEY-----\nAAAA\n-----END ENCRYPTED PRIVATE KEY-----\n",
    );
    assert!(why.unwrap_err().message.contains("decrypt it"));
}

#[test]
fn a_key_with_bytes_behind_it_is_damaged() {
    let public = PrivateKey::read(&make_key("ec", "pkcs8")).unwrap().public().unwrap();
    let section = pem::read("it", &public.pem().unwrap()).unwrap().remove(0);
    let longer = [section.bytes.as_slice(), &[0]].concat();
    assert!(PublicKey::read(&pem::encode_pem("PUBLIC KEY", &longer)).is_err());
    for length in 0..section.bytes.len() {
        let cut = pem::encode_pem("PUBLIC KEY", &section.bytes[..length]);
        assert!(PublicKey::read(&cut).is_err(), "{length}");
    }
}

#[test]
fn public_key_kind_is_read_from_text() {
    for (text, kind, bits) in [
        (public_of(&rsa()), KeyKind::Rsa, 2_048),
        (public_of(&p256()), KeyKind::P256, 256),
        (public_of(&p521()), KeyKind::P521, 521),
        (public_of(&ed25519()), KeyKind::Ed25519, 256),
    ] {
        let key = PublicKey::read(&text).unwrap();
        assert_eq!((key.kind(), key.bits()), (kind, bits));
        let again = PublicKey::read(&key.pem().unwrap()).unwrap();
        assert_eq!(again, key);
        assert_eq!(PublicKey::read(&key.jwk().unwrap()).unwrap(), key);
    }
}

#[test]
fn a_message_has_a_most() {
    let key = VerifyingKey::read("EdDSA", &public_of(&ed25519())).unwrap();
    let long = vec![0; MESSAGE_BYTES + 1];
    assert!(key.verify(&long, &[0; 64]).unwrap_err().message.contains("1048576"));
    assert!(sign("EdDSA", &PrivateKey::read(&ed25519()).unwrap(), &long).is_err());
}

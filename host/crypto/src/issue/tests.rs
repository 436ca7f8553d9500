//! Tests of issuing: another implementation verifies the chains of issued certificates.

use super::*;
use crate::chain::{CertificateUsage, ChainVerification};
use crate::generate::KeyParameters;
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, DnValue, IsCa, Issuer, KeyPair,
    KeyUsagePurpose,
};

/// 2030-01-01, and an hour and ten years.
const NOW: u64 = 1_893_456_000_000;
const HOUR: u64 = 3_600_000;
const TEN_YEARS: u64 = 10 * 365 * 24 * HOUR;

/// An authority created by another implementation.
struct Made {
    certificate: String,
    key: PrivateKey,
    key_text: String,
}

fn parameters(is_ca: IsCa) -> CertificateParams {
    let mut parameters = CertificateParams::default();
    parameters.is_ca = is_ca;
    parameters.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::DigitalSignature];
    parameters.not_before = rcgen::date_time_ymd(2029, 1, 1);
    parameters.not_after = rcgen::date_time_ymd(2035, 1, 1);
    parameters.distinguished_name = DistinguishedName::new();
    let country = DnValue::PrintableString("DE".try_into().unwrap());
    parameters.distinguished_name.push(DnType::CountryName, country);
    parameters.distinguished_name.push(DnType::OrganizationName, "Corp, \u{fc}nited");
    parameters.distinguished_name.push(DnType::CommonName, "the authority");
    parameters
}

fn authority_by(kind: &str, bits: u32, parameters: CertificateParams) -> Made {
    let generated = KeyParameters::read(kind, bits, "pkcs8").unwrap().generate_key().unwrap();
    let pair = KeyPair::from_pem(&generated.private_key).unwrap();
    let certificate = parameters.self_signed(&pair).unwrap().pem();
    let key = PrivateKey::read(&generated.private_key).unwrap();
    Made { certificate, key, key_text: generated.private_key.to_string() }
}

fn authority(kind: &str, bits: u32) -> Made {
    authority_by(kind, bits, parameters(IsCa::Ca(BasicConstraints::Unconstrained)))
}

fn client_key() -> String {
    let key_pair = KeyParameters::read("ec", 0, "pkcs8").unwrap().generate_key().unwrap();
    key_pair.public_key.pem().unwrap()
}

struct Wish {
    common_name: String,
    names: Vec<(String, String)>,
    usages: Vec<String>,
    not_before: u64,
    not_after: u64,
    signature_bits: u32,
}

fn wish() -> Wish {
    Wish {
        common_name: "reader".to_owned(),
        names: Vec::new(),
        usages: vec!["client-auth".to_owned()],
        not_before: NOW - 30_000,
        not_after: NOW + HOUR,
        signature_bits: 0,
    }
}

fn ask(issuer: &Made, wish: &Wish) -> Result<String, Failure> {
    let wanted = CertificateIssuance {
        authority: &issuer.certificate,
        public_key: &client_key(),
        common_name: &wish.common_name,
        names: &wish.names,
        usages: &wish.usages,
        not_before: wish.not_before,
        not_after: wish.not_after,
        signature_bits: wish.signature_bits,
    };
    issue(&wanted, &issuer.key)
}

fn chain<'a>(certificates: &'a str, roots: &'a str) -> ChainVerification<'a> {
    ChainVerification {
        certificates,
        roots,
        usage: CertificateUsage::ClientAuth,
        name: "",
        now: NOW,
    }
}

fn pairs(names: &[(&str, &str)]) -> Vec<(String, String)> {
    names.iter().map(|(kind, name)| ((*kind).to_owned(), (*name).to_owned())).collect()
}

#[test]
fn certificates_of_every_kind_of_authority_are_accepted() {
    for (kind, bits, signature_bits) in [
        ("rsa", 2_048, 0),
        ("rsa", 2_048, 384),
        ("rsa", 2_048, 512),
        ("ec", 256, 0),
        ("ec", 384, 256),
        ("ec", 521, 0),
        ("ed25519", 0, 0),
    ] {
        let issuer = authority(kind, bits);
        let issued = ask(&issuer, &Wish { signature_bits, ..wish() }).unwrap();
        assert_eq!(chain(&issued, &issuer.certificate).verify(), Ok(()), "{kind} {bits}");
        let other = authority(kind, bits);
        let why = chain(&issued, &other.certificate).verify().unwrap_err();
        assert_eq!(why.kind, bulkhead_wire::failure::FailureKind::PermissionDenied);
    }
}

#[test]
fn issued_certificate_contains_requested_fields() {
    let issuer = authority("ec", 256);
    let names = pairs(&[
        ("dns", "a.example"),
        ("ip", "10.0.0.1"),
        ("ip", "fd00::1"),
        ("email", "a@a.example"),
        ("uri", "spiffe://corp/a"),
    ]);
    let usages = vec!["client-auth".to_owned(), "server-auth".to_owned()];
    let issued = ask(&issuer, &Wish { names: names.clone(), usages, ..wish() }).unwrap();
    let said = Certificate::read(&issued).unwrap();
    assert_eq!(said.subject, "CN=reader");
    assert_eq!(said.common_name.as_deref(), Some("reader"));
    assert_eq!(said.issuer, Certificate::read(&issuer.certificate).unwrap().subject);
    assert_eq!((said.not_before, said.not_after), (NOW - 30_000, NOW + HOUR));
    assert!(!said.is_authority);
    let issued_names: Vec<(String, String)> =
        said.names.iter().map(|(kind, name)| ((*kind).to_owned(), name.clone())).collect();
    assert_eq!(issued_names, names);
    assert_eq!(said.usages, ["client-auth", "server-auth"]);
    assert_eq!((said.serial.len(), said.sha1.len(), said.sha256.len()), (32, 40, 64));
    let root = Certificate::read(&issuer.certificate).unwrap();
    assert_eq!(said.authority_key_id, root.key_id);
    for (name, bears) in [("a.example", true), ("10.0.0.1", true), ("b.example", false)] {
        let usage = CertificateUsage::ServerAuth;
        let chain = ChainVerification { name, usage, ..chain(&issued, &issuer.certificate) };
        assert_eq!(chain.verify().is_ok(), bears, "{name}");
    }
    let again = ask(&issuer, &wish()).unwrap();
    assert_ne!(Certificate::read(&again).unwrap().serial, said.serial);
}

#[test]
fn chain_verification_checks_time_usage_and_intermediates() {
    let issuer = authority("ec", 256);
    let issued = ask(&issuer, &wish()).unwrap();
    for (now, holds) in [
        (NOW, true),
        (NOW - 30_000, true),
        (NOW - 31_000, false),
        (NOW + HOUR, true),
        (NOW + HOUR + 1_000, false),
        (NOW + TEN_YEARS, false),
        (0, false),
    ] {
        let chain = ChainVerification { now, ..chain(&issued, &issuer.certificate) };
        assert_eq!(chain.verify().is_ok(), holds, "{now}");
    }
    let usage = CertificateUsage::ServerAuth;
    assert!(ChainVerification { usage, ..chain(&issued, &issuer.certificate) }.verify().is_err());
    assert!(
        chain(&issuer.certificate, &issuer.certificate).verify().is_err(),
        "a root is not a client"
    );

    let root = KeyPair::from_pem(&issuer.key_text).unwrap();
    let root = Issuer::new(parameters(IsCa::Ca(BasicConstraints::Unconstrained)), root);
    let mut between = parameters(IsCa::Ca(BasicConstraints::Constrained(0)));
    between.distinguished_name.push(DnType::CommonName, "between");
    let generated = KeyParameters::read("ec", 384, "pkcs8").unwrap().generate_key().unwrap();
    let pair = KeyPair::from_pem(&generated.private_key).unwrap();
    let middle = Made {
        certificate: between.signed_by(&pair, &root).unwrap().pem(),
        key: PrivateKey::read(&generated.private_key).unwrap(),
        key_text: String::new(),
    };
    let issued = ask(&middle, &wish()).unwrap();
    assert!(chain(&issued, &issuer.certificate).verify().is_err());
    let both = issued + &middle.certificate;
    assert_eq!(chain(&both, &issuer.certificate).verify(), Ok(()));
}

#[test]
fn authorities_that_are_none_issue_nothing() {
    let why = |issuer: &Made| ask(issuer, &wish()).unwrap_err().message;
    let leaf = authority_by("ec", 256, parameters(IsCa::ExplicitNoCa));
    assert!(why(&leaf).contains("not marked for signing certificates"));
    let bare = authority_by("ec", 256, parameters(IsCa::NoCa));
    assert!(why(&bare).contains("not marked for signing certificates"));
    let mut without = parameters(IsCa::Ca(BasicConstraints::Unconstrained));
    without.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    assert!(why(&authority_by("ec", 256, without)).contains("not marked"));
    let mixed = Made { certificate: authority("ec", 256).certificate, ..authority("ec", 256) };
    assert!(why(&mixed).contains("the key does not belong to the authority's certificate"));
    let broken = Made { certificate: "no certificate".to_owned(), ..authority("ec", 256) };
    assert!(why(&broken).contains("is not PEM"));
}

#[test]
fn certificate_outliving_authority_or_reversed_is_refused() {
    let issuer = authority("ec", 256);
    for (not_before, not_after, why) in [
        (NOW, NOW + TEN_YEARS, "outlive"),
        (NOW, NOW, "would end before it begins"),
        (NOW, 0, "would end before it begins"),
        (NOW, u64::MAX, "outlive"),
    ] {
        let refused = ask(&issuer, &Wish { not_before, not_after, ..wish() }).unwrap_err();
        assert!(refused.message.contains(why), "{}", refused.message);
    }
}

#[test]
fn names_that_no_certificate_bears_are_refused() {
    let issuer = authority("ec", 256);
    let refused = |names: &[(&str, &str)], common_name: &str| {
        let (names, common_name) = (pairs(names), common_name.to_owned());
        ask(&issuer, &Wish { names, common_name, ..wish() }).unwrap_err().message
    };
    for (kind, name) in [
        ("dns", ""),
        ("dns", "a b"),
        ("dns", "\u{fc}.example"),
        ("dns", "10.0.0.1"),
        ("ip", "a.example"),
        ("ip", "10.0.0.1/8"),
        ("email", "a\n@b"),
        ("other", "a"),
    ] {
        assert!(refused(&[(kind, name)], "reader").contains("is not a name of a"), "{kind} {name}");
    }
    assert!(refused(&[], "").contains("bears a common name or another name"));
    assert!(refused(&[], &"x".repeat(65)).contains("is not a common name"));
    assert!(refused(&[], "a\nb").contains("is not a common name"));
    let many = vec![("dns", "a.example"); 10_000];
    assert!(refused(&many, "reader").contains("10000 names; the most is 256"));
    let names = pairs(&[("dns", "a.example")]);
    let nameless = ask(&issuer, &Wish { names, common_name: String::new(), ..wish() }).unwrap();
    assert_eq!(Certificate::read(&nameless).unwrap().common_name, None);
    assert_eq!(chain(&nameless, &issuer.certificate).verify(), Ok(()));
}

#[test]
fn certificates_of_ten_thousand_names_are_not_read() {
    let mut many = parameters(IsCa::NoCa);
    let name = |number: usize| format!("n{number}").try_into().unwrap();
    many.subject_alt_names = (0..300).map(|n| rcgen::SanType::DnsName(name(n))).collect();
    let certificate = authority_by("ec", 256, many.clone()).certificate;
    let why = Certificate::read(&certificate).unwrap_err().message;
    assert!(why.contains("300 names; the most is 256"), "{why}");
    many.subject_alt_names = (0..10_000).map(|n| rcgen::SanType::DnsName(name(n))).collect();
    let certificate = authority_by("ec", 256, many).certificate;
    let why = Certificate::read(&certificate).unwrap_err().message;
    assert!(why.contains("the most is 65536"), "{why}");
    let one = authority("ec", 256).certificate;
    let roots = one.repeat(65);
    let why = chain(&one, &roots).verify().unwrap_err().message;
    assert!(why.contains("65 sections; the most is 64") || why.contains("65536"), "{why}");
}

//! Use of keys, certificates, foreign tokens and passwords.

use bulkhead_sdk::crypto::{CertificateChain, CertificateRequest};
use bulkhead_sdk::jwt::{self, ExpectedClaims, KeySet, ParsedToken};
use bulkhead_sdk::table::Field;
use bulkhead_sdk::{Answer, Call, Failure, FailureKind, Host};
use serde_json::{Value, json};

/// Fields of a token and of its expected claims.
pub(crate) const TOKEN: &[Field] = &[
    Field::text("jwt", "the token"),
    Field::text("keys", "its issuer's keys, as a JWK set or in PEM"),
    Field::text("algorithm", "the one that is allowed").or_text("RS256"),
    Field::text("issuer", "who made it"),
    Field::text("audience", "for whom it is"),
    Field::whole("times", "how often it is proven").or_whole(1),
];

/// Fields of a key and of the claims to sign.
pub(crate) const SIGNING: &[Field] = &[
    Field::text("key", "the private key").secret(),
    Field::text("algorithm", "how to sign").or_text("RS256"),
    Field::any("claims", "what to sign"),
    Field::text("how", "ok or told").or_text("ok"),
];

pub(crate) const KEY: &[Field] = &[
    Field::text("kind", "rsa, ec or ed25519").or_text("ec"),
    Field::whole("bits", "how long").or_whole(0),
    Field::text("form", "pkcs8 or traditional").or_text("pkcs8"),
    Field::text("how", "ok or told").or_text("ok"),
];

pub(crate) const CERTIFICATE: &[Field] = &[
    Field::text("authority", "its certificate"),
    Field::text("authority_key", "its key"),
    Field::text("public_key", "whose key it is for"),
    Field::text("common_name", "whom it names"),
    Field::seconds("ttl", "how long it holds").or_whole(60),
];

pub(crate) const PASSWORD: &[Field] = &[
    Field::text("password", "the password").secret(),
    Field::text("hash", "what to hold it against"),
    Field::text("how", "ok or told").or_text("ok"),
];

pub(crate) fn prove(host: &dyn Host, call: &Call) -> Result<Answer, Failure> {
    let keys = call.text("keys");
    let mut claims = None;
    for _ in 0..call.fields.get("times").and_then(Value::as_u64).unwrap_or(1) {
        let token = ParsedToken::read(call.text("jwt"), &[call.text("algorithm")])?;
        let proven = match keys.starts_with('{') {
            true => {
                let set = KeySet::read(keys.as_bytes())?;
                let key = set.key_of(&token)?;
                token.prove(host, key)?
            }
            false => token.prove(host, keys)?,
        };
        let expected =
            ExpectedClaims { issuer: call.text("issuer"), audience: call.text("audience") };
        proven.check(host.clock().now(), &expected)?;
        claims = Some(proven);
    }
    let claims = claims.ok_or_else(|| Failure::invalid("nothing was to be proven"))?;
    Answer::data(&json!({ "claims": claims.all() }))
}

/// Signs claims; `told` repeats the key in an error.
pub(crate) fn sign(host: &dyn Host, call: &Call) -> Result<Answer, Failure> {
    let claims = call.fields.get("claims").and_then(Value::as_object);
    let claims = claims.cloned().unwrap_or_default();
    let key = call.text("key");
    let token = jwt::sign(host, call.text("algorithm"), Some("k1"), &claims, key)?;
    match call.text("how") {
        "told" => Err(Failure::invalid(format!("the key was {key}"))),
        _ => Answer::data(&json!({ "token": token })),
    }
}

/// Generates a key; `told` repeats the key in an error.
pub(crate) fn generate(host: &dyn Host, call: &Call) -> Result<Answer, Failure> {
    let bits = call.fields.get("bits").and_then(Value::as_u64).unwrap_or_default();
    let bits = u32::try_from(bits).unwrap_or(u32::MAX);
    let key = host.crypto().generate_key(call.text("kind"), bits, call.text("form"))?;
    let read = host.crypto().read_key(&key.private_key)?;
    if read != key.public_key {
        return Err(Failure::internal("the key is read otherwise than it was made"));
    }
    match call.text("how") {
        "told" => Err(Failure::invalid(format!("it is {}", key.private_key))),
        _ => Answer::data(&json!({
            "private": key.private_key, "public": read.pem, "jwk": read.jwk, "bits": read.bits,
        })),
    }
}

/// Issues a certificate with an authority's certificate as issuer.
pub(crate) fn certify(host: &dyn Host, call: &Call) -> Result<Answer, Failure> {
    let now = host.clock().now();
    let authority = call.text("authority").to_owned();
    let issued = host.crypto().issue_certificate(&CertificateRequest {
        authority: authority.clone(),
        authority_key: call.text("authority_key").to_owned(),
        public_key: call.text("public_key").to_owned(),
        common_name: call.text("common_name").to_owned(),
        usages: vec!["client-auth".to_owned()],
        not_before: now.saturating_sub(30_000),
        not_after: now.saturating_add(call.seconds("ttl").saturating_mul(1_000)),
        ..CertificateRequest::default()
    })?;
    let chain = CertificateChain {
        certificates: &issued,
        roots: &authority,
        usage: "client-auth",
        name: "",
    };
    host.crypto().verify_chain(&chain)?;
    let said = host.crypto().read_certificate(&issued)?;
    Answer::data(&json!({
        "certificate": issued, "subject": said.subject, "issuer": said.issuer,
        "usages": said.usages, "sha256": said.fingerprint_sha256,
    }))
}

/// Hashes the password, or compares it with a hash; `told` repeats the password in an error.
pub(crate) fn hash(host: &dyn Host, call: &Call) -> Result<Answer, Failure> {
    let password = call.text("password");
    if call.is_given("hash") {
        let is_right = host.crypto().verify_password(password, call.text("hash"))?;
        return Answer::data(&json!({ "is_right": is_right }));
    }
    let hash = host.crypto().hash_password(password)?;
    match call.text("how") {
        "told" => Err(Failure::new(FailureKind::InvalidRequest, format!("it was {password}"))),
        _ => Answer::data(&json!({ "hash": hash })),
    }
}

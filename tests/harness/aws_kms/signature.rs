//! The check of a signature of version 4, written from the description of AWS and without code of
//! the product: the signature is computed again from the secret key.

use crate::internet::Request;
use aws_lc_rs::digest::{SHA256, digest};
use aws_lc_rs::hmac;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use time::macros::format_description;
use time::{OffsetDateTime, PrimitiveDateTime};

/// Largest difference between the time of a request and the time of the service, in seconds.
const MAX_SKEW: i64 = 300;

/// Headers that a signature must cover, if the request has the header.
const NEEDED: [&str; 5] =
    ["content-type", "host", "x-amz-date", "x-amz-security-token", "x-amz-target"];

/// Name and message of an error.
pub(super) type Refusal = (&'static str, &'static str);

/// The parts of the header `authorization`.
pub(super) struct Authorization<'a> {
    pub(super) access_key: &'a str,
    /// Date, region, service and the end of the scope.
    scope: [&'a str; 4],
    signed: Vec<&'a str>,
    signature: &'a str,
}

impl<'a> Authorization<'a> {
    pub(super) fn of(request: &'a Request) -> Result<Self, Refusal> {
        let text = request.header("authorization");
        if text.is_empty() {
            return Err(("MissingAuthenticationTokenException", "Missing Authentication Token"));
        }
        let read = || {
            let rest = text.strip_prefix("AWS4-HMAC-SHA256 ")?;
            let parts: BTreeMap<&str, &str> =
                rest.split(", ").filter_map(|part| part.split_once('=')).collect();
            let credential: Vec<&str> = parts.get("Credential")?.split('/').collect();
            let [access_key, date, region, service, end] = credential[..] else { return None };
            Some(Self {
                access_key,
                scope: [date, region, service, end],
                signed: parts.get("SignedHeaders")?.split(';').collect(),
                signature: parts.get("Signature")?,
            })
        };
        read().ok_or(("IncompleteSignatureException", "Authorization header requires parts"))
    }

    /// Checks time, scope, covered headers and signature.
    pub(super) fn check(
        &self,
        request: &Request,
        (secret_key, region): (&str, &str),
        now: OffsetDateTime,
    ) -> Result<(), Refusal> {
        let time = request.header("x-amz-date");
        let form = format_description!("[year][month][day]T[hour][minute][second]Z");
        let read = PrimitiveDateTime::parse(time, form)
            .map_err(|_| ("IncompleteSignatureException", "Date must be in ISO-8601"))?;
        let skew = (now - read.assume_utc()).whole_seconds();
        if skew > MAX_SKEW {
            return Err(("InvalidSignatureException", "Signature expired: is now earlier than"));
        }
        if skew < -MAX_SKEW {
            return Err(("InvalidSignatureException", "Signature not yet current: is still later"));
        }
        let [date, of_region, service, end] = self.scope;
        if !time.starts_with(date) || date.len() != 8 {
            return Err(("InvalidSignatureException", "Date in Credential scope does not match"));
        }
        if (of_region, service, end) != (region, "kms", "aws4_request") {
            return Err(("InvalidSignatureException", "Credential should be scoped correctly"));
        }
        let is_covered = NEEDED
            .iter()
            .filter(|name| request.headers.contains_key(**name))
            .all(|name| self.signed.contains(name));
        if !is_covered || !self.signed.is_sorted() {
            return Err(("InvalidSignatureException", "headers present were not signed"));
        }
        if self.signature == self.expected(request, secret_key) {
            return Ok(());
        }
        Err(("InvalidSignatureException", "The request signature we calculated does not match"))
    }

    fn expected(&self, request: &Request, secret_key: &str) -> String {
        let mut canonical =
            format!("{}\n{}\n{}\n", request.method, request.path, request.raw_query);
        for name in &self.signed {
            let value = request.header(name).split_whitespace().collect::<Vec<_>>().join(" ");
            writeln!(canonical, "{name}:{value}").expect("a text grows");
        }
        let payload = hexadecimal(digest(&SHA256, &request.body).as_ref());
        write!(canonical, "\n{}\n{payload}", self.signed.join(";")).expect("a text grows");
        let canonical = hexadecimal(digest(&SHA256, canonical.as_bytes()).as_ref());
        let (time, scope) = (request.header("x-amz-date"), self.scope.join("/"));
        let text = format!("AWS4-HMAC-SHA256\n{time}\n{scope}\n{canonical}");
        let first = format!("AWS4{secret_key}").into_bytes();
        let key = self.scope.iter().fold(first, |key, part| mac(&key, part));
        hexadecimal(&mac(&key, &text))
    }
}

fn mac(key: &[u8], text: &str) -> Vec<u8> {
    let key = hmac::Key::new(hmac::HMAC_SHA256, key);
    hmac::sign(&key, text.as_bytes()).as_ref().to_vec()
}

fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        write!(text, "{byte:02x}").expect("a text grows");
        text
    })
}

//! Tests of the service: the published example of a signature, and each refusal.

use super::signature::Authorization;
use super::*;
use crate::internet::Request;
use hyper::{HeaderMap, Method};
use time::macros::datetime;

/// The request `post-vanilla` of the test suite that AWS publishes, for the service `kms`.
fn request(signature: &str) -> Request {
    let mut headers = HeaderMap::new();
    let authorization = format!(
        "AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/20150830/us-east-1/kms/aws4_request, \
         SignedHeaders=host;x-amz-date, Signature={signature}"
    );
    headers.insert("authorization", authorization.parse().unwrap());
    headers.insert("host", "example.amazonaws.com".parse().unwrap());
    headers.insert("x-amz-date", "20150830T123600Z".parse().unwrap());
    let (method, body) = (Method::POST, Vec::new());
    let (host, path, raw_query) = ("kms".to_owned(), "/".to_owned(), String::new());
    Request { method, host, path, raw_query, headers, body }
}

/// The signature of [`request`], computed by a script in Python.
const SIGNATURE: &str = "fb6723c3ff4047b83d886e1b3ca6b808182dbf6843538b72c91679746874ef5d";

const SECRET: &str = "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY";

#[test]
fn signature_covers_time_region_and_headers() {
    let right = request(SIGNATURE);
    let authorization = Authorization::of(&right).unwrap();
    assert_eq!(authorization.access_key, "AKIDEXAMPLE");
    let used = (SECRET, "us-east-1");
    let now = datetime!(2015-08-30 12:40:00 UTC);
    assert_eq!(authorization.check(&right, used, now), Ok(()));
    for (used, now, part) in [
        ((SECRET, "us-east-1"), datetime!(2015-08-30 12:41:01 UTC), "expired"),
        ((SECRET, "us-east-1"), datetime!(2015-08-30 12:30:59 UTC), "not yet current"),
        ((SECRET, "us-east-2"), now, "scoped"),
        (("another", "us-east-1"), now, "does not match"),
    ] {
        let (kind, message) = authorization.check(&right, used, now).unwrap_err();
        assert_eq!(kind, "InvalidSignatureException");
        assert!(message.contains(part), "{message}");
    }
    let mut changed = request(SIGNATURE);
    changed.body = b"{}".to_vec();
    let (_, message) = Authorization::of(&changed).unwrap().check(&changed, used, now).unwrap_err();
    assert!(message.contains("does not match"), "{message}");
    let mut unsigned = request(SIGNATURE);
    unsigned.headers.insert("x-amz-target", "TrentService.Decrypt".parse().unwrap());
    let checked = Authorization::of(&unsigned).unwrap().check(&unsigned, used, now);
    assert!(checked.unwrap_err().1.contains("not signed"));
}

#[test]
fn request_without_signature_is_refused() {
    let kms = AwsKms::start();
    let agent: ureq::Agent =
        ureq::Agent::config_builder().http_status_as_error(false).proxy(None).build().into();
    let mut answer = agent.post(kms.url()).send("{}").expect("an answer");
    let text = answer.body_mut().read_to_string().expect("a text");
    assert!(text.contains("MissingAuthenticationTokenException"), "{text}");
    assert_eq!(answer.status().as_u16(), 400);
    assert_eq!(kms.requests().len(), 1);
}

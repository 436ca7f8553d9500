//! Endpoints: their forms, the service's default paths, and refused values.

use super::{CloudService, foreign, merge};
use std::collections::BTreeMap;

fn map(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
}

#[test]
fn service_without_custom_endpoint_has_default_base() {
    for (service, base) in [
        (CloudService::Api, "https://www.googleapis.com"),
        (CloudService::Iam, "https://iam.googleapis.com"),
        (CloudService::Crm, "https://cloudresourcemanager.googleapis.com"),
        (CloudService::Compute, "https://compute.googleapis.com/compute/v1"),
    ] {
        assert_eq!(service.base(&BTreeMap::new()).unwrap(), base);
    }
}

#[test]
fn custom_endpoint_without_own_path_keeps_service_path() {
    for (service, text, base) in [
        (CloudService::Api, "www.p.example", "https://www.p.example"),
        (CloudService::Api, "https://www.p.example:8443/", "https://www.p.example:8443"),
        (CloudService::Compute, "compute.p.example", "https://compute.p.example/compute/v1"),
        (
            CloudService::Compute,
            "HTTPS://Compute.P.example/",
            "https://compute.p.example/compute/v1",
        ),
        (CloudService::Compute, "https://p.example/c/v1/", "https://p.example/c/v1"),
        (CloudService::Iam, "https://p.example/iam", "https://p.example/iam"),
        (CloudService::Iam, "199.36.153.8", "https://199.36.153.8"),
        (CloudService::Iam, "[2600:1901::1]:443", "https://[2600:1901::1]:443"),
    ] {
        let custom = map(&[(service.word(), text)]);
        assert_eq!(service.base(&custom).unwrap(), base, "{text}");
    }
}

#[test]
fn endpoints_merge_by_key_and_empty_value_removes() {
    let mut custom = map(&[("api", "a.example"), ("iam", "i.example")]);
    merge(&map(&[("iam", ""), ("crm", "c.example")]), &mut custom).unwrap();
    assert_eq!(custom, map(&[("api", "a.example"), ("crm", "c.example")]));
    let refused = merge(&map(&[("sts", "s.example")]), &mut custom).unwrap_err();
    assert!(refused.message.contains("invalid custom endpoint type \"sts\""), "{refused}");
}

#[test]
fn private_loopback_or_link_local_endpoint_is_refused() {
    for text in [
        "127.0.0.1",
        "https://127.0.0.1:8200",
        "10.1.2.3",
        "172.16.0.1",
        "192.168.0.1",
        "169.254.169.254",
        "100.64.0.1",
        "0.0.0.0",
        "255.255.255.255",
        "198.18.0.1",
        "192.0.0.1",
        "224.0.0.1",
        "127.1",
        "2130706433",
        "0x7f000001",
        "a.0x7f",
        "[::1]",
        "[::]",
        "[fe80::1]",
        "[fd00::1]",
        "[::ffff:127.0.0.1]",
        "[64:ff9b::7f00:1]",
        "[2002:7f00:1::]",
        "[2001::1]",
        "[x]",
        "localhost",
        "a.localhost",
        "LOCALHOST",
        "metadata.google.internal",
        "metadata",
    ] {
        assert!(merge(&map(&[("api", text)]), &mut BTreeMap::new()).is_err(), "{text}");
    }
}

#[test]
fn an_invalid_endpoint_is_refused() {
    let long = format!("{}.example", "a".repeat(600));
    for text in [
        "http://a.example",
        "ftp://a.example",
        "https://",
        "https:///x",
        "u@a.example",
        "https://u:p@a.example",
        "a.example?x=1",
        "a.example#x",
        "a.example/../x",
        "a.example/a//b",
        "a.example/%2e",
        "a.example:0",
        "a.example:99999",
        "a.example:+1",
        "a.example:",
        "a..example",
        "a.example.",
        "a b",
        "a\nb",
        "a.example\\x",
        "[2600::1",
        &long,
    ] {
        assert!(merge(&map(&[("compute", text)]), &mut BTreeMap::new()).is_err(), "{text}");
    }
}

#[test]
fn provider_endpoints_are_distinguished_from_foreign_endpoints() {
    let custom = |text: &str| BTreeMap::from([("api".to_owned(), text.to_owned())]);
    for own in ["googleapis.com", "https://WWW.googleapis.com/x", "iam-psc.p.googleapis.com:443"] {
        assert_eq!(foreign(&custom(own)), None, "{own}");
    }
    for other in ["p.example", "https://googleapis.com.evil.example", "evilgoogleapis.com", "[::1]"]
    {
        assert_eq!(foreign(&custom(other)), Some("api"), "{other}");
    }
    assert_eq!(foreign(&BTreeMap::new()), None);
}

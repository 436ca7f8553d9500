//! Tests of the requests to clouds, and of the checks on their answers.

use super::*;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::sync::Arc;

const NOW: u64 = 1_700_000_000_000;

fn within(environment: &[(&str, &str)]) -> AmbientSources {
    let values: BTreeMap<String, OsString> =
        environment.iter().map(|(name, value)| ((*name).to_owned(), (*value).into())).collect();
    AmbientSources {
        environment: Arc::new(move |name| values.get(name).cloned()),
        ..AmbientSources::default()
    }
}

fn asked(here: &AmbientSources, cloud: CloudProvider, audience: &str) -> (String, String) {
    let question = here.question(cloud, audience).unwrap();
    let headers = question.request.headers().iter();
    let headers: Vec<String> =
        headers.map(|(name, value)| format!("{name}: {}", value.to_str().unwrap())).collect();
    (format!("{}{}", question.address, question.request.uri()), headers.join(", "))
}

fn answered(status: u16, body: &str, headers: &[(&str, &str)]) -> HttpAnswer {
    let text = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
    HttpAnswer {
        status,
        headers: headers.iter().map(text).collect(),
        body: Bytes::copy_from_slice(body.as_bytes()),
    }
}

const FLAVOR: &[(&str, &str)] = &[("metadata-flavor", "Google")];

#[test]
fn each_cloud_is_asked_as_its_documents_say() {
    let here = within(&[]);
    assert_eq!(
        asked(&here, CloudProvider::Azure, "https://vault.azure.net"),
        (
            "169.254.169.254:80/metadata/identity/oauth2/token?api-version=2018-02-01&\
             resource=https%3A%2F%2Fvault.azure.net"
                .to_owned(),
            "host: 169.254.169.254:80, metadata: true".to_owned()
        )
    );
    let path = "169.254.169.254:80/computeMetadata/v1/instance/service-accounts/default/";
    let headers = "host: metadata.google.internal, metadata-flavor: Google".to_owned();
    assert_eq!(
        asked(&here, CloudProvider::Google, "vault/dev"),
        (format!("{path}identity?audience=vault%2Fdev&format=full"), headers.clone())
    );
    let scope = "https://www.googleapis.com/auth/cloud-platform";
    let escaped = "https%3A%2F%2Fwww.googleapis.com%2Fauth%2Fcloud-platform";
    assert_eq!(
        asked(&here, CloudProvider::Google, scope),
        (format!("{path}token?scopes={escaped}"), headers)
    );
    let one_of_many = AmbientSources { azure_client_id: "11-22".to_owned(), ..within(&[]) };
    assert!(
        asked(&one_of_many, CloudProvider::Azure, "r").0.ends_with("&resource=r&client_id=11-22")
    );
}

#[test]
fn app_service_endpoint_from_environment_stays_on_machine() {
    let of = |endpoint: &str| {
        within(&[("IDENTITY_ENDPOINT", endpoint), ("IDENTITY_HEADER", "853b9a84")])
    };
    for (endpoint, path) in [
        ("http://localhost:41741/MSI/token/", "127.0.0.1:41741/MSI/token/"),
        ("http://169.254.129.2:8081/msi/token", "169.254.129.2:8081/msi/token"),
    ] {
        let (address, headers) = asked(&of(endpoint), CloudProvider::Azure, "r");
        assert_eq!(address, format!("{path}?api-version=2019-08-01&resource=r"));
        assert!(headers.ends_with("x-identity-header: 853b9a84"), "{headers}");
    }
    for elsewhere in [
        "https://localhost/msi/token",
        "http://identity.example/msi/token",
        "http://10.0.0.1/msi/token",
        "http://203.0.113.7/msi/token",
        "no url",
    ] {
        let refused = of(elsewhere).question(CloudProvider::Azure, "r").err().unwrap();
        assert_eq!(refused.kind, FailureKind::PreconditionFailed, "{elsewhere}");
        assert!(!refused.message.contains("853b"), "{}", refused.message);
    }
    for (environment, says) in [
        (&[("IDENTITY_ENDPOINT", "http://localhost:40342/x")][..], "Azure Arc"),
        (
            &[
                ("IDENTITY_ENDPOINT", "https://localhost/x"),
                ("IDENTITY_HEADER", "x"),
                ("IDENTITY_SERVER_THUMBPRINT", "x"),
            ],
            "Service Fabric",
        ),
    ] {
        let refused = within(environment).question(CloudProvider::Azure, "r").err().unwrap();
        assert!(refused.message.contains(says), "{}", refused.message);
    }
}

#[test]
fn invalid_audience_or_cloud_is_refused_before_request() {
    for audience in ["", "a b", "a\r\nx: y", "ü", &"a".repeat(1_025)] {
        let refused = within(&[]).question(CloudProvider::Google, audience).err().unwrap();
        assert_eq!(refused.kind, FailureKind::InvalidRequest, "{audience:?}");
    }
    assert!(CloudProvider::of("amazon").unwrap_err().message.contains("azure or google"));
}

#[test]
fn token_expires_per_cloud_answer_within_one_day() {
    let end =
        |body: &str| CloudProvider::Azure.token_of(&answered(200, body, &[]), NOW).unwrap().expires;
    let token = r#""access_token":"eyJ0.e30.c2ln""#;
    assert_eq!(end(&format!(r#"{{{token},"expires_in":"3599"}}"#)), NOW + 3_599_000);
    assert_eq!(end(&format!(r#"{{{token},"expires_in":60}}"#)), NOW + 60_000);
    assert_eq!(end(&format!(r#"{{{token},"expires_on":"1700000500"}}"#)), NOW + 500_000);
    let always = format!(r#"{{{token},"expires_in":18446744073709551615}}"#);
    assert_eq!(end(&always), NOW + 24 * 3_600_000);
    let claims = BASE64_URL_SAFE_NO_PAD.encode(r#"{"exp":1700000060}"#);
    let signed =
        CloudProvider::Google.token_of(&answered(200, &format!("eyJ.{claims}.s\n"), FLAVOR), NOW);
    let signed = signed.unwrap_or_else(|refused| panic!("{refused:?}"));
    assert_eq!((signed.token, signed.expires), (format!("eyJ.{claims}.s"), NOW + 60_000));
}

#[test]
fn non_token_answer_is_refused_without_quoting() {
    let token = r#""access_token":"hunter2hunter2""#;
    let long = format!(r#"{{"access_token":"{}","expires_in":60}}"#, "x".repeat(40_000));
    for (cloud, body, headers) in [
        (CloudProvider::Azure, "hunter2hunter2".to_owned(), &[][..]),
        (CloudProvider::Azure, format!("{{{token}}}"), &[]),
        (CloudProvider::Azure, format!(r#"{{{token},"expires_in":0}}"#), &[]),
        (CloudProvider::Azure, format!(r#"{{{token},"expires_in":-5}}"#), &[]),
        (CloudProvider::Azure, format!(r#"{{{token},"expires_on":"1600000000"}}"#), &[]),
        (CloudProvider::Azure, r#"{"access_token":"","expires_in":60}"#.to_owned(), &[]),
        (CloudProvider::Azure, r#"{"access_token":"a\nb","expires_in":60}"#.to_owned(), &[]),
        (CloudProvider::Azure, r#"{"access_token":7,"expires_in":60}"#.to_owned(), &[]),
        (CloudProvider::Azure, "[".repeat(1_000), &[]),
        (CloudProvider::Azure, long, &[]),
        (CloudProvider::Google, format!(r#"{{{token},"expires_in":60}}"#), &[]),
        (CloudProvider::Google, "hunter2hunter2".to_owned(), FLAVOR),
        (CloudProvider::Google, "hunter2.hunter2.x".to_owned(), FLAVOR),
    ] {
        let refused = cloud.token_of(&answered(200, &body, headers), NOW).err().unwrap();
        assert_eq!(refused.kind, FailureKind::Unreachable, "{body}");
        assert!(!refused.message.contains("hunter2"), "{}", refused.message);
    }
}

#[test]
fn cloud_refusal_names_remedy_and_error_code_only() {
    for (cloud, status, kind) in [
        (CloudProvider::Azure, 400, FailureKind::InvalidRequest),
        (CloudProvider::Azure, 404, FailureKind::Unavailable),
        (CloudProvider::Azure, 410, FailureKind::Unavailable),
        (CloudProvider::Azure, 429, FailureKind::Unavailable),
        (CloudProvider::Azure, 500, FailureKind::Unavailable),
        (CloudProvider::Azure, 302, FailureKind::InvalidRequest),
        (CloudProvider::Google, 403, FailureKind::InvalidRequest),
        (CloudProvider::Google, 404, FailureKind::InvalidRequest),
        (CloudProvider::Google, 503, FailureKind::Unavailable),
    ] {
        let body = r#"{"error":"invalid_resource","error_description":"AADSTS500011: hunter2"}"#;
        let refused = cloud.token_of(&answered(status, body, FLAVOR), NOW).err().unwrap();
        assert_eq!(refused.kind, kind, "{cloud:?} {status}");
        assert!(!refused.message.contains("hunter2"), "{}", refused.message);
        assert_eq!(
            refused.message.contains("invalid_resource"),
            kind == FailureKind::InvalidRequest
        );
    }
    let answer = answered(400, r#"{"error":"<script>"}"#, &[]);
    assert!(!CloudProvider::Azure.token_of(&answer, NOW).err().unwrap().message.contains("script"));
}

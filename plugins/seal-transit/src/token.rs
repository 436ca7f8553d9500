//! The renewal of the seal's token.

use crate::refusal::TransitRequest;
use crate::server::{RequestBody, TransitServer};
use bulkhead_sdk::Failure;
use bulkhead_sdk::host::LogLevel;
use serde::Deserialize;

/// Shortest time between two renewals, in seconds: a token near its maximum lifetime gets less with
/// each renewal.
const MIN_RENEWAL_PAUSE: u64 = 5;

/// The answer of `lookup-self`.
#[derive(Deserialize)]
struct LookUpAnswer {
    data: TokenData,
}

#[derive(Deserialize)]
struct TokenData {
    /// Remaining seconds; 0 for a token without an end.
    ttl: u64,
    #[serde(default)]
    renewable: bool,
}

/// The answer of `renew-self`.
#[derive(Deserialize)]
struct RenewAnswer {
    auth: RenewedToken,
}

#[derive(Deserialize)]
struct RenewedToken {
    /// Granted seconds; 0 for a token without an end.
    lease_duration: u64,
}

/// Renews the token. Returns the seconds until the next renewal: two thirds of the granted
/// lifetime. `None`: the token has no end, or cannot be renewed, of which the log has a warning.
///
/// # Errors
/// The refusals of [`TransitServer::post`].
pub(crate) fn renew(server: &TransitServer<'_>) -> Result<Option<u64>, Failure> {
    let LookUpAnswer { data: token } = server.get(TransitRequest::LookUp)?;
    if token.ttl == 0 {
        return Ok(None);
    }
    if !token.renewable {
        let seconds = token.ttl.to_string();
        server.host.write(
            LogLevel::Warn,
            "seal-token-not-renewable",
            &[("ends-in-seconds", &seconds)],
        );
        return Ok(None);
    }
    let renewed: RenewAnswer = server.post(TransitRequest::Renew, &RequestBody::default())?;
    let granted = renewed.auth.lease_duration;
    let pause = granted / 3 * 2;
    Ok((granted > 0).then_some(pause.max(MIN_RENEWAL_PAUSE)))
}

#[cfg(test)]
mod tests {
    use crate::Transit;
    use crate::fixture::{TestHost, answer, settings};
    use bulkhead_sdk::FailureKind;
    use bulkhead_sdk::http::Response;
    use bulkhead_sdk::seal_plugin::SealPlugin;
    use serde_json::json;

    fn token(ttl: u64, renewable: bool) -> Response {
        answer(200, &json!({ "data": { "ttl": ttl, "renewable": renewable, "period": 0 } }))
    }

    fn renewed(seconds: u64) -> Response {
        answer(200, &json!({ "auth": { "lease_duration": seconds, "renewable": true } }))
    }

    #[test]
    fn next_renewal_is_before_end_of_token() {
        for (granted, pause) in [(3_600, Some(2_400)), (2, Some(5)), (0, None)] {
            let host = TestHost::answering([token(1_800, true), renewed(granted)]);
            assert_eq!(Transit::renew_credentials(&host, &settings(&[])), Ok(pause));
            let sent = host.take_requests();
            let sent: Vec<_> =
                sent.iter().map(|sent| (&*sent.method, sent.safe, &*sent.url)).collect();
            let url = "https://vault.example.com:8200/v1/auth/token";
            let (look_up, renewal) = (format!("{url}/lookup-self"), format!("{url}/renew-self"));
            assert_eq!(sent, [("GET", false, &*look_up), ("POST", true, &*renewal)]);
        }
    }

    #[test]
    fn token_without_renewal_warns_operator() {
        let host = TestHost::answering([token(0, false)]);
        assert_eq!(Transit::renew_credentials(&host, &settings(&[])), Ok(None));
        assert!(host.take_lines().is_empty(), "a token without an end needs no renewal");
        let host = TestHost::answering([token(600, false)]);
        assert_eq!(Transit::renew_credentials(&host, &settings(&[])), Ok(None));
        assert_eq!(host.take_lines(), ["seal-token-not-renewable ends-in-seconds=600"]);
        assert_eq!(host.take_requests().len(), 1);
    }

    #[test]
    fn refused_renewal_names_setting_and_policy() {
        let refused = answer(403, &json!({ "errors": ["permission denied"] }));
        for answers in [vec![refused.clone()], vec![token(600, true), refused]] {
            let host = TestHost::answering(answers);
            let why = Transit::renew_credentials(&host, &settings(&[])).unwrap_err();
            assert_eq!(why.kind, FailureKind::PermissionDenied);
            assert!(why.message.contains("disable_renewal"), "{why}");
        }
    }
}

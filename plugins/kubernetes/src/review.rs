//! The review of a token by the API server: the question, and the interpretation of the answer.
//!
//! The attacks this file prevents: an answer about another account than the token states, and a
//! token for another audience. An answer counts if user name, uid and audience are exactly the
//! expected ones; nothing of the answer is repeated to the caller.

use crate::api_server::{ApiServer, ReviewerIdentity};
use crate::token::{AccountToken, ServiceAccount};
use bulkhead_sdk::host::LogLevel;
use bulkhead_sdk::http::Response;
use bulkhead_sdk::{Failure, FailureKind, Host};
use serde::Deserialize;
use serde_json::json;

const PATH: &str = "/apis/authentication.k8s.io/v1/tokenreviews";

/// Maximum length of the API server's words in the log, in characters.
const LONGEST_MESSAGE: usize = 500;

/// An account that the API server confirmed. Only [`review`] makes one.
pub(crate) struct ReviewedAccount {
    account: ServiceAccount,
}

impl ReviewedAccount {
    /// Returns the confirmed account.
    pub(crate) fn account(&self) -> &ServiceAccount {
        &self.account
    }
}

/// The answer to a review. All other members are ignored.
#[derive(Deserialize)]
struct TokenReview {
    kind: String,
    status: ReviewStatus,
}

#[derive(Deserialize)]
struct ReviewStatus {
    #[serde(default)]
    authenticated: bool,
    error: Option<String>,
    user: Option<ReviewedUser>,
    audiences: Option<Vec<String>>,
}

#[derive(Default, Deserialize)]
struct ReviewedUser {
    #[serde(default)]
    username: String,
    #[serde(default)]
    uid: String,
}

/// Asks the API server about the token, for `audience` unless empty.
///
/// # Errors
/// Permission denied if the API server refuses the token or the reviewer, or answers about another
/// account or audience; unreachable for any other answer.
pub(crate) fn review(
    host: &dyn Host,
    server: &ApiServer,
    token: &AccountToken<'_>,
    audience: &str,
) -> Result<ReviewedAccount, Failure> {
    let spec = match audience {
        "" => json!({ "token": token.text }),
        audience => json!({ "token": token.text, "audiences": [audience] }),
    };
    let body =
        json!({ "apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": spec });
    let request = server.request(PATH, token).json(&body)?;
    let answer = host.http().send(&request).map_err(|why| unsent("review the token", why))?;
    let reviewed: TokenReview = match answer.status {
        200..=299 => serde_json::from_slice(&answer.body).map_err(|_| nonsense())?,
        _ => return Err(refused(host, &answer, &server.reviewer)),
    };
    if reviewed.kind != "TokenReview" {
        return Err(nonsense());
    }
    reviewed.status.confirm(host, &token.claims.account, audience)
}

impl ReviewStatus {
    /// Compares the answer with the stated account and the asked audience.
    fn confirm(
        self,
        host: &dyn Host,
        stated: &ServiceAccount,
        audience: &str,
    ) -> Result<ReviewedAccount, Failure> {
        let error = self.error.unwrap_or_default();
        if !self.authenticated || !error.is_empty() {
            log(host, "token-refused", &error);
            return Err(Failure::denied("the API server does not accept the token"));
        }
        let user = self.user.unwrap_or_default();
        if user.username != stated.username() || user.uid != stated.uid {
            return Err(Failure::denied(
                "the API server answered about another account than the token names",
            ));
        }
        let audiences = self.audiences.unwrap_or_default();
        if !audience.is_empty() && !audiences.iter().any(|other| other == audience) {
            return Err(Failure::denied(
                "the API server did not confirm the role's audience for the token",
            ));
        }
        Ok(ReviewedAccount { account: stated.clone() })
    }
}

/// Returns the failure for an answer that is not a review.
fn refused(host: &dyn Host, answer: &Response, reviewer: &ReviewerIdentity) -> Failure {
    if !matches!(answer.status, 401 | 403) {
        return no_review(host, answer);
    }
    log(host, "review-refused", &message(answer));
    Failure::denied(match reviewer {
        ReviewerIdentity::Given(_) => {
            "the API server does not let token_reviewer_jwt review tokens: write the token anew, \
             and bind the token's account to system:auth-delegator"
        }
        ReviewerIdentity::Pod => {
            "the API server does not let the server's pod review tokens: bind the pod's account to \
             system:auth-delegator"
        }
        ReviewerIdentity::Login => {
            "the API server does not let the token review itself: bind the token's account to \
             system:auth-delegator, or configure token_reviewer_jwt"
        }
    })
}

/// Returns the failure for an answer with an unexpected status.
pub(crate) fn no_review(host: &dyn Host, answer: &Response) -> Failure {
    let status = answer.status;
    log(host, "review-refused", &message(answer));
    let seconds = answer.header("retry-after").and_then(|after| after.parse::<u64>().ok());
    let retry_after = seconds.map(|seconds| seconds.saturating_mul(1_000));
    match status {
        429 => {
            let message = "the API server answered 429: too many requests";
            Failure { retry_after, ..Failure::new(FailureKind::RateLimited, message) }
        }
        408 | 500..=599 => {
            let message = format!("the API server answered {status}");
            Failure { retry_after, ..Failure::new(FailureKind::Unreachable, message) }
        }
        400..=499 => Failure::invalid(format!(
            "the API server answered {status} to a review; check kubernetes_host"
        )),
        _ => nonsense(),
    }
}

/// Converts a failure of `tried` without an answer. The host does not know the field for the root
/// certificates, so its message is reworded.
pub(crate) fn unsent(tried: &str, why: Failure) -> Failure {
    if why.kind == FailureKind::TooLarge {
        return nonsense();
    }
    let message = why.message.replace("tls.root-certificates", "kubernetes_ca_cert");
    let message = message.replace("root-certificates", "kubernetes_ca_cert");
    Failure { message: format!("failed to {tried}: {message}"), ..why }
}

/// Returns the message of a `Status`; empty for any other body.
pub(crate) fn message(answer: &Response) -> String {
    #[derive(Deserialize)]
    struct StatusMessage {
        message: String,
    }
    serde_json::from_slice(&answer.body)
        .map_or_else(|_| String::new(), |said: StatusMessage| said.message)
}

/// Writes the API server's words to the log, for the operator alone.
pub(crate) fn log(host: &dyn Host, event: &str, said: &str) {
    let on_one_line = |letter: char| if letter.is_control() { ' ' } else { letter };
    let said: String = said.chars().take(LONGEST_MESSAGE).map(on_one_line).collect();
    host.log().write(LogLevel::Info, event, &[("cause", &said)]);
}

pub(crate) fn nonsense() -> Failure {
    Failure::new(FailureKind::Unreachable, "the answer is not in the format of an API server")
}

#[cfg(test)]
mod tests;

//! The API server that reviews tokens, and the identity of the question.
//!
//! The attack this file prevents: the token of the own pod at a server of somebody's choice. The
//! host sends this token to the cluster of its environment alone (decision E1).

use crate::config::ReviewConfig;
use crate::token::AccountToken;
use bulkhead_sdk::http::{HttpTls, Request};
use bulkhead_sdk::kubernetes::{own_url, read_url};
use bulkhead_sdk::{Failure, FailureKind, Host};

/// URLs by which every pod knows its own cluster.
const OWN_NAMES: [&str; 3] = [
    "https://kubernetes.default:443",
    "https://kubernetes.default.svc:443",
    "https://kubernetes.default.svc.cluster.local:443",
];

/// The identity that asks the API server about a token. No `Debug`: may hold a token.
#[derive(Clone, PartialEq)]
pub(crate) enum ReviewerIdentity {
    /// The configured token.
    Given(String),
    /// The own pod, whose token only the host knows.
    Pod,
    /// The login itself, by its own token.
    Login,
}

/// An API server, with the identity of the question.
pub(crate) struct ApiServer {
    url: String,
    root_certificates: Option<String>,
    /// The server belongs to the own pod's cluster, whose certificates are used by default.
    is_local: bool,
    pub(crate) reviewer: ReviewerIdentity,
}

impl ApiServer {
    /// Returns the server of `config`.
    ///
    /// # Errors
    /// Those of the host about its pod; a missing pod or grant only means another reviewer.
    pub(crate) fn of(host: &dyn Host, config: &ReviewConfig) -> Result<Self, Failure> {
        let written = read_url("kubernetes_host", &config.kubernetes_host)?;
        let own = match config.disable_local_ca_jwt {
            true => None,
            false => own_cluster(host)?,
        };
        let own = own.filter(|own| *own == written || OWN_NAMES.contains(&written.as_str()));
        let is_local = own.is_some();
        let reviewer = match (config.token_reviewer_jwt.as_str(), is_local) {
            ("", true) => ReviewerIdentity::Pod,
            ("", false) => ReviewerIdentity::Login,
            (token, _) => ReviewerIdentity::Given(token.to_owned()),
        };
        let ca = &config.kubernetes_ca_cert;
        let root_certificates = (!ca.is_empty()).then(|| ca.clone());
        Ok(Self { url: own.unwrap_or(written), root_certificates, is_local, reviewer })
    }

    /// Returns a request that posts to `path` below the URL and changes nothing there.
    pub(crate) fn request(&self, path: &str, token: &AccountToken<'_>) -> Request {
        self.identified(Request::safe_post(&format!("{}{path}", self.url)), token)
    }

    /// Returns a request that reads `path` below the URL.
    pub(crate) fn read(&self, path: &str, token: &AccountToken<'_>) -> Request {
        self.identified(Request::get(&format!("{}{path}", self.url)), token)
    }

    /// Adds the reviewer's identity and the server's authorities.
    fn identified(&self, request: Request, token: &AccountToken<'_>) -> Request {
        let mut request = request.header("accept", "application/json");
        request = match &self.reviewer {
            ReviewerIdentity::Given(reviewer) => request.bearer(reviewer).secret(token.text),
            ReviewerIdentity::Pod => request.secret(token.text),
            ReviewerIdentity::Login => request.bearer(token.text),
        };
        if let Some(ca) = &self.root_certificates {
            let root_certificates = Some(ca.clone());
            request = request.tls(HttpTls { root_certificates, ..HttpTls::default() });
        }
        if self.is_local { request.as_pod() } else { request }
    }
}

/// Returns the own pod's cluster; `None` without a pod, or without the grant for its identity.
fn own_cluster(host: &dyn Host) -> Result<Option<String>, Failure> {
    match own_url(host) {
        Err(why)
            if matches!(
                why.kind,
                FailureKind::PermissionDenied | FailureKind::PreconditionFailed
            ) =>
        {
            Ok(None)
        }
        url => url,
    }
}

#[cfg(test)]
mod tests;

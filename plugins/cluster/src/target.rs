//! Location of the API server, and the identity used for requests.
//!
//! The attack this file prevents: a configuration that points the engine's token at another server.

use bulkhead_sdk::http::{HttpTls, Request};
use bulkhead_sdk::kubernetes::{own_url, read_url};
use bulkhead_sdk::{Failure, FailureKind, Host, stored};
use serde::{Deserialize, Serialize};

/// The configured API server. No `Debug`: the configuration contains a token.
#[derive(Clone, Default, Serialize, Deserialize)]
pub(crate) struct Config {
    /// URL as written; empty for the own pod's API server.
    pub(crate) cluster_host: String,
    pub(crate) cluster_ca_cert: String,
    pub(crate) service_account_jwt: String,
    pub(crate) disable_local_ca_jwt: bool,
}

stored!(Config, "config", reads_stored_configurations);

/// An API server with credentials, ready for requests. No `Debug`: the target contains a token.
#[derive(Clone)]
pub(crate) struct ApiServerTarget {
    /// Normalised URL.
    pub(crate) url: String,
    root_certificates: Option<String>,
    /// `None` for the own pod's token, which only the host knows.
    token: Option<String>,
    /// The server belongs to the own pod's cluster, and the pod's credentials may be used.
    is_local: bool,
}

impl ApiServerTarget {
    /// Returns the server named by `config`, or else the own pod's server. The pod's credentials
    /// are used only for the pod's own cluster (decision E1).
    ///
    /// # Errors
    /// The missing part of the configuration.
    pub(crate) fn of(host: &dyn Host, config: &Config) -> Result<Self, Failure> {
        let own = match own_url(host) {
            // If the configuration names a server, the pod may be unknown, or not granted to this
            // mount.
            Err(why) if !config.cluster_host.is_empty() && is_of_no_pod(&why) => None,
            url => url?,
        };
        let url = match (config.cluster_host.as_str(), &own) {
            ("", Some(own)) => own.clone(),
            ("", None) => {
                return Err(Failure::invalid(
                    "cluster_host was unset and could not be determined from the environment; set \
                     cluster_host to the URL of the API server",
                ));
            }
            (text, _) => read_url("cluster_host", text)?,
        };
        let is_local = !config.disable_local_ca_jwt && own.as_ref() == Some(&url);
        let token = &config.service_account_jwt;
        if token.is_empty() && !is_local {
            return Err(Failure::invalid(
                "service_account_jwt is not set, and there is no token of a pod for this server: \
                 set service_account_jwt to a token of the engine's service account",
            ));
        }
        let set = |text: &String| (!text.is_empty()).then(|| text.clone());
        let root_certificates = set(&config.cluster_ca_cert);
        Ok(Self { url, root_certificates, token: set(token), is_local })
    }

    /// Returns a request for `path` below the URL, with credentials.
    pub(crate) fn request(&self, method: &str, path: &str) -> Request {
        let url = format!("{}{path}", self.url);
        let mut request = Request::new(method, &url).header("accept", "application/json");
        if let Some(token) = &self.token {
            request = request.bearer(token);
        }
        if let Some(ca) = &self.root_certificates {
            let root_certificates = Some(ca.clone());
            request = request.tls(HttpTls { root_certificates, ..HttpTls::default() });
        }
        if self.is_local { request.as_pod() } else { request }
    }
}

fn is_of_no_pod(why: &Failure) -> bool {
    matches!(why.kind, FailureKind::PermissionDenied | FailureKind::PreconditionFailed)
}

//! Location of the API server, and the identity used for requests.
//!
//! The attack this file prevents: a configuration that points the engine's token at another server.
//! A URL is normalised before any use, and compared only with normalised URLs.

use bulkhead_sdk::http::{HttpTls, Request};
use bulkhead_sdk::wire::failure::quoted;
use bulkhead_sdk::{Failure, FailureKind, Host, stored};
use serde::{Deserialize, Serialize};

/// Maximum length of a URL, in bytes: the URL is also the lane of the leases.
const LONGEST_URL: usize = 256;

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
            known => known?,
        };
        let url = match (config.cluster_host.as_str(), &own) {
            ("", Some(own)) => own.clone(),
            ("", None) => {
                return Err(Failure::invalid(
                    "cluster_host was unset and could not be determined from the environment; set \
                     it to the URL of the API server",
                ));
            }
            (text, _) => read_url(text)?,
        };
        let is_local = !config.disable_local_ca_jwt && own.as_ref() == Some(&url);
        let token = &config.service_account_jwt;
        if token.is_empty() && !is_local {
            return Err(Failure::invalid(
                "service_account_jwt is not set, and there is no token of a pod for that server: \
                 set it to a token of the service account that the engine is to use",
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

/// Returns the API server of the own pod, if any.
pub(crate) fn own_url(host: &dyn Host) -> Result<Option<String>, Failure> {
    host.ambient().pod()?.map(|pod| read_url(&pod.url())).transpose()
}

/// Normalises a server's URL: `https://host:port/path`, in lower case up to the path.
///
/// # Errors
/// The reason `text` is invalid.
pub(crate) fn read_url(text: &str) -> Result<String, Failure> {
    let unfit = |why: &str| Failure::invalid(format!("cluster_host: {} {why}", quoted(text)));
    if text.len() > LONGEST_URL {
        return Err(unfit("is longer than 256 bytes"));
    }
    let scheme = text.get(..8).unwrap_or_default();
    let rest = match scheme.eq_ignore_ascii_case("https://") {
        true => text.get(8..).unwrap_or_default(),
        false => return Err(unfit("does not begin with https://")),
    };
    let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
    let path = path.trim_end_matches('/');
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~/".contains(&byte);
    if !path.bytes().all(is_plain)
        || path.split('/').skip(1).any(|part| matches!(part, "" | "." | ".."))
    {
        return Err(unfit("has a path that is not names joined by slashes"));
    }
    let authority = authority.to_ascii_lowercase();
    let (host, port) = split_port(&authority).ok_or_else(|| unfit("has no host, or a bad port"))?;
    Ok(format!("https://{host}:{port}{path}"))
}

/// Splits an authority into host and port; an IPv6 address keeps its brackets.
fn split_port(authority: &str) -> Option<(&str, u16)> {
    let end_of_host = match authority.strip_prefix('[') {
        Some(rest) => rest.find(']')?.checked_add(2)?,
        None => authority.find(':').unwrap_or(authority.len()),
    };
    let (host, port) = authority.split_at_checked(end_of_host)?;
    let is_address = host
        .strip_prefix('[')
        .and_then(|rest| rest.strip_suffix(']'))
        .is_some_and(|address| address.parse::<std::net::Ipv6Addr>().is_ok());
    let is_name = !host.is_empty()
        && !host.starts_with('.')
        && host.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-._".contains(&byte));
    if !is_address && !is_name {
        return None;
    }
    let port = match port.strip_prefix(':') {
        Some(digits) if digits.bytes().all(|byte| byte.is_ascii_digit()) => digits.parse().ok()?,
        Some(_) => return None,
        None if port.is_empty() => 443,
        None => return None,
    };
    (port > 0).then_some((host, port))
}

#[cfg(test)]
mod tests {
    use super::read_url;

    #[test]
    fn a_url_has_one_spelling() {
        for (text, expected) in [
            ("https://api.example:6443", "https://api.example:6443"),
            ("HTTPS://API.example:6443/", "https://api.example:6443"),
            ("https://api.example:443", "https://api.example:443"),
            ("https://api.example", "https://api.example:443"),
            ("https://10.0.0.1:0443", "https://10.0.0.1:443"),
            ("https://[FD00::1]:6443", "https://[fd00::1]:6443"),
            ("https://[fd00::1]", "https://[fd00::1]:443"),
            (
                "https://rancher.example/k8s/clusters/c-M1/",
                "https://rancher.example:443/k8s/clusters/c-M1",
            ),
        ] {
            assert_eq!(read_url(text).unwrap(), expected, "{text}");
        }
    }

    #[test]
    fn what_is_no_url_of_a_server_is_refused() {
        let long = format!("https://{}.example", "a".repeat(300));
        for text in [
            "host",
            "http://api.example",
            "https://",
            "https:///x",
            "https://user@api.example",
            "https://user:pass@api.example",
            "https://api.example?x=1",
            "https://api.example#x",
            "https://api.example/../x",
            "https://api.example/a//b",
            "https://api.example/%2e",
            "https://api.example:0",
            "https://api.example:99999",
            "https://api.example:+1",
            "https://api.example:",
            "https://[fd00::1",
            "https://[x]",
            "https://fd00::1",
            "https://a b",
            "https://a\nb",
            "ldap://api.example",
            "https://api.example\\x",
            &long,
        ] {
            assert!(read_url(text).is_err(), "{text} was read");
        }
    }
}

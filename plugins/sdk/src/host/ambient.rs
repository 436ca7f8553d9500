//! The server's environment: its variables, its pod, its machine in a cloud.

use crate::database_plugin::StoreTime;
use bulkhead_wire::failure::Failure;
use std::fmt;

/// The server's environment. A plugin lists the values that it needs in
/// [`ASKS`](crate::MountedPlugin::ASKS): `ambient:env/NAME`, `ambient:cloud-token`,
/// `ambient:pod-identity`. Every method fails with permission denied if the grant is missing: pass
/// the failure on, its message names the grant.
pub trait Ambient {
    /// Returns a variable of the server's environment; `None` if the variable is unset or empty.
    ///
    /// # Errors
    /// Permission denied, always for the server's own variables; precondition failed for a value
    /// that is not text or longer than 32 KiB.
    fn environment(&self, name: &str) -> Result<Option<String>, Failure>;

    /// Returns a token of the machine's own identity for `audience`, from the cloud `azure` or
    /// `google`. With `azure`, the token is an access token for that resource. With `google`, the
    /// token is an identity token, or an access token if `audience` is a scope
    /// (`https://www.googleapis.com/auth/…`) or several scopes separated by commas. The host caches
    /// the token until shortly before its end: call again for each use.
    ///
    /// # Errors
    /// Permission denied; invalid request for another cloud, for an audience outside 1 to 1,024
    /// bytes of printable text, or if the cloud refuses; unreachable if there is no such cloud;
    /// timed out; unavailable if the cloud asks for a later retry; precondition failed if the
    /// server's environment belongs to a cloud service that Bulkhead does not support.
    fn cloud_token(&self, cloud: &str, audience: &str) -> Result<MachineToken, Failure>;

    /// Returns the cluster of the server's pod; `None` outside of a cluster. To send requests with
    /// the pod's identity, use [`Request::as_pod`](crate::http::Request::as_pod).
    ///
    /// # Errors
    /// Permission denied; precondition failed if the environment names no host or no port.
    fn pod(&self) -> Result<Option<Pod>, Failure>;
}

/// A token of the machine in its cloud, to be treated as a secret.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct MachineToken {
    /// The token.
    pub token: String,
    /// End of the token: at least some minutes from now, unless the cloud issues tokens of a
    /// shorter lifetime.
    pub expires: StoreTime,
}

impl fmt::Debug for MachineToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "MachineToken(hidden, until {})", self.expires)
    }
}

/// The cluster of the server's pod.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pod {
    /// DNS name or address of the cluster's API; an IPv6 address has no brackets.
    pub host: String,
    /// TCP port of the cluster's API.
    pub port: u16,
    /// The pod's own namespace, if the pod's files contain it.
    pub namespace: Option<String>,
}

impl Pod {
    /// Returns the base URL of the cluster's API, such as `https://10.96.0.1:443`. The pod's token
    /// is sent to no other origin.
    #[must_use]
    pub fn url(&self) -> String {
        match self.host.contains(':') {
            true => format!("https://[{}]:{}", self.host, self.port),
            false => format!("https://{}:{}", self.host, self.port),
        }
    }
}

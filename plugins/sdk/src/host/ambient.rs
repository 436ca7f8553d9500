//! What the server has from its surroundings: its environment, its pod, its machine in a cloud.

use crate::database_plugin::StoreTime;
use bulkhead_wire::failure::Failure;
use std::fmt;

/// What the server has from its surroundings. A plugin names what it wants in
/// [`ASKS`](crate::SecretsEngine::ASKS): `ambient:env/NAME`, `ambient:cloud-token`,
/// `ambient:pod-identity`. All fail with permission denied where it is not granted: pass that on,
/// it names the grant.
pub trait Ambient {
    /// One value of the server's environment; `None` where it is not set or empty.
    ///
    /// # Errors
    /// Permission denied, always for the server's own names; precondition failed for a value that
    /// is no text or longer than 32 KiB.
    fn environment(&self, name: &str) -> Result<Option<String>, Failure>;

    /// A token of the machine's own identity for `audience`, of the cloud `azure` or `google`. Of
    /// `azure` it is an access token for that resource; of `google` an identity token, or an access
    /// token where `audience` is a scope (`https://www.googleapis.com/auth/…`) or several with
    /// commas between them. The host keeps it until shortly before its end: ask again each time.
    ///
    /// # Errors
    /// Permission denied; invalid request for another cloud, an audience outside 1 to 1,024 bytes
    /// of printable text, and where the cloud refuses; unreachable where there is no such cloud;
    /// timed out; unavailable where the cloud asks to try again; precondition failed where the
    /// server's environment is that of a service which is not served.
    fn cloud_token(&self, cloud: &str, audience: &str) -> Result<MachineToken, Failure>;

    /// The cluster in which the server is a pod; `None` outside of one. Requests in the pod's name
    /// are [`Request::as_pod`](crate::http::Request::as_pod).
    ///
    /// # Errors
    /// Permission denied; precondition failed where the environment names no host or no port.
    fn pod(&self) -> Result<Option<Pod>, Failure>;
}

/// A token of the machine in its cloud. It is a secret.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct MachineToken {
    /// The token.
    pub token: String,
    /// When it ends: some minutes from now at least, unless the cloud's own are shorter.
    pub expires: StoreTime,
}

impl fmt::Debug for MachineToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "MachineToken(hidden, until {})", self.expires)
    }
}

/// The cluster in which the server is a pod.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pod {
    /// A name or an address, an IPv6 one without brackets.
    pub host: String,
    /// Its port.
    pub port: u16,
    /// The pod's own namespace, where its files say it.
    pub namespace: Option<String>,
}

impl Pod {
    /// Where the cluster's API begins: `https://10.96.0.1:443`. The pod's token goes to no other
    /// place.
    #[must_use]
    pub fn url(&self) -> String {
        match self.host.contains(':') {
            true => format!("https://[{}]:{}", self.host, self.port),
            false => format!("https://{}:{}", self.host, self.port),
        }
    }
}

//! Surroundings of this machine: its environment, the files of its pod, and the metadata service of
//! its cloud.
//!
//! The operator configures their locations; a component cannot. This file prevents a component from
//! reading the server's own secrets by their names. This file also prevents a component from
//! reaching a metadata service itself, because the service answers more than tokens. This file also
//! prevents a token of the machine from reaching an unrelated server.

mod cloud;
mod cloud_tokens;
mod pod;

pub use cloud::is_near;
pub use cloud::{CloudProvider, ExpiringToken, MetadataRequest};
pub use cloud_tokens::CloudTokens;
pub use pod::address_of;

use crate::limits;
use bulkhead_wire::failure::{Failure, FailureKind, quoted};
use std::ffi::OsString;
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;

/// Folder of the service account's files in a pod.
const POD_FOLDER: &str = "/var/run/secrets/kubernetes.io/serviceaccount";
/// Address of the metadata service in both clouds.
const METADATA: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::new(169, 254, 169, 254)), 80);

/// Lookup of environment values by name, as the process sees them.
pub type EnvironmentLookup = Arc<dyn Fn(&str) -> Option<OsString> + Send + Sync>;

/// Locations of this machine's surroundings. Cheap to clone.
#[derive(Clone)]
pub struct AmbientSources {
    /// The process's own environment, except in tests.
    pub environment: EnvironmentLookup,
    /// Folder of the files `token`, `ca.crt` and `namespace`.
    pub pod_folder: PathBuf,
    /// Azure's instance metadata service.
    pub azure_metadata: SocketAddr,
    /// Google's metadata server.
    pub google_metadata: SocketAddr,
    /// Client id of the machine's identity in Azure; empty: the machine's only identity.
    pub azure_client_id: String,
}

impl Default for AmbientSources {
    /// Returns the surroundings of this process, at their usual locations.
    fn default() -> Self {
        Self {
            environment: Arc::new(|name| std::env::var_os(name)),
            pod_folder: PathBuf::from(POD_FOLDER),
            azure_metadata: METADATA,
            google_metadata: METADATA,
            azure_client_id: String::new(),
        }
    }
}

impl fmt::Debug for AmbientSources {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Surroundings")
            .field("pod_folder", &self.pod_folder)
            .field("azure_metadata", &self.azure_metadata)
            .field("google_metadata", &self.google_metadata)
            .field("azure_client_id", &self.azure_client_id)
            .finish_non_exhaustive()
    }
}

impl AmbientSources {
    /// Returns a value of the environment; `None` if the value is not set or empty.
    ///
    /// # Errors
    /// `precondition-failed` for a value that is not text or too long. The message does not quote
    /// the value.
    pub fn value(&self, name: &str) -> Result<Option<String>, Failure> {
        let Some(value) = (self.environment)(name).filter(|value| !value.is_empty()) else {
            return Ok(None);
        };
        let wrong = |fault: &str| {
            let message = format!("the value {} of the server's environment {fault}", quoted(name));
            Failure::new(FailureKind::PreconditionFailed, message)
        };
        if value.len() > limits::ENVIRONMENT_BYTES {
            return Err(wrong("has more than 32 KiB"));
        }
        value.into_string().map(Some).map_err(|_| wrong("is not text"))
    }
}

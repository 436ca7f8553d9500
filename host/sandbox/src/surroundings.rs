//! What this machine has from its surroundings: its environment, the files of its pod, and the
//! metadata service of its cloud.
//!
//! Where they are is the operator's to say, and a component can say none of it. The attacks this
//! folder stops: a component that reads the server's own secrets by their names; one that reaches a
//! metadata service itself, which answers more than tokens; and a machine's token at a server that
//! nothing of it is for.

mod cloud;
mod cloud_tokens;
mod pod;

pub use cloud::is_near;
pub(crate) use cloud::{Cloud, Given, Question};
pub(crate) use cloud_tokens::CloudTokens;
pub(crate) use pod::address_of;

use crate::limits;
use bulkhead_wire::failure::{Failure, Kind, quoted};
use std::ffi::OsString;
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;

/// Where a pod has the files of its service account.
const POD_FOLDER: &str = "/var/run/secrets/kubernetes.io/serviceaccount";
/// Where both clouds tell a machine who it is.
const METADATA: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::new(169, 254, 169, 254)), 80);

/// Values by their names, as the process has them.
pub type Environment = Arc<dyn Fn(&str) -> Option<OsString> + Send + Sync>;

/// Where this machine's surroundings are. Cheap to clone.
#[derive(Clone)]
pub struct Surroundings {
    /// The process's own unless a test brings another.
    pub environment: Environment,
    /// `token`, `ca.crt` and `namespace` lie here.
    pub pod_folder: PathBuf,
    /// Azure's instance metadata service.
    pub azure_metadata: SocketAddr,
    /// Google's metadata server.
    pub google_metadata: SocketAddr,
    /// Which of the machine's identities is meant in Azure; empty: the one that it has.
    pub azure_client_id: String,
}

impl Default for Surroundings {
    /// Those of this process, where they always are.
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

impl fmt::Debug for Surroundings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Surroundings")
            .field("pod_folder", &self.pod_folder)
            .field("azure_metadata", &self.azure_metadata)
            .field("google_metadata", &self.google_metadata)
            .field("azure_client_id", &self.azure_client_id)
            .finish_non_exhaustive()
    }
}

impl Surroundings {
    /// A value of the environment; none where it is not set or empty.
    ///
    /// # Errors
    /// `precondition-failed` for one that is no text or too long. Its value is not quoted.
    pub(crate) fn value(&self, name: &str) -> Result<Option<String>, Failure> {
        let Some(value) = (self.environment)(name).filter(|value| !value.is_empty()) else {
            return Ok(None);
        };
        let wrong = |what: &str| {
            let message = format!("the value {} of the server's environment {what}", quoted(name));
            Failure::new(Kind::PreconditionFailed, message)
        };
        if value.len() > limits::ENVIRONMENT_BYTES {
            return Err(wrong("has more than 32 KiB"));
        }
        value.into_string().map(Some).map_err(|_| wrong("is no text"))
    }
}

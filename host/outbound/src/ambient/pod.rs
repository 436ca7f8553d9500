//! The pod of this server: the address of its cluster, and the contents of its files.
//!
//! This file prevents the pod's token from reaching any server but the cluster that the environment
//! names (decision E1). Every request with the pod's identity is compared with that cluster, and
//! neither the token nor the files reach a component.

use super::AmbientSources;
use crate::addresses::{Origin, ServerHost};
use crate::limits;
use bulkhead_wire::failure::{Failure, FailureKind, quoted};
use tokio::fs::File;
use tokio::io::AsyncReadExt as _;

/// Prefixes of `_SERVICE_HOST` in a pod's environment.
const PREFIXES: [&str; 2] = ["KUBERNETES", "CLUSTER"];

/// The address of the cluster where this server is a pod.
#[derive(Debug)]
pub struct PodCluster {
    pub cluster: Origin,
}

impl PodCluster {
    /// Refuses an origin that is not exactly the cluster's.
    ///
    /// # Errors
    /// `invalid-request`, with the cluster's origin.
    pub fn check(&self, origin: &Origin) -> Result<(), Failure> {
        if *origin == self.cluster {
            return Ok(());
        }
        Err(Failure::invalid(format!(
            "in the pod's name only {} is asked, the cluster of the server's environment",
            self.cluster
        )))
    }
}

impl AmbientSources {
    /// Returns the pod of this server; `None` outside a cluster.
    ///
    /// # Errors
    /// `precondition-failed` if the environment names a cluster that cannot be dialled.
    pub fn pod(&self) -> Result<Option<PodCluster>, Failure> {
        for prefix in PREFIXES {
            if let Some(host) = self.value(&format!("{prefix}_SERVICE_HOST"))? {
                return self.pod_of(prefix, &host).map(Some);
            }
        }
        Ok(None)
    }

    fn pod_of(&self, prefix: &str, host: &str) -> Result<PodCluster, Failure> {
        let wrong = |what: String| Failure::new(FailureKind::PreconditionFailed, what);
        let host = ServerHost::parse(host).ok_or_else(|| {
            wrong(format!("{prefix}_SERVICE_HOST of the server's environment is not a host"))
        })?;
        let names = [format!("{prefix}_SERVICE_PORT_HTTPS"), format!("{prefix}_SERVICE_PORT")];
        for name in &names {
            if let Some(port) = self.value(name)? {
                let port = port.parse().ok().filter(|port| *port > 0).ok_or_else(|| {
                    wrong(format!("{} ({name} of the environment) is not a port", quoted(&port)))
                })?;
                return Ok(PodCluster { cluster: Origin { tls: true, host, port } });
            }
        }
        Err(wrong(format!(
            "the server's environment has no {}, and so no port",
            names.join(" or ")
        )))
    }

    /// Returns the current token of the pod's service account: the file is rewritten every hour.
    ///
    /// # Errors
    /// `precondition-failed` if the file has no token.
    pub async fn pod_token(&self) -> Result<String, Failure> {
        let token = self.pod_file("token").await?.trim().to_owned();
        let is_token = !token.is_empty() && token.bytes().all(|byte| byte.is_ascii_graphic());
        is_token.then_some(token).ok_or_else(|| missing_value_failure("token", "it holds no token"))
    }

    /// Returns the current authority of the pod's cluster, in PEM.
    ///
    /// # Errors
    /// The errors of [`pod_token`](Self::pod_token).
    pub async fn pod_authority(&self) -> Result<String, Failure> {
        self.pod_file("ca.crt").await
    }

    /// Returns the pod's own namespace, if the file contains it.
    pub async fn pod_namespace(&self) -> Option<String> {
        let namespace = self.pod_file("namespace").await.ok()?.trim().to_owned();
        Some(namespace).filter(|namespace| !namespace.is_empty())
    }

    /// Reads a file of the pod, at each use: the cluster replaces all files at once by pointing
    /// their folder to another target.
    async fn pod_file(&self, name: &str) -> Result<String, Failure> {
        let path = self.pod_folder.join(name);
        let io = |error: std::io::Error| missing_value_failure(name, &error.kind().to_string());
        let is_file = tokio::fs::metadata(&path).await.map_err(io)?.is_file();
        if !is_file {
            return Err(missing_value_failure(name, "it is not a file"));
        }
        let (mut text, most) = (Vec::new(), limits::PEM_BYTES);
        let file = File::open(&path).await.map_err(io)?;
        let read = file.take(most as u64 + 1).read_to_end(&mut text).await.map_err(io)?;
        if read > most {
            return Err(missing_value_failure(name, "the file has more than 64 KiB"));
        }
        String::from_utf8(text).map_err(|_| missing_value_failure(name, "it is not text"))
    }
}

/// Formats a host as the contract does: an IPv6 address has no brackets.
pub fn address_of(host: &ServerHost) -> String {
    match host {
        ServerHost::Name(name) => name.clone(),
        ServerHost::Address(address) => address.to_string(),
    }
}

fn missing_value_failure(name: &str, why: &str) -> Failure {
    let message = format!("the pod's file {name} cannot be used: {why}");
    Failure::new(FailureKind::PreconditionFailed, message)
}

#[cfg(test)]
mod tests;

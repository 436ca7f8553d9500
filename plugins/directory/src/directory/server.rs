//! What kind of server it is, as its own entry tells. It is asked once an hour.

use bulkhead_sdk::Host;
use bulkhead_sdk::ldap::{Entry, Fault, Search};
use serde::{Deserialize, Serialize};

/// Seconds for which an answer is believed.
const KEPT: u32 = 3_600;
/// A capability that Active Directory has, and Samba as a domain controller.
const ACTIVE_DIRECTORY: &str = "1.2.840.113556.1.4.800";
/// The operation that changes a password (RFC 3062).
const PASSWORD_MODIFY: &str = "1.3.6.1.4.1.4203.1.11.1";

/// A server.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Server {
    pub(super) is_active_directory: bool,
    /// By the operation for it.
    pub(super) changes_passwords: bool,
    /// The DN that its entries are below; empty where it does not tell.
    pub(super) root: String,
}

impl Server {
    /// What is searched for.
    pub(super) fn search() -> Search {
        Search::root_dse().attributes(&[
            "defaultNamingContext",
            "namingContexts",
            "supportedCapabilities",
            "supportedExtension",
        ])
    }

    /// The server behind `url`, which `ask` asks unless it was asked lately. What the cache cannot
    /// keep is asked again.
    pub(super) fn of(
        host: &dyn Host,
        url: &str,
        ask: impl FnOnce() -> Result<Vec<Entry>, Fault>,
    ) -> Result<Self, Fault> {
        let key = format!("server/{url}");
        let kept = host.cache().get(&key).ok().flatten();
        if let Some(kept) = kept.and_then(|bytes| serde_json::from_slice(&bytes).ok()) {
            return Ok(kept);
        }
        let server = ask()?.first().map(Self::told_by).unwrap_or_default();
        if let Ok(bytes) = serde_json::to_vec(&server) {
            drop(host.cache().put(&key, &bytes, KEPT));
        }
        Ok(server)
    }

    fn told_by(entry: &Entry) -> Self {
        let says = |attribute: &str, wanted: &str| entry.texts(attribute).any(|one| one == wanted);
        let first = |attribute: &str| entry.texts(attribute).find(|dn| !dn.is_empty());
        let root = first("defaultNamingContext").or_else(|| first("namingContexts"));
        Self {
            is_active_directory: says("supportedCapabilities", ACTIVE_DIRECTORY),
            changes_passwords: says("supportedExtension", PASSWORD_MODIFY),
            root: root.unwrap_or_default().to_owned(),
        }
    }
}

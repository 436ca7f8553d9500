//! The kind of a server, as its root DSE tells. The answer is cached for an hour.

use bulkhead_sdk::Host;
use bulkhead_sdk::ldap::{LdapEntry, LdapFault, Search};
use serde::{Deserialize, Serialize};

/// Lifetime of a cached answer, in seconds.
const PROPERTIES_TTL_SECS: u32 = 3_600;
/// Maximum number of naming contexts that are read.
const MAX_CONTEXTS: usize = 64;
/// OID of a capability of Active Directory; Samba as a domain controller has the capability, too.
const ACTIVE_DIRECTORY: &str = "1.2.840.113556.1.4.800";
/// OID of the extended operation that changes a password (RFC 3062).
const PASSWORD_MODIFY: &str = "1.3.6.1.4.1.4203.1.11.1";

/// Properties of a directory server.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct ServerProperties {
    pub(super) is_active_directory: bool,
    /// The server supports the password modify operation.
    pub(super) changes_passwords: bool,
    /// DN above the server's entries; empty if the server does not tell.
    pub(super) root: String,
    /// DNs of all naming contexts. An entry moves from one to another only between the domains of a
    /// forest of Active Directory.
    contexts: Vec<String>,
}

impl ServerProperties {
    /// Returns the search of the root DSE.
    pub(super) fn search() -> Search {
        Search::root_dse().attributes(&[
            "defaultNamingContext",
            "namingContexts",
            "supportedCapabilities",
            "supportedExtension",
        ])
    }

    /// Returns the properties of the server at `url`. Calls `ask` unless the cache has a recent
    /// answer; a failed write to the cache only causes another question.
    pub(super) fn of(
        host: &dyn Host,
        url: &str,
        ask: impl FnOnce() -> Result<Vec<LdapEntry>, LdapFault>,
    ) -> Result<Self, LdapFault> {
        let key = format!("server/{url}");
        let cached = host.cache().get(&key).ok().flatten();
        if let Some(server) = cached.and_then(|bytes| serde_json::from_slice(&bytes).ok()) {
            return Ok(server);
        }
        let server = ask()?.first().map(Self::of_root_dse).unwrap_or_default();
        if let Ok(bytes) = serde_json::to_vec(&server) {
            drop(host.cache().put(&key, &bytes, PROPERTIES_TTL_SECS));
        }
        Ok(server)
    }

    /// Returns the naming contexts that contain the entry `dn`.
    pub(super) fn contexts_of(&self, dn: &str) -> impl Iterator<Item = &str> {
        let dn = dn.to_lowercase();
        let contexts = self.contexts.iter().map(String::as_str);
        contexts.filter(move |context| {
            let context = context.to_lowercase();
            dn == context || dn.ends_with(&format!(",{context}"))
        })
    }

    fn of_root_dse(entry: &LdapEntry) -> Self {
        let says = |attribute: &str, wanted: &str| entry.texts(attribute).any(|one| one == wanted);
        let first = |attribute: &str| entry.texts(attribute).find(|dn| !dn.is_empty());
        let root = first("defaultNamingContext").or_else(|| first("namingContexts"));
        Self {
            is_active_directory: says("supportedCapabilities", ACTIVE_DIRECTORY),
            changes_passwords: says("supportedExtension", PASSWORD_MODIFY),
            root: root.unwrap_or_default().to_owned(),
            contexts: entry.texts("namingContexts").take(MAX_CONTEXTS).map(str::to_owned).collect(),
        }
    }
}

/// Lets the directory in memory tell its naming contexts, until the cache forgets them.
#[cfg(test)]
pub(crate) fn report_contexts(host: &dyn Host, is_active_directory: bool, contexts: &[&str]) {
    let server = serde_json::json!({
        "is_active_directory": is_active_directory,
        "changes_passwords": !is_active_directory,
        "root": contexts.first().copied().unwrap_or_default(),
        "contexts": contexts,
    });
    let server = server.to_string().into_bytes();
    host.cache().put("server/ldaps://dc1.corp.example", &server, PROPERTIES_TTL_SECS).unwrap();
}

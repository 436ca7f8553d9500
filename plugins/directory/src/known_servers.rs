//! The servers to which the password of an account may be sent.
//!
//! This file prevents this attack: a caller with write access to the configuration points `url` at
//! their own server, with a `bindpass` of their own. That server claims to have changed the
//! password of an account, refuses the new password, and receives the password in force when the
//! engine tests the two passwords (decision P22). An account therefore records the servers of its
//! password and their authentication settings, and logins by that password go to these servers
//! only.

use crate::settings::{Config, servers};
use bulkhead_sdk::ldap::LdapTarget;
use bulkhead_sdk::wire::failure::quoted;
use bulkhead_sdk::{Failure, FailureKind};
use serde::{Deserialize, Serialize};

/// Servers and their authentication settings. Part of stored records: later fields need a default.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct KnownServers {
    /// URLs of the asked servers, in lower case.
    servers: Vec<String>,
    starttls: bool,
    insecure_tls: bool,
    certificate: String,
}

impl KnownServers {
    /// Returns the servers of a configuration.
    pub(crate) fn of(config: &Config) -> Self {
        Self {
            servers: servers::asked(&config.url).map(str::to_lowercase).collect(),
            starttls: config.starttls,
            insecure_tls: config.insecure_tls,
            certificate: config.certificate.clone(),
        }
    }

    /// Restricts the target of a configuration to the servers in `known_servers`. `None` means that
    /// an earlier release stored the password; the target then stays as configured.
    ///
    /// # Errors
    /// Unreachable if no server of the configuration is known, or if the authentication settings
    /// have changed. The message names the account by its `dn`.
    pub(crate) fn narrow(
        known_servers: Option<&Self>,
        config: &Config,
        target: LdapTarget,
        dn: &str,
    ) -> Result<LdapTarget, Failure> {
        let Some(known_servers) = known_servers else { return Ok(target) };
        let now = Self::of(config);
        let is_alike = Self { servers: Vec::new(), ..known_servers.clone() }
            == Self { servers: Vec::new(), ..now.clone() };
        let is_known = |url: &String| known_servers.servers.contains(&url.to_lowercase());
        let mut urls = target.urls;
        urls.retain(|url| now.servers.contains(&url.to_lowercase()) && is_known(url));
        if urls.is_empty() || !is_alike {
            return Err(Failure::new(
                FailureKind::Unreachable,
                format!(
                    "the password of {} is not sent to the servers of the configuration, because \
                     the account got the password from other servers; write the configuration back",
                    quoted(dn)
                ),
            ));
        }
        Ok(LdapTarget { urls, ..target })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(url: &str) -> Config {
        Config { url: url.to_owned(), ..Config::default() }
    }

    fn narrowed(url: &str, now: &Config) -> Result<Vec<String>, String> {
        let servers = KnownServers::of(&config(url));
        let narrowed = KnownServers::narrow(Some(&servers), now, now.target(), "cn=app");
        narrowed.map(|target| target.urls).map_err(|failure| failure.message)
    }

    #[test]
    fn a_password_goes_to_known_servers_only() {
        let both = "ldaps://a.example, ldaps://b.example";
        assert_eq!(narrowed(both, &config(both)).unwrap().len(), 2);
        let added = config("ldaps://new.example,LDAPS://B.example");
        assert_eq!(narrowed(both, &added).unwrap(), ["LDAPS://B.example"]);
        let other = narrowed(both, &config("ldaps://new.example")).unwrap_err();
        assert!(other.contains("\"cn=app\"") && other.contains("write the configuration back"));
        assert!(narrowed(both, &config("ldap://a.example")).is_err());
    }

    #[test]
    fn server_never_asked_is_not_known() {
        let behind = "ldaps://a.example, ldap://b.example";
        assert!(narrowed(behind, &config("ldap://b.example")).is_err());
        assert_eq!(narrowed(behind, &config(behind)).unwrap(), ["ldaps://a.example"]);
    }

    #[test]
    fn servers_with_changed_proof_count_as_others() {
        for changed in [
            Config { insecure_tls: true, ..config("ldaps://a.example") },
            Config { starttls: true, ..config("ldaps://a.example") },
            Config { certificate: "other".to_owned(), ..config("ldaps://a.example") },
        ] {
            assert!(narrowed("ldaps://a.example", &changed).is_err());
        }
    }

    #[test]
    fn earlier_release_password_follows_configured_servers() {
        let now = config("ldaps://a.example");
        let target = KnownServers::narrow(None, &now, now.target(), "cn=app").unwrap();
        assert_eq!(target.urls, ["ldaps://a.example"]);
    }
}

//! The stored configuration: the directory's address, the engine's login, and the settings for
//! passwords and times.

pub(crate) mod servers;

use crate::passwords::{self, PasswordRules};
use bulkhead_sdk::database_plugin::StoreTime;
use bulkhead_sdk::ldap::{LdapTarget, LdapTls};
use bulkhead_sdk::only_copy;
use bulkhead_sdk::wire::failure::quoted;
use bulkhead_sdk::{Failure, Host, Mount, stored};
use serde::{Deserialize, Serialize};

const KEY: &str = "config";
/// Schema of Active Directory.
pub(crate) const AD: &str = "ad";
/// Schema of OpenLDAP and compatible servers.
pub(crate) const OPENLDAP: &str = "openldap";
/// Milliseconds after a rotation of `bindpass` during which the previous password is tried, too: a
/// controller that has not yet received the change refuses the new password.
const PREVIOUS_BINDPASS_MS: StoreTime = 600_000;

/// A stored configuration. No `Debug`: the record contains passwords.
#[derive(Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Config {
    /// URLs as written by the operator, separated by commas.
    pub(crate) url: String,
    pub(crate) binddn: String,
    pub(crate) bindpass: String,
    /// The password before the last rotation; empty for none.
    pub(crate) previous_bindpass: String,
    pub(crate) bindpass_rotated: Option<StoreTime>,
    pub(crate) userdn: String,
    pub(crate) upndomain: String,
    pub(crate) schema: String,
    pub(crate) self_rotation: bool,
    /// Seconds; 0 means the mount's value.
    pub(crate) ttl: u64,
    /// Seconds; 0 means the mount's value.
    pub(crate) max_ttl: u64,
    /// Seconds.
    pub(crate) last_rotation_tolerance: u64,
    pub(crate) password_policy: String,
    /// Characters; 0 means the default.
    pub(crate) length: u64,
    pub(crate) formatter: String,
    /// Seconds.
    pub(crate) connection_timeout: u64,
    /// Seconds.
    pub(crate) request_timeout: u64,
    /// True if nobody wrote `request_timeout`. A read then leaves the default out, because
    /// Terraform takes a setting that was never written for a change to undo.
    #[serde(default)]
    pub(crate) has_default_request_timeout: bool,
    pub(crate) starttls: bool,
    pub(crate) insecure_tls: bool,
    pub(crate) certificate: String,
    pub(crate) tls_min_version: String,
    pub(crate) tls_max_version: String,
}

stored!(Config, "config", reads_stored_configs);

impl Default for Config {
    fn default() -> Self {
        Self {
            url: "ldap://127.0.0.1".to_owned(),
            binddn: String::new(),
            bindpass: String::new(),
            previous_bindpass: String::new(),
            bindpass_rotated: None,
            userdn: String::new(),
            upndomain: String::new(),
            schema: AD.to_owned(),
            self_rotation: false,
            ttl: 0,
            max_ttl: 0,
            last_rotation_tolerance: 5,
            password_policy: String::new(),
            length: 0,
            formatter: String::new(),
            connection_timeout: 30,
            request_timeout: 90,
            has_default_request_timeout: true,
            starttls: false,
            insecure_tls: false,
            certificate: String::new(),
            tls_min_version: "tls12".to_owned(),
            tls_max_version: "tls13".to_owned(),
        }
    }
}

impl Config {
    /// Returns the configuration, if there is one.
    pub(crate) fn find(host: &dyn Host) -> Result<Option<Self>, Failure> {
        host.storage().get(KEY)
    }

    /// Returns the configuration.
    ///
    /// # Errors
    /// Invalid request if there is no configuration.
    pub(crate) fn require(host: &dyn Host, mount: &Mount) -> Result<Self, Failure> {
        let unset = || {
            let path = &mount.path;
            Failure::invalid(format!("there is no configuration; write {path}config first"))
        };
        Self::find(host)?.ok_or_else(unset)
    }

    pub(crate) fn store(&self, host: &dyn Host) -> Result<(), Failure> {
        host.storage().put(KEY, self)?;
        let secret = format!("the password of {}", quoted(&self.login_name()));
        only_copy::set_note(host, KEY, self.bindpass_rotated.map(|_| secret))
    }

    /// Deletes the configuration.
    pub(crate) fn remove(host: &dyn Host) -> Result<(), Failure> {
        host.storage().delete(KEY)?;
        only_copy::set_note(host, KEY, None)
    }

    /// Returns the length, in characters, of passwords that are generated without a policy.
    pub(crate) fn length(&self) -> u64 {
        if self.length == 0 { passwords::USUAL_LENGTH } else { self.length }
    }

    /// Returns the rules for generating passwords.
    pub(crate) fn password_rules(&self) -> PasswordRules<'_> {
        PasswordRules {
            policy: &self.password_policy,
            length: self.length(),
            formatter: &self.formatter,
        }
    }

    /// Returns the seconds after which a password is rotated, unless a role sets its own ttl.
    pub(crate) fn ttl(&self, mount: &Mount) -> u64 {
        let usual = mount.default_ttl.min(self.max_ttl(mount));
        if self.ttl == 0 { usual } else { self.ttl }
    }

    /// Returns the maximum ttl of a role, in seconds.
    pub(crate) fn max_ttl(&self, mount: &Mount) -> u64 {
        if self.max_ttl == 0 { mount.max_ttl } else { self.max_ttl }
    }

    /// Returns the servers and the engine's own login, which is empty if the engine has none.
    pub(crate) fn target(&self) -> LdapTarget {
        let millis =
            |seconds: u64| u32::try_from(seconds.saturating_mul(1_000)).unwrap_or(u32::MAX);
        let target = LdapTarget {
            urls: servers::of(&self.url).map(str::to_owned).collect(),
            tls: LdapTls {
                starttls: self.starttls,
                insecure: self.insecure_tls,
                root_certificates: Some(self.certificate.clone()).filter(|pem| !pem.is_empty()),
                min_version: self.tls_min_version.clone(),
                max_version: self.tls_max_version.clone(),
                ..LdapTls::default()
            },
            connect_timeout: millis(self.connection_timeout),
            request_timeout: millis(self.request_timeout),
            ..LdapTarget::default()
        };
        target.log_in_as(&self.login_name(), &self.bindpass)
    }

    /// Returns the password before the last rotation, while a server may not have received the
    /// change.
    pub(crate) fn previous_bindpass(&self, now: StoreTime) -> Option<&str> {
        let is_recent =
            self.bindpass_rotated.is_some_and(|at| now < at.saturating_add(PREVIOUS_BINDPASS_MS));
        (is_recent && !self.previous_bindpass.is_empty()).then_some(&self.previous_bindpass)
    }

    /// Returns the cache key of the accepted login, shared by the calls of the mount.
    pub(crate) fn login_key(&self) -> String {
        format!("login/{}", self.bindpass_rotated.unwrap_or_default())
    }

    /// Returns the name of the engine's login.
    pub(crate) fn login_name(&self) -> String {
        if self.upndomain.is_empty() || self.binddn.is_empty() {
            return self.binddn.clone();
        }
        format!("{}@{}", self.binddn, self.upndomain)
    }

    /// Returns true if the engine has its own login.
    pub(crate) fn has_login(&self) -> bool {
        !self.bindpass.is_empty()
    }
}

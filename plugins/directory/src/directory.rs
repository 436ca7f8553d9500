//! Requests to the directory: find an account, check whether a password is in force, and change a
//! password.
//!
//! This file prevents LDAP filter injection (names are values of a condition and never filter
//! text), one account under two names (accounts are compared by the id of their entry), and a
//! password that a server of the other kind stores as a readable attribute.

mod identity;
mod login;
mod login_causes;
mod lookup;
mod name;
mod server;
mod sighting;

use crate::known_servers::KnownServers;
use crate::settings::{AD, Config, OPENLDAP};
use crate::times;
use bulkhead_sdk::database_plugin::StoreTime;
use bulkhead_sdk::ldap::{
    AttributeChange, LdapEntry, LdapFault, LdapFaultCode, LdapTarget, Search,
};
use bulkhead_sdk::wire::failure::quoted;
use bulkhead_sdk::{Failure, Host};
pub(crate) use identity::EntryId;
pub(crate) use login::{NewerLogin, begin_rotation, end_rotation};
use server::ServerProperties;
#[cfg(test)]
pub(crate) use server::report_contexts;
pub(crate) use sighting::{DnHolder, KnownEntry, NO_IDS, Sighting};

/// Attributes read from an account's entry.
const ATTRIBUTES: &[&str] = &[
    "objectGUID",
    "entryUUID",
    "nsUniqueId",
    OBJECT_CLASS,
    "userPrincipalName",
    "pwdLastSet",
    "pwdChangedTime",
];
/// Attribute with the object classes of an entry.
const OBJECT_CLASS: &str = "objectClass";
/// Maximum number of object classes that are recorded of an entry.
const MAX_CLASSES: usize = 16;

/// The directory of a configuration, and the login to use.
pub(crate) struct DirectoryClient<'a> {
    host: &'a dyn Host,
    config: &'a Config,
    /// Servers and login: the engine's own, or an account's if the account acts for itself.
    target: LdapTarget,
    is_account: bool,
    newer: NewerLogin,
}

/// An account as found in the directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FoundAccount {
    /// The ids that the directory gave the entry, and last a digest of the DN.
    pub(crate) ids: Vec<EntryId>,
    pub(crate) dn: String,
    /// Object classes; empty if they are not readable.
    pub(crate) classes: Vec<String>,
    /// Time of the last password change by the directory's clock, if the directory tells.
    pub(crate) changed: Option<StoreTime>,
}

impl FoundAccount {
    /// Returns the id that the directory gave the entry; `None` if no such id is readable.
    pub(crate) fn given_id(&self) -> Option<&EntryId> {
        self.ids.iter().find(|id| id.is_given())
    }

    /// Returns true if the entry has this id.
    pub(crate) fn has(&self, id: &EntryId) -> bool {
        self.ids.contains(id)
    }

    /// Returns true if the entry has another id of the same kind.
    fn is_other(&self, id: &EntryId) -> bool {
        !self.has(id) && self.ids.iter().any(|own| own.is_comparable(id))
    }

    fn is_same(&self, other: &Self) -> bool {
        self.ids.iter().any(|id| other.has(id))
    }
}

/// Result of a test login with a password.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PasswordProof {
    InForce,
    NotInForce,
    /// The account is locked, or may not log in this way, so that every password is refused.
    CannotTell,
}

impl<'a> DirectoryClient<'a> {
    /// Uses the engine's own login.
    pub(crate) fn new(host: &'a dyn Host, config: &'a Config) -> Self {
        let newer = NewerLogin::Read;
        Self { host, config, target: config.target(), is_account: false, newer }
    }

    /// Uses the login of an account.
    pub(crate) fn as_account(
        host: &'a dyn Host,
        config: &'a Config,
        name: &str,
        password: &str,
    ) -> Self {
        let target = config.target().log_in_as(name, password);
        Self { host, config, target, is_account: true, newer: NewerLogin::None }
    }

    /// Sets the source of a newer `bindpass` after a refused login.
    pub(crate) fn with(self, newer: NewerLogin) -> Self {
        Self { newer, ..self }
    }

    /// Restricts the directory to the servers to which the password of the account `dn` may be
    /// sent.
    ///
    /// # Errors
    /// Unreachable if the configuration contains no such server.
    pub(crate) fn narrowed_to(
        self,
        known_servers: Option<&KnownServers>,
        dn: &str,
    ) -> Result<Self, Failure> {
        let target = KnownServers::narrow(known_servers, self.config, self.target, dn)?;
        Ok(Self { target, ..self })
    }

    /// Changes the password of an account: by the engine's right to set passwords, or, if the
    /// account acts for itself, by proving the present password.
    ///
    /// # Errors
    /// The server's refusal, or a fault that says that the answer was lost.
    pub(crate) fn set_password(&self, dn: &str, new: &str) -> Result<(), LdapFault> {
        let current = self.is_account.then(|| self.target.password.clone());
        if self.config.schema == AD {
            let new = vec![quoted_utf16(new)];
            let changes = match current {
                Some(current) => vec![
                    AttributeChange::Delete("unicodePwd".to_owned(), vec![quoted_utf16(&current)]),
                    AttributeChange::Add("unicodePwd".to_owned(), new),
                ],
                None => vec![AttributeChange::Replace("unicodePwd".to_owned(), new)],
            };
            return self.asking(|target| self.host.ldap().modify(target, dn, &changes));
        }
        let server = self.server()?;
        if server.is_active_directory {
            return Err(LdapFault::new(LdapFaultCode::InvalidRequest, OTHER_SCHEMA));
        }
        if server.changes_passwords {
            return self.asking(|target| {
                self.host.ldap().change_password(target, dn, current.as_deref(), new)
            });
        }
        let change = [AttributeChange::replace("userPassword", new)];
        self.asking(|target| self.host.ldap().modify(target, dn, &change))
    }

    /// Tests by a login whether the password is in force.
    ///
    /// # Errors
    /// Fails if no server answers.
    pub(crate) fn prove(&self, name: &str, password: &str) -> Result<PasswordProof, Failure> {
        match self.host.ldap().bind(&self.target.log_in_as(name, password)) {
            Ok(()) => Ok(PasswordProof::InForce),
            Err(fault) if fault.code == LdapFaultCode::Refused => {
                Ok(login_causes::proof_by(&fault))
            }
            Err(fault) => Err(worded(fault).into()),
        }
    }

    /// Checks that the directory accepts the engine's login. Without a login there is nothing to
    /// check.
    ///
    /// # Errors
    /// Fails if the login is refused or no server answers.
    pub(crate) fn check_login(&self) -> Result<(), Failure> {
        if !self.config.has_login() {
            return Ok(());
        }
        self.host.ldap().bind(&self.target).map_err(|fault| {
            let why = Failure::from(worded(fault));
            Failure { message: format!("binddn and bindpass: {}", why.message), ..why }
        })
    }

    /// Checks that the server is of the kind that `schema` names.
    ///
    /// # Errors
    /// Invalid request if the server is of the other kind.
    pub(crate) fn check_schema(&self) -> Result<(), Failure> {
        let is_active_directory = self.server()?.is_active_directory;
        match (self.config.schema.as_str(), is_active_directory) {
            (OPENLDAP, true) => Err(Failure::invalid(OTHER_SCHEMA)),
            (AD, false) => Err(Failure::invalid(
                "schema ad is for Active Directory, and this server is none; use openldap",
            )),
            _ => Ok(()),
        }
    }

    /// Checks that the search base exists. Without a login of the engine there is nothing to check.
    ///
    /// # Errors
    /// Invalid request if the engine's login sees no such entry.
    pub(crate) fn check_base(&self) -> Result<(), Failure> {
        if !self.config.has_login() {
            return Ok(());
        }
        let base = self.base()?;
        let found = absent_is_empty(self.search(Search::entry(&base)))?;
        match found.is_empty() {
            true => {
                Err(Failure::invalid(format!("userdn: binddn sees no entry {}", quoted(&base))))
            }
            false => Ok(()),
        }
    }

    /// Returns the search base for accounts: `userdn`, or the root of the server.
    fn base(&self) -> Result<String, LdapFault> {
        if self.config.userdn.is_empty() { self.root() } else { Ok(self.config.userdn.clone()) }
    }

    /// Returns the root of the server's entries, or `userdn` if the server does not tell its root.
    fn root(&self) -> Result<String, LdapFault> {
        let root = self.server()?.root;
        let named = [&root, &self.config.userdn].into_iter().find(|dn| !dn.is_empty());
        named.cloned().ok_or_else(|| LdapFault::new(LdapFaultCode::InvalidRequest, NO_BASE))
    }

    fn server(&self) -> Result<ServerProperties, LdapFault> {
        ServerProperties::of(self.host, &self.config.url, || {
            self.asking(|target| self.host.ldap().search(target, &ServerProperties::search()))
        })
    }

    fn search(&self, search: Search) -> Result<Vec<LdapEntry>, LdapFault> {
        let search = search.attributes(ATTRIBUTES);
        self.asking(|target| self.host.ldap().search(target, &search))
    }

    fn found(&self, entry: &LdapEntry) -> Result<FoundAccount, Failure> {
        let by_ticks = entry.text("pwdLastSet").and_then(times::of_ticks);
        let by_time = || entry.text("pwdChangedTime").and_then(times::of_generalized);
        Ok(FoundAccount {
            ids: EntryId::all_of(self.host, entry)?,
            dn: entry.dn.clone(),
            classes: entry.texts(OBJECT_CLASS).take(MAX_CLASSES).map(str::to_owned).collect(),
            changed: by_ticks.or_else(by_time),
        })
    }
}

const OTHER_SCHEMA: &str = "schema openldap is not for Active Directory, which would keep the \
                            password as a readable attribute and change nothing; use schema ad";
const NO_BASE: &str = "the server does not tell a naming context; set userdn";

/// Replaces the host's field names in the message with those of the configuration, and adds the
/// cause of a refused login.
fn worded(fault: LdapFault) -> LdapFault {
    let message = fault.message.replace("root-certificates", "certificate");
    login_causes::explained(LdapFault { message, ..fault })
}

/// Encodes a password as a value of `unicodePwd`.
fn quoted_utf16(password: &str) -> Vec<u8> {
    format!("\"{password}\"").encode_utf16().flat_map(u16::to_le_bytes).collect()
}

fn absent_is_empty(found: Result<Vec<LdapEntry>, LdapFault>) -> Result<Vec<LdapEntry>, LdapFault> {
    match found {
        Err(fault) if fault.code == LdapFaultCode::NotFound => Ok(Vec::new()),
        found => found,
    }
}

#[cfg(test)]
mod tests;

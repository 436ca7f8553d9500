//! A directory in memory: OpenLDAP or Active Directory, as far as engines that change passwords use
//! directories. The answers were observed on servers of both kinds.
//!
//! Each operation is a step of the script (`ldap-bind`, `ldap-search`, `ldap-modify`,
//! `ldap-change-password`), so a test can refuse an operation, lose its answer, or kill the process
//! after it. The recorded steps never contain a value.

mod account;
mod matching;

use super::script::Script;
use crate::database_plugin::StoreTime;
use crate::host::Ldap;
use crate::ldap::{AttributeChange, LdapEntry, LdapFault, LdapFaultCode, LdapTarget, Search};
use account::Account;
use bulkhead_wire::failure::{Failure, FailureKind};
use matching::{covers, dn_key, holds, selected};
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::rc::Rc;

/// Kind of the server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Flavour {
    /// OpenLDAP with a password policy: attribute `userPassword`, and the password modify
    /// operation.
    #[default]
    OpenLdap,
    /// Active Directory: attribute `unicodePwd`, and logins by names other than the DN.
    ActiveDirectory,
}

/// A directory on one server, which answers at every URL that is not taken down.
pub struct TestDirectory {
    script: Rc<Script>,
    flavour: Cell<Flavour>,
    accounts: RefCell<BTreeMap<String, Account>>,
    /// DNs of entries that may change other entries.
    administrators: RefCell<BTreeSet<String>>,
    down: RefCell<BTreeSet<String>>,
    refusals: RefCell<VecDeque<(String, LdapFault)>>,
    shortest_password: Cell<usize>,
    takes_old_passwords: Cell<bool>,
}

/// Arrangements and observations of a test.
impl TestDirectory {
    pub(super) fn new(script: &Rc<Script>) -> Self {
        Self {
            script: Rc::clone(script),
            flavour: Cell::default(),
            accounts: RefCell::default(),
            administrators: RefCell::default(),
            down: RefCell::default(),
            refusals: RefCell::default(),
            shortest_password: Cell::new(0),
            takes_old_passwords: Cell::new(false),
        }
    }

    /// Sets the kind of the server.
    pub fn be(&self, flavour: Flavour) {
        self.flavour.set(flavour);
    }

    /// Adds an entry with a password set now. Every attribute has one text value.
    pub fn add(&self, dn: &str, password: &str, attributes: &[(&str, &str)]) {
        let mut account = Account::new(dn, attributes);
        account.set_password(password, self.script.now(), self.flavour.get());
        self.accounts.borrow_mut().insert(dn_key(dn), account);
    }

    /// Adds an entry that may change the passwords of all others.
    pub fn add_administrator(&self, dn: &str, password: &str) {
        self.add(dn, password, &[("objectClass", "person")]);
        self.administrators.borrow_mut().insert(dn_key(dn));
    }

    /// Removes an entry.
    pub fn remove(&self, dn: &str) {
        self.accounts.borrow_mut().remove(&dn_key(dn));
    }

    /// Changes the DN of an entry, as a rename or move does.
    pub fn rename(&self, dn: &str, new: &str) {
        let mut accounts = self.accounts.borrow_mut();
        if let Some(account) = accounts.remove(&dn_key(dn)) {
            accounts.insert(dn_key(new), account.renamed(new));
        }
    }

    /// Sets an attribute to one text value.
    pub fn set(&self, dn: &str, attribute: &str, value: &str) {
        self.change(dn, |account| {
            account.replace(attribute, vec![value.as_bytes().to_vec()]);
        });
    }

    /// Sets a password from outside, so that the engine's password is no longer valid.
    pub fn set_password(&self, dn: &str, password: &str) {
        let (now, flavour) = (self.script.now(), self.flavour.get());
        self.change(dn, |account| account.set_password(password, now, flavour));
    }

    /// Locks an entry, which then accepts no password, or unlocks the entry.
    pub fn lock(&self, dn: &str, is_locked: bool) {
        self.change(dn, |account| account.is_locked = is_locked);
    }

    /// Refuses passwords with fewer characters (result code 19).
    pub fn ask_for_length(&self, characters: usize) {
        self.shortest_password.set(characters);
    }

    /// Keeps accepting the password before the last change, as Active Directory does for an hour.
    pub fn take_old_passwords(&self) {
        self.takes_old_passwords.set(true);
    }

    /// Stops the server at a URL.
    pub fn take_down(&self, url: &str) {
        self.down.borrow_mut().insert(url.to_owned());
    }

    /// Starts the server at a URL again.
    pub fn bring_up(&self, url: &str) {
        self.down.borrow_mut().remove(url);
    }

    /// Refuses the next `step` with exactly `fault`, before the step happens.
    pub fn refuse(&self, step: &str, fault: LdapFault) {
        self.refusals.borrow_mut().push_back((step.to_owned(), fault));
    }

    /// Returns true if `password` is the password of the entry.
    #[must_use]
    pub fn has_password(&self, dn: &str, password: &str) -> bool {
        self.look(dn, |account| account.password == password).unwrap_or_default()
    }

    /// Returns the number of logins with a wrong password.
    #[must_use]
    pub fn failed_logins(&self, dn: &str) -> u32 {
        self.look(dn, |account| account.failed_logins).unwrap_or_default()
    }

    /// Returns the value of an attribute with exactly one text value.
    #[must_use]
    pub fn text(&self, dn: &str, attribute: &str) -> Option<String> {
        self.look(dn, |account| account.entry.text(attribute).map(str::to_owned)).flatten()
    }

    fn look<T>(&self, dn: &str, look: impl FnOnce(&Account) -> T) -> Option<T> {
        self.accounts.borrow().get(&dn_key(dn)).map(look)
    }

    fn change(&self, dn: &str, change: impl FnOnce(&mut Account)) {
        if let Some(account) = self.accounts.borrow_mut().get_mut(&dn_key(dn)) {
            change(account);
        }
    }
}

impl Ldap for TestDirectory {
    fn bind(&self, target: &LdapTarget) -> Result<(), LdapFault> {
        self.step("ldap-bind", &target.bind_dn, || self.log_in(target).map(drop))
    }

    fn search(&self, target: &LdapTarget, search: &Search) -> Result<Vec<LdapEntry>, LdapFault> {
        self.step("ldap-search", &search.base, || {
            self.log_in(target)?;
            self.find(search)
        })
    }

    fn modify(
        &self,
        target: &LdapTarget,
        dn: &str,
        changes: &[AttributeChange],
    ) -> Result<(), LdapFault> {
        self.step("ldap-modify", dn, || {
            let who = self.log_in(target)?;
            let (now, flavour) = (self.script.now(), self.flavour.get());
            self.alter(dn, |account| {
                let mut altered = account.clone();
                let shortest = self.shortest_password.get();
                altered.apply(changes, now, flavour, shortest)?;
                let changes_itself = who == dn_key(dn) && account.names_old_password(changes);
                self.check_right(&who, changes_itself)?;
                *account = altered;
                Ok(())
            })
        })
    }

    fn change_password(
        &self,
        target: &LdapTarget,
        dn: &str,
        current: Option<&str>,
        new: &str,
    ) -> Result<(), LdapFault> {
        self.step("ldap-change-password", dn, || {
            let who = self.log_in(target)?;
            if self.flavour.get() == Flavour::ActiveDirectory {
                return Err(rejected(2, "this server has no operation for passwords"));
            }
            let (now, flavour) = (self.script.now(), self.flavour.get());
            self.alter(dn, |account| {
                self.check_right(&who, who == dn_key(dn))?;
                if current.is_some_and(|current| current != account.password) {
                    return Err(rejected(53, "the current password is another one"));
                }
                account::check_length(new, self.shortest_password.get())?;
                account.set_password(new, now, flavour);
                Ok(())
            })
        })
    }

    fn close(&self, target: &LdapTarget) {
        self.script.record(format!("ldap-close {}", target.bind_dn));
    }
}

impl TestDirectory {
    /// Runs a step of the script. If the step ran and the script lost its answer, the fault says
    /// that the change may have happened.
    fn step<T>(
        &self,
        word: &str,
        detail: &str,
        act: impl FnOnce() -> Result<T, LdapFault>,
    ) -> Result<T, LdapFault> {
        if let Some(fault) = self.take_refusal(word) {
            return Err(fault);
        }
        let done = Cell::new(None);
        let has_happened = Cell::new(false);
        let passed = self.script.step(word, Some(detail), || {
            has_happened.set(true);
            done.set(Some(act()));
            Ok(())
        });
        match (passed, done.take()) {
            (Ok(()), Some(done)) => done,
            (Ok(()), None) => {
                Err(LdapFault::new(LdapFaultCode::Unreachable, "the step did not happen"))
            }
            (Err(failure), _) => Err(of_script(&failure, has_happened.get())),
        }
    }

    fn take_refusal(&self, word: &str) -> Option<LdapFault> {
        let mut refusals = self.refusals.borrow_mut();
        let at = refusals.iter().position(|(step, _)| step == word)?;
        refusals.remove(at).map(|(_, fault)| fault)
    }

    /// Logs in, and returns the DN of the target's entry; empty for a session without a login.
    fn log_in(&self, target: &LdapTarget) -> Result<String, LdapFault> {
        if target.urls.is_empty() {
            return Err(LdapFault::new(LdapFaultCode::InvalidRequest, "no URL is given"));
        }
        if target.bind_dn.is_empty() != target.password.is_empty() {
            let why = "a name without a password, or a password without a name, is not a login";
            return Err(LdapFault::new(LdapFaultCode::InvalidRequest, why));
        }
        if target.urls.iter().all(|url| self.down.borrow().contains(url)) {
            return Err(LdapFault::new(LdapFaultCode::Unreachable, "no server answers"));
        }
        if target.bind_dn.is_empty() {
            return Ok(String::new());
        }
        let mut accounts = self.accounts.borrow_mut();
        let flavour = self.flavour.get();
        if flavour == Flavour::OpenLdap && !target.bind_dn.contains('=') {
            return Err(refused(34, "the name is not a DN"));
        }
        let found = accounts.iter_mut().find(|(_, account)| {
            account.is_called(&target.bind_dn, flavour == Flavour::ActiveDirectory)
        });
        let Some((key, account)) = found else { return Err(refused(49, "invalid credentials")) };
        account.log_in(&target.password, self.takes_old_passwords.get())?;
        Ok(key.clone())
    }

    fn check_right(&self, who: &str, is_itself: bool) -> Result<(), LdapFault> {
        if is_itself || self.administrators.borrow().contains(who) {
            return Ok(());
        }
        Err(rejected(50, "insufficient access rights"))
    }

    fn alter(
        &self,
        dn: &str,
        alter: impl FnOnce(&mut Account) -> Result<(), LdapFault>,
    ) -> Result<(), LdapFault> {
        let mut accounts = self.accounts.borrow_mut();
        accounts.get_mut(&dn_key(dn)).map_or_else(|| Err(absent()), alter)
    }

    fn find(&self, search: &Search) -> Result<Vec<LdapEntry>, LdapFault> {
        if search.base.is_empty() {
            return Ok(vec![selected(&self.root_dse(), &search.attributes)]);
        }
        let (accounts, base) = (self.accounts.borrow(), dn_key(&search.base));
        let is_there = |key: &String| *key == base || key.ends_with(&format!(",{base}"));
        if !accounts.keys().any(is_there) {
            return Err(absent());
        }
        let found = accounts.iter().filter(|(key, account)| {
            covers(&base, search.scope, key) && holds(&search.filter, &account.entry)
        });
        let most = if search.limit == 0 { usize::MAX } else { search.limit as usize };
        let found = found.map(|(_, account)| selected(&account.entry, &search.attributes));
        Ok(found.take(most).collect())
    }

    /// Returns the root DSE, which tells the two kinds of server apart.
    fn root_dse(&self) -> LdapEntry {
        let attributes: &[(&str, &str)] = match self.flavour.get() {
            Flavour::OpenLdap => &[("supportedExtension", "1.3.6.1.4.1.4203.1.11.1")],
            Flavour::ActiveDirectory => {
                &[("supportedCapabilities", "1.2.840.113556.1.4.800"), ("forestFunctionality", "7")]
            }
        };
        Account::new("", attributes).entry
    }
}

/// Converts milliseconds since 1970 to units of 100 nanoseconds since 1601, as in `pwdLastSet`.
fn ticks(now: StoreTime) -> u64 {
    now.saturating_add(11_644_473_600_000).saturating_mul(10_000)
}

fn absent() -> LdapFault {
    LdapFault {
        result_code: Some(32),
        ..LdapFault::new(LdapFaultCode::NotFound, "there is no such entry")
    }
}

fn refused(code: u32, why: &str) -> LdapFault {
    LdapFault { result_code: Some(code), ..LdapFault::new(LdapFaultCode::Refused, why) }
}

fn rejected(code: u32, why: &str) -> LdapFault {
    LdapFault { result_code: Some(code), ..LdapFault::new(LdapFaultCode::RefusedChange, why) }
}

/// Converts a failure of the script: a server that is unreachable or too slow, or a dead process.
fn of_script(failure: &Failure, has_happened: bool) -> LdapFault {
    let code = match failure.kind {
        FailureKind::TimedOut => LdapFaultCode::TimedOut,
        FailureKind::PermissionDenied => LdapFaultCode::PermissionDenied,
        FailureKind::InvalidRequest => LdapFaultCode::InvalidRequest,
        _ => LdapFaultCode::Unreachable,
    };
    LdapFault { may_have_happened: has_happened, ..LdapFault::new(code, failure.message.clone()) }
}

#[cfg(test)]
mod tests;

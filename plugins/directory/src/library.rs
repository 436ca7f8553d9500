//! `library/{name}`: sets of accounts that are lent.
//!
//! The attacks this file stops: an account in two sets, under two names, so that one borrower ends
//! another's loan; and a set that is changed or removed under a borrower.

mod check_in;
mod check_out;
mod loan;
mod status;

use crate::account::Account;
use crate::config::Config;
use crate::directory::{Directory, Found, Identity};
use crate::rotation;
use bulkhead_sdk::table::Field;
use bulkhead_sdk::wire::duration::show;
use bulkhead_sdk::wire::failure::quoted;
use bulkhead_sdk::{Answer, Call, Failure, Host, stored};
pub(crate) use check_in::{forced, own};
pub(crate) use check_out::write as check_out;
pub(crate) use loan::{Loan, renew, revoke};
use serde::{Deserialize, Serialize};
use serde_json::json;
pub(crate) use status::read as status;

/// Most accounts of a set.
const MOST: usize = 500;
/// Most accounts whose password is changed by one write: each is guarded, and a call guards 64.
const MOST_ROTATED: usize = 60;
/// Seconds that an account is lent, and renewed, unless said.
const DAY: i64 = 86_400;

/// What a set is made of.
pub(crate) const FIELDS: &[Field] = &[
    Field::words(
        "service_account_names",
        "the accounts of the set, used nowhere else; DNs as a list",
    )
    .required(),
    Field::seconds("ttl", "seconds that an account is lent; 0 is without end").or_whole(DAY),
    Field::seconds("max_ttl", "seconds with all renewals; 0 is without end").or_whole(DAY),
    Field::flag("disable_check_in_enforcement", "any caller may check in what another has"),
];
/// What a check-out is asked with.
pub(crate) const CHECK_OUT_FIELDS: &[Field] =
    &[Field::seconds("ttl", "seconds to lend for; 0 and more than the set's is the set's")];
/// What a check-in is asked with.
pub(crate) const CHECK_IN_FIELDS: &[Field] =
    &[Field::words("service_account_names", "the accounts; needed where several are lent")];

/// A set.
#[derive(Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Set {
    /// In the order in which they are lent.
    members: Vec<Member>,
    /// Seconds; 0 is without end.
    ttl: u64,
    /// Seconds; 0 is without end.
    max_ttl: u64,
    disable_check_in_enforcement: bool,
}

stored!(Set, "set", reads_stored_sets);

/// An account of a set.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Member {
    /// As it was written.
    name: String,
    account: Identity,
}

impl Set {
    fn key(name: &str) -> String {
        format!("set/{name}")
    }

    /// The set `name`, if there is one.
    pub(crate) fn find(host: &dyn Host, name: &str) -> Result<Option<Self>, Failure> {
        host.storage().get(&Self::key(name))
    }

    /// The set that a path names.
    ///
    /// # Errors
    /// Invalid request where there is none.
    fn require(host: &dyn Host, call: &Call) -> Result<Self, Failure> {
        let name = call.text("name");
        let unknown = || {
            let (shown, path) = (quoted(name), &call.mount.path);
            Failure::invalid(format!("there is no set {shown}; write {path}library/{name} first"))
        };
        Self::find(host, name)?.ok_or_else(unknown)
    }

    /// Whether the account is one of its own.
    pub(crate) fn has(&self, account: &Identity) -> bool {
        self.members.iter().any(|member| member.account == *account)
    }

    /// The member of that name, whose letters have no case.
    fn called(&self, name: &str) -> Option<&Member> {
        let name = name.to_lowercase();
        self.members.iter().find(|member| member.name.to_lowercase() == name)
    }

    /// The account of a member.
    ///
    /// # Errors
    /// Internal where it is not stored: set and accounts are stored together.
    fn account(host: &dyn Host, member: &Member) -> Result<Account, Failure> {
        let name = quoted(&member.name);
        let lost = || Failure::internal(format!("{name} is not stored; write the set again"));
        Account::find(host, &member.account)?.ok_or_else(lost)
    }

    fn merge(&mut self, call: &Call) -> Result<(), Failure> {
        call.merge("ttl", &mut self.ttl)?;
        call.merge("max_ttl", &mut self.max_ttl)?;
        call.merge("disable_check_in_enforcement", &mut self.disable_check_in_enforcement)?;
        if self.max_ttl > 0 && self.max_ttl < self.ttl {
            let (ttl, max) = (show(self.ttl), show(self.max_ttl));
            return Err(Failure::invalid(format!("max_ttl {max} is less than ttl {ttl}")));
        }
        Ok(())
    }
}

/// Creates or changes a set. The password of each new account is changed before the set is there.
pub(crate) fn write(host: &dyn Host, call: &Call) -> Result<Answer, Failure> {
    let config = Config::require(host, &call.mount)?;
    let name = call.text("name");
    let before = Set::find(host, name)?.unwrap_or_default();
    let mut set = before.clone();
    set.merge(call)?;
    if call.is_given("service_account_names") {
        set.members = members(host, &config, call, &before)?;
        check_removed(host, &before, &set)?;
    }
    let unready = unready(host, &set)?;
    if unready.len() > MOST_ROTATED {
        return Err(Failure::invalid(format!(
            "{} accounts are new in the set; add at most {MOST_ROTATED} at a time",
            unready.len()
        )));
    }
    for member in unready {
        take_over(host, &config, name, &member)?;
    }
    finish(host, name, &before, &set)?;
    Ok(Answer::nothing())
}

/// The members of a list of names: those that are members already stay as they are, the others are
/// looked up.
fn members(
    host: &dyn Host,
    config: &Config,
    call: &Call,
    before: &Set,
) -> Result<Vec<Member>, Failure> {
    let names = call.list("service_account_names");
    if names.is_empty() || names.len() > MOST {
        return Err(Failure::invalid(format!(
            "service_account_names names {} accounts; name 1 to {MOST}",
            names.len()
        )));
    }
    if !config.has_login() {
        return Err(Failure::invalid(
            "a set needs binddn and bindpass: with self_rotation alone the engine does not know \
             the first password of its accounts",
        ));
    }
    let directory = Directory::new(host, config);
    let mut members: Vec<Member> = Vec::new();
    for name in names {
        let member = match before.called(&name) {
            Some(known) => known.clone(),
            None => Member { account: look_up(host, call, &directory, &name)?.identity, name },
        };
        if let Some(twice) = members.iter().find(|known| known.account == member.account) {
            let (one, other) = (quoted(&twice.name), quoted(&member.name));
            return Err(Failure::invalid(format!("{one} and {other} are the same account")));
        }
        members.push(member);
    }
    Ok(members)
}

fn look_up(
    host: &dyn Host,
    call: &Call,
    directory: &Directory<'_>,
    name: &str,
) -> Result<Found, Failure> {
    let found = directory.find(name)?;
    let account = Account::of(host, &found)?;
    account.check_free_for_set(host, &found.identity, name, call.text("name"))?;
    Ok(found)
}

/// Nothing is taken from a borrower.
fn check_removed(host: &dyn Host, before: &Set, set: &Set) -> Result<(), Failure> {
    for member in before.members.iter().filter(|member| !set.has(&member.account)) {
        check_home(host, member)?;
    }
    Ok(())
}

fn check_home(host: &dyn Host, member: &Member) -> Result<(), Failure> {
    match Set::account(host, member)?.loan {
        None => Ok(()),
        Some(_) => Err(Failure::invalid(format!(
            "{} cannot be removed because it is checked out; check it in first",
            quoted(&member.name)
        ))),
    }
}

/// Members whose password the engine does not know.
fn unready(host: &dyn Host, set: &Set) -> Result<Vec<Member>, Failure> {
    let mut unready = Vec::new();
    for member in &set.members {
        let account = Account::find(host, &member.account)?;
        let is_ready = account.is_some_and(|account| account.current.is_some());
        if !is_ready {
            unready.push(member.clone());
        }
    }
    Ok(unready)
}

/// Changes the password of an account that comes into the set, and notes that it is to be the set's:
/// it is, once the set has it.
fn take_over(host: &dyn Host, config: &Config, set: &str, member: &Member) -> Result<(), Failure> {
    let found = match Account::find(host, &member.account)? {
        Some(known) => rotation::find_again(host, config, &member.account, &known)?,
        None => None,
    };
    let found = match found {
        Some(found) => found,
        None => Directory::new(host, config).find(&member.name)?,
    };
    let mut account = Account::of(host, &found)?;
    account.check_free_for_set(host, &found.identity, &member.name, set)?;
    if found.identity != member.account {
        let name = quoted(&member.name);
        return Err(Failure::invalid(format!(
            "{name} is another entry than it was; take it out of the set and add it again"
        )));
    }
    set.clone_into(&mut account.set);
    rotation::rotate(host, config, &member.account, &account, "").map(drop)
}

/// Stores the set with its accounts, in the commit that ends the call. Whoever came first has an
/// account.
fn finish(host: &dyn Host, name: &str, before: &Set, set: &Set) -> Result<(), Failure> {
    for member in &set.members {
        let mut account = Set::account(host, member)?;
        account.check_free_for_set(host, &member.account, &member.name, name)?;
        name.clone_into(&mut account.set);
        account.store(host, &member.account)?;
    }
    let now = Set::find(host, name)?.unwrap_or_default();
    if now.members != before.members {
        return Err(Failure::invalid(format!(
            "set {} was changed meanwhile; read it, and write it again",
            quoted(name)
        )));
    }
    for member in before.members.iter().filter(|member| !set.has(&member.account)) {
        check_home(host, member)?;
        Account::forget(host, &member.account)?;
    }
    host.storage().put(&Set::key(name), set)
}

/// Shows a set.
pub(crate) fn read(host: &dyn Host, call: &Call) -> Result<Answer, Failure> {
    let set = Set::find(host, call.text("name"))?.ok_or_else(Failure::absent)?;
    let names: Vec<&String> = set.members.iter().map(|member| &member.name).collect();
    Answer::data(&json!({
        "service_account_names": names,
        "ttl": set.ttl,
        "max_ttl": set.max_ttl,
        "disable_check_in_enforcement": set.disable_check_in_enforcement,
    }))
}

/// Removes a set of which nothing is lent. The passwords of its accounts stay as they are.
pub(crate) fn delete(host: &dyn Host, call: &Call) -> Result<Answer, Failure> {
    let name = call.text("name");
    let Some(set) = Set::find(host, name)? else { return Ok(Answer::nothing()) };
    set.members.iter().try_for_each(|member| check_home(host, member))?;
    for member in &set.members {
        Account::forget(host, &member.account)?;
    }
    host.storage().delete(&Set::key(name))?;
    Ok(Answer::nothing())
}

#[cfg(test)]
mod tests;

//! The endpoint `library/{name}`: sets of lendable accounts.
//!
//! This file prevents an account from being in two sets under two names, so that one borrower ends
//! another's loan, and prevents changing or removing a set while its accounts are lent.

mod check_in;
mod check_out;
mod lease;
mod status;

use crate::account::{Account, forgotten, unidentified};
use crate::directory::{DirectoryClient, EntryId};
use crate::set::{MOST_ROTATED, Set, SetMember};
use crate::settings::Config;
use crate::{presence, rotation};
use bulkhead_sdk::table::Field;
use bulkhead_sdk::wire::duration::show;
use bulkhead_sdk::wire::failure::quoted;
use bulkhead_sdk::{Answer, Call, Failure, Host};
pub(crate) use check_in::{forced, own};
pub(crate) use check_out::write as check_out;
pub(crate) use lease::{renew, revoke};
use serde_json::json;
pub(crate) use status::read as status;

/// Maximum number of accounts in a set.
const MOST: usize = 500;
/// Default for ttl and max_ttl, in seconds.
const DAY: i64 = 86_400;

/// Fields of a set.
pub(crate) const FIELDS: &[Field] = &[
    Field::words(
        "service_account_names",
        "the accounts of the set, used nowhere else; DNs as a list",
    )
    .required(),
    Field::seconds("ttl", "maximum loan in seconds; 0: without end").or_whole(DAY),
    Field::seconds("max_ttl", "seconds with all renewals; 0 is without end").or_whole(DAY),
    Field::flag(
        "disable_check_in_enforcement",
        "any caller may check in accounts of other borrowers",
    ),
];
/// Fields of a check-out.
pub(crate) const CHECK_OUT_FIELDS: &[Field] = &[Field::seconds(
    "ttl",
    "loan in seconds; 0 or more than the set's maximum: the set's maximum",
)];
/// Fields of a check-in.
pub(crate) const CHECK_IN_FIELDS: &[Field] =
    &[Field::words("service_account_names", "the accounts; needed where several are lent")];

impl Set {
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

impl Account {
    /// Refuses an account that belongs to another set or to a role.
    ///
    /// # Errors
    /// Invalid request that names the owner.
    pub(crate) fn check_free_for_set(
        &self,
        host: &dyn Host,
        identity: &EntryId,
        name: &str,
        set: &str,
    ) -> Result<(), Failure> {
        if let Some(role) = self.roles.first() {
            return Err(managed(name, "role", role));
        }
        let owner = self.set_of(host, identity)?.filter(|owner| owner != set);
        owner.map_or(Ok(()), |owner| Err(managed(name, "set", &owner)))
    }

    /// Refuses an account that belongs to a set.
    ///
    /// # Errors
    /// Invalid request that names the set.
    pub(crate) fn check_free_for_role(
        &self,
        host: &dyn Host,
        identity: &EntryId,
        name: &str,
    ) -> Result<(), Failure> {
        let owner = self.set_of(host, identity)?;
        owner.map_or(Ok(()), |owner| Err(managed(name, "set", &owner)))
    }

    /// Returns the set that owns the account. The name in the record is not enough: if a write of
    /// the set was interrupted, the stored set does not contain the account.
    fn set_of(&self, host: &dyn Host, identity: &EntryId) -> Result<Option<String>, Failure> {
        if self.set.is_empty() {
            return Ok(None);
        }
        let has_it = Set::find(host, &self.set)?.is_some_and(|set| set.has(identity));
        Ok(has_it.then(|| self.set.clone()))
    }
}

fn managed(name: &str, kind: &str, owner: &str) -> Failure {
    let (name, owner) = (quoted(name), quoted(owner));
    Failure::invalid(format!(
        "{name} is already managed by {kind} {owner}; an account belongs to a single role or set"
    ))
}

/// Creates or changes a set. Changes the password of each new account before the set is stored.
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
    let unready = unready(host, &before, &set)?;
    if unready.len() > MOST_ROTATED {
        return Err(Failure::invalid(format!(
            "{} accounts are new in the set; add at most {MOST_ROTATED} at a time",
            unready.len()
        )));
    }
    let mut without_id = Vec::new();
    for member in &unready {
        if !take_over(host, &config, name, member)? {
            without_id.push(member.name.as_str());
        }
    }
    let removed = finish(host, name, &before, &set)?;
    Ok(Answer::nothing().warn(unidentified(&without_id)).warn(forgotten(&removed)))
}

/// Resolves the listed names. Names of present members keep their account; the other names are
/// looked up in the directory.
fn members(
    host: &dyn Host,
    config: &Config,
    call: &Call,
    before: &Set,
) -> Result<Vec<SetMember>, Failure> {
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
             the first password of the accounts",
        ));
    }
    let directory = DirectoryClient::new(host, config);
    let mut members: Vec<SetMember> = Vec::new();
    for name in names {
        let member = match before.member_named(&name) {
            Some(member) => member.clone(),
            None => SetMember { account: look_up(host, call, &directory, &name)?, name },
        };
        if let Some(twice) = members.iter().find(|other| other.account == member.account) {
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
    directory: &DirectoryClient<'_>,
    name: &str,
) -> Result<EntryId, Failure> {
    let found = directory.find(name)?;
    let identity = Account::identity_of(host, &found)?;
    let account = Account::of(host, &identity, &found)?;
    account.check_free_for_set(host, &identity, name, call.text("name"))?;
    Ok(identity)
}

/// Refuses to remove a lent account.
fn check_removed(host: &dyn Host, before: &Set, set: &Set) -> Result<(), Failure> {
    for member in before.members.iter().filter(|member| !set.has(&member.account)) {
        check_home(host, member)?;
    }
    Ok(())
}

fn check_home(host: &dyn Host, member: &SetMember) -> Result<(), Failure> {
    match Set::account(host, member)?.loan {
        None => Ok(()),
        Some(_) => Err(Failure::invalid(format!(
            "{} cannot be removed because the account is checked out; check the account in first",
            quoted(&member.name)
        ))),
    }
}

/// Returns the members that need a new password first: new members, and members with an unknown
/// password. A password that the engine knew before the account joined the set is not reused.
fn unready(host: &dyn Host, before: &Set, set: &Set) -> Result<Vec<SetMember>, Failure> {
    let mut unready = Vec::new();
    for member in &set.members {
        let account = Account::find(host, &member.account)?;
        let is_known = account.is_some_and(|account| account.current.is_some());
        if !is_known || !before.has(&member.account) {
            unready.push(member.clone());
        }
    }
    Ok(unready)
}

/// Changes the password of a new member, and records the set in the account. The account belongs to
/// the set only when the set is stored. Returns false if the directory shows no id of the entry.
fn take_over(
    host: &dyn Host,
    config: &Config,
    set: &str,
    member: &SetMember,
) -> Result<bool, Failure> {
    let found = match Account::find(host, &member.account)? {
        Some(account) => presence::find_again(host, config, &member.account, &account)?.found(),
        None => None,
    };
    let found = match found {
        Some(found) => found,
        None => DirectoryClient::new(host, config).find(&member.name)?,
    };
    let identity = Account::identity_of(host, &found)?;
    let mut account = Account::of(host, &identity, &found)?;
    account.check_free_for_set(host, &identity, &member.name, set)?;
    if identity != member.account {
        let name = quoted(&member.name);
        return Err(Failure::invalid(format!(
            "{name} is another entry than before; take the account out of the set, then add the \
             account again"
        )));
    }
    set.clone_into(&mut account.set);
    let account = rotation::rotate(host, config, &member.account, &account, "")?;
    Ok(account.entry_id(&member.account).is_given())
}

/// Stores the set and its accounts in the commit that ends the call. If another set took an account
/// meanwhile, the account stays with that set and the write fails. Returns the names of removed
/// accounts for which a stored password is deleted.
fn finish<'a>(
    host: &dyn Host,
    name: &str,
    before: &'a Set,
    set: &Set,
) -> Result<Vec<&'a str>, Failure> {
    for member in &set.members {
        let mut account = Set::account(host, member)?;
        account.check_free_for_set(host, &member.account, &member.name, name)?;
        name.clone_into(&mut account.set);
        account.store(host, &member.account)?;
    }
    let now = Set::find(host, name)?.unwrap_or_default();
    if now.members != before.members {
        return Err(Failure::invalid(format!(
            "set {} was changed meanwhile; read the set, and write again",
            quoted(name)
        )));
    }
    let mut removed = Vec::new();
    for member in before.members.iter().filter(|member| !set.has(&member.account)) {
        check_home(host, member)?;
        removed.extend(forget(host, member)?);
    }
    host.storage().put(&Set::key(name), set)?;
    Ok(removed)
}

/// Deletes the account of a member. Returns the member's name if a password is deleted with the
/// account.
fn forget<'a>(host: &dyn Host, member: &'a SetMember) -> Result<Option<&'a str>, Failure> {
    let account = Set::account(host, member)?;
    Account::forget(host, &member.account)?;
    Ok(account.current.map(|_| member.name.as_str()))
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

/// Removes a set without lent accounts. The passwords of its accounts stay in force in the
/// directory.
pub(crate) fn delete(host: &dyn Host, call: &Call) -> Result<Answer, Failure> {
    let name = call.text("name");
    let Some(set) = Set::find(host, name)? else { return Ok(Answer::nothing()) };
    set.members.iter().try_for_each(|member| check_home(host, member))?;
    let removed = set.members.iter().map(|member| forget(host, member));
    let removed: Vec<&str> = removed.filter_map(Result::transpose).collect::<Result<_, _>>()?;
    host.storage().delete(&Set::key(name))?;
    Ok(Answer::nothing().warn(forgotten(&removed)))
}

#[cfg(test)]
mod tests;

//! The endpoints `library/{name}/check-in` and `library/manage/{name}/check-in`: end a loan by
//! changing the account's password.
//!
//! This file prevents a caller from checking in another borrower's account, and from checking in an
//! account through a set that does not contain the account. The loan ends in the commit that stores
//! the new password, so that no borrower keeps a valid password.

use crate::account::{Account, note_failed_return};
use crate::directory::EntryId;
use crate::set::{MOST_ROTATED, Set, SetMember};
use crate::settings::Config;
use crate::{presence, rotation};
use bulkhead_sdk::host::LogLevel;
use bulkhead_sdk::wire::distinct::first_of_each;
use bulkhead_sdk::wire::failure::quoted;
use bulkhead_sdk::{Answer, Call, Failure, Host};
use serde_json::json;

/// Checks in the caller's accounts.
pub(crate) fn own(host: &dyn Host, call: &Call) -> Result<Answer, Failure> {
    let set = Set::require(host, call)?;
    let is_enforced = !set.disable_check_in_enforcement;
    check_in(host, call, &set, is_enforced)
}

/// Checks in accounts of any borrower. The path is meant for administrators.
pub(crate) fn forced(host: &dyn Host, call: &Call) -> Result<Answer, Failure> {
    let set = Set::require(host, call)?;
    check_in(host, call, &set, false)
}

fn check_in(host: &dyn Host, call: &Call, set: &Set, is_enforced: bool) -> Result<Answer, Failure> {
    let names = call.list("service_account_names");
    let members = match names.is_empty() {
        true => only_one_lent(host, call, set, is_enforced)?,
        false => named(host, call, set, is_enforced, &names)?,
    };
    let config = match members.is_empty() {
        true => return Answer::data(&json!({ "check_ins": [] })),
        false => Config::require(host, &call.mount)?,
    };
    let mut done: Vec<&str> = Vec::new();
    for member in members {
        let account = Set::account(host, member)?;
        let returned = match account.loan.is_some() {
            true => give_back(host, &config, &member.account, account),
            false => continue,
        };
        returned.map_err(|why| with_checked_in(&done, member, why))?;
        done.push(&member.name);
    }
    Answer::data(&json!({ "check_ins": done }))
}

/// Returns the lent account that the caller may check in, if there is only one; empty for none.
///
/// # Errors
/// Invalid request if the caller may check in several accounts.
fn only_one_lent<'a>(
    host: &dyn Host,
    call: &Call,
    set: &'a Set,
    is_enforced: bool,
) -> Result<Vec<&'a SetMember>, Failure> {
    let mut lent = Vec::new();
    for member in &set.members {
        let loan = Set::account(host, member)?.loan;
        if loan.is_some_and(|loan| !is_enforced || loan.is_of(&call.caller)) {
            lent.push(member);
        }
    }
    match lent.len() {
        0 | 1 => Ok(lent),
        _ => Err(Failure::invalid(
            "several accounts are checked out: say in service_account_names which to check in",
        )),
    }
}

/// Returns the lent accounts among `names`. If the caller may not check in an account, nothing is
/// checked in.
fn named<'a>(
    host: &dyn Host,
    call: &Call,
    set: &'a Set,
    is_enforced: bool,
    names: &[String],
) -> Result<Vec<&'a SetMember>, Failure> {
    let mut lent: Vec<&SetMember> = Vec::new();
    for name in first_of_each(names) {
        let shown = quoted(name);
        let unknown = || Failure::invalid(format!("{shown} is not an account of this set"));
        let member = set.member_named(name).ok_or_else(unknown)?;
        let Some(loan) = Set::account(host, member)?.loan else { continue };
        if is_enforced && !loan.is_of(&call.caller) {
            return Err(Failure::invalid(format!(
                "{shown} is not checked out by this caller and cannot be checked in"
            )));
        }
        if !lent.contains(&member) {
            lent.push(member);
        }
    }
    match lent.len() > MOST_ROTATED {
        true => Err(Failure::invalid(format!("name at most {MOST_ROTATED} accounts at a time"))),
        false => Ok(lent),
    }
}

/// Changes the password of a lent account, and ends the loan with that. If the account is proven to
/// be gone from the directory, forgets its password and ends the loan; the account is not lent any
/// more. After a failure the loan stays, and the status of the set shows the reason.
pub(super) fn give_back(
    host: &dyn Host,
    config: &Config,
    identity: &EntryId,
    account: Account,
) -> Result<(), Failure> {
    let Some(loan) = account.loan.clone() else { return Ok(()) };
    let stays = |why: &Failure| note_failed_return(host, identity, &loan.id, why);
    let sighting = presence::find_again(host, config, identity, &account).inspect_err(stays)?;
    let Some(found) = sighting.found() else {
        presence::prove_gone(host, config, identity, &account).inspect_err(stays)?;
        return retire(host, identity, account);
    };
    let account = account.seen(identity, &found);
    rotation::rotate(host, config, identity, &account, &loan.id).map(drop)
}

fn retire(host: &dyn Host, identity: &EntryId, mut account: Account) -> Result<(), Failure> {
    host.log().write(LogLevel::Warn, "lent-account-missing", &[("account", &account.dn)]);
    account.current = None;
    account.end_loan(host)?;
    account.store(host, identity)?;
    // A failure at a later account of the same request must not bring the loan back.
    host.storage().checkpoint().map(drop)
}

/// Adds the accounts that were checked in before to the failure's message.
fn with_checked_in(done: &[&str], failed: &SetMember, why: Failure) -> Failure {
    let before = match done.is_empty() {
        true => "no other account was checked in".to_owned(),
        false => format!("checked in before: {}", done.join(", ")),
    };
    let message = format!("{}: {} ({before})", quoted(&failed.name), why.message);
    Failure { message, ..why }
}

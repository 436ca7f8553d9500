//! Presence of an account in the directory: the account is found again, is proven to be gone, or
//! neither.
//!
//! This file prevents the end of a loan or of a rotation because a search finds nothing: a right
//! may be missing, others may have moved the account, or the configuration leads to another
//! directory. A refused login at the former DN alone proves nothing, because a moved account
//! refuses it too.

use crate::account::Account;
use crate::directory::{DirectoryClient, DnHolder, EntryId, PasswordProof, Sighting};
use crate::settings::Config;
use bulkhead_sdk::database_plugin::StoreTime;
use bulkhead_sdk::wire::failure::quoted;
use bulkhead_sdk::{Failure, Host};

/// Finds the account's entry again, by the engine's login or, without one, the account's own.
///
/// # Errors
/// A refusal of the directory. Invalid request if the entry at the account's DN does not show
/// whether it is the account.
pub(crate) fn find_again(
    host: &dyn Host,
    config: &Config,
    identity: &EntryId,
    account: &Account,
) -> Result<Sighting, Failure> {
    looking(host, config, account)?.find_again(account.known_entry(identity))
}

/// Proves that an account is gone from the directory (decision D17): the searches of
/// [`DirectoryClient::prove_absent`] find nothing, at servers from which the account has its
/// password, and either another account has its DN, or the DN refuses the password.
///
/// # Errors
/// Invalid request with the missing part of the proof. Unreachable if the account got its password
/// from other servers.
pub(crate) fn prove_gone(
    host: &dyn Host,
    config: &Config,
    identity: &EntryId,
    account: &Account,
) -> Result<(), Failure> {
    let Account { dn, known_servers, .. } = account;
    let directory = DirectoryClient::new(host, config).narrowed_to(known_servers.as_ref(), dn)?;
    if directory.prove_absent(account.known_entry(identity))? == DnHolder::OtherAccount {
        // A login would count as a wrong password of the other account.
        return Ok(());
    }
    let Some(current) = &account.current else { return Ok(()) };
    match directory.prove(dn, current)? {
        PasswordProof::NotInForce => Ok(()),
        PasswordProof::InForce => Err(Failure::invalid(format!(
            "no search finds {}, although the account can log in: let binddn read the entry and \
             entryUUID or objectGUID",
            quoted(dn)
        ))),
        PasswordProof::CannotTell => Err(Failure::invalid(format!(
            "no search finds {}, and a login there does not tell whether the password is in force: \
             unlock the account, and let binddn read the entry",
            quoted(dn)
        ))),
    }
}

/// Returns the account with the present DN of its entry, and the directory's time of the last
/// password change.
///
/// # Errors
/// Invalid request if no search finds the entry. A refusal of the directory.
pub(crate) fn refresh_account(
    host: &dyn Host,
    config: &Config,
    identity: &EntryId,
    account: Account,
) -> Result<(Account, Option<StoreTime>), Failure> {
    let dn = quoted(&account.dn);
    match find_again(host, config, identity, &account)? {
        Sighting::Found(found) => Ok((account.seen(identity, &found), found.changed)),
        Sighting::NotFound(DnHolder::OtherAccount) => Err(Failure::invalid(format!(
            "the account that was {dn} is not in the directory any more; another account has the \
             DN now and is left alone; write the role or set with the intended account"
        ))),
        Sighting::NotFound(DnHolder::NotSeen) => Err(Failure::invalid(format!(
            "the account that was {dn} is not in the directory any more, or binddn may not see it"
        ))),
    }
}

/// Returns the directory by the engine's login or, without one, the account's own.
///
/// # Errors
/// Unreachable if the account logs in, and the configuration contains none of its servers.
pub(crate) fn looking<'a>(
    host: &'a dyn Host,
    config: &'a Config,
    account: &Account,
) -> Result<DirectoryClient<'a>, Failure> {
    match &account.current {
        Some(current) if !config.has_login() => by_account(host, config, account, current),
        _ => Ok(DirectoryClient::new(host, config)),
    }
}

/// Uses the login of an account, at the servers that may see its password.
///
/// # Errors
/// Unreachable if the configuration contains no such server.
pub(crate) fn by_account<'a>(
    host: &'a dyn Host,
    config: &'a Config,
    account: &Account,
    current: &str,
) -> Result<DirectoryClient<'a>, Failure> {
    let Account { dn, known_servers, .. } = account;
    DirectoryClient::as_account(host, config, dn, current).narrowed_to(known_servers.as_ref(), dn)
}

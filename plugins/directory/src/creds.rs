//! The endpoint `creds/{name}`: returns the password of a role's account, and rotates the password
//! first if a rotation is due.
//!
//! This file prevents handing out a password that is not in force any more. If the directory
//! reports a change that the engine did not make, the engine rotates the password before showing
//! it.

use crate::account::Account;
use crate::roles::Role;
use crate::settings::Config;
use crate::{presence, rotation};
use bulkhead_sdk::database_plugin::StoreTime;
use bulkhead_sdk::host::LogLevel;
use bulkhead_sdk::wire::failure::quoted;
use bulkhead_sdk::{Answer, Call, Failure, FailureKind, Host};
use serde_json::{Map, json};

/// Milliseconds after which the caller should retry while a change is under way.
const RETRY_AFTER_MS: u64 = 1_000;

/// The reason to rotate a password before showing it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RotationReason {
    /// The engine does not know the password.
    Unknown,
    /// The password was changed outside the engine.
    OutOfBand,
    /// The role's ttl is over.
    Expired,
}

/// Returns the password of the role's account.
pub(crate) fn read(host: &dyn Host, call: &Call) -> Result<Answer, Failure> {
    let name = call.text("name");
    let role = Role::find(host, name)?.ok_or_else(Failure::absent)?;
    let config = Config::require(host, &call.mount)?;
    check_settled(host, &role)?;
    let (account, changed) =
        presence::refresh_account(host, &config, &role.account, role.account(host)?)?;
    let ttl = if role.ttl == 0 { config.ttl(&call.mount) } else { role.ttl };
    let account = match why_due(&account, &config, changed, ttl, host.clock().now()) {
        None => account,
        Some(why) => rotate(host, &config, &role, account, why)?,
    };
    answer(&role, &account)
}

/// Refuses the request while a change is under way, because the password in force is then unknown.
/// Waits for a change in progress in another call, but not for an interrupted change.
fn check_settled(host: &dyn Host, role: &Role) -> Result<(), Failure> {
    if !rotation::is_open(host, &role.account)? {
        return Ok(());
    }
    rotation::wait_for(host, &role.account)?;
    if !rotation::is_open(host, &role.account)? {
        return Ok(());
    }
    let message = format!(
        "the password of {} is being rotated; ask again",
        quoted(&role.service_account_name)
    );
    Err(Failure {
        retry_after: Some(RETRY_AFTER_MS),
        ..Failure::new(FailureKind::Unavailable, message)
    })
}

/// Returns the first reason that applies. A change counts as made outside the engine if the
/// directory's time of change differs from the time read after the engine's own change, and is
/// later than the engine's change by more than the tolerance for the directory's clock.
fn why_due(
    account: &Account,
    config: &Config,
    changed: Option<StoreTime>,
    ttl: u64,
    now: StoreTime,
) -> Option<RotationReason> {
    let Some(rotated) = account.rotated.filter(|_| account.current.is_some()) else {
        return Some(RotationReason::Unknown);
    };
    let after = |seconds: u64| rotated.saturating_add(seconds.saturating_mul(1_000));
    let is_others = changed != account.directory_rotated
        && changed.is_some_and(|changed| changed > after(config.last_rotation_tolerance));
    if is_others {
        return Some(RotationReason::OutOfBand);
    }
    (now > after(ttl)).then_some(RotationReason::Expired)
}

fn rotate(
    host: &dyn Host,
    config: &Config,
    role: &Role,
    account: Account,
    why: RotationReason,
) -> Result<Account, Failure> {
    if why != RotationReason::OutOfBand {
        return rotation::rotate(host, config, &role.account, &account, "");
    }
    let name = &role.service_account_name;
    host.log().write(LogLevel::Warn, "password-changed-outside", &[("account", name)]);
    // The password set outside is unknown, and the password shown before is no longer in force.
    let account = Account { current: None, ..account };
    rotation::rotate(host, config, &role.account, &account, "")
}

fn answer(role: &Role, account: &Account) -> Result<Answer, Failure> {
    let name = &role.service_account_name;
    let username = name.split_once('@').map_or(name.as_str(), |(user, _)| user);
    let lost = || Failure::internal("the password stored just now is missing");
    let current = account.current.as_ref().ok_or_else(lost)?;
    let mut shown = Map::from_iter([
        ("username".to_owned(), json!(username)),
        ("current_password".to_owned(), json!(current)),
    ]);
    if let Some(last) = &account.last {
        shown.insert("last_password".to_owned(), json!(last));
    }
    Answer::data(&shown)
}

#[cfg(test)]
mod tests;

//! The endpoint `roles/{name}`: a role gives callers the password of one account.

use crate::account::{Account, forgotten, unidentified};
use crate::directory::{DirectoryClient, EntryId, FoundAccount, PasswordProof};
use crate::known_servers::KnownServers;
use crate::settings::Config;
use crate::{presence, rotation, times};
use bulkhead_sdk::table::Field;
use bulkhead_sdk::wire::duration::show;
use bulkhead_sdk::wire::failure::quoted;
use bulkhead_sdk::{Answer, Call, Failure, Host, stored};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

/// Key prefix of roles.
pub(crate) const PREFIX: &str = "role/";
/// Number of names read at a time.
const PAGE: u32 = 1_000;

/// Fields of a role.
pub(crate) const FIELDS: &[Field] = &[
    Field::text("service_account_name", "the account: a user principal name, short name, or DN")
        .required(),
    Field::seconds("ttl", "seconds between rotations of the password; 0: the ttl of config"),
    Field::text("password", "the account's present password, where accounts rotate themselves")
        .secret(),
];

/// A stored role.
#[derive(Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Role {
    /// Name of the account as written by the operator.
    pub(crate) service_account_name: String,
    pub(crate) account: EntryId,
    /// Seconds; 0 means the configuration's value.
    pub(crate) ttl: u64,
}

stored!(Role, "role", reads_stored_roles);

impl Role {
    fn key(name: &str) -> String {
        format!("{PREFIX}{name}")
    }

    /// Returns the role `name`, if there is one.
    pub(crate) fn find(host: &dyn Host, name: &str) -> Result<Option<Self>, Failure> {
        host.storage().get(&Self::key(name))
    }

    /// Returns the role's account.
    ///
    /// # Errors
    /// Internal if the account is not stored: a role and its account are stored together.
    pub(crate) fn account(&self, host: &dyn Host) -> Result<Account, Failure> {
        let lost = || Failure::internal("the role's account is not stored; write the role again");
        Account::find(host, &self.account)?.ok_or_else(lost)
    }
}

/// Creates or changes a role. The account's password stays unchanged.
pub(crate) fn write(host: &dyn Host, call: &Call) -> Result<Answer, Failure> {
    let config = Config::require(host, &call.mount)?;
    let name = call.text("name");
    let before = Role::find(host, name)?;
    let (mut account_name, mut ttl) = match &before {
        Some(role) => (role.service_account_name.clone(), role.ttl),
        None => (String::new(), 0),
    };
    call.merge("service_account_name", &mut account_name)?;
    call.merge("ttl", &mut ttl)?;
    let account_name = account_name.trim().to_owned();
    if account_name.is_empty() {
        return Err(Failure::invalid("service_account_name is required: name the role's account"));
    }
    let most = config.max_ttl(&call.mount);
    if ttl > most {
        let (ttl, most) = (show(ttl), show(most));
        return Err(Failure::invalid(format!(
            "ttl {ttl} is longer than the configuration's max_ttl of {most}"
        )));
    }
    let found = look_up(host, &config, &account_name, call, before.as_ref())?;
    let identity = Account::identity_of(host, &found)?;
    let mut account = Account::of(host, &identity, &found)?;
    account.check_free_for_role(host, &identity, &account_name)?;
    account.set = String::new();
    if !account.roles.iter().any(|role| role == name) {
        account.roles.push(name.to_owned());
    }
    take_password(host, &config, call, &mut account)?;
    account.store(host, &identity)?;
    let left = match before.filter(|before| before.account != identity) {
        Some(before) => leave(host, name, &before)?,
        None => None,
    };
    let is_given = account.entry_id(&identity).is_given();
    let role = Role { service_account_name: account_name, account: identity, ttl };
    host.storage().put(&Role::key(name), &role)?;
    let without_id = if is_given { None } else { unidentified(&[&role.service_account_name]) };
    Ok(Answer::nothing().warn(without_id).warn(left))
}

/// Finds the entry of an account. If the engine has no login, the search uses the account's own
/// login, with the given or the stored password.
fn look_up(
    host: &dyn Host,
    config: &Config,
    name: &str,
    call: &Call,
    before: Option<&Role>,
) -> Result<FoundAccount, Failure> {
    if config.has_login() {
        return DirectoryClient::new(host, config).find(name);
    }
    let role = before.filter(|role| role.service_account_name == name);
    let account = role.map(|role| role.account(host)).transpose()?;
    let (password, known_servers) = match (call.text("password"), account) {
        ("", Some(Account { current: Some(current), known_servers, .. })) => {
            (current, known_servers)
        }
        ("", _) => return Err(no_password()),
        (password, _) => (password.to_owned(), None),
    };
    let directory = DirectoryClient::as_account(host, config, name, &password);
    directory.narrowed_to(known_servers.as_ref(), name)?.find(name)
}

/// Stores the given password after testing it by a login. An account that changes its own password
/// needs its present password to do so.
fn take_password(
    host: &dyn Host,
    config: &Config,
    call: &Call,
    account: &mut Account,
) -> Result<(), Failure> {
    let password = call.text("password");
    if !config.self_rotation {
        return match password.is_empty() {
            true => Ok(()),
            false => Err(Failure::invalid("password is for configurations with self_rotation")),
        };
    }
    if password.is_empty() {
        return account.current.as_ref().map_or_else(|| Err(no_password()), |_| Ok(()));
    }
    let proof = DirectoryClient::new(host, config).prove(&account.dn, password)?;
    if proof != PasswordProof::InForce {
        return Err(Failure::invalid("the directory does not take password for this account"));
    }
    account.current = Some(password.to_owned());
    account.known_servers = Some(KnownServers::of(config));
    Ok(())
}

fn no_password() -> Failure {
    Failure::invalid(
        "password is required: with self_rotation an account needs the present password for a \
         change",
    )
}

/// Removes a role from its account, and deletes the account with its last role. Returns a warning
/// if a password is deleted.
fn leave(host: &dyn Host, name: &str, role: &Role) -> Result<Option<String>, Failure> {
    let Some(mut account) = Account::find(host, &role.account)? else { return Ok(None) };
    account.roles.retain(|role| role != name);
    if !account.roles.is_empty() || !account.set.is_empty() {
        account.store(host, &role.account)?;
        return Ok(None);
    }
    Account::forget(host, &role.account)?;
    Ok(account.current.and_then(|_| forgotten(&[&role.service_account_name])))
}

/// Shows a role as stored, without asking the directory.
pub(crate) fn read(host: &dyn Host, call: &Call) -> Result<Answer, Failure> {
    let role = Role::find(host, call.text("name"))?.ok_or_else(Failure::absent)?;
    let ttl = match (role.ttl, Config::find(host)?) {
        (0, Some(config)) => config.ttl(&call.mount),
        (ttl, _) => ttl,
    };
    let account = role.account(host)?;
    let mut shown = Map::from_iter([
        ("service_account_name".to_owned(), json!(role.service_account_name)),
        ("ttl".to_owned(), json!(ttl)),
    ]);
    let mut show = |names: &[&str], time: Option<u64>| {
        if let Some(time) = time.and_then(times::show) {
            shown.extend(names.iter().map(|name| ((*name).to_owned(), Value::from(time.clone()))));
        }
    };
    show(&["last_service_rotation", "last_vault_rotation"], account.rotated);
    show(&["password_last_set"], account.directory_rotated);
    Answer::data(&shown)
}

/// Removes a role. The account's password stays in force in the directory.
pub(crate) fn delete(host: &dyn Host, call: &Call) -> Result<Answer, Failure> {
    let name = call.text("name");
    let Some(role) = Role::find(host, name)? else { return Ok(Answer::nothing()) };
    let left = leave(host, name, &role)?;
    host.storage().delete(&Role::key(name))?;
    Ok(Answer::nothing().warn(left))
}

/// Lists the roles on GET, too (decision D3).
pub(crate) fn list(host: &dyn Host, _call: &Call) -> Result<Answer, Failure> {
    let (mut names, mut after) = (Vec::new(), String::new());
    loop {
        let page = host.storage().keys(PREFIX, &after, PAGE)?;
        let Some(last) = page.last() else { break };
        after.clone_from(last);
        names.extend(page);
    }
    match names.is_empty() {
        true => Err(Failure::absent()),
        false => Answer::data(&json!({ "keys": names })),
    }
}

/// The endpoint `rotate-role/{name}`: rotates now, before the role's ttl is over.
pub(crate) fn rotate(host: &dyn Host, call: &Call) -> Result<Answer, Failure> {
    let name = call.text("name");
    let config = Config::require(host, &call.mount)?;
    let unknown = || {
        let path = &call.mount.path;
        let shown = quoted(name);
        Failure::invalid(format!("there is no role {shown}; write {path}roles/{name} first"))
    };
    let role = Role::find(host, name)?.ok_or_else(unknown)?;
    if rotation::is_open(host, &role.account)? {
        let shown = quoted(name);
        let warning = format!("a rotation for role {shown} is already in progress");
        return Ok(Answer::nothing().warn([warning]));
    }
    let account = role.account(host)?;
    let account = presence::refresh_account(host, &config, &role.account, account)?.0;
    rotation::rotate(host, &config, &role.account, &account, "")?;
    Ok(Answer::nothing())
}

#[cfg(test)]
mod tests;

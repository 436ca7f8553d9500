//! Accounts of a user name. A name may have an account for each host that the user logs in from.
//!
//! This file prevents a renamed account from passing for gone. The server has no identity of an
//! account but name and host; the stored form of a generated password goes with the account when
//! the account is renamed. A user may change the own password, so an account at the recorded place
//! is the user's account with any password.

use crate::settings::ParsedConnection;
use bulkhead_sdk::database_plugin::{
    Account, DatabaseTarget, SqlFailure, SqlHost, is_derived_name,
};
use bulkhead_sdk::wire::distinct::first_of_each;

/// Error numbers of a table or column that the connection's user may not read.
const MAY_NOT_READ: [&str; 2] = ["1142", "1143"];

/// Error numbers of an operation on a missing account, or on a name that is too long for one.
pub(crate) const NO_ACCOUNT: [&str; 4] = ["1133", "1396", "1470", "3162"];

/// Host of an account without an explicit host.
pub(crate) const ANY_HOST: &str = "%";

/// Returns the hosts for which `username` has an account; `None` if the connection's user may not
/// read the accounts.
pub(crate) fn hosts(
    host: &dyn SqlHost,
    connection: &ParsedConnection,
    username: &str,
) -> Result<Option<Vec<String>>, SqlFailure> {
    let query = "SELECT CAST(Host AS CHAR) FROM mysql.user WHERE User = ? ORDER BY 1";
    match host.query_column(&connection.target, query, &[username]) {
        Err(failure) if failure.has_sqlstate(&MAY_NOT_READ) => Ok(None),
        hosts => hosts.map(Some),
    }
}

/// Minimum length of the stored form of a password. Shorter texts are not hashes: an
/// account of RDS IAM has `RDS`, an account of PAM the name of a service, and many accounts share
/// the text.
const MIN_HASH: &str = "40";

/// Query for the hosts of a name, with digests of the stored forms of the passwords.
const WITH_NAME: &str = "SELECT CAST(User AS CHAR), CAST(Host AS CHAR), \
                         IF(CHAR_LENGTH(authentication_string) < ?, '', \
                         SHA2(authentication_string, 256)) FROM mysql.user WHERE User = ?";

/// Query for the accounts with the stored form of a password, by its digest.
const WITH_PASSWORD: &str = "SELECT CAST(User AS CHAR), CAST(Host AS CHAR), \
                             SHA2(authentication_string, 256) FROM mysql.user WHERE \
                             CHAR_LENGTH(authentication_string) >= ? AND \
                             SHA2(authentication_string, 256) = ?";

/// Query for the accounts with a name in their names.
const CONTAINING: &str = "SELECT CAST(User AS CHAR), CAST(Host AS CHAR), '' FROM mysql.user WHERE \
                          LOCATE(?, User) > 0";

/// An account as statements name it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct AccountPlace {
    pub(crate) name: String,
    pub(crate) host: String,
}

impl AccountPlace {
    /// Returns the recorded place of an account.
    pub(crate) fn of(account: &Account) -> Self {
        let host = account.host.clone().unwrap_or_else(|| ANY_HOST.to_owned());
        Self { name: account.name.clone(), host }
    }

    /// Returns the account at the place, without an identity.
    pub(crate) fn account(&self) -> Account {
        Account { host: Some(self.host.clone()), ..Account::named(&self.name) }
    }

    /// Returns `'user'@'host'`.
    pub(crate) fn quoted(&self) -> String {
        account(&self.name, &self.host)
    }

    /// The server stores hosts in lower case.
    pub(crate) fn is(&self, other: &Self) -> bool {
        self.name == other.name && self.host.eq_ignore_ascii_case(&other.host)
    }
}

/// An account in the server's table.
struct SeenAccount {
    place: AccountPlace,
    /// Digest of the stored form of the password; empty if there is none.
    digest: String,
}

/// Returns the accounts at `places`, with the digests of the passwords of `with_password` if the
/// connection's user may read them.
pub(crate) fn recorded(
    host: &dyn SqlHost,
    connection: &ParsedConnection,
    places: &[AccountPlace],
    with_password: &[AccountPlace],
) -> Result<Vec<Account>, SqlFailure> {
    let mut accounts = Vec::new();
    for place in places {
        let found = match with_password.contains(place) {
            true => at(host, connection, place)?,
            false => None,
        };
        let identity = found.map(|found| found.digest).unwrap_or_default();
        accounts.push(Account { identity, ..place.account() });
    }
    Ok(accounts)
}

/// The present places of recorded accounts.
pub(crate) struct LocatedAccounts {
    /// The recorded places, where a creation may still be running, and the place of each account
    /// that was renamed.
    pub(crate) places: Vec<AccountPlace>,
    /// Recorded and present name of each account that was renamed.
    renamed: Vec<(String, String)>,
}

impl LocatedAccounts {
    /// Returns the present name of the account that was recorded as `name`.
    pub(crate) fn present_name<'a>(&'a self, name: &'a str) -> &'a str {
        let renamed = self.renamed.iter().find(|(recorded, _)| recorded == name);
        renamed.map_or(name, |(_, present)| present)
    }
}

/// Finds recorded accounts.
pub(crate) fn locate(
    host: &dyn SqlHost,
    connection: &ParsedConnection,
    accounts: &[Account],
) -> Result<LocatedAccounts, SqlFailure> {
    let mut places: Vec<AccountPlace> = accounts.iter().map(AccountPlace::of).collect();
    let mut missing: Vec<&Account> = Vec::new();
    for account in accounts.iter().filter(|account| !account.identity.is_empty()) {
        let there = at(host, connection, &AccountPlace::of(account))?;
        if there.is_none_or(|there| there.digest != account.identity) {
            missing.push(account);
        }
    }
    let mut renamed = Vec::new();
    for digest in first_of_each(missing.iter().map(|account| &account.identity)) {
        let found = seen(host, connection, WITH_PASSWORD, &[MIN_HASH, digest])?;
        let elsewhere = found.into_iter().map(|seen| seen.place);
        let elsewhere: Vec<AccountPlace> =
            elsewhere.filter(|seen| !places.iter().any(|own| own.is(seen))).collect();
        let of_digest: Vec<&&Account> =
            missing.iter().filter(|account| account.identity == *digest).collect();
        // More accounts than are missing share the password with foreign accounts.
        if elsewhere.len() <= of_digest.len() {
            let names = of_digest.iter().map(|account| account.name.clone());
            renamed.extend(names.zip(elsewhere.iter().map(|place| place.name.clone())));
            places.extend(elsewhere);
        }
    }
    Ok(LocatedAccounts { places, renamed })
}

/// Returns the accounts of exactly this name; `None` if the connection's user may not read the
/// accounts.
pub(crate) fn places(
    host: &dyn SqlHost,
    connection: &ParsedConnection,
    username: &str,
) -> Result<Option<Vec<AccountPlace>>, SqlFailure> {
    let place = |host| AccountPlace { name: username.to_owned(), host };
    let hosts = hosts(host, connection, username)?;
    Ok(hosts.map(|hosts| hosts.into_iter().map(place).collect()))
}

/// Returns the accounts whose names follow from the name of the user; none if the connection's user
/// may not read the accounts.
pub(crate) fn derived(
    host: &dyn SqlHost,
    connection: &ParsedConnection,
    username: &str,
) -> Result<Vec<AccountPlace>, SqlFailure> {
    let seen = seen(host, connection, CONTAINING, &[username])?;
    let places = seen.into_iter().map(|seen| seen.place);
    Ok(places.filter(|place| is_derived_name(&place.name, username)).collect())
}

/// Returns the account at a place; `None` if the connection's user may not read the accounts.
fn at(
    host: &dyn SqlHost,
    connection: &ParsedConnection,
    place: &AccountPlace,
) -> Result<Option<SeenAccount>, SqlFailure> {
    let seen = seen(host, connection, WITH_NAME, &[MIN_HASH, &place.name])?;
    Ok(seen.into_iter().find(|seen| seen.place.is(place)))
}

/// Returns the accounts that `query` finds; none if the connection's user may not read the
/// accounts.
fn seen(
    host: &dyn SqlHost,
    connection: &ParsedConnection,
    query: &str,
    parameters: &[&str],
) -> Result<Vec<SeenAccount>, SqlFailure> {
    let rows = match host.query(&connection.target, query, parameters) {
        Err(failure) if failure.has_sqlstate(&MAY_NOT_READ) => Vec::new(),
        rows => rows?,
    };
    let read = |row: Vec<Option<String>>| {
        let [name, host, digest] = <[Option<String>; 3]>::try_from(row).ok()?;
        let place = AccountPlace { name: name?, host: host? };
        Some(SeenAccount { place, digest: digest.unwrap_or_default() })
    };
    Ok(rows.into_iter().filter_map(read).collect())
}

/// Returns `'user'@'host'`.
pub(crate) fn account(username: &str, host: &str) -> String {
    format!("{}@{}", text(username), text(host))
}

/// Quotes a text.
fn text(value: &str) -> String {
    format!("'{}'", value.replace('\\', r"\\").replace('\'', "''"))
}

/// Returns the quoted account of the target's sessions. The account is queried because MariaDB
/// accepts `ALTER USER CURRENT_USER()` without changing the password.
pub(crate) fn own(
    host: &dyn SqlHost,
    target: &DatabaseTarget,
) -> Result<Option<String>, SqlFailure> {
    let users = host.query_column(target, "SELECT CAST(CURRENT_USER() AS CHAR)", &[])?;
    let current_user = users.first().and_then(|user| user.rsplit_once('@'));
    Ok(current_user.map(|(name, at)| account(name, at)))
}

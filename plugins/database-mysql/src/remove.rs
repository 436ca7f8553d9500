//! Removes a user's accounts for every host and ends the user's sessions.
//!
//! This file prevents two attacks: a session that outlasts `DROP USER`, as all sessions do; and an
//! account that the connection's user may not see and that therefore passes for removed. A removal
//! succeeds only if every account is known to be gone or locked. A missing user counts as removed,
//! because backups and people remove users too. If the accounts of the creation were recorded,
//! exactly the recorded accounts are removed, also under another name (see `accounts.rs`).

use crate::accounts::{self, ANY_HOST, AccountPlace, NO_ACCOUNT};
use crate::codes::Code;
use crate::settings::ParsedConnection;
use crate::{named, sessions, sql_failure};
use bulkhead_sdk::connection::Denial;
use bulkhead_sdk::database_plugin::{CreatedUser, Refusal, SqlFailure, SqlHost, Statement};
use bulkhead_sdk::statements::{self, FilledStatement, PlaceholderValues, SqlDialect};
use bulkhead_sdk::user_statements::run;
use bulkhead_sdk::wire::distinct::first_of_each;

/// Error numbers of a missing grant and of a missing account.
const GONE: [&str; 5] = ["1133", "1141", "1147", "1396", "3162"];

/// Removes the accounts of `user` with the operator's statements, or with the plugin's own
/// statements if there are none.
pub(crate) fn delete(
    host: &dyn SqlHost,
    connection: &ParsedConnection,
    user: &CreatedUser,
    operator_statements: &[String],
) -> Result<(), Refusal> {
    let located = accounts::locate(host, connection, &user.accounts)
        .map_err(|failure| sql_failure::refusal(failure, &connection.target))?;
    let username = located.present_name(&user.username).to_owned();
    let recorded = (!located.places.is_empty()).then_some(located.places);
    let leaving = UserRemoval { host, connection, username: &user.username, recorded };
    let names = leaving.names();
    if names.contains(&connection.target.username.as_str()) {
        return Err(Denial::ConnectionUser.refusal());
    }
    let values = PlaceholderValues::named(&username);
    let removed = match statements::prepare(SqlDialect::Mysql, operator_statements, &values) {
        Ok(prepared) if prepared.is_empty() => leaving.drop_all(),
        Ok(prepared) => leaving.run_given(prepared),
        Err(fault) => Err(leaving.lock_out_for(fault.into())),
    };
    // Sessions are ended even if an account remains; the failure of the account is reported first.
    // An open session keeps the name of its login, also if the account has another name since.
    let ended = names.iter().try_for_each(|name| sessions::end(host, connection, name));
    removed.and(ended)
}

/// Drops the accounts of `username` at every host. If the accounts that a creation made are known,
/// drops these accounts only.
pub(crate) fn drop_everywhere(
    host: &dyn SqlHost,
    connection: &ParsedConnection,
    username: &str,
    recorded: Option<Vec<AccountPlace>>,
) -> Result<(), Refusal> {
    UserRemoval { host, connection, username, recorded }.drop_all()
}

/// A user being removed.
struct UserRemoval<'a> {
    host: &'a dyn SqlHost,
    connection: &'a ParsedConnection,
    username: &'a str,
    /// The accounts that the creation made; `None`: the name stands for the accounts.
    recorded: Option<Vec<AccountPlace>>,
}

impl UserRemoval<'_> {
    /// Returns the recorded and present names of the user's accounts.
    fn names(&self) -> Vec<&str> {
        let recorded = self.recorded.iter().flatten().map(|place| place.name.as_str());
        first_of_each(recorded.chain([self.username]))
    }

    /// Returns the accounts of the user; `None` if the connection's user may not read the accounts
    /// and the accounts were not recorded.
    fn accounts(&self) -> Result<Option<Vec<AccountPlace>>, Refusal> {
        if let Some(recorded) = &self.recorded {
            return Ok(Some(recorded.clone()));
        }
        self.look(self.username)
    }

    fn look(&self, name: &str) -> Result<Option<Vec<AccountPlace>>, Refusal> {
        accounts::places(self.host, self.connection, name).map_err(|failure| self.refusal(failure))
    }

    /// Drops all accounts.
    fn drop_all(&self) -> Result<(), Refusal> {
        let seen = self.accounts()?;
        let is_all = seen.is_some();
        let mut places = seen.unwrap_or_default();
        // This host is added even if it has no account yet: a creation without an answer may still
        // be running, and the server serialises statements about accounts.
        let any_host = self.at_any_host();
        if self.recorded.is_none() && !places.contains(&any_host) {
            places.push(any_host);
        }
        self.drop_accounts(&places).map_err(|failure| self.refusal(failure))?;
        if is_all { Ok(()) } else { Err(self.unseen()) }
    }

    fn at_any_host(&self) -> AccountPlace {
        AccountPlace { name: self.username.to_owned(), host: ANY_HOST.to_owned() }
    }

    /// Runs the operator's statements and checks that no account remains that can log in.
    fn run_given(&self, prepared: Vec<FilledStatement>) -> Result<(), Refusal> {
        let dropped = named::dropped(&prepared, self.username);
        let ran = run(self.host, &self.connection.target, prepared);
        let left = self.left()?;
        if let Err(failure) = ran {
            // The operator's statements may clean up more than the user.
            let is_gone = failure.has_sqlstate(&GONE);
            if !is_gone || !self.was_gone(left.as_deref(), &dropped) {
                return Err(self.lock_out_for(self.refusal(failure)));
            }
        }
        match left.or_else(|| self.recorded.clone()) {
            Some(left) => self.lock(&left),
            None if dropped.is_empty() => Err(self.lock_out_for(self.unseen())),
            // The operator's statements name the accounts, and the server confirms that the
            // accounts are gone.
            None => self.drop_accounts(&dropped).map_err(|failure| self.refusal(failure)),
        }
    }

    /// Returns the accounts that still exist; `None` if the connection's user may not read the
    /// accounts.
    fn left(&self) -> Result<Option<Vec<AccountPlace>>, Refusal> {
        let Some(recorded) = &self.recorded else { return self.accounts() };
        let mut left = Vec::new();
        for place in recorded {
            let Some(seen) = self.look(&place.name)? else { return Ok(None) };
            if seen.iter().any(|seen| seen.is(place)) {
                left.push(place.clone());
            }
        }
        Ok(Some(left))
    }

    /// Tells if the accounts are gone although a statement failed for a missing account. One
    /// recorded account has to be gone, by an earlier attempt; the other accounts are locked next.
    fn was_gone(&self, left: Option<&[AccountPlace]>, dropped: &[AccountPlace]) -> bool {
        match (&self.recorded, left) {
            (Some(recorded), Some(left)) => left.len() < recorded.len(),
            (Some(_), None) => true,
            (None, Some(left)) => left.is_empty(),
            (None, None) => !dropped.is_empty(),
        }
    }

    /// Drops each account separately, so that a missing account does not prevent other drops.
    fn drop_accounts(&self, places: &[AccountPlace]) -> Result<(), SqlFailure> {
        self.each(places, |account| format!("DROP USER {account}"))
    }

    /// Locks the accounts left by the operator's statements; PostgreSQL users are treated alike.
    fn lock(&self, places: &[AccountPlace]) -> Result<(), Refusal> {
        self.each(places, |account| format!("ALTER USER {account} ACCOUNT LOCK")).map_err(
            |failure| match failure.code.as_str() {
                "statement-failed" => sessions::about(Code::AccountStays, self.connection, failure),
                _ => self.refusal(failure),
            },
        )
    }

    fn each(
        &self,
        places: &[AccountPlace],
        text: impl Fn(String) -> String,
    ) -> Result<(), SqlFailure> {
        for place in places {
            let statement = Statement::plain(text(place.quoted()));
            match self.host.transact(&self.connection.target, &[statement]) {
                Err(failure) if failure.has_sqlstate(&NO_ACCOUNT) => {}
                done => done?,
            }
        }
        Ok(())
    }

    /// Locks the user's accounts as far as the connection's user may, because the removal cannot
    /// continue. Returns `why`, or an outage that prevents the locking.
    fn lock_out_for(&self, why: Refusal) -> Refusal {
        let accounts = self.accounts();
        let locked = accounts
            .and_then(|places| self.lock(&places.unwrap_or_else(|| vec![self.at_any_host()])));
        match locked {
            Err(outage) if outage.code == "unreachable" => outage,
            Ok(()) | Err(_) => why,
        }
    }

    fn unseen(&self) -> Refusal {
        Code::AccountsUnseen.refusal().with("user", &self.connection.target.username)
    }

    fn refusal(&self, failure: SqlFailure) -> Refusal {
        sql_failure::refusal(failure, &self.connection.target)
    }
}

#[cfg(test)]
mod recorded_tests;
#[cfg(test)]
mod tests;

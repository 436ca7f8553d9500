//! Removes a user's accounts for every host and ends the user's sessions.
//!
//! Prevents two attacks: a session that outlasts `DROP USER`, as all sessions do; and an account
//! that the connection's user may not see and that therefore passes for removed. A removal succeeds
//! only if every account is known to be gone or locked. A missing user counts as removed, because
//! backups and people remove users too.

use crate::accounts::{self, ANY_HOST, NO_ACCOUNT, account};
use crate::codes::Code;
use crate::run::run;
use crate::settings::ParsedConnection;
use crate::{named, sessions, sql_failure};
use bulkhead_sdk::connection::Denial;
use bulkhead_sdk::database_plugin::{Refusal, SqlFailure, SqlHost, Statement};
use bulkhead_sdk::statements::{self, FilledStatement, PlaceholderValues, SqlDialect};

/// Error numbers of a missing grant and of a missing account.
const GONE: [&str; 5] = ["1133", "1141", "1147", "1396", "3162"];

/// Removes `username` with the operator's statements, or with the plugin's own statements if there
/// are none.
pub(crate) fn delete(
    host: &dyn SqlHost,
    connection: &ParsedConnection,
    username: &str,
    given: &[String],
) -> Result<(), Refusal> {
    if username == connection.target.username {
        return Err(Denial::ConnectionUser.refusal());
    }
    let values = PlaceholderValues { username, password: None, subject: None, expiration: None };
    let leaving = UserRemoval { host, connection, username };
    let removed = match statements::prepare(SqlDialect::Mysql, given, &values) {
        Ok(prepared) if prepared.is_empty() => drop_everywhere(host, connection, username, None),
        Ok(prepared) => leaving.run_given(prepared),
        Err(fault) => Err(leaving.lock_out_for(fault.into())),
    };
    // Sessions are ended even if an account remains; the failure of the account is reported first.
    let ended = sessions::end(host, connection, username);
    removed.and(ended)
}

/// Drops the accounts of `username` for every host. If the connection's user may not read the
/// accounts, drops the accounts for the hosts `named`; `None` means that there may be other hosts.
pub(crate) fn drop_everywhere(
    host: &dyn SqlHost,
    connection: &ParsedConnection,
    username: &str,
    named: Option<Vec<String>>,
) -> Result<(), Refusal> {
    let leaving = UserRemoval { host, connection, username };
    let seen = leaving.hosts()?;
    let is_all = seen.is_some() || named.is_some();
    let mut hosts = seen.or(named).unwrap_or_default();
    // This host is added even if it has no account yet: a creation without an answer may still be
    // running, and the server serialises statements about accounts.
    if !hosts.iter().any(|host| host == ANY_HOST) {
        hosts.push(ANY_HOST.to_owned());
    }
    leaving.drop_accounts(&hosts).map_err(|failure| leaving.refusal(failure))?;
    if is_all { Ok(()) } else { Err(leaving.unseen()) }
}

/// A user being removed.
struct UserRemoval<'a> {
    host: &'a dyn SqlHost,
    connection: &'a ParsedConnection,
    username: &'a str,
}

impl UserRemoval<'_> {
    fn hosts(&self) -> Result<Option<Vec<String>>, Refusal> {
        let hosts = accounts::hosts(self.host, self.connection, self.username);
        hosts.map_err(|failure| self.refusal(failure))
    }

    /// Runs the operator's statements and checks that no account remains that can log in.
    fn run_given(&self, prepared: Vec<FilledStatement>) -> Result<(), Refusal> {
        let dropped = named::dropped(&prepared, self.username);
        let ran = run(self.host, &self.connection.target, prepared);
        let left = self.hosts()?;
        if let Err(failure) = ran {
            // The operator's statements may clean up more than the user.
            let is_gone = sql_failure::has_number(&failure, &GONE);
            let was_gone = match &left {
                Some(left) => left.is_empty(),
                None => !dropped.is_empty(),
            };
            if !is_gone || !was_gone {
                return Err(self.lock_out_for(self.refusal(failure)));
            }
        }
        match left {
            Some(left) => self.lock(&left),
            None if dropped.is_empty() => Err(self.lock_out_for(self.unseen())),
            // The operator's statements name the accounts, and the server confirms that the
            // accounts are gone.
            None => self.drop_accounts(&dropped).map_err(|failure| self.refusal(failure)),
        }
    }

    /// Drops each account separately, so that a missing account does not prevent other drops.
    fn drop_accounts(&self, hosts: &[String]) -> Result<(), SqlFailure> {
        self.each(hosts, |account| format!("DROP USER {account}"))
    }

    /// Locks the accounts left by the operator's statements; PostgreSQL users are treated alike.
    fn lock(&self, hosts: &[String]) -> Result<(), Refusal> {
        self.each(hosts, |account| format!("ALTER USER {account} ACCOUNT LOCK")).map_err(
            |failure| match failure.code.as_str() {
                "statement-failed" => sessions::about(Code::AccountStays, self.connection, failure),
                _ => self.refusal(failure),
            },
        )
    }

    fn each(&self, hosts: &[String], text: impl Fn(String) -> String) -> Result<(), SqlFailure> {
        for from in hosts {
            let statement = Statement::plain(text(account(self.username, from)));
            match self.host.transact(&self.connection.target, &[statement]) {
                Err(failure) if sql_failure::has_number(&failure, &NO_ACCOUNT) => {}
                done => done?,
            }
        }
        Ok(())
    }

    /// Locks the user's accounts as far as the connection's user may, because the removal cannot
    /// continue. Returns `why`, or an outage that prevents the locking.
    fn lock_out_for(&self, why: Refusal) -> Refusal {
        let hosts = self.hosts();
        let locked =
            hosts.and_then(|hosts| self.lock(&hosts.unwrap_or_else(|| vec![ANY_HOST.to_owned()])));
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
mod tests;

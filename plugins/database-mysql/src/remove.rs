//! Removes a user at every host that it has an account for, and ends its sessions.
//!
//! Two attacks end here. A session outlasts `DROP USER`, as they all do. And an account that the
//! connection's user may not see is not one that is gone: a removal succeeds only where every
//! account is known to be gone, or to be locked. A user that is gone is success, because backups
//! and people remove users too.

use crate::accounts::{self, ANY_HOST, NO_ACCOUNT, account};
use crate::codes::Code;
use crate::run::run;
use crate::settings::Connection;
use crate::{named, sessions, sql_failure};
use bulkhead_sdk::connection::Denial;
use bulkhead_sdk::database_plugin::{Refusal, SqlFailure, SqlHost, Statement};
use bulkhead_sdk::statements::{self, Dialect, Prepared, Values};

/// Numbers of a grant that is not there, and of an account.
const GONE: [&str; 5] = ["1133", "1141", "1147", "1396", "3162"];

/// Removes `username` with the operator's statements, or with the plugin's own where there are
/// none.
pub(crate) fn delete(
    host: &dyn SqlHost,
    connection: &Connection,
    username: &str,
    given: &[String],
) -> Result<(), Refusal> {
    if username == connection.target.username {
        return Err(Denial::ConnectionUser.refusal());
    }
    let values = Values { username, password: None, subject: None, expiration: None };
    let leaving = Leaving { host, connection, username };
    let removed = match statements::prepare(Dialect::Mysql, given, &values) {
        Ok(prepared) if prepared.is_empty() => drop_everywhere(host, connection, username, None),
        Ok(prepared) => leaving.run_given(prepared),
        Err(fault) => Err(leaving.lock_out_for(fault.into())),
    };
    // The sessions end although an account may be left; the account is the graver of the two.
    let ended = sessions::end(host, connection, username);
    removed.and(ended)
}

/// Drops the accounts of `username` at every host. Where they cannot be seen, they are those at the
/// hosts `named`; `None` where there may be others.
pub(crate) fn drop_everywhere(
    host: &dyn SqlHost,
    connection: &Connection,
    username: &str,
    named: Option<Vec<String>>,
) -> Result<(), Refusal> {
    let leaving = Leaving { host, connection, username };
    let seen = leaving.hosts()?;
    let is_all = seen.is_some() || named.is_some();
    let mut hosts = seen.or(named).unwrap_or_default();
    // Also where there is none yet: a creation whose answer was lost may still be under way, and
    // the server lets one statement about accounts wait for the other.
    if !hosts.iter().any(|host| host == ANY_HOST) {
        hosts.push(ANY_HOST.to_owned());
    }
    leaving.drop_accounts(&hosts).map_err(|failure| leaving.refusal(failure))?;
    if is_all { Ok(()) } else { Err(leaving.unseen()) }
}

/// A user on its way out.
struct Leaving<'a> {
    host: &'a dyn SqlHost,
    connection: &'a Connection,
    username: &'a str,
}

impl Leaving<'_> {
    fn hosts(&self) -> Result<Option<Vec<String>>, Refusal> {
        let hosts = accounts::hosts(self.host, self.connection, self.username);
        hosts.map_err(|failure| self.refusal(failure))
    }

    /// Runs the operator's statements, and proves that they left no account that logs in.
    fn run_given(&self, prepared: Vec<Prepared>) -> Result<(), Refusal> {
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
            // The operator's word says which accounts there are, and the server that they are gone.
            None => self.drop_accounts(&dropped).map_err(|failure| self.refusal(failure)),
        }
    }

    /// Each account by itself, so that one that is gone does not keep the others.
    fn drop_accounts(&self, hosts: &[String]) -> Result<(), SqlFailure> {
        self.each(hosts, |account| format!("DROP USER {account}"))
    }

    /// Locks what the operator's statements left, as a user of PostgreSQL is.
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

    /// Keeps the user from logging in while its removal cannot go on, as far as the connection's
    /// user may. Returns the refusal that keeps it from going on; an outage comes first.
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

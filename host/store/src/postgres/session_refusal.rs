//! The reasons of servers that open no session, in words for the operator.
//!
//! This file prevents an operator from guessing between a wrong password, a missing database and a
//! full server: each reason has a sentence with the remedy. No sentence contains a password.

use sqlx::postgres::PgDatabaseError;

use bulkhead_place::postgres_place::{PasswordSource, PostgresPlace};

use super::postgres_error::{POOLER, is_sign_of_pooler};
use super::server_address::quoted;

/// Codes of <https://www.postgresql.org/docs/current/errcodes-appendix.html>.
mod code {
    pub(super) const LOGIN: [&str; 2] = ["28P01", "28000"];
    pub(super) const NO_DATABASE: &str = "3D000";
    pub(super) const TOO_MANY: &str = "53300";
    pub(super) const NO_RIGHT: &str = "42501";
    /// The server starts, stops, or is a standby that answers no queries.
    pub(super) const NOT_NOW: &str = "57P03";
}

/// The reason of a server whose sessions may not write.
pub(super) const READ_ONLY: &str =
    "the server accepts no writes: a standby, or read-only; name the primary server, too";

/// Returns the sentence for a refused login or a lost connection.
pub(super) fn of_login(error: &sqlx::Error, place: &PostgresPlace) -> String {
    let database = error.as_database_error();
    let refused = database.and_then(|error| error.try_downcast_ref::<PgDatabaseError>());
    match refused {
        Some(refused) => of_code(refused.code(), refused.message(), place),
        None => match error {
            sqlx::Error::Io(error) => of_network(error),
            other => format!("no session opened: {other}"),
        },
    }
}

/// Returns whether a connection ended before the server answered.
pub(super) fn is_cut(error: &sqlx::Error) -> bool {
    use std::io::ErrorKind::{BrokenPipe, ConnectionAborted, ConnectionReset, UnexpectedEof};
    let cuts = [BrokenPipe, ConnectionAborted, ConnectionReset, UnexpectedEof];
    matches!(error, sqlx::Error::Io(error) if cuts.contains(&error.kind()))
}

/// Returns the sentence for a server that cannot be reached.
pub(super) fn of_network(error: &std::io::Error) -> String {
    let why = match error.kind() {
        std::io::ErrorKind::Other => error.to_string(),
        kind => kind.to_string(),
    };
    format!("the server cannot be reached: {why}; check that the server runs, host and port")
}

fn of_code(code: &str, said: &str, place: &PostgresPlace) -> String {
    let (user, database) = (&place.user, &place.database);
    let said = format!("SQLSTATE {code}: {said}");
    if code::LOGIN.contains(&code) {
        let source = source(&place.password);
        format!(
            "the server refused user {user:?} with {source} ({said}); check the user, the password \
             and pg_hba.conf of the server"
        )
    } else if code == code::NO_DATABASE {
        format!(
            "there is no database {database:?} ({said}); let an administrator run CREATE DATABASE \
             {} OWNER {} ENCODING 'UTF8' TEMPLATE template0",
            quoted(database),
            quoted(user)
        )
    } else if code == code::TOO_MANY {
        format!(
            "the server has no free connection ({said}); raise max_connections of the server or \
             the limit of the user, or lower max_parallel, which is {}",
            place.max_parallel
        )
    } else if code == code::NO_RIGHT {
        format!(
            "user {user:?} may not connect to database {database:?} ({said}); let an \
             administrator run GRANT CONNECT ON DATABASE {} TO {}",
            quoted(database),
            quoted(user)
        )
    } else if code == code::NOT_NOW {
        format!("the server accepts no sessions at present ({said}); wait until the server is up")
    } else if is_sign_of_pooler(code, &said) {
        format!("{POOLER} ({said})")
    } else {
        format!("the server refused the session ({said})")
    }
}

/// Returns the words for the source of a password.
fn source(password: &PasswordSource) -> String {
    match password {
        PasswordSource::Missing => "no password".to_owned(),
        PasswordSource::Fixed(_) => "the password of the connection URL".to_owned(),
        PasswordSource::File(path) => format!("the password of the file {}", path.display()),
        PasswordSource::PassFile(path) => {
            format!("the password of the passfile {}", path.display())
        }
    }
}

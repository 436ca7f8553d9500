//! The effect of statements on their session, and the return to the state after the login.
//!
//! This file prevents a role with `SET ROLE`, `SET password_encryption` or `USE other` in its
//! statements from changing the outcome of other roles on the same session. Functions can change a
//! session, too: every statement counts as a change unless its first words are known to be
//! harmless.

use sqlx::Database;

/// First words of statements about accounts and privileges. These statements have no expressions,
/// and so call no functions.
const ABOUT_ACCOUNTS: [&[&str]; 12] = [
    &["alter", "role"],
    &["alter", "user"],
    &["create", "role"],
    &["create", "user"],
    &["drop", "owned", "by"],
    &["drop", "role"],
    &["drop", "user"],
    &["flush", "privileges"],
    &["grant"],
    &["reassign", "owned", "by"],
    &["revoke"],
    &["set", "default", "role"],
];

/// A protocol, as far as the state of its sessions goes.
pub(super) trait SqlDialect: Database {
    /// Statements that reset a session to the state after its login. The statements may follow the
    /// end of a transaction in the same message. `None`: the server has no such statements.
    const RESET: Option<&'static str>;

    /// Returns whether a statement is known to leave its session unchanged.
    fn leaves_session(text: &str) -> bool {
        let is_about_accounts = || ABOUT_ACCOUNTS.iter().any(|words| begins_with(text, words));
        is_one_statement(text) && (is_about_accounts() || is_plain_kill(text))
    }
}

/// Returns whether `text` is a single statement. A semicolon within quotes counts as a separator:
/// an unneeded reset does no harm.
fn is_one_statement(text: &str) -> bool {
    !text.trim_end().trim_end_matches(';').contains(';')
}

fn begins_with(text: &str, words: &[&str]) -> bool {
    let ends = |symbol: char| symbol.is_whitespace() || symbol == ';';
    let mut found = text.split(ends).filter(|word| !word.is_empty());
    words.iter().all(|word| found.next().is_some_and(|found| found.eq_ignore_ascii_case(word)))
}

/// Returns whether `text` ends a session by a literal number.
fn is_plain_kill(text: &str) -> bool {
    let is_plain = |symbol: char| symbol.is_ascii_alphanumeric() || symbol.is_whitespace();
    begins_with(text, &["kill"]) && text.chars().all(is_plain)
}

#[cfg(test)]
mod tests {
    use super::*;
    use sqlx::{MySql, Postgres};

    #[test]
    fn statements_about_accounts_leave_a_session_alone() {
        for text in [
            "CREATE USER 'a'@'%' IDENTIFIED BY 'pw'",
            "create\nrole \"a\" LOGIN PASSWORD 'pw' ;",
            "GRANT SELECT ON ALL TABLES IN SCHEMA public TO \"a\"",
            "Revoke ALL PRIVILEGES ON t FROM a",
            "ALTER ROLE a SET search_path = x",
            "DROP OWNED BY a",
            "REASSIGN OWNED BY a TO b",
            "KILL 12",
            "FLUSH PRIVILEGES;",
            "SET DEFAULT ROLE ALL TO a",
        ] {
            assert!(Postgres::leaves_session(text), "{text}");
            assert!(MySql::leaves_session(text), "{text}");
        }
    }

    #[test]
    fn unknown_statement_is_assumed_to_change_session() {
        for text in [
            "SET ROLE app",
            "set session authorization app",
            "SET password_encryption = 'md5'",
            "SET SESSION sql_mode = ''",
            "SET PASSWORD FOR a = 'pw'",
            "USE other",
            "SELECT set_config('role', 'app', false)",
            "SELECT GET_LOCK('a', 1)",
            "DO $$ BEGIN PERFORM set_config('role', 'app', false); END $$",
            "LOCK TABLES t WRITE",
            "FLUSH TABLES WITH READ LOCK",
            "CREATE TEMPORARY TABLE t (a INT)",
            "CREATE DATABASE d",
            "DROP DATABASE d",
            "ALTER DEFAULT PRIVILEGES GRANT SELECT ON TABLES TO a",
            "CALL p()",
            "LISTEN c",
            "/* GRANT */ SET ROLE app",
            "/*!GRANT*/ SET ROLE app",
            "GRANT a TO b; SET ROLE app",
            "GRANT a TO b;;SET ROLE app;",
            "CREATE ROLE a; RESET ALL",
            "KILL (SELECT f())",
            "KILL @id",
            "GRANTS",
            "",
        ] {
            assert!(!Postgres::leaves_session(text), "{text}");
            assert!(!MySql::leaves_session(text), "{text}");
        }
    }
}

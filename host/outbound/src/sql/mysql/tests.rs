//! Tests of implicit commits and session settings of MySQL.

use super::*;

#[test]
fn account_grant_and_schema_statements_commit_implicitly() {
    for text in [
        "CREATE USER 'a'@'%' IDENTIFIED BY 'pw'",
        "grant SELECT ON *.* TO 'a'@'%'",
        "REVOKE ALL PRIVILEGES, GRANT OPTION FROM 'a'@'%'",
        " \n DROP USER 'a'@'%'",
        "ALTER USER CURRENT_USER() IDENTIFIED BY 'pw'",
        "SET PASSWORD FOR 'a' = 'pw'",
        "DROP TABLE t",
    ] {
        assert!(commits_by_itself(text), "{text}");
    }
    for text in [
        "INSERT INTO t VALUES ('CREATE USER')",
        "SET @a = 1",
        "SELECT 1",
        "CREATE TEMPORARY TABLE t (a INT)",
        "DROP TEMPORARY TABLE t",
        "",
    ] {
        assert!(!commits_by_itself(text), "{text}");
    }
}

#[test]
fn session_settings_remove_all_quoting_modes() {
    let settings = session_settings();
    for mode in ["NO_BACKSLASH_ESCAPES", "ANSI_QUOTES", "ANSI", "ORACLE"] {
        assert!(settings.contains(&format!(",'{mode}','')")), "{mode}: {settings}");
    }
    let place = |mode: &str| QUOTING_MODES.iter().position(|candidate| *candidate == mode);
    assert!(place("ANSI_QUOTES") < place("ANSI"), "a part of a longer name goes after it");
}

//! Requests to the database for the removal of a user.

use super::*;
use bulkhead_sdk::sql_script::SqlScript;

fn deleted(script: &SqlScript, username: &str, statements: &[&str]) -> Result<(), Refusal> {
    let connection =
        ParsedConnection::read(&SqlScript::settings("root:pw@tcp(db:3306)/orders")).unwrap();
    let statements: Vec<String> = statements.iter().map(|text| (*text).to_owned()).collect();
    delete(script, &connection, &CreatedUser::named(username), &statements)
}

fn changes(script: &SqlScript) -> Vec<String> {
    let calls = script.asked().into_iter();
    calls.filter(|call| !call.starts_with("query")).collect()
}

/// Returns a server whose accounts the connection's user may not read.
fn unseen() -> SqlScript {
    SqlScript::default().fails("mysql.user", SqlScript::state("1142"))
}

#[test]
fn user_removal_covers_every_host_and_ends_sessions() {
    let script = SqlScript::default()
        .answers("mysql.user", &["10.0.0.%", "a'\\b"])
        .answers("PROCESSLIST", &["7", "9; DROP"]);
    assert_eq!(deleted(&script, "v'a", &[]), Ok(()));
    assert_eq!(
        changes(&script),
        [
            "transact DROP USER 'v''a'@'10.0.0.%'",
            "transact DROP USER 'v''a'@'a''\\\\b'",
            "transact DROP USER 'v''a'@'%'",
            "execute KILL CONNECTION 7",
        ]
    );
}

#[test]
fn a_user_that_is_gone_is_success() {
    for number in ["1396", "3162"] {
        let script = SqlScript::default().fails("DROP USER", SqlScript::state(number));
        assert_eq!(deleted(&script, "u", &[]), Ok(()));
        assert_eq!(deleted(&script, "u", &["DROP USER '{{name}}'"]), Ok(()));
    }
    let script = SqlScript::default()
        .answers("mysql.user", &["%"])
        .fails("DROP ROLE", SqlScript::state("1396"));
    assert!(deleted(&script, "u", &["DROP ROLE x"]).is_err(), "the user is still there");
}

#[test]
fn unseen_accounts_are_not_taken_for_gone() {
    for script in [unseen(), unseen().fails("DROP USER", SqlScript::state("1396"))] {
        let refused = deleted(&script, "u", &[]).unwrap_err();
        assert_eq!(refused.code, "accounts-unseen");
        assert_eq!(refused.ext, [("user".to_owned(), "root".to_owned())]);
        assert_eq!(
            changes(&script),
            ["transact DROP USER 'u'@'%'"],
            "only the known host is dropped"
        );
        assert!(script.asked().iter().any(|call| call.contains("PROCESSLIST")));
    }
}

#[test]
fn accounts_named_by_operator_are_proven_gone_individually() {
    let statements = ["DROP USER '{{name}}'@'10.%', '{{name}}'@'localhost'"];
    let script = unseen();
    assert_eq!(deleted(&script, "u", &statements), Ok(()));
    assert_eq!(
        changes(&script),
        [
            "transact DROP USER 'u'@'10.%', 'u'@'localhost'",
            "transact DROP USER 'u'@'10.%'",
            "transact DROP USER 'u'@'localhost'",
        ]
    );
    // An account dropped by an earlier attempt is not a failure of this attempt.
    let script = unseen().fails("DROP USER", SqlScript::state("1396"));
    assert_eq!(deleted(&script, "u", &statements), Ok(()));
    let script = unseen();
    assert_eq!(deleted(&script, "u", &["SELECT 1"]).unwrap_err().code, "accounts-unseen");
    let script = unseen().fails("DROP USER", SqlScript::state("1227"));
    assert_eq!(deleted(&script, "u", &statements).unwrap_err().code, "insufficient-privilege");
}

#[test]
fn account_left_by_statements_is_locked_or_reported() {
    let left = || SqlScript::default().answers("mysql.user", &["10.%"]);
    let script = left();
    assert_eq!(deleted(&script, "u", &["REVOKE g FROM '{{name}}'"]), Ok(()));
    assert_eq!(changes(&script)[1..], ["transact ALTER USER 'u'@'10.%' ACCOUNT LOCK"]);
    let script = left().fails("ACCOUNT LOCK", SqlScript::state("1227"));
    let refused = deleted(&script, "u", &["REVOKE g FROM '{{name}}'"]).unwrap_err();
    assert_eq!(
        (refused.code.as_str(), refused.vendor_code.as_deref()),
        ("account-stays", Some("1227"))
    );
}

#[test]
fn user_is_locked_when_removal_cannot_continue() {
    let left = || SqlScript::default().answers("mysql.user", &["%"]).answers("PROCESSLIST", &["7"]);
    let locked = ["transact ALTER USER 'u'@'%' ACCOUNT LOCK", "execute KILL CONNECTION 7"];
    for text in ["x '{{password}}'", "x '{{expiration}}'", "x '{{subject}}'", "x 'y"] {
        let script = left();
        assert_eq!(deleted(&script, "u", &[text]).unwrap_err().code, "invalid-statement", "{text}");
        assert_eq!(changes(&script), locked);
    }
    let script = left().fails("REVOKE", SqlScript::state("1064"));
    let refused = deleted(&script, "u", &["REVOKE x; DROP USER '{{name}}'"]).unwrap_err();
    assert_eq!(refused.code, "statement-failed");
    assert_eq!(changes(&script)[1..], locked);
}

#[test]
fn an_outage_at_any_step_is_an_outage() {
    for step in ["mysql.user", "DROP USER", "PROCESSLIST", "KILL"] {
        let script = SqlScript::default()
            .fails(step, SqlScript::failure("unreachable", None))
            .answers("mysql.user", &["%"])
            .answers("PROCESSLIST", &["7"]);
        assert_eq!(deleted(&script, "u", &[]).unwrap_err().code, "unreachable", "{step}");
    }
}

#[test]
fn unseen_or_unended_sessions_keep_lease() {
    let blind = SqlScript::default().fails("PROCESSLIST", SqlScript::state("1227"));
    let refused = deleted(&blind, "u", &[]).unwrap_err();
    assert_eq!(refused.code, "sessions-unseen");
    assert_eq!(refused.ext, [("user".to_owned(), "root".to_owned())]);
    assert_eq!(changes(&blind), ["transact DROP USER 'u'@'%'"], "the account goes first");
    let open = || SqlScript::default().answers("PROCESSLIST", &["7", "8"]);
    let script = open().fails("KILL", SqlScript::state("1095"));
    assert_eq!(deleted(&script, "u", &[]).unwrap_err().code, "sessions-remain");
    let script = open().fails("KILL", SqlScript::state("1094"));
    assert_eq!(deleted(&script, "u", &[]), Ok(()), "a session that ended by itself");
    assert!(changes(&script).contains(&"execute KILL CONNECTION 8".to_owned()));
}

#[test]
fn sessions_beyond_attempt_limit_are_left_for_retry() {
    let numbers: Vec<String> = (0..1_000).map(|number: u32| number.to_string()).collect();
    let numbers: Vec<&str> = numbers.iter().map(String::as_str).collect();
    let script = SqlScript::default().answers("PROCESSLIST", &numbers);
    assert_eq!(deleted(&script, "u", &[]).unwrap_err().code, "conflict");
    assert!(changes(&script).contains(&"execute KILL CONNECTION 999".to_owned()));
}

#[test]
fn operator_statements_replace_default_and_sessions_still_end() {
    let script = SqlScript::default().answers("PROCESSLIST", &["7"]);
    assert_eq!(deleted(&script, "u", &["REVOKE g FROM '{{name}}'; DROP USER `{{name}}`;"]), Ok(()));
    assert_eq!(
        changes(&script),
        ["transact REVOKE g FROM 'u'; DROP USER `u`", "execute KILL CONNECTION 7"]
    );
}

#[test]
fn the_connections_own_user_is_never_removed() {
    let script = SqlScript::default();
    for statements in [&[][..], &["DROP USER '{{name}}'"]] {
        assert_eq!(deleted(&script, "root", statements).unwrap_err().code, "connection-user");
    }
    assert!(script.asked().is_empty());
}

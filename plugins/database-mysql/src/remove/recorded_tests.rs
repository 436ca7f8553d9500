//! Removal of the accounts that a creation made: at other hosts, renamed, and of somebody else.

use super::*;
use bulkhead_sdk::database_plugin::Account;
use bulkhead_sdk::sql_script::SqlScript;

fn account(name: &str, host: &str, identity: &str) -> Account {
    Account { name: name.to_owned(), host: Some(host.to_owned()), identity: identity.to_owned() }
}

fn deleted(script: &SqlScript, accounts: &[Account], statements: &[&str]) -> Result<(), Refusal> {
    let connection =
        ParsedConnection::read(&SqlScript::settings("root:pw@tcp(db:3306)/orders")).unwrap();
    let statements: Vec<String> = statements.iter().map(|text| (*text).to_owned()).collect();
    let user = CreatedUser { username: "u".to_owned(), accounts: accounts.to_vec() };
    delete(script, &connection, &user, &statements)
}

fn changes(script: &SqlScript) -> Vec<String> {
    let calls = script.asked().into_iter();
    calls.filter(|call| call.starts_with("transact")).collect()
}

fn unseen() -> SqlScript {
    SqlScript::default().fails("mysql.user", SqlScript::state("1142"))
}

#[test]
fn unreadable_accounts_are_removed_by_creation_record() {
    let script = unseen();
    let accounts = [account("u", "%", ""), account("u", "10.%", ""), account("u_ro", "%", "")];
    assert_eq!(deleted(&script, &accounts, &[]), Ok(()));
    assert_eq!(
        changes(&script),
        [
            "transact DROP USER 'u'@'%'",
            "transact DROP USER 'u'@'10.%'",
            "transact DROP USER 'u_ro'@'%'",
        ]
    );
}

#[test]
fn unseen_account_left_out_by_statements_is_locked() {
    let accounts = [account("u", "%", ""), account("u", "10.%", "")];
    let statements = ["DROP USER '{{name}}'@'%'"];
    let script = unseen().fails("ALTER USER 'u'@'%'", SqlScript::state("1396"));
    assert_eq!(deleted(&script, &accounts, &statements), Ok(()));
    let locks =
        ["'u'@'%'", "'u'@'10.%'"].map(|at| format!("transact ALTER USER {at} ACCOUNT LOCK"));
    assert_eq!(changes(&script)[1..], locks);
    let script = unseen().fails("ALTER USER 'u'@'10.%'", SqlScript::state("1227"));
    assert_eq!(deleted(&script, &accounts, &statements).unwrap_err().code, "account-stays");
}

#[test]
fn foreign_account_at_another_host_is_not_touched() {
    let script = SqlScript::default().answers("ORDER BY 1", &["%", "10.%"]);
    assert_eq!(deleted(&script, &[account("u", "10.%", "")], &[]), Ok(()));
    assert_eq!(changes(&script), ["transact DROP USER 'u'@'10.%'"]);
}

#[test]
fn a_renamed_account_is_found_by_its_password() {
    let renamed = || SqlScript::default().answers_row(">= ? AND", &["new", "%", "d"]);
    let replaced = || renamed().answers_row("< ?, ''", &["u", "%", "other"]);
    let accounts = [account("u", "%", "d")];
    for script in [renamed(), replaced()] {
        assert_eq!(deleted(&script, &accounts, &[]), Ok(()));
        // The user may have changed the own password, so the account at the place is the user's.
        assert_eq!(
            changes(&script),
            ["transact DROP USER 'u'@'%'", "transact DROP USER 'new'@'%'"]
        );
        for name in ["new", "u"] {
            let ended = |call: &String| {
                call.contains("PROCESSLIST") && call.ends_with(&format!("<- {name}"))
            };
            assert!(script.asked().iter().any(ended), "sessions of {name} end");
        }
    }
    let script = renamed();
    assert_eq!(deleted(&script, &accounts, &["DROP USER '{{name}}'"]), Ok(()));
    assert_eq!(changes(&script)[0], "transact DROP USER 'new'");
}

#[test]
fn shared_stored_password_proves_no_renamed_account() {
    let shared =
        SqlScript::default().answers_rows(">= ? AND", &[&["app", "%", "d"], &["other", "%", "d"]]);
    assert_eq!(deleted(&shared, &[account("u", "%", "d")], &[]), Ok(()));
    assert_eq!(changes(&shared), ["transact DROP USER 'u'@'%'"]);
}

#[test]
fn statements_missing_account_after_first_attempt_succeed() {
    let accounts = [account("u", "%", ""), account("u", "10.%", "")];
    let statements = ["DROP USER '{{name}}'@'%'"];
    let left = |hosts: &[&str]| {
        SqlScript::default()
            .answers("ORDER BY 1", hosts)
            .fails("DROP USER", SqlScript::state("1396"))
    };
    let script = left(&["10.%"]);
    assert_eq!(deleted(&script, &accounts, &statements), Ok(()));
    assert_eq!(changes(&script)[1], "transact ALTER USER 'u'@'10.%' ACCOUNT LOCK");
    let refused = deleted(&left(&["%", "10.%"]), &accounts, &statements).unwrap_err();
    assert_eq!(refused.code, "name-taken");
}

#[test]
fn user_with_self_changed_password_is_removed() {
    let script = SqlScript::default().answers_row("< ?, ''", &["u", "%", "changed"]);
    assert_eq!(deleted(&script, &[account("u", "%", "d")], &[]), Ok(()));
    assert_eq!(changes(&script), ["transact DROP USER 'u'@'%'"]);
}

#[test]
fn two_accounts_with_one_password_are_not_renamed() {
    let accounts = [account("u", "%", "d"), account("u", "10.%", "d")];
    let script = SqlScript::default()
        .answers_row("< ?, ''", &["u", "%", "d"])
        .answers_row(">= ? AND", &["u", "%", "d"]);
    assert_eq!(deleted(&script, &accounts, &[]), Ok(()));
    assert_eq!(changes(&script), ["transact DROP USER 'u'@'%'", "transact DROP USER 'u'@'10.%'"]);
}

#[test]
fn account_renamed_to_connection_user_is_not_touched() {
    let script = SqlScript::default().answers_row(">= ? AND", &["root", "10.%", "d"]);
    let refused = deleted(&script, &[account("u", "%", "d")], &[]).unwrap_err();
    assert_eq!(refused.code, Denial::ConnectionUser.refusal().code);
    assert!(changes(&script).is_empty());
}

#[test]
fn two_accounts_with_one_password_are_followed_together() {
    let accounts = [account("u", "10.%", "d"), account("u", "172.%", "d")];
    let script =
        SqlScript::default().answers_rows(">= ? AND", &[&["w", "10.%", "d"], &["w", "172.%", "d"]]);
    assert_eq!(deleted(&script, &accounts, &[]), Ok(()));
    assert_eq!(
        changes(&script)[2..],
        ["transact DROP USER 'w'@'10.%'", "transact DROP USER 'w'@'172.%'"]
    );
}

#[test]
fn accounts_that_are_gone_are_not_locked() {
    let script = SqlScript::default();
    assert_eq!(deleted(&script, &[account("u", "%", "")], &["DROP USER '{{name}}'"]), Ok(()));
    assert_eq!(changes(&script), ["transact DROP USER 'u'"]);
}

#[test]
fn statements_missing_unseen_account_succeed() {
    let accounts = [account("u", "%", ""), account("u", "10.%", "")];
    let statements = ["DROP USER '{{name}}'@'%', '{{name}}'@'10.%'"];
    let script = unseen().fails("transact DROP USER", SqlScript::state("1396"));
    assert_eq!(deleted(&script, &accounts, &statements), Ok(()));
    let locks =
        ["'u'@'%'", "'u'@'10.%'"].map(|at| format!("transact ALTER USER {at} ACCOUNT LOCK"));
    assert_eq!(changes(&script)[1..], locks);
}

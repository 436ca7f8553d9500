//! What is asked of the database when a user leaves.

use super::*;
use bulkhead_sdk::sql_script::SqlScript;

fn deleted(script: &SqlScript, username: &str, given: &[&str]) -> Result<(), Refusal> {
    let connection = Connection::read(&SqlScript::settings("root:pw@tcp(db:3306)/orders")).unwrap();
    let given: Vec<String> = given.iter().map(|text| (*text).to_owned()).collect();
    delete(script, &connection, username, &given)
}

fn changes(script: &SqlScript) -> Vec<String> {
    let asked = script.asked().into_iter();
    asked.filter(|asked| !asked.starts_with("query")).collect()
}

#[test]
fn a_user_goes_from_every_host_and_its_sessions_end() {
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
fn sessions_that_cannot_be_seen_or_ended_keep_nothing() {
    let blind = SqlScript::default().fails("PROCESSLIST", SqlScript::state("1227"));
    assert_eq!(deleted(&blind, "u", &[]), Ok(()));
    let script = SqlScript::default()
        .answers("PROCESSLIST", &["7", "8"])
        .fails("KILL", SqlScript::state("1094"));
    assert_eq!(deleted(&script, "u", &[]), Ok(()));
    assert!(changes(&script).contains(&"execute KILL CONNECTION 8".to_owned()));
}

#[test]
fn the_operators_statements_replace_our_own_and_sessions_still_end() {
    let script = SqlScript::default().answers("mysql.user", &["%"]).answers("PROCESSLIST", &["7"]);
    assert_eq!(deleted(&script, "u", &["REVOKE g FROM '{{name}}'; DROP USER `{{name}}`;"]), Ok(()));
    assert_eq!(
        changes(&script),
        ["transact REVOKE g FROM 'u'; DROP USER `u`", "execute KILL CONNECTION 7"]
    );
    for text in ["x '{{password}}'", "x '{{expiration}}'", "x '{{subject}}'", "x 'y"] {
        let script = SqlScript::default();
        assert_eq!(deleted(&script, "u", &[text]).unwrap_err().code, "invalid-statement", "{text}");
        assert!(script.asked().is_empty());
    }
}

#[test]
fn the_connections_own_user_is_never_removed() {
    let script = SqlScript::default();
    for given in [&[][..], &["DROP USER '{{name}}'"]] {
        assert_eq!(deleted(&script, "root", given).unwrap_err().code, "connection-user");
    }
    assert!(script.asked().is_empty());
}

//! Purposes of statements: placeholders that have a value, and passwords that fit.

use super::*;
use crate::database_plugin::StatementAct;

fn purpose(act: StatementAct, credential_type: &str) -> StatementPurpose {
    StatementPurpose { act, credential_type: credential_type.to_owned(), passwords: Vec::new() }
}

fn checked(text: &str, purpose: &StatementPurpose) -> Result<(), LexFault> {
    check(SqlDialect::Postgres, &[text.to_owned()], purpose).map_err(|error| error.fault)
}

#[test]
fn statement_kind_determines_available_placeholders() {
    let all = ["{{name}}", "{{username}}", "{{password}}", "{{subject}}", "{{expiration}}"];
    for (act, credential_type, places) in [
        (StatementAct::Creation, "password", &[0, 1, 2, 4][..]),
        (StatementAct::Creation, "client_certificate", &[0, 1, 3, 4]),
        (StatementAct::Rollback, "password", &[0, 1]),
        (StatementAct::Renewal, "password", &[0, 1, 4]),
        (StatementAct::Revocation, "password", &[0, 1]),
        (StatementAct::Rotation, "password", &[0, 1, 2]),
        (StatementAct::Rotation, "rsa_private_key", &[0, 1]),
    ] {
        let purpose = purpose(act, credential_type);
        let names: Vec<&str> = places.iter().map(|place| all[*place]).collect();
        let (last, others) = names.split_last().unwrap();
        let available = format!("{} and {last}", others.join(", "));
        for written in all {
            let is_known = names.contains(&written);
            let refused = LexFault::AbsentPlaceholder { written, available: available.clone() };
            let expected = if is_known { Ok(()) } else { Err(refused) };
            for text in [format!("x '{written}'"), format!("DO $$ BEGIN x '{written}'; END $$")] {
                assert_eq!(checked(&text, &purpose), expected, "{act:?}: {text}");
            }
        }
    }
}

#[test]
fn refusal_names_unknown_and_available_placeholders() {
    let refused =
        checked("x '{{password}}'", &purpose(StatementAct::Renewal, "password")).unwrap_err();
    assert_eq!(
        refused.to_string(),
        "asks for {{password}}, which has no value in statements of this kind; there are \
         {{name}}, {{username}} and {{expiration}}"
    );
    let refused =
        checked("x '{{nmae}}'", &purpose(StatementAct::Revocation, "password")).unwrap_err();
    assert_eq!(
        refused.to_string(),
        "has the unknown placeholder {{nmae}}; in statements of this kind there are {{name}} and \
         {{username}}, without spaces"
    );
}

#[test]
fn placeholder_without_value_is_refused_at_use() {
    let values =
        PlaceholderValues { username: "v", password: None, subject: None, expiration: None };
    let filled = |text: &str| {
        let prepared = prepare(SqlDialect::Postgres, &[text.to_owned()], &values);
        prepared.map(|prepared| prepared[0].statement.text.clone()).map_err(|error| error.fault)
    };
    for written in ["{{password}}", "{{expiration}}", "{{subject}}"] {
        let available = "{{name}} and {{username}}".to_owned();
        let refused = LexFault::AbsentPlaceholder { written, available };
        assert_eq!(filled(&format!("x '{written}'")), Err(refused));
    }
    assert_eq!(filled("x {{username}} {{name}}").unwrap(), "x v v");
}

/// Returns the position of the first of `passwords` that fits into `text`.
fn fitting(dialect: SqlDialect, text: &str, passwords: &[&str]) -> Option<u32> {
    let passwords = passwords.iter().map(|password| (*password).to_owned()).collect();
    let purpose = StatementPurpose { passwords, ..purpose(StatementAct::Creation, "password") };
    first_fitting(dialect, &[text.to_owned()], &purpose, |password| Some(password.to_owned()))
}

#[test]
fn first_password_fitting_its_place_is_found() {
    let body = "DO $$ BEGIN CREATE ROLE \"{{name}}\" PASSWORD '{{password}}'; END $$";
    let quoted = "CREATE ROLE \"{{name}}\" PASSWORD '{{password}}'";
    let passwords = ["a'b", "a\\b", "a$x$b", "a$$", "!@#$%^&*", "abc"];
    assert_eq!(fitting(SqlDialect::Postgres, body, &passwords), Some(4));
    assert_eq!(fitting(SqlDialect::Postgres, quoted, &passwords), Some(0));
    assert_eq!(fitting(SqlDialect::Mysql, "x '{{password}}'", &passwords), Some(0));
    assert_eq!(fitting(SqlDialect::Postgres, "x {{password}}", &passwords), Some(5));
    assert_eq!(fitting(SqlDialect::Postgres, body, &["'", "\""]), None);
    assert_eq!(fitting(SqlDialect::Postgres, body, &[]), None);
}

#[test]
fn dollar_unable_to_end_dollar_quote_is_accepted() {
    let verifier = "SCRAM-SHA-256$4096:W22ZaJ0SNY7soEsUEjb6gQ==$WG5d8oPm3OtcPnkdi4Uo7BkeZkBFzpcXk\
                    uLmtbsT4qY=:wfPLwcE6nTWhTAmQ7tl2KeoiWGPlZqQxSrmfPwDl2dU=";
    for fits in [
        "DO $$ BEGIN CREATE ROLE x PASSWORD '{{password}}'; END $$",
        "DO $body$ BEGIN EXECUTE format('ALTER ROLE x PASSWORD %L', '{{password}}'); END $body$",
        "DO $$ BEGIN EXECUTE 'ALTER ROLE x PASSWORD ''{{password}}'''; END $$",
        "CREATE ROLE x PASSWORD '{{password}}'",
    ] {
        assert_eq!(fitting(SqlDialect::Postgres, fits, &[verifier]), Some(0), "{fits}");
    }
    for code in [
        "DO $$ BEGIN x '${{password}}'; END $$",
        "DO $$ BEGIN x '{{password}}$'; END $$",
        "DO $$ BEGIN x '$a{{password}}'; END $$",
        "DO $$ BEGIN x '{{password}}a$'; END $$",
        "DO $$ BEGIN x '{{name}}{{password}}'; END $$",
        "DO $$ BEGIN x $q${{password}}$q$; END $$",
        "DO $$ BEGIN x {{password}}; END $$",
    ] {
        assert_eq!(fitting(SqlDialect::Postgres, code, &["b$", "$b", verifier]), None, "{code}");
    }
}

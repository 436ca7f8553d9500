//! Requests to the database for the creation, change and check of users.

use super::*;
use bulkhead_sdk::sql_script::SqlScript;
use serde_json::json;

const URL: &str = "{{username}}:{{password}}@tcp(db:3306)/orders";

const CREATION: &str = "CREATE USER '{{name}}'@'%' IDENTIFIED BY '{{password}}'; GRANT SELECT ON \
                        orders.* TO '{{username}}'@'%'";

fn connection() -> ParsedConnection {
    let more = [("username", json!("root")), ("password", json!("rootpass"))];
    ParsedConnection::read(&SqlScript::settings_with(URL, &more)).unwrap()
}

fn self_managed() -> ParsedConnection {
    let more = [("self_managed", json!(true))];
    ParsedConnection::read(&SqlScript::settings_with(URL, &more)).unwrap()
}

fn user(credential: Credential) -> NewUser {
    NewUser { username: "v-a-1".to_owned(), credential, expires: 1_893_456_000_000 }
}

fn password(text: &str) -> Credential {
    Credential::Password(text.to_owned())
}

fn list(texts: &[&str]) -> Vec<String> {
    texts.iter().map(|text| (*text).to_owned()).collect()
}

fn created(script: &SqlScript, creation: &[&str], rollback: &[&str]) -> Result<(), Refusal> {
    let user = user(password("p'\\w"));
    create(script, &connection(), &user, &list(creation), &list(rollback)).map(drop)
}

fn says_nothing_was_made(refusal: &Refusal) -> bool {
    refusal.ext.contains(&("made".to_owned(), "nothing".to_owned()))
}

#[test]
fn creation_escapes_values_and_marks_password_statement_secret() {
    let script = SqlScript::default();
    created(&script, &[CREATION], &[]).unwrap();
    assert_eq!(
        script.asked()[0],
        "transact CREATE USER 'v-a-1'@'%' IDENTIFIED BY 'p''\\\\w'; GRANT SELECT ON orders.* TO \
         'v-a-1'@'%'"
    );
    assert_eq!(script.asked().len(), 2, "the account is read once");
    assert_eq!(script.secrets().len(), 1);
}

#[test]
fn foreign_user_with_taken_name_is_not_removed() {
    let taken = |at| SqlFailure { statement: Some(at), ..SqlScript::state("1396") };
    for (creation, word, at) in [
        (&[CREATION][..], "CREATE USER", 0),
        (&["CREATE DATABASE IF NOT EXISTS o", "CREATE USER '{{name}}'@'%'"], "CREATE USER", 1),
    ] {
        let script = SqlScript::default().fails(word, taken(at));
        let refusal = created(&script, creation, &["DROP ROLE '{{name}}-r'"]).unwrap_err();
        assert_eq!(refusal.code, "name-taken");
        assert!(says_nothing_was_made(&refusal), "{creation:?}");
        assert_eq!(script.asked().len(), 1, "{:?}", script.asked());
    }
    // After a statement that created a user with this name, the name belongs to this request.
    let script = SqlScript::default().fails("GRANT", taken(1));
    let refusal = created(&script, &[CREATION], &[]).unwrap_err();
    assert_eq!(refusal.code, "name-taken");
    assert!(script.asked().iter().any(|call| call.contains("DROP USER")), "{:?}", script.asked());
}

#[test]
fn unevident_creation_is_looked_up_before_and_after() {
    let adopting = "CREATE USER IF NOT EXISTS '{{name}}'@'%' IDENTIFIED BY '{{password}}'";
    let foreign = SqlScript::default().answers("mysql.user", &["10.%"]);
    let refusal = created(&foreign, &[adopting], &[]).unwrap_err();
    assert_eq!(refusal.code, "user-exists");
    assert!(says_nothing_was_made(&refusal));
    assert_eq!(foreign.asked().len(), 1, "nothing is changed: {:?}", foreign.asked());

    let script = SqlScript::default().answers_once("mysql.user", &[]).answers("mysql.user", &["%"]);
    created(&script, &[adopting], &[]).unwrap();

    let another = SqlScript::default();
    let statement = "CREATE USER '{{name}}-app'@'%' IDENTIFIED BY '{{password}}'";
    let rollback = ["DROP USER '{{name}}-app'"];
    let refusal = created(&another, &[statement], &rollback).unwrap_err();
    assert_eq!(refusal.code, "user-not-created");
    assert!(says_nothing_was_made(&refusal));
    let calls = another.asked();
    assert!(calls.contains(&"transact DROP USER 'v-a-1-app'".to_owned()), "{calls:?}");

    let unseen = SqlScript::default().fails("mysql.user", SqlScript::state("1142"));
    let refusal = created(&unseen, &[adopting], &[]).unwrap_err();
    assert_eq!(refusal.code, "creation-unseen");
    assert!(says_nothing_was_made(&refusal));
    let lost = SqlScript::default()
        .answers_once("mysql.user", &[])
        .fails("mysql.user", SqlScript::failure("unreachable", None));
    let refusal = created(&lost, &[adopting], &[]).unwrap_err();
    assert!(!says_nothing_was_made(&refusal), "the caller undoes the creation");
}

#[test]
fn failed_creation_remains_are_removed_and_reported() {
    let failed = SqlFailure { statement: Some(1), ..SqlScript::state("1410") };
    let script = SqlScript::default().fails("GRANT", failed);
    let refusal = created(&script, &[CREATION], &["DROP ROLE '{{name}}-r'"]).unwrap_err();
    assert_eq!((refusal.code.as_str(), refusal.statement), ("insufficient-privilege", Some(0)));
    assert!(says_nothing_was_made(&refusal));
    let calls = script.asked();
    let place = |part: &str| calls.iter().position(|call| call.contains(part)).unwrap();
    assert!(place("DROP ROLE 'v-a-1-r'") < place("DROP USER 'v-a-1'@'%'"), "{calls:#?}");
    assert!(!format!("{refusal:?}").contains("canary"));
}

#[test]
fn failed_creation_remains_are_removed_for_complete_statements() {
    let unseen = || {
        SqlScript::default()
            .fails("mysql.user", SqlScript::state("1142"))
            .fails("GRANT", SqlScript::state("1410"))
    };
    let created_at = |host: &str, more: &str| {
        let script = unseen();
        let text = format!(
            "CREATE USER '{{{{name}}}}'@'{host}'; GRANT x TO '{{{{name}}}}'@'{host}'{more}"
        );
        let refused = created(&script, &[&text], &[]).unwrap_err();
        (says_nothing_was_made(&refused), script.asked())
    };
    let (is_sure, calls) = created_at("10.%", "");
    assert!(
        is_sure && calls.contains(&"transact DROP USER 'v-a-1'@'10.%'".to_owned()),
        "{calls:?}"
    );
    let (is_sure, _) = created_at("10.%", "; CALL more('{{name}}')");
    assert!(!is_sure, "a procedure may make accounts that its call does not name");
}

#[test]
fn possible_remains_are_left_for_caller_to_undo() {
    for failure in [
        SqlScript::failure("unreachable", None),
        SqlScript::failure("timed-out", Some("1969")),
        SqlScript::failure("statement-failed", None),
    ] {
        let script = SqlScript::default().fails("CREATE USER", failure);
        assert!(!says_nothing_was_made(&created(&script, &[CREATION], &[]).unwrap_err()));
    }
    let script = SqlScript::default()
        .fails("CREATE USER", SqlScript::state("1064"))
        .fails("DROP USER", SqlScript::failure("unreachable", None));
    assert!(!says_nothing_was_made(&created(&script, &[CREATION], &[]).unwrap_err()));
}

#[test]
fn unlexable_statements_never_reach_database() {
    let script = SqlScript::default();
    for text in ["CREATE USER '{{name}}", "SELECT \"x", "SELECT `x", "x {{nmae}}", "/* x", "\\G"] {
        let refusal = created(&script, &["SELECT 1", text], &[]).unwrap_err();
        assert_eq!(refusal.code, "invalid-statement", "{text}");
        assert!(says_nothing_was_made(&refusal));
    }
    for nothing in [vec![], vec!["", " ; # nothing", "-- nothing"]] {
        let refusal = created(&script, &nothing, &[]).unwrap_err();
        assert_eq!(refusal.code, "creation-statements-required");
    }
    assert!(script.asked().is_empty());
}

#[test]
fn certificate_subject_is_written_as_server_compares() {
    let script = SqlScript::default();
    let new = user(Credential::SubjectDn("CN=app\\, one,O=harbour".to_owned()));
    let creation = list(&["CREATE USER '{{name}}'@'%' REQUIRE SUBJECT '{{subject}}'"]);
    create(&script, &connection(), &new, &creation, &[]).unwrap();
    assert_eq!(
        script.asked()[0],
        "transact CREATE USER 'v-a-1'@'%' REQUIRE SUBJECT '/CN=app, one/O=harbour'"
    );
    let refusal = create(&script, &connection(), &new, &list(&[CREATION]), &[]).unwrap_err();
    assert_eq!(refusal.code, "invalid-statement", "there is no password then");
    let key = user(Credential::PublicKeyPem("k".to_owned()));
    let refusal = create(&script, &connection(), &key, &creation, &[]).unwrap_err();
    assert_eq!(refusal.code, "unsupported");
}

#[test]
fn password_change_covers_all_hosts_or_login_host() {
    let changed = |script: &SqlScript, username: &str, statements: &[&str]| {
        change_credential(
            script,
            &connection(),
            username,
            &password("n'w"),
            None,
            &list(statements),
        )
    };
    let script = SqlScript::default()
        .answers("mysql.user", &["%", "10.0.0.'1"])
        .answers("CURRENT_USER", &["ro@ot@10.%"]);
    changed(&script, "a\\'b", &[]).unwrap();
    changed(&script, "root", &[]).unwrap();
    changed(&script, "u", &["SET PASSWORD FOR '{{username}}' = PASSWORD('{{password}}')"]).unwrap();
    let calls = script.asked();
    let transacted: Vec<&String> =
        calls.iter().filter(|call| call.starts_with("transact")).collect();
    assert_eq!(
        transacted,
        [
            "transact ALTER USER 'a\\\\''b'@'%' IDENTIFIED BY 'n''w', 'a\\\\''b'@'10.0.0.''1' \
             IDENTIFIED BY 'n''w'",
            "transact ALTER USER 'ro@ot'@'10.%' IDENTIFIED BY 'n''w'",
            "transact SET PASSWORD FOR 'u' = PASSWORD('n''w')",
        ]
    );
    assert_eq!(changed(&SqlScript::default(), "u", &[]).unwrap_err().code, "user-not-found");
    let denied = SqlScript::default().fails("mysql.user", SqlScript::state("1142"));
    changed(&denied, "u", &[]).unwrap();
    assert!(denied.asked().iter().any(|call| call.contains("'u'@'%'")));
    let denied = denied.fails("ALTER", SqlScript::state("1396"));
    let refused = changed(&denied, "u", &[]).unwrap_err();
    assert_eq!(refused.code, "accounts-unseen", "the account may be one of another host");
    let weak =
        SqlScript::default().answers("mysql.user", &["%"]).fails("ALTER", SqlScript::state("1819"));
    assert_eq!(changed(&weak, "u", &[]).unwrap_err().code, "password-policy");
}

#[test]
fn self_managed_user_logs_in_with_current_password() {
    let script = SqlScript::default()
        .answers("CURRENT_USER", &["app@%"])
        .fails("ALTER", SqlScript::state("1227"));
    let (old, new) = (password("old"), password("new"));
    change_credential(&script, &self_managed(), "app", &new, Some(&old), &[]).unwrap();
    let altered = ["ALTER USER 'app'@'%' IDENTIFIED BY 'new'", "SET PASSWORD = PASSWORD('new')"];
    let calls = script.asked();
    assert_eq!(
        calls[1..],
        altered.map(|text| format!("transact {text}")),
        "the statements of MariaDB"
    );
    assert_eq!(script.logins(), ["app:old", "app:old"]);
    for refused in [
        change_credential(&script, &self_managed(), "app", &new, None, &[]),
        create(&script, &self_managed(), &user(new.clone()), &list(&[CREATION]), &[]).map(drop),
    ] {
        assert_eq!(refused.unwrap_err().code, "self-managed");
    }
}

#[test]
fn user_expiration_changes_only_by_operator_statements() {
    let script = SqlScript::default();
    set_expiration(&script, &connection(), &CreatedUser::named("u"), 0, &[]).unwrap();
    set_expiration(
        &script,
        &connection(),
        &CreatedUser::named("u"),
        0,
        &list(&["SELECT '{{expiration}}'"]),
    )
    .unwrap();
    assert_eq!(script.asked(), ["transact SELECT '1970-01-01 00:00:00+0000'"]);
}

#[test]
fn creation_returns_accounts_with_password_digests() {
    let create_accounts = |script: &SqlScript, creation: &[&str]| {
        create(script, &connection(), &user(password("pw")), &list(creation), &[]).unwrap()
    };
    let account = |name: &str, host: &str, identity: &str| Account {
        name: name.to_owned(),
        host: Some(host.to_owned()),
        identity: identity.to_owned(),
    };
    let two = [
        "CREATE USER '{{name}}'@'LocalHost' IDENTIFIED BY '{{password}}'",
        "CREATE USER '{{name}}_ro'@'10.%'",
    ];
    let seen = SqlScript::default().answers_row("< ?, ''", &["v-a-1", "localhost", "d1"]);
    let accounts = [account("v-a-1", "LocalHost", "d1"), account("v-a-1_ro", "10.%", "")];
    assert_eq!(create_accounts(&seen, &two), accounts);
    let unseen = SqlScript::default().fails("mysql.user", SqlScript::state("1142"));
    assert_eq!(create_accounts(&unseen, &[CREATION]), [account("v-a-1", "%", "")]);
    let code = SqlScript::default()
        .answers_once("ORDER BY 1", &[])
        .answers_rows_once("LOCATE", &[&["v-a-1_x", "%", ""]])
        .answers("ORDER BY 1", &["%"])
        .answers_rows(
            "LOCATE",
            &[&["v-a-1", "%", ""], &["v-a-1_x", "%", ""], &["v-a-10", "%", ""]],
        );
    assert_eq!(create_accounts(&code, &["CALL make('{{name}}')"]), [account("v-a-1", "%", "")]);
    let planned = plan_accounts("v-a-1", &list(&two));
    assert_eq!(planned, [account("v-a-1", "LocalHost", ""), account("v-a-1_ro", "10.%", "")]);
    assert_eq!(plan_accounts("v-a-1", &list(&[two[0], "CALL x()"])).len(), 1);
    assert!(plan_accounts("v-a-1", &list(&["CALL make('{{name}}')"])).is_empty());
}

#[test]
fn the_undo_drops_no_account_of_somebody_else() {
    let taken = |at| SqlFailure { statement: Some(at), ..SqlScript::state("1396") };
    // The second account is somebody else's: the server refuses its statement.
    let two = ["CREATE USER '{{name}}'@'%'", "CREATE USER '{{name}}'@'localhost'"];
    let script = SqlScript::default().fails("CREATE USER", taken(1));
    created(&script, &two, &[]).unwrap_err();
    assert_eq!(script.asked()[1..], ["transact DROP USER 'v-a-1'@'%'"]);
    // One statement with both: MariaDB would make the first one, so both are looked for before.
    let both = ["CREATE USER '{{name}}'@'%', '{{name}}'@'localhost'"];
    let script = SqlScript::default().answers("ORDER BY 1", &["localhost"]);
    assert_eq!(created(&script, &both, &[]).unwrap_err().code, "user-exists");
    assert_eq!(script.asked().len(), 1, "nothing is changed");
}

#[test]
fn an_account_without_quotes_is_undone() {
    let failed = SqlFailure { statement: Some(1), ..SqlScript::state("1146") };
    let script = SqlScript::default().fails("GRANT", failed);
    let user = NewUser { username: "u_a1".to_owned(), ..user(password("pw")) };
    let creation = list(&["CREATE USER {{name}}@'%'; GRANT SELECT ON nodb.t TO {{name}}@'%'"]);
    create(&script, &connection(), &user, &creation, &[]).unwrap_err();
    assert!(script.asked().contains(&"transact DROP USER 'u_a1'@'%'".to_owned()));
}

#[test]
fn a_renewal_reaches_a_renamed_account() {
    let script = SqlScript::default().answers_row(">= ? AND", &["new", "%", "d"]);
    let identity = "d".to_owned();
    let accounts = vec![Account { identity, ..Account::named("u") }];
    let user = CreatedUser { username: "u".to_owned(), accounts };
    set_expiration(&script, &connection(), &user, 0, &list(&["SELECT '{{name}}'"])).unwrap();
    assert_eq!(script.asked().last().unwrap(), "transact SELECT 'new'");
}

#[test]
fn undo_after_any_refusal_leaves_foreign_account() {
    let refused = SqlFailure { statement: Some(0), ..SqlScript::state("1064") };
    let script = SqlScript::default().fails("CREATE USER", refused);
    let refusal = created(&script, &[CREATION], &[]).unwrap_err();
    assert!(says_nothing_was_made(&refusal));
    assert_eq!(script.asked().len(), 1, "{:?}", script.asked());
}

#[test]
fn the_undo_of_another_user_drops_that_user() {
    let script = SqlScript::default();
    let creation = ["CREATE USER '{{name}}-app'@'%' IDENTIFIED BY '{{password}}'"];
    assert_eq!(created(&script, &creation, &[]).unwrap_err().code, "user-not-created");
    assert!(script.asked().contains(&"transact DROP USER 'v-a-1-app'@'%'".to_owned()));
    let failed = SqlFailure { statement: Some(1), ..SqlScript::state("1644") };
    let script = SqlScript::default().fails("CALL", failed);
    created(&script, &["CREATE USER '{{name}}_ro'@'%'", "CALL make('{{name}}')"], &[]).unwrap_err();
    assert!(script.asked().contains(&"transact DROP USER 'v-a-1_ro'@'%'".to_owned()));
}

#[test]
fn code_before_taken_name_leaves_foreign_account() {
    let taken = SqlFailure { statement: Some(1), ..SqlScript::state("1396") };
    let script = SqlScript::default()
        .fails("CREATE USER", taken)
        .answers_rows("LOCATE", &[&["v-a-1", "10.%", ""]])
        .answers("ORDER BY 1", &["10.%"]);
    let creation = ["CALL prepare_all()", "CREATE USER '{{name}}'@'%'"];
    created(&script, &creation, &[]).unwrap_err();
    assert!(!script.asked().iter().any(|call| call.contains("DROP USER")), "{:?}", script.asked());
}

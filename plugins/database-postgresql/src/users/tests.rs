//! Requests to the database for the creation, change and check of users.
use super::*;
use bulkhead_sdk::sql_script::SqlScript;
use serde_json::json;

const URL: &str = "postgresql://{{username}}:{{password}}@db:5432/orders";

fn connection(authentication: &str) -> ParsedConnection {
    let more = [
        ("username", json!("root")),
        ("password", json!("rootpass")),
        ("password_authentication", json!(authentication)),
    ];
    ParsedConnection::read(&SqlScript::settings_with(URL, &more)).unwrap()
}

fn user(password: &str) -> NewUser {
    NewUser {
        username: "v-a-1".to_owned(),
        credential: Credential::Password(password.to_owned()),
        expires: 1_893_456_000_000,
    }
}

fn list(texts: &[&str]) -> Vec<String> {
    texts.iter().map(|text| (*text).to_owned()).collect()
}

const CREATION: &str = "CREATE ROLE \"{{name}}\" WITH LOGIN PASSWORD '{{password}}' VALID UNTIL \
                        '{{expiration}}'; GRANT SELECT ON ALL TABLES IN SCHEMA public TO \
                        \"{{name}}\";";

/// The query after the creation of `v-a-1`.
const IDENTITY: &str = "query SELECT r.rolname::text, r.oid::text, s.system_identifier::text, \
                        c.timeline_id::text FROM pg_catalog.pg_roles r, \
                        pg_catalog.pg_control_system() s, pg_catalog.pg_control_checkpoint() c \
                        WHERE r.rolname = ANY (string_to_array($1, chr(31))::name[]) <- v-a-1";

/// The check at the end of the creation of `v-a-1`.
const LOOK: &str = "SELECT CASE WHEN bool_or(rolname = 'v-a-1') THEN 0 WHEN count(*) > 0 THEN 1 / \
                    (count(*) - count(*)) ELSE ln(0.0 * count(*)) END FROM pg_catalog.pg_roles \
                    WHERE rolname IN ('v-a-1', lower('v-a-1'))";

#[test]
fn creation_is_one_transaction_with_password_statement_secret() {
    let script = SqlScript::default();
    create(&script, &connection("password"), &user("p'w"), &list(&[CREATION])).unwrap();
    assert_eq!(
        script.asked(),
        [
            &format!(
                "transact CREATE ROLE \"v-a-1\" WITH LOGIN PASSWORD 'p''w' VALID UNTIL \
                 '2030-01-01 00:00:00+0000'; GRANT SELECT ON ALL TABLES IN SCHEMA public TO \
                 \"v-a-1\"; {LOOK}"
            ),
            IDENTITY,
        ]
    );
    assert_eq!(script.secrets().len(), 1);
}

#[test]
fn with_scram_the_password_itself_is_never_sent() {
    let script = SqlScript::default();
    create(&script, &connection("scram-sha-256"), &user("hunter22"), &list(&[CREATION])).unwrap();
    change_credential(
        &script,
        &connection("scram-sha-256"),
        "u",
        &user("hunter22").credential,
        None,
        &[],
    )
    .unwrap();
    let calls = script.asked();
    assert!(!calls.iter().any(|call| call.contains("hunter22")));
    let changes = calls.iter().filter(|call| call.starts_with("transact"));
    assert!(changes.clone().all(|call| call.contains("'SCRAM-SHA-256$4096:")));
    assert_eq!(changes.count(), 2);
    assert_ne!(calls[0].split('$').nth(1), calls[1].split('$').nth(1), "salts differ");
    assert_eq!(script.secrets().len(), 2);
    let refusal =
        create(&script, &connection("scram-sha-256"), &user("pä"), &list(&[CREATION])).unwrap_err();
    assert_eq!(refusal.code, "password-not-ascii");
}

#[test]
fn unlexable_statements_never_reach_database() {
    let script = SqlScript::default();
    let refusal = create(
        &script,
        &connection("password"),
        &user("pw"),
        &list(&["SELECT 1", "CREATE ROLE 'x"]),
    )
    .unwrap_err();
    assert_eq!((refusal.code.as_str(), refusal.statement), ("invalid-statement", Some(1)));
    for nothing in [vec![], list(&["", " ; -- nothing"])] {
        let refusal = create(&script, &connection("password"), &user("pw"), &nothing).unwrap_err();
        assert_eq!(refusal.code, "creation-statements-required");
    }
    assert!(script.asked().is_empty());
}

#[test]
fn failed_statement_number_follows_operator_count() {
    let failed = SqlFailure { statement: Some(3), ..SqlScript::state("42601") };
    let script = SqlScript::default().fails("transact", failed);
    let statements = list(&["SELECT 1; SELECT 2", "CREATE ROLE \"{{name}}\""]);
    let refusal = create(&script, &connection("password"), &user("pw"), &statements).unwrap_err();
    assert_eq!((refusal.code.as_str(), refusal.statement), ("statement-failed", Some(1)));
    assert_eq!(refusal.vendor_code.as_deref(), Some("42601"));
    assert!(!format!("{refusal:?}").contains("canary"));
}

#[test]
fn creation_first_checks_that_user_is_new() {
    let check = "transact SELECT 1 / (1 - count(*)) FROM pg_catalog.pg_roles WHERE rolname = \
                 'v-a-1'; ";
    for (statement, is_checked) in [
        ("CREATE ROLE \"{{name}}\"", false),
        ("create  user \"{{name}}\" LOGIN", false),
        ("CREATE ROLE {{name}} LOGIN", true),
        ("CREATE ROLE \"app-{{name}}\"", true),
        ("DROP ROLE IF EXISTS \"{{name}}\"; CREATE ROLE \"{{name}}\"", true),
        ("DO $$ BEGIN CREATE ROLE \"{{name}}\"; EXCEPTION WHEN OTHERS THEN END $$", true),
    ] {
        let script = SqlScript::default();
        create(&script, &connection("password"), &user("pw"), &list(&[statement])).unwrap();
        let call = script.asked().into_iter().find(|call| call.starts_with("transact"));
        let call = call.unwrap();
        assert_eq!(call.starts_with(check), is_checked, "{call}");
        assert!(call.ends_with(LOOK), "{call}");
    }
}

#[test]
fn wrong_user_creation_names_cause_and_keeps_nothing() {
    for (statement, state, code) in [
        (0, "22012", "user-exists"),
        (2, "22012", "name-folded"),
        (2, "2201E", "user-not-created"),
        (1, "22012", "statement-failed"),
        (2, "42P01", "statement-failed"),
        (2, "42501", "roles-unseen"),
        (1, "42501", "insufficient-privilege"),
    ] {
        let failed = SqlFailure { statement: Some(statement), ..SqlScript::state(state) };
        let script = SqlScript::default().fails("transact", failed);
        let creation = list(&["CREATE ROLE {{name}}"]);
        let new = NewUser { username: "v-A-1".to_owned(), ..user("pw") };
        let refusal = create(&script, &connection("password"), &new, &creation).unwrap_err();
        assert_eq!(refusal.code, code, "{statement} {state}");
        assert_eq!(refusal.statement, (statement == 1).then_some(0));
        assert!(refusal.ext.contains(&("made".to_owned(), "nothing".to_owned())));
        let folded = ("folded".to_owned(), "v-a-1".to_owned());
        assert_eq!(refusal.ext.contains(&folded), code == "name-folded");
    }
}

#[test]
fn certificate_user_has_subject_and_no_password() {
    let script = SqlScript::default();
    let subject = Credential::SubjectDn("CN=v-a-1".to_owned());
    let new = NewUser { credential: subject.clone(), ..user("pw") };
    let connection = connection("scram-sha-256");
    let creation = "CREATE ROLE \"{{name}}\" LOGIN; COMMENT ON ROLE \"{{name}}\" IS '{{subject}}'";
    create(&script, &connection, &new, &list(&[creation])).unwrap();
    assert_eq!(
        script.asked(),
        [
            &format!(
                "transact CREATE ROLE \"v-a-1\" LOGIN; COMMENT ON ROLE \"v-a-1\" IS 'CN=v-a-1'; \
                 {LOOK}"
            ),
            IDENTITY,
        ]
    );
    let refused = [
        create(&script, &connection, &new, &list(&[CREATION])).map(drop),
        change_credential(&script, &connection, "u", &subject, None, &[]),
    ];
    assert_eq!(
        refused.map(|refused| refused.unwrap_err().code),
        ["invalid-statement", "unsupported"]
    );
}

#[test]
fn public_keys_are_not_handled() {
    let script = SqlScript::default();
    let credential = Credential::PublicKeyPem("k".to_owned());
    let new = NewUser { credential: credential.clone(), ..user("pw") };
    let connection = connection("password");
    let refused = [
        create(&script, &connection, &new, &list(&[CREATION])).map(drop),
        change_credential(&script, &connection, "u", &credential, None, &[]),
    ];
    assert!(refused.into_iter().all(|refused| refused.unwrap_err().code == "unsupported"));
    assert!(script.asked().is_empty());
}

#[test]
fn self_managed_user_logs_in_with_current_password() {
    let script = SqlScript::default();
    let settings = SqlScript::settings_with(URL, &[("self_managed", json!(true))]);
    let connection = ParsedConnection::read(&settings).unwrap();
    let (new, old) = (user("new").credential, user("old").credential);
    change_credential(&script, &connection, "app", &new, Some(&old), &[]).unwrap();
    assert_eq!(script.asked(), ["transact ALTER ROLE \"app\" WITH PASSWORD 'new'"]);
    assert_eq!(script.logins(), ["app:old"]);
    for refused in [
        change_credential(&script, &connection, "app", &new, None, &[]),
        create(&script, &connection, &user("new"), &list(&[CREATION])).map(drop),
    ] {
        assert_eq!(refused.unwrap_err().code, "self-managed");
    }
}

#[test]
fn changes_use_default_statements_unless_operator_gives_others() {
    let script = SqlScript::default();
    let connection = connection("password");
    change_credential(&script, &connection, "a\"b", &user("n'w").credential, None, &[]).unwrap();
    set_expiration(&script, &connection, &CreatedUser::named("u"), 0, &[]).unwrap();
    set_expiration(
        &script,
        &connection,
        &CreatedUser::named("u"),
        0,
        &list(&["SELECT '{{expiration}}'"]),
    )
    .unwrap();
    set_expiration(&script, &connection, &CreatedUser::named("u"), 0, &list(&["-- leave it"]))
        .unwrap();
    assert_eq!(
        script.asked(),
        [
            "transact ALTER ROLE \"a\"\"b\" WITH PASSWORD 'n''w'",
            "transact ALTER ROLE \"u\" VALID UNTIL '1970-01-01 00:00:00+0000'",
            "transact SELECT '1970-01-01 00:00:00+0000'",
        ]
    );
    let refusal = set_expiration(
        &script,
        &connection,
        &CreatedUser::named("u"),
        0,
        &list(&["x '{{password}}'"]),
    )
    .unwrap_err();
    assert_eq!(refusal.code, "invalid-statement");
}

#[test]
fn a_user_that_is_gone_cannot_be_changed() {
    let script = SqlScript::default()
        .fails("transact", SqlFailure { statement: Some(0), ..SqlScript::state("42704") });
    let refusal =
        set_expiration(&script, &connection("password"), &CreatedUser::named("u"), 0, &[])
            .unwrap_err();
    assert_eq!(refusal.code, "user-not-found");
    let statements = list(&["ALTER ROLE \"{{name}}\" VALID UNTIL '{{expiration}}'"]);
    let refusal =
        set_expiration(&script, &connection("password"), &CreatedUser::named("u"), 0, &statements)
            .unwrap_err();
    assert_eq!((refusal.code.as_str(), refusal.statement), ("statement-failed", Some(0)));
}

#[test]
fn url_without_credentials_uses_settings() {
    let connection =
        ParsedConnection::read(&SqlScript::settings("host=db user=root password='ro ot'")).unwrap();
    assert_eq!(
        (connection.target.username.as_str(), connection.target.password.as_str()),
        ("root", "ro ot")
    );
}

#[test]
fn creation_reports_nothing_made_only_on_database_word() {
    let reports_nothing_made = |script: &SqlScript, statements: &[&str]| {
        let refused = create(script, &connection("password"), &user("pw"), &list(statements));
        refused.unwrap_err().ext.contains(&("made".to_owned(), "nothing".to_owned()))
    };
    for (code, state, is_sure) in [
        ("statement-failed", Some("42710"), true),
        ("unreachable", None, false),
        ("timed-out", Some("57014"), false),
    ] {
        let script = SqlScript::default().fails("transact", SqlScript::failure(code, state));
        assert_eq!(reports_nothing_made(&script, &[CREATION]), is_sure, "{code}");
    }
    assert!(
        reports_nothing_made(&SqlScript::default(), &["CREATE ROLE 'x"]),
        "the database was not asked"
    );
    assert!(reports_nothing_made(&SqlScript::default(), &[]), "the database was not asked");
}

fn created(script: &SqlScript, statements: &[&str]) -> Vec<Account> {
    create(script, &connection("password"), &user("pw"), &list(statements)).unwrap()
}

fn account(name: &str, identity: &str) -> Account {
    Account { identity: identity.to_owned(), ..Account::named(name) }
}

#[test]
fn a_creation_returns_its_roles_with_their_identities() {
    let both = ["CREATE ROLE \"{{name}}\" LOGIN", "CREATE ROLE \"{{name}}_ro\""];
    let script = || SqlScript::default().answers_row("chr(31)", &["v-a-1", "16400", "7", "1"]);
    assert_eq!(created(&script(), &both[..1]), [account("v-a-1", "7/1/16400")]);
    let two = [account("v-a-1", "7/1/16400"), account("v-a-1_ro", "")];
    assert_eq!(created(&script(), &both), two);
    let unseen = SqlScript::default().fails("chr(31)", SqlScript::state("42501"));
    assert_eq!(created(&unseen, &both[..1]), [account("v-a-1", "")]);
    let outage = SqlScript::failure("unreachable", None);
    let down = SqlScript::default().fails("chr(31)", outage);
    let refused = create(&down, &connection("password"), &user("pw"), &list(&both)).unwrap_err();
    assert_eq!(refused.code, "unreachable");
    assert_eq!(
        refused,
        sql_failure::refusal(SqlScript::failure("unreachable", None), &{
            connection("password").target
        }),
        "the host removes the user"
    );
}

#[test]
fn roles_from_code_are_compared_with_earlier_roles() {
    let code = ["SELECT make('{{name}}')"];
    let before = || SqlScript::default().answers("string_agg", &["10,11"]);
    let of_transaction = before().answers_row("a.xmin", &["hidden", "16400", "7", "1"]);
    assert_eq!(
        created(&of_transaction, &code),
        [account("v-a-1", ""), account("hidden", "7/1/16400")]
    );
    assert!(of_transaction.asked().iter().any(|call| call.ends_with("<- v-a-1, 10,11")));
    let by_name = before()
        .fails("a.xmin", SqlScript::state("42501"))
        .answers_row("position($1", &["v-a-1_ro", "16401", "7", "1"]);
    let two = [account("v-a-1", ""), account("v-a-1_ro", "7/1/16401")];
    assert_eq!(created(&by_name, &code), two);
    let other = before().answers_row("position($1", &["v-a-10", "16401", "7", "1"]);
    assert_eq!(created(&other, &code), [account("v-a-1", "")], "another user has this name");
    let broken = before().fails("position($1", SqlScript::state("42601"));
    let refused = create(&broken, &connection("password"), &user("pw"), &list(&code));
    assert_eq!(refused.unwrap_err().code, "statement-failed", "a fault is not a missing right");
}

#[test]
fn plan_names_roles_derived_from_username() {
    let names = |statements: &[&str]| {
        let planned = plan_accounts("v-a-1", &list(statements));
        planned.into_iter().map(|account| account.name).collect::<Vec<_>>()
    };
    assert_eq!(names(&[CREATION]), ["v-a-1"]);
    let three = "CREATE ROLE \"{{name}}\"; CREATE ROLE \"{{name}}_ro\"; CREATE ROLE readers";
    assert_eq!(names(&[three]), ["v-a-1", "v-a-1_ro"]);
    assert_eq!(names(&[three, "SELECT make('{{name}}')"]), ["v-a-1", "v-a-1_ro"]);
    assert!(names(&["SELECT make('{{name}}')"]).is_empty());
    assert!(names(&["CREATE ROLE \"{{name}}\" {{nonsense}}"]).is_empty());
}

#[test]
fn renewal_reaches_renamed_role_but_no_foreign_role() {
    let renewed = |script: &SqlScript| {
        let accounts = vec![account("u", "7/1/16400")];
        let user = CreatedUser { username: "u".to_owned(), accounts };
        set_expiration(script, &connection("password"), &user, 0, &[])
    };
    let script = SqlScript::default()
        .answers_row("pg_control", &["7", "1", "16400", "new", "false", "true"]);
    assert_eq!(renewed(&script), Ok(()));
    assert!(script.asked()[1].starts_with("transact ALTER ROLE \"new\""));
    let row = [Some("7"), Some("1"), None, None, Some("false"), Some("true")];
    let script = SqlScript::default().answers_cells("pg_control", &row);
    assert_eq!(renewed(&script).unwrap_err().code, "user-not-found");
    assert_eq!(script.asked().len(), 1);
}

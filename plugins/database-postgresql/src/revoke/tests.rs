//! Requests to the database for the removal of a user, and requests that must never occur.
use super::*;
use crate::identity::BY_NAME;
use bulkhead_sdk::sql_script::SqlScript;

fn connection() -> ParsedConnection {
    ParsedConnection::read(&SqlScript::settings("postgresql://root:pw@db:5432/orders")).unwrap()
}

fn deleted(script: &SqlScript, username: &str, statements: &[&str]) -> Result<(), Refusal> {
    let statements: Vec<String> = statements.iter().map(|text| (*text).to_owned()).collect();
    delete(script, &connection(), &CreatedUser::named(username), &statements)
}

/// Returns a server with the user, which is gone after the statements.
fn living() -> SqlScript {
    left(&[])
}

/// Returns a server with the user. `logs_in` is the answer after the operator's statements to the
/// query if the user can still log in; it is empty if the user is gone.
fn left(logs_in: &[&str]) -> SqlScript {
    SqlScript::default().answers("rolcanlogin", logs_in).answers("FROM pg_roles", &["16400"])
}

/// The start of a transaction that removes the role with the OID 16400.
fn checked(name: &str) -> String {
    format!(
        "transact SELECT 1 / (1 - least(count(*), 1)) FROM pg_catalog.pg_roles WHERE (oid = 16400) \
         <> (rolname = E'{name}'); "
    )
}

const TERMINATE: &str = "execute SELECT pg_terminate_backend(pid, 2000) FROM pg_stat_activity \
                         WHERE usesysid = 16400 AND pid <> pg_backend_pid()";

const ORPHANS: &str = "execute SELECT pg_terminate_backend(pid, 2000) FROM pg_stat_activity WHERE \
                       usesysid IS NOT NULL AND NOT EXISTS (SELECT FROM pg_roles r WHERE r.oid = \
                       usesysid) AND pid <> pg_backend_pid()";

#[test]
fn a_user_that_is_gone_is_success() {
    let script = SqlScript::default();
    assert_eq!(deleted(&script, "u", &[]), Ok(()));
    assert_eq!(
        script.asked(),
        [
            &format!("query {BY_NAME} <- u"),
            "transact CREATE ROLE \"u\" NOLOGIN; DROP ROLE IF EXISTS \"u\"",
            ORPHANS,
        ]
    );

    let own = "transact DROP ROLE \"u\"";
    let script = SqlScript::default().fails(own, SqlScript::state("42704"));
    assert_eq!(deleted(&script, "u", &["DROP ROLE \"{{name}}\""]), Ok(()));
    let script = SqlScript::default().fails(own, SqlScript::state("42601"));
    assert_eq!(
        deleted(&script, "u", &["DROP ROLE \"{{name}}\""]).unwrap_err().code,
        "statement-failed"
    );
}

#[test]
fn user_appearing_during_absence_proof_is_tried_again() {
    for came_true in ["42710", "23505"] {
        let script = SqlScript::default().fails("CREATE ROLE", SqlScript::state(came_true));
        assert_eq!(deleted(&script, "u", &[]).unwrap_err().code, "conflict");
    }
    let script = SqlScript::default().fails("CREATE ROLE", SqlScript::failure("timed-out", None));
    assert_eq!(
        deleted(&script, "u", &[]).unwrap_err().code,
        "timed-out",
        "another session may still be making it"
    );
    let script = SqlScript::default().fails("CREATE ROLE", SqlScript::state("42501"));
    assert_eq!(deleted(&script, "u", &[]), Ok(()), "who may not make roles has made none");
    for unproven in ["25006", "53100"] {
        let script = SqlScript::default().fails("CREATE ROLE", SqlScript::state(unproven));
        let refused = deleted(&script, "u", &[]).unwrap_err();
        assert_eq!(refused.code, "statement-failed", "a copy that lags behind proves nothing");
    }
}

#[test]
fn plain_user_is_locked_stripped_dropped_and_disconnected() {
    let script = living();
    assert_eq!(deleted(&script, "v-a", &[]), Ok(()));
    let calls = script.asked();
    let removal = checked("v-a")
        + "[REVOKE ALL PRIVILEGES ON ALL TABLES IN SCHEMA \"public\" FROM \"v-a\"]; [REVOKE \
         ALL PRIVILEGES ON ALL SEQUENCES IN SCHEMA \"public\" FROM \"v-a\"]; [REVOKE USAGE ON \
         SCHEMA \"public\" FROM \"v-a\"]; [REVOKE CONNECT ON DATABASE \"orders\" FROM \"v-a\"]; \
         DROP ROLE IF EXISTS \"v-a\"";
    let denial = checked("v-a") + "ALTER ROLE \"v-a\" NOLOGIN";
    let order = [denial.as_str(), TERMINATE, &removal, TERMINATE];
    let places: Vec<usize> = order
        .iter()
        .scan(0, |from, step| {
            let place = *from + calls.iter().skip(*from).position(|call| call == step)?;
            *from = place + 1;
            Some(place)
        })
        .collect();
    assert_eq!(places.len(), order.len(), "{calls:#?}");
    assert!(!calls.iter().any(|call| call.contains("DROP OWNED")));
}

#[test]
fn schema_and_user_names_stay_inside_quotes() {
    let schemas = ["a\"; drop role x; --", "Mixed Case", "public; select 1"];
    let script = living().answers("role_column_grants", &schemas);
    assert_eq!(deleted(&script, "u\"; DROP ROLE root; --", &[]), Ok(()));
    let calls = script.asked();
    let role = "\"u\"\"; DROP ROLE root; --\"";
    for schema in
        ["\"a\"\"; drop role x; --\"", "\"Mixed Case\"", "\"public; select 1\"", "\"public\""]
    {
        let revoked = format!("[REVOKE USAGE ON SCHEMA {schema} FROM {role}]");
        assert_eq!(calls.iter().filter(|call| call.contains(&revoked)).count(), 1, "{revoked}");
    }
}

#[test]
fn user_without_dependents_is_removed_in_one_commit() {
    let bare = || SqlScript::default().answers_row("FROM pg_roles", &["16400", "false"]);
    let script = bare();
    assert_eq!(deleted(&script, "u", &[]), Ok(()));
    let found = format!("query {BY_NAME} <- u");
    let dropped = checked("u") + "DROP ROLE IF EXISTS \"u\"";
    assert_eq!(script.asked(), [found.as_str(), TERMINATE, &dropped, TERMINATE]);

    // Something has come to depend on the user in the meantime.
    let script = bare().fails_once(&dropped, SqlScript::state("2BP01"));
    assert_eq!(deleted(&script, "u", &[]), Ok(()));
    let calls = script.asked();
    assert!(calls.iter().any(|call| call.ends_with("]; DROP ROLE IF EXISTS \"u\"")), "{calls:?}");
}

#[test]
fn drop_with_lost_answer_is_retryable() {
    let lost = SqlScript::failure("timed-out", None);
    let script = SqlScript::default()
        .answers_row("FROM pg_roles", &["16400", "false"])
        .fails("DROP ROLE", lost)
        .fails("NOLOGIN", SqlScript::state("42704"));
    assert_eq!(deleted(&script, "u", &[]).unwrap_err().code, "timed-out");
}

#[test]
fn user_removed_during_statements_is_gone() {
    let statements = ["DROP ROLE \"{{name}}\""];
    let script = || SqlScript::default().fails("transact DROP ROLE", SqlScript::state("42704"));
    let gone = script().answers_once("FROM pg_roles", &["16400"]);
    assert_eq!(deleted(&gone, "u", &statements), Ok(()));
    let stays = script().answers("FROM pg_roles", &["16400"]);
    assert_eq!(deleted(&stays, "u", &statements).unwrap_err().code, "statement-failed");
}

#[test]
fn revocation_works_without_dependency_catalog() {
    let script = SqlScript::default()
        .fails("pg_shdepend", SqlScript::state("42P01"))
        .answers("FROM pg_roles", &["16400"]);
    assert_eq!(deleted(&script, "u", &[]), Ok(()));
    assert!(script.asked().iter().any(|call| call.contains("[REVOKE")));
}

#[test]
fn user_that_cannot_be_locked_is_still_removed() {
    let script = living().fails("NOLOGIN", SqlScript::state("42501"));
    assert_eq!(deleted(&script, "u", &[]), Ok(()));
    assert!(script.asked().iter().any(|call| call.contains("DROP ROLE")));
}

#[test]
fn an_outage_at_any_step_is_an_outage() {
    for step in [
        "pg_roles",
        "NOLOGIN",
        "pg_terminate",
        "role_column_grants",
        "REVOKE USAGE",
        "CONNECT",
        "DROP ROLE",
    ] {
        let script = SqlScript::default()
            .fails(step, SqlScript::failure("unreachable", None))
            .answers("FROM pg_roles", &["16400"]);
        assert_eq!(deleted(&script, "u", &[]).unwrap_err().code, "unreachable", "{step}");
    }
}

#[test]
fn drop_owned_removes_other_privileges_after_reassignment() {
    let script = living().fails_once("]; DROP ROLE", SqlScript::state("2BP01"));
    assert_eq!(deleted(&script, "u", &[]), Ok(()));
    let calls = script.asked();
    let drop = checked("u")
        + "REASSIGN OWNED BY \"u\" TO CURRENT_USER; DROP OWNED BY \"u\"; DROP ROLE IF EXISTS \"u\"";
    assert!(calls.contains(&drop), "{calls:#?}");
    assert!(!calls.iter().any(|call| call.contains("GRANT")));
}

#[test]
fn membership_is_taken_only_where_it_is_needed() {
    let script = living()
        .fails_once("]; DROP ROLE", SqlScript::state("2BP01"))
        .fails_once("; REASSIGN", SqlScript::state("42501"));
    assert_eq!(deleted(&script, "u", &[]), Ok(()));
    let granted = checked("u") + "GRANT \"u\" TO CURRENT_USER; REASSIGN OWNED BY";
    assert!(script.asked().iter().any(|call| call.starts_with(&granted)));

    let script = living().fails_once("pg_terminate", SqlScript::state("42501"));
    assert_eq!(deleted(&script, "u", &[]), Ok(()));
    let calls = script.asked();
    let granted =
        calls.iter().position(|call| call == "transact GRANT \"u\" TO CURRENT_USER").unwrap();
    assert_eq!(calls.iter().skip(granted).filter(|call| *call == TERMINATE).count(), 2);
}

#[test]
fn objects_of_a_user_are_never_dropped() {
    let owned: Vec<String> = (0..11).map(|number| format!("table t{number}")).collect();
    let owned: Vec<&str> = owned.iter().map(String::as_str).collect();
    let script =
        living().fails("]; DROP ROLE", SqlScript::state("2BP01")).answers("deptype = 'o'", &owned);
    let refusal = deleted(&script, "u", &[]).unwrap_err();
    assert_eq!(refusal.code, "owns-objects");
    let (name, objects) = refusal.ext.first().unwrap();
    assert_eq!(name, "objects");
    assert!(
        objects.starts_with("table t0, table t1,") && objects.ends_with("table t9, …"),
        "{objects}"
    );
    assert!(!script.asked().iter().any(|call| call.contains("DROP OWNED")));
}

#[test]
fn remaining_privileges_are_reported_by_object() {
    let privileges = ["database stock", "something in database billing"];
    let script = living()
        .fails("DROP ROLE", SqlScript::state("2BP01"))
        .answers("deptype = 'o'", &[])
        .answers("pg_shdepend", &privileges);
    let refusal = deleted(&script, "u", &[]).unwrap_err();
    assert_eq!(refusal.code, "still-holds-privileges");
    let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
    assert_eq!(
        refusal.ext,
        [pair("held", "database stock, something in database billing"), pair("user", "root")]
    );

    let script = living().fails("DROP ROLE", SqlScript::state("2BP01"));
    assert_eq!(deleted(&script, "u", &[]).unwrap_err().code, "statement-failed");
}

#[test]
fn server_without_session_wait_still_ends_session() {
    let script = living().fails("pid, 2000", SqlScript::state("42883"));
    assert_eq!(deleted(&script, "u", &[]), Ok(()));
    let plain = TERMINATE.replace("pid, 2000", "pid");
    assert_eq!(script.asked().iter().filter(|call| **call == plain).count(), 2);
}

#[test]
fn operator_statements_replace_default_and_sessions_still_end() {
    let script = living();
    assert_eq!(
        deleted(&script, "u", &["REVOKE g FROM \"{{name}}\"; DROP ROLE \"{{username}}\";"]),
        Ok(())
    );
    let calls = script.asked();
    assert!(calls.contains(&"transact REVOKE g FROM \"u\"; DROP ROLE \"u\"".to_owned()));
    assert_eq!(calls.last().map(String::as_str), Some(TERMINATE));
    assert!(!calls.iter().any(|call| call.contains("REVOKE ALL")));
}

#[test]
fn user_with_invalid_revocation_statements_is_locked_out() {
    for text in ["x '{{password}}'", "x '{{expiration}}'", "x 'y"] {
        let script = living();
        assert_eq!(deleted(&script, "u", &[text]).unwrap_err().code, "invalid-statement", "{text}");
        let denial = checked("u") + "ALTER ROLE \"u\" NOLOGIN";
        assert_eq!(script.asked()[1..], [denial.as_str(), TERMINATE]);
    }
    let script = SqlScript::default();
    assert_eq!(deleted(&script, "u", &["x 'y"]).unwrap_err().code, "invalid-statement");
}

#[test]
fn statements_leaving_user_with_login_are_no_removal() {
    let script = left(&["true"]);
    let refused = deleted(&script, "u", &["REVOKE g FROM \"{{name}}\""]).unwrap_err();
    assert_eq!(refused.code, "still-logs-in");
    assert_eq!(refused.ext, [("user".to_owned(), "root".to_owned())]);
    let script = left(&["false"]);
    assert_eq!(deleted(&script, "u", &["REVOKE g FROM \"{{name}}\""]), Ok(()));
}

#[test]
fn sessions_without_right_to_end_keep_lease() {
    let open_sessions = || {
        SqlScript::default()
            .fails("pg_terminate", SqlScript::state("42501"))
            .answers("count(*)::text", &["1"])
    };
    for bare in ["false", "true"] {
        let script = open_sessions().answers_row("FROM pg_roles", &["16400", bare]);
        let refused = deleted(&script, "u", &[]).unwrap_err();
        assert_eq!(refused.code, "sessions-remain");
        assert_eq!(refused.vendor_code.as_deref(), Some("42501"));
        let calls = script.asked();
        assert!(calls.contains(&(checked("u") + "ALTER ROLE \"u\" NOLOGIN")), "{calls:?}");
        assert!(
            !calls.iter().any(|call| call.contains("DROP ROLE")),
            "a role with another OID is not dropped"
        );
        let script = open_sessions().fails("NOLOGIN", SqlScript::state("42501"));
        let script = script.answers_row("FROM pg_roles", &["16400", bare]);
        let refused = deleted(&script, "u", &[]).unwrap_err();
        assert_eq!(refused.code, "insufficient-privilege", "it logs in still");
    }
    let script = open_sessions()
        .answers("FROM pg_roles WHERE oid", &[])
        .answers("FROM pg_roles", &["16400"]);
    let refused = deleted(&script, "u", &["DROP ROLE \"{{name}}\""]).unwrap_err();
    assert_eq!(refused.code, "sessions-remain");
    assert!(script.asked().iter().any(|call| call == "transact DROP ROLE \"u\""));
    let refused = deleted(&open_sessions(), "u", &[]).unwrap_err();
    assert_eq!(refused.code, "sessions-remain", "of a user that is gone");

    let script = SqlScript::default()
        .fails("pg_terminate", SqlScript::state("42501"))
        .answers("count(*)", &["0"])
        .answers("FROM pg_roles", &["16400"]);
    assert_eq!(deleted(&script, "u", &[]), Ok(()), "there was nothing to end");
}

#[test]
fn the_connections_own_user_is_never_removed() {
    let script = living();
    assert_eq!(deleted(&script, "root", &[]).unwrap_err().code, "connection-user");
    assert_eq!(
        deleted(&script, "root", &["DROP ROLE \"{{name}}\""]).unwrap_err().code,
        "connection-user"
    );
    assert!(script.asked().is_empty());
}

#[test]
fn non_number_is_not_put_into_statement() {
    let script = SqlScript::default().answers("FROM pg_roles", &["1 OR true"]);
    assert_eq!(deleted(&script, "u", &[]), Ok(()));
    assert!(!script.asked().iter().any(|call| call.contains("OR true")), "{:?}", script.asked());
}

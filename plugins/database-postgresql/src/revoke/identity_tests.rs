//! Removal of roles with a recorded identity: renamed roles, roles of somebody else, several roles.
use super::*;
use bulkhead_sdk::sql_script::SqlScript;

fn connection() -> ParsedConnection {
    ParsedConnection::read(&SqlScript::settings("postgresql://root:pw@db:5432/orders")).unwrap()
}

fn account(name: &str, identity: &str) -> Account {
    Account { identity: identity.to_owned(), ..Account::named(name) }
}

fn deleted(script: &SqlScript, accounts: &[Account], statements: &[&str]) -> Result<(), Refusal> {
    let user = CreatedUser { username: "u".to_owned(), accounts: accounts.to_vec() };
    let statements: Vec<String> = statements.iter().map(|text| (*text).to_owned()).collect();
    delete(script, &connection(), &user, &statements)
}

/// A server where the OID 16400 of cluster 7 has the name `name`, without dependencies.
fn with_role(name: &str) -> SqlScript {
    SqlScript::default()
        .answers_row("FROM pg_control_system()", &["7", "1", "16400", name, "false", "true"])
}

/// A server without a role of the OID; `is_taken` tells if another role has the name.
fn without_role(is_taken: &str) -> SqlScript {
    let row = ["7", "1", "", "", "", is_taken].map(|cell| (!cell.is_empty()).then_some(cell));
    SqlScript::default().answers_cells("FROM pg_control_system()", &row)
}

const PROOF: &str = "transact SELECT pg_catalog.txid_current(), 1 / (1 - count(*)) FROM \
                     pg_catalog.pg_roles WHERE oid = 16400";

fn touched(script: &SqlScript, name: &str) -> Vec<String> {
    let calls = script.asked().into_iter().skip(1);
    calls.filter(|call| call.contains(&format!("\"{name}\""))).collect()
}

fn dropped(name: &str) -> String {
    format!(
        "transact SELECT 1 / (1 - least(count(*), 1)) FROM pg_catalog.pg_roles WHERE (oid = 16400) \
         <> (rolname = E'{name}'); DROP ROLE IF EXISTS \"{name}\""
    )
}

#[test]
fn renamed_role_is_removed_under_present_name() {
    let script = with_role("renamed");
    assert_eq!(deleted(&script, &[account("u", "7/1/16400")], &[]), Ok(()));
    assert!(touched(&script, "u").is_empty());
    assert_eq!(touched(&script, "renamed"), [dropped("renamed")]);

    let script = with_role("renamed");
    let statements = ["DROP ROLE \"{{name}}\""];
    assert_eq!(deleted(&script, &[account("u", "7/1/16400")], &statements), Ok(()));
    assert!(script.asked().contains(&"transact DROP ROLE \"renamed\"".to_owned()));
    assert!(touched(&script, "u").is_empty());
}

#[test]
fn role_renamed_to_connection_user_is_never_removed() {
    let script = with_role("root");
    let refused = deleted(&script, &[account("u", "7/1/16400")], &[]).unwrap_err();
    assert_eq!(refused.code, Denial::ConnectionUser.refusal().code);
    assert_eq!(script.asked().len(), 1);
}

#[test]
fn foreign_role_with_same_name_is_not_touched() {
    for statements in [&[][..], &["DROP ROLE \"{{name}}\""]] {
        let script = without_role("true");
        assert_eq!(deleted(&script, &[account("u", "7/1/16400")], statements), Ok(()));
        assert!(touched(&script, "u").is_empty(), "{:?}", script.asked());
        assert_eq!(script.asked()[1], PROOF);
        assert!(script.asked()[2].contains("usesysid = 16400"), "{:?}", script.asked());
    }
}

#[test]
fn a_lagging_copy_proves_no_role_gone() {
    let script = without_role("false").fails("txid_current", SqlScript::state("25006"));
    let refused = deleted(&script, &[account("u", "7/1/16400")], &[]).unwrap_err();
    assert_eq!(refused.code, "statement-failed");
}

#[test]
fn statements_run_for_missing_role_with_unused_name() {
    let script = without_role("false");
    let statements = ["DROP SCHEMA \"{{name}}\""];
    assert_eq!(deleted(&script, &[account("u", "7/1/16400")], &statements), Ok(()));
    assert_eq!(touched(&script, "u"), ["transact DROP SCHEMA \"u\""]);
}

#[test]
fn in_another_cluster_the_name_decides() {
    let row = ["8", "1", "16400", "stranger", "false", "true"];
    let other = SqlScript::default()
        .answers_row("FROM pg_control_system()", &row)
        .answers_row("r.rolname = $1", &["16999", "false"]);
    assert_eq!(deleted(&other, &[account("u", "7/1/16400")], &[]), Ok(()));
    assert!(touched(&other, "stranger").is_empty());
    assert_eq!(touched(&other, "u"), [dropped("u").replace("16400", "16999")]);
}

#[test]
fn differently_named_role_on_other_timeline_keeps_lease() {
    let row = ["7", "2", "16400", "stranger", "false", "false"];
    let recovered = SqlScript::default().answers_row("FROM pg_control_system()", &row);
    let refused = deleted(&recovered, &[account("u", "7/1/16400")], &[]).unwrap_err();
    assert_eq!(refused.code, "identity-uncertain");
    assert_eq!(recovered.asked().len(), 1);
    // After a failover, the role has its name and its OID.
    let row = ["7", "2", "16400", "u", "false", "true"];
    let promoted = SqlScript::default().answers_row("FROM pg_control_system()", &row);
    assert_eq!(deleted(&promoted, &[account("u", "7/1/16400")], &[]), Ok(()));
    assert_eq!(touched(&promoted, "u"), [dropped("u")]);
}

#[test]
fn role_renamed_during_removal_is_tried_again() {
    let script = with_role("u").fails("least(count", SqlScript::state("22012"));
    let refused = deleted(&script, &[account("u", "7/1/16400")], &[]).unwrap_err();
    assert_eq!(refused.code, "conflict");
    let script = without_role("false").fails("txid_current", SqlScript::state("22012"));
    let refused = deleted(&script, &[account("u", "7/1/16400")], &[]).unwrap_err();
    assert_eq!(refused.code, "conflict", "the look-up was answered by a copy that lags behind");
}

#[test]
fn statements_missing_user_after_first_attempt_succeed() {
    let both = |logs_in: &str| {
        let row = ["7", "1", "16401", "u_ro", "false", "true"];
        let gone = ["7", "1", "", "", "", "false"].map(|cell| (!cell.is_empty()).then_some(cell));
        SqlScript::default()
            .answers("rolcanlogin", &[logs_in])
            .answers_cells("<- 16400", &gone)
            .answers_row("<- 16401", &row)
            .fails("transact DROP ROLE \"u\"", SqlScript::state("42704"))
    };
    let accounts = [account("u", "7/1/16400"), account("u_ro", "7/1/16401")];
    let statements = ["DROP ROLE \"{{name}}\""];
    assert_eq!(deleted(&both("false"), &accounts, &statements), Ok(()));
    assert_eq!(deleted(&both("true"), &accounts, &statements).unwrap_err().code, "still-logs-in");
}

#[test]
fn identity_no_longer_readable_keeps_lease() {
    let script = SqlScript::default().fails("pg_control_system", SqlScript::state("42501"));
    let refused = deleted(&script, &[account("u", "7/1/16400")], &[]).unwrap_err();
    assert_eq!(refused.code, "identity-unseen");
    assert_eq!(script.asked().len(), 1);
}

#[test]
fn each_created_role_is_removed_despite_remaining_role() {
    let both = || {
        let row = |oid, name| ["7", "1", oid, name, "false", "true"];
        SqlScript::default()
            .answers_row("<- 16400", &row("16400", "u"))
            .answers_row("<- 16401", &row("16401", "u_ro"))
    };
    let accounts = [account("u_ro", "7/1/16401"), account("u", "7/1/16400")];
    let script = both();
    assert_eq!(deleted(&script, &accounts, &[]), Ok(()));
    let script_2 = both().fails("DROP ROLE IF EXISTS \"u\"", SqlScript::failure("timed-out", None));
    assert_eq!(deleted(&script_2, &accounts, &[]).unwrap_err().code, "timed-out");
    for (script, drops) in [(script, 2), (script_2, 2)] {
        let dropped = script.asked().iter().filter(|call| call.contains("DROP ROLE")).count();
        assert_eq!(dropped, drops);
    }
    let script = both().answers("rolcanlogin", &["true"]);
    let refused = deleted(&script, &accounts, &["SELECT 1"]).unwrap_err();
    assert_eq!(refused.code, "still-logs-in");
}

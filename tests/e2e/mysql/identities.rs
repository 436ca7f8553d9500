//! Accounts of MySQL and MariaDB that others rename, or have at another host: a lease ends the
//! accounts that its creation made, and no account of somebody else.

use super::{MysqlCredential, MysqlStage};
use bulkhead_tests::wait::until_true;
use serde_json::json;
use std::time::Duration;

impl MysqlStage {
    fn account_exists(&self, name: &str, host: &str) -> bool {
        let count =
            format!("SELECT COUNT(*) FROM mysql.user WHERE User = '{name}' AND Host = '{host}'");
        self.mariadb.query(&count) == "1"
    }
}

#[test]
fn renamed_account_is_revoked_under_present_name() {
    for revocation in [&[][..], &["DROP USER '{{name}}'@'%'"]] {
        let sea = MysqlStage::connected();
        sea.role("reader", json!({ "revocation_statements": revocation }));
        let issued = sea.credential("reader");
        let mut session = sea.mariadb.sleeper(&issued.username, &issued.password);
        sea.mariadb.query(&format!("RENAME USER '{}'@'%' TO 'renamed'@'%'", issued.username));
        sea.revoke(&issued);
        assert!(!sea.account_exists("renamed", "%"));
        let is_ended = || session.try_wait().expect("the client is ours").is_some();
        until_true("the open session is ended", Duration::from_secs(5), is_ended);
    }
}

#[test]
fn foreign_account_at_another_host_is_not_touched() {
    for revocation in [&[][..], &["DROP USER '{{name}}'@'%'"]] {
        let sea = MysqlStage::connected();
        sea.role("reader", json!({ "revocation_statements": revocation }));
        let issued = sea.credential("reader");
        let create = format!("CREATE USER '{}'@'10.%' IDENTIFIED BY 'others'", issued.username);
        sea.mariadb.query(&create);
        let show = format!("SHOW CREATE USER '{}'@'10.%'", issued.username);
        let shown = sea.mariadb.query(&show);
        sea.revoke(&issued);
        assert!(!sea.account_exists(&issued.username, "%"));
        assert_eq!(sea.mariadb.query(&show), shown, "neither dropped nor locked");
    }
}

#[test]
fn user_with_self_changed_password_is_revoked() {
    let sea = MysqlStage::connected();
    let issued = sea.credential("reader");
    let (name, password) = (&issued.username, &issued.password);
    sea.mariadb.login(name, password, "SET PASSWORD = PASSWORD('other')").expect("a new password");
    sea.revoke(&issued);
    assert!(!sea.account_exists(name, "%"));
}

#[test]
fn creation_meeting_foreign_account_leaves_nothing_behind() {
    let sea = MysqlStage::connected();
    sea.connect(json!({ "username_template": "shared-{{.RoleName}}" })).expect_success();
    sea.mariadb.query("CREATE USER 'shared-odd'@'10.%' IDENTIFIED BY 'others'");
    let first = "CREATE USER '{{name}}'@'127.0.0.1' IDENTIFIED BY '{{password}}'";
    let second = "CREATE USER '{{name}}'@'10.%' IDENTIFIED BY '{{password}}'";
    sea.role("odd", json!({ "creation_statements": [first, second] }));
    let refused = sea.root.read("database/creds/odd").expect(400).errors();
    assert!(refused.contains("creates an existing user"), "{refused}");
    assert!(!sea.account_exists("shared-odd", "127.0.0.1"));
    assert!(sea.account_exists("shared-odd", "10.%"));
    let login = sea.mariadb.query("SHOW CREATE USER 'shared-odd'@'10.%'");
    assert!(!login.contains("LOCK"), "{login}");
}

#[test]
fn passwords_that_borrowers_exchange_keep_no_account_alive() {
    let sea = MysqlStage::connected();
    let (first, second) = (sea.credential("reader"), sea.credential("reader"));
    let set = |of: &MysqlCredential, password: &str| {
        let sql = format!("SET PASSWORD = PASSWORD('{password}')");
        sea.mariadb.login(&of.username, &of.password, &sql).expect("a new password");
    };
    set(&second, &first.password);
    set(&first, "of-its-own");
    sea.revoke(&first);
    assert!(!sea.account_exists(&first.username, "%"));
    sea.revoke(&second);
    assert!(!sea.account_exists(&second.username, "%"));
}

#[test]
fn further_and_code_made_accounts_end_with_lease() {
    let sea = MysqlStage::connected();
    sea.mariadb.query(
        "CREATE PROCEDURE demo.more(name VARCHAR(64)) EXECUTE IMMEDIATE CONCAT('CREATE USER ''', \
         name, '_code''@''%''')",
    );
    let creation = [
        "CREATE USER '{{name}}'@'%' IDENTIFIED BY '{{password}}'",
        "CREATE USER '{{name}}_ro'@'10.%' IDENTIFIED BY '{{password}}'; FLUSH PRIVILEGES",
        "CALL demo.more('{{name}}')",
    ];
    sea.role("further", json!({ "creation_statements": creation }));
    let issued = sea.credential("further");
    assert_eq!(sea.mariadb.users().len(), creation.len());
    sea.revoke(&issued);
    assert_eq!(sea.mariadb.users(), Vec::<String>::new());
}

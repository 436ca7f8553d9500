//! Creation statements that make another user, or adopt a user of somebody else.

use super::MysqlStage;
use serde_json::json;

/// Reads a credential of a role with these statements. Returns the refusal.
#[track_caller]
fn refusal(sea: &MysqlStage, creation: &str, rollback: &str) -> String {
    let fields = json!({ "creation_statements": [creation], "rollback_statements": [rollback] });
    sea.role("odd", fields);
    let users = sea.mariadb.users();
    let refused = sea.root.read("database/creds/odd").expect(400).errors();
    assert_eq!(sea.mariadb.users(), users, "{refused}");
    refused
}

#[test]
fn a_creation_of_another_user_is_undone() {
    let sea = MysqlStage::new(&[]);
    sea.connect(json!({})).expect_success();
    let creation = "CREATE USER '{{name}}-b'@'%' IDENTIFIED BY '{{password}}'";
    let refused = refusal(&sea, creation, "DROP USER '{{name}}-b'@'%'");
    assert!(refused.contains("had no account afterwards"), "{refused}");
}

#[test]
fn creation_never_adopts_foreign_user() {
    let sea = MysqlStage::new(&[]);
    sea.connect(json!({ "username_template": "shared-{{.RoleName}}" })).expect_success();
    sea.mariadb.query("CREATE USER 'shared-odd'@'10.%' IDENTIFIED BY 'of-somebody-else'");
    let shown = sea.mariadb.query("SHOW CREATE USER 'shared-odd'@'10.%'");
    let is_mariadb = sea.mariadb.query("SELECT VERSION()").contains("MariaDB");
    let forms = [
        "CREATE USER IF NOT EXISTS '{{name}}'@'%' IDENTIFIED BY '{{password}}'",
        "CREATE OR REPLACE USER '{{name}}'@'10.%' IDENTIFIED BY '{{password}}'",
        "GRANT SELECT ON demo.orders TO '{{name}}'@'10.%' IDENTIFIED BY '{{password}}'",
    ];
    // MySQL has the first form alone.
    for creation in forms.into_iter().take(if is_mariadb { 3 } else { 1 }) {
        let refused = refusal(&sea, creation, "DROP USER IF EXISTS '{{name}}'@'10.%'");
        assert!(refused.contains("has an account already"), "{creation}: {refused}");
    }
    assert_eq!(sea.mariadb.query("SHOW CREATE USER 'shared-odd'@'10.%'"), shown);
}

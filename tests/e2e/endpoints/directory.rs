//! The directory engine. `config` leads to a real OpenLDAP with the accounts.

use super::{EndpointCall, row};
use serde_json::{Value, json};

pub(super) fn rows(config: &Value, accounts: &[String; 2]) -> Vec<EndpointCall> {
    let shown = json!({
        "url": "ldaps://dc1.corp.example, ldaps://dc2.corp.example",
        "binddn": "CN=engine,OU=people,DC=corp,DC=example",
        "bindpass": "Xk7-Qz2-Wv9-Jt4",
        "userdn": "OU=people,DC=corp,DC=example",
    });
    let [build, lent] = accounts;
    let role = json!({ "service_account_name": build, "ttl": "1h" });
    let set = json!({ "service_account_names": [lent], "ttl": "1h", "max_ttl": "2h" });
    let none = || Value::Null;
    vec![
        row("directory-config.write", "directory/config", shown, 204),
        row("directory-config.read", "directory/config", none(), 200),
        row("directory-config.delete", "directory/config", none(), 204),
        row("directory-config.write", "directory/config", config.clone(), 204),
        row("directory-roles-name.write", "directory/roles/build", role, 204),
        row("directory-creds-name.read", "directory/creds/build", none(), 200),
        row("directory-rotate-role-name.write", "directory/rotate-role/build", json!({}), 204),
        row("directory-roles-name.read", "directory/roles/build", none(), 200),
        row("directory-roles.list", "directory/roles", none(), 200),
        row("directory-roles.read", "directory/roles", none(), 200),
        row("directory-roles-name.delete", "directory/roles/build", none(), 200),
        row("directory-library-name.write", "directory/library/team", set, 204),
        row("directory-library-name.read", "directory/library/team", none(), 200),
        row("directory-library.list", "directory/library", none(), 200),
        row(
            "directory-library-name-check-out.write",
            "directory/library/team/check-out",
            json!({}),
            200,
        ),
        row("directory-library-name-status.read", "directory/library/team/status", none(), 200),
        row(
            "directory-library-name-check-in.write",
            "directory/library/team/check-in",
            json!({}),
            200,
        ),
        row(
            "directory-library-manage-name-check-in.write",
            "directory/library/manage/team/check-in",
            json!({}),
            200,
        ),
        row("directory-library-name.delete", "directory/library/team", none(), 200),
        row("directory-rotate-root.write", "directory/rotate-root", json!({}), 204),
        row("directory-rotate-root.read", "directory/rotate-root", none(), 204),
    ]
}

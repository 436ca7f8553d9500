//! A copy of the data restored from a backup, beside the original server: the copy does no due work
//! until it is configured to.

use crate::world::CREATION;
use bulkhead_tests::internet::{Internet, Online};
use bulkhead_tests::wait::until_true;
use bulkhead_tests::{Client, Postgres};
use serde_json::{Value, json};
use std::fs;
use std::time::Duration;

const LATER: Duration = Duration::from_secs(7_200);
/// Longest wait for due work.
const PATIENCE: Duration = Duration::from_secs(40);
/// Time without due work; a server starts due work less than a second after the unsealing.
const A_WHILE: Duration = Duration::from_secs(3);
const FIRST: &str = "Hv3-Pq8-Lm5-Zd1";
const SETTING: &str = "suspend_due_work = true\n";

/// A server with two users that expire within the hour and an account with an hourly rotation.
struct OriginalServer {
    postgres: Postgres,
    online: Online,
    _internet: Internet,
}

impl OriginalServer {
    fn new() -> Self {
        let (postgres, internet) = (Postgres::start(), Internet::start());
        let online = internet.server("");
        postgres.query(&format!("CREATE ROLE app LOGIN PASSWORD '{FIRST}' IN ROLE readers"));
        let root = &online.root;
        root.write("sys/mounts/database", &json!({ "type": "database" })).expect(204);
        let connection = json!({
            "plugin_name": "postgresql-database-plugin", "allowed_roles": "*",
            "connection_url": postgres.url(), "username": "bulkhead",
            "password": postgres.password,
        });
        assert!(root.write("database/config/demo", &connection).status < 300);
        let reader =
            json!({ "db_name": "demo", "creation_statements": [CREATION], "default_ttl": "1h" });
        root.write("database/roles/reader", &reader).expect(204);
        let app = json!({ "db_name": "demo", "username": "app", "rotation_period": "1h" });
        root.write("database/static-roles/app", &app).expect(204);
        Self { postgres, online, _internet: internet }
    }

    fn root(&self) -> &Client {
        &self.online.root
    }

    fn credential(&self) -> Value {
        self.root().read("database/creds/reader").expect(200).body
    }

    fn shown(&self) -> String {
        self.root().read("database/static-creds/app").expect(200).text("password").to_owned()
    }

    fn has_user(&self, credential: &Value) -> bool {
        self.postgres.has_user(credential["data"]["username"].as_str().expect("a name"))
    }

    /// Changes the configuration and restarts the server on the same data at a time when all work
    /// is due.
    fn restart_later(&mut self, change: impl Fn(&str) -> String) {
        let file = self.online.configuration();
        let text = fs::read_to_string(&file).expect("the configuration");
        fs::write(&file, change(&text)).expect("the configuration is ours");
        self.online.restart_later(LATER);
    }
}

#[test]
fn restored_copy_does_no_due_work_until_configured() {
    let mut copy = OriginalServer::new();
    let (live_credential, revoked) = (copy.credential(), copy.credential());
    let password = copy.shown();

    copy.restart_later(|text| format!("{SETTING}{text}"));
    copy.online.server.wait_for_print("due-work-suspended");
    std::thread::sleep(A_WHILE);
    assert!(copy.has_user(&live_credential) && copy.has_user(&revoked), "a user was ended");
    assert_eq!(copy.shown(), password, "a password was rotated");
    assert_eq!(copy.postgres.login("app", &password, "SELECT 1").as_deref(), Ok("1"));

    // Explicit requests are served; a request that would wait for due work is refused.
    let lease = json!({ "lease_id": revoked["lease_id"] });
    copy.root().write("sys/leases/revoke", &lease).expect(204);
    assert!(!copy.has_user(&revoked) && copy.has_user(&live_credential));
    let token = copy.root().write("auth/token/create", &json!({})).expect(200);
    let holder = copy.online.server.client(token.body["auth"]["client_token"].as_str());
    let moved = json!({ "from": "database", "to": "elsewhere" });
    for (path, body) in [
        ("sys/leases/revoke-prefix/database", json!({})),
        ("sys/leases/revoke-prefix/database", json!({ "sync": false })),
        ("sys/leases/revoke-force/database", json!({})),
        ("sys/leases/revoke-prefix/auth/token", json!({})),
        ("sys/remount", moved),
    ] {
        let refused = copy.root().write(path, &body).expect(503);
        assert!(refused.errors().contains("suspend_due_work"), "{path}: {refused:?}");
    }
    let refused = copy.root().delete("sys/mounts/database").expect(503);
    assert!(refused.errors().contains("suspend_due_work"), "{refused:?}");
    assert!(
        !refused.errors().contains("revoke-force"),
        "the error advises a refused command: {refused:?}"
    );
    let released = copy.root().write("sys/release", &json!({})).expect(400);
    assert!(released.errors().contains("suspend_due_work"), "{released:?}");
    let health = copy.online.server.client(None).read("sys/health").body;
    assert_eq!(health["degraded"][0]["code"], "due-work-suspended", "{health}");
    assert!(copy.has_user(&live_credential), "a user was ended");
    holder.read("auth/token/lookup-self").expect(200);
    assert_eq!(copy.shown(), password, "the mount serves where it was");

    copy.restart_later(|text| text.replace(SETTING, ""));
    until_true("the user ends", PATIENCE, || !copy.has_user(&live_credential));
    until_true("the password is rotated", PATIENCE, || copy.shown() != password);
}

//! A server with a database, as most tests need.

use bulkhead_tests::{Answer, Bulkhead, Client, Postgres};
use serde_json::{Value, json};

/// Creates a user that can log in until the lease ends and reads what `readers` may read.
pub const CREATION: &str = "CREATE ROLE \"{{name}}\" LOGIN PASSWORD '{{password}}' \
                        VALID UNTIL '{{expiration}}' IN ROLE readers";

/// Statements that take two seconds in the database.
pub const SLOW_CREATION: &str = "SELECT pg_sleep(2); CREATE ROLE \"{{name}}\" LOGIN \
                        PASSWORD '{{password}}' VALID UNTIL '{{expiration}}'";

/// A server and a database. The server is declared first, so that it ends first.
pub struct World {
    pub bulkhead: Bulkhead,
    pub postgres: Postgres,
    pub root: Client,
}

#[derive(Clone, Debug)]
pub struct Credential {
    pub username: String,
    pub password: String,
    pub lease: String,
    pub seconds: u64,
}

impl World {
    pub fn empty() -> Self {
        Self::of(Postgres::start())
    }

    /// A world with this database, without configuration.
    pub fn of(postgres: Postgres) -> Self {
        let bulkhead = Bulkhead::start();
        let root = bulkhead.root();
        Self { bulkhead, postgres, root }
    }

    /// A world with the connection `demo` and the role `reader`, whose leases last an hour.
    pub fn new() -> Self {
        let world = Self::empty();
        world.connect("demo");
        world.role("reader", json!({ "default_ttl": "1h", "max_ttl": "4h" }));
        world
    }

    /// The fields of a connection to this database.
    pub fn connection(&self) -> Value {
        json!({
            "plugin_name": "postgresql-database-plugin",
            "allowed_roles": "*",
            "connection_url": self.postgres.url(),
            "username": "bulkhead",
            "password": self.postgres.password,
        })
    }

    #[track_caller]
    pub fn connect(&self, name: &str) -> Answer {
        let answer = self.root.write(&format!("database/config/{name}"), &self.connection());
        assert!(answer.status < 300, "{answer:?}");
        answer
    }

    /// Writes the role `name` on the connection `demo`, with the usual fields and `fields`.
    #[track_caller]
    pub fn role(&self, name: &str, fields: Value) -> Answer {
        let usual = json!({ "db_name": "demo", "creation_statements": [CREATION] });
        let answer = self.root.write(&format!("database/roles/{name}"), &with(usual, fields));
        assert!(answer.status < 300, "{answer:?}");
        answer
    }

    /// Reads a credential and asserts that its user exists.
    #[track_caller]
    pub fn credential(&self, role: &str) -> Credential {
        self.credential_for(&self.root, role)
    }

    /// Like [`World::credential`], with another token.
    #[track_caller]
    pub fn credential_for(&self, client: &Client, role: &str) -> Credential {
        let answer = client.read(&format!("database/creds/{role}")).expect(200);
        let credential = Credential {
            username: answer.text("username").to_owned(),
            password: answer.text("password").to_owned(),
            lease: answer.lease().to_owned(),
            seconds: answer.body["lease_duration"].as_u64().expect("a lease has a duration"),
        };
        assert!(
            self.postgres.has_user(&credential.username),
            "{} is not in the database",
            credential.username
        );
        credential
    }

    /// A client whose token has only the policy `rules`, without the default policy.
    #[track_caller]
    pub fn client_with(&self, policy: &str, rules: &str) -> Client {
        self.root
            .write(&format!("sys/policies/acl/{policy}"), &json!({ "policy": rules }))
            .expect(204);
        let body = json!({ "policies": [policy], "no_default_policy": true, "ttl": "1h" });
        let answer = self.root.write("auth/token/create", &body).expect(200);
        self.bulkhead.client(answer.body["auth"]["client_token"].as_str())
    }

    /// A client whose token has a policy, but no right to anything in the tests.
    #[track_caller]
    pub fn weak(&self) -> Client {
        self.client_with(
            "weak",
            r#"path "database/config/of-another-team" { capabilities = ["read"] }"#,
        )
    }

    #[track_caller]
    pub fn revoke(&self, lease: &str) {
        self.root.write("sys/leases/revoke", &json!({ "lease_id": lease })).expect(204);
    }

    /// The whole configuration, for a comparison of before and after.
    #[track_caller]
    pub fn configured(&self) -> Value {
        let everything = ["config", "roles"].map(|kind| {
            let names = self.root.list(&format!("database/{kind}")).body["data"]["keys"].clone();
            let read = |name: &Value| {
                let path = format!("database/{kind}/{}", name.as_str().expect("a name is text"));
                (path.clone(), self.root.read(&path).expect(200).body["data"].clone())
            };
            names.as_array().into_iter().flatten().map(read).collect::<serde_json::Map<_, _>>()
        });
        json!(everything)
    }
}

/// `base` with the members of `more` on top.
pub fn with(mut base: Value, more: Value) -> Value {
    let target = base.as_object_mut().expect("an object");
    if let Value::Object(more) = more {
        target.extend(more);
    }
    base
}

//! Users of PostgreSQL that others rename, replace or multiply while they are lent: a lease ends
//! the roles that its creation made, under any name, and no role of somebody else.

use crate::world::{CREATION, Credential, World, with};
use bulkhead_tests::wait::until_true;
use serde_json::json;
use std::time::Duration;

/// Creates a second role that logs in beside the user.
const TWO_ROLES: &str = "CREATE ROLE \"{{name}}\" LOGIN PASSWORD '{{password}}' IN ROLE readers; \
                         CREATE ROLE \"{{name}}_ro\" LOGIN PASSWORD '{{password}}'";

impl World {
    /// Reads a credential of a role with these creation and revocation statements.
    #[track_caller]
    fn credential_by(&self, creation: &str, revocation: &[&str]) -> Credential {
        let fields = json!({
            "creation_statements": [creation], "revocation_statements": revocation,
            "default_ttl": "1h",
        });
        self.role("odd", fields);
        self.credential("odd")
    }

    fn role_exists(&self, name: &str) -> bool {
        let count = format!("SELECT count(*) FROM pg_roles WHERE rolname = '{name}'");
        self.postgres.query(&count) == "1"
    }
}

#[test]
fn renewal_and_revocation_follow_renamed_user() {
    for revocation in
        [&[][..], &["REASSIGN OWNED BY \"{{name}}\" TO bulkhead", "DROP ROLE \"{{name}}\""]]
    {
        let world = World::new();
        let issued = world.credential_by(CREATION, revocation);
        let mut session = world.postgres.sleeper(&issued.username, &issued.password);
        world.postgres.query(&format!("ALTER ROLE \"{}\" RENAME TO renamed", issued.username));
        world.postgres.query("ALTER ROLE renamed VALID UNTIL '2001-01-01'");
        let renewed = json!({ "lease_id": issued.lease, "increment": 3_600 });
        world.root.write("sys/leases/renew", &renewed).expect(200);
        let until = "SELECT rolvaliduntil > now() FROM pg_roles WHERE rolname = 'renamed'";
        assert_eq!(world.postgres.query(until), "t");
        world.revoke(&issued.lease);
        assert!(!world.role_exists("renamed"));
        until_true("the open session is ended", Duration::from_secs(5), || {
            session.try_wait().expect("the client is ours").is_some()
        });
    }
}

#[test]
fn namesake_user_made_by_others_is_not_touched() {
    for revocation in [&[][..], &["DROP ROLE \"{{name}}\""]] {
        let world = World::new();
        let issued = world.credential_by(CREATION, revocation);
        let name = &issued.username;
        let statements =
            format!("DROP ROLE \"{name}\"; CREATE ROLE \"{name}\" LOGIN PASSWORD 'of-others'");
        world.postgres.query(&statements);
        let renewed = json!({ "lease_id": issued.lease, "increment": 3_600 });
        let refused = world.root.write("sys/leases/renew", &renewed).expect(400).errors();
        assert!(refused.contains("no such user any more"), "{refused}");
        world.revoke(&issued.lease);
        assert!(world.postgres.login(name, "of-others", "SELECT 1").is_ok());
    }
}

#[test]
fn lease_ends_every_role_made_by_creation() {
    let world = World::new();
    let issued = world.credential_by(TWO_ROLES, &[]);
    let second = format!("{}_ro", issued.username);
    assert!(world.postgres.login(&second, &issued.password, "SELECT 1").is_ok());
    world.revoke(&issued.lease);
    assert!(!world.role_exists(&issued.username) && !world.role_exists(&second));
}

/// A function that makes the user, a second role beside a caught error, a role with another name,
/// and a group; and changes a role that exists.
const MAKE: &str = "CREATE FUNCTION make(name text, password text) RETURNS void LANGUAGE plpgsql \
                    SECURITY DEFINER AS $$ BEGIN \
                    EXECUTE format('CREATE ROLE %I LOGIN PASSWORD %L', name, password); \
                    BEGIN EXECUTE format('CREATE ROLE %I LOGIN', name || '_ro'); \
                    EXCEPTION WHEN duplicate_object THEN NULL; END; \
                    EXECUTE 'CREATE ROLE hidden LOGIN'; EXECUTE 'CREATE ROLE app_group'; \
                    EXECUTE 'ALTER ROLE readers VALID UNTIL ''2050-01-01'''; END $$";

/// Password of the user `keeper`.
const KEEPER: &str = "Kp4-Zt8-Vn2-Qs6";

impl World {
    /// A world whose connection logs in as `keeper`, who may create roles and is not a superuser.
    fn with_keeper() -> Self {
        let world = Self::new();
        world.postgres.query(&format!("CREATE ROLE keeper LOGIN CREATEROLE PASSWORD '{KEEPER}'"));
        world.postgres.query(MAKE);
        world.connect_keeper();
        world
    }

    /// Writes the connection as `keeper`. Returns the warnings.
    fn connect_keeper(&self) -> String {
        let keeper = json!({ "username": "keeper", "password": KEEPER });
        let keeper = with(self.connection(), keeper);
        self.root.write("database/config/demo", &keeper).expect_success().warnings()
    }
}

#[test]
fn transaction_identifies_code_made_roles() {
    let world = World::new();
    world.postgres.query(MAKE);
    let issued = world.credential_by("SELECT make('{{name}}', '{{password}}')", &[]);
    let second = format!("{}_ro", issued.username);
    assert!(world.role_exists("hidden") && world.role_exists(&second));
    world.postgres.query(&format!("ALTER ROLE \"{second}\" RENAME TO renamed"));
    world.revoke(&issued.lease);
    for gone in [&issued.username, "hidden", &second, "renamed"] {
        assert!(!world.role_exists(gone), "{gone}");
    }
    for role in ["readers", "app_group"] {
        assert!(world.role_exists(role), "{role} is shared, and logs nobody in");
    }
}

#[test]
fn name_identifies_code_made_roles_without_transaction_right() {
    let world = World::with_keeper();
    assert!(!world.connect_keeper().contains("pg_control"));
    let issued = world.credential_by("SELECT make('{{name}}', '{{password}}')", &[]);
    let second = format!("{}_ro", issued.username);
    world.postgres.query(&format!("ALTER ROLE \"{}\" RENAME TO first", issued.username));
    world.postgres.query(&format!("ALTER ROLE \"{second}\" RENAME TO second"));
    world.revoke(&issued.lease);
    assert!(!world.role_exists("first") && !world.role_exists("second"));
}

#[test]
fn revocation_failed_after_statements_is_finished_later() {
    let world = World::with_keeper();
    world.postgres.query(
        "CREATE FUNCTION remove(name text) RETURNS void LANGUAGE plpgsql SECURITY DEFINER AS $$ \
         BEGIN EXECUTE format('DROP ROLE %I', name); END $$",
    );
    let creation = "SELECT make('{{name}}', '{{password}}')";
    let issued = world.credential_by(creation, &["SELECT remove('{{name}}')"]);
    let mut session = world.postgres.sleeper(&issued.username, &issued.password);
    world.postgres.query("ALTER ROLE keeper NOCREATEROLE");
    let lease = json!({ "lease_id": issued.lease });
    let refused = world.root.write("sys/leases/revoke", &lease).expect(400).errors();
    assert!(refused.contains("revoke again"), "{refused}");
    assert!(!world.role_exists(&issued.username), "the statements ran");
    world.root.write("sys/leases/lookup", &lease).expect(200);
    world.postgres.query("GRANT pg_signal_backend TO keeper; ALTER ROLE keeper CREATEROLE");
    world.revoke(&issued.lease);
    let second = format!("{}_ro", issued.username);
    let logs_in = format!("SELECT rolcanlogin FROM pg_roles WHERE rolname = '{second}'");
    assert_eq!(world.postgres.query(&logs_in), "f");
    until_true("the open session is ended", Duration::from_secs(5), || {
        session.try_wait().expect("the client is ours").is_some()
    });
}

#[test]
fn role_omitted_by_revocation_is_named_and_locked() {
    let world = World::new();
    let fields = json!({
        "db_name": "demo", "creation_statements": [TWO_ROLES],
        "revocation_statements": ["DROP ROLE \"{{name}}\""],
    });
    let warned = world.root.write("database/roles/odd", &fields).expect(200).warnings();
    assert!(warned.contains("{{name}}_ro"), "{warned}");
    let issued = world.credential("odd");
    world.revoke(&issued.lease);
    let second = format!("{}_ro", issued.username);
    assert!(world.role_exists(&second));
    assert!(world.postgres.login(&second, &issued.password, "SELECT 1").is_err());
}

#[test]
fn without_identities_name_decides_and_connection_warns() {
    let world = World::with_keeper();
    let execute = "EXECUTE ON FUNCTION pg_control_system(), pg_control_checkpoint()";
    world.postgres.query(&format!("REVOKE {execute} FROM public"));
    assert!(world.connect_keeper().contains("pg_control_system"));
    let by_name = world.credential("reader");
    world.revoke(&by_name.lease);
    assert!(!world.role_exists(&by_name.username));

    // An identity that was recorded is not replaced by the name.
    world.postgres.query(&format!("GRANT {execute} TO keeper"));
    assert!(!world.connect_keeper().contains("pg_control_system"));
    let issued = world.credential("reader");
    world.postgres.query("REVOKE EXECUTE ON FUNCTION pg_control_checkpoint() FROM keeper");
    let lease = json!({ "lease_id": issued.lease });
    let refused = world.root.write("sys/leases/revoke", &lease).expect(400).errors();
    assert!(refused.contains("pg_control_system()"), "{refused}");
    world.root.write("sys/leases/lookup", &lease).expect(200);
    world.postgres.query(&format!("GRANT {execute} TO keeper"));
    world.revoke(&issued.lease);
    assert!(!world.role_exists(&issued.username));
}

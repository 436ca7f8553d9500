//! Database sessions are shared by many roles: a role's statements leave nothing on a session for
//! the statements of another role.

use crate::world::{CREATION, World, with};
use bulkhead_tests::{Bulkhead, Client, MariaDb};
use serde_json::{Value, json};

/// A connection with a single session for all roles.
fn one_session() -> Value {
    json!({ "max_open_connections": 1, "max_idle_connections": 1 })
}

/// Statements that change a session, each with a query that shows the change.
const LEFT_BEHIND: [(&str, &str); 10] = [
    ("SET ROLE readers", "SELECT current_user"),
    ("SET SESSION AUTHORIZATION readers", "SELECT session_user"),
    ("SET password_encryption = 'md5'", "SELECT current_setting('password_encryption')"),
    ("SELECT set_config('search_path', 'nowhere', false)", "SELECT current_setting('search_path')"),
    (
        "SET SESSION CHARACTERISTICS AS TRANSACTION READ ONLY",
        "SELECT current_setting('default_transaction_read_only')",
    ),
    ("CREATE TEMPORARY TABLE left_behind (a int)", "SELECT to_regclass('left_behind')"),
    (
        "SELECT pg_advisory_lock(7)",
        "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND pid = pg_backend_pid()",
    ),
    ("LISTEN left_behind", "SELECT count(*) FROM pg_listening_channels()"),
    ("PREPARE left_behind AS SELECT 1", "SELECT count(*) FROM pg_prepared_statements"),
    (
        "DECLARE left_behind CURSOR WITH HOLD FOR SELECT 1",
        "SELECT count(*) FROM pg_cursors WHERE is_holdable",
    ),
];

#[test]
fn a_postgresql_session_is_reset_between_roles() {
    let world = World::new();
    let postgres = &world.postgres;
    postgres.query("CREATE TABLE seen (question text, answer text)");
    let config = with(world.connection(), one_session());
    assert!(world.root.write("database/config/demo", &config).status < 300);
    // The role `look` records the state of the session before and after the role `change`.
    let look = LEFT_BEHIND.map(|(_, question)| {
        let quoted = question.replace('\'', "''");
        format!("INSERT INTO public.seen SELECT '{quoted}', ({question})::text")
    });
    let look: Vec<&str> = look.iter().map(String::as_str).chain([CREATION]).collect();
    world.role("look", json!({ "creation_statements": look }));
    world.credential("look");
    let before = seen(&world);
    assert_eq!(before.lines().count(), LEFT_BEHIND.len(), "{before}");
    for (change, question) in LEFT_BEHIND {
        world.role("change", json!({ "creation_statements": [CREATION, change] }));
        world.credential("change");
        world.credential("look");
        assert_eq!(seen(&world), before, "{change}, told by {question}");
        // A rollback alone does not release locks or prepared statements.
        let refused = json!({ "creation_statements": [CREATION, change, "SELECT 1/0"] });
        world.role("change", refused);
        world.root.read("database/creds/change").refused(400, "22012");
        world.credential("look");
        assert_eq!(seen(&world), before, "{change}, although it was rolled back");
    }
    let sessions = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'bulkhead'";
    assert_eq!(postgres.query(sessions), "1");
}

/// Removes and returns the recorded state.
fn seen(world: &World) -> String {
    world.postgres.query("DELETE FROM seen RETURNING question || ': ' || coalesce(answer, 'none')")
}

#[test]
fn other_role_password_encryption_has_no_effect() {
    let world = World::new();
    let config = with(world.connection(), one_session());
    assert!(world.root.write("database/config/demo", &config).status < 300);
    let weak = ["SET password_encryption = 'md5'", CREATION];
    world.role("weak", json!({ "creation_statements": weak }));
    let hash_prefix = |user: &str| {
        let query = format!("SELECT left(rolpassword, 3) FROM pg_authid WHERE rolname = '{user}'");
        world.postgres.query(&query)
    };
    let weak = world.credential("weak");
    assert_eq!(hash_prefix(&weak.username), "md5", "as its own statements say");
    let strong = world.credential("reader");
    assert_eq!(hash_prefix(&strong.username), "SCR");
}

struct PooledStage {
    /// Declared first, so that the server ends first.
    _bulkhead: Bulkhead,
    mariadb: MariaDb,
    root: Client,
}

impl PooledStage {
    fn new() -> Self {
        let mariadb = MariaDb::start(&[]);
        let bulkhead = Bulkhead::start();
        let root = bulkhead.root();
        let config = json!({
            "plugin_name": "mysql-database-plugin",
            "allowed_roles": "*",
            "connection_url": mariadb.url(),
            "username": "bulkhead",
            "password": mariadb.password,
        });
        root.write("database/config/sea", &with(config, one_session())).expect_success();
        Self { _bulkhead: bulkhead, mariadb, root }
    }

    #[track_caller]
    fn use_role(&self, statements: &Value) {
        let role = json!({ "db_name": "sea", "creation_statements": statements });
        self.root.write("database/roles/any", &role).expect_success();
        self.root.read("database/creds/any").expect(200);
    }

    /// Removes and returns the recorded state.
    fn seen(&self) -> String {
        let seen = self.mariadb.query("SELECT answer FROM demo.seen ORDER BY id");
        self.mariadb.query("DELETE FROM demo.seen");
        seen
    }
}

#[test]
fn a_mariadb_session_is_reset_between_roles() {
    const CREATE: &str = "CREATE USER '{{name}}'@'%' IDENTIFIED BY '{{password}}'";
    let sea = PooledStage::new();
    sea.mariadb
        .query("CREATE TABLE demo.seen (id INT AUTO_INCREMENT PRIMARY KEY, answer VARCHAR(2000))");
    sea.mariadb.query("CREATE ROLE helm");
    sea.mariadb.query("GRANT helm TO bulkhead");
    let questions = [
        "COALESCE(DATABASE(), 'none')",
        "COALESCE(CURRENT_ROLE(), 'none')",
        "COALESCE(@left_behind, 'none')",
        "@@SESSION.sql_mode",
        "@@SESSION.old_passwords",
        "@@SESSION.autocommit",
        "IF(IS_USED_LOCK('left_behind') = CONNECTION_ID(), 'locked', 'free')",
    ];
    let look = questions.map(|question| {
        format!(
            "INSERT INTO demo.seen (answer) SELECT CONCAT_WS(': ', '{}', {question})",
            question.replace('\'', "")
        )
    });
    let look: Vec<&str> = look.iter().map(String::as_str).chain([CREATE]).collect();
    sea.use_role(&json!(look));
    let before = sea.seen();
    for change in [
        "USE mysql",
        "SET ROLE helm",
        "SET @left_behind = 1",
        "SET SESSION sql_mode = 'ANSI_QUOTES'",
        "SET SESSION old_passwords = 1",
        "SET autocommit = 0",
        "DO GET_LOCK('left_behind', 1)",
    ] {
        sea.use_role(&json!([CREATE, change]));
        sea.use_role(&json!(look));
        assert_eq!(sea.seen(), before, "{change}");
    }
}

/// A session whose other end vanished keeps the locks of its transaction until the database ends
/// the session.
#[test]
fn databases_end_sessions_idle_in_transaction() {
    const CREATE: &str = "CREATE USER '{{name}}'@'%' IDENTIFIED BY '{{password}}'";
    let world = World::new();
    world.postgres.query("CREATE TABLE seen (question text, answer text)");
    let setting = "idle_in_transaction_session_timeout";
    let look =
        format!("INSERT INTO public.seen SELECT '{setting}', current_setting('{setting}')::text");
    world.role("look", json!({ "creation_statements": [look, CREATION] }));
    world.credential("look");
    assert_eq!(seen(&world), format!("{setting}: 45s"));
    let sea = PooledStage::new();
    sea.mariadb
        .query("CREATE TABLE demo.seen (id INT AUTO_INCREMENT PRIMARY KEY, answer VARCHAR(2000))");
    let look = "INSERT INTO demo.seen (answer) SELECT @@SESSION.idle_transaction_timeout";
    sea.use_role(&json!([look, CREATE]));
    assert_eq!(sea.seen(), "45");
}

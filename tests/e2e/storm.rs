//! Concurrent rotations, resets, reloads and credentials of a connection: the server serves every
//! request, and tries no login with an earlier password.
//!
//! `BULKHEAD_STORM_SECONDS` makes each storm last longer than three seconds.

use crate::world::{World, with};
use bulkhead_tests::wait::until_true;
use bulkhead_tests::{Answer, Bulkhead, Client, MariaDb};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// Password of the connection's own user before the first rotation.
const FIRST: &str = "Rb6-Tn2-Gy9-Kc4";
/// Longest wait for due work after a storm.
const PATIENCE: Duration = Duration::from_secs(60);
/// Most lines of the server's log in a failure message.
const MOST_WARNINGS: usize = 40;
/// Number of clients that read credentials. The first half also revokes, with a client for each
/// role.
const READERS: u32 = 4;

/// Duration of a storm of any engine.
pub(crate) fn length() -> Duration {
    let seconds = match std::env::var("BULKHEAD_STORM_SECONDS") {
        Ok(seconds) => {
            seconds.parse().expect("BULKHEAD_STORM_SECONDS is a number of whole seconds")
        }
        Err(_) => 3,
    };
    Duration::from_secs(seconds)
}

/// Returns the number of failures of each kind. Failures of one kind differ only in words with
/// digits.
pub(crate) fn kinds(failures: &[String]) -> BTreeMap<String, usize> {
    let mut kinds = BTreeMap::new();
    for failure in failures {
        let is_name = |word: &&str| word.contains(|letter: char| letter.is_ascii_digit());
        let words = failure.split(' ').enumerate();
        // The first words are method, path and status.
        let words = words.map(|(at, word)| if at > 2 && is_name(&word) { "…" } else { word });
        *kinds.entry(words.collect::<Vec<_>>().join(" ")).or_default() += 1;
    }
    kinds
}

/// The requests of all clients, and the refused requests.
struct RequestStorm<'a> {
    root: &'a Client,
    connection: &'a str,
    plugin: &'a str,
    ends: AtomicBool,
    served: AtomicU32,
    refused: Mutex<Vec<String>>,
}

impl RequestStorm<'_> {
    /// Sends requests until the time is over. `logs_in` tries a login at the database.
    fn rage(&self, roles: &[&str], logs_in: impl Fn(&str, &str) -> bool + Sync) {
        let (began, length) = (Instant::now(), length());
        thread::scope(|scope| {
            for path in [
                format!("rotate-root/{}", self.connection),
                format!("reset/{}", self.connection),
                format!("reload/{}", self.plugin),
                "rotate-role/app".to_owned(),
            ] {
                scope.spawn(move || self.repeat(&format!("database/{path}")));
            }
            for (reader, role) in (0..READERS).zip(roles.iter().cycle()) {
                let logs_in = &logs_in;
                scope.spawn(move || self.read_credentials(role, reader < READERS / 2, logs_in));
            }
            while began.elapsed() < length && !self.ends.load(Ordering::Relaxed) {
                thread::sleep(Duration::from_millis(50));
            }
            self.ends.store(true, Ordering::Relaxed);
        });
    }

    /// Asserts that the server refused nothing; shows `log` otherwise.
    fn assert_all_served(&self, log: &str) {
        let refused = self.refused.lock().expect("no client panicked with it");
        let served = self.served.load(Ordering::Relaxed);
        let warnings = log.lines().filter(|line| line.contains("level=warn"));
        let warnings: Vec<&str> = warnings.take(MOST_WARNINGS).collect();
        println!("{served} requests");
        assert!(refused.is_empty(), "of {served}: {:#?}, {warnings:#?}", kinds(&refused));
    }

    fn repeat(&self, path: &str) {
        while !self.ends.load(Ordering::Relaxed) {
            let answer = self.root.write(path, &json!({}));
            // `reload` reports a failed login as a warning.
            if self.is_served(&answer) && !answer.warnings().is_empty() {
                self.note(format!("{path} warns: {}", answer.warnings()));
            }
        }
    }

    /// Reads credentials, logs in with each, and revokes the lease if `revokes` is set.
    fn read_credentials(&self, role: &str, revokes: bool, logs_in: impl Fn(&str, &str) -> bool) {
        while !self.ends.load(Ordering::Relaxed) {
            let answer = self.root.read(&format!("database/creds/{role}"));
            if !self.is_served(&answer) {
                continue;
            }
            if !logs_in(answer.text("username"), answer.text("password")) {
                self.note(format!("{} does not log in", answer.text("username")));
            }
            if revokes {
                let lease = json!({ "lease_id": answer.lease() });
                self.is_served(&self.root.write("sys/leases/revoke", &lease));
            }
        }
    }

    fn is_served(&self, answer: &Answer) -> bool {
        self.served.fetch_add(1, Ordering::Relaxed);
        if answer.status < 300 {
            return true;
        }
        self.note(format!("{} {}: {}", answer.asked, answer.status, answer.errors()));
        false
    }

    fn note(&self, what: String) {
        self.refused.lock().expect("no client panicked with it").push(what);
    }
}

fn storm<'a>(root: &'a Client, connection: &'a str, plugin: &'a str) -> RequestStorm<'a> {
    RequestStorm {
        root,
        connection,
        plugin,
        ends: AtomicBool::default(),
        served: AtomicU32::default(),
        refused: Mutex::default(),
    }
}

fn static_role(root: &Client, connection: &str) {
    let role = json!({ "db_name": connection, "username": "app", "rotation_period": "1h" });
    root.write("database/static-roles/app", &role).expect(204);
}

#[test]
fn rotations_resets_and_reloads_fail_no_postgresql_request() {
    let world = World::new();
    let postgres = &world.postgres;
    postgres.query(&format!("CREATE ROLE keeper SUPERUSER LOGIN PASSWORD '{FIRST}'"));
    postgres.query(&format!("CREATE ROLE app LOGIN PASSWORD '{FIRST}'"));
    let keeper = json!({ "username": "keeper", "password": FIRST });
    let connected = world.root.write("database/config/demo", &with(world.connection(), keeper));
    assert!(connected.status < 300, "{connected:?}");
    let creation = [crate::world::CREATION, "SET ROLE readers", "SET search_path = nowhere"];
    world.role("odd", json!({ "creation_statements": creation }));
    static_role(&world.root, "demo");
    let storm = storm(&world.root, "demo", "postgresql-database-plugin");
    storm.rage(&["reader", "odd"], |user, password| {
        postgres.login(user, password, "SELECT 1").is_ok()
    });
    storm.assert_all_served(&world.bulkhead.printed());
    let log = postgres.log();
    let refused = log.lines().filter(|line| line.contains("password authentication failed"));
    assert_eq!(
        refused.collect::<Vec<_>>(),
        Vec::<&str>::new(),
        "a login with a revoked credential"
    );
    world.root.write("sys/leases/revoke-prefix/database", &json!({})).expect(204);
    until_true("no user is left", PATIENCE, || {
        postgres.users().iter().all(|user| !user.starts_with("v-"))
    });
}

#[test]
fn rotations_resets_and_reloads_fail_no_mariadb_request() {
    let mariadb = MariaDb::start(&[]);
    let bulkhead = Bulkhead::start();
    let root = bulkhead.root();
    for statement in [
        format!("CREATE USER 'keeper'@'%' IDENTIFIED BY '{FIRST}'"),
        "GRANT ALL ON *.* TO 'keeper'@'%' WITH GRANT OPTION".to_owned(),
        format!("CREATE USER 'app'@'%' IDENTIFIED BY '{FIRST}'"),
    ] {
        mariadb.query(&statement);
    }
    let config = json!({
        "plugin_name": "mysql-database-plugin",
        "allowed_roles": "*",
        "connection_url": mariadb.url(),
        "username": "keeper",
        "password": FIRST,
    });
    root.write("database/config/sea", &config).expect_success();
    let creation = "CREATE USER '{{name}}'@'%' IDENTIFIED BY '{{password}}'; \
                    GRANT SELECT ON demo.orders TO '{{name}}'@'%'";
    let role = |statements: Value| {
        let usual = json!({ "db_name": "sea", "default_ttl": "1h" });
        with(usual, json!({ "creation_statements": statements }))
    };
    root.write("database/roles/reader", &role(json!([creation]))).expect_success();
    let odd = json!([creation, "USE mysql", "SET SESSION sql_mode = 'ANSI_QUOTES'"]);
    root.write("database/roles/odd", &role(odd)).expect_success();
    static_role(&root, "sea");
    let storm = storm(&root, "sea", "mysql-database-plugin");
    storm.rage(&["reader", "odd"], |user, password| {
        mariadb.login(user, password, "SELECT 1").is_ok()
    });
    storm.assert_all_served(&bulkhead.printed());
    root.write("sys/leases/revoke-prefix/database", &json!({})).expect(204);
    until_true("no user is left", PATIENCE, || {
        mariadb.users().iter().all(|user| !user.contains("v-"))
    });
}

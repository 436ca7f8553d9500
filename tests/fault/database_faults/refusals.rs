//! The database refuses: it is read-only, takes no connection, has another password, lacks a schema
//! or a right, or another session holds a lock. Each refusal is a condition with words, and ends
//! by itself.

use super::place::{BACK, PASSWORD, StorePlace};
use bulkhead_tests::wait::until_true;
use std::process::{Child, Stdio};

/// A refusal of the database server. `{}` stands for the name of account and database.
struct Refusal {
    begin: &'static str,
    end: &'static str,
    /// Part of the cause in the log.
    words: &'static str,
    /// Open sessions would not notice.
    ends_sessions: bool,
}

const REFUSALS: [Refusal; 7] = [
    Refusal {
        begin: "ALTER ROLE {} SET default_transaction_read_only = on",
        end: "ALTER ROLE {} RESET default_transaction_read_only",
        words: "accepts no writes",
        ends_sessions: true,
    },
    Refusal {
        begin: "ALTER ROLE {} CONNECTION LIMIT 0",
        end: "ALTER ROLE {} CONNECTION LIMIT -1",
        words: "53300",
        ends_sessions: true,
    },
    Refusal {
        begin: "ALTER ROLE {} PASSWORD 'of-another'",
        end: "ALTER ROLE {} PASSWORD '{password}'",
        words: "check the user, the password",
        ends_sessions: true,
    },
    Refusal {
        begin: "ALTER SCHEMA public RENAME TO away",
        end: "ALTER SCHEMA away RENAME TO public",
        words: "42P01",
        ends_sessions: false,
    },
    Refusal {
        begin: "REVOKE ALL ON ALL TABLES IN SCHEMA public FROM {}",
        end: "GRANT ALL ON ALL TABLES IN SCHEMA public TO {}",
        words: "lacks a right",
        ends_sessions: false,
    },
    Refusal {
        begin: "ALTER DATABASE {} ALLOW_CONNECTIONS false",
        end: "ALTER DATABASE {} ALLOW_CONNECTIONS true",
        words: "55000",
        ends_sessions: true,
    },
    Refusal {
        begin: "ALTER ROLE {} NOLOGIN",
        end: "ALTER ROLE {} LOGIN",
        words: "check the user, the password",
        ends_sessions: true,
    },
];

#[test]
fn refusals_of_database_are_conditions_that_end() {
    let mut place = StorePlace::shared("refusals");
    for (number, refusal) in (1..).zip(&REFUSALS) {
        place.work_in_peace();
        let before = place.store.printed_bytes();
        change(&place, refusal.begin);
        if refusal.ends_sessions {
            place.database.end_sessions();
        }
        let refused = place.store.wait_until_refused("writes-refused");
        place.store.wait_for_cause(&refused, (before, refusal.words));
        place.work.step(&place.store.root()).expect("an answer");
        change(&place, refusal.end);
        place.work_until_healthy();
        place.work.check(&place.store.root());
        let lines =
            ["health-degraded", "health-restored"].map(|word| place.store.count_lines(word));
        assert_eq!(lines, [number; 2], "{}", refusal.begin);
    }
    place.assert_nothing_is_lost();
}

/// Runs the statement in the database of the server, or beside if nobody may connect there.
fn change(place: &StorePlace<'_>, statement: &str) {
    let name = &place.database.name;
    let statement = statement.replace("{password}", PASSWORD).replace("{}", name);
    match statement.contains("SCHEMA") {
        true => place.database.query(&statement),
        false => place.database.postgres.query(&statement),
    };
}

/// Holds a lock against all others, in a session of its own.
fn lock_all(place: &StorePlace<'_>) -> Child {
    let sql = "BEGIN; LOCK TABLE bulkhead_record, bulkhead_node; SELECT pg_sleep(600)";
    let mut psql = place.database.postgres.psql_at(place.database.postgres.port, sql);
    psql.args(["-d", &place.database.name]).stdout(Stdio::null()).stderr(Stdio::null());
    let session = psql.spawn().expect("psql can be started");
    let asleep = "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'PgSleep' \
                  AND datname = current_database()";
    until_true("the lock is held", BACK, || place.database.query(asleep) == "1");
    session
}

#[test]
fn locked_tables_delay_writes_and_cancel_is_refusal() {
    let mut place = StorePlace::shared("locked");
    place.work_in_peace();
    let before = place.store.printed_bytes();
    let mut session = lock_all(&place);
    let root = place.store.root();
    let waiting = "FROM pg_stat_activity WHERE wait_event_type = 'Lock' \
                   AND datname = current_database()";
    std::thread::scope(|scope| {
        let writing = scope.spawn(|| root.write("kv/refused", &serde_json::json!({ "value": 1 })));
        // The server ends a waiting statement after a while; an administrator ends it at once.
        let cancel = format!("SELECT count(pg_cancel_backend(pid)) {waiting}");
        until_true("a write ends", BACK, || {
            place.database.query(&cancel);
            writing.is_finished()
        });
        let refused = writing.join().expect("an answer");
        assert_eq!(refused.status, 503, "{refused:?}");
        place.store.wait_for_cause(&refused, (before, "57014"));
    });
    assert_eq!(place.store.conditions(), ["writes-refused"]);
    std::thread::scope(|scope| {
        let writing = scope.spawn(|| root.write("kv/refused", &serde_json::json!({ "value": 2 })));
        let count = format!("SELECT count(*) {waiting}");
        until_true("a write waits", BACK, || place.database.query(&count) != "0");
        session.kill().expect("a session of ours can be ended");
        place.database.postgres.query(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE wait_event = 'PgSleep' \
             AND datname = 'locked'",
        );
        writing.join().expect("an answer").expect(204);
    });
    session.wait().expect("an ended session");
    place.work_in_peace();
    place.assert_nothing_is_lost();
}

/// Nothing comes back by itself here: the server stays up, refuses with words, and writes nothing
/// into an empty database of the same name.
#[test]
fn dropped_schema_and_database_are_never_filled_anew() {
    let mut place = StorePlace::shared("dropped");
    place.work_in_peace();
    place.database.query("DROP SCHEMA public CASCADE");
    place.store.wait_until_refused("writes-refused");
    place.database.query("CREATE SCHEMA public AUTHORIZATION dropped");
    place.store.wait_until_refused("writes-refused");
    let tables = "SELECT count(*) FROM information_schema.tables WHERE table_schema = 'public'";
    assert_eq!(place.database.query(tables), "0");
    let postgres = place.database.postgres;
    postgres.query("DROP DATABASE dropped WITH (FORCE)");
    let refused = place.store.wait_until_refused("writes-refused");
    place.store.wait_for_cause(&refused, (0, "42P01"));
    postgres.query("CREATE DATABASE dropped OWNER dropped");
    place.store.wait_until_refused("writes-refused");
    assert_eq!(place.database.query(tables), "0");
    assert_eq!(place.store.count_lines("health-degraded"), 1);
}

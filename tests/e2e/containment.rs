//! The hostile guest in the built server: as an uploaded component, it does everything possible
//! over HTTP, and harms only its own requests.

use crate::world::{World, with};
use bulkhead_tests::paths::{guest, plugin};
use bulkhead_tests::wait::{StopOnDrop, until_true};
use bulkhead_tests::{Answer, Bulkhead, Client};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// Start of each failure message of the host.
const TITLE: &str = "plugin hostile 1.0.0 (sha256 ";
/// Longer than any answer of a neighbour on a busy machine.
const HELD_UP: Duration = Duration::from_secs(3);
/// Most additional memory of the server afterwards, in bytes.
const GROWTH: u64 = 64 << 20;
/// Longest time until the server has released the memory.
const RETURN: Duration = Duration::from_secs(60);
/// The longest first pause of a crashing component, and time to notice its end.
const RESTED: Duration = Duration::from_secs(30);

/// An act of the guest, the status, and a part of the failure message.
const ACTS: &[(&str, u16, &str)] = &[
    ("endless-loop", 502, "ran past its deadline"),
    ("loop-in-allocator", 502, "ran past its deadline"),
    ("waits-in-host-calls", 502, "ran past its deadline"),
    ("storm-of-host-calls", 500, "limit host-calls=100000"),
    ("flood-of-gets", 502, "ran past its deadline"),
    ("flood-of-puts", 500, "limit storage=16MiB"),
    ("flood-of-secrets", 500, "limit host-bytes=64MiB"),
    ("flood-of-hashes", 500, "limit host-bytes=64MiB"),
    ("flood-of-scans", 500, "limit host-bytes=64MiB"),
    ("flood-of-keys", 500, "limit host-bytes=64MiB"),
    ("flood-of-logs", 200, ""),
    ("memory-bomb", 500, "ran out of its 64 MiB of memory"),
    ("handle-bomb", 500, "holds more than 1000 handles"),
    ("stack-overflow", 500, "a stack overflow"),
    ("panic", 500, "panicked"),
    ("unreachable", 500, "panicked"),
    ("huge-answer", 500, "limit answer=4MiB"),
    ("answer-beyond-all-bounds", 500, "more than 8 MiB at once"),
    ("many-warnings", 500, "limit warnings=32"),
    ("not-json", 500, "not a JSON object"),
    ("not-an-object", 500, "not a JSON object"),
    ("deep-answer", 500, "nested too deep"),
    ("many-values", 500, "holds too many values"),
    ("key-twice", 500, "gives a key twice"),
    ("not-utf8", 500, "invalid UTF-8"),
    ("impossible-status", 500, "impossible status or content type"),
    ("split-header", 500, "impossible status or content type"),
    ("unmarked-secret", 500, "not marked for leases"),
    ("unknown-tag", 500, "a reservation that it did not make"),
    ("forged-log-line", 200, ""),
    ("secret-in-log", 200, ""),
    ("secret-in-output", 200, ""),
    ("secret-in-panic", 500, "panicked"),
    ("flood-of-output", 200, ""),
    ("forged-output", 200, ""),
    ("secret-in-key", 400, "the storage key holds a piece of a secret"),
    ("secret-in-timer", 400, "the timer's key holds a piece of a secret"),
    ("secret-in-lane", 400, "the lane holds a piece of a secret"),
    ("secret-in-tag", 400, "the tag holds a piece of a secret"),
    ("foreign-key", 400, "is not a storage key"),
    ("unmarked-nested", 403, "tune --grant 'database:postgresql-database-plugin' hostile/"),
    ("database-without-grant", 403, "tune --grant 'database:postgresql-database-plugin' hostile/"),
    ("private-keys-without-grant", 403, "does not ask for crypto:sign"),
];

/// Acts that continue after their request, in calls with a deadline of a second, so that the test
/// ends.
const LATER: &[(&str, u16, &str)] = &[
    ("endless-wake", 404, ""),
    ("panicking-wake", 404, ""),
    ("endless-revoke", 200, ""),
    ("panicking-revoke", 200, ""),
    ("endless-renew", 200, ""),
    ("panicking-renew", 200, ""),
];

/// Calls on the leases of these acts, with status and message.
const LEASES: &[(&str, &str, u16, &str)] = &[
    ("endless-renew", "renew", 502, "ran past its deadline"),
    ("panicking-renew", "renew", 500, "panicked"),
    ("endless-revoke", "revoke", 502, "ran past its deadline"),
    ("panicking-revoke", "revoke", 500, "panicked"),
];

/// Starts a server with the hostile guest at `hostile/` and an honest neighbour.
fn attacked() -> (Bulkhead, Client) {
    let server = Bulkhead::start();
    let root = server.root();
    root.upload("sys/plugins/catalog/secret/hostile", &guest("hostile")).expect(204);
    mounted(&root, "hostile");
    let role = json!({ "db_name": "orders", "creation_statements": ["CREATE ROLE \"{{name}}\""] });
    assert!(root.write("database/roles/reader", &role).status < 300);
    (server, root)
}

fn mounted(root: &Client, path: &str) {
    root.write(&format!("sys/mounts/{path}"), &json!({ "type": "hostile" })).expect(204);
}

/// Sends a request whose status may be anything.
#[track_caller]
fn harm(root: &Client, method: &str, path: &str, body: &Value) -> Answer {
    let body = if body.is_null() { String::new() } else { body.to_string() };
    root.attempt(method, path, body.as_bytes())
        .unwrap_or_else(|why| panic!("{path}: no answer: {why}"))
}

/// Runs an act and a request after it. Returns the lease of the act's answer, if any.
#[track_caller]
fn contained(root: &Client, (act, status, words): (&str, u16, &str)) -> String {
    let answer = harm(root, "GET", &format!("hostile/{act}"), &Value::Null);
    check(&answer, (act, status, words));
    root.read("hostile/acts").expect(200);
    answer.lease().to_owned()
}

#[track_caller]
fn check(answer: &Answer, (act, status, words): (&str, u16, &str)) {
    assert_eq!(answer.status, status, "{act}: {answer:?}");
    assert!(answer.errors().contains(words), "{act}: {answer:?}");
    assert!(
        status < 500 || answer.errors().contains(TITLE),
        "{act} does not say who it was: {answer:?}"
    );
}

/// Sends requests to the honest neighbour until `work` is done. Returns their number and the
/// longest duration.
fn beside(server: &Bulkhead, work: impl FnOnce()) -> (usize, Duration) {
    let is_done = AtomicBool::new(false);
    let client = server.root();
    thread::scope(|scope| {
        let asking = scope.spawn(|| {
            let (mut answers, mut slowest) = (0, Duration::ZERO);
            while !is_done.load(Ordering::Relaxed) {
                let began = Instant::now();
                client.read("database/roles/reader").expect(200);
                (answers, slowest) = (answers + 1, slowest.max(began.elapsed()));
            }
            (answers, slowest)
        });
        let done = StopOnDrop(&is_done);
        work();
        drop(done);
        asking.join().expect("the neighbour answers")
    })
}

#[test]
fn a_hostile_component_harms_only_its_own_requests() {
    let (server, root) = attacked();
    let acts = root.read("hostile/acts").expect(200).body["data"]["acts"].clone();
    let mut known_acts: Vec<&str> =
        acts.as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    let mut tried: Vec<&str> = ACTS.iter().chain(LATER).map(|(act, ..)| *act).collect();
    known_acts.sort_unstable();
    tried.sort_unstable();
    assert_eq!(known_acts, tried, "left: acts of the guest; right: acts that are tried");
    let (pid, before) = (server.pid(), server.memory());
    let (answers, slowest) = beside(&server, || {
        for act in ACTS {
            contained(&root, *act);
        }
        root.write("sys/mounts/hostile/tune", &json!({ "grants": "limit:deadline=1s" }))
            .expect(204);
        let leases: Vec<_> = LATER.iter().map(|act| (act.0, contained(&root, *act))).collect();
        for (act, what, status, words) in LEASES {
            let (_, lease) = leases
                .iter()
                .find(|(leasing, _)| leasing == act)
                .expect("the lease is of a known act");
            let body = json!({ "lease_id": lease, "sync": true });
            check(
                &harm(&root, "POST", &format!("sys/leases/{what}"), &body),
                (act, *status, words),
            );
            root.read("hostile/acts").expect(200);
        }
    });
    println!(
        "the neighbour answered {answers} times, at the slowest in {slowest:?}; {before} bytes \
         before"
    );
    assert!(answers > 0 && slowest < HELD_UP, "{answers} answers, the slowest in {slowest:?}");
    let returned = until_true("memory is given back", RETURN, || server.memory() < before + GROWTH);
    println!("{} bytes {returned:?} after", server.memory());
    assert_eq!(server.pid(), pid);
    // The panics of the guest are in the log, in lines that name the plugin.
    let printed = server.printed();
    let own = printed.lines().filter(|line| !line.contains(" plugin=hostile "));
    let panics: Vec<&str> = own.filter(|line| line.contains("panicked at")).collect();
    assert_eq!(panics, Vec::<&str>::new());
}

/// Decisions T33 and T34: a component cannot be tricked into using an interface that it does not
/// import. Two exceptions use WASI: the cloud methods wait between attempts, and the cluster engine
/// seeds its maps.
#[test]
fn official_components_import_only_used_interfaces() {
    let clock = ["clocks/monotonic-clock", "io/poll"].as_slice();
    for (name, used, unused, of_wasi) in [
        ("database", "storage", ["ambient", "http", "identity", "ldap"].as_slice(), [].as_slice()),
        ("database-mysql", "sql", &["database", "http", "ldap", "storage"], &[]),
        ("database-postgresql", "sql", &["database", "http", "ldap", "storage"], &[]),
        ("directory", "storage", &["ambient", "database", "http", "identity"], &[]),
        (
            "cluster",
            "storage",
            &["cache", "database", "identity", "ldap", "passwords"],
            &["random/insecure-seed"],
        ),
        (
            "scheduler",
            "storage",
            &["ambient", "cache", "database", "identity", "ldap", "passwords"],
            &[],
        ),
        (
            "kv",
            "storage",
            &["ambient", "cache", "crypto", "database", "http", "identity", "ldap", "metrics"],
            &[],
        ),
        ("cloud-a", "storage", &["ldap", "metrics", "passwords"], clock),
        ("cloud-b", "storage", &["ldap", "metrics", "passwords"], clock),
        (
            "userpass",
            "storage",
            &["ambient", "cache", "clock", "http", "identity", "ldap", "metrics", "passwords"],
            &[],
        ),
        (
            "approle",
            "storage",
            &["ambient", "cache", "http", "identity", "ldap", "metrics", "passwords"],
            &[],
        ),
        ("kubernetes", "storage", &["identity", "ldap", "metrics", "passwords"], &[]),
        ("jwt", "storage", &["ambient", "identity", "ldap", "metrics", "passwords"], clock),
        ("seal-awskms", "http", &["storage"], &[]),
        ("seal-azurekeyvault", "http", &["storage"], &[]),
        ("seal-gcpckms", "crypto", &["storage"], &[]),
        ("seal-transit", "http", &["storage"], &[]),
    ] {
        let component = plugin(name);
        let imported = interfaces(&component, "bulkhead:plugin/");
        assert!(imported.contains(used), "{name}");
        for interface in unused {
            assert!(!imported.contains(*interface), "{name} imports {interface}");
        }
        assert_eq!(interfaces(&component, "wasi:"), of_wasi.iter().copied().collect(), "{name}");
    }
}

/// The interfaces of a package that a component names.
fn interfaces<'a>(component: &'a [u8], package: &str) -> BTreeSet<&'a str> {
    let starts = component.windows(package.len()).enumerate();
    let starts = starts.filter(|(_, bytes)| *bytes == package.as_bytes());
    let named = starts.filter_map(|(start, _)| {
        let name = component.get(start + package.len()..)?.split(|byte| *byte == b'@').next()?;
        std::str::from_utf8(name).ok().filter(|name| name.len() < 64)
    });
    named.collect()
}

#[test]
fn crashing_component_pauses_and_recovers_beside_neighbours() {
    let (server, root) = attacked();
    mounted(&root, "other");
    for _ in 0..16 {
        check(&harm(&root, "GET", "hostile/panic", &Value::Null), ("panic", 500, "panicked"));
    }
    let resting = harm(&root, "GET", "hostile/acts", &Value::Null);
    check(&resting, ("acts", 503, "crashed 16 times in a row; mount hostile/ rests"));
    assert!(resting.retry_after.is_some_and(|seconds| (1..=10).contains(&seconds)), "{resting:?}");
    root.read("other/acts").expect(200);
    let (answers, _) = beside(&server, || {
        until_true("the component is tried again", RESTED, || {
            harm(&root, "GET", "hostile/acts", &Value::Null).status == 200
        });
    });
    assert!(answers > 0);
    root.read("hostile/acts").expect(200);
    for event in ["breaker-opened", "breaker-closed"] {
        server.wait_for_print(event);
        assert_eq!(server.printed().matches(event).count(), 1, "{event}: {}", server.printed());
    }
}

#[test]
fn mounts_do_not_share_database_sessions() {
    let world = World::new();
    world.root.write("sys/mounts/other", &json!({ "type": "database" })).expect(204);
    world.credential("reader");
    let sessions = || {
        world.postgres.query(
            "SELECT string_agg(pid::text, ' ' ORDER BY pid) FROM pg_stat_activity \
        WHERE usename = 'bulkhead' AND pid <> pg_backend_pid()",
        )
    };
    let own = sessions();
    assert!(!own.is_empty());

    // The same server and user with another password: the mount must not get a session of the first
    // mount.
    let wrong =
        with(world.connection(), json!({ "password": "not this one", "verify_connection": false }));
    assert!(world.root.write("other/config/demo", &wrong).status < 300);
    let role = world.root.read("database/roles/reader").expect(200).body["data"].clone();
    assert!(world.root.write("other/roles/reader", &role).status < 300);
    assert!(world.root.read("other/creds/reader").status >= 400);
    // PostgreSQL shows a refused login until its process ends.
    until_true("the refused login left no session", RESTED, || sessions() == own);

    assert!(world.root.write("other/config/demo", &world.connection()).status < 300);
    world.root.read("other/creds/reader").expect(200);
    let both = sessions();
    assert!(
        both.split(' ').count() > own.split(' ').count(),
        "{own} before, {both} with the other mount"
    );
    world.root.delete("sys/mounts/other").expect(204);
    until_true("the sessions of the mount that is gone are closed", RESTED, || sessions() == own);
    world.credential("reader");
    // A session that is not yet back in the pool makes the mount open another one.
    let now = sessions();
    let lives = |session: &str| now.split(' ').any(|one| one == session);
    assert!(own.split(' ').all(lives), "{own} before, {now} afterwards");
}

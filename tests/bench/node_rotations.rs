//! A static role that two nodes rotate every five seconds, while the nodes are killed in turns: the
//! rotations of each period, and log-ins with the displayed password.

use crate::shortened;
use bulkhead_tests::database_nodes::{NodeSeal, url_at};
use bulkhead_tests::wait::{StopOnDrop, until};
use bulkhead_tests::{Client, DatabaseNodes, Postgres};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard};
use std::thread;
use std::time::{Duration, Instant};

/// Duration of the measurement, in seconds.
const TIME: u64 = 180;
/// Period of the role, in seconds.
const PERIOD: u64 = 5;
/// Time between two kills, and time for which a killed node is away.
const BETWEEN: Duration = Duration::from_secs(15);
const AWAY: Duration = Duration::from_secs(2);
const PATIENCE: Duration = Duration::from_secs(60);

/// The log-ins with the displayed password.
#[derive(Default)]
struct LoginCounts {
    done: u64,
    failed: u64,
    /// The moment of the first of the failures without a success in between.
    failing_since: Option<Instant>,
    longest: Duration,
    /// The different times of the last rotation.
    rotations: BTreeSet<String>,
}

impl LoginCounts {
    fn note(&mut self, is_accepted: bool) {
        self.done += 1;
        if is_accepted {
            self.failing_since = None;
            return;
        }
        self.failed += 1;
        let since = *self.failing_since.get_or_insert_with(Instant::now);
        self.longest = self.longest.max(since.elapsed());
    }
}

pub fn measure() -> Value {
    let time = Duration::from_secs(shortened("BENCH_SECONDS", TIME));
    let database = Postgres::start_with("of-the-bench", &["-c", "fsync=on"]);
    let target = Postgres::start_with("of-the-target", &["-c", "log_statement=ddl"]);
    let url = url_at(&database, database.port);
    let group = DatabaseNodes::start(&[url.clone(), url], NodeSeal::StaticKey);
    configure(&group.root(0), &target);
    let before = changes(&target);
    // The nodes that serve, as clients see them: a load balancer leaves a killed node out.
    let serving = Mutex::new([Some(group.root(0)), Some(group.root(1))]);
    let (stop, mut counts) = (AtomicBool::new(false), LoginCounts::default());
    let kills = thread::scope(|scope| {
        let _stop = StopOnDrop(&stop);
        scope.spawn(|| watch_logins(&serving, &target, (&mut counts, &stop)));
        kill_in_turns(group, &serving, time)
    });
    report(&counts, (kills, time, changes(&target) - before))
}

fn report(counts: &LoginCounts, (kills, time, changes): (u32, Duration, usize)) -> Value {
    let slots = time.as_secs() / PERIOD;
    let (rotations, changed_twice) = (counts.rotations.len(), is_rotated_twice(&counts.rotations));
    println!("a static role with a period of {PERIOD} s on two nodes, {kills} kills in {time:?}");
    println!("  {slots} slots, {rotations} rotations, {changes} changes at the target");
    println!("  two rotations in a slot: {changed_twice} (goal 0)");
    println!(
        "  {} log-ins with the displayed password, {} failed, at most {:.1} s without a success",
        counts.done,
        counts.failed,
        counts.longest.as_secs_f64()
    );
    json!({
        "slots": slots, "rotations": rotations, "changes": changes, "twice": changed_twice,
        "kills": kills, "logins": counts.done, "failed": counts.failed,
        "longest_s": counts.longest.as_secs_f64(),
    })
}

fn configure(root: &Client, target: &Postgres) {
    target.query("CREATE ROLE app LOGIN PASSWORD 'Qd7-Vm3-Wx5-Bn8'");
    root.write("sys/mounts/database", &json!({ "type": "database" })).expect(204);
    let connection = json!({
        "plugin_name": "postgresql-database-plugin", "allowed_roles": "*",
        "connection_url": target.url(), "username": "bulkhead", "password": target.password,
    });
    root.write("database/config/orders", &connection).expect_success();
    let role = json!({ "db_name": "orders", "username": "app", "rotation_period": PERIOD });
    root.write("database/static-roles/app", &role).expect(204);
}

/// Returns the number of changes of the password in the log of the target.
fn changes(target: &Postgres) -> usize {
    target.log().matches("ALTER ROLE \"app\"").count()
}

/// Returns the number of rotations less than a period after another, by whole seconds.
fn is_rotated_twice(rotations: &BTreeSet<String>) -> usize {
    let seconds: Vec<u64> = rotations.iter().filter_map(|text| second_of_day(text)).collect();
    seconds.windows(2).filter(|pair| pair[1] >= pair[0] && pair[1] - pair[0] + 1 < PERIOD).count()
}

/// Returns the second of the day of a time such as `2026-11-29T21:00:05.123Z`.
fn second_of_day(text: &str) -> Option<u64> {
    let time = text.split_once('T')?.1;
    let mut parts = time.get(..8)?.split(':').map(|part| part.parse::<u64>().ok());
    Some((parts.next()?? * 60 + parts.next()??) * 60 + parts.next()??)
}

/// Reads the password on a serving node and logs in, until `stop`. A log-in counts as failed if the
/// node displays the same password afterwards.
fn watch_logins(
    serving: &Mutex<[Option<Client>; 2]>,
    target: &Postgres,
    (counts, stop): (&mut LoginCounts, &AtomicBool),
) {
    let mut turn = 0;
    while !stop.load(Ordering::SeqCst) {
        turn += 1;
        let Some(root) = lock(serving)[turn % 2].clone() else { continue };
        let Some((password, rotated)) = displayed(&root) else { continue };
        counts.rotations.insert(rotated);
        let is_accepted = target.login("app", &password, "SELECT 1").is_ok();
        if is_accepted || displayed(&root).is_some_and(|(now, _)| now == password) {
            counts.note(is_accepted);
        }
    }
}

/// Returns the displayed password and the time of its rotation. `None`: the node was killed, or
/// refuses.
fn displayed(root: &Client) -> Option<(String, String)> {
    let answer = root.attempt("GET", "database/static-creds/app", b"").ok()?;
    let text = |name: &str| answer.text(name).to_owned();
    (answer.status == 200).then(|| (text("password"), text("last_vault_rotation")))
}

/// Kills and starts the nodes in turns for `time`. Returns the number of kills.
fn kill_in_turns(
    mut group: DatabaseNodes,
    serving: &Mutex<[Option<Client>; 2]>,
    time: Duration,
) -> u32 {
    let (began, mut kills) = (Instant::now(), 0);
    while began.elapsed() + BETWEEN < time {
        thread::sleep(BETWEEN - AWAY);
        let index = usize::from(kills % 2 == 1);
        lock(serving)[index] = None;
        group.nodes[index].kill();
        kills += 1;
        thread::sleep(AWAY);
        group.start_again(index);
        lock(serving)[index] = Some(group.root(index));
    }
    thread::sleep(time.saturating_sub(began.elapsed()));
    // The last rotation is over.
    until("the password is displayed", PATIENCE, || displayed(&group.root(0)));
    kills
}

fn lock(serving: &Mutex<[Option<Client>; 2]>) -> MutexGuard<'_, [Option<Client>; 2]> {
    serving.lock().expect("no thread panicked with the list")
}

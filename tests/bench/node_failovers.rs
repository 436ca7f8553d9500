//! The primary of two nodes is lost, and its synchronous standby promoted: acknowledged writes that
//! are gone, and the time from the promotion to an acknowledged write on each node.

use bulkhead_tests::database_nodes::{NodeSeal, connection_url};
use bulkhead_tests::database_proxy::Direction;
use bulkhead_tests::operators::seal_status;
use bulkhead_tests::postgres::acts::ServerEnd;
use bulkhead_tests::wait::StopOnDrop;
use bulkhead_tests::{Client, DatabaseNodes, DatabaseProxy, Postgres};
use serde_json::{Value, json};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

const RUNS: usize = 3;
const NODES: usize = 2;
/// Clients of each node, which write one secret after another.
const WRITERS: usize = 2;
/// Time of the load before the loss.
const BEFORE: Duration = Duration::from_secs(3);
/// Time without a primary, as until an operator or a program decides.
const WITHOUT: Duration = Duration::from_secs(3);
/// Time after the promotion at which a node without service counts as out.
const PATIENCE: Duration = Duration::from_secs(60);
const LOOK_PAUSE: Duration = Duration::from_millis(10);
/// Maximum time from the end of the promotion to service on both nodes.
const GOAL: Duration = Duration::from_secs(5);

/// The way in which the primary is lost.
#[derive(Clone, Copy, PartialEq, Eq)]
enum PrimaryLoss {
    /// Its processes are killed: the machine refuses connections.
    Killed,
    /// The network carries nothing more: connections stay open and nothing answers.
    Vanished,
}

/// The acknowledged writes of one client.
struct Writer {
    root: Client,
    name: String,
    acknowledged: AtomicU64,
    /// Milliseconds from the beginning of the run to the last acknowledged write.
    last: AtomicU64,
}

impl Writer {
    fn path(&self, number: u64) -> String {
        format!("secret/{}/{number}", self.name)
    }

    fn run(&self, began: Instant, stop: &AtomicBool) {
        let mut number = 1;
        while !stop.load(Ordering::SeqCst) {
            if self.root.write(&self.path(number), &json!({ "round": number })).status == 204 {
                self.acknowledged.store(number, Ordering::SeqCst);
                self.last.store(millis(began.elapsed()), Ordering::SeqCst);
                number += 1;
            }
        }
    }

    /// Returns the number of acknowledged writes that `reader` does not find.
    fn count_lost(&self, reader: &Client) -> u64 {
        let numbers = 1..=self.acknowledged.load(Ordering::SeqCst);
        let is_lost = |number: &u64| {
            let read = reader.read(&self.path(*number));
            read.status != 200 || read.body["data"]["round"] != *number
        };
        u64::try_from(numbers.filter(is_lost).count()).expect("few writes")
    }
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).expect("a run takes less than an age")
}

/// The figures of one run.
struct Failover {
    acknowledged: u64,
    lost: u64,
    /// Time from the promotion to a write of each client of a node; `None`: out for [`PATIENCE`].
    back: [Option<Duration>; NODES],
}

pub fn measure() -> Value {
    println!("the primary of {NODES} nodes is lost, and its synchronous standby promoted");
    let rows = [(PrimaryLoss::Killed, "killed"), (PrimaryLoss::Vanished, "vanished")];
    Value::from_iter(rows.map(|(loss, name)| {
        let runs: Vec<_> = (0..RUNS).map(|_| fail_over(loss)).collect();
        let acknowledged: u64 = runs.iter().map(|run| run.acknowledged).sum();
        let lost: u64 = runs.iter().map(|run| run.lost).sum();
        let nodes: Vec<_> = runs.iter().flat_map(|run| run.back).collect();
        let back: Vec<_> = nodes.iter().flatten().copied().collect();
        let slowest = back.iter().max().copied().unwrap_or_default();
        let out = nodes.len() - back.len();
        println!(
            "  {name:10} {acknowledged} acknowledged writes, {lost} lost; nodes write {:.1} s \
             after the promotion at most, {out} of {} do not: {} (goal 0 lost, {GOAL:?}, 0 out)",
            slowest.as_secs_f64(),
            nodes.len(),
            if lost == 0 && out == 0 && slowest <= GOAL { "held" } else { "MISSED" }
        );
        let back: Vec<_> = back.into_iter().map(millis).collect();
        let counts = json!({ "acknowledged": acknowledged, "lost": lost, "out": out });
        (name.to_owned(), json!({ "counts": counts, "back_ms": back }))
    }))
}

fn fail_over(loss: PrimaryLoss) -> Failover {
    let database = Postgres::start_with("of-the-bench", &["-c", "fsync=on"]);
    let standby = database.add_standby();
    let proxy = DatabaseProxy::to(database.port);
    let places = format!("127.0.0.1:{},127.0.0.1:{standby}", proxy.port);
    let url = connection_url(&database, &places) + "&target_session_attrs=read-write";
    let group = DatabaseNodes::start(&vec![url; NODES], NodeSeal::Shares);
    let began = Instant::now();
    let writers: Vec<_> = (0..NODES * WRITERS)
        .map(|number| Writer {
            root: group.root(number % NODES),
            name: format!("w{number}"),
            acknowledged: AtomicU64::new(0),
            last: AtomicU64::new(0),
        })
        .collect();
    let stop = AtomicBool::new(false);
    let back = thread::scope(|scope| {
        let _stop = StopOnDrop(&stop);
        for writer in &writers {
            scope.spawn(|| writer.run(began, &stop));
        }
        thread::sleep(BEFORE);
        match loss {
            PrimaryLoss::Killed => database.end(ServerEnd::Killed),
            PrimaryLoss::Vanished => {
                proxy.stall(Direction::ToServer);
                proxy.stall(Direction::ToClient);
            }
        }
        thread::sleep(WITHOUT);
        database.promote_standby();
        returns(&writers, began)
    });
    let readers = [0, 1].map(|index| {
        if seal_status(&group.nodes[index])["sealed"] == true {
            group.open(index);
        }
        group.root(index)
    });
    let lost = writers.iter().map(|writer| {
        readers.iter().map(|reader| writer.count_lost(reader)).max().expect("two readers")
    });
    Failover {
        lost: lost.sum(),
        acknowledged: writers.iter().map(|one| one.acknowledged.load(Ordering::SeqCst)).sum(),
        back,
    }
}

/// Waits until each client has written again, or [`PATIENCE`] is over. Returns the time of each
/// node.
fn returns(writers: &[Writer], began: Instant) -> [Option<Duration>; NODES] {
    let promoted = began.elapsed();
    let mut back: [Option<Duration>; NODES] = [None; NODES];
    while back.contains(&None) && began.elapsed() - promoted < PATIENCE {
        thread::sleep(LOOK_PAUSE);
        for (node, back) in back.iter_mut().enumerate() {
            let mut own = writers.iter().skip(node).step_by(NODES);
            let writes = |writer: &Writer| writer.last.load(Ordering::SeqCst) > millis(promoted);
            if back.is_none() && own.all(writes) {
                *back = Some(began.elapsed() - promoted);
            }
        }
    }
    back
}

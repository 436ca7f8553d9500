//! Budgets of the standard requests: the cost of a request, in numbers that hardly differ from run
//! to run.
//!
//! A time differs from run to run and hides the growth of a cost by a tenth. This program counts
//! allocations, copied bytes, tasks, system calls, records of the audit, reads of the store and
//! host calls of components, and compares the counts with the table below. A commit with another
//! cost changes the table as well. `make bench` measures the processor time of the same requests.

#[path = "../bench/load.rs"]
mod load;
#[path = "../bench/standard.rs"]
mod standard;

use bulkhead_tests::counts::{Counters, LibraryCounts};
use bulkhead_tests::paths::{Folder, fault_binary};
use bulkhead_tests::{Bulkhead, metrics, storage};
use load::Connection;
use standard::{Prepared, STANDARD};
use std::fmt;

/// Requests before the first count. These requests fill caches and buffers.
const WARM_UP: u64 = 64;
/// Requests of a round.
const REQUESTS: u64 = 100;
/// Rounds. The smallest count is the count of the requests: work in the background adds to a count.
const ROUNDS: usize = 7;

/// The cost of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct RequestCost {
    library: LibraryCounts,
    /// Lines of the audit log.
    audited: u64,
    metered: MeteredCounts,
}

/// Counts by metrics of the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct MeteredCounts {
    /// Records read from memory.
    cached: u64,
    /// Records read from the database.
    stored: u64,
    /// Host calls of components.
    host_calls: u64,
}

const fn cost(memory: [u64; 3], calls: [u64; 3], audited: u64, metered: [u64; 3]) -> RequestCost {
    let [allocations, allocated_bytes, copied_bytes] = memory;
    let [tasks, reads, writes] = calls;
    let [cached, stored, host_calls] = metered;
    RequestCost {
        library: LibraryCounts { allocations, allocated_bytes, copied_bytes, tasks, reads, writes },
        audited,
        metered: MeteredCounts { cached, stored, host_calls },
    }
}

/// The budgets in the order of [`STANDARD`]: allocations, their bytes and copied bytes; tasks,
/// reads and writes; lines of the audit; records from memory, records from the database and host
/// calls.
const BUDGETS: [RequestCost; 8] = [
    cost([54, 21_251, 255_100], [0, 1, 1], 0, [0, 0, 0]),
    cost([94, 41_523, 574_500], [0, 1, 3], 2, [2, 0, 0]),
    cost([151, 60_398, 906_500], [0, 1, 3], 2, [2, 0, 1]),
    cost([164, 62_729, 939_000], [0, 1, 3], 2, [3, 0, 3]),
    cost([147, 74_550, 921_200], [0, 1, 3], 2, [2, 0, 1]),
    cost([275, 141_000, 919_900], [0, 1, 15], 2, [5, 0, 0]),
    cost([290, 97_143, 1_118_600], [0, 1, 3], 2, [7, 0, 8]),
    cost([283, 103_365, 1_084_100], [0, 1, 3], 2, [5, 0, 5]),
];

impl fmt::Display for RequestCost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { library, audited, metered } = self;
        let memory = [library.allocations, library.allocated_bytes, library.copied_bytes];
        let calls = [library.tasks, library.reads, library.writes];
        let metered = [metered.cached, metered.stored, metered.host_calls];
        write!(f, "cost({memory:?}, {calls:?}, {audited}, {metered:?})")
    }
}

impl RequestCost {
    /// Returns whether the budget describes the cost. On a slow machine, work in the background
    /// adds some percent to the use of memory, and a commit differs by a write or two of the log.
    fn fits(self, measured: Self) -> bool {
        let is_near = |count: fn(&LibraryCounts) -> u64, room: u64| {
            count(&self.library).abs_diff(count(&measured.library)) <= room
        };
        let LibraryCounts { allocations, allocated_bytes, copied_bytes, writes, .. } = self.library;
        is_near(|counts| counts.allocations, 5 + allocations / 20)
            && is_near(|counts| counts.allocated_bytes, allocated_bytes / 12)
            && is_near(|counts| counts.copied_bytes, copied_bytes / 20)
            && is_near(|counts| counts.writes, writes / 7)
            && is_near(|counts| counts.tasks, 0)
            && is_near(|counts| counts.reads, 0)
            && self.audited == measured.audited
            && self.metered == measured.metered
    }
}

/// A server with counters and one connection.
struct CountedServer {
    bulkhead: Bulkhead,
    counters: Counters,
    connection: Connection,
}

impl CountedServer {
    async fn start() -> (Self, Prepared) {
        let counters = Counters::new();
        let mut bulkhead = Bulkhead::prepared(fault_binary(), Folder::new("data"));
        bulkhead.start_with(&counters.over()).expect("the server starts");
        let prepared = Prepared::of(&bulkhead.root());
        assert!(counters.read().tasks > 0, "the tasks of the start are counted");
        let address = bulkhead.url().trim_start_matches("http://").parse().expect("an address");
        let connection = Connection::open(address).await;
        (Self { bulkhead, counters, connection }, prepared)
    }

    async fn repeat(&mut self, request: &[u8], times: u64) {
        for _ in 0..times {
            self.connection.exchange(request).await;
        }
    }

    async fn measure(&mut self, request: &[u8]) -> RequestCost {
        self.repeat(request, WARM_UP).await;
        let mut rounds = Vec::new();
        for _ in 0..ROUNDS {
            let before = self.counters.read();
            self.repeat(request, REQUESTS).await;
            rounds.push(difference(self.counters.read(), before));
        }
        let least = |count: fn(&LibraryCounts) -> u64| {
            rounds.iter().map(count).min().expect("a round") / REQUESTS
        };
        let library = LibraryCounts {
            allocations: least(|counts| counts.allocations),
            allocated_bytes: least(|counts| counts.allocated_bytes),
            copied_bytes: least(|counts| counts.copied_bytes),
            tasks: least(|counts| counts.tasks),
            reads: least(|counts| counts.reads),
            writes: least(|counts| counts.writes),
        };
        let (lines, before) = (self.lines(), self.metered());
        self.repeat(request, REQUESTS).await;
        let after = self.metered();
        RequestCost {
            library,
            audited: (self.lines() - lines) / REQUESTS,
            metered: MeteredCounts {
                cached: (after.cached - before.cached) / REQUESTS,
                stored: (after.stored - before.stored) / REQUESTS,
                host_calls: (after.host_calls - before.host_calls) / REQUESTS,
            },
        }
    }

    fn lines(&self) -> u64 {
        let path = self.bulkhead.data().join("audit.log");
        let text = std::fs::read_to_string(path).expect("the audit's file");
        text.lines().count() as u64
    }

    /// Returns the sums over all mounts since the start.
    fn metered(&self) -> MeteredCounts {
        let text = metrics::scrape(&self.bulkhead);
        let [cached, stored] = ["hit", "miss"].map(|outcome| {
            let series = format!("bulkhead_store_cache_reads_total{{outcome=\"{outcome}\"}}");
            metrics::count(&text, &series)
        });
        let host_calls = metrics::sum(&text, "bulkhead_component_host_calls_total");
        MeteredCounts { cached, stored, host_calls }
    }
}

fn difference(after: LibraryCounts, before: LibraryCounts) -> LibraryCounts {
    LibraryCounts {
        allocations: after.allocations - before.allocations,
        allocated_bytes: after.allocated_bytes - before.allocated_bytes,
        copied_bytes: after.copied_bytes - before.copied_bytes,
        tasks: after.tasks - before.tasks,
        reads: after.reads - before.reads,
        writes: after.writes - before.writes,
    }
}

#[tokio::test]
async fn request_costs_agree_with_budgets() {
    let _on_files = storage::on_files();
    let (mut server, prepared) = CountedServer::start().await;
    let mut wrong = Vec::new();
    for (standard, budget) in STANDARD.iter().zip(BUDGETS) {
        let measured = server.measure(&(standard.request)(&prepared)).await;
        println!("    {measured},  // {}", standard.name);
        if !budget.fits(measured) {
            wrong.push(format!("{}: measured {measured}, budget {budget}", standard.name));
        }
    }
    assert!(wrong.is_empty(), "costs that the table does not have:\n{}", wrong.join("\n"));
}

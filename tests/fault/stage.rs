//! Shared by all lives: the databases, the time limits, and the choice of failpoints. The password
//! of PostgreSQL's superuser is the canary.

use bulkhead_tests::leaks::CANARY;
use bulkhead_tests::{Client, MariaDb, Postgres};
use std::io::Write;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

/// Longest time for anything that happens by itself: an expiry, an undone reservation, the end of a
/// token's leases.
///
/// Without a fault the promise is two seconds. A fault adds the pause before the next attempt, 12
/// seconds after an apparent refusal, and the delays of a busy machine.
pub const SOON: Duration = Duration::from_secs(45);

/// Password of an account before a life takes it over.
pub const FIRST: &str = "Qd7-Vm3-Wx5-Bn8";

/// Number of concurrent lives. The suite runs several tests at a time, and each further life at a
/// time is one more life behind the last failpoint.
pub const AT_ONCE: usize = 2;

/// As [`AT_ONCE`], for lives that mostly wait, such as for the end of a lease.
pub const WAITING_AT_ONCE: usize = 4;

/// `make test` tries one failpoint in `STRIDE`; `make fault` tries all.
pub const STRIDE: u32 = 4;

/// As [`STRIDE`], for lives with a slow server, and for lives that repeat those of another server.
pub const LONG_STRIDE: u32 = 8;

/// The seed, unless `FAULT_SEED` sets another.
const SEED: u64 = 20_261_121;

/// PostgreSQL of all tests, shared because a database takes longer to start than a life. The names
/// of the lives distinguish their users. The database ends with this program.
static POSTGRES: LazyLock<Postgres> =
    LazyLock::new(|| Postgres::start_with(CANARY, &["-c", "max_connections=200"]));

/// As [`POSTGRES`], for the lives with MariaDB.
static MARIADB: LazyLock<MariaDb> = LazyLock::new(|| MariaDb::start(&["--max-connections=400"]));

pub fn postgres() -> &'static Postgres {
    &POSTGRES
}

pub fn mariadb() -> &'static MariaDb {
    &MARIADB
}

/// The users of the life `name`. A role's name continues with a letter, so life `x1` does not see
/// the users of life `x10`.
pub fn users(name: &str) -> Vec<String> {
    let rows = POSTGRES.query(&format!(
        "SELECT rolname FROM pg_roles WHERE rolname ~ '^v-[^-]*-{name}[a-z]' ORDER BY 1"
    ));
    rows.lines().map(str::to_owned).collect()
}

/// Returns the number of leases of the credentials at this path.
pub fn lease_count(root: &Client, path: &str) -> usize {
    let listed = root.list(&format!("sys/leases/lookup/{path}"));
    listed.body["data"]["keys"].as_array().map_or(0, Vec::len)
}

/// Calls `fires` with 1, 2, 3 and so on, several at a time, until it returns false. Returns how
/// many calls returned true.
pub fn until_nothing_fires(fires: impl Fn(u32) -> bool + Sync) -> u32 {
    until_nothing_fires_of(AT_ONCE, fires)
}

/// As [`until_nothing_fires`], with `at_once` concurrent calls.
pub fn until_nothing_fires_of(at_once: usize, fires: impl Fn(u32) -> bool + Sync) -> u32 {
    let (next, last) = (AtomicU32::new(1), AtomicU32::new(u32::MAX));
    std::thread::scope(|scope| {
        for _ in 0..at_once {
            scope.spawn(|| {
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    if number > last.load(Ordering::Relaxed) {
                        break;
                    }
                    if !fires(number) {
                        last.fetch_min(number, Ordering::Relaxed);
                    }
                }
            });
        }
    });
    last.into_inner() - 1
}

/// Prints a line that also appears when the test succeeds.
pub fn report(line: &str) {
    // `println!` would be captured and dropped on success
    writeln!(std::io::stderr(), "{line}").expect("standard error can be written to");
}

/// Returns the seed of all random choices: the sampled failpoints and the power cuts. Tests print
/// it.
///
/// # Panics
/// If `FAULT_SEED` is not a number.
pub fn seed() -> u64 {
    match std::env::var("FAULT_SEED") {
        Ok(seed) => seed.parse().unwrap_or_else(|_| panic!("FAULT_SEED={seed} is not a number")),
        Err(_) => SEED,
    }
}

/// Returns the failpoint at which life `number` (from 1) fails: every failpoint in `make fault`,
/// else one in [`STRIDE`] with an offset from the seed.
pub fn sampled(number: u32) -> u32 {
    sampled_at(STRIDE, number)
}

/// As [`sampled`], with another stride.
pub fn sampled_at(stride: u32, number: u32) -> u32 {
    if thorough() { number } else { at_stride(stride, number, seed()) }
}

fn at_stride(stride: u32, number: u32, seed: u64) -> u32 {
    let offset = u32::try_from(seed % u64::from(stride)).expect("less than a stride");
    number.saturating_sub(1) * stride + 1 + offset
}

pub fn sampling() -> String {
    sampling_at(STRIDE)
}

pub fn sampling_at(stride: u32) -> String {
    if thorough() { "all".to_owned() } else { format!("one in {stride}, FAULT_SEED={}", seed()) }
}

/// Returns true in `make fault`, which tries everything.
pub fn thorough() -> bool {
    std::env::var_os("FAULT_THOROUGH").is_some_and(|value| value == "1")
}

#[test]
fn numbers_are_tried_until_a_call_returns_false() {
    assert_eq!(until_nothing_fires(|number| number <= 9), 9);
    assert_eq!(until_nothing_fires(|_| false), 0);
}

#[test]
fn each_failpoint_is_sampled_by_exactly_one_offset() {
    let mut points: Vec<u32> =
        (0..4).flat_map(|seed| (1..=3).map(move |number| at_stride(4, number, seed))).collect();
    points.sort_unstable();
    assert_eq!(points, (1..=12).collect::<Vec<u32>>());
}

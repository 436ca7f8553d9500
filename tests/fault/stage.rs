//! What all lives of this program share: one database, whose superuser's password is the canary,
//! and how long the program may take.

use bulkhead_tests::Postgres;
use bulkhead_tests::leaks::CANARY;
use std::io::Write;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

/// How long anything may take that is to happen by itself: an expiry, an undone reservation, the
/// end of a token's leases. The promise is two seconds where nothing fails; where something does,
/// the pause before the next attempt comes on top, ten seconds and a fifth after what looks like a
/// refusal, and a busy machine.
pub const SOON: Duration = Duration::from_secs(45);

/// Lives at the same time: most of a life is waiting for its shortest lease.
const AT_ONCE: usize = 4;

/// `make test` tries one point in so many, `make fault` all of them.
const STRIDE: u32 = 4;

/// The seed, unless `FAULT_SEED` names another.
const SEED: u64 = 20_261_121;

/// The one state of this program that outlives a test: a cluster costs more than a life. Users are
/// told apart by the names of their lives. It ends when this program does.
static POSTGRES: LazyLock<Postgres> =
    LazyLock::new(|| Postgres::start_with(CANARY, &["-c", "max_connections=200"]));

/// The database.
pub fn postgres() -> &'static Postgres {
    &POSTGRES
}

/// The users of the life `name`: its roles' names go on with a letter, so that life `x1` is not
/// told those of life `x10`.
pub fn users(name: &str) -> Vec<String> {
    let rows = POSTGRES.query(&format!(
        "SELECT rolname FROM pg_roles WHERE rolname ~ '^v-[^-]*-{name}[a-z]' ORDER BY 1"
    ));
    rows.lines().map(str::to_owned).collect()
}

/// Calls `fires` with 1, 2, 3 and so on until it says that nothing happened there any more, some at
/// a time, and returns for how many it did happen.
pub fn until_nothing_fires(fires: impl Fn(u32) -> bool + Sync) -> u32 {
    let (next, last) = (AtomicU32::new(1), AtomicU32::new(u32::MAX));
    std::thread::scope(|scope| {
        for _ in 0..AT_ONCE {
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

/// Says something that is to be seen although the test succeeds.
pub fn report(line: &str) {
    // not through println!, whose text is thrown away with a success
    writeln!(std::io::stderr(), "{line}").expect("standard error can be written to");
}

/// Returns the seed of everything that is left to chance: which points are sampled, where the power
/// goes. Tests print it.
///
/// # Panics
/// If `FAULT_SEED` is set to what is not a number.
pub fn seed() -> u64 {
    match std::env::var("FAULT_SEED") {
        Ok(seed) => seed.parse().unwrap_or_else(|_| panic!("FAULT_SEED={seed} is not a number")),
        Err(_) => SEED,
    }
}

/// Returns the point that the `number`th life (from 1) is to fail at: each one if `make fault`
/// asked, else one in [`STRIDE`], beginning where the seed says.
pub fn sampled(number: u32) -> u32 {
    if thorough() { number } else { at_stride(number, seed()) }
}

fn at_stride(number: u32, seed: u64) -> u32 {
    let offset = u32::try_from(seed % u64::from(STRIDE)).expect("less than a stride");
    number.saturating_sub(1) * STRIDE + 1 + offset
}

/// Says which of the points are tried.
pub fn sampling() -> String {
    if thorough() { "all".to_owned() } else { format!("one in {STRIDE}, FAULT_SEED={}", seed()) }
}

/// Whether `make fault` asked, which has the time to try everything.
pub fn thorough() -> bool {
    std::env::var_os("FAULT_THOROUGH").is_some_and(|value| value == "1")
}

#[test]
fn numbers_are_tried_until_one_does_nothing() {
    assert_eq!(until_nothing_fires(|number| number <= 9), 9);
    assert_eq!(until_nothing_fires(|_| false), 0);
}

#[test]
fn every_point_is_sampled_by_some_seed_and_by_one_alone() {
    let mut points: Vec<u32> =
        (0..4).flat_map(|seed| (1..=3).map(move |number| at_stride(number, seed))).collect();
    points.sort_unstable();
    assert_eq!(points, (1..=12).collect::<Vec<u32>>());
}

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
pub const SOON: Duration = Duration::from_secs(20);

/// Lives at the same time: most of a life is waiting for its shortest lease.
const AT_ONCE: usize = 4;

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

/// Whether `make fault` asked, which has the time to try everything.
pub fn thorough() -> bool {
    std::env::var_os("FAULT_THOROUGH").is_some_and(|value| value == "1")
}

#[test]
fn numbers_are_tried_until_one_does_nothing() {
    assert_eq!(until_nothing_fires(|number| number <= 9), 9);
    assert_eq!(until_nothing_fires(|_| false), 0);
}

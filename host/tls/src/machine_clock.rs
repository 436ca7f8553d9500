//! The machine's clock. Clients check certificates by their own clocks, so store time has no
//! meaning here.

use time::OffsetDateTime;

/// Returns the machine's time.
#[must_use]
#[expect(clippy::disallowed_methods, reason = "no record of the store is meant")]
pub fn machine_time() -> OffsetDateTime {
    OffsetDateTime::now_utc()
}

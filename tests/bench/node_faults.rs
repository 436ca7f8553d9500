//! Faults of nodes that share a PostgreSQL database: a primary that dies or vanishes and the
//! promotion of its synchronous standby; a static role that is rotated while nodes are killed in
//! turns; and many leases of three nodes that are due in one minute.
//!
//! `BENCH_LEASES` and `BENCH_SECONDS` shorten the last two.

mod figures;
mod load;
mod node_expiries;
mod node_failovers;
mod node_rotations;
mod steady;

use serde_json::json;

fn main() {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .expect("a runtime can be built");
    let failovers = node_failovers::measure();
    let rotations = node_rotations::measure();
    let expiries = node_expiries::measure(&runtime);
    figures::save(
        "node_faults",
        json!({ "failovers": failovers, "rotations": rotations, "expiries": expiries }),
    );
}

/// Returns the number in an environment variable.
///
/// # Panics
/// If the text is not a number.
pub fn shortened(variable: &str, usual: u64) -> u64 {
    std::env::var(variable).map_or(usual, |text| text.parse().expect("a number"))
}

//! Metrics of the listening sockets: connections, and the ends of certificates. These metrics are
//! shown while sealed, too.

use super::family::MetricFamilies;
use super::registration::{MetricGroup, Registration, counter, gauge};
use bulkhead_wire::server_figures::ServerFigures;

const OPEN: Registration<1> = gauge(
    "bulkhead_connections_open",
    ["listener"],
    "open connections of a listener",
    "how many clients are connected",
);
const WAITING: Registration<0> = gauge(
    "bulkhead_connections_waiting",
    [],
    "accepted connections that wait for a slot, at most one of each listener; further connections \
     wait in the system's queue",
    "are all connections taken",
);
const CONNECTIONS: Registration<2> = counter(
    "bulkhead_connections_total",
    ["listener", "outcome"],
    "connections of a listener, by outcome",
    "does a client have too many connections, and which handshakes fail",
);
const CERTIFICATE: Registration<1> = gauge(
    "bulkhead_certificate_remaining_seconds",
    ["listener"],
    "seconds until the end of the served certificate or of its chain, negative afterwards",
    "which certificate ends soon",
);

/// The metrics of this file.
pub(super) const GROUP: MetricGroup = MetricGroup {
    mark: "metrics-listeners",
    metrics: &[&OPEN, &WAITING, &CONNECTIONS, &CERTIFICATE],
};

/// Adds the metrics of listeners at the store time `now`, in milliseconds since 1970.
pub(super) fn add(figures: &ServerFigures, now: u64, families: &mut MetricFamilies) {
    let mut waiting = 0;
    for reading in figures.listeners.iter().map(|listener| listener.read()) {
        let listener = reading.address.as_str();
        waiting += reading.waiting;
        families.add(&OPEN, [OPEN.series([listener], reading.open)]);
        let counts = [
            ("accepted", reading.accepted),
            ("refused", reading.refused),
            ("handshake-failed", reading.failed_handshakes),
        ];
        let counts = counts.map(|(outcome, count)| CONNECTIONS.series([listener, outcome], count));
        families.add(&CONNECTIONS, counts);
        let rest = reading.certificate_end.map(|end| remaining_seconds(end, now));
        families.add(&CERTIFICATE, rest.map(|rest| CERTIFICATE.series([listener], rest)));
    }
    families.add(&WAITING, [WAITING.series([], waiting)]);
}

/// Returns the seconds from `now`, in milliseconds, until `end`, in seconds since 1970.
#[expect(clippy::cast_precision_loss, reason = "no time comes near the bounds of a float")]
fn remaining_seconds(end: i64, now: u64) -> f64 {
    end as f64 - now as f64 / 1e3
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ended_certificate_has_negative_rest() {
        assert_eq!(remaining_seconds(100, 98_500), 1.5);
        assert_eq!(remaining_seconds(100, 101_000), -1.0);
    }
}

//! The metrics of a server, in the text format of Prometheus.

use crate::bulkhead::{Bulkhead, ROOT};
use crate::socket::Socket;
use std::time::Duration;

/// Longest wait for the metrics.
const PATIENCE: Duration = Duration::from_secs(60);

/// Returns the answer with all metrics, with the head of the answer. Opens a connection of its own.
pub fn scrape(server: &Bulkhead) -> String {
    let mut socket = Socket::open(server);
    socket.send(format!(
        "GET /v1/sys/metrics?format=prometheus HTTP/1.1\r\nHost: {}\r\nX-Vault-Token: {ROOT}\r\n\
         Connection: close\r\n\r\n",
        server.address()
    ));
    socket.until_closed(PATIENCE).expect("an answer")
}

/// Returns the value of a series, named with its labels; 0 for an absent series.
pub fn value(text: &str, series: &str) -> f64 {
    sample(text, series).map_or(0.0, |value| value.parse().expect(series))
}

/// Returns the value of a counter or gauge of whole numbers. Fails if the series is absent.
pub fn count(text: &str, series: &str) -> u64 {
    sample(text, series).expect(series).parse().expect(series)
}

/// Returns the sum over all series of a metric of whole numbers. Fails if the metric has no series.
pub fn sum(text: &str, metric: &str) -> u64 {
    let labelled = format!("{metric}{{");
    let series = text.lines().filter(|line| line.starts_with(&labelled));
    let values = series.map(|line| line.rsplit(' ').next()?.parse::<u64>().ok());
    let values: Option<Vec<u64>> = values.collect();
    let values = values.expect(metric);
    assert!(!values.is_empty(), "{metric} has a series");
    values.iter().sum()
}

/// Returns the printed value of a series.
fn sample<'a>(text: &'a str, series: &str) -> Option<&'a str> {
    text.lines().find_map(|line| line.strip_prefix(series)?.strip_prefix(' '))
}

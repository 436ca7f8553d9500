//! The findings about a database server, for an operator who checks the server before a start.

use std::time::Duration;

/// The findings about a database server. A compatible database may not answer each question.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DatabaseServerReport {
    /// Shortest time of a question and its answer.
    pub round_trip: Duration,
    /// A sentence for each setting that can lose an acknowledged commit.
    pub durability_doubts: Vec<String>,
    /// True if commits wait for a standby. `None` if unknown.
    pub has_synchronous_standby: Option<bool>,
    /// Number of connections that the server allows to ordinary users. `None` if unknown.
    pub allowed_connections: Option<u64>,
    /// Number of connections of all users at present, without the connection of this check. `None`
    /// if unknown.
    pub used_connections: Option<u64>,
    /// The clock of the server minus the clock of this machine, in milliseconds. `None` if unknown.
    pub clock_lead: Option<i64>,
}

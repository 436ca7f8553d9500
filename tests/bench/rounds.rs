//! Rounds of equal loads on several servers in turns, and their report as shares of bare hyper.

use crate::figures::quantile;
use crate::load::{Load, Target};
use serde_json::{Value, json};
use std::time::Duration;

const ROUNDS: usize = 5;
const TIME: Duration = Duration::from_millis(1_500);

/// A load of each server, bare hyper first.
pub type Round = Vec<Load>;

/// Measures the servers in turns, so that a busy neighbour slows all servers alike.
pub async fn rounds(servers: &[&Target], connections: usize) -> Vec<Round> {
    let mut found = Vec::new();
    for _ in 0..ROUNDS {
        let mut round = Round::new();
        for server in servers {
            round.push(server.load(connections, TIME).await);
        }
        found.push(round);
    }
    found
}

fn median(rounds: &[Round], says: impl Fn(&Round) -> f64) -> f64 {
    quantile(&mut rounds.iter().map(says).collect::<Vec<_>>(), 0.5)
}

/// Prints a row for each server, with the names in the order of the servers, and returns the rows.
pub fn report(load: &str, names: &[&str], connections: usize, rounds: &[Round]) -> Value {
    let title = format!("{load}, {connections} connections, {} rounds", rounds.len());
    println!("{title:56} requests/s   of bare   server's us");
    let rows = names.iter().enumerate().map(|(server, name)| {
        let rate = median(rounds, |round| round[server].per_second);
        let share = median(rounds, |round| round[server].per_second / round[0].per_second);
        let micros = median(rounds, |round| round[server].server * 1e6);
        println!("  {name:54} {rate:>10.0} {:>7.2} % {micros:>13.1}", share * 100.0);
        json!({ "what": name, "per_s": rate.round(), "share": share, "server_us": micros })
    });
    json!({ "connections": connections, "rows": rows.collect::<Vec<_>>() })
}

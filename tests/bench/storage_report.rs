//! The report of the figures of both databases, each with its goal.

use crate::bare_groups::GroupedRate;
use crate::figures::{micros, quantile};
use crate::load::Load;
use crate::rounds::{Round, report};
use crate::stored_rows::StoredRow;
use serde_json::{Value, json};
use std::time::Duration;

/// Minimum share of the rate of reads on SQLite.
const READ_GOAL: f64 = 0.95;
/// Maximum ratio of a single write to the time of the bare transaction.
const WRITE_GOAL: f64 = 1.3;
/// Minimum share of the rate of bare grouped inserts.
const TOKEN_GOAL: f64 = 0.6;
/// Maximum time from the start of the process to the first answered read.
const START_GOAL: Duration = Duration::from_millis(500);

/// The figures of a round of creations of tokens.
pub struct TokenRound {
    pub on_sqlite: Load,
    pub on_postgres: Load,
    /// Number of tokens in a commit on PostgreSQL.
    pub a_commit: f64,
    pub bare: GroupedRate,
}

fn verdict(is_held: bool) -> &'static str {
    if is_held { "held" } else { "MISSED" }
}

fn median<T>(found: &[T], figure: impl Fn(&T) -> f64) -> f64 {
    quantile(&mut found.iter().map(figure).collect::<Vec<_>>(), 0.5)
}

/// Reports rounds of reads: bare hyper, SQLite, PostgreSQL.
pub fn report_reads(connections: usize, found: &[Round]) -> Value {
    let names = ["bare hyper", "SQLite", "PostgreSQL"];
    let mut row = report("GET database/roles/:name", &names, connections, found);
    let share = median(found, |round| round[2].per_second / round[1].per_second);
    let is_held = share >= READ_GOAL;
    println!(
        "    PostgreSQL: {:.1} % of the rate on SQLite (goal at least {:.0} %): {}",
        share * 100.0,
        READ_GOAL * 100.0,
        verdict(is_held)
    );
    row["share_of_sqlite"] = share.into();
    row["goal"] = READ_GOAL.into();
    row["held"] = is_held.into();
    row
}

/// Reports times of single writes: SQLite, PostgreSQL, the bare transaction.
pub fn report_writes(times: [Vec<Duration>; 3]) -> Value {
    println!("a write by a client alone, {} rounds, in us      p50      p99", times[0].len());
    let names = ["SQLite", "PostgreSQL", "bare transaction with the same statements"];
    let quantiles = times.map(|mut times| [0.5, 0.99].map(|share| quantile(&mut times, share)));
    for (name, [p50, p99]) in names.iter().zip(quantiles) {
        println!("  {name:44} {:>8} {:>8}", micros(p50), micros(p99));
    }
    let [sqlite, postgres, bare] =
        quantiles.map(|[p50, p99]| json!({ "p50_us": micros(p50), "p99_us": micros(p99) }));
    let ratio = quantiles[1][0].as_secs_f64() / quantiles[2][0].as_secs_f64();
    let is_held = ratio <= WRITE_GOAL;
    println!(
        "    PostgreSQL: {ratio:.2} times the bare transaction (goal at most {WRITE_GOAL}): {}",
        verdict(is_held)
    );
    json!({
        "sqlite": sqlite, "postgres": postgres, "bare": bare, "ratio": ratio, "goal": WRITE_GOAL,
        "held": is_held,
    })
}

/// Reports rounds of creations of tokens. `rows` are the rows of a token.
pub fn report_tokens(connections: usize, found: &[TokenRound], rows: &[StoredRow]) -> Value {
    let bytes: usize = rows.iter().map(StoredRow::bytes).sum();
    let sqlite = median(found, |round| round.on_sqlite.per_second);
    let postgres = median(found, |round| round.on_postgres.per_second);
    let bare = median(found, |round| round.bare.per_second);
    let share = median(found, |round| round.on_postgres.per_second / round.bare.per_second);
    let [on_sqlite_us, server_us] = [
        median(found, |round| round.on_sqlite.server * 1e6),
        median(found, |round| round.on_postgres.server * 1e6),
    ];
    let a_commit = median(found, |round| round.a_commit);
    let a_group = median(found, |round| round.bare.a_group);
    let title = format!("service tokens, {connections} connections, {} rounds", found.len());
    println!("{title:56} tokens/s    a commit   server's us");
    println!("  {:54} {sqlite:>8.0} {:>11} {on_sqlite_us:>13.1}", "SQLite", "");
    println!("  {:54} {postgres:>8.0} {a_commit:>11.1} {server_us:>13.1}", "PostgreSQL");
    let name = format!("bare grouped inserts, {} rows, {bytes} bytes a token", rows.len());
    println!("  {name:54} {bare:>8.0} {a_group:>11.1}");
    let is_held = share >= TOKEN_GOAL;
    println!(
        "    PostgreSQL: {:.1} % of bare grouped inserts (goal at least {:.0} %): {}",
        share * 100.0,
        TOKEN_GOAL * 100.0,
        verdict(is_held)
    );
    json!({
        "connections": connections, "rows_a_token": rows.len(), "bytes_a_token": bytes,
        "sqlite_per_s": sqlite.round(), "postgres_per_s": postgres.round(),
        "bare_per_s": bare.round(), "tokens_a_commit": a_commit, "tokens_a_group": a_group,
        "server_us": server_us, "share": share, "goal": TOKEN_GOAL, "held": is_held,
    })
}

/// Reports times of starts: SQLite, PostgreSQL.
pub fn report_starts(records: u32, times: [Vec<Duration>; 2]) -> Value {
    println!("killed and started with {records} records, from exec to the first answered read");
    let [sqlite, postgres] = times.map(|mut times| {
        let starts = times.len();
        let [median, longest] = [0.5, 1.0].map(|share| quantile(&mut times, share));
        (starts, median, longest)
    });
    for (name, (starts, median, longest)) in [("SQLite", sqlite), ("PostgreSQL", postgres)] {
        println!("  {name:10} median {median:?}, longest {longest:?} of {starts} starts");
    }
    let is_held = postgres.2 <= START_GOAL;
    println!("    PostgreSQL: goal at most {START_GOAL:?}: {}", verdict(is_held));
    let [sqlite, postgres] = [sqlite, postgres].map(|(_, median, longest)| {
        json!({ "median_us": micros(median), "longest_us": micros(longest) })
    });
    json!({
        "records": records, "sqlite": sqlite, "postgres": postgres,
        "goal_us": micros(START_GOAL), "held": is_held,
    })
}

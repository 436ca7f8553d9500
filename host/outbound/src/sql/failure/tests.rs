//! Classes of errors, compared with every error of the servers.
//!
//! Sources: `psycopg` 3.3.9 (generated from PostgreSQL 18) for SQLSTATEs; `mysql2` 3.24.6 and
//! `mysql-connector-python` 26.10.0 (MySQL 8.0) and the header `mysqld_error.h` of MariaDB 10.11.19
//! for error numbers. Recorded on 2026-11-27.

use super::{MYSQL_REFUSALS, is_rejected_login, of_mysql, of_postgres};
use std::collections::BTreeSet;

/// SQLSTATE, name, class, and `refused` if the code rejects a login; `-` for a failed statement.
const POSTGRES: &str = include_str!("../../../fixtures/sql/postgres-errors.tsv");
/// Number, name in MySQL, name in MariaDB (`=`: the same, `-`: none), class, and `refused`.
const MYSQL: &str = include_str!("../../../fixtures/sql/mysql-errors.tsv");

fn rows(table: &'static str) -> impl Iterator<Item = Vec<&'static str>> {
    table.lines().map(|line| line.split('\t').collect())
}

/// Returns the class in the notation of the tables.
fn class(code: &'static str) -> &'static str {
    if code == "statement-failed" { "-" } else { code }
}

fn refusal(code: &str) -> &'static str {
    if is_rejected_login(code) { "refused" } else { "-" }
}

#[test]
fn every_postgres_error_has_its_recorded_class() {
    let mut count = 0;
    for row in rows(POSTGRES) {
        let [state, name, recorded, login] = row[..] else { panic!("{row:?}") };
        let ours = (class(of_postgres(state, None)), refusal(state));
        assert_eq!(ours, (recorded, login), "{state} {name}");
        count += 1;
    }
    assert!(count > 250, "{count} codes");
}

#[test]
fn every_mysql_error_has_its_recorded_class() {
    let mut numbers = BTreeSet::new();
    for row in rows(MYSQL) {
        let [number, mysql, mariadb, recorded, login] = row[..] else { panic!("{row:?}") };
        let ours = (class(of_mysql(number.parse().unwrap())), refusal(number));
        assert_eq!(ours, (recorded, login), "{number} {mysql} {mariadb}");
        numbers.insert(number);
    }
    assert!(MYSQL_REFUSALS.iter().all(|number| numbers.contains(number)));
    for number in 0..=u16::MAX {
        let is_classed = class(of_mysql(number)) != "-";
        assert!(!is_classed || numbers.contains(number.to_string().as_str()), "{number}");
    }
}

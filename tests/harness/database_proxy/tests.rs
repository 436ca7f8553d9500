//! The proxy in front of a real PostgreSQL.

use super::*;
use crate::Postgres;
use std::process::{Command, Stdio};
use std::time::Instant;

/// Runs `SELECT 7` through the proxy.
fn query(postgres: &Postgres, proxy: &DatabaseProxy) -> Result<String, String> {
    postgres.login_at(proxy.port, "SELECT 7")
}

#[test]
fn proxy_carries_delays_refuses_and_cuts() {
    let postgres = Postgres::start();
    let proxy = DatabaseProxy::to(postgres.port);
    assert_eq!(query(&postgres, &proxy).as_deref(), Ok("7"));

    proxy.delay(Duration::from_millis(20));
    let start = Instant::now();
    assert_eq!(query(&postgres, &proxy).as_deref(), Ok("7"));
    assert!(start.elapsed() >= Duration::from_millis(100), "{:?}", start.elapsed());
    proxy.heal();

    proxy.refuse();
    query(&postgres, &proxy).expect_err("new connections are refused");
    proxy.heal();
    assert_eq!(query(&postgres, &proxy).as_deref(), Ok("7"));

    for place in [CutPlace::Before, CutPlace::Within, CutPlace::After] {
        proxy.cut(MessageChoice::Query("SELECT 7"), place);
        query(&postgres, &proxy).expect_err("the query is cut");
        assert!(proxy.pass_all(), "{place:?}");
    }
    proxy.cut(MessageChoice::Number(1_000), CutPlace::Before);
    assert_eq!(query(&postgres, &proxy).as_deref(), Ok("7"));
    assert!(!proxy.pass_all());
}

#[test]
fn stalled_session_ends_with_reset() {
    let postgres = Postgres::start();
    let proxy = DatabaseProxy::to(postgres.port);
    proxy.stall(Direction::ToClient);
    let mut waiting: Command = postgres.psql_at(proxy.port, "SELECT 7");
    let mut session = waiting
        .env("PGCONNECT_TIMEOUT", "0")
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("psql can be started");
    let has_arrived = || {
        proxy.reset_all();
        session.try_wait().expect("a process of ours can be asked").is_some()
    };
    crate::wait::until_true("a reset ends the session", Duration::from_secs(10), has_arrived);
    assert!(!session.wait().expect("the session has ended").success());
}

//! The time of day that is set on the machine of a running server, or of one that is started again:
//! what ends in five seconds ends after five and within six, whichever way.

use bulkhead_tests::bulkhead::ROOT;
use bulkhead_tests::paths::{Folder, binary};
use bulkhead_tests::wait::until_true;
use bulkhead_tests::{Bulkhead, Client, Clock};
use serde_json::json;
use std::thread;
use std::time::{Duration, Instant};

const HOUR: i64 = 3_600;
const LIFE: Duration = Duration::from_secs(5);
/// Ends are counted from the next whole second, after the token is made.
const AT_MOST: Duration = Duration::from_millis(6_500);
const SOON: Duration = Duration::from_secs(20);

/// A token of [`LIFE`], and when that was asked for.
fn token(server: &Bulkhead) -> (String, Instant) {
    let begun = Instant::now();
    let asked = json!({ "policies": ["default"], "ttl": "5s" });
    let made = server.root().write("auth/token/create", &asked).expect(200);
    (made.body["auth"]["client_token"].as_str().expect("a token").to_owned(), begun)
}

fn is_refused(client: &Client) -> bool {
    let answer = client.send("GET", "auth/token/lookup-self", b"");
    assert!([200, 403].contains(&answer.status), "{}", answer.errors());
    answer.status == 403
}

/// Sets the clock as `steps` say, one after the other, as soon as the token is there: it holds
/// after each, and ends when it would have.
fn token_lives_its_life(steps: &[i64]) {
    let clock = Clock::right();
    let mut server = Bulkhead::prepared(binary(), Folder::new("clocked"));
    server.start_with(&clock.over()).expect("the server starts");
    let (token, begun) = token(&server);
    let client = server.client(Some(&token));
    for step in steps {
        clock.set_ahead(*step);
        for _ in 0..20 {
            assert!(!is_refused(&client) || begun.elapsed() >= LIFE, "{steps:?}: it ended early");
        }
    }
    // Before the last request that it served: what slows the test down makes no token older.
    let mut lived = begun.elapsed();
    until_true("the token is refused", SOON, || {
        let asked = begun.elapsed();
        let is_refused = is_refused(&client);
        lived = if is_refused { lived } else { asked };
        is_refused
    });
    assert!(begun.elapsed() >= LIFE, "{steps:?}: it lived {:?}", begun.elapsed());
    assert!(lived < AT_MOST, "{steps:?}: it lived {lived:?}");
    server.client(Some(ROOT)).read("auth/token/lookup-self").expect(200);
    if steps.last().is_some_and(|last| *last != 0) {
        until_true("the operator is told", SOON, || server.printed().contains("clock-jumped"));
    }
}

#[test]
fn a_token_of_five_seconds_ends_after_five_however_the_clock_is_set() {
    let ways: [&[i64]; 5] = [&[], &[HOUR], &[-HOUR], &[24 * HOUR, 0], &[-24 * HOUR, 24 * HOUR]];
    thread::scope(|scope| {
        for steps in ways {
            scope.spawn(move || token_lives_its_life(steps));
        }
    });
}

/// A server on data that it keeps, with the clock that was so far ahead while it made a token, and
/// is so far ahead when it is killed and started again.
fn token_is_not_prolonged_by_a_restart(before: i64, after: i64) {
    let clock = Clock::right();
    let mut server = Bulkhead::prepared(binary(), Folder::new("restarted"));
    clock.set_ahead(before);
    server.start_with(&clock.over()).expect("the server starts");
    let (first, begun) = token(&server);
    server.kill();
    clock.set_ahead(after);
    server.start_with(&clock.over()).expect("the server starts again");
    let ready = begun.elapsed();
    until_true("the token is refused", SOON, || is_refused(&server.client(Some(&first))));
    // The time for which the server was down does not count.
    assert!(begun.elapsed() < AT_MOST + ready, "{before} to {after}: {:?}", begun.elapsed());
    until_true("the operator is told", SOON, || server.printed().contains("clock-behind"));
    // The server is not stuck in the time that it goes on from.
    let (next, begun) = token(&server);
    let next = server.client(Some(&next));
    assert!(!is_refused(&next));
    until_true("the next token is refused", SOON, || is_refused(&next));
    let lived = begun.elapsed();
    assert!(lived >= LIFE, "{before} to {after}: it lived {lived:?}");
}

#[test]
fn a_token_is_not_prolonged_by_a_restart_with_the_clock_set_back() {
    thread::scope(|scope| {
        for (before, after) in [(0, -2 * HOUR), (365 * 24 * HOUR, 0)] {
            scope.spawn(move || token_is_not_prolonged_by_a_restart(before, after));
        }
    });
}

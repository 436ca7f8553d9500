//! Jumps of the system clock while a server runs or is down: a token of five seconds lives between
//! five and six seconds.

use bulkhead_tests::bulkhead::ROOT;
use bulkhead_tests::paths::{Folder, binary};
use bulkhead_tests::wait::until_true;
use bulkhead_tests::{Bulkhead, Client, Clock};
use serde_json::json;
use std::thread;
use std::time::{Duration, Instant};

const HOUR: i64 = 3_600;
const LIFE: Duration = Duration::from_secs(5);
/// Tokens end at a whole second, so a second is added, plus half a second for requests.
const AT_MOST: Duration = Duration::from_millis(6_500);
const SOON: Duration = Duration::from_secs(20);

/// Returns a token of [`LIFE`] and the time of its request.
fn token(server: &Bulkhead) -> (String, Instant) {
    let begun = Instant::now();
    let body = json!({ "policies": ["default"], "ttl": "5s" });
    let answer = server.root().write("auth/token/create", &body).expect(200);
    (answer.body["auth"]["client_token"].as_str().expect("a token").to_owned(), begun)
}

fn is_refused(client: &Client) -> bool {
    let answer = client.send("GET", "auth/token/lookup-self", b"");
    assert!([200, 403].contains(&answer.status), "{}", answer.errors());
    answer.status == 403
}

/// Sets the clock to each of `steps` right after the token is created, and asserts that the token's
/// lifetime does not change.
fn token_lives_five_seconds(steps: &[i64]) {
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
    // Measured before the last successful request, so that a slow test does not add to the
    // lifetime.
    let mut lived = begun.elapsed();
    until_true("the token is refused", SOON, || {
        let elapsed = begun.elapsed();
        let is_refused = is_refused(&client);
        lived = if is_refused { lived } else { elapsed };
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
fn clock_jumps_do_not_change_a_tokens_lifetime() {
    let ways: [&[i64]; 5] = [&[], &[HOUR], &[-HOUR], &[24 * HOUR, 0], &[-24 * HOUR, 24 * HOUR]];
    thread::scope(|scope| {
        for steps in ways {
            scope.spawn(move || token_lives_five_seconds(steps));
        }
    });
}

/// Creates a token with the clock ahead by `before` seconds, restarts the server with the clock
/// ahead by `after` seconds, and asserts that the token ends no later.
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
    // The downtime does not count.
    assert!(begun.elapsed() < AT_MOST + ready, "{before} to {after}: {:?}", begun.elapsed());
    until_true("the operator is told", SOON, || server.printed().contains("clock-behind"));
    let health = server.client(None).read("sys/health").expect(200).body;
    assert_eq!(health["degraded"][0]["code"], "clock-behind", "{health}");
    // The lower bound of the clock must not stop the time of new tokens.
    let (next, begun) = token(&server);
    let next = server.client(Some(&next));
    assert!(!is_refused(&next));
    until_true("the next token is refused", SOON, || is_refused(&next));
    let lived = begun.elapsed();
    assert!(lived >= LIFE, "{before} to {after}: it lived {lived:?}");
}

#[test]
fn restart_with_clock_set_back_prolongs_no_token() {
    thread::scope(|scope| {
        for (before, after) in [(0, -2 * HOUR), (365 * 24 * HOUR, 0)] {
            scope.spawn(move || token_is_not_prolonged_by_a_restart(before, after));
        }
    });
}

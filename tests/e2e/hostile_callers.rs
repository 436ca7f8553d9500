//! Callers that send too much, too slowly, incompletely, twice or not at all: the server refuses or
//! closes them, and no other client notices.

use bulkhead_tests::bulkhead::ROOT;
use bulkhead_tests::socket::connections;
use bulkhead_tests::wait::until_true;
use bulkhead_tests::{Bulkhead, Socket};
use std::process::Command;
use std::time::{Duration, Instant};

/// Longer than any limit of the server that a test waits for, on a busy machine.
const SOON: Duration = Duration::from_secs(15);

/// Longer than any answer takes on a busy machine.
const HELD_UP: Duration = Duration::from_secs(2);

/// Most memory growth after an attack, in bytes.
const GROWTH: u64 = 64 << 20;

/// A smuggled second request behind the first.
const SMUGGLED: &str = "GET /v1/sys/seal-status HTTP/1.1\r\nhost: x\r\n\r\n";

/// Returns the 99th percentile of the duration of an honest request on a new connection.
fn slowest_but_one_in_a_hundred(server: &Bulkhead) -> Duration {
    let mut times: Vec<Duration> = (0..100)
        .map(|_| {
            let start = Instant::now();
            server.client(None).read("sys/health").expect(200);
            start.elapsed()
        })
        .collect();
    times.sort();
    times[98]
}

#[test]
fn late_body_read_gets_whole_answer_keeping_connection() {
    let server = Bulkhead::start();
    let mut socket = Socket::open(&server);
    let head =
        "GET /v1/sys/internal/specs/openapi HTTP/1.1\r\nhost: x\r\ncontent-length: 2\r\n\r\n";
    assert!(socket.send(head), "the server reads a head");
    let last = "GET /v1/sys/seal-status HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n";
    assert!(socket.send(format!("{{}}{last}")), "the server reads the body");
    let answers = socket.until_closed(SOON).expect("the server closes after the last answer");
    assert_eq!(answers.matches("HTTP/1.1 200 OK").count(), 2);
}

/// Sets the limit of open file descriptors of a process.
fn allow_descriptors(process: u32, soft: u64) {
    let limit = format!("--nofile={soft}:");
    let done = Command::new("prlimit").args(["--pid", &process.to_string(), &limit]).status();
    assert!(
        done.expect("prlimit is there").success(),
        "the limit of descriptors cannot be set to {soft}"
    );
}

/// Runs `attack` beside an honest client, whose requests must stay fast; afterwards the server has
/// recovered.
fn survives<T>(attack: impl FnOnce(&Bulkhead) -> T) {
    let server = Bulkhead::start();
    slowest_but_one_in_a_hundred(&server);
    let (before, memory) = (slowest_but_one_in_a_hundred(&server), server.memory());
    let attackers = attack(&server);
    let beside = slowest_but_one_in_a_hundred(&server);
    println!(
        "p99 before {before:?}, beside the attack {beside:?}; {memory} bytes, then {} bytes",
        server.memory()
    );
    // Other programs on this machine slow the measurement, so the bound is wide: a blocked server
    // would not answer at all.
    assert!(beside < HELD_UP, "{beside:?} beside the attack, {before:?} before");
    drop(attackers);
    server.root().list("sys/policies/acl").expect(200);
    assert!(
        server.memory() < memory + GROWTH,
        "{memory} bytes before, {} bytes after",
        server.memory()
    );
    assert!(!server.printed().contains("panic"), "{}", server.printed());
}

/// Most memory growth by all unauthenticated callers together, in bytes.
const GROWTH_BY_STRANGERS: u64 = 200 << 20;

/// Returns the peak memory of the server since the last call.
fn peak_memory(server: &Bulkhead) -> u64 {
    let of = |file: &str| format!("/proc/{}/{file}", server.pid());
    let status = std::fs::read_to_string(of("status")).expect("the server runs");
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmHWM:"))
        .expect("Linux shows the peak memory");
    let peak = line.trim().trim_end_matches(" kB").parse::<u64>().expect("a number");
    std::fs::write(of("clear_refs"), "5").expect("the peak can be forgotten");
    peak << 10
}

#[test]
fn two_hundred_unauthenticated_json_bodies_take_little_memory() {
    let server = Bulkhead::start();
    let objects = |count: usize| format!("[{}0]", "{\"a\":0},".repeat(count));
    let wide: String = (0..5_000).map(|number| format!("\"{number}\":0,")).collect();
    let bodies = [
        format!("{{\"a\":{}}}", objects(7_000)),
        format!("{{\"generic_mount_paths\":{}}}", objects(7_000)),
        format!("{{\"a\":{}}}", objects(99_000)),
        format!("{{{wide}\"key\":[{}0]}}", "[".repeat(100)),
        format!("{{\"a\":\"{}\"}}", "x".repeat(4 << 20)),
    ];
    let query = format!("sys/internal/ui/mounts?{}", "a&".repeat(14_000));
    peak_memory(&server);
    let before = peak_memory(&server);
    std::thread::scope(|scope| {
        for number in 0..200 {
            let (server, body, query) = (&server, &bodies[number % bodies.len()], &query);
            let token = ["", "x-vault-token: bhs.none-of-ours\r\n"][number % 2];
            scope.spawn(move || {
                for path in ["nowhere", "sys/policies/acl/x", "sys/internal/specs/openapi", query] {
                    let method = if path == query { "GET" } else { "POST" };
                    let length = body.len();
                    let head = format!(
                        "{method} /v1/{path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\
                         {token}content-length: {length}\r\n\r\n"
                    );
                    let mut socket = Socket::open(server);
                    socket.send(head);
                    socket.send(body);
                    let answer = socket.until_closed(SOON).expect("an answer");
                    assert!(!answer.starts_with("HTTP/1.1 500"), "{answer}");
                }
            });
        }
    });
    let peak = peak_memory(&server);
    println!("{before} bytes before, {peak} bytes at most");
    assert!(peak < before + GROWTH_BY_STRANGERS, "{before} bytes before, {peak} at most");
}

/// Returns the only answer; the server must close the connection after it.
#[track_caller]
fn only_answer(server: &Bulkhead, sent: &[u8]) -> String {
    let mut socket = Socket::open(server);
    socket.send(sent);
    let shown = String::from_utf8_lossy(sent).chars().take(200).collect::<String>();
    let arrived = socket
        .until_closed(SOON)
        .unwrap_or_else(|| panic!("the connection stays open after {shown:?}"));
    assert_eq!(arrived.matches("\r\ndate: ").count(), 1, "answers to {shown:?}: {arrived}");
    arrived
}

#[test]
fn ambiguous_http_request_is_answered_once_and_disconnected() {
    let server = Bulkhead::start();
    let post = |head: &str, body: &str| {
        format!("POST /v1/sys/policies/acl/x HTTP/1.1\r\nhost: x\r\n{head}\r\n\r\n{body}{SMUGGLED}")
    };
    let chunked = "transfer-encoding: chunked";
    for (sent, status) in [
        (post("content-length: 4\r\ntransfer-encoding: chunked", "0\r\n\r\n"), 403),
        (post("transfer-encoding: chunked\r\ncontent-length: 4", "0\r\n\r\n"), 403),
        (post(chunked, "2;a=b\r\n{}\r\n0\r\ntrailer: x\r\n\r\n"), 403),
        (post("transfer-encoding: xchunked", "0\r\n\r\n"), 400),
        (post("transfer-encoding: chunked, identity", "0\r\n\r\n"), 400),
        (
            post(chunked, "0\r\n\r\n")
                .replace("HTTP/1.1\r\nhost: x\r\nt", "HTTP/1.0\r\nhost: x\r\nt"),
            400,
        ),
        (post("content-length: 2\r\ncontent-length: 4", "{}"), 400),
        (post("content-length: +2", "{}"), 400),
        (post("content-length: -2", "{}"), 400),
        (post("content-length: 0x2", "{}"), 400),
        (post("content-length: 99999999999999999999", "{}"), 400),
        (post(chunked, "fffffffffffffffff\r\n{}"), 400),
        (post(chunked, "-1\r\n{}"), 400),
        (post(chunked, &format!("2;{}\r\n{{}}\r\n0\r\n\r\n", "a".repeat(17 << 10))), 400),
        (post("content-length : 2", "{}"), 400),
        (post("x-a: 1\r\n folded: 2", ""), 400),
        (post("x-a: \0", ""), 400),
        (post("x-a: 1\rx-b: 2", ""), 400),
        (post("host: y", ""), 400),
        (format!("GET /v1/sys/health HTTP/1.1\r\n\r\n{SMUGGLED}"), 400),
        (format!("GET http://x/v1/sys/health HTTP/1.1\r\nhost: x\r\n\r\n{SMUGGLED}"), 400),
        (format!("CONNECT x:443 HTTP/1.1\r\nhost: x\r\n\r\n{SMUGGLED}"), 400),
        (format!("GET /v1/sys/../sys/health HTTP/1.1\r\nhost: x\r\n\r\n{SMUGGLED}"), 400),
        (format!("GET /v1/sys/health HTTP/9.9\r\nhost: x\r\n\r\n{SMUGGLED}"), 400),
        (format!("\u{16}\u{3}\u{1}\u{2}\0\u{1}\0\u{1}\r\n\r\n{SMUGGLED}"), 400),
    ] {
        let answer = only_answer(&server, sent.as_bytes());
        assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{sent:?}: {answer}");
        assert!(
            answer.contains("connection: close\r\n") && answer.contains("{\"errors\":[\""),
            "{sent:?}: {answer}"
        );
    }
    // An HTTP/2 client would not understand an answer in HTTP/1.1.
    let mut socket = Socket::open(&server);
    socket.send(format!("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n{SMUGGLED}"));
    assert_eq!(socket.until_closed(SOON).as_deref(), Some(""));
    server.root().read("sys/policies/acl/x").expect(404);
}

pub(super) fn heads_that_are_too_large_are_refused_with_the_limit() {
    let server = Bulkhead::start();
    let get =
        |address: &str, head: &str| format!("GET {address} HTTP/1.1\r\nhost: x\r\n{head}\r\n");
    for (sent, status, says) in [
        (get("/v1/sys/health", &"x-a: 1\r\n".repeat(1_000)), 431, "100 headers"),
        (
            get("/v1/sys/health", &format!("x-a: {}\r\n", "a".repeat(40 << 10))),
            431,
            "the most is 32768",
        ),
        (
            get("/v1/sys/health", &format!("x-vault-token: {}\r\n", "a".repeat(100_000))),
            431,
            "32 KiB",
        ),
        (get(&format!("/v1/{}", "a".repeat(64 << 10)), ""), 431, "64 KiB with the first line"),
    ] {
        let answer = only_answer(&server, sent.as_bytes());
        assert!(
            answer.starts_with(&format!("HTTP/1.1 {status} ")) && answer.contains(says),
            "{answer}"
        );
    }
    // The server may reset the connection before the client reads the answer.
    let mut socket = Socket::open(&server);
    socket.send(get("/v1/sys/health", &format!("x-a: {}\r\n", "a".repeat(1 << 20))));
    let answer = socket.until_closed(SOON).expect("the server closes the connection");
    assert!(answer.is_empty() || answer.starts_with("HTTP/1.1 431 "), "{answer}");
    server.client(None).read("sys/health").expect(200);
}

/// Opens idle connections in batches. The honest answer after a batch shows that the server has
/// accepted the batch: the system queues 128 connections, and delays each further one by a second.
fn idle_connections(server: &Bulkhead, count: usize) -> Vec<Socket> {
    let mut opened = Vec::new();
    for number in 1..=count {
        opened.push(Socket::open(server));
        if number % 64 == 0 {
            server.client(None).read("sys/health").expect(200);
        }
    }
    opened
}

#[test]
fn five_thousand_idle_connections_delay_no_new_client() {
    allow_descriptors(std::process::id(), 6 << 10);
    survives(|server| idle_connections(server, 5_000));
}

#[test]
fn half_sent_requests_delay_no_new_client() {
    survives(|server| {
        let half = |end: fn(&Socket)| {
            let mut socket = Socket::open(server);
            socket.send(
                "POST /v1/sys/policies/acl/x HTTP/1.1\r\nhost: x\r\n\
                 content-length: 100\r\n\r\n{\"policy\"",
            );
            end(&socket);
            socket
        };
        (0..300).map(|_| half(Socket::finish)).for_each(drop);
        (0..300).map(|_| half(|_| ())).for_each(drop);
        (0..300).map(|_| half(|_| ())).collect::<Vec<_>>()
    });
}

#[test]
fn slowly_sent_headers_time_out() {
    survives(|server| {
        let mut slow: Vec<Socket> = (0..200).map(|_| Socket::open(server)).collect();
        let start = Instant::now();
        while start.elapsed() < Duration::from_secs(12) {
            slow.iter_mut().for_each(|socket| {
                socket.send("x");
            });
            std::thread::sleep(Duration::from_millis(500));
        }
        for socket in &mut slow {
            socket.until_closed(SOON).expect("no head comes later than ten seconds");
        }
    });
}

fn is_refused(answer: &str) -> bool {
    answer.starts_with("HTTP/1.1 429 ") && answer.contains("retry-after: 1\r\n")
}

pub(super) fn unfinished_bodies_share_a_memory_bound_and_time_out() {
    survives(|server| {
        let head = format!(
            "POST /v1/sys/policies/acl/x HTTP/1.1\r\nhost: x\r\nx-vault-token: {ROOT}\r\n\
             content-length: 33554432\r\n\r\n{{\"policy\": \""
        );
        let mut endless: Vec<Socket> = (0..500).map(|_| Socket::open(server)).collect();
        endless.iter_mut().for_each(|socket| assert!(socket.send(&head)));
        let (mut open_sockets, mut refused) = (Vec::new(), 0);
        for mut socket in endless {
            match socket.until_closed(Duration::from_millis(if refused == 0 { 500 } else { 50 })) {
                None => open_sockets.push(socket),
                Some(answer) => {
                    assert!(is_refused(&answer), "{answer}");
                    refused += 1;
                }
            }
        }
        println!("{} bodies are waited for, {refused} refused", open_sockets.len());
        for socket in &mut open_sockets {
            // A busy server refuses some bodies later.
            let early = socket.until_closed(Duration::from_millis(50));
            let closed = early.or_else(|| {
                socket.send("x");
                socket.until_closed(Duration::from_secs(45))
            });
            let answer = closed.expect("no body is waited for so long");
            if is_refused(&answer) {
                refused += 1;
                continue;
            }
            assert!(
                answer.starts_with("HTTP/1.1 400 ")
                    && answer.contains("did not arrive within 30 s"),
                "{answer}"
            );
        }
        assert!(refused >= 490, "an address holds 64 MiB: {refused} refused");
    });
}

#[test]
fn a_client_that_never_reads_is_disconnected() {
    survives(|server| {
        let ask = "GET /v1/sys/internal/specs/openapi HTTP/1.1\r\nhost: x\r\n\r\n";
        let ask = ask.replace("host: x", &format!("host: x\r\nx-vault-token: {}", ROOT));
        let mut deaf: Vec<Socket> = (0..4).map(|_| Socket::open(server)).collect();
        for socket in &mut deaf {
            let requests = socket.flood(ask.as_bytes(), 200_000);
            assert!(requests < 200_000, "the server reads on and on");
            assert!(connections(server) > 0, "a slow reader keeps its connection");
        }
        until_true("the server gives up who never reads", Duration::from_secs(60), || {
            connections(server) == 0
        });
    });
}

#[test]
fn server_without_descriptors_closes_idle_connections_and_recovers() {
    let server = Bulkhead::start();
    allow_descriptors(server.pid(), 64);
    let crowd: Vec<Socket> = (0..200).map(|_| Socket::open(&server)).collect();
    server.client(None).read("sys/health").expect(200);
    server.wait_for_print("accept-failed");
    drop(crowd);
    allow_descriptors(server.pid(), 1024);
    server.root().list("sys/policies/acl").expect(200);
}

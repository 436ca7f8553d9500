//! Traces on the built server: spans at a collector, the trace context of callers, collectors that
//! fail, and the absence of secrets.

use crate::world::{CREATION, SLOW_CREATION};
use bulkhead_tests::collector::{Collector, CollectorMode, Span};
use bulkhead_tests::internet::{Internet, Online, Response};
use bulkhead_tests::leaks::{CANARY, assert_silent};
use bulkhead_tests::paths::guest;
use bulkhead_tests::socket::Socket;
use bulkhead_tests::{Answer, Client, Postgres, wait};
use serde_json::{Value, json};
use std::time::Duration;

/// Longest wait for spans and lines. A batch waits for 5 s, and pauses after failures are longer.
const PATIENCE: Duration = Duration::from_secs(90);

const API: &str = "api.example";
const OTHER_API: &str = "other.example";

/// A trace id, a span id and a state of a caller.
const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
const SPAN: &str = "00f067aa0ba902b7";
const STATE: &str = "vendor=a-b,other@x=1";

/// A server that exports traces, behind the proxy of an internet.
struct TracedServer {
    online: Online,
    collector: Collector,
    internet: Internet,
}

impl TracedServer {
    fn start(ratio: f64) -> Self {
        let (collector, internet) = (Collector::start(), Internet::start());
        for host in [API, OTHER_API] {
            internet.serve(host, |_| Response::json(200, &json!({})));
        }
        let online = internet.server(&collector.block(ratio));
        Self { online, collector, internet }
    }

    fn root(&self) -> &Client {
        &self.online.root
    }

    /// Mounts the database engine with a connection to `postgres` and the role `name`.
    #[track_caller]
    fn database(&self, postgres: &Postgres, name: &str, role: Value) {
        let root = self.root();
        root.write("sys/mounts/database", &json!({ "type": "database" })).expect(204);
        let connection = json!({
            "plugin_name": "postgresql-database-plugin",
            "allowed_roles": "*",
            "connection_url": postgres.url(),
            "username": "bulkhead",
            "password": postgres.password,
        });
        let written = root.write("database/config/demo", &connection);
        assert!(written.status < 300, "{written:?}");
        let written = root.write(&format!("database/roles/{name}"), &role);
        assert!(written.status < 300, "{written:?}");
    }

    /// Waits until `find` finds its spans.
    #[track_caller]
    fn wait_for<T>(&self, what: &str, find: impl Fn(&[Span]) -> Option<T>) -> T {
        wait::until(what, PATIENCE, || find(&self.collector.spans())).0
    }

    /// Returns the root span of the request that got `answer`, and all spans of its trace. The root
    /// is the last span of a trace.
    #[track_caller]
    fn trace_of(&self, answer: &Answer) -> (Span, Vec<Span>) {
        let id = answer.body["request_id"].as_str().expect("an answer has an id").to_owned();
        self.wait_for("the trace of a request", |spans| {
            let is_root = |span: &&Span| span.attribute("bulkhead.request_id") == id;
            let root = spans.iter().find(is_root)?.clone();
            Some((root.clone(), of_trace(spans, &root)))
        })
    }

    /// Sends a write with more headers, and returns the answer's head and body.
    fn write_with(&self, path: &str, headers: &str, body: &Value) -> String {
        let (server, token) = (&self.online.server, &self.online.operators.token);
        let body = body.to_string();
        let mut socket = Socket::open(server);
        socket.send(format!(
            "POST /v1/{path} HTTP/1.1\r\nHost: {}\r\nX-Vault-Token: {token}\r\n{headers}\
             Content-Length: {}\r\nConnection: close\r\n\r\n{body}",
            server.address(),
            body.len()
        ));
        socket.until_closed(PATIENCE).expect("an answer")
    }
}

/// Returns the spans of the trace of `root`.
fn of_trace(spans: &[Span], root: &Span) -> Vec<Span> {
    spans.iter().filter(|span| span.trace == root.trace).cloned().collect()
}

/// Returns the only span with this name below `parent`.
#[track_caller]
fn child<'a>(spans: &'a [Span], parent: &Span, name: &str) -> &'a Span {
    let is_child = |span: &&Span| span.parent == parent.id && span.name == name;
    let found: Vec<&Span> = spans.iter().filter(is_child).collect();
    let [span] = found[..] else { panic!("{} spans {name}: {spans:#?}", found.len()) };
    span
}

#[test]
fn slow_database_is_found_by_its_trace() {
    let (postgres, traced) = (Postgres::start(), TracedServer::start(1.0));
    let role = json!({ "db_name": "demo", "creation_statements": [SLOW_CREATION] });
    traced.database(&postgres, "slow", role);
    let answer = traced.root().read("database/creds/slow").expect(200);
    let (root, spans) = traced.trace_of(&answer);
    let id = answer.body["request_id"].as_str().expect("an id");
    assert_eq!(root.trace, id.replace('-', ""), "the request id finds the trace");
    assert_eq!((root.name.as_str(), root.kind, root.parent.as_str()), ("request", 2, ""));
    assert_eq!(root.attribute("bulkhead.mount"), "database/");
    assert_eq!(root.attribute("bulkhead.operation"), "read");
    assert_eq!(root.attribute("bulkhead.outcome"), "served");
    assert_eq!(root.attribute("http.response.status_code"), "200");
    assert_eq!(child(&spans, &root, "policy").attribute("bulkhead.outcome"), "answered");
    assert!(!child(&spans, &root, "commit").is_error);
    let engine = child(&spans, &root, "component");
    assert_eq!(engine.attribute("bulkhead.plugin"), "database");
    assert!(!engine.attribute("bulkhead.plugin_version").is_empty(), "{engine:?}");
    let slow = spans.iter().find(|span| span.name == "target" && span.seconds() >= 2.0);
    let target = slow.unwrap_or_else(|| panic!("no slow target: {spans:#?}"));
    assert_eq!((target.kind, target.is_error), (3, false));
    let url = postgres.url();
    let port = url.rsplit_once(':').and_then(|(_, rest)| rest.split('/').next()).expect("a port");
    assert!(target.attribute("bulkhead.target").ends_with(&format!(":{port}")), "{target:?}");
    // target → host call → database plugin → engine.
    let above = |span: &Span| spans.iter().find(|above| above.id == span.parent).cloned();
    let host_call = above(target).expect("a host call");
    assert_eq!(host_call.attribute("bulkhead.interface"), "sql");
    let plugin = above(&host_call).expect("the database plugin");
    assert_eq!(plugin.attribute("bulkhead.plugin"), "postgresql-database-plugin");
    assert_eq!(plugin.parent, engine.id);
    assert!(root.begin <= target.begin && target.end <= root.end, "{spans:#?}");
    let is_stored = |span: &&Span| span.name.starts_with("storage.") && span.parent == engine.id;
    assert!(spans.iter().any(|span| is_stored(&span)), "{spans:#?}");
}

#[test]
fn revocation_by_due_work_has_a_trace() {
    let (postgres, traced) = (Postgres::start(), TracedServer::start(1.0));
    let role = json!({
        "db_name": "demo", "creation_statements": [CREATION], "default_ttl": 1, "max_ttl": 1,
    });
    traced.database(&postgres, "short", role);
    traced.root().read("database/creds/short").expect(200);
    let (root, spans) = traced.wait_for("the trace of a revocation", |spans| {
        let is_root = |span: &&Span| span.attribute("bulkhead.due_work") == "revocation";
        let root = spans.iter().find(is_root)?.clone();
        Some((root.clone(), of_trace(spans, &root)))
    });
    assert_eq!((root.name.as_str(), root.parent.as_str(), root.is_error), ("due-work", "", false));
    let engine = child(&spans, &root, "component");
    assert_eq!(engine.attribute("bulkhead.mount"), "database/");
    assert!(spans.iter().any(|span| span.name == "target"), "{spans:#?}");
}

#[test]
fn trace_context_passes_only_by_grant() {
    let traced = TracedServer::start(0.0);
    let root = traced.root();
    root.upload("sys/plugins/catalog/secret/probe", &guest("probe")).expect(204);
    let grants =
        ["http:https://api.example", "http:https://other.example", "trace:https://api.example"];
    root.write("sys/mounts/third", &json!({ "type": "probe", "grants": grants })).expect(204);
    let fetch = |host: &str, flag: &str, more: Value| {
        let headers = format!("traceparent: 00-{TRACE}-{SPAN}-{flag}\r\ntracestate: {STATE}\r\n");
        let mut body = json!({ "url": format!("https://{host}/") });
        body["headers"] = more;
        traced.write_with("third/fetch/x", &headers, &body)
    };
    for (host, flag) in [(API, "01"), (OTHER_API, "01"), (API, "00")] {
        let answer = fetch(host, flag, json!({}));
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    }
    let forged = fetch(API, "01", json!({ "traceparent": format!("00-{TRACE}-{SPAN}-01") }));
    assert!(forged.contains("set by the host"), "{forged}");
    let seen = traced.internet.asked(API);
    let [sampled, unsampled] = &seen[..] else { panic!("{seen:?}") };
    let parent = format!("00-{TRACE}-{SPAN}-00");
    assert_eq!(unsampled.header("traceparent"), parent, "passes the server by");
    assert!([sampled, unsampled].iter().all(|it| it.header("tracestate") == STATE), "{seen:?}");
    let other = traced.internet.asked(OTHER_API);
    assert!(other.iter().all(|it| it.header("traceparent").is_empty()), "{other:?}");
    assert!(other.iter().all(|it| it.header("tracestate").is_empty()), "{other:?}");
    let target = traced.wait_for("the span of the caller's trace", |spans| {
        let passed = sampled.header("traceparent");
        spans.iter().find(|span| passed == format!("00-{TRACE}-{}-01", span.id)).cloned()
    });
    assert_eq!((target.trace.as_str(), target.name.as_str()), (TRACE, "target"));
    assert_eq!(target.attribute("http.response.status_code"), "200");
    let roots = traced.collector.spans();
    let is_request = |span: &&Span| span.name == "request";
    assert!(roots.iter().filter(is_request).all(|span| span.parent == SPAN), "{roots:#?}");
}

#[test]
fn malformed_or_absent_context_begins_no_trace() {
    let traced = TracedServer::start(0.0);
    for headers in [
        String::new(),
        format!("traceparent: 00-{TRACE}-{SPAN}\r\n"),
        format!("traceparent: 00-{TRACE}-{SPAN}-01\r\ntraceparent: 00-{TRACE}-{SPAN}-01\r\n"),
        format!("traceparent: 00-{}-{SPAN}-01\r\n", "0".repeat(32)),
    ] {
        let answer = traced.write_with("sys/loggers", &headers, &json!({ "level": "info" }));
        assert!(answer.starts_with("HTTP/1.1 204"), "{answer}");
    }
    let headers = format!("traceparent: 00-{TRACE}-{SPAN}-01\r\n");
    traced.write_with("sys/loggers", &headers, &json!({ "level": "info" }));
    let spans = traced.wait_for("the trace of a caller", |spans| {
        spans.iter().any(|span| span.name == "request").then(|| spans.to_vec())
    });
    assert!(spans.iter().all(|span| span.trace == TRACE), "{spans:#?}");
    assert_eq!(spans.iter().filter(|span| span.name == "request").count(), 1);
}

#[test]
fn failing_collector_delays_no_request() {
    let (mut traced, elsewhere) = (TracedServer::start(1.0), Collector::start());
    traced.collector.redirect_to(&elsewhere);
    let lines = |traced: &TracedServer, event: &str| {
        traced.online.server.printed().matches(&format!("event={event} ")).count()
    };
    for (mode, count) in [
        (CollectorMode::Redirect, 1),
        (CollectorMode::Nonsense, 1),
        (CollectorMode::Unavailable, 1),
        (CollectorMode::Hang, 1),
    ] {
        traced.collector.set(mode);
        wait::until_true("a batch in this mode", PATIENCE, || {
            traced.root().read("auth/token/lookup-self").expect(200);
            traced.collector.batches_in(mode) >= count
        });
    }
    // The batch that hangs holds the only exchange, and the answers do not wait for the exchange.
    for _ in 0..50 {
        traced.root().read("auth/token/lookup-self").expect(200);
    }
    assert_eq!(traced.collector.batches_in(CollectorMode::Hang), 1, "the batch still hangs");
    assert_eq!(lines(&traced, "trace-export-failing"), 1, "{}", traced.online.server.printed());
    assert_eq!(lines(&traced, "trace-export-restored"), 0);
    assert_eq!(elsewhere.received(), "", "no redirect is followed");
    traced.collector.set(CollectorMode::Accept);
    // The exchange that hangs ends after 10 s, and a pause follows.
    let restored = "event=trace-export-restored ";
    traced.online.server.wait_for_print_within(PATIENCE, 0, restored);
    let answer = traced.root().read("auth/token/lookup-self").expect(200);
    let (root, _) = traced.trace_of(&answer);
    assert_eq!(root.attribute("bulkhead.outcome"), "served");
    assert_eq!(lines(&traced, "trace-export-failing"), 1);
    // A stop sends what waits, and a collector that hangs delays the stop by a few seconds at most.
    let last = traced.root().read("auth/token/lookup-self").expect(200);
    assert!(traced.online.server.stop(), "{}", traced.online.server.printed());
    traced.trace_of(&last);
    traced.online.restart();
    traced.collector.set(CollectorMode::Hang);
    traced.root().read("auth/token/lookup-self").expect(200);
    assert!(traced.online.server.stop(), "{}", traced.online.server.printed());
}

#[test]
fn server_without_collector_serves_and_stops() {
    let internet = Internet::start();
    let block = "telemetry {\n  otlp_endpoint = \"http://127.0.0.1:9\"\n  sample_ratio = 1\n}\n";
    let mut online = internet.server(block);
    for _ in 0..20 {
        online.root.read("auth/token/lookup-self").expect(200);
    }
    online.server.wait_for_print("event=trace-export-failing ");
    assert!(online.server.stop(), "{}", online.server.printed());
}

/// Words that stand in paths, queries, bodies and SQL of the requests, and in no span.
const MARKS: [&str; 6] = [
    "path-mark-7d1c5e",
    "query-mark-0b44aa",
    "body-mark-93fe21",
    "role-mark-5cc0de",
    "sql_mark_41aa9e",
    "user-mark-c0ffee",
];

#[test]
fn spans_show_no_secret_and_no_parameter() {
    let (postgres, traced) = (Postgres::start(), TracedServer::start(1.0));
    let [path, query, body, role, sql, user] = MARKS;
    let statement = format!("{CREATION}; SELECT '{sql}'");
    let fields = json!({ "db_name": "demo", "creation_statements": [statement] });
    traced.database(&postgres, role, fields);
    let root = traced.root();
    root.write("sys/mounts/secret", &json!({ "type": "kv" })).expect(204);
    root.write(&format!("secret/{path}"), &json!({ body: CANARY })).expect(204);
    root.read(&format!("secret/{path}?{query}=1"));
    root.write("sys/auth/userpass", &json!({ "type": "userpass" })).expect(204);
    root.write(&format!("auth/userpass/users/{user}"), &json!({ "password": CANARY }));
    let login = json!({ "password": CANARY });
    let login =
        traced.online.server.client(None).write(&format!("auth/userpass/login/{user}"), &login);
    let token = login.body["auth"]["client_token"].as_str().expect("a token").to_owned();
    let credential = root.read(&format!("database/creds/{role}")).expect(200);
    let state = format!("vendor={}", query);
    let headers = format!("traceparent: 00-{TRACE}-{SPAN}-01\r\ntracestate: {state}\r\n");
    traced.write_with(&format!("secret/{path}"), &headers, &json!({ body: CANARY }));
    root.read(&format!("unknown/{path}"));
    let last = root.read(&format!("database/creds/{role}")).expect(200);
    traced.trace_of(&last);
    let received = traced.collector.received();
    for mark in MARKS {
        assert!(!received.contains(mark), "{mark} reached the collector");
    }
    for secret in [
        CANARY,
        &token,
        &traced.online.operators.token,
        &traced.online.operators.keys[0],
        &postgres.password,
        credential.text("password"),
        credential.text("username"),
        last.text("password"),
    ] {
        assert_silent("the collector", &received, secret);
    }
}

//! The log of the server: one request id, levels at runtime, a file that is rotated, and readers
//! that watch the lines.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use bulkhead_tests::Bulkhead;
use bulkhead_tests::operators::Operators;
use bulkhead_tests::paths::{Folder, binary, guest};
use bulkhead_tests::storage;
use bulkhead_tests::wait;
use serde_json::{Value, json};

/// Maximum time for a line to arrive.
const PATIENCE: Duration = Duration::from_secs(60);

/// A server that logs to a file.
struct LoggingServer {
    server: Bulkhead,
    operators: Operators,
    folder: Folder,
}

fn configuration(folder: &Folder, data: &Path, level: &str) -> String {
    let (folder, storage) = (folder.path().display(), storage::block(data));
    format!(
        "listener \"tcp\" {{ address = \"127.0.0.1:0\" }}\n\
         {storage}\n\
         audit \"file\" \"main\" {{ path = \"{folder}/audit.log\" }}\n\
         log_level  = \"{level}\"\nlog_format = \"json\"\nlog_file   = \"{folder}/server.log\"\n"
    )
}

impl LoggingServer {
    fn start() -> Self {
        let (folder, data) = (Folder::new("logs"), Folder::new("logged"));
        let file = folder.path().join("bulkhead.hcl");
        let text = configuration(&folder, data.path(), "info");
        fs::write(&file, text).expect("a file can be written");
        let mut server = Bulkhead::prepared(binary(), data).configured(file);
        server.start_again();
        let operators = Operators::initialise(&server, 1, 1);
        operators.unseal(&server);
        Self { server, operators, folder }
    }

    /// Returns the lines of `event` in the file `name`.
    fn lines(&self, name: &str, event: &str) -> Vec<Value> {
        let text = fs::read_to_string(self.folder.path().join(name)).unwrap_or_default();
        let complete = text.rsplit_once('\n').map_or("", |(complete, _)| complete);
        let lines = complete.lines().map(|line| serde_json::from_str(line).expect(line));
        lines.filter(|line: &Value| line["event"] == event).collect()
    }

    fn wait_for_line(&self, event: &str) -> Value {
        let what = format!("a line {event}");
        wait::until_true(&what, PATIENCE, || !self.lines("server.log", event).is_empty());
        self.lines("server.log", event).remove(0)
    }

    fn set_level(&self, level: &str) {
        let root = self.operators.root(&self.server);
        root.write("sys/loggers", &json!({ "level": level })).expect(204);
    }
}

#[test]
fn log_and_audit_lines_share_the_request_id() {
    let setup = LoggingServer::start();
    setup.set_level("debug");
    let line = setup.wait_for_line("log-level-changed");
    let audited = fs::read_to_string(setup.folder.path().join("audit.log")).expect("is audited");
    let of_request = audited.lines().filter(|audit| audit.contains("\"sys/loggers\""));
    let ids: Vec<Value> = of_request
        .map(|audit| serde_json::from_str::<Value>(audit).expect(audit)["request"]["id"].take())
        .collect();
    assert_eq!(ids, [line["request_id"].clone(), line["request_id"].clone()], "{audited}");
    let time = line["time"].as_str().unwrap_or_default();
    assert!(time.len() == 24 && time.ends_with('Z'), "{line}");
    let unsealed = setup.wait_for_line("unsealed");
    assert_eq!(unsealed["level"], "info", "{unsealed}");
}

#[test]
fn panic_of_component_reaches_log_alone_in_production() {
    let setup = LoggingServer::start();
    let root = setup.operators.root(&setup.server);
    root.upload("sys/plugins/catalog/secret/hostile", &guest("hostile")).expect(204);
    root.write("sys/mounts/hostile", &json!({ "type": "hostile" })).expect(204);
    let crashed = root.attempt("GET", "hostile/panic", b"").expect("an answer");
    assert_eq!(crashed.status, 500, "{crashed:?}");
    for part in ["on request", "traps.rs", "backtrace", "0x"] {
        assert!(!crashed.errors().contains(part), "{crashed:?}");
    }
    let trapped = setup.wait_for_line("plugin-trapped");
    let said = setup.lines("server.log", "component-output");
    let panic = said.iter().find(|line| line["line"] == "on request").expect("the panic's text");
    for line in [&trapped, panic] {
        assert_eq!(line["request_id"], trapped["request_id"], "{line}");
        assert_eq!((&line["mount"], &line["plugin"]), (&json!("hostile/"), &json!("hostile")));
        assert_eq!(line["version"], "1.0.0", "{line}");
    }
    assert!(trapped["request_id"].is_string(), "{trapped}");
    assert!(trapped["backtrace"].as_str().is_some_and(|text| text.contains("0x")), "{trapped}");
}

#[test]
fn level_changes_at_runtime_and_by_hangup() {
    let setup = LoggingServer::start();
    let root = setup.operators.root(&setup.server);
    let level = || root.read("sys/loggers").expect(200).body["data"]["server"].clone();
    setup.set_level("error");
    assert_eq!(level(), "error");
    root.delete("sys/loggers").expect(204);
    setup.wait_for_line("log-level-changed");
    // The change to `error` left no line before the line of the deletion.
    assert_eq!(setup.lines("server.log", "log-level-changed").len(), 1, "info is not written");
    assert_eq!(level(), "info");
    let refused = root.write("sys/loggers", &json!({ "level": "loud" }));
    refused.refused(400, "level \"loud\" is unknown");
    let (folder, data) = (&setup.folder, setup.server.data());
    let text = configuration(folder, data, "debug");
    fs::write(folder.path().join("bulkhead.hcl"), text).expect("a file can be written");
    setup.server.signal("HUP");
    wait::until_true("the level of the file", PATIENCE, || level() == "debug");
    fs::write(folder.path().join("bulkhead.hcl"), "log_level = \"loud\"").expect("is written");
    setup.server.signal("HUP");
    setup.wait_for_line("configuration-not-read");
    assert_eq!(level(), "debug");
}

#[test]
fn rotated_log_file_is_released_at_hangup() {
    let setup = LoggingServer::start();
    setup.wait_for_line("unsealed");
    let path = |name: &str| setup.folder.path().join(name);
    fs::rename(path("server.log"), path("server.log.1")).expect("a file can be moved");
    setup.server.signal("HUP");
    setup.wait_for_line("reopening-audit");
    assert!(setup.lines("server.log.1", "reopening-audit").is_empty());
    assert_eq!(setup.lines("server.log.1", "unsealed").len(), 1);
    fs::remove_file(path("server.log")).expect("a file can be removed");
    fs::create_dir(path("server.log")).expect("a folder can be made");
    setup.server.signal("HUP");
    setup.server.wait_for_print("\"event\":\"log-file-failing\"");
    setup.server.wait_for_print("reopening-audit");
    fs::remove_dir(path("server.log")).expect("a folder can be removed");
    setup.server.signal("HUP");
    setup.wait_for_line("reopening-audit");
    setup.server.wait_for_print("\"event\":\"log-file-restored\"");
}

#[test]
fn log_file_that_cannot_be_written_refuses_start() {
    let (folder, data) = (Folder::new("unlogged"), Folder::new("logged"));
    let file = folder.path().join("bulkhead.hcl");
    let text = configuration(&folder, data.path(), "info").replace("server.log", "none/server.log");
    fs::write(&file, text).expect("a file can be written");
    let command = |mode: &[&str]| {
        let mut command = std::process::Command::new(binary());
        let done = command.arg("server").args(mode).arg("--config").arg(&file).env_clear().output();
        let done = done.expect("the server can be started");
        (done.status.code(), String::from_utf8_lossy(&done.stderr).into_owned())
    };
    for mode in [&[][..], &["--check"]] {
        let (code, error) = command(mode);
        assert!(code == Some(1) && error.contains("none/server.log"), "{mode:?}: {error}");
    }
    let (code, error) = command(&["--log-level=loud"]);
    assert!(code == Some(2) && error.contains("\"loud\" is not a level"), "{error}");
}

/// A running `bulkhead monitor`, which ends with the value.
struct MonitorCommand {
    child: Child,
    /// The lines of the output, from a thread. The end of the output closes the channel.
    lines: Receiver<String>,
}

impl MonitorCommand {
    /// Starts the command with a format, and waits until the server serves the request.
    fn start(setup: &LoggingServer, format: &str) -> Self {
        let words = ["monitor", "-log-level=info", &format!("-log-format={format}")];
        let mut command = setup.server.command(&words);
        command.env("BULKHEAD_TOKEN", &setup.operators.token).stdout(Stdio::piped());
        let mut child = command.spawn().expect("the command can be started");
        let output = child.stdout.take().expect("the output is piped");
        let root = setup.operators.root(&setup.server);
        wait::until_true("a monitor", PATIENCE, || {
            root.read("sys/in-flight-req").expect(200).body.to_string().contains("sys/monitor")
        });
        let (sender, lines) = mpsc::channel();
        std::thread::spawn(move || {
            let lines = BufReader::new(output).lines().map_while(Result::ok);
            lines.map(|line| sender.send(line)).take_while(Result::is_ok).for_each(drop);
        });
        Self { child, lines }
    }

    /// Returns the next line that contains `part`.
    fn line(&mut self, part: &str) -> String {
        let end = Instant::now() + PATIENCE;
        loop {
            let line = self.next_line(end).expect(part);
            if line.contains(part) {
                return line;
            }
        }
    }

    /// Returns the next line; `None` at the end of the output.
    fn next_line(&mut self, end: Instant) -> Option<String> {
        match self.lines.recv_timeout(end.saturating_duration_since(Instant::now())) {
            Ok(line) => Some(line),
            Err(RecvTimeoutError::Disconnected) => None,
            Err(RecvTimeoutError::Timeout) => panic!("waited {PATIENCE:?} in vain for a line"),
        }
    }

    /// Waits for the end of the command, and returns the last line.
    fn last_line(mut self) -> String {
        let end = Instant::now() + PATIENCE;
        let last = std::iter::from_fn(|| self.next_line(end)).last().expect("a line");
        let ended = || self.child.try_wait().expect("the command can be waited for");
        let (status, _) = wait::until("the end of the command", PATIENCE, ended);
        assert!(status.success(), "{status}: {last}");
        last
    }
}

impl Drop for MonitorCommand {
    fn drop(&mut self) {
        // An error means that the command has ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn monitor_shows_lines_that_log_omits() {
    let mut setup = LoggingServer::start();
    setup.set_level("error");
    let mut monitor = MonitorCommand::start(&setup, "json");
    setup.set_level("warn");
    let line: Value = serde_json::from_str(&monitor.line("log-level-changed")).expect("JSON");
    assert_eq!((&line["log-level"], &line["level"]), (&json!("warn"), &json!("info")));
    assert!(line["request_id"].is_string(), "{line}");
    assert!(setup.lines("server.log", "log-level-changed").is_empty());
    setup.set_level("info");
    assert!(setup.server.terminate().success());
    let last = monitor.last_line();
    assert!(last.contains("monitor-ended") && last.contains("the server stops"), "{last}");
    let stopped = setup.wait_for_line("stopped");
    assert_eq!(stopped["all-requests-answered"], "true", "a monitor delays no stop: {stopped}");
}

#[test]
fn monitor_ends_when_the_service_is_sealed() {
    let setup = LoggingServer::start();
    let monitor = MonitorCommand::start(&setup, "standard");
    setup.operators.root(&setup.server).write("sys/seal", &json!({})).expect(204);
    let last = monitor.last_line();
    let reason = "event=monitor-ended reason=\"the service is sealed\"";
    assert!(last.contains(reason), "{last}");
}

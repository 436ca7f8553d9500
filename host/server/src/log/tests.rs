//! Tests of the server's log on a file.

use super::*;
use bulkhead_access::log_monitors::{LogMonitor, MonitorFormat};
use bulkhead_trace::scope::in_request;
use std::fs;
use std::path::Path;
use std::task::{Context, Poll, Waker};

fn scratch(name: &str) -> PathBuf {
    let folder = std::env::temp_dir().join(format!("bulkhead-log-{name}-{}", std::process::id()));
    // A folder of a process that had the same number.
    drop(fs::remove_dir_all(&folder));
    fs::create_dir(&folder).unwrap();
    folder
}

fn log_to(file: &Path, format: LogFormat) -> ServerLog {
    let log = ServerLog::on_stderr(LogLevel::Warn);
    let settings = LogSettings { level: LogLevel::Info, format, file: Some(file.to_owned()) };
    log.configure(&settings).unwrap();
    log
}

fn events(file: &Path) -> Vec<String> {
    let text = fs::read_to_string(file).unwrap();
    let event = |line: &str| line.split(' ').nth(2).unwrap().replacen("event=", "", 1);
    text.lines().map(event).collect()
}

#[tokio::test]
async fn lines_of_request_have_its_id() {
    let folder = scratch("request");
    let file = folder.join("server.log");
    let log = log_to(&file, LogFormat::Json);
    in_request("5e1c", None, async { log.line(LogLevel::Info, "sealed", &[]) }).await;
    log.line(LogLevel::Info, "unsealed", &[]);
    log.line(LogLevel::Debug, "detail", &[]);
    let text = fs::read_to_string(&file).unwrap();
    let lines: Vec<serde_json::Value> =
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(lines.len(), 2, "{text}");
    assert_eq!(lines[0]["request_id"], "5e1c");
    assert_eq!((&lines[1]["event"], lines[1].get("request_id")), (&"unsealed".into(), None));
    fs::remove_dir_all(folder).unwrap();
}

#[tokio::test]
async fn rotated_log_file_is_released_and_level_changes() {
    let folder = scratch("rotation");
    let (file, moved) = (folder.join("server.log"), folder.join("server.log.1"));
    let log = log_to(&file, LogFormat::Logfmt);
    log.line(LogLevel::Info, "first", &[]);
    fs::rename(&file, &moved).unwrap();
    log.line(LogLevel::Info, "second", &[]);
    log.reopen().await;
    log.threshold().set(LogLevel::Error);
    log.line(LogLevel::Warn, "unwanted", &[]);
    log.line(LogLevel::Error, "third", &[]);
    log.threshold().reset();
    log.line(LogLevel::Info, "fourth", &[]);
    assert_eq!(events(&moved), ["first", "second"]);
    assert_eq!(events(&file), ["third", "fourth"]);
    fs::remove_dir_all(folder).unwrap();
}

#[test]
fn unusable_log_file_is_refused_by_name() {
    let folder = scratch("refusal");
    let log = ServerLog::on_stderr(LogLevel::Warn);
    let file = folder.join("missing").join("server.log");
    let settings = LogSettings { file: Some(file.clone()), ..LogSettings::default() };
    let refusal = log.configure(&settings).unwrap_err();
    assert!(refusal.contains(&file.display().to_string()), "{refusal}");
    fs::remove_dir_all(folder).unwrap();
}

#[tokio::test]
async fn missing_file_diverts_lines_until_it_returns() {
    let folder = scratch("diversion");
    let file = folder.join("server.log");
    let log = log_to(&file, LogFormat::Logfmt);
    fs::remove_dir_all(&folder).unwrap();
    log.reopen().await;
    log.line(LogLevel::Info, "diverted", &[]);
    assert!(log.figures().is_diverted());
    fs::create_dir(&folder).unwrap();
    log.reopen().await;
    assert!(!log.figures().is_diverted());
    log.line(LogLevel::Info, "returned", &[]);
    assert_eq!(events(&file), ["returned"]);
    fs::remove_dir_all(folder).unwrap();
}

#[test]
fn flood_of_one_event_leaves_others_alone() {
    const LINES: u64 = 3_000;
    let folder = scratch("flood");
    let file = folder.join("server.log");
    let log = log_to(&file, LogFormat::Logfmt);
    for _ in 0..LINES {
        log.line(LogLevel::Warn, "http-failed", &[("mount", "a/".to_owned())]);
    }
    log.line(LogLevel::Warn, "sealed", &[]);
    let text = fs::read_to_string(&file).unwrap();
    let flood: Vec<&str> = text.lines().filter(|line| line.contains("event=http-failed")).collect();
    assert_eq!(events(&file).last().unwrap(), "sealed");
    // A window may end during the loop; then a line in between has the count.
    let counted =
        |line: &&str| line.rsplit_once("left-out=").map(|(_, count)| count.parse::<u64>());
    let between: u64 = flood.iter().filter_map(counted).map(Result::unwrap).sum();
    let ended = sync::lock(&log.writer).flood.take_ended(Instant::now() + LEFT_OUT_PERIOD);
    let ended: u64 = ended.iter().map(|left_out| left_out.lines).sum();
    assert_eq!(flood.len() as u64 + between + ended, LINES);
    let figures = log.figures();
    assert_eq!(flood.len() as u64 + figures.suppressed(), LINES);
    assert_eq!(figures.lines.read()[2], (LogLevel::Warn, flood.len() as u64 + 1));
    fs::remove_dir_all(folder).unwrap();
}

#[tokio::test]
async fn pipe_without_reader_stops_no_line() {
    let folder = scratch("pipe");
    let file = folder.join("server.log");
    let log = log_to(&file, LogFormat::Logfmt);
    fs::remove_file(&file).unwrap();
    let (kind, mode) = (rustix::fs::FileType::Fifo, rustix::fs::Mode::RWXU);
    rustix::fs::mknodat(rustix::fs::CWD, &file, kind, mode, 0).unwrap();
    log.reopen().await;
    log.line(LogLevel::Info, "diverted", &[]);
    let settings = LogSettings { file: Some(file.clone()), ..LogSettings::default() };
    let refusal = log.configure(&settings).unwrap_err();
    assert!(refusal.contains("cannot be opened"), "{refusal}");
    // With a reader, the pipe could be opened.
    let mut options = fs::OpenOptions::new();
    let _reader = options.read(true).write(true).open(&file).unwrap();
    let refusal = log.configure(&settings).unwrap_err();
    assert!(refusal.contains("neither a regular file"), "{refusal}");
    fs::remove_file(&file).unwrap();
    log.reopen().await;
    log.line(LogLevel::Info, "returned", &[]);
    assert_eq!(events(&file), ["returned"]);
    fs::remove_dir_all(folder).unwrap();
}

#[test]
fn character_device_is_accepted_as_log() {
    let log = ServerLog::on_stderr(LogLevel::Warn);
    let file = Some(PathBuf::from("/dev/null"));
    log.configure(&LogSettings { file, ..LogSettings::default() }).unwrap();
}

#[test]
fn last_counts_are_written_from_threshold() {
    const LINES: u64 = 3_000;
    let folder = scratch("last-floods");
    let file = folder.join("server.log");
    let log = log_to(&file, LogFormat::Logfmt);
    let flood = || (0..LINES).for_each(|_| log.line(LogLevel::Error, "http-failed", &[]));
    flood();
    log.report_last_floods();
    let count_summaries =
        || events(&file).iter().filter(|event| *event == "log-lines-left-out").count();
    assert_eq!(count_summaries(), 1);
    log.report_last_floods();
    log.threshold().set(LogLevel::Error);
    flood();
    log.report_last_floods();
    assert_eq!(count_summaries(), 1);
    fs::remove_dir_all(folder).unwrap();
}

#[test]
fn panic_during_a_line_is_reported() {
    let folder = scratch("panic");
    let file = folder.join("server.log");
    let log = log_to(&file, LogFormat::Logfmt);
    let place = [("at", "src/a.rs:1:1".to_owned())];
    let writer = sync::lock(&log.writer);
    // The line goes to standard error, and the thread does not wait for itself.
    log.write_panic(&place);
    drop(writer);
    log.write_panic(&place);
    assert_eq!(events(&file), ["panic"]);
    fs::remove_dir_all(folder).unwrap();
}

#[test]
fn component_lines_do_not_displace_host_lines() {
    let folder = scratch("made-up");
    let file = folder.join("server.log");
    let log = log_to(&file, LogFormat::Logfmt);
    let plugin = [("plugin", "cluster".to_owned()), ("mount", "a/".to_owned())];
    for number in 0..3_000 {
        log.line(LogLevel::Info, &format!("made-up-{number}"), &plugin);
    }
    log.line(LogLevel::Info, "made-up-last", &plugin);
    log.line(LogLevel::Warn, "mount-erase-delayed", &[("mount", "a/".to_owned())]);
    assert_eq!(events(&file).last().unwrap(), "mount-erase-delayed");
    log.report_last_floods();
    let text = fs::read_to_string(&file).unwrap();
    assert!(text.contains("left-out=other-events mount=a/ lines="), "{text}");
    fs::remove_dir_all(folder).unwrap();
}

#[test]
fn monitor_shows_lines_below_level_of_log() {
    let folder = scratch("monitor");
    let file = folder.join("server.log");
    let log = log_to(&file, LogFormat::Json);
    let read =
        |monitor: &LogMonitor| match monitor.poll_lines(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(Some(lines)) => lines,
            other => panic!("{other:?}"),
        };
    let standard = log.monitors().open(LogLevel::Debug, MonitorFormat::Standard).unwrap();
    let json = log.monitors().open(LogLevel::Warn, MonitorFormat::Json).unwrap();
    let pairs = [("mount", "kv/".to_owned())];
    log.line(LogLevel::Debug, "detail", &pairs);
    log.line(LogLevel::Warn, "rotation-delayed", &pairs);
    assert_eq!(events_of(&fs::read_to_string(&file).unwrap()).len(), 1, "debug is not logged");
    let lines = read(&standard);
    assert!(lines.contains("level=debug event=detail mount=kv/\n"), "{lines}");
    assert_eq!(lines.lines().count(), 2, "{lines}");
    let line: serde_json::Value = serde_json::from_str(&read(&json)).unwrap();
    assert_eq!((&line["event"], &line["mount"]), (&"rotation-delayed".into(), &"kv/".into()));
    for _ in 0..2_000 {
        log.line(LogLevel::Debug, "flood", &[]);
    }
    let lines = read(&standard);
    assert!(lines.contains("event=monitor-lines-left-out lines=488\n"), "{lines}");
    log.report_last_floods();
    let lines = read(&standard);
    assert!(lines.contains("left-out=flood lines=1000"), "{lines}");
    log.line(LogLevel::Info, "after", &[]);
    assert_eq!(events_of(&fs::read_to_string(&file).unwrap()).len(), 2, "only logged lines count");
    fs::remove_dir_all(folder).unwrap();
}

fn events_of(text: &str) -> Vec<&str> {
    text.lines().filter(|line| line.contains("\"event\"")).collect()
}

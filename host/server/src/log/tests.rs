//! Tests of the server's log on a file.

use super::*;
use bulkhead_access::request_scope::in_request;
use std::fs;
use std::path::Path;

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
    in_request("5e1c", async { log.line(LogLevel::Info, "sealed", &[]) }).await;
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

#[test]
fn rotated_file_is_released_and_level_changes_at_runtime() {
    let folder = scratch("rotation");
    let (file, moved) = (folder.join("server.log"), folder.join("server.log.1"));
    let log = log_to(&file, LogFormat::Logfmt);
    log.line(LogLevel::Info, "first", &[]);
    fs::rename(&file, &moved).unwrap();
    log.line(LogLevel::Info, "second", &[]);
    log.reopen();
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
fn file_that_cannot_be_opened_is_refused_by_name() {
    let folder = scratch("refusal");
    let log = ServerLog::on_stderr(LogLevel::Warn);
    let file = folder.join("missing").join("server.log");
    let settings = LogSettings { file: Some(file.clone()), ..LogSettings::default() };
    let refusal = log.configure(&settings).unwrap_err();
    assert!(refusal.contains(&file.display().to_string()), "{refusal}");
    fs::remove_dir_all(folder).unwrap();
}

#[test]
fn missing_file_diverts_lines_until_it_returns() {
    let folder = scratch("diversion");
    let file = folder.join("server.log");
    let log = log_to(&file, LogFormat::Logfmt);
    fs::remove_dir_all(&folder).unwrap();
    log.reopen();
    log.line(LogLevel::Info, "diverted", &[]);
    fs::create_dir(&folder).unwrap();
    log.reopen();
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
    fs::remove_dir_all(folder).unwrap();
}

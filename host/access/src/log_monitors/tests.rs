//! Tests of the monitors of the log.

use super::*;
use std::task::Waker;

fn opened(level: LogLevel) -> (Arc<LogMonitors>, LogMonitor) {
    let monitors = Arc::new(LogMonitors::default());
    let monitor = monitors.open(level, MonitorFormat::Standard).unwrap();
    (monitors, monitor)
}

fn poll(monitor: &LogMonitor) -> Poll<Option<String>> {
    monitor.poll_lines(&mut Context::from_waker(Waker::noop()))
}

fn lines(monitor: &LogMonitor) -> String {
    match poll(monitor) {
        Poll::Ready(Some(lines)) => lines,
        other => panic!("{other:?}"),
    }
}

#[test]
fn monitor_shows_lines_of_its_level() {
    let (monitors, monitor) = opened(LogLevel::Info);
    assert!(poll(&monitor).is_pending());
    assert!(monitors.admits(LogLevel::Info) && !monitors.admits(LogLevel::Debug));
    for level in LogLevel::ALL {
        monitors.publish(level, |_| format!("{}\n", level.word()));
    }
    assert_eq!(lines(&monitor), "info\nwarn\nerror\n");
    assert!(poll(&monitor).is_pending());
    drop(monitor);
    assert!(!monitors.admits(LogLevel::Error));
}

#[test]
fn slow_reader_gets_the_number_of_lost_lines() {
    let (monitors, monitor) = opened(LogLevel::Debug);
    for number in 0..600 {
        monitors.publish(LogLevel::Info, |_| format!("{number}\n"));
    }
    let read = lines(&monitor);
    assert_eq!(read.lines().count(), 513, "{read}");
    assert!(read.ends_with("511\nlevel=warn event=monitor-lines-left-out lines=88\n"), "{read}");
    monitors.publish(LogLevel::Info, |_| "x".repeat(300 << 10));
    assert!(lines(&monitor).ends_with("monitor-lines-left-out lines=1\n"));
    monitors.publish(LogLevel::Info, |_| "later\n".to_owned());
    assert_eq!(lines(&monitor), "later\n");
}

#[test]
fn monitors_are_bounded_and_end_with_a_reason() {
    let (monitors, first) = opened(LogLevel::Warn);
    let others: Vec<LogMonitor> =
        (0..7).map(|_| monitors.open(LogLevel::Error, MonitorFormat::Json).unwrap()).collect();
    let refused = monitors.open(LogLevel::Warn, MonitorFormat::Json).err().unwrap();
    assert_eq!(refused.kind, FailureKind::Unavailable);
    drop(others);
    monitors.publish(LogLevel::Warn, |_| "before\n".to_owned());
    monitors.close("the server stops");
    first.end("another reason");
    assert_eq!(lines(&first), "before\nlevel=warn event=monitor-ended reason=the server stops\n");
    assert_eq!(poll(&first), Poll::Ready(None));
    assert!(monitors.open(LogLevel::Warn, MonitorFormat::Json).is_err());
}

//! Counts of events, and the separation of events of the host from events of components.

use super::*;

const ADMITTED: LineAdmission = LineAdmission::Admitted { left_out: 0 };

fn host<'a>(event: &'a str, mount: &'a str) -> LineSubject<'a> {
    LineSubject { source: LineSource::Host, event, mount }
}

fn component<'a>(event: &'a str, mount: &'a str) -> LineSubject<'a> {
    LineSubject { source: LineSource::Component, event, mount }
}

fn flood(limiter: &mut FloodLimiter, subject: LineSubject<'_>, lines: u32, now: Instant) {
    for _ in 0..lines {
        limiter.admit(subject, now);
    }
}

fn use_every_name(limiter: &mut FloodLimiter, mount: &str, now: Instant) {
    for number in 0..MAX_EVENTS {
        assert_eq!(limiter.admit(component(&format!("e{number}"), mount), now), ADMITTED);
    }
}

#[test]
fn lines_above_limit_are_left_out_and_counted() {
    let (mut limiter, begin) = (FloodLimiter::default(), Instant::now());
    let subject = host("http-failed", "a/");
    flood(&mut limiter, subject, MAX_LINES, begin);
    assert_eq!(limiter.admit(subject, begin), LineAdmission::LeftOut);
    assert_eq!(limiter.admit(subject, begin), LineAdmission::LeftOut);
    assert_eq!(limiter.admit(host("http-failed", "b/"), begin), ADMITTED);
    assert_eq!(limiter.admit(host("sealed", ""), begin), ADMITTED);
    assert!(limiter.take_ended(begin).is_empty());
    let later = begin + WINDOW;
    assert_eq!(limiter.admit(subject, later), LineAdmission::Admitted { left_out: 2 });
    assert_eq!(limiter.admit(subject, later), ADMITTED);
}

#[test]
fn end_of_flood_reports_count_once() {
    let (mut limiter, begin) = (FloodLimiter::default(), Instant::now());
    flood(&mut limiter, host("http-failed", "a/"), MAX_LINES + 7, begin);
    flood(&mut limiter, host("http-failed", "b/"), 3, begin);
    let (event, mount) = ("http-failed".to_owned(), "a/".to_owned());
    let later = begin + WINDOW;
    assert_eq!(limiter.take_ended(later), [LeftOut { event, mount, lines: 7 }]);
    assert!(limiter.take_ended(later).is_empty());
    assert_eq!(limiter.admit(host("http-failed", "a/"), later), ADMITTED);
}

#[test]
fn stop_takes_counts_of_unfinished_windows() {
    let (mut limiter, begin) = (FloodLimiter::default(), Instant::now());
    flood(&mut limiter, host("http-failed", "a/"), MAX_LINES + 2, begin);
    flood(&mut limiter, component("refused", "a/"), MAX_LINES + 3, begin);
    assert!(limiter.take_ended(begin).is_empty());
    let counts: Vec<u64> = limiter.take_all().iter().map(|left_out| left_out.lines).collect();
    assert_eq!(counts, [2, 3]);
    assert!(limiter.take_all().is_empty());
}

#[test]
fn component_events_above_maximum_share_count() {
    let (mut limiter, begin) = (FloodLimiter::default(), Instant::now());
    use_every_name(&mut limiter, "a/", begin);
    for number in 0..MAX_LINES {
        assert_eq!(limiter.admit(component(&format!("f{number}"), "a/"), begin), ADMITTED);
    }
    assert_eq!(limiter.admit(component("further", "a/"), begin), LineAdmission::LeftOut);
    assert_eq!(limiter.components["a/"].len(), MAX_EVENTS + 1);
    assert_eq!(limiter.admit(component("further", "b/"), begin), ADMITTED);
    // The next line of the shared count is of another event, and does not take the count.
    use_every_name(&mut limiter, "a/", begin + WINDOW);
    assert_eq!(limiter.admit(component("another", "a/"), begin + WINDOW), ADMITTED);
    let (event, mount) = ("other-events".to_owned(), "a/".to_owned());
    assert_eq!(limiter.take_ended(begin + WINDOW), [LeftOut { event, mount, lines: 1 }]);
    assert!(limiter.take_ended(begin + 2 * WINDOW).is_empty());
    assert!(limiter.components.is_empty());
}

#[test]
fn component_events_never_displace_host_events() {
    let (mut limiter, begin) = (FloodLimiter::default(), Instant::now());
    use_every_name(&mut limiter, "a/", begin);
    use_every_name(&mut limiter, "", begin);
    for subject in [component("made-up", "a/"), component("sealed", ""), component("sealed", "a/")]
    {
        flood(&mut limiter, subject, 2 * MAX_LINES, begin);
    }
    for number in 0..2 * MAX_EVENTS {
        let event = format!("event-{number}");
        assert_eq!(limiter.admit(host(&event, "a/"), begin), ADMITTED);
        assert_eq!(limiter.admit(host(&event, ""), begin), ADMITTED);
    }
    assert_eq!(limiter.admit(host("sealed", ""), begin), ADMITTED);
    assert_eq!(limiter.admit(host("sealed", "a/"), begin), ADMITTED);
}

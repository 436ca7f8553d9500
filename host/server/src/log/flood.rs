//! The limit on lines of one event.
//!
//! This file prevents a flood of one event, such as a target that refuses each of a thousand
//! requests a second, from filling the disk of the log and hiding the other lines. A component
//! chooses the names of its events: components therefore have windows of their own, which can
//! neither displace nor join the windows of the host. The number of lines that were left out is
//! never lost.

use std::collections::HashMap;
use std::time::{Duration, Instant};

/// Maximum number of lines of one event about one mount in a window.
const MAX_LINES: u32 = 1_000;

/// Length of the window.
pub(super) const WINDOW: Duration = Duration::from_secs(10);

/// Interval at which the lines that were left out are counted in the log.
pub(super) const LEFT_OUT_PERIOD: Duration = WINDOW;

/// Maximum number of events of components about one mount that have a count of their own. Further
/// events of the mount share a count.
const MAX_EVENTS: usize = 64;

/// The word for the events of components that share a count.
const OTHER_EVENTS: &str = "other-events";

/// The source of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LineSource {
    /// The host, with events of fixed words.
    Host,
    /// A line about a plugin, with an event that a component may have chosen.
    Component,
}

/// The properties by which lines are counted.
#[derive(Clone, Copy, Debug)]
pub(super) struct LineSubject<'a> {
    pub(super) source: LineSource,
    pub(super) event: &'a str,
    /// Empty for an event without a mount.
    pub(super) mount: &'a str,
}

/// The lines of the present windows.
#[derive(Default)]
pub(super) struct FloodLimiter {
    /// Lines of the host, by mount and event.
    host: WindowTable,
    /// Lines of components, by mount and event.
    components: WindowTable,
    /// Counts of shared windows that ended with a line of another event.
    ended: Vec<LeftOut>,
}

type WindowTable = HashMap<String, HashMap<EventKey, EventWindow>>;

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum EventKey {
    Named(String),
    /// The shared count of a mount.
    Others,
}

struct EventWindow {
    begin: Instant,
    lines: u32,
    left_out: u64,
}

/// The decision about a line.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum LineAdmission {
    /// The line is written, and says that so many lines before were left out.
    Admitted {
        left_out: u64,
    },
    LeftOut,
}

/// Lines of an event that were left out.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct LeftOut {
    /// The event, or the word for events that share a count.
    pub(super) event: String,
    /// Empty for an event without a mount.
    pub(super) mount: String,
    pub(super) lines: u64,
}

impl FloodLimiter {
    /// Decides about a line.
    pub(super) fn admit(&mut self, subject: LineSubject<'_>, now: Instant) -> LineAdmission {
        let (table, most) = match subject.source {
            LineSource::Host => (&mut self.host, usize::MAX),
            LineSource::Component => (&mut self.components, MAX_EVENTS),
        };
        let windows = table.entry(subject.mount.to_owned()).or_default();
        let key = key_of(subject.event, windows, most, now);
        let is_shared = key == EventKey::Others;
        let window = windows.entry(key).or_insert_with(|| EventWindow::begin(now));
        let mut left_out = 0;
        if window.has_ended(now) {
            left_out = std::mem::replace(window, EventWindow::begin(now)).left_out;
        }
        if is_shared && left_out > 0 {
            // The line is of another event than the lines that were left out.
            let (event, mount) = (OTHER_EVENTS.to_owned(), subject.mount.to_owned());
            self.ended.push(LeftOut { event, mount, lines: left_out });
            left_out = 0;
        }
        if window.lines >= MAX_LINES {
            window.left_out += 1;
            return LineAdmission::LeftOut;
        }
        window.lines += 1;
        LineAdmission::Admitted { left_out }
    }

    /// Removes the windows that ended, and returns the lines that they left out.
    pub(super) fn take_ended(&mut self, now: Instant) -> Vec<LeftOut> {
        self.take(|window| window.has_ended(now))
    }

    /// Removes all windows, and returns the lines that they left out.
    pub(super) fn take_all(&mut self) -> Vec<LeftOut> {
        self.take(|_| true)
    }

    fn take(&mut self, is_taken: impl Fn(&EventWindow) -> bool) -> Vec<LeftOut> {
        let mut taken = std::mem::take(&mut self.ended);
        for table in [&mut self.host, &mut self.components] {
            for (mount, windows) in table.iter_mut() {
                let ended = windows.extract_if(|_, window| is_taken(window));
                let counted = ended.filter(|(_, window)| window.left_out > 0);
                taken.extend(counted.map(|(key, window)| {
                    let (event, mount) = (key.into_word(), mount.clone());
                    LeftOut { event, mount, lines: window.left_out }
                }));
            }
            table.retain(|_, windows| !windows.is_empty());
        }
        taken
    }
}

/// Returns the key of an event among the `windows` of a mount: the shared key if `most` other
/// events have a window already.
fn key_of(
    event: &str,
    windows: &mut HashMap<EventKey, EventWindow>,
    most: usize,
    now: Instant,
) -> EventKey {
    let key = EventKey::Named(event.to_owned());
    if windows.contains_key(&key) || windows.len() < most {
        return key;
    }
    windows.retain(|_, window| !(window.has_ended(now) && window.left_out == 0));
    if windows.len() < most { key } else { EventKey::Others }
}

impl EventKey {
    fn into_word(self) -> String {
        match self {
            Self::Named(event) => event,
            Self::Others => OTHER_EVENTS.to_owned(),
        }
    }
}

impl EventWindow {
    fn begin(now: Instant) -> Self {
        Self { begin: now, lines: 0, left_out: 0 }
    }

    fn has_ended(&self, now: Instant) -> bool {
        now.saturating_duration_since(self.begin) >= WINDOW
    }
}

#[cfg(test)]
mod tests;

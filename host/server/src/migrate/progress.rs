//! The progress of a migration on standard error: one line that is rewritten on a terminal, and a
//! line every few seconds elsewhere.

use bulkhead_store::MigrationEvent;
use std::io::Write;
use std::mem::{Discriminant, discriminant};
use std::time::{Duration, Instant};

/// Time between two states of the line on a terminal.
const TERMINAL_INTERVAL: Duration = Duration::from_millis(200);
/// Time between two lines elsewhere.
const LINE_INTERVAL: Duration = Duration::from_secs(5);
/// Number of characters to which the line of a terminal is padded, so that a shorter line replaces
/// a longer one.
const LINE_WIDTH: usize = 78;

/// The output for the progress.
pub struct ProgressScreen<'a> {
    out: &'a mut dyn Write,
    is_terminal: bool,
    /// The pass over the records, with its beginning.
    pass: Option<PassBegin>,
    shown: Option<Instant>,
    /// The terminal has a line without its end.
    is_open: bool,
}

/// The beginning of a pass over the records.
#[derive(Clone, Copy)]
struct PassBegin {
    pass: Discriminant<MigrationEvent>,
    at: Instant,
    records: u64,
}

impl<'a> ProgressScreen<'a> {
    /// Returns the output to `out`, usually standard error.
    pub fn new(out: &'a mut dyn Write, is_terminal: bool) -> Self {
        Self { out, is_terminal, pass: None, shown: None, is_open: false }
    }

    /// Shows a step.
    pub(super) fn show(&mut self, event: &MigrationEvent) {
        match event {
            MigrationEvent::Copied { records, total } => {
                self.show_count(event, "copied", (*records, *total));
            }
            MigrationEvent::Compared { records, total } => {
                self.show_count(event, "compared", (*records, *total));
            }
            MigrationEvent::Resumed { records } => {
                self.line(&format!("continuing after {records} records of an earlier run"));
            }
            MigrationEvent::StartedOver => self.line(
                "the records of an earlier run are not the first records of the source; copying \
                 again from the first record",
            ),
            MigrationEvent::Retrying { fault, pause } => {
                self.line(&format!("{fault}; the next attempt is in {} s", pause.as_secs()));
            }
        }
    }

    /// Writes a line. An output that cannot be written does not end a migration.
    pub(super) fn line(&mut self, text: &str) {
        self.end_line();
        writeln!(self.out, "{text}").unwrap_or_default();
    }

    fn show_count(&mut self, event: &MigrationEvent, act: &str, (records, total): (u64, u64)) {
        let now = Instant::now();
        let begin = match self.pass {
            Some(begin) if begin.pass == discriminant(event) && begin.records <= records => begin,
            _ => PassBegin { pass: discriminant(event), at: now, records },
        };
        self.pass = Some(begin);
        let interval = if self.is_terminal { TERMINAL_INTERVAL } else { LINE_INTERVAL };
        let is_due = self.shown.is_none_or(|shown| now.duration_since(shown) >= interval);
        if !is_due && records != total {
            return;
        }
        self.shown = Some(now);
        let text = describe(act, (records, total), speed(begin, now, records));
        if !self.is_terminal {
            return self.line(&text);
        }
        write!(self.out, "\r{text:<LINE_WIDTH$}").unwrap_or_default();
        self.is_open = true;
        if records == total {
            self.end_line();
        }
        self.out.flush().unwrap_or_default();
    }

    fn end_line(&mut self) {
        if self.is_open {
            writeln!(self.out).unwrap_or_default();
            self.is_open = false;
        }
    }
}

/// Returns the records per second since the beginning of the pass; `None` for a time too short.
fn speed(begin: PassBegin, now: Instant, records: u64) -> Option<u64> {
    let milliseconds = u64::try_from(now.duration_since(begin.at).as_millis()).ok()?;
    let passed = records.saturating_sub(begin.records).saturating_mul(1_000);
    passed.checked_div(milliseconds).filter(|speed| *speed > 0)
}

fn describe(act: &str, (records, total): (u64, u64), speed: Option<u64>) -> String {
    let percent = records.saturating_mul(100).checked_div(total).unwrap_or(100);
    let text = format!("{act} {records} of {total} records ({percent} %)");
    match speed {
        Some(speed) => format!("{text}, {speed} records/s"),
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(is_terminal: bool) -> String {
        let mut out = Vec::new();
        let mut screen = ProgressScreen::new(&mut out, is_terminal);
        for event in [
            MigrationEvent::Resumed { records: 10 },
            MigrationEvent::Copied { records: 20, total: 40 },
            MigrationEvent::Copied { records: 30, total: 40 },
            MigrationEvent::Retrying { fault: "lost".to_owned(), pause: Duration::from_secs(1) },
            MigrationEvent::Copied { records: 40, total: 40 },
            MigrationEvent::Compared { records: 40, total: 40 },
        ] {
            screen.show(&event);
        }
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn terminal_line_is_rewritten_and_ended() {
        let text = shown(true);
        assert!(text.starts_with("continuing after 10 records"), "{text}");
        assert!(text.contains("\rcopied 20 of 40 records (50 %)"), "{text}");
        assert!(text.contains("\nlost; the next attempt is in 1 s\n"), "{text}");
        assert!(text.contains("\rcompared 40 of 40 records (100 %)"), "{text}");
        assert!(text.ends_with('\n'), "{text}");
    }

    #[test]
    fn other_outputs_have_whole_lines_without_returns() {
        let text = shown(false);
        assert!(!text.contains('\r'), "{text}");
        assert!(text.contains("\ncopied 40 of 40 records (100 %)"), "{text}");
    }

    #[test]
    fn share_and_speed_survive_extreme_numbers() {
        assert_eq!(describe("copied", (0, 0), None), "copied 0 of 0 records (100 %)");
        let text = describe("copied", (u64::MAX, u64::MAX), Some(7));
        assert!(text.ends_with("records/s"), "{text}");
        let at = Instant::now();
        let pass = discriminant(&MigrationEvent::StartedOver);
        let begin = PassBegin { pass, at, records: 5 };
        assert_eq!(speed(begin, at, 9), None);
        assert_eq!(speed(begin, at + Duration::from_secs(2), 9), Some(2));
    }
}

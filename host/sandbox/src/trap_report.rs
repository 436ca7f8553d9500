//! The words about a trap: causes and backtrace, for the operator's log.
//!
//! A backtrace holds names and offsets, and never memory. The name section of a component chooses
//! the names. This file prevents long names from taking the memory of the host, and names with
//! control characters from forging a log line.

use crate::limits;
use crate::output::plain_text;
use std::fmt::{self, Display, Write};
use wasmtime::WasmBacktrace;

/// Beginning of the text of a backtrace among the causes of a trap.
const BACKTRACE_HEAD: &str = "error while executing at wasm backtrace";

/// Returns the frames of the guest's stack in one line, the innermost frame first; empty for a trap
/// outside of the guest's code. The name of a function is in the component's name section, which a
/// build may strip; the number of the function stands for a stripped name.
pub(crate) fn backtrace(trap: &wasmtime::Error) -> String {
    let Some(backtrace) = trap.downcast_ref::<WasmBacktrace>() else { return String::new() };
    let text = bounded(backtrace, limits::BACKTRACE_BYTES);
    frames(&text)
}

fn frames(text: &str) -> String {
    let frames = text.lines().skip(1).filter_map(|line| line.split_once(": "));
    let frames = frames.map(|(_, frame)| plain_text(&without_module(frame), limits::FRAME_BYTES));
    frames.take(limits::FRAMES).collect::<Vec<String>>().join(" < ")
}

/// Returns offset and function of a frame, without the module, which is the same in most frames.
fn without_module(frame: &str) -> String {
    let (offset, place) = frame.split_once(" - ").unwrap_or(("", frame));
    let function = place.split_once('!').map_or(place, |(_, function)| function);
    [offset, function].map(str::trim).join(" ").trim().to_owned()
}

/// Returns the causes of a trap without the backtrace, in one line.
pub(crate) fn causes(trap: &wasmtime::Error) -> String {
    let causes = trap.chain().map(|cause| bounded(cause, limits::TEXT_BYTES));
    let causes = causes.filter(|text| !text.starts_with(BACKTRACE_HEAD));
    plain_text(&causes.collect::<Vec<String>>().join(": "), limits::TEXT_BYTES)
}

/// Returns at most `limit` bytes of a text that a guest may have made long.
fn bounded(shown: impl Display, limit: usize) -> String {
    let mut text = BoundedText { text: String::new(), limit };
    // An error means that the rest does not fit.
    write!(text, "{shown}").unwrap_or_default();
    text.text
}

struct BoundedText {
    text: String,
    limit: usize,
}

impl Write for BoundedText {
    fn write_str(&mut self, more: &str) -> fmt::Result {
        let room = self.limit.saturating_sub(self.text.len());
        if more.len() <= room {
            self.text.push_str(more);
            return Ok(());
        }
        self.text.push_str(more.get(..more.floor_char_boundary(room)).unwrap_or_default());
        Err(fmt::Error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn backtrace_is_one_line_of_bounded_frames() {
        let text = format!(
            "{BACKTRACE_HEAD}:\n    0:   0x8c6 - kv.wasm!kv::read\n    1:  0x1f00 - kv.wasm!\
             a\u{1b}b\nforged\n    2: {}",
            "x".repeat(limits::FRAME_BYTES * 2)
        );
        let expected =
            format!("0x8c6 kv::read < 0x1f00 a\u{fffd}b < {}", "x".repeat(limits::FRAME_BYTES));
        assert_eq!(frames(&text), expected);
        let many = format!("{BACKTRACE_HEAD}:\n{}", "    0: a\n".repeat(100));
        assert_eq!(frames(&many).matches('a').count(), limits::FRAMES);
    }

    #[test]
    fn causes_leave_backtrace_out_and_are_bounded() {
        let trap = wasmtime::Error::from(wasmtime::Trap::UnreachableCodeReached)
            .context(format!("{BACKTRACE_HEAD}:\n    0: x"))
            .context("reading\nthe answer");
        assert!(causes(&trap).starts_with("reading\u{fffd}the answer: wasm trap: "), "{trap:#}");
        assert_eq!(backtrace(&trap), "");
        let long = wasmtime::Error::msg("ü".repeat(limits::TEXT_BYTES));
        assert_eq!(causes(&long), "ü".repeat(limits::TEXT_BYTES / 2));
    }
}

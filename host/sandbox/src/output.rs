//! The standard output and the standard error of a component: texts for the operator's log.
//!
//! Rust's panic hook writes here, and so do the exceptions of other languages. This file prevents a
//! component that prints without end from filling memory or log: the beginning and the end of a
//! stream are stored, because a panic comes last. It also prevents output from forging log lines,
//! from controlling a terminal, and from showing a secret of the call.

use crate::limits;
use crate::secrets::{PIECE_BYTES, SecretSet};
use bulkhead_wire::sync;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use tokio::io::AsyncWrite;
use wasmtime_wasi::cli::{IsTerminal, StdoutStream};
use wasmtime_wasi_io::bytes::Bytes;
use wasmtime_wasi_io::poll::Pollable;
use wasmtime_wasi_io::streams::{OutputStream, StreamResult};

/// Bytes that a component may write at once.
const WRITE_BYTES: usize = 64 << 10;
/// Bytes beside a gap that are dropped after the scrubbing: a piece of a secret beside the gap is
/// too short to be found.
const GAP_BYTES: usize = PIECE_BYTES;
/// Replacement for a character that could control a terminal or the order of a text.
const REPLACEMENT: char = '\u{fffd}';

/// A stream of a component.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OutputKind {
    Stdout,
    Stderr,
}

impl OutputKind {
    /// Returns the word of log lines.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Stdout => "stdout",
            Self::Stderr => "stderr",
        }
    }
}

/// The output of a call. Clones share the texts.
#[derive(Clone, Default)]
pub(crate) struct CallOutput(Arc<Mutex<[StreamText; 2]>>);

impl CallOutput {
    /// Returns true if the component wrote nothing.
    pub(crate) fn is_empty(&self) -> bool {
        sync::lock(&self.0).iter().all(|stream| stream.head.is_empty())
    }

    /// Returns the sink of a stream.
    pub(crate) fn sink(&self, kind: OutputKind) -> OutputSink {
        OutputSink { output: self.clone(), kind }
    }

    /// Returns the lines of a stream without the secrets of the call.
    pub(crate) fn lines(&self, kind: OutputKind, secrets: &SecretSet) -> OutputLines {
        let [stdout, stderr] = &*sync::lock(&self.0);
        match kind {
            OutputKind::Stdout => stdout.lines(secrets),
            OutputKind::Stderr => stderr.lines(secrets),
        }
    }

    fn write(&self, kind: OutputKind, bytes: &[u8]) {
        let [stdout, stderr] = &mut *sync::lock(&self.0);
        match kind {
            OutputKind::Stdout => stdout.append(bytes),
            OutputKind::Stderr => stderr.append(bytes),
        }
    }
}

/// The beginning and the end of a stream.
#[derive(Default)]
struct StreamText {
    head: Vec<u8>,
    tail: VecDeque<u8>,
    /// Bytes between head and tail that were dropped.
    dropped: u64,
}

/// Lines of a stream for the log.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct OutputLines {
    pub(crate) lines: Vec<String>,
    /// Number of bytes that are in no line, because the component wrote too many.
    pub(crate) dropped_bytes: u64,
    /// Number of lines left out in the middle.
    pub(crate) dropped_lines: usize,
}

impl StreamText {
    fn append(&mut self, bytes: &[u8]) {
        let room = limits::OUTPUT_BYTES.saturating_sub(self.head.len());
        let (head, rest) = bytes.split_at_checked(room).unwrap_or((bytes, &[]));
        self.head.extend_from_slice(head);
        let skipped = rest.len().saturating_sub(limits::OUTPUT_BYTES);
        self.tail.extend(rest.get(skipped..).unwrap_or_default());
        let excess = self.tail.len().saturating_sub(limits::OUTPUT_BYTES);
        self.tail.drain(..excess);
        let dropped = skipped.saturating_add(excess);
        self.dropped = self.dropped.saturating_add(u64::try_from(dropped).unwrap_or(u64::MAX));
    }

    fn lines(&self, secrets: &SecretSet) -> OutputLines {
        let (one, other) = self.tail.as_slices();
        let tail = [one, other].concat();
        // A replaced byte takes three bytes.
        let scrub = |bytes: &[u8]| {
            secrets.scrub(&String::from_utf8_lossy(bytes), bytes.len().saturating_mul(3))
        };
        let parts = match self.dropped {
            0 => vec![scrub(&[self.head.as_slice(), &tail].concat())],
            _ => vec![without_end(scrub(&self.head)), without_beginning(&scrub(&tail))],
        };
        let lines: Vec<String> =
            parts.iter().flat_map(|part| part.lines()).filter_map(fit).collect();
        let (lines, dropped_lines) = leave_middle_out(lines);
        OutputLines { lines, dropped_bytes: self.dropped, dropped_lines }
    }
}

fn without_end(mut text: String) -> String {
    text.truncate(text.floor_char_boundary(text.len().saturating_sub(GAP_BYTES)));
    text
}

fn without_beginning(text: &str) -> String {
    text.get(text.ceil_char_boundary(GAP_BYTES.min(text.len()))..).unwrap_or_default().to_owned()
}

/// Returns a line for the log; `None` for an empty line.
fn fit(line: &str) -> Option<String> {
    let line = plain_text(line.trim_end(), limits::OUTPUT_LINE_BYTES);
    (!line.trim().is_empty()).then_some(line)
}

/// Returns the first and the last lines, and the number of lines in between.
fn leave_middle_out(mut lines: Vec<String>) -> (Vec<String>, usize) {
    let half = limits::OUTPUT_LINES / 2;
    let dropped = lines.len().saturating_sub(half.saturating_mul(2));
    if dropped > 0 {
        lines.drain(half..half.saturating_add(dropped));
    }
    (lines, dropped)
}

/// Returns `text` in a single line, cut at `limit` bytes, with a replacement for each character
/// that could control a terminal or the order of the text.
pub(crate) fn plain_text(text: &str, limit: usize) -> String {
    let replace = |c: char| match c {
        '\t' => ' ',
        // Invisible characters, and marks for the direction of a text.
        '\u{ad}'
        | '\u{61c}'
        | '\u{180e}'
        | '\u{200b}'..='\u{200f}'
        | '\u{2028}'..='\u{202e}'
        | '\u{2060}'..='\u{206f}'
        | '\u{feff}'
        | '\u{e0000}'..='\u{e007f}' => REPLACEMENT,
        c if c.is_control() => REPLACEMENT,
        c => c,
    };
    let mut plain: String = text.chars().take(limit).map(replace).collect();
    plain.truncate(plain.floor_char_boundary(limit));
    plain
}

/// The component's end of a stream. Writes always succeed.
pub(crate) struct OutputSink {
    output: CallOutput,
    kind: OutputKind,
}

impl IsTerminal for OutputSink {
    fn is_terminal(&self) -> bool {
        false
    }
}

impl StdoutStream for OutputSink {
    /// Returns a stream that drops everything: the linker has no interface of WASI 0.3.
    fn async_stream(&self) -> Box<dyn AsyncWrite + Send + Sync> {
        Box::new(tokio::io::sink())
    }

    fn p2_stream(&self) -> Box<dyn OutputStream> {
        Box::new(self.output.sink(self.kind))
    }
}

#[wasmtime_wasi_io::async_trait]
impl Pollable for OutputSink {
    async fn ready(&mut self) {}
}

impl OutputStream for OutputSink {
    fn write(&mut self, bytes: Bytes) -> StreamResult<()> {
        self.output.write(self.kind, &bytes);
        Ok(())
    }

    fn flush(&mut self) -> StreamResult<()> {
        Ok(())
    }

    fn check_write(&mut self) -> StreamResult<usize> {
        Ok(WRITE_BYTES)
    }
}

#[cfg(test)]
mod tests;

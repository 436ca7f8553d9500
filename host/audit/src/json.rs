//! JSON, written directly into the bytes of a line without intermediate values.

use serde::Serialize;
use std::io;

/// Writes a value as JSON. Cannot fail: all keys are texts, and a vector takes every byte.
pub(super) fn value(value: &(impl Serialize + ?Sized), out: &mut Vec<u8>) {
    let before = out.len();
    if serde_json::to_writer(&mut *out, value).is_err() {
        // Part of a value would corrupt the line.
        out.truncate(before);
        out.extend_from_slice(b"null");
    }
}

/// Writes a value as JSON of at most `most` bytes. If the JSON is longer, returns `false` and
/// writes nothing.
pub(super) fn value_within(
    value: &(impl Serialize + ?Sized),
    most: usize,
    out: &mut Vec<u8>,
) -> bool {
    let before = out.len();
    let fits = serde_json::to_writer(LimitedWriter { out: &mut *out, left: most }, value).is_ok();
    if !fits {
        out.truncate(before);
    }
    fits
}

/// A writer that fails when more than `left` bytes are written.
struct LimitedWriter<'a> {
    out: &'a mut Vec<u8>,
    left: usize,
}

impl io::Write for LimitedWriter<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let left = self.left.checked_sub(bytes.len());
        self.left = left.ok_or(io::ErrorKind::WriteZero)?;
        self.out.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// An object, written member after member.
pub(super) struct JsonObject<'a> {
    out: &'a mut Vec<u8>,
    is_empty: bool,
}

/// A position between two members of an object.
pub(super) struct ObjectPosition {
    written: usize,
    is_empty: bool,
}

impl<'a> JsonObject<'a> {
    /// Opens the object.
    pub(super) fn begin(out: &'a mut Vec<u8>) -> Self {
        out.push(b'{');
        Self { out, is_empty: true }
    }

    /// Writes a key that a caller or a component chose. The caller then writes the value to the
    /// returned buffer.
    pub(super) fn key(&mut self, name: &str) -> &mut Vec<u8> {
        self.write_separator();
        value(name, self.out);
        self.out.push(b':');
        self.out
    }

    /// Writes a key of the program, which needs no escapes. The caller then writes the value to the
    /// returned buffer.
    pub(super) fn own_key(&mut self, name: &'static str) -> &mut Vec<u8> {
        self.write_separator();
        self.out.push(b'"');
        self.out.extend_from_slice(name.as_bytes());
        self.out.extend_from_slice(b"\":");
        self.out
    }

    fn write_separator(&mut self) {
        if !self.is_empty {
            self.out.push(b',');
        }
        self.is_empty = false;
    }

    /// Writes a member.
    pub(super) fn member(&mut self, name: &'static str, what: &(impl Serialize + ?Sized)) {
        value(what, self.own_key(name));
    }

    /// Writes a member, unless the text is empty.
    pub(super) fn text(&mut self, name: &'static str, text: &str) {
        if !text.is_empty() {
            self.member(name, text);
        }
    }

    /// Writes a member whose value is already JSON.
    pub(super) fn json(&mut self, name: &'static str, json: &[u8]) {
        self.own_key(name).extend_from_slice(json);
    }

    /// Returns the position of the next member, for [`JsonObject::cut`].
    pub(super) fn next_position(&self) -> ObjectPosition {
        ObjectPosition { written: self.out.len(), is_empty: self.is_empty }
    }

    /// Removes the members written after the mark.
    pub(super) fn remove_after(&mut self, mark: ObjectPosition) {
        self.out.truncate(mark.written);
        self.is_empty = mark.is_empty;
    }

    /// Returns the length of the buffer in bytes, before the comma of the next member.
    pub(super) fn written(&self) -> usize {
        self.out.len()
    }

    /// Appends members that another object wrote.
    pub(super) fn members(&mut self, written: &[u8]) {
        if written.is_empty() {
            return;
        }
        self.write_separator();
        self.out.extend_from_slice(written);
    }

    /// Closes the object.
    pub(super) fn end(self) {
        self.out.push(b'}');
    }
}

//! JSON, written straight into the bytes of a line: no value is built that would be thrown away.

use serde::Serialize;
use std::io;

/// A value as JSON. What is written here cannot fail: its keys are texts, and memory takes every
/// byte.
pub(super) fn value(value: &(impl Serialize + ?Sized), out: &mut Vec<u8>) {
    let before = out.len();
    if serde_json::to_writer(&mut *out, value).is_err() {
        // Half a value would spoil the line.
        out.truncate(before);
        out.extend_from_slice(b"null");
    }
}

/// A value as JSON of at most `most` bytes. `false`, and nothing written, where it is longer.
pub(super) fn value_within(
    value: &(impl Serialize + ?Sized),
    most: usize,
    out: &mut Vec<u8>,
) -> bool {
    let before = out.len();
    let fits = serde_json::to_writer(Limited { out: &mut *out, left: most }, value).is_ok();
    if !fits {
        out.truncate(before);
    }
    fits
}

/// Takes so many bytes, and fails at the next one.
struct Limited<'a> {
    out: &'a mut Vec<u8>,
    left: usize,
}

impl io::Write for Limited<'_> {
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

/// An object, member after member.
pub(super) struct Object<'a> {
    out: &'a mut Vec<u8>,
    is_empty: bool,
}

/// A place between two members of an object.
pub(super) struct Mark {
    written: usize,
    is_empty: bool,
}

impl<'a> Object<'a> {
    /// Opens it.
    pub(super) fn begin(out: &'a mut Vec<u8>) -> Self {
        out.push(b'{');
        Self { out, is_empty: true }
    }

    /// Writes a key that a caller or a component chose; its value is to follow in what is returned.
    pub(super) fn key(&mut self, name: &str) -> &mut Vec<u8> {
        self.separate();
        value(name, self.out);
        self.out.push(b':');
        self.out
    }

    /// Writes a key of ours, which needs no escapes; its value is to follow in what is returned.
    pub(super) fn own_key(&mut self, name: &'static str) -> &mut Vec<u8> {
        self.separate();
        self.out.push(b'"');
        self.out.extend_from_slice(name.as_bytes());
        self.out.extend_from_slice(b"\":");
        self.out
    }

    fn separate(&mut self) {
        if !self.is_empty {
            self.out.push(b',');
        }
        self.is_empty = false;
    }

    /// Writes a member.
    pub(super) fn member(&mut self, name: &'static str, what: &(impl Serialize + ?Sized)) {
        value(what, self.own_key(name));
    }

    /// Writes a member that is left out where there is nothing to say.
    pub(super) fn text(&mut self, name: &'static str, text: &str) {
        if !text.is_empty() {
            self.member(name, text);
        }
    }

    /// Writes a member whose value is JSON already.
    pub(super) fn json(&mut self, name: &'static str, json: &[u8]) {
        self.own_key(name).extend_from_slice(json);
    }

    /// Where the next member begins, for [`Object::cut`].
    pub(super) fn mark(&self) -> Mark {
        Mark { written: self.out.len(), is_empty: self.is_empty }
    }

    /// Takes back the members that were written after the mark.
    pub(super) fn cut(&mut self, mark: Mark) {
        self.out.truncate(mark.written);
        self.is_empty = mark.is_empty;
    }

    /// How many bytes there are so far, before the comma of the next member.
    pub(super) fn written(&self) -> usize {
        self.out.len()
    }

    /// Appends members that were written before, by another object.
    pub(super) fn members(&mut self, written: &[u8]) {
        if written.is_empty() {
            return;
        }
        self.separate();
        self.out.extend_from_slice(written);
    }

    /// Closes it.
    pub(super) fn end(self) {
        self.out.push(b'}');
    }
}

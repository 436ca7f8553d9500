//! Reading position in an HCL1 text, with line and column.

use super::SyntaxError;

/// Line and column of a character, both counted from 1.
#[derive(Clone, Copy)]
pub(super) struct TextPosition {
    pub(super) line: usize,
    column: usize,
}

impl TextPosition {
    /// Returns an error at this place.
    pub(super) fn error(self, message: impl Into<String>) -> SyntaxError {
        SyntaxError { line: self.line, column: self.column, message: message.into() }
    }
}

/// Forward-only reader of characters and words.
pub(super) struct HclCursor<'a> {
    rest: &'a str,
    place: TextPosition,
}

impl<'a> HclCursor<'a> {
    /// Returns a cursor before the first character of `text`.
    pub(super) fn new(text: &'a str) -> Self {
        Self { rest: text, place: TextPosition { line: 1, column: 1 } }
    }

    /// Returns the place of the next character.
    pub(super) fn place(&self) -> TextPosition {
        self.place
    }

    /// Returns the next character without consuming the character.
    pub(super) fn peek(&self) -> Option<char> {
        self.rest.chars().next()
    }

    /// Consumes the next character.
    pub(super) fn bump(&mut self) -> Option<char> {
        let mut rest = self.rest.chars();
        let next = rest.next()?;
        self.rest = rest.as_str();
        if next == '\n' {
            self.next_line();
        } else {
            self.place.column += 1;
        }
        Some(next)
    }

    /// Consumes `mark` if it comes next. `mark` must not contain a newline.
    pub(super) fn take(&mut self, mark: &str) -> bool {
        let Some(rest) = self.rest.strip_prefix(mark) else {
            return false;
        };
        self.rest = rest;
        self.place.column += mark.chars().count();
        true
    }

    /// Consumes all characters accepted by `belongs`, which must not accept a newline.
    pub(super) fn word(&mut self, belongs: impl Fn(char) -> bool) -> &'a str {
        let end = self.rest.find(|c| !belongs(c)).unwrap_or(self.rest.len());
        let (word, rest) = self.rest.split_at(end);
        self.rest = rest;
        self.place.column += word.chars().count();
        word
    }

    /// Consumes the rest of the line with its newline, and returns the line without the newline;
    /// `None` at the end of the text.
    pub(super) fn rest_of_line(&mut self) -> Option<&'a str> {
        if self.rest.is_empty() {
            return None;
        }
        let (line, rest) = self.rest.split_once('\n').unwrap_or((self.rest, ""));
        self.rest = rest;
        self.next_line();
        Some(line)
    }

    fn next_line(&mut self) {
        self.place = TextPosition { line: self.place.line + 1, column: 1 };
    }

    /// Consumes white space and comments.
    ///
    /// # Errors
    /// An unclosed `/* comment`.
    pub(super) fn skip_blank(&mut self) -> Result<(), SyntaxError> {
        loop {
            match self.peek() {
                Some(c) if c.is_whitespace() => {
                    self.bump();
                }
                Some('#') => {
                    self.rest_of_line();
                }
                Some('/') if self.rest.starts_with("//") => {
                    self.rest_of_line();
                }
                Some('/') if self.rest.starts_with("/*") => self.skip_long_comment()?,
                _ => return Ok(()),
            }
        }
    }

    fn skip_long_comment(&mut self) -> Result<(), SyntaxError> {
        let opened = self.place();
        self.take("/*");
        while !self.take("*/") {
            if self.bump().is_none() {
                return Err(
                    opened.error("the comment opened here with `/*` is not closed; add `*/`")
                );
            }
        }
        Ok(())
    }

    /// Returns an error at the next character.
    pub(super) fn error(&self, message: impl Into<String>) -> SyntaxError {
        self.place.error(message)
    }
}

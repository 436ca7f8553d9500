//! MySQL and MariaDB lexer: finds quotes and comments, for sessions with neither `ANSI_QUOTES` nor
//! `NO_BACKSLASH_ESCAPES`, as the host ensures.
//!
//! One pass without recursion. Every character is kept: the segments joined give the text.

use super::fault::{LexFault, LocatedFault};
use super::lexer::{QuoteContext, Segment, word_length};

/// Returns the segments of `text`, in order.
pub(super) fn segments(text: &str) -> Result<Vec<Segment<'_>>, LocatedFault> {
    if let Some(at) = text.find('\0') {
        return Err(LocatedFault { at, fault: LexFault::Nul });
    }
    let mut lexer = MysqlLexer { text, at: 0, plain_from: 0, segments: Vec::new() };
    while let Some(next) = lexer.rest().chars().next() {
        lexer.token(next)?;
    }
    lexer.end_plain();
    Ok(lexer.segments)
}

struct MysqlLexer<'a> {
    text: &'a str,
    at: usize,
    /// Start of the plain run that is not yet a segment.
    plain_from: usize,
    segments: Vec<Segment<'a>>,
}

impl<'a> MysqlLexer<'a> {
    fn token(&mut self, next: char) -> Result<(), LocatedFault> {
        match next {
            '\'' => self.quoted('\'', QuoteContext::Escaped, LexFault::UnclosedString),
            '"' => self.quoted('"', QuoteContext::DoubleQuoted, LexFault::UnclosedDoubleQuote),
            '`' => self.quoted('`', QuoteContext::Backquoted, LexFault::UnclosedBackquote),
            '\\' => Err(LocatedFault { at: self.at, fault: LexFault::ClientCommand }),
            '#' => self.line_comment(),
            '-' if self.begins_line_comment() => self.line_comment(),
            '/' if self.rest().starts_with("/*") => self.block_comment(),
            _ => self.plain(next),
        }
    }

    fn rest(&self) -> &'a str {
        self.text.get(self.at..).unwrap_or_default()
    }

    /// Lexes a word. A quote after `N`, `X` or `B` begins a literal with escapes that this module
    /// does not write.
    fn plain(&mut self, next: char) -> Result<(), LocatedFault> {
        let length = word_length(self.rest());
        let (word, after) = self.rest().split_at_checked(length).unwrap_or_default();
        let is_prefix = ["n", "x", "b"].iter().any(|prefix| word.eq_ignore_ascii_case(prefix));
        self.at += length.max(next.len_utf8());
        if is_prefix && after.starts_with('\'') {
            return self.quoted('\'', QuoteContext::Prefixed, LexFault::UnclosedString);
        }
        Ok(())
    }

    /// Returns true if `--` begins a comment here: only before white space, a control character or
    /// the end. `1--1` is two.
    fn begins_line_comment(&self) -> bool {
        let after = self.rest().strip_prefix("--");
        after.is_some_and(|after| {
            after.chars().next().is_none_or(|next| next.is_ascii_whitespace() || next.is_control())
        })
    }

    fn quoted(
        &mut self,
        quote: char,
        context: QuoteContext,
        unclosed: LexFault,
    ) -> Result<(), LocatedFault> {
        let mut characters = self.rest().char_indices().skip(1).peekable();
        while let Some((offset, character)) = characters.next() {
            if character == '\\' && context != QuoteContext::Backquoted {
                characters.next();
            } else if character == quote && characters.next_if(|(_, next)| *next == quote).is_none()
            {
                self.push(context, offset + quote.len_utf8());
                return Ok(());
            }
        }
        Err(LocatedFault { at: self.at, fault: unclosed })
    }

    fn line_comment(&mut self) -> Result<(), LocatedFault> {
        let length = self.rest().find('\n').unwrap_or(self.rest().len());
        self.push(QuoteContext::Comment, length);
        Ok(())
    }

    /// Lexes a block comment; comments do not nest. The server reads `/*! … */`, `/*M! … */` and
    /// `/*+ … */`, so these are kept, and take only plain words as values.
    fn block_comment(&mut self) -> Result<(), LocatedFault> {
        let inside = self.rest().get(2..).unwrap_or_default();
        let Some(length) = inside.find("*/") else {
            return Err(LocatedFault { at: self.at, fault: LexFault::UnclosedComment });
        };
        let is_read = ["!", "M!", "+"].iter().any(|mark| inside.starts_with(mark));
        self.push(if is_read { QuoteContext::Prefixed } else { QuoteContext::Comment }, length + 4);
        Ok(())
    }

    fn end_plain(&mut self) {
        if let Some(text) = self.text.get(self.plain_from..self.at).filter(|text| !text.is_empty())
        {
            self.segments.push(Segment { context: QuoteContext::Plain, text, at: self.plain_from });
        }
    }

    fn push(&mut self, context: QuoteContext, length: usize) {
        self.end_plain();
        let text = self.rest().get(..length).unwrap_or_default();
        self.segments.push(Segment { context, text, at: self.at });
        self.at += length;
        self.plain_from = self.at;
    }
}

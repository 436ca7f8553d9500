//! PostgreSQL lexer: finds quotes, dollar quotes and comments.
//!
//! One pass without recursion. Every character is kept: the segments joined give the text.

use super::fault::{LexFault, LocatedFault};

/// Context of a segment, which decides how a value in the segment is escaped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum QuoteContext {
    /// Outside quotes.
    Plain,
    /// `"…"`, an identifier.
    Identifier,
    /// `'…'`, with backslash as an ordinary character.
    Text,
    /// The quoted part of `E'…'`, and every `'…'` of MySQL, with backslash as escape.
    Escaped,
    /// `"…"` of MySQL, a string with backslash as escape.
    DoubleQuoted,
    /// An identifier of MySQL in back quotes.
    Backquoted,
    /// The quoted part of `U&'…'`, `U&"…"`, `B'…'`, `X'…'` or `N'…'`, and the comments that MySQL
    /// reads (`/*! … */`, `/*+ … */`). This module does not write their escapes.
    Prefixed,
    /// `$tag$…$tag$`, a dollar quote.
    Body,
    /// `-- …` or `/* … */`.
    Comment,
}

/// A run of text in one context, including its delimiters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Segment<'a> {
    pub(super) context: QuoteContext,
    pub(super) text: &'a str,
    /// Byte offset in the lexed text.
    pub(super) at: usize,
}

/// Returns the segments of `text`, in order.
pub(super) fn postgres(text: &str) -> Result<Vec<Segment<'_>>, LocatedFault> {
    if let Some(at) = text.find('\0') {
        return Err(LocatedFault { at, fault: LexFault::Nul });
    }
    PostgresLexer { text, at: 0, plain_from: 0, next_quote: None, segments: Vec::new() }.run()
}

/// Returns true if `character` can begin a word. PostgreSQL counts every byte above ASCII as a
/// letter.
pub(super) fn begins_word(character: char) -> bool {
    character.is_ascii_alphabetic() || character == '_' || !character.is_ascii()
}

/// Returns true if `character` can continue a word.
pub(super) fn continues_word(character: char) -> bool {
    begins_word(character) || character.is_ascii_digit() || character == '$'
}

/// Returns the length of the word at the start of `text`, in bytes; 0 if there is none.
pub(super) fn word_length(text: &str) -> usize {
    if !text.starts_with(begins_word) {
        return 0;
    }
    text.find(|character| !continues_word(character)).unwrap_or(text.len())
}

struct PostgresLexer<'a> {
    text: &'a str,
    at: usize,
    /// Start of the plain run that is not yet a segment.
    plain_from: usize,
    /// Context of the next quote, if a prefix or a literal continued on a new line decides the
    /// context.
    next_quote: Option<QuoteContext>,
    segments: Vec<Segment<'a>>,
}

impl<'a> PostgresLexer<'a> {
    fn run(mut self) -> Result<Vec<Segment<'a>>, LocatedFault> {
        while let Some(next) = self.rest().chars().next() {
            match next {
                '\'' => self.literal()?,
                '"' => {
                    let context = self.next_quote.take().unwrap_or(QuoteContext::Identifier);
                    self.quoted('"', context, LexFault::UnclosedIdentifier)?;
                }
                '$' => self.dollar()?,
                '-' if self.rest().starts_with("--") => self.line_comment(),
                '/' if self.rest().starts_with("/*") => self.block_comment()?,
                '\\' => return Err(LocatedFault { at: self.at, fault: LexFault::ClientCommand }),
                other if begins_word(other) => self.word(),
                other => self.other(other),
            }
        }
        self.end_plain();
        Ok(self.segments)
    }

    fn rest(&self) -> &'a str {
        self.text.get(self.at..).unwrap_or_default()
    }

    fn other(&mut self, character: char) {
        if !character.is_ascii_whitespace() {
            self.next_quote = None;
        }
        self.at += character.len_utf8();
    }

    fn word(&mut self) {
        let length = word_length(self.rest());
        let (word, after) = self.rest().split_at_checked(length).unwrap_or_default();
        self.at += length;
        let quote_follows = after.starts_with('\'');
        self.next_quote = match word {
            "E" | "e" if quote_follows => Some(QuoteContext::Escaped),
            "B" | "b" | "X" | "x" | "N" | "n" if quote_follows => Some(QuoteContext::Prefixed),
            "U" | "u" if after.starts_with("&'") || after.starts_with("&\"") => {
                self.at += 1;
                Some(QuoteContext::Prefixed)
            }
            _ => None,
        };
    }

    fn literal(&mut self) -> Result<(), LocatedFault> {
        let context = self.next_quote.take().unwrap_or(QuoteContext::Text);
        self.quoted('\'', context, LexFault::UnclosedString)?;
        // A literal continued after a line break keeps its kind: E'a' ⏎ 'b\'' is one E string.
        self.next_quote = (context != QuoteContext::Text).then_some(context);
        Ok(())
    }

    fn quoted(
        &mut self,
        quote: char,
        context: QuoteContext,
        unclosed: LexFault,
    ) -> Result<(), LocatedFault> {
        let mut characters = self.rest().char_indices().skip(1).peekable();
        while let Some((offset, character)) = characters.next() {
            if character == '\\' && context == QuoteContext::Escaped {
                characters.next();
            } else if character == quote && characters.next_if(|(_, next)| *next == quote).is_none()
            {
                self.push(context, offset + quote.len_utf8());
                return Ok(());
            }
        }
        Err(LocatedFault { at: self.at, fault: unclosed })
    }

    fn dollar(&mut self) -> Result<(), LocatedFault> {
        self.next_quote = None;
        let Some(delimiter) = dollar_delimiter(self.rest()) else {
            self.at += 1;
            return Ok(());
        };
        let opened = self.rest().get(delimiter.len()..).unwrap_or_default();
        let Some(inside) = opened.find(delimiter) else {
            return Err(LocatedFault { at: self.at, fault: LexFault::UnclosedDollarQuote });
        };
        self.push(QuoteContext::Body, inside + 2 * delimiter.len());
        Ok(())
    }

    fn line_comment(&mut self) {
        let length = self.rest().find(['\n', '\r']).unwrap_or(self.rest().len());
        self.push(QuoteContext::Comment, length);
    }

    fn block_comment(&mut self) -> Result<(), LocatedFault> {
        let mut depth = 0_usize;
        let mut length = 0;
        while let Some(rest) = self.rest().get(length..).filter(|rest| !rest.is_empty()) {
            if rest.starts_with("/*") {
                depth += 1;
                length += 2;
            } else if rest.starts_with("*/") {
                depth -= 1;
                length += 2;
            } else {
                length += rest.chars().next().map_or(1, char::len_utf8);
            }
            if depth == 0 {
                self.push(QuoteContext::Comment, length);
                return Ok(());
            }
        }
        Err(LocatedFault { at: self.at, fault: LexFault::UnclosedComment })
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

/// Returns the delimiter `$$` or `$tag$` at the start of `text`. A tag is a word without `$`.
pub(super) fn dollar_delimiter(text: &str) -> Option<&str> {
    let inside = text.strip_prefix('$')?;
    let tag = inside.find('$').and_then(|end| inside.get(..end))?;
    let fits = tag.is_empty() || tag.starts_with(begins_word) && tag.chars().all(continues_word);
    if fits { text.get(..tag.len() + 2) } else { None }
}

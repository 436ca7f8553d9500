//! Splits texts into single statements.
//!
//! The reference implementation splits at every `;`, except in a text with the word `END`. Here a
//! `;` splits only if the server would end the statement there: not in quotes, comments,
//! parentheses, or a routine's `BEGIN … END`.

use super::fault::{LexFault, LocatedFault};
use super::lexer::{self, QuoteContext, Segment};
use super::{SqlDialect, mysql};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

/// First words that would begin or end the transaction around all statements.
const TRANSACTION_WORDS: [&str; 8] =
    ["begin", "start", "commit", "end", "rollback", "abort", "savepoint", "release"];

/// Number of leading words that decide the kind of a statement: `create or replace function`.
const LEADING_WORDS: usize = 4;

/// A statement that is not empty, without comments between its tokens.
#[derive(Debug)]
pub(super) struct LexedStatement<'a> {
    /// Position of the statement's text in the list, from 0.
    pub(super) index: u32,
    pub(super) segments: Vec<Segment<'a>>,
}

/// Returns the texts of a list element: the strings of a JSON array, optionally in base64, or else
/// the element itself (decoded if it is valid base64 of UTF-8).
pub(super) fn texts(element: &str) -> Vec<String> {
    let element = element.trim();
    let packed: String =
        element.chars().filter(|character| !matches!(character, '\r' | '\n')).collect();
    let decoded = STANDARD.decode(packed).ok().and_then(|bytes| String::from_utf8(bytes).ok());
    let text = decoded.unwrap_or_else(|| element.to_owned());
    serde_json::from_str(&text).unwrap_or_else(|_| vec![text])
}

/// Returns the statements of one text.
pub(super) fn statements(
    dialect: SqlDialect,
    text: &str,
    index: u32,
) -> Result<Vec<LexedStatement<'_>>, LocatedFault> {
    let segments = match dialect {
        SqlDialect::Postgres => lexer::postgres(text)?,
        SqlDialect::Mysql => mysql::segments(text)?,
    };
    let mut splitter = StatementSplitter { index, ..StatementSplitter::default() };
    for segment in segments {
        match segment.context {
            QuoteContext::Plain => splitter.plain(&segment)?,
            // A block comment separates tokens and becomes a space; a line comment is followed by a
            // line end, which separates the tokens too.
            QuoteContext::Comment => {
                splitter.part(if segment.text.starts_with("/*") { " " } else { "" }, segment.at)
            }
            _ => splitter.current.push(segment),
        }
    }
    splitter.finish()?;
    Ok(splitter.done)
}

#[derive(Default)]
struct StatementSplitter<'a> {
    index: u32,
    done: Vec<LexedStatement<'a>>,
    current: Vec<Segment<'a>>,
    /// First words of the current statement in lower case, with their offsets.
    words: Vec<(String, usize)>,
    /// Offsets of open `(`.
    parentheses: Vec<usize>,
    /// Offsets of open `BEGIN` and `CASE` in a routine's body.
    blocks: Vec<usize>,
}

impl<'a> StatementSplitter<'a> {
    fn plain(&mut self, segment: &Segment<'a>) -> Result<(), LocatedFault> {
        let mut rest = segment.text;
        let mut from = segment.text;
        while let Some(character) = rest.chars().next() {
            let length = lexer::word_length(rest).max(character.len_utf8());
            let (token, after) = rest.split_at_checked(length).unwrap_or((rest, ""));
            let at = segment.at + segment.text.len() - rest.len();
            match character {
                '(' => self.parentheses.push(at),
                ')' if self.parentheses.pop().is_none() => {
                    return Err(LocatedFault { at, fault: LexFault::UnbalancedParenthesis });
                }
                ';' if self.parentheses.is_empty() && self.blocks.is_empty() => {
                    self.part(before(from, rest), segment.at + segment.text.len() - from.len());
                    self.finish()?;
                    from = after;
                }
                first if lexer::begins_word(first) => self.word(token, at),
                _ => {}
            }
            rest = after;
        }
        self.part(from, segment.at + segment.text.len() - from.len());
        Ok(())
    }

    fn part(&mut self, text: &'a str, at: usize) {
        if !text.is_empty() {
            self.current.push(Segment { context: QuoteContext::Plain, text, at });
        }
    }

    fn word(&mut self, word: &str, at: usize) {
        let word = word.to_ascii_lowercase();
        if self.parentheses.is_empty() && self.is_routine() {
            match word.as_str() {
                "begin" => self.blocks.push(at),
                "case" if !self.blocks.is_empty() => self.blocks.push(at),
                "end" => {
                    self.blocks.pop();
                }
                _ => {}
            }
        }
        if self.words.len() < LEADING_WORDS {
            self.words.push((word, at));
        }
    }

    fn is_routine(&self) -> bool {
        let mut words = self
            .words
            .iter()
            .map(|(word, _)| word.as_str())
            .filter(|word| !matches!(*word, "or" | "replace"));
        words.next() == Some("create") && matches!(words.next(), Some("function" | "procedure"))
    }

    fn finish(&mut self) -> Result<(), LocatedFault> {
        if let Some(at) = self.parentheses.pop() {
            return Err(LocatedFault { at, fault: LexFault::UnbalancedParenthesis });
        }
        if let Some(at) = self.blocks.pop() {
            return Err(LocatedFault { at, fault: LexFault::UnclosedRoutineBody });
        }
        let words = std::mem::take(&mut self.words);
        if let Some(at) = transaction_control(&words) {
            return Err(LocatedFault { at, fault: LexFault::TransactionControl });
        }
        let segments = trim(std::mem::take(&mut self.current));
        if !segments.is_empty() {
            self.done.push(LexedStatement { index: self.index, segments });
        }
        Ok(())
    }
}

/// Returns the part of `text` before its tail `rest`.
fn before<'a>(text: &'a str, rest: &str) -> &'a str {
    text.get(..text.len() - rest.len()).unwrap_or_default()
}

fn transaction_control(words: &[(String, usize)]) -> Option<usize> {
    let mut leading = words.iter();
    let (first, at) = leading.next()?;
    let second = leading.next().map(|(word, _)| word.as_str());
    let ends = TRANSACTION_WORDS.contains(&first.as_str())
        || first == "prepare" && second == Some("transaction");
    ends.then_some(*at)
}

/// Removes white space at both ends.
fn trim(mut segments: Vec<Segment<'_>>) -> Vec<Segment<'_>> {
    let is_space = |segment: &Segment<'_>| {
        segment.context == QuoteContext::Plain && segment.text.trim().is_empty()
    };
    let lead = segments.iter().take_while(|segment| is_space(segment)).count();
    segments.drain(..lead);
    while segments.pop_if(|segment| is_space(segment)).is_some() {}
    if let Some(first) =
        segments.first_mut().filter(|segment| segment.context == QuoteContext::Plain)
    {
        let rest = first.text.trim_start();
        first.at += first.text.len() - rest.len();
        first.text = rest;
    }
    if let Some(last) = segments.last_mut().filter(|segment| segment.context == QuoteContext::Plain)
    {
        last.text = last.text.trim_end();
    }
    segments
}

//! Replaces placeholders by values, in one pass from left to right: a value that looks like a
//! placeholder is not replaced again.
//!
//! The quotes around a placeholder decide the escaping of its value. Text that another parser will
//! read as code again (a `DO` body, a string that contains quotes) takes only values that cannot
//! end a quote in that code.

use super::fault::{LexFault, LocatedFault};
use super::lexer::{self, QuoteContext, Segment};
use super::placeholder::{AvailableKinds, PLACEHOLDERS, Placeholder, PlaceholderKind};
use super::split::{self, LexedStatement};
use super::{PlaceholderValues, SqlDialect};
use crate::database_plugin::{Statement, StoreTime};
use time::macros::format_description;
use time::{Duration, OffsetDateTime};

/// Maximum length of an unknown placeholder's name, in bytes. A longer name does not count as a
/// placeholder.
const LONGEST_NAME: usize = 64;

/// Escaping rule for a value.
#[derive(Clone, Copy)]
enum EscapingRule {
    /// Unchanged, and only if the value is a plain word.
    Word,
    /// Unchanged, and only if the value cannot end a quote of any kind. A `$` outside a dollar
    /// quote's delimiter is safe: every SCRAM verifier contains some.
    Quiet,
    /// Doubles `"`.
    Identifier,
    /// Doubles `'`.
    Text,
    /// Doubles `'` and `\`.
    Escaped,
    /// Doubles `"` and `\`.
    DoubleQuoted,
    /// Doubles the back quote.
    Backquoted,
}

/// A run of finished text; adjacent runs outside quotes are merged.
#[derive(PartialEq, Eq)]
struct FilledPiece {
    context: QuoteContext,
    text: String,
}

/// Refuses placeholders that do not exist or have no value.
pub(super) fn check(
    statement: &LexedStatement<'_>,
    available: AvailableKinds,
) -> Result<(), LocatedFault> {
    for segment in &statement.segments {
        for part in parts(segment.text, segment.at, available)? {
            if let SegmentPart::Placeholder(at, placeholder) = part
                && !available.has(placeholder.kind)
            {
                return Err(absent(at, placeholder, available));
            }
        }
    }
    Ok(())
}

fn absent(at: usize, placeholder: Placeholder, available: AvailableKinds) -> LocatedFault {
    let (written, available) = (placeholder.written, available.list());
    LocatedFault { at, fault: LexFault::AbsentPlaceholder { written, available } }
}

/// Returns the statement with its values inserted.
pub(super) fn fill(
    dialect: SqlDialect,
    statement: &LexedStatement<'_>,
    values: &PlaceholderValues<'_>,
) -> Result<Statement, LocatedFault> {
    let available = AvailableKinds::of_values(values);
    let mut filling = StatementFiller { values, available, pieces: Vec::new(), last: None };
    for segment in &statement.segments {
        filling.segment(segment)?;
    }
    let text: String = filling.pieces.iter().map(|piece| piece.text.as_str()).collect();
    if let Some((at, placeholder)) = filling.last
        && !keeps_its_shape(dialect, &text, &filling.pieces)
    {
        return Err(unsafe_at(at, placeholder));
    }
    let secret = statement.segments.iter().any(|segment| segment.text.contains("{{password}}"));
    Ok(Statement { text, secret, may_fail: false })
}

/// Returns true if the finished text is still one statement with the same pieces. A value such as
/// `x--y` passes the rule for words, but could turn the following text into a comment.
fn keeps_its_shape(dialect: SqlDialect, text: &str, pieces: &[FilledPiece]) -> bool {
    let Ok(statements) = split::statements(dialect, text, 0) else { return false };
    let mut again = Vec::new();
    for segment in statements.iter().flat_map(|statement| &statement.segments) {
        append(&mut again, segment.context, segment.text);
    }
    statements.len() == 1 && again == pieces
}

fn append(pieces: &mut Vec<FilledPiece>, context: QuoteContext, text: &str) {
    match pieces.last_mut() {
        Some(last) if context == QuoteContext::Plain && last.context == QuoteContext::Plain => {
            last.text.push_str(text)
        }
        _ => pieces.push(FilledPiece { context, text: text.to_owned() }),
    }
}

struct StatementFiller<'a> {
    values: &'a PlaceholderValues<'a>,
    available: AvailableKinds,
    pieces: Vec<FilledPiece>,
    /// Offset and placeholder of the last inserted value.
    last: Option<(usize, Placeholder)>,
}

impl StatementFiller<'_> {
    fn segment(&mut self, segment: &Segment<'_>) -> Result<(), LocatedFault> {
        let parts = parts(segment.text, segment.at, self.available)?;
        let code = inner(segment.text).contains(['\'', '"', '`']);
        match segment.context {
            QuoteContext::Text if !code && self.brings_backslash(&parts) => {
                self.as_escape_string(&parts)
            }
            QuoteContext::Text if !code => self.with(segment.context, &parts, EscapingRule::Text),
            QuoteContext::Escaped if !code => {
                self.with(segment.context, &parts, EscapingRule::Escaped)
            }
            QuoteContext::DoubleQuoted if !code => {
                self.with(segment.context, &parts, EscapingRule::DoubleQuoted)
            }
            QuoteContext::Identifier => {
                self.with(segment.context, &parts, EscapingRule::Identifier)
            }
            QuoteContext::Backquoted => {
                self.with(segment.context, &parts, EscapingRule::Backquoted)
            }
            QuoteContext::Body => self.body(segment),
            QuoteContext::Plain
            | QuoteContext::Comment
            | QuoteContext::Prefixed
            | QuoteContext::Text
            | QuoteContext::DoubleQuoted
            | QuoteContext::Escaped => self.with(segment.context, &parts, EscapingRule::Word),
        }
    }

    fn with(
        &mut self,
        context: QuoteContext,
        parts: &[SegmentPart<'_>],
        rule: EscapingRule,
    ) -> Result<(), LocatedFault> {
        let text = self.text(parts, rule)?;
        append(&mut self.pieces, context, &text);
        Ok(())
    }

    fn text(
        &mut self,
        parts: &[SegmentPart<'_>],
        rule: EscapingRule,
    ) -> Result<String, LocatedFault> {
        let mut text = String::new();
        for (place, part) in parts.iter().enumerate() {
            match part {
                SegmentPart::Fixed(fixed) => text.push_str(fixed),
                SegmentPart::Placeholder(at, placeholder) => {
                    let value = self.value(*at, *placeholder, rule)?;
                    if matches!(rule, EscapingRule::Quiet)
                        && value.contains('$')
                        && touches(parts, place)
                    {
                        return Err(unsafe_at(*at, *placeholder));
                    }
                    text.push_str(&value);
                }
            }
        }
        Ok(text)
    }

    fn value(
        &mut self,
        at: usize,
        placeholder: Placeholder,
        rule: EscapingRule,
    ) -> Result<String, LocatedFault> {
        let available = self.available;
        let absent = || absent(at, placeholder, available);
        self.last = Some((at, placeholder));
        let value = match placeholder.kind {
            PlaceholderKind::Username => self.values.username,
            PlaceholderKind::Password => self.values.password.ok_or_else(absent)?,
            PlaceholderKind::Subject => self.values.subject.ok_or_else(absent)?,
            // The format below is fixed and safe in every context.
            PlaceholderKind::Expiration => {
                let expiration = self.values.expiration.ok_or_else(absent)?;
                return format_time(expiration)
                    .ok_or(LocatedFault { at, fault: LexFault::ExpirationOutOfRange });
            }
        };
        escape(value, rule).ok_or_else(|| unsafe_at(at, placeholder))
    }

    fn brings_backslash(&self, parts: &[SegmentPart<'_>]) -> bool {
        parts.iter().any(|part| match part {
            SegmentPart::Fixed(_) => false,
            SegmentPart::Placeholder(_, placeholder) => match placeholder.kind {
                PlaceholderKind::Username => self.values.username.contains('\\'),
                PlaceholderKind::Password => {
                    self.values.password.is_some_and(|password| password.contains('\\'))
                }
                PlaceholderKind::Subject => {
                    self.values.subject.is_some_and(|subject| subject.contains('\\'))
                }
                PlaceholderKind::Expiration => false,
            },
        })
    }

    /// Rewrites `'…'` as `E'…'` for a value with a backslash. The meaning of a backslash in `'…'`
    /// depends on a server setting (`standard_conforming_strings`); in `E'…'` the meaning is fixed.
    fn as_escape_string(&mut self, parts: &[SegmentPart<'_>]) -> Result<(), LocatedFault> {
        let fixed: Vec<String> = parts
            .iter()
            .map(|part| match part {
                SegmentPart::Fixed(fixed) => fixed.replace('\\', r"\\"),
                SegmentPart::Placeholder(..) => String::new(),
            })
            .collect();
        let parts: Vec<SegmentPart<'_>> = parts
            .iter()
            .zip(&fixed)
            .map(|(part, fixed)| match part {
                SegmentPart::Fixed(_) => SegmentPart::Fixed(fixed),
                SegmentPart::Placeholder(at, placeholder) => {
                    SegmentPart::Placeholder(*at, *placeholder)
                }
            })
            .collect();
        append(&mut self.pieces, QuoteContext::Plain, " E");
        self.with(QuoteContext::Escaped, &parts, EscapingRule::Escaped)
    }

    /// Fills a dollar-quoted body: inside quotes of the body a value must be quiet, elsewhere a
    /// word. A body that does not lex is in an unknown language, and takes only words.
    fn body(&mut self, segment: &Segment<'_>) -> Result<(), LocatedFault> {
        let delimiter = lexer::dollar_delimiter(segment.text).unwrap_or("$$");
        let code = segment
            .text
            .strip_prefix(delimiter)
            .and_then(|text| text.strip_suffix(delimiter))
            .unwrap_or_default();
        let start = segment.at + delimiter.len();
        let plain_body = || vec![Segment { context: QuoteContext::Plain, text: code, at: 0 }];
        let mut text = delimiter.to_owned();
        for inside in lexer::postgres(code).unwrap_or_else(|_| plain_body()) {
            let rule = match inside.context {
                QuoteContext::Identifier | QuoteContext::Text | QuoteContext::Escaped => {
                    EscapingRule::Quiet
                }
                QuoteContext::DoubleQuoted
                | QuoteContext::Backquoted
                | QuoteContext::Plain
                | QuoteContext::Prefixed
                | QuoteContext::Body
                | QuoteContext::Comment => EscapingRule::Word,
            };
            let parts = parts(inside.text, start + inside.at, self.available)?;
            text.push_str(&self.text(&parts, rule)?);
        }
        text.push_str(delimiter);
        append(&mut self.pieces, QuoteContext::Body, &text);
        Ok(())
    }
}

/// Returns the text without its first and last character, which are the quotes in every context
/// that uses the result.
fn inner(text: &str) -> &str {
    let mut characters = text.chars();
    characters.next();
    characters.next_back();
    characters.as_str()
}

fn unsafe_at(at: usize, placeholder: Placeholder) -> LocatedFault {
    LocatedFault { at, fault: LexFault::UnsafePlaceholder(placeholder.written) }
}

/// Returns true if a `$` in the value of the placeholder at `place` could form a dollar quote
/// together with the text next to the value.
fn touches(parts: &[SegmentPart<'_>], place: usize) -> bool {
    let fixed = |at: Option<usize>| match at.and_then(|at| parts.get(at)) {
        Some(SegmentPart::Fixed(fixed)) => *fixed,
        Some(SegmentPart::Placeholder(..)) | None => "",
    };
    let before = fixed(place.checked_sub(1)).chars().next_back();
    let after = fixed(place.checked_add(1)).chars().next();
    [before, after].into_iter().any(|next| next.is_none_or(lexer::continues_word))
}

/// Returns true if `value` contains a delimiter of dollar quotes.
fn holds_dollar_quote(value: &str) -> bool {
    value
        .match_indices('$')
        .any(|(at, _)| value.get(at..).is_some_and(|rest| lexer::dollar_delimiter(rest).is_some()))
}

fn escape(value: &str, rule: EscapingRule) -> Option<String> {
    if value.contains('\0') {
        return None;
    }
    let loud = |character: char| matches!(character, '\'' | '"' | '\\') || character.is_control();
    match rule {
        EscapingRule::Word => is_word(value).then(|| value.to_owned()),
        EscapingRule::Quiet => {
            (!value.contains(loud) && !holds_dollar_quote(value)).then(|| value.to_owned())
        }
        EscapingRule::Identifier => Some(value.replace('"', "\"\"")),
        EscapingRule::Text => Some(value.replace('\'', "''")),
        EscapingRule::Escaped => Some(value.replace('\\', r"\\").replace('\'', "''")),
        EscapingRule::DoubleQuoted => Some(value.replace('\\', r"\\").replace('"', "\"\"")),
        EscapingRule::Backquoted => Some(value.replace('`', "``")),
    }
}

fn is_word(value: &str) -> bool {
    let fits = |character: char| {
        character.is_ascii_alphanumeric() || matches!(character, '_' | '.' | '@' | '-')
    };
    !value.is_empty() && value.chars().all(fits)
}

/// Formats a time as `2030-01-01 00:00:00+0000`, without fractions of a second.
fn format_time(expiration: StoreTime) -> Option<String> {
    let since = Duration::milliseconds(i64::try_from(expiration).ok()?);
    let moment = OffsetDateTime::UNIX_EPOCH.checked_add(since)?;
    moment.format(format_description!("[year]-[month]-[day] [hour]:[minute]:[second]+0000")).ok()
}

enum SegmentPart<'a> {
    Fixed(&'a str),
    /// Byte offset in the whole text, and the placeholder.
    Placeholder(usize, Placeholder),
}

/// Splits `text` into fixed parts and placeholders. `at` is the offset of `text` in the whole text.
fn parts(
    text: &str,
    at: usize,
    available: AvailableKinds,
) -> Result<Vec<SegmentPart<'_>>, LocatedFault> {
    let mut parts = Vec::new();
    let mut rest = text;
    let mut searched = 0;
    while let Some(found) = rest.get(searched..).and_then(|tail| tail.find("{{")) {
        let (fixed, braces) = rest.split_at_checked(searched + found).unwrap_or((rest, ""));
        let place = at + text.len() - braces.len();
        let Some(name) = placeholder_name(braces) else {
            searched += found + 1;
            continue;
        };
        let Some(placeholder) = PLACEHOLDERS.iter().find(|placeholder| placeholder.word == name)
        else {
            let written = format!("{{{{{name}}}}}");
            let fault = LexFault::UnknownPlaceholder { written, available: available.list() };
            return Err(LocatedFault { at: place, fault });
        };
        parts.push(SegmentPart::Fixed(fixed));
        parts.push(SegmentPart::Placeholder(place, *placeholder));
        rest = braces.get(name.len() + 4..).unwrap_or_default();
        searched = 0;
    }
    parts.push(SegmentPart::Fixed(rest));
    Ok(parts)
}

/// Returns the name between `{{` at the start of `text` and `}}`, if it looks like a name. Spaces
/// and leading dots are part of the name, so that `{{ name }}` is refused here rather than sent to
/// the server.
fn placeholder_name(text: &str) -> Option<&str> {
    let inside = text.strip_prefix("{{")?;
    let name = inside.get(..inside.find("}}")?)?;
    let word = name.trim_matches(' ').trim_start_matches('.');
    let fits = name.len() <= LONGEST_NAME
        && lexer::word_length(word) == word.len()
        && !word.is_empty()
        && word.chars().all(|character| character.is_ascii_alphanumeric() || character == '_');
    fits.then_some(name)
}

//! Replaces placeholders by values, in one pass from left to right: a value that looks like a
//! placeholder is not replaced again.
//!
//! The quotes around a placeholder decide the escaping of its value. Text that another parser will
//! read as code again (a `DO` body, a string that contains quotes) takes only values that cannot
//! end a quote in that code.

use super::fault::{LexFault, Located};
use super::lexer::{self, Context, Segment};
use super::placeholder::{Available, Kind, PLACEHOLDERS, Placeholder};
use super::split::{self, Lexed};
use super::{Dialect, Values};
use crate::database_plugin::{Statement, StoreTime};
use time::macros::format_description;
use time::{Duration, OffsetDateTime};

/// Maximum length of an unknown placeholder's name, in bytes. A longer name does not count as a
/// placeholder.
const LONGEST_NAME: usize = 64;

/// Escaping rule for a value.
#[derive(Clone, Copy)]
enum Rule {
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
struct Piece {
    context: Context,
    text: String,
}

/// Refuses placeholders that do not exist or have no value.
pub(super) fn check(statement: &Lexed<'_>, available: Available) -> Result<(), Located> {
    for segment in &statement.segments {
        for part in parts(segment.text, segment.at, available)? {
            if let Part::Placeholder(at, placeholder) = part
                && !available.has(placeholder.kind)
            {
                return Err(absent(at, placeholder, available));
            }
        }
    }
    Ok(())
}

fn absent(at: usize, placeholder: Placeholder, available: Available) -> Located {
    let (written, available) = (placeholder.written, available.list());
    Located { at, fault: LexFault::AbsentPlaceholder { written, available } }
}

/// Returns the statement with its values inserted.
pub(super) fn fill(
    dialect: Dialect,
    statement: &Lexed<'_>,
    values: &Values<'_>,
) -> Result<Statement, Located> {
    let available = Available::of_values(values);
    let mut filling = Filling { values, available, pieces: Vec::new(), last: None };
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
fn keeps_its_shape(dialect: Dialect, text: &str, pieces: &[Piece]) -> bool {
    let Ok(statements) = split::statements(dialect, text, 0) else { return false };
    let mut again = Vec::new();
    for segment in statements.iter().flat_map(|statement| &statement.segments) {
        append(&mut again, segment.context, segment.text);
    }
    statements.len() == 1 && again == pieces
}

fn append(pieces: &mut Vec<Piece>, context: Context, text: &str) {
    match pieces.last_mut() {
        Some(last) if context == Context::Plain && last.context == Context::Plain => {
            last.text.push_str(text)
        }
        _ => pieces.push(Piece { context, text: text.to_owned() }),
    }
}

struct Filling<'a> {
    values: &'a Values<'a>,
    available: Available,
    pieces: Vec<Piece>,
    /// Offset and placeholder of the last inserted value.
    last: Option<(usize, Placeholder)>,
}

impl Filling<'_> {
    fn segment(&mut self, segment: &Segment<'_>) -> Result<(), Located> {
        let parts = parts(segment.text, segment.at, self.available)?;
        let code = inner(segment.text).contains(['\'', '"', '`']);
        match segment.context {
            Context::Text if !code && self.brings_backslash(&parts) => {
                self.as_escape_string(&parts)
            }
            Context::Text if !code => self.with(segment.context, &parts, Rule::Text),
            Context::Escaped if !code => self.with(segment.context, &parts, Rule::Escaped),
            Context::DoubleQuoted if !code => {
                self.with(segment.context, &parts, Rule::DoubleQuoted)
            }
            Context::Identifier => self.with(segment.context, &parts, Rule::Identifier),
            Context::Backquoted => self.with(segment.context, &parts, Rule::Backquoted),
            Context::Body => self.body(segment),
            Context::Plain
            | Context::Comment
            | Context::Prefixed
            | Context::Text
            | Context::DoubleQuoted
            | Context::Escaped => self.with(segment.context, &parts, Rule::Word),
        }
    }

    fn with(&mut self, context: Context, parts: &[Part<'_>], rule: Rule) -> Result<(), Located> {
        let text = self.text(parts, rule)?;
        append(&mut self.pieces, context, &text);
        Ok(())
    }

    fn text(&mut self, parts: &[Part<'_>], rule: Rule) -> Result<String, Located> {
        let mut text = String::new();
        for (place, part) in parts.iter().enumerate() {
            match part {
                Part::Fixed(fixed) => text.push_str(fixed),
                Part::Placeholder(at, placeholder) => {
                    let value = self.value(*at, *placeholder, rule)?;
                    if matches!(rule, Rule::Quiet) && value.contains('$') && touches(parts, place) {
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
        rule: Rule,
    ) -> Result<String, Located> {
        let available = self.available;
        let absent = || absent(at, placeholder, available);
        self.last = Some((at, placeholder));
        let value = match placeholder.kind {
            Kind::Username => self.values.username,
            Kind::Password => self.values.password.ok_or_else(absent)?,
            Kind::Subject => self.values.subject.ok_or_else(absent)?,
            // The format below is fixed and safe in every context.
            Kind::Expiration => {
                let expiration = self.values.expiration.ok_or_else(absent)?;
                return format_time(expiration)
                    .ok_or(Located { at, fault: LexFault::ExpirationOutOfRange });
            }
        };
        escape(value, rule).ok_or_else(|| unsafe_at(at, placeholder))
    }

    fn brings_backslash(&self, parts: &[Part<'_>]) -> bool {
        parts.iter().any(|part| match part {
            Part::Fixed(_) => false,
            Part::Placeholder(_, placeholder) => match placeholder.kind {
                Kind::Username => self.values.username.contains('\\'),
                Kind::Password => {
                    self.values.password.is_some_and(|password| password.contains('\\'))
                }
                Kind::Subject => self.values.subject.is_some_and(|subject| subject.contains('\\')),
                Kind::Expiration => false,
            },
        })
    }

    /// Rewrites `'…'` as `E'…'` for a value with a backslash. The meaning of a backslash in `'…'`
    /// depends on a server setting (`standard_conforming_strings`); in `E'…'` the meaning is fixed.
    fn as_escape_string(&mut self, parts: &[Part<'_>]) -> Result<(), Located> {
        let fixed: Vec<String> = parts
            .iter()
            .map(|part| match part {
                Part::Fixed(fixed) => fixed.replace('\\', r"\\"),
                Part::Placeholder(..) => String::new(),
            })
            .collect();
        let parts: Vec<Part<'_>> = parts
            .iter()
            .zip(&fixed)
            .map(|(part, fixed)| match part {
                Part::Fixed(_) => Part::Fixed(fixed),
                Part::Placeholder(at, placeholder) => Part::Placeholder(*at, *placeholder),
            })
            .collect();
        append(&mut self.pieces, Context::Plain, " E");
        self.with(Context::Escaped, &parts, Rule::Escaped)
    }

    /// Fills a dollar-quoted body: inside quotes of the body a value must be quiet, elsewhere a
    /// word. A body that does not lex is in an unknown language, and takes only words.
    fn body(&mut self, segment: &Segment<'_>) -> Result<(), Located> {
        let delimiter = lexer::dollar_delimiter(segment.text).unwrap_or("$$");
        let code = segment
            .text
            .strip_prefix(delimiter)
            .and_then(|text| text.strip_suffix(delimiter))
            .unwrap_or_default();
        let start = segment.at + delimiter.len();
        let whole = || vec![Segment { context: Context::Plain, text: code, at: 0 }];
        let mut text = delimiter.to_owned();
        for inside in lexer::postgres(code).unwrap_or_else(|_| whole()) {
            let rule = match inside.context {
                Context::Identifier | Context::Text | Context::Escaped => Rule::Quiet,
                Context::DoubleQuoted
                | Context::Backquoted
                | Context::Plain
                | Context::Prefixed
                | Context::Body
                | Context::Comment => Rule::Word,
            };
            let parts = parts(inside.text, start + inside.at, self.available)?;
            text.push_str(&self.text(&parts, rule)?);
        }
        text.push_str(delimiter);
        append(&mut self.pieces, Context::Body, &text);
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

fn unsafe_at(at: usize, placeholder: Placeholder) -> Located {
    Located { at, fault: LexFault::UnsafePlaceholder(placeholder.written) }
}

/// Returns true if a `$` in the value of the placeholder at `place` could form a dollar quote
/// together with the text next to the value.
fn touches(parts: &[Part<'_>], place: usize) -> bool {
    let fixed = |at: Option<usize>| match at.and_then(|at| parts.get(at)) {
        Some(Part::Fixed(fixed)) => *fixed,
        Some(Part::Placeholder(..)) | None => "",
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

fn escape(value: &str, rule: Rule) -> Option<String> {
    if value.contains('\0') {
        return None;
    }
    let loud = |character: char| matches!(character, '\'' | '"' | '\\') || character.is_control();
    match rule {
        Rule::Word => is_word(value).then(|| value.to_owned()),
        Rule::Quiet => {
            (!value.contains(loud) && !holds_dollar_quote(value)).then(|| value.to_owned())
        }
        Rule::Identifier => Some(value.replace('"', "\"\"")),
        Rule::Text => Some(value.replace('\'', "''")),
        Rule::Escaped => Some(value.replace('\\', r"\\").replace('\'', "''")),
        Rule::DoubleQuoted => Some(value.replace('\\', r"\\").replace('"', "\"\"")),
        Rule::Backquoted => Some(value.replace('`', "``")),
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

enum Part<'a> {
    Fixed(&'a str),
    /// Byte offset in the whole text, and the placeholder.
    Placeholder(usize, Placeholder),
}

/// Splits `text` into fixed parts and placeholders. `at` is the offset of `text` in the whole text.
fn parts(text: &str, at: usize, available: Available) -> Result<Vec<Part<'_>>, Located> {
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
            return Err(Located { at: place, fault });
        };
        parts.push(Part::Fixed(fixed));
        parts.push(Part::Placeholder(place, *placeholder));
        rest = braces.get(name.len() + 4..).unwrap_or_default();
        searched = 0;
    }
    parts.push(Part::Fixed(rest));
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

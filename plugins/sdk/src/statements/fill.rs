//! Puts values in the place of placeholders, in one pass from left to right: a value that looks
//! like a placeholder stays what it is.
//!
//! How a value is written depends on the quotes around its placeholder. Text that another hand
//! will read as code again (a `DO` body, a string with quotes in it) takes only values that cannot
//! end a quote in it.

use super::fault::{LexFault, Located};
use super::lexer::{self, Context, Segment};
use super::placeholder::{Available, Kind, PLACEHOLDERS, Placeholder};
use super::split::{self, Lexed};
use super::{Dialect, Values};
use crate::database_plugin::{Statement, StoreTime};
use time::macros::format_description;
use time::{Duration, OffsetDateTime};

/// Longest name of an unknown placeholder that an error repeats; longer ones are not taken for
/// placeholders.
const LONGEST_NAME: usize = 64;

/// How a value must be written.
#[derive(Clone, Copy)]
enum Rule {
    /// As it is, and only if it is a plain word.
    Word,
    /// As it is, and only if it can end no quote of any kind. A `$` that is not part of a dollar
    /// quote's delimiter can not: each SCRAM verifier has some.
    Quiet,
    /// `"` doubled.
    Identifier,
    /// `'` doubled.
    Text,
    /// `'` and `\` doubled.
    Escaped,
    /// `"` and `\` doubled.
    DoubleQuoted,
    /// The back quote doubled.
    Backquoted,
}

/// A run of finished text; neighbours outside quotes are one run.
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

/// The finished statement.
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

/// Whether the finished text is still one statement made of the same pieces. Values such as `x--y`
/// pass every rule for words and would still swallow what follows them.
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
    /// The last placeholder that was filled.
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
            // Written here in one fixed form, which is safe everywhere.
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

    /// A value with a backslash makes `'…'` an `E'…'`, because what a backslash means in `'…'` is a
    /// setting of the server (`standard_conforming_strings`) and in `E'…'` it is not.
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

    /// Inside quotes of the body a value must be quiet, elsewhere a word. A body that does not lex
    /// is in a language we do not know, where only words are safe.
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

/// The text between the first and last character, which are quotes wherever it matters.
fn inner(text: &str) -> &str {
    let mut characters = text.chars();
    characters.next();
    characters.next_back();
    characters.as_str()
}

fn unsafe_at(at: usize, placeholder: Placeholder) -> Located {
    Located { at, fault: LexFault::UnsafePlaceholder(placeholder.written) }
}

/// Whether the value of the placeholder at `place` has a neighbour with which a `$` of it could
/// begin or end a dollar quote.
fn touches(parts: &[Part<'_>], place: usize) -> bool {
    let fixed = |at: Option<usize>| match at.and_then(|at| parts.get(at)) {
        Some(Part::Fixed(fixed)) => *fixed,
        Some(Part::Placeholder(..)) | None => "",
    };
    let before = fixed(place.checked_sub(1)).chars().next_back();
    let after = fixed(place.checked_add(1)).chars().next();
    [before, after].into_iter().any(|next| next.is_none_or(lexer::continues_word))
}

/// Whether a part of `value` is a delimiter of dollar quotes.
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

/// `2030-01-01 00:00:00+0000`; part seconds are cut off.
fn format_time(expiration: StoreTime) -> Option<String> {
    let since = Duration::milliseconds(i64::try_from(expiration).ok()?);
    let moment = OffsetDateTime::UNIX_EPOCH.checked_add(since)?;
    moment.format(format_description!("[year]-[month]-[day] [hour]:[minute]:[second]+0000")).ok()
}

enum Part<'a> {
    Fixed(&'a str),
    /// Byte offset in the whole text, and which.
    Placeholder(usize, Placeholder),
}

/// `text` as fixed parts and placeholders; `at` is where it stands in the whole text.
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

/// What stands between the `{{` that `text` begins with and `}}`, if it is a name. Spaces count as
/// part of it, so that `{{ name }}` is refused by name rather than sent to the server.
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

//! The function `printf` of user-name templates, as Go formats.
//!
//! A verb has the form `%[flags][width][.precision]verb`. What differs between releases of Go, or
//! has no use in a user name, is refused with its name, so that no template silently makes another
//! name than its author expects.

use super::{LONGEST_VALUE, RenderContext, TemplateFault, TemplateValue};

/// Verbs and flags, for the refusal of others.
pub(super) const KNOWN: &str = "verbs are %s %v %q %d %t %x %X %o %b %c and %%, with the flags - + \
                                # 0 and space, a width and a precision";

/// A verb with its flags.
#[derive(Default)]
struct FormatVerb {
    is_left: bool,
    is_signed: bool,
    is_spaced: bool,
    is_alternate: bool,
    is_zero: bool,
    width: usize,
    precision: Option<usize>,
    verb: char,
    /// The verb as written.
    written: String,
}

/// Formats values. The number of values must equal the number of verbs.
pub(super) fn printf(
    given: &[TemplateValue],
    _: &RenderContext<'_>,
) -> Option<Result<TemplateValue, TemplateFault>> {
    let (TemplateValue::Text(format), values) = given.split_first()? else { return None };
    let format = std::str::from_utf8(format).ok()?;
    let mut values = values.iter();
    let mut text = Vec::new();
    let mut rest = format;
    while let Some((plain, after)) = rest.split_once('%') {
        text.extend_from_slice(plain.as_bytes());
        if let Some(after) = after.strip_prefix('%') {
            text.push(b'%');
            rest = after;
            continue;
        }
        let (verb, after) = match FormatVerb::read(after)? {
            Ok(read) => read,
            Err(fault) => return Some(Err(fault)),
        };
        match verb.format(values.next()?)? {
            Ok(formatted) => text.extend(formatted),
            Err(fault) => return Some(Err(fault)),
        }
        if text.len() > LONGEST_VALUE {
            return Some(Err(TemplateFault::TooLong));
        }
        rest = after;
    }
    text.extend_from_slice(rest.as_bytes());
    values.next().is_none().then_some(Ok(TemplateValue::Text(text)))
}

impl FormatVerb {
    /// Reads the verb at the begin of `text`, and returns the text behind the verb. `None` if the
    /// text ends before the verb.
    fn read(text: &str) -> Option<Result<(Self, &str), TemplateFault>> {
        let mut read = Self::default();
        let mut rest = text;
        while let Some(flag) = rest.chars().next() {
            match flag {
                '-' => read.is_left = true,
                '+' => read.is_signed = true,
                ' ' => read.is_spaced = true,
                '#' => read.is_alternate = true,
                '0' => read.is_zero = true,
                _ => break,
            }
            rest = rest.get(1..)?;
        }
        let Some(width) = number(&mut rest) else { return Some(Err(TemplateFault::TooLong)) };
        read.width = width.unwrap_or_default();
        if let Some(after) = rest.strip_prefix('.') {
            rest = after;
            let Some(precision) = number(&mut rest) else {
                return Some(Err(TemplateFault::TooLong));
            };
            read.precision = Some(precision.unwrap_or_default());
        }
        read.verb = rest.chars().next()?;
        rest = rest.get(read.verb.len_utf8()..)?;
        let written = text.len().checked_sub(rest.len())?;
        read.written = format!("%{}", text.get(..written)?);
        // Go's releases differ in the order of both flags.
        read.is_zero &= !read.is_left;
        Some(Ok((read, rest)))
    }

    /// Formats a value. `None` for a value of another kind than the verb's.
    fn format(&self, value: &TemplateValue) -> Option<Result<Vec<u8>, TemplateFault>> {
        let is_plain = !self.is_alternate && !self.is_zero;
        let formatted = match (self.verb, value) {
            ('s' | 'v', TemplateValue::Text(text)) if is_plain => self.cut(text).to_vec(),
            ('q', TemplateValue::Text(text)) if is_plain && !self.is_signed => {
                go_quoted(self.cut(text))
            }
            ('x' | 'X', TemplateValue::Text(text)) if !self.is_zero => self.hexadecimal(text),
            ('v' | 't', TemplateValue::Bool(flag)) if is_plain => flag.to_string().into_bytes(),
            ('v' | 'd', TemplateValue::Int(number)) if !self.is_alternate => {
                self.integer(*number, 10)
            }
            ('x' | 'X', TemplateValue::Int(number)) => self.integer(*number, 16),
            ('o', TemplateValue::Int(number)) if !self.is_alternate => self.integer(*number, 8),
            ('b', TemplateValue::Int(number)) if !self.is_alternate => self.integer(*number, 2),
            ('c', TemplateValue::Int(number)) if is_plain => {
                u32::try_from(*number).ok().and_then(char::from_u32)?.to_string().into_bytes()
            }
            ('s' | 'v' | 'q' | 'x' | 'X', TemplateValue::Text(_))
            | ('v' | 't', TemplateValue::Bool(_))
            | ('v' | 'd' | 'o' | 'b' | 'c', TemplateValue::Int(_)) => {
                return Some(Err(self.unknown_fault()));
            }
            ('s' | 'd' | 'q' | 'x' | 'X' | 't' | 'o' | 'b' | 'c', _) => return None,
            _ => return Some(Err(self.unknown_fault())),
        };
        Some(Ok(self.pad(formatted)))
    }

    fn unknown_fault(&self) -> TemplateFault {
        TemplateFault::UnknownVerb(self.written.clone())
    }

    /// Cuts a text to as many characters as the precision says.
    fn cut<'a>(&self, text: &'a [u8]) -> &'a [u8] {
        let Some(precision) = self.precision else { return text };
        let length = character_lengths(text).take(precision).sum();
        text.get(..length).unwrap_or(text)
    }

    /// Returns the bytes of a text in hexadecimal; the precision is a number of bytes.
    fn hexadecimal(&self, text: &[u8]) -> Vec<u8> {
        let shown = text.get(..self.precision.unwrap_or(text.len())).unwrap_or(text);
        let prefix = if self.verb == 'X' { "0X" } else { "0x" };
        let mut written = String::new();
        for (index, byte) in shown.iter().enumerate() {
            if index > 0 && self.is_spaced {
                written.push(' ');
            }
            if self.is_alternate && (index == 0 || self.is_spaced) {
                written.push_str(prefix);
            }
            written.push_str(&match self.verb {
                'X' => format!("{byte:02X}"),
                _ => format!("{byte:02x}"),
            });
        }
        written.into_bytes()
    }

    /// Returns a number in a base; the precision is the minimum number of digits.
    fn integer(&self, number: i64, base: u64) -> Vec<u8> {
        let is_spaced = self.is_spaced;
        let sign = match number {
            ..0 => "-",
            _ if self.is_signed && self.verb != 'v' => "+",
            _ if is_spaced => " ",
            _ => "",
        };
        if number == 0 && self.precision == Some(0) {
            return Vec::new();
        }
        let digits = digits(number.unsigned_abs(), base, self.verb == 'X');
        let least = match self.precision {
            Some(precision) => precision,
            None if self.is_zero => self.width.saturating_sub(sign.len()),
            None => 0,
        };
        let prefix = match (self.is_alternate, self.verb) {
            (true, 'x') => "0x",
            (true, 'X') => "0X",
            _ => "",
        };
        format!("{sign}{prefix}{digits:0>least$}").into_bytes()
    }

    /// Adds spaces up to the width, in characters.
    fn pad(&self, formatted: Vec<u8>) -> Vec<u8> {
        let missing = self.width.saturating_sub(character_lengths(&formatted).count());
        let spaces = vec![b' '; missing];
        match self.is_left {
            true => [formatted, spaces].concat(),
            false => [spaces, formatted].concat(),
        }
    }
}

/// Reads a number from the begin of `rest`; `Some(None)` if there is none. `None` for a number
/// above the length of a value.
fn number(rest: &mut &str) -> Option<Option<usize>> {
    let length = rest.bytes().take_while(u8::is_ascii_digit).count();
    let (digits, after) = rest.split_at_checked(length)?;
    *rest = after;
    if digits.is_empty() {
        return Some(None);
    }
    let number: usize = digits.parse().ok()?;
    (number <= LONGEST_VALUE).then_some(Some(number))
}

fn digits(mut number: u64, base: u64, is_upper: bool) -> String {
    let alphabet = if is_upper { b"0123456789ABCDEF" } else { b"0123456789abcdef" };
    let mut digits = Vec::new();
    loop {
        let digit = usize::try_from(number % base).unwrap_or_default();
        digits.push(alphabet.get(digit).copied().map(char::from).unwrap_or_default());
        number /= base;
        if number == 0 {
            return digits.into_iter().rev().collect();
        }
    }
}

fn go_quoted(text: &[u8]) -> Vec<u8> {
    let mut quoted = vec![b'"'];
    for byte in text {
        match byte {
            b'"' | b'\\' => quoted.extend([b'\\', *byte]),
            b'\n' => quoted.extend(b"\\n"),
            b'\r' => quoted.extend(b"\\r"),
            b'\t' => quoted.extend(b"\\t"),
            control if control.is_ascii_control() => {
                quoted.extend(format!("\\x{control:02x}").bytes())
            }
            _ => quoted.push(*byte),
        }
    }
    quoted.push(b'"');
    quoted
}

/// Returns the length of each character in bytes. A byte that belongs to no character counts as a
/// character, as in Go.
fn character_lengths(text: &[u8]) -> impl Iterator<Item = usize> {
    text.utf8_chunks().flat_map(|chunk| {
        let valid = chunk.valid().chars().map(char::len_utf8);
        valid.chain(std::iter::repeat_n(1, chunk.invalid().len()))
    })
}

#[cfg(test)]
mod tests;

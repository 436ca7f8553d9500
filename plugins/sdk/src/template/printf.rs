//! The function `printf` of user-name templates, as Go formats.
//!
//! A verb has the form `%[flags][width][.precision]verb`. What differs between releases of Go, or
//! has no use in a user name, is refused with its name, so that no template silently makes another
//! name than its author expects.

/// Maximum width and precision, and maximum length of the text, in bytes.
const LONGEST: usize = 4096;

/// Verbs and flags, for the refusal of others.
pub(super) const KNOWN: &str = "verbs are %s %v %q %d %t %x %X %o %b %c and %%, with the flags - + \
                                # 0 and space, a width and a precision";

/// A value to format.
#[derive(Clone, Copy)]
pub(super) enum PrintedValue<'a> {
    Text(&'a [u8]),
    Int(i64),
    Bool(bool),
}

/// The reason against a format.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum PrintfFault {
    /// A verb that is not built, as written.
    UnknownVerb(String),
    /// A width, a precision or the text is too long.
    TooLong,
    /// The values do not fit the verbs in number or kind.
    WrongValues,
}

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
///
/// # Errors
/// The reason against the format.
pub(super) fn printf(format: &str, values: &[PrintedValue<'_>]) -> Result<Vec<u8>, PrintfFault> {
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
        let (verb, after) = FormatVerb::read(after)?;
        text.extend(verb.format(*values.next().ok_or(PrintfFault::WrongValues)?)?);
        if text.len() > LONGEST {
            return Err(PrintfFault::TooLong);
        }
        rest = after;
    }
    text.extend_from_slice(rest.as_bytes());
    match values.next() {
        None => Ok(text),
        Some(_) => Err(PrintfFault::WrongValues),
    }
}

impl FormatVerb {
    /// Reads the verb at the begin of `text`, and returns the text behind the verb.
    fn read(text: &str) -> Result<(Self, &str), PrintfFault> {
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
            rest = rest.get(1..).unwrap_or_default();
        }
        read.width = number(&mut rest)?.unwrap_or_default();
        if let Some(after) = rest.strip_prefix('.') {
            rest = after;
            read.precision = Some(number(&mut rest)?.unwrap_or_default());
        }
        let mut behind = rest.chars();
        read.verb = behind.next().ok_or(PrintfFault::WrongValues)?;
        rest = behind.as_str();
        let written = text.strip_suffix(rest).unwrap_or(text);
        read.written = format!("%{written}");
        // `-` takes the place of `0`.
        read.is_zero &= !read.is_left;
        Ok((read, rest))
    }

    /// Formats a value.
    fn format(&self, value: PrintedValue<'_>) -> Result<Vec<u8>, PrintfFault> {
        let formatted = match value {
            PrintedValue::Text(text) => self.text(text),
            PrintedValue::Int(number) => self.number(number),
            PrintedValue::Bool(flag) => {
                let is_built = "vt".contains(self.verb) && self.is_plain();
                is_built.then(|| flag.to_string().into_bytes())
            }
        };
        match formatted {
            Some(formatted) => Ok(self.pad(formatted)),
            None if self.is_for_another_kind(value) => Err(PrintfFault::WrongValues),
            None => Err(PrintfFault::UnknownVerb(self.written.clone())),
        }
    }

    /// Returns true if the verb is built, for other values than this one.
    fn is_for_another_kind(&self, value: PrintedValue<'_>) -> bool {
        let own = match value {
            PrintedValue::Text(_) => "svqxX",
            PrintedValue::Int(_) => "vdxXobc",
            PrintedValue::Bool(_) => "vt",
        };
        "sqvxXdobct".contains(self.verb) && !own.contains(self.verb)
    }

    const fn is_plain(&self) -> bool {
        !self.is_alternate && !self.is_zero
    }

    /// Formats a text; `None` if the verb with its flags is not built for texts.
    fn text(&self, text: &[u8]) -> Option<Vec<u8>> {
        match self.verb {
            's' | 'v' if self.is_plain() => Some(self.cut(text).to_vec()),
            'q' if self.is_plain() && !self.is_signed => Some(go_quoted(self.cut(text))),
            'x' | 'X' if !self.is_zero => Some(self.hexadecimal(text)),
            _ => None,
        }
    }

    /// Formats a number; `None` if the verb with its flags is not built for numbers.
    fn number(&self, number: i64) -> Option<Vec<u8>> {
        match self.verb {
            'v' | 'd' | 'o' | 'b' if !self.is_alternate => Some(self.integer(number)),
            'x' | 'X' => Some(self.integer(number)),
            'c' if self.is_plain() => {
                let character = u32::try_from(number).ok().and_then(char::from_u32);
                Some(character.unwrap_or(char::REPLACEMENT_CHARACTER).to_string().into_bytes())
            }
            _ => None,
        }
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

    /// Returns a number in the base of the verb; the precision is the minimum number of digits.
    fn integer(&self, number: i64) -> Vec<u8> {
        let sign = match number {
            ..0 => "-",
            _ if self.is_signed && self.verb != 'v' => "+",
            _ if self.is_spaced => " ",
            _ => "",
        };
        if number == 0 && self.precision == Some(0) {
            return Vec::new();
        }
        let amount = number.unsigned_abs();
        let digits = match self.verb {
            'x' => format!("{amount:x}"),
            'X' => format!("{amount:X}"),
            'o' => format!("{amount:o}"),
            'b' => format!("{amount:b}"),
            _ => amount.to_string(),
        };
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

/// Reads a number from the begin of `rest`; `None` if there is none.
fn number(rest: &mut &str) -> Result<Option<usize>, PrintfFault> {
    let length = rest.bytes().take_while(u8::is_ascii_digit).count();
    let (digits, after) = rest.split_at_checked(length).unwrap_or((rest, ""));
    *rest = after;
    if digits.is_empty() {
        return Ok(None);
    }
    let number = digits.parse().ok().filter(|number| *number <= LONGEST);
    number.map(Some).ok_or(PrintfFault::TooLong)
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

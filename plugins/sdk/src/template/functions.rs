//! Functions of user-name templates, with the semantics of the reference implementation.

use super::printf::{self, PrintedValue, PrintfFault};
use super::{LONGEST_RESULT, LONGEST_VALUE, RenderContext, TemplateFault, TemplateValue};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use sha2::{Digest as _, Sha256};
use time::OffsetDateTime;

const BASE62: &[u8; 62] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";

/// Number of hexadecimal digits that replace the part cut by `truncate_sha256`.
const HASH_DIGITS: usize = 8;

/// Body of a function. Returns `None` if the arguments do not fit.
type FunctionBody =
    fn(&[TemplateValue], &RenderContext<'_>) -> Option<Result<TemplateValue, TemplateFault>>;

/// A template function.
#[derive(Clone, Copy, Debug)]
pub(super) struct TemplateFunction {
    name: &'static str,
    run: FunctionBody,
}

/// All template functions.
const FUNCTIONS: [TemplateFunction; 25] = [
    TemplateFunction { name: "random", run: random },
    TemplateFunction { name: "truncate", run: truncate },
    TemplateFunction { name: "truncate_sha256", run: truncate_sha256 },
    TemplateFunction {
        name: "uppercase",
        run: |given, _| text1(given).map(|text| done(change_case(text, str::to_uppercase))),
    },
    TemplateFunction {
        name: "lowercase",
        run: |given, _| text1(given).map(|text| done(change_case(text, str::to_lowercase))),
    },
    TemplateFunction { name: "replace", run: replace },
    TemplateFunction {
        name: "sha256",
        run: |given, _| text1(given).map(|text| done(hex(&Sha256::digest(text)))),
    },
    TemplateFunction {
        name: "base64",
        run: |given, _| text1(given).map(|text| done(STANDARD.encode(text))),
    },
    TemplateFunction { name: "hex", run: |given, _| text1(given).map(|text| done(hex(text))) },
    TemplateFunction {
        name: "unix_time",
        run: |given, around| none(given).map(|()| done((around.now / 1000).to_string())),
    },
    TemplateFunction {
        name: "unix_time_millis",
        run: |given, around| none(given).map(|()| done(around.now.to_string())),
    },
    TemplateFunction { name: "uuid", run: uuid },
    TemplateFunction { name: "timestamp", run: timestamp },
    TemplateFunction { name: "printf", run: printf },
    TemplateFunction {
        name: "print",
        run: |given, _| {
            Some(done(given.iter().flat_map(TemplateValue::to_bytes).collect::<Vec<u8>>()))
        },
    },
    TemplateFunction { name: "len", run: len },
    TemplateFunction { name: "eq", run: equal },
    TemplateFunction {
        name: "ne",
        run: |given, _| pair(given).map(|(one, other)| Ok(TemplateValue::Bool(one != other))),
    },
    TemplateFunction {
        name: "lt",
        run: |given, _| ints(given).map(|(one, other)| Ok(TemplateValue::Bool(one < other))),
    },
    TemplateFunction {
        name: "le",
        run: |given, _| ints(given).map(|(one, other)| Ok(TemplateValue::Bool(one <= other))),
    },
    TemplateFunction {
        name: "gt",
        run: |given, _| ints(given).map(|(one, other)| Ok(TemplateValue::Bool(one > other))),
    },
    TemplateFunction {
        name: "ge",
        run: |given, _| ints(given).map(|(one, other)| Ok(TemplateValue::Bool(one >= other))),
    },
    TemplateFunction { name: "and", run: |given, _| first_that(given, |value| !value.is_true()) },
    TemplateFunction { name: "or", run: |given, _| first_that(given, TemplateValue::is_true) },
    TemplateFunction {
        name: "not",
        run: |given, _| one(given).map(|value| Ok(TemplateValue::Bool(!value.is_true()))),
    },
];

impl TemplateFunction {
    /// Returns the function with this name.
    pub(super) fn by_name(name: &str) -> Option<Self> {
        FUNCTIONS.into_iter().find(|function| function.name == name)
    }
}

/// A call of a function.
pub(super) struct FunctionCall<'a> {
    pub(super) function: TemplateFunction,
    pub(super) context: &'a RenderContext<'a>,
}

impl FunctionCall<'_> {
    pub(super) fn value(
        &self,
        arguments: Vec<TemplateValue>,
    ) -> Result<TemplateValue, TemplateFault> {
        let wrong = TemplateFault::WrongArguments(self.function.name);
        (self.function.run)(&arguments, self.context).ok_or(wrong)?
    }
}

fn done(text: impl Into<Vec<u8>>) -> Result<TemplateValue, TemplateFault> {
    Ok(TemplateValue::Text(text.into()))
}

fn none(given: &[TemplateValue]) -> Option<()> {
    given.is_empty().then_some(())
}

fn one(given: &[TemplateValue]) -> Option<&TemplateValue> {
    match given {
        [value] => Some(value),
        _ => None,
    }
}

fn text1(given: &[TemplateValue]) -> Option<&[u8]> {
    match given {
        [TemplateValue::Text(text)] => Some(text),
        _ => None,
    }
}

/// Returns two values of the same kind.
fn pair(given: &[TemplateValue]) -> Option<(&TemplateValue, &TemplateValue)> {
    match given {
        [one, other] if std::mem::discriminant(one) == std::mem::discriminant(other) => {
            Some((one, other))
        }
        _ => None,
    }
}

fn ints(given: &[TemplateValue]) -> Option<(i64, i64)> {
    match given {
        [TemplateValue::Int(one), TemplateValue::Int(other)] => Some((*one, *other)),
        _ => None,
    }
}

/// Returns the first argument that `decides`, or else the last: Go's `and` and `or` return a value.
fn first_that(
    given: &[TemplateValue],
    decides: fn(&TemplateValue) -> bool,
) -> Option<Result<TemplateValue, TemplateFault>> {
    given.iter().find(|value| decides(value)).or(given.last()).map(|value| Ok(value.clone()))
}

fn equal(
    given: &[TemplateValue],
    _: &RenderContext<'_>,
) -> Option<Result<TemplateValue, TemplateFault>> {
    let (first, others) = given.split_first()?;
    let comparable =
        |other: &TemplateValue| std::mem::discriminant(first) == std::mem::discriminant(other);
    let fits = !others.is_empty() && others.iter().all(comparable);
    fits.then(|| Ok(TemplateValue::Bool(others.contains(first))))
}

fn len(
    given: &[TemplateValue],
    _: &RenderContext<'_>,
) -> Option<Result<TemplateValue, TemplateFault>> {
    let length = i64::try_from(text1(given)?.len()).ok()?;
    Some(Ok(TemplateValue::Int(length)))
}

/// Returns random letters and digits, all equally likely: bytes that would favour the first letters
/// are dropped.
fn random(
    given: &[TemplateValue],
    around: &RenderContext<'_>,
) -> Option<Result<TemplateValue, TemplateFault>> {
    let length = match given {
        [TemplateValue::Int(length)] => {
            usize::try_from(*length).ok().filter(|length| (1..=LONGEST_RESULT).contains(length))?
        }
        _ => return None,
    };
    let mut text = Vec::with_capacity(length);
    while text.len() < length {
        let wanted = u32::try_from(length + length / 8 + 8).ok()?;
        let before = text.len();
        let bytes = (around.random)(wanted)
            .into_iter()
            .filter(|byte| usize::from(*byte) < 4 * BASE62.len());
        text.extend(bytes.filter_map(|byte| BASE62.get(usize::from(byte) % BASE62.len())));
        if text.len() == before {
            return Some(Err(TemplateFault::NoRandomness));
        }
    }
    text.truncate(length);
    Some(done(text))
}

fn truncate(
    given: &[TemplateValue],
    _: &RenderContext<'_>,
) -> Option<Result<TemplateValue, TemplateFault>> {
    let (most, text) = cut(given)?;
    (most > 0).then(|| done(text.get(..most).unwrap_or(text)))
}

fn truncate_sha256(
    given: &[TemplateValue],
    _: &RenderContext<'_>,
) -> Option<Result<TemplateValue, TemplateFault>> {
    let (most, text) = cut(given)?;
    let prefix_length = most.checked_sub(HASH_DIGITS).filter(|length| *length > 0)?;
    if text.len() <= most {
        return Some(done(text));
    }
    let (prefix, lost) = text.split_at_checked(prefix_length)?;
    let hash = hex(&Sha256::digest(lost));
    let mut text = prefix.to_vec();
    text.extend(hash.bytes().take(HASH_DIGITS));
    Some(done(text))
}

fn cut(given: &[TemplateValue]) -> Option<(usize, &[u8])> {
    match given {
        [TemplateValue::Int(most), TemplateValue::Text(text)] => {
            Some((usize::try_from(*most).ok()?, text))
        }
        _ => None,
    }
}

fn change_case(text: &[u8], recase: fn(&str) -> String) -> Vec<u8> {
    recase(&String::from_utf8_lossy(text)).into_bytes()
}

fn replace(
    given: &[TemplateValue],
    _: &RenderContext<'_>,
) -> Option<Result<TemplateValue, TemplateFault>> {
    let [TemplateValue::Text(old), TemplateValue::Text(new), TemplateValue::Text(text)] = given
    else {
        return None;
    };
    if old.is_empty() {
        return None;
    }
    let mut replaced = Vec::new();
    let mut rest = text.as_slice();
    while let Some((first, tail)) = rest.split_first() {
        if let Some(after) = rest.strip_prefix(old.as_slice()) {
            replaced.extend_from_slice(new);
            rest = after;
        } else {
            replaced.push(*first);
            rest = tail;
        }
        if replaced.len() > LONGEST_VALUE {
            return Some(Err(TemplateFault::TooLong));
        }
    }
    Some(done(replaced))
}

fn hex(bytes: &[u8]) -> String {
    bytes
        .iter()
        .flat_map(|byte| [byte >> 4, byte & 15])
        .filter_map(|digit| char::from_digit(digit.into(), 16))
        .collect()
}

/// Returns a random UUID (version 4).
fn uuid(
    given: &[TemplateValue],
    around: &RenderContext<'_>,
) -> Option<Result<TemplateValue, TemplateFault>> {
    none(given)?;
    let Ok(bytes) = <[u8; 16]>::try_from((around.random)(16)) else {
        return Some(Err(TemplateFault::NoRandomness));
    };
    let bits = u128::from_be_bytes(bytes) & !(0xf000_u128 << 64) & !(0xc000_u128 << 48)
        | 0x4000 << 64
        | 0x8000 << 48;
    let digits = format!("{bits:032x}");
    let groups =
        [0..8, 8..12, 12..16, 16..20, 20..32].map(|range| digits.get(range).unwrap_or_default());
    Some(done(groups.join("-")))
}

/// Formats the time in UTC by a Go layout of two-digit parts, `2006`, punctuation, `T` and `Z`.
fn timestamp(
    given: &[TemplateValue],
    around: &RenderContext<'_>,
) -> Option<Result<TemplateValue, TemplateFault>> {
    let layout = std::str::from_utf8(text1(given)?).ok()?;
    let moment =
        OffsetDateTime::from_unix_timestamp(i64::try_from(around.now / 1000).ok()?).ok()?;
    let parts = [
        ("2006", moment.year(), 4),
        ("06", moment.year() % 100, 2),
        ("01", u8::from(moment.month()).into(), 2),
        ("02", moment.day().into(), 2),
        ("15", moment.hour().into(), 2),
        ("04", moment.minute().into(), 2),
        ("05", moment.second().into(), 2),
    ];
    let mut text = String::new();
    let mut rest = layout;
    while let Some(first) = rest.chars().next() {
        let part =
            parts.iter().find_map(|part| rest.strip_prefix(part.0).map(|after| (part, after)));
        if let Some(((_, number, width), after)) = part {
            text.push_str(&format!("{number:0width$}"));
            rest = after;
        } else if !first.is_alphanumeric() || matches!(first, 'T' | 'Z') {
            text.push(first);
            rest = rest.get(first.len_utf8()..)?;
        } else {
            return None;
        }
    }
    Some(done(text))
}

fn printf(
    given: &[TemplateValue],
    _: &RenderContext<'_>,
) -> Option<Result<TemplateValue, TemplateFault>> {
    let (TemplateValue::Text(format), values) = given.split_first()? else { return None };
    let values: Vec<PrintedValue<'_>> = values
        .iter()
        .map(|value| match value {
            TemplateValue::Text(text) => PrintedValue::Text(text),
            TemplateValue::Int(number) => PrintedValue::Int(*number),
            TemplateValue::Bool(flag) => PrintedValue::Bool(*flag),
        })
        .collect();
    match printf::printf(std::str::from_utf8(format).ok()?, &values) {
        Ok(text) => Some(Ok(TemplateValue::Text(text))),
        Err(PrintfFault::WrongValues) => None,
        Err(PrintfFault::UnknownVerb(written)) => Some(Err(TemplateFault::UnknownVerb(written))),
        Err(PrintfFault::TooLong) => Some(Err(TemplateFault::TooLong)),
    }
}

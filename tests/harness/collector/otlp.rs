//! A strict reader of OTLP's protobuf messages: an unknown field, a wrong type or an impossible
//! value is a fault.

use std::collections::BTreeMap;

/// A span as it arrived.
#[derive(Clone, Debug)]
pub struct Span {
    /// 32 hexadecimal digits.
    pub trace: String,
    /// 16 hexadecimal digits.
    pub id: String,
    /// 16 hexadecimal digits; empty for a root.
    pub parent: String,
    pub name: String,
    /// 1: internal, 2: server, 3: client.
    pub kind: u64,
    /// Nanoseconds since 1970.
    pub begin: u64,
    /// Nanoseconds since 1970.
    pub end: u64,
    /// Values as texts.
    pub attributes: BTreeMap<String, String>,
    pub is_error: bool,
}

impl Span {
    /// Returns the value of an attribute; empty if there is none.
    pub fn attribute(&self, name: &str) -> &str {
        self.attributes.get(name).map(String::as_str).unwrap_or_default()
    }

    /// Returns the duration in seconds.
    pub fn seconds(&self) -> f64 {
        (self.end - self.begin) as f64 / 1e9
    }
}

/// The value of a field.
enum Wire<'a> {
    Number(u64),
    Fixed(u64),
    Bytes(&'a [u8]),
}

type Decoded<T> = Result<T, String>;

/// Returns the spans of an `ExportTraceServiceRequest`.
pub(super) fn decode(body: &[u8]) -> Decoded<Vec<Span>> {
    let mut spans = Vec::new();
    for (field, value) in fields(body)? {
        only(field, 1, "ExportTraceServiceRequest")?;
        for (field, value) in fields(bytes(&value)?)? {
            match field {
                1 => check_resource(bytes(&value)?)?,
                2 => spans.extend(scope_spans(bytes(&value)?)?),
                _ => return Err(format!("ResourceSpans has no field {field}")),
            }
        }
    }
    Ok(spans)
}

/// Checks the attributes of the resource: the name and the version of the service.
fn check_resource(message: &[u8]) -> Decoded<()> {
    let mut attributes = BTreeMap::new();
    for (field, value) in fields(message)? {
        only(field, 1, "Resource")?;
        let (key, value) = key_value(bytes(&value)?)?;
        attributes.insert(key, value);
    }
    let names: Vec<&String> = attributes.keys().collect();
    if names != ["service.name", "service.version"] || attributes["service.name"] != "bulkhead" {
        return Err(format!("the resource is {attributes:?}"));
    }
    Ok(())
}

fn scope_spans(message: &[u8]) -> Decoded<Vec<Span>> {
    let mut spans = Vec::new();
    for (field, value) in fields(message)? {
        match field {
            1 => {
                for (field, value) in fields(bytes(&value)?)? {
                    text(&value)?;
                    if ![1, 2].contains(&field) {
                        return Err(format!("InstrumentationScope has no field {field}"));
                    }
                }
            }
            2 => spans.push(span(bytes(&value)?)?),
            _ => return Err(format!("ScopeSpans has no field {field}")),
        }
    }
    Ok(spans)
}

fn span(message: &[u8]) -> Decoded<Span> {
    let mut span = Span {
        trace: String::new(),
        id: String::new(),
        parent: String::new(),
        name: String::new(),
        kind: 0,
        begin: 0,
        end: 0,
        attributes: BTreeMap::new(),
        is_error: false,
    };
    for (field, value) in fields(message)? {
        match (field, &value) {
            (1, _) => span.trace = hexadecimal(&value, 16)?,
            (2, _) => span.id = hexadecimal(&value, 8)?,
            (4, _) => span.parent = hexadecimal(&value, 8)?,
            (5, _) => span.name = text(&value)?,
            (6, Wire::Number(kind @ 1..=5)) => span.kind = *kind,
            (7, Wire::Fixed(time)) => span.begin = *time,
            (8, Wire::Fixed(time)) => span.end = *time,
            (9, _) => {
                let (key, value) = key_value(bytes(&value)?)?;
                if span.attributes.insert(key.clone(), value).is_some() {
                    return Err(format!("the attribute {key} is there twice"));
                }
            }
            (15, _) => span.is_error = is_error(bytes(&value)?)?,
            _ => return Err(format!("Span has no field {field} of this type")),
        }
    }
    let has_ids = !span.trace.is_empty() && !span.id.is_empty() && !span.name.is_empty();
    if !has_ids || span.kind == 0 || span.begin == 0 || span.end < span.begin {
        return Err(format!("an impossible span: {span:?}"));
    }
    Ok(span)
}

fn is_error(message: &[u8]) -> Decoded<bool> {
    let mut is_error = false;
    for (field, value) in fields(message)? {
        match (field, value) {
            (3, Wire::Number(code @ 0..=2)) => is_error = code == 2,
            _ => return Err(format!("Status has no field {field} of this type")),
        }
    }
    Ok(is_error)
}

fn key_value(message: &[u8]) -> Decoded<(String, String)> {
    let (mut key, mut found) = (String::new(), None);
    for (field, value) in fields(message)? {
        match field {
            1 => key = text(&value)?,
            2 => {
                for (field, value) in fields(bytes(&value)?)? {
                    found = Some(match (field, &value) {
                        (1, _) => text(&value)?,
                        (3, Wire::Number(number)) => number.to_string(),
                        _ => return Err(format!("AnyValue has no field {field} of this type")),
                    });
                }
            }
            _ => return Err(format!("KeyValue has no field {field}")),
        }
    }
    match found {
        Some(value) if !key.is_empty() => Ok((key, value)),
        _ => Err(format!("the attribute {key:?} has no value")),
    }
}

fn only(field: u64, wanted: u64, message: &str) -> Decoded<()> {
    if field == wanted { Ok(()) } else { Err(format!("{message} has no field {field}")) }
}

fn bytes<'a>(value: &Wire<'a>) -> Decoded<&'a [u8]> {
    match value {
        Wire::Bytes(bytes) => Ok(bytes),
        _ => Err("a message or text has another wire type".to_owned()),
    }
}

fn text(value: &Wire<'_>) -> Decoded<String> {
    let bytes = bytes(value)?.to_vec();
    String::from_utf8(bytes).map_err(|_| "a text is not UTF-8".to_owned())
}

/// Returns an id of `length` bytes that is not 0.
fn hexadecimal(value: &Wire<'_>, length: usize) -> Decoded<String> {
    let bytes = bytes(value)?;
    if bytes.len() != length || bytes.iter().all(|byte| *byte == 0) {
        return Err(format!("{bytes:?} is not an id of {length} bytes"));
    }
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

/// Splits a message into its fields.
fn fields(mut rest: &[u8]) -> Decoded<Vec<(u64, Wire<'_>)>> {
    let mut found = Vec::new();
    while !rest.is_empty() {
        let tag = varint(&mut rest)?;
        let value = match tag & 7 {
            0 => Wire::Number(varint(&mut rest)?),
            1 => {
                let (fixed, after) = rest.split_at_checked(8).ok_or("a torn fixed64")?;
                rest = after;
                Wire::Fixed(u64::from_le_bytes(fixed.try_into().expect("eight bytes")))
            }
            2 => {
                let length = usize::try_from(varint(&mut rest)?).expect("64 bits");
                let (bytes, after) = rest.split_at_checked(length).ok_or("a torn field")?;
                rest = after;
                Wire::Bytes(bytes)
            }
            other => return Err(format!("wire type {other} is not in these messages")),
        };
        found.push((tag >> 3, value));
    }
    Ok(found)
}

fn varint(rest: &mut &[u8]) -> Decoded<u64> {
    let mut value = 0;
    for shift in (0..64).step_by(7) {
        let (first, after) = rest.split_first().ok_or("a torn number")?;
        *rest = after;
        value |= u64::from(first & 0x7f) << shift;
        if first & 0x80 == 0 {
            return Ok(value);
        }
    }
    Err("a number of more than ten bytes".to_owned())
}

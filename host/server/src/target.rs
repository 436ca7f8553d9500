//! The request line: verb, path and query parameters.
//!
//! This file prevents a path that policy and routing read differently. The path is decoded once, an
//! escaped slash is refused, and `bulkhead_wire::name::canonical_path` refuses the rest (`..`,
//! `//`, control characters).

use bulkhead_wire::description::Verb;
use bulkhead_wire::failure::{Failure, FailureKind, quoted};
use bulkhead_wire::name::{LONGEST_PATH, canonical_path};
use hyper::Method;
use percent_encoding::percent_decode_str;
use serde_json::{Map, Value};
use std::borrow::Cow;

/// Maximum number of parameters in a query or form: a parameter takes 2 bytes of text but 100 bytes
/// of memory.
const PARAMETERS_MAX: usize = 1_000;

/// Path of the descriptions of all paths.
const HELP: &str = "sys/internal/help/";

/// The verb and path of the request line, without the query.
#[derive(Debug, PartialEq)]
pub struct RequestTarget {
    /// The verb, unless the query [changes](query) it.
    pub verb: Verb,
    /// Canonical path: decoded, without `/v1/`, without slashes at the ends.
    pub path: String,
}

/// Parses the verb and the path, which is still escaped. A request for help becomes a read of the
/// path below [`HELP`].
///
/// # Errors
/// 404 outside `/v1/`; 400 for an invalid path, or for a write to a path that ends in `/`; 405 for
/// an unknown verb.
pub fn read(method: &Method, path: &str, query: Option<&str>) -> Result<RequestTarget, Failure> {
    let raw =
        path.strip_prefix("/v1/").filter(|rest| !rest.is_empty()).ok_or_else(Failure::absent)?;
    let is_help = asks_for_help(method, query.unwrap_or_default());
    let verb = if is_help { Verb::Read } else { verb_of(method)? };
    if verb == Verb::Write && raw.ends_with('/') {
        return Err(Failure::invalid(
            "cannot write to a path ending in '/'; leave the last slash out",
        ));
    }
    let path = canonical_path(&decode_path(raw)?).map_err(Failure::invalid)?;
    Ok(RequestTarget { verb, path: if is_help { format!("{HELP}{path}") } else { path } })
}

/// Reports whether a request asks for the description of its path: by the method `HELP`, or by GET
/// or LIST with `help=true`.
fn asks_for_help(method: &Method, query: &str) -> bool {
    let is_asked = || query.split('&').any(|pair| pair.strip_prefix("help=").is_some_and(is_true));
    match method.as_str() {
        "HELP" => true,
        "GET" | "HEAD" | "LIST" => is_asked(),
        _ => false,
    }
}

/// Parses the still escaped query of a read, list or delete. `GET` with `list=true` becomes a list.
/// The fields of a write are in its body, see [`refuse_query`].
///
/// # Errors
/// 400 for an invalid query; 405 for an unsupported operation.
pub fn query(verb: Verb, query: Option<&str>) -> Result<(Verb, Map<String, Value>), Failure> {
    if matches!(verb, Verb::Write | Verb::Patch) {
        return Ok((verb, Map::new()));
    }
    let mut fields = parameters(query.unwrap_or_default())?;
    let verb = take_controls(verb, &mut fields)?;
    Ok((verb, fields))
}

/// Refuses the query of a request whose fields are in the body. Fields of both places would let a
/// caller put a secret into the URL, which proxies log, and would join user data where a path
/// stores its body as sent.
///
/// # Errors
/// 400 if the query has a parameter.
pub fn refuse_query(query: Option<&str>) -> Result<(), Failure> {
    match query.unwrap_or_default().split('&').all(str::is_empty) {
        true => Ok(()),
        false => Err(Failure::invalid(
            "a write takes fields from the body; move the parameters of the query into the body",
        )),
    }
}

/// Joins the fields of the query and of the body. `null` means absent.
///
/// # Errors
/// 400 if a field has one value in the query and another in the body.
pub fn join_fields(
    mut query: Map<String, Value>,
    body: Map<String, Value>,
) -> Result<Map<String, Value>, Failure> {
    for (name, value) in body {
        match query.get(&name) {
            Some(_) if value.is_null() => continue,
            Some(query_value) if !has_text(&value, query_value) => {
                let name = quoted(&name);
                return Err(Failure::invalid(format!(
                    "{name} has different values in the query and in the body; send a single value"
                )));
            }
            _ => drop(query.insert(name, value)),
        }
    }
    Ok(query)
}

/// Returns whether a value of a body equals `text`, a value of the query.
fn has_text(value: &Value, text: &Value) -> bool {
    match (value, text) {
        (Value::Bool(value), Value::String(text)) => text == if *value { "true" } else { "false" },
        (Value::Number(value), Value::String(text)) => *text == value.to_string().as_str(),
        _ => value == text,
    }
}

fn verb_of(method: &Method) -> Result<Verb, Failure> {
    match method.as_str() {
        "GET" | "HEAD" => Ok(Verb::Read),
        "POST" | "PUT" => Ok(Verb::Write),
        "PATCH" => Ok(Verb::Patch),
        "DELETE" => Ok(Verb::Delete),
        "LIST" => Ok(Verb::List),
        // The message does not repeat the method, which may be up to 8 KiB of the caller's choice.
        _ => Err(unsupported_failure(
            "this method is not known; use GET, POST, PUT, PATCH, DELETE or LIST",
        )),
    }
}

fn unsupported_failure(why: &str) -> Failure {
    Failure::new(FailureKind::UnsupportedOperation, format!("unsupported operation: {why}"))
}

fn decode_path(raw: &str) -> Result<String, Failure> {
    let mut rest = raw;
    while let Some((_, after)) = rest.split_once('%') {
        let code = after.get(..2).filter(|code| code.bytes().all(|byte| byte.is_ascii_hexdigit()));
        match code {
            None => {
                return Err(Failure::invalid("the path has a '%' outside an escape; write %25"));
            }
            Some(code) if code.eq_ignore_ascii_case("2f") => {
                return Err(Failure::invalid(
                    "the path has an escaped slash (%2F); no name contains a slash",
                ));
            }
            Some(_) => rest = after,
        }
    }
    let decoded = percent_decode_str(raw).decode_utf8();
    decoded.map(Cow::into_owned).map_err(|_| Failure::invalid("the decoded path is not UTF-8"))
}

/// Parses a query or form such as `a=1&b=2`. A name given once becomes a string, a repeated name a
/// list.
///
/// # Errors
/// 400 for text that is not UTF-8 when decoded, and for more than 1000 parameters.
pub fn parameters(text: &str) -> Result<Map<String, Value>, Failure> {
    check_parameters(text)?;
    let mut fields = Map::new();
    for pair in text.split('&').filter(|pair| !pair.is_empty()) {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        add(&mut fields, decode_parameter(name)?, Value::String(decode_parameter(value)?));
    }
    Ok(fields)
}

/// Refuses a query or form of too many parameters.
///
/// # Errors
/// 400 for more than 1000 parameters.
pub fn check_parameters(text: &str) -> Result<(), Failure> {
    let count = text.split('&').filter(|pair| !pair.is_empty()).count();
    if count <= PARAMETERS_MAX {
        return Ok(());
    }
    Err(Failure::invalid(format!(
        "the query or form has {count} parameters; the most is {PARAMETERS_MAX}: send lists as \
         JSON in the body of a write"
    )))
}

/// Returns the path of a plain HTTP request, below its base, for the comparison with quotas:
/// decoded, without empty segments and dot segments. A component may read the path otherwise.
///
/// # Errors
/// 400 for a path that is longer than any path may be.
pub fn plain_path(path: &str) -> Result<String, Failure> {
    if path.len() > LONGEST_PATH {
        let length = path.len();
        let message = format!(
            "a path has at most {LONGEST_PATH} bytes, and this path has {length}; shorten the path"
        );
        return Err(Failure::invalid(message));
    }
    let decoded = percent_decode_str(path).decode_utf8_lossy();
    let mut segments: Vec<&str> = Vec::new();
    for segment in decoded.split('/') {
        match segment {
            "" | "." => {}
            ".." => drop(segments.pop()),
            segment => segments.push(segment),
        }
    }
    Ok(segments.join("/"))
}

fn add(fields: &mut Map<String, Value>, name: String, value: Value) {
    match fields.get_mut(&name) {
        None => {
            fields.insert(name, value);
        }
        Some(Value::Array(values)) => values.push(value),
        Some(first) => *first = Value::Array(vec![first.take(), value]),
    }
}

fn decode_parameter(text: &str) -> Result<String, Failure> {
    let spaced = text.replace('+', " ");
    let decoded = percent_decode_str(&spaced).decode_utf8();
    decoded
        .map(Cow::into_owned)
        .map_err(|_| Failure::invalid("a decoded query parameter or form field is not UTF-8"))
}

/// Takes `list`, `help` and `scan` out of the fields. Scan is refused instead of ignored: a read in
/// its place could issue a credential that the caller did not ask for. So are help and list with a
/// delete.
fn take_controls(verb: Verb, fields: &mut Map<String, Value>) -> Result<Verb, Failure> {
    let (list, help) = (take_flag(fields, "list")?, take_flag(fields, "help")?);
    if take_flag(fields, "scan")? {
        return Err(unsupported_failure(
            "\"scan\" is not served by this version; leave the parameter out",
        ));
    }
    if (help || list) && verb == Verb::Delete {
        let name = if help { "help" } else { "list" };
        let message = format!("a delete has no {name:?}; send GET with {name}=true");
        return Err(unsupported_failure(&message));
    }
    Ok(if verb == Verb::Read && list && !help { Verb::List } else { verb })
}

fn is_true(text: &str) -> bool {
    matches!(text, "1" | "t" | "T" | "true" | "TRUE" | "True")
}

fn take_flag(fields: &mut Map<String, Value>, name: &str) -> Result<bool, Failure> {
    match fields.remove(name) {
        None => Ok(false),
        Some(Value::String(text)) => match text.as_str() {
            text if is_true(text) => Ok(true),
            "0" | "f" | "F" | "false" | "FALSE" | "False" => Ok(false),
            _ => Err(Failure::invalid(format!(
                "query parameter {name:?} must be true or false, and is {text:?}"
            ))),
        },
        Some(_) => Err(Failure::invalid(format!(
            "query parameter {name:?} is given twice; send a single value"
        ))),
    }
}

#[cfg(test)]
mod tests;

//! The request line: verb, path and query parameters.
//!
//! Prevents a path that policy and routing read differently. The path is decoded once, an escaped
//! slash is refused, and `bulkhead_wire::name::canonical_path` refuses the rest (`..`, `//`,
//! control characters).

use bulkhead_wire::description::Verb;
use bulkhead_wire::failure::{Failure, FailureKind};
use bulkhead_wire::name::canonical_path;
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
/// The query of a write is ignored: its fields are in the body.
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
                return Err(Failure::invalid(
                    "the path has a '%' that is not an escape; write it as %25",
                ));
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
    decoded
        .map(Cow::into_owned)
        .map_err(|_| Failure::invalid("the path is not UTF-8 once its escapes are decoded"))
}

/// Parses a query or form such as `a=1&b=2`. A name given once becomes a string, a repeated name a
/// list.
///
/// # Errors
/// 400 for text that is not UTF-8 when decoded, and for more than 1000 parameters.
pub fn parameters(text: &str) -> Result<Map<String, Value>, Failure> {
    let mut fields = Map::new();
    let count = text.split('&').filter(|pair| !pair.is_empty()).count();
    if count > PARAMETERS_MAX {
        return Err(Failure::invalid(format!(
            "the query or form has {count} parameters; the most is {PARAMETERS_MAX}: send lists \
             as JSON in the body of a write"
        )));
    }
    for pair in text.split('&').filter(|pair| !pair.is_empty()) {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        add(&mut fields, decode_parameter(name)?, Value::String(decode_parameter(value)?));
    }
    Ok(fields)
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
    decoded.map(Cow::into_owned).map_err(|_| {
        Failure::invalid(
            "a query parameter or form field is not UTF-8 once its escapes are decoded",
        )
    })
}

/// Takes `list`, `help` and `scan` out of the fields. Scan is refused instead of ignored: a read in
/// its place could issue a credential that the caller did not ask for. So is help with a delete.
fn take_controls(verb: Verb, fields: &mut Map<String, Value>) -> Result<Verb, Failure> {
    let (list, help) = (take_flag(fields, "list")?, take_flag(fields, "help")?);
    if take_flag(fields, "scan")? {
        return Err(unsupported_failure(
            "\"scan\" is not served by this version; leave the parameter out",
        ));
    }
    if help && verb == Verb::Delete {
        return Err(unsupported_failure("a delete has no \"help\"; send GET with help=true"));
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
        Some(_) => {
            Err(Failure::invalid(format!("query parameter {name:?} is given twice; send it once")))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// A parsed request line.
    #[derive(Debug, PartialEq)]
    struct RequestLine {
        verb: Verb,
        path: String,
        fields: Map<String, Value>,
    }

    fn line(method: &Method, path: &str, asked: Option<&str>) -> Result<RequestLine, Failure> {
        let RequestTarget { verb, path } = read(method, path, asked)?;
        let (verb, fields) = query(verb, asked)?;
        Ok(RequestLine { verb, path, fields })
    }

    fn get(path: &str, query: &str) -> Result<RequestLine, Failure> {
        line(&Method::GET, path, Some(query))
    }

    fn status(result: Result<RequestLine, Failure>) -> u16 {
        result.unwrap_err().kind.status()
    }

    #[test]
    fn methods_become_verbs() {
        let verb = |name: &str| {
            read(&Method::from_bytes(name.as_bytes()).unwrap(), "/v1/a/b", None).map(|t| t.verb)
        };
        assert_eq!(verb("GET"), Ok(Verb::Read));
        assert_eq!(verb("HEAD"), Ok(Verb::Read));
        assert_eq!(verb("POST"), Ok(Verb::Write));
        assert_eq!(verb("PUT"), Ok(Verb::Write));
        assert_eq!(verb("PATCH"), Ok(Verb::Patch));
        assert_eq!(verb("DELETE"), Ok(Verb::Delete));
        assert_eq!(verb("LIST"), Ok(Verb::List));
        for unknown in ["OPTIONS", "TRACE", "SCAN", "get"] {
            let failure = verb(unknown).unwrap_err();
            assert_eq!(failure.kind, FailureKind::UnsupportedOperation, "{unknown}");
            assert!(failure.message.contains("unsupported operation"));
        }
    }

    #[test]
    fn only_v1_is_api_and_the_rest_is_an_empty_404() {
        for path in ["/", "/v1", "/v1/", "/v2/sys/health", "/ui", "*", "/V1/sys/health", "/v1x/y"] {
            let failure = get(path, "").unwrap_err();
            assert_eq!(
                (failure.kind, failure.message.as_str()),
                (FailureKind::NotFound, ""),
                "{path}"
            );
        }
    }

    #[test]
    fn a_path_is_decoded_once() {
        assert_eq!(get("/v1/database/roles/a%2Db", "").unwrap().path, "database/roles/a-b");
        assert_eq!(get("/v1/database/roles/a%252Fb", "").unwrap().path, "database/roles/a%2Fb");
        assert_eq!(get("/v1/sys/health/", "").unwrap().path, "sys/health");
    }

    #[test]
    fn paths_that_two_readers_could_read_two_ways_are_refused() {
        for path in [
            "/v1/a%2fb",
            "/v1/a%2Fb",
            "/v1/a/%2e%2e/b",
            "/v1/a/../b",
            "/v1/a//b",
            "/v1/a%00b",
            "/v1/a%0ab",
            "/v1/a%zz",
            "/v1/a%",
            "/v1/a%2",
            "/v1/%ff",
            "/v1/a/%E2%80%AEb/..",
        ] {
            assert_eq!(status(get(path, "")), 400, "{path}");
        }
    }

    #[test]
    fn a_write_may_not_end_in_a_slash() {
        assert_eq!(status(line(&Method::POST, "/v1/a/b/", None)), 400);
        assert_eq!(line(&Method::DELETE, "/v1/a/b/", None).unwrap().path, "a/b");
    }

    #[test]
    fn list_is_a_parameter_of_get_in_every_spelling_of_the_clients() {
        for word in ["true", "True", "1", "t"] {
            let target = get("/v1/a", &format!("list={word}&after=x")).unwrap();
            assert_eq!(
                (target.verb, Value::Object(target.fields)),
                (Verb::List, json!({"after": "x"})),
                "{word}"
            );
        }
        assert_eq!(get("/v1/a", "list=False").unwrap().verb, Verb::Read);
        assert_eq!(line(&Method::DELETE, "/v1/a", Some("list=true")).unwrap().verb, Verb::Delete);
        assert_eq!(status(get("/v1/a", "list=yes")), 400);
        assert_eq!(status(get("/v1/a", "list")), 400);
        assert_eq!(status(get("/v1/a", "list=1&list=0")), 400);
    }

    #[test]
    fn help_and_scan_never_become_a_plain_read() {
        let help = get("/v1/a", "help=1&list=true").unwrap();
        assert_eq!((help.verb, help.path.as_str()), (Verb::Read, "sys/internal/help/a"));
        let method = Method::from_bytes(b"HELP").unwrap();
        assert_eq!(line(&method, "/v1/a", None).unwrap().path, "sys/internal/help/a");
        assert_eq!(status(line(&Method::DELETE, "/v1/a", Some("help=1"))), 405);
        assert_eq!(status(get("/v1/a", "help=maybe")), 400);
        assert_eq!(status(get("/v1/a", "scan=true")), 405);
        assert_eq!(get("/v1/a", "help=0").unwrap().fields, Map::new());
    }

    #[test]
    fn query_parameters_become_fields_of_reads_and_deletes_only() {
        let fields = Value::Object(get("/v1/a", "x=1&y=a+b%2F&x=2&x=3&flag").unwrap().fields);
        assert_eq!(fields, json!({"x": ["1", "2", "3"], "y": "a b/", "flag": ""}));
        assert_eq!(
            line(&Method::DELETE, "/v1/a", Some("version=2")).unwrap().fields["version"],
            json!("2")
        );
        assert!(line(&Method::POST, "/v1/a", Some("version=2")).unwrap().fields.is_empty());
        assert_eq!(status(get("/v1/a", "x=%ff")), 400);
    }

    #[test]
    fn a_query_of_more_parameters_than_any_client_sends_is_refused_by_their_number() {
        let many = |count| vec!["a"; count].join("&");
        assert!(get("/v1/a", &many(PARAMETERS_MAX)).is_ok());
        for query in [many(PARAMETERS_MAX + 1), many(32_000)] {
            let failure = get("/v1/a", &query).unwrap_err();
            assert_eq!(failure.kind, FailureKind::InvalidRequest);
            assert!(failure.message.contains("the most is 1000"), "{}", failure.message);
        }
    }
}

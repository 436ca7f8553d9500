//! Query parameters of reads and writes, parsed in the order in which the scheduler refuses them.

use crate::refusal::ApiRefusal;
use std::time::Duration;

/// Maximum wait of a blocking read.
const LONGEST_WAIT: Duration = Duration::from_secs(300);

/// Decoded pairs of a query, in order.
pub(crate) type QueryPairs = [(String, String)];

/// Parameters of a read.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct ReadQuery {
    /// Region of the request; empty for this region.
    pub(crate) region: String,
    /// The caller accepts a stale answer. The flag is only checked, because each region answers
    /// from its own store.
    pub(crate) stale: bool,
    /// Prefix of the identifiers or names to list.
    pub(crate) prefix: String,
    /// Number of records per page; 0 for all.
    pub(crate) per_page: u32,
    /// Begin of the page, as named by the page before.
    pub(crate) next_token: String,
    /// Pages lists of policies and roles, too, for a region that follows this region.
    pub(crate) is_paged: bool,
    /// Filter expression for tokens.
    pub(crate) filter: String,
    /// Lists tokens in reverse order.
    pub(crate) reverse: bool,
    /// Maximum time to wait for an index above `index`.
    pub(crate) wait: Duration,
    /// The index that the caller knows; 0 for an immediate answer.
    pub(crate) index: u64,
}

/// Parses the parameters of a read.
///
/// # Errors
/// 400 with the scheduler's own message for the first malformed parameter.
pub(crate) fn read_query(pairs: &QueryPairs) -> Result<ReadQuery, ApiRefusal> {
    Ok(ReadQuery {
        region: first(pairs, "region").unwrap_or_default().to_owned(),
        stale: flag(pairs, "stale")?,
        prefix: first(pairs, "prefix").unwrap_or_default().to_owned(),
        per_page: page_size(pairs)?,
        next_token: first(pairs, "next_token").unwrap_or_default().to_owned(),
        is_paged: first(pairs, "paged").is_some_and(|text| text == "true"),
        filter: first(pairs, "filter").unwrap_or_default().to_owned(),
        // The scheduler accepts malformed values here, and treats them as false.
        reverse: first(pairs, "reverse").is_some_and(|text| text == "true"),
        wait: wait(pairs)?,
        index: index(pairs)?,
    })
}

/// Returns true if the answer is to be indented.
#[must_use]
pub(crate) fn is_pretty(pairs: &QueryPairs) -> bool {
    first(pairs, "pretty").is_some_and(|value| value != "0")
}

/// Returns the first value under `name`.
#[must_use]
pub(crate) fn first<'a>(pairs: &'a QueryPairs, name: &str) -> Option<&'a str> {
    pairs.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
}

fn flag(pairs: &QueryPairs, name: &str) -> Result<bool, ApiRefusal> {
    match first(pairs, name) {
        None => Ok(false),
        Some("" | "1" | "t" | "T" | "true" | "True" | "TRUE") => Ok(true),
        Some("0" | "f" | "F" | "false" | "False" | "FALSE") => Ok(false),
        Some(_) => Err(ApiRefusal::invalid(format!(
            "Expect `true` or `false` for `{name}` query string parameter"
        ))),
    }
}

fn page_size(pairs: &QueryPairs) -> Result<u32, ApiRefusal> {
    let text = first(pairs, "per_page").unwrap_or_default();
    if text.is_empty() {
        return Ok(0);
    }
    // Negative sizes mean no paging: the scheduler parses a signed 32-bit number.
    let size = text.parse::<i32>().map_err(|_| {
        ApiRefusal::invalid("Expect a number for `per_page` query string parameter")
    })?;
    Ok(u32::try_from(size).unwrap_or(0))
}

/// Parses the time to wait: 300 s at most, and 300 s if no positive time is given.
fn wait(pairs: &QueryPairs) -> Result<Duration, ApiRefusal> {
    let text = first(pairs, "wait").unwrap_or_default();
    let wait = if text.is_empty() { Some(Duration::ZERO) } else { go_duration(text) };
    let wait = wait.ok_or_else(|| ApiRefusal::invalid("Invalid wait time"))?;
    Ok(if wait.is_zero() { LONGEST_WAIT } else { wait.min(LONGEST_WAIT) })
}

fn index(pairs: &QueryPairs) -> Result<u64, ApiRefusal> {
    let text = first(pairs, "index").unwrap_or_default();
    if text.is_empty() {
        return Ok(0);
    }
    let is_plain = text.bytes().all(|byte| byte.is_ascii_digit());
    let index = text.parse().ok().filter(|_| is_plain);
    index.ok_or_else(|| ApiRefusal::invalid("Invalid index"))
}

/// Parses a duration in Go's format, such as `1h2m` or `60000ms`. Negative durations give zero. A
/// number without a unit is malformed, except `0`.
#[must_use]
pub(crate) fn go_duration(text: &str) -> Option<Duration> {
    let unsigned = text.strip_prefix(['-', '+']).unwrap_or(text);
    if unsigned == "0" {
        return Some(Duration::ZERO);
    }
    let mut rest = unsigned;
    let mut total = Duration::ZERO;
    while !rest.is_empty() {
        let number_ends = rest.find(|c: char| c != '.' && !c.is_ascii_digit())?;
        let number: f64 = rest[..number_ends].parse().ok()?;
        rest = &rest[number_ends..];
        let unit_ends = rest.find(|c: char| c == '.' || c.is_ascii_digit()).unwrap_or(rest.len());
        let unit = match &rest[..unit_ends] {
            "ns" => 1e-9,
            "us" | "µs" => 1e-6,
            "ms" => 1e-3,
            "s" => 1.0,
            "m" => 60.0,
            "h" => 3_600.0,
            _ => return None,
        };
        rest = &rest[unit_ends..];
        total = total.checked_add(Duration::try_from_secs_f64(number * unit).ok()?)?;
    }
    if text.is_empty() || unsigned.is_empty() {
        return None;
    }
    Some(if text.starts_with('-') { Duration::ZERO } else { total })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pairs(query: &str) -> Vec<(String, String)> {
        let pair = |part: &str| {
            let (name, value) = part.split_once('=').unwrap_or((part, ""));
            (name.to_owned(), value.to_owned())
        };
        query.split('&').map(pair).collect()
    }

    fn refused(query: &str) -> String {
        match read_query(&pairs(query)) {
            Err(ApiRefusal::Answered { status: 400, text }) => text,
            other => panic!("{query}: {other:?}"),
        }
    }

    #[test]
    fn parameters_are_read_as_the_scheduler_reads_them() {
        let read = |query: &str| read_query(&pairs(query)).unwrap();
        assert!(read("stale").stale && read("stale=1").stale && !read("stale=f").stale);
        assert_eq!(read("index=7&wait=60000ms").wait, Duration::from_secs(60));
        assert_eq!(read("index=7").index, 7);
        for query in ["wait=", "wait=0s", "wait=-5s", "wait=400s", "index="] {
            assert_eq!(read(query).wait, LONGEST_WAIT, "{query}");
        }
        assert_eq!(read("per_page=2&next_token=x").per_page, 2);
        assert!(is_pretty(&pairs("pretty")) && is_pretty(&pairs("pretty=false")));
        assert!(!is_pretty(&pairs("pretty=0")) && !is_pretty(&pairs("x")));
    }

    #[test]
    fn odd_parameters_are_refused_in_their_order() {
        assert!(refused("stale=maybe&index=x").contains("`stale`"));
        assert!(refused("per_page=many&wait=soon").contains("`per_page`"));
        assert_eq!(refused("index=abc&wait=soon"), "Invalid wait time");
        for query in ["index=abc", "index=-1", "index=0x10", "index=18446744073709551616"] {
            assert_eq!(refused(query), "Invalid index", "{query}");
        }
        for query in ["wait=5", "wait=1d", "wait=s", "wait=-", "wait=1e9s", "wait=."] {
            assert_eq!(refused(query), "Invalid wait time", "{query}");
        }
    }

    #[test]
    fn durations_parse_like_go() {
        for (text, milliseconds) in
            [("1h2m", 3_720_000), ("1.5s", 1_500), ("250ms", 250), ("0", 0), ("-3s", 0)]
        {
            let read = go_duration(text).unwrap();
            assert_eq!(read, Duration::from_millis(milliseconds), "{text}");
        }
    }
}

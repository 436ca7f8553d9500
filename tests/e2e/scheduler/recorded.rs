//! Exchanges recorded with the original scheduler: each request is sent again, in order, and its
//! answer is compared in status, headers, keys and types.
//!
//! Each line of `exchanges.jsonl` holds a request and facts about its answer. Placeholders name
//! records: `<R1>` is a value that an earlier answer gave under `takes`, `<R1:8>` its first eight
//! characters, `<R1^>` the value in capitals, `<d*256>` a letter 256 times, `<SOON>` a time in an
//! hour.
//!
//! A blocking exchange follows the write that ended it, and begins at index 1. Not recorded are
//! exchanges with two regions or without a leader, resets by a file, and the expiry of a token
//! after a minute. Deliberate differences are in [`DEPARTURES`] with their decision.

use bulkhead_tests::scheduler::{PlainAnswer, PlainRequest, Scheduler};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

const EXCHANGES: &str = include_str!("exchanges.jsonl");

/// Deliberate differences: the name of the exchange, our status, and the reason.
const DEPARTURES: [(&str, u16, &str); 30] = [
    ("role.empty-policies", 200, "F4: a role may have no policies"),
    ("u.no-policies", 200, "F4: a role may have no policies"),
    ("role.policy-null-second", 400, "F5: a null link is refused"),
    ("t.create-policy-null", 400, "F5: a null link is refused"),
    ("m.double-slash", 307, "no page of HTML beside the Location"),
    ("m.dot-segments", 307, "no page of HTML beside the Location"),
    ("l.prefix-odd-short", 400, "F1: prefixes are hexadecimal"),
    ("l.prefix-nonhex-even", 400, "F1: prefixes are hexadecimal"),
    ("l.prefix-no-hyphens", 400, "F1: prefixes are hexadecimal"),
    ("l.prefix-odd-anonymous", 400, "F1: prefixes are hexadecimal"),
    ("t.list-prefix-nonhex", 400, "F1: prefixes are hexadecimal"),
    ("l.prefix-upper", 200, "F1: the case of a prefix is folded"),
    ("u.collide-create-path", 400, "F2: a taken name is the caller's mistake"),
    ("d.missing-not-uuid", 404, "F2: a missing role is 404"),
    ("d.again", 404, "F2: a missing role is 404"),
    ("d.gzip", 200, "an empty body is not compressed"),
    ("t.self-garbage", 403, "F5: a token that is not an identifier is 403"),
    ("t.read-not-uuid-client", 403, "P4: an identifier in the path is the caller's"),
    ("t.read-36-nonhex", 404, "P4: an identifier in the path is the caller's"),
    ("t.list-global-prefix", 200, "the documented parameter global is served"),
    ("t.upload-taken-secret", 400, "F6: a secret in use is refused"),
    ("b.rename-name-client", 403, "F7: a token is proved again at the end of a wait"),
    ("b.delete-wait-client", 403, "F7: a token is proved again at the end of a wait"),
    ("b.revoked-wait", 403, "F7: a token is proved again at the end of a wait"),
    ("b.revoked-list", 403, "F7: a token is proved again at the end of a wait"),
    ("b.unlinked-wait", 403, "F7: a token is proved again at the end of a wait"),
    ("x.time-min-update", 200, "F6: an update keeps the end of a token"),
    ("x.ttl-min-update", 200, "F6: an update keeps the end of a token"),
    ("t.onetime", 404, "one-time tokens serve a web page that this server has not"),
    ("t.list-filter-type", 400, "no expressions: a filter is refused, never ignored"),
];

struct SchedulerExchange {
    recorded: Value,
    name: String,
}

/// Values of placeholders.
#[derive(Default)]
struct PlaceholderValues(BTreeMap<String, String>);

impl PlaceholderValues {
    /// Returns the text with its placeholders filled in, or the name of an unknown placeholder.
    fn fill(&self, text: &str) -> Result<String, String> {
        let Some((before, rest)) = text.split_once('<') else { return Ok(text.to_owned()) };
        let Some((name, after)) = rest.split_once('>') else { return Ok(text.to_owned()) };
        Ok(format!("{before}{}{}", self.value(name)?, self.fill(after)?))
    }

    fn value(&self, name: &str) -> Result<String, String> {
        if let Some((letter, count)) = name.split_once('*') {
            return Ok(letter.repeat(count.parse().map_err(|_| name.to_owned())?));
        }
        if name == "SOON" {
            let time = OffsetDateTime::now_utc() + Duration::from_secs(3_600);
            return Ok(time.format(&Rfc3339).expect("a time can be written"));
        }
        let (plain, is_upper) = name.strip_suffix('^').map_or((name, false), |name| (name, true));
        let (plain, length) = plain.split_once(':').unwrap_or((plain, "36"));
        let value = self.0.get(plain.trim_end_matches('&')).ok_or_else(|| name.to_owned())?;
        let part: String = value.chars().take(length.parse().unwrap_or(36)).collect();
        Ok(if is_upper { part.to_uppercase() } else { part })
    }
}

impl SchedulerExchange {
    fn text(&self, key: &str) -> &str {
        self.recorded[key].as_str().unwrap_or_default()
    }

    /// Sends the request with its placeholders filled in, or returns the name of an unknown
    /// placeholder.
    fn ask(&self, scheduler: &Scheduler, names: &PlaceholderValues) -> Result<PlainAnswer, String> {
        let mut request = PlainRequest::new(self.text("method"), &names.fill(self.text("path"))?);
        for (name, value) in self.recorded["headers"].as_object().into_iter().flatten() {
            let values = value.as_array().cloned().unwrap_or_else(|| vec![value.clone()]);
            for value in values {
                let value = names.fill(value.as_str().unwrap_or_default())?;
                request = request.with_header(name, &value);
            }
        }
        request.body = names.fill(self.text("body"))?.into_bytes();
        Ok(request.send(scheduler.address()))
    }

    fn learn(&self, answer: &PlainAnswer, names: &mut PlaceholderValues) {
        let Some(takes) = self.recorded["takes"].as_object() else { return };
        if answer.status != 200 || answer.header("content-encoding").is_some() {
            return;
        }
        let body = answer.json();
        for (name, key) in takes {
            let value = &body[key.as_str().unwrap_or_default()];
            names.0.insert(name.clone(), value.as_str().unwrap_or_default().to_owned());
        }
    }

    /// Returns the first difference that no departure explains.
    fn unexplained(&self, answer: &PlainAnswer) -> Option<String> {
        let departure = DEPARTURES.iter().find(|(name, _, _)| *name == self.name);
        match (departure, self.difference(answer)) {
            (None, difference) => difference,
            (Some(_), None) => Some("it does not depart any more".to_owned()),
            (Some((_, status, _)), Some(_)) if answer.status == *status => None,
            (Some((_, status, _)), Some(_)) => {
                Some(format!("{} departs to {status}: {}", answer.status, answer.text()))
            }
        }
    }

    /// Returns the first difference between the answer and the recorded answer.
    fn difference(&self, answer: &PlainAnswer) -> Option<String> {
        let status = self.recorded["status"].as_u64().unwrap_or_default();
        if u64::from(answer.status) != status {
            return Some(format!("{} for {status}: {}", answer.status, answer.text()));
        }
        let expected: BTreeSet<&str> = self.recorded["answers"]
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(Value::as_str)
            .collect();
        let ours: BTreeSet<&str> = answer
            .headers
            .iter()
            .map(|(name, _)| name.as_str())
            .filter(|name| is_compared(name))
            .collect();
        if expected != ours {
            return Some(format!("headers {ours:?} for {expected:?}"));
        }
        let shape = self.recorded.get("shape")?;
        if answer.header("content-encoding").is_some() {
            return None;
        }
        difference(&answer.json(), shape, "")
    }
}

/// Returns true if a header is compared: not a header of every HTTP answer, and not an additional
/// spelling of the API document.
fn is_compared(name: &str) -> bool {
    let always =
        ["cache-control", "connection", "content-length", "date", "transfer-encoding", "vary"];
    !always.contains(&name) && !name.starts_with("x-scheduler-")
}

/// Returns the first place where a value differs from the shape.
fn difference(value: &Value, shape: &Value, place: &str) -> Option<String> {
    let other = || Some(format!("{place} is {value} for {shape}"));
    match (value, shape) {
        (_, Value::Object(either)) if either.contains_key("null or") => {
            let shape = &either["null or"];
            if value.is_null() { None } else { difference(value, shape, place) }
        }
        (Value::Object(value), Value::Object(shape)) => {
            let (ours, theirs): (Vec<_>, Vec<_>) = (value.keys().collect(), shape.keys().collect());
            if ours != theirs {
                return Some(format!("{place} has {ours:?} for {theirs:?}"));
            }
            value
                .iter()
                .find_map(|(key, value)| difference(value, &shape[key], &format!("{place}/{key}")))
        }
        (Value::Array(values), Value::Array(shapes)) => match (values.first(), shapes.first()) {
            (None, None) => None,
            (Some(_), Some(shape)) => {
                values.iter().find_map(|value| difference(value, shape, place))
            }
            // A list inside a record may be empty.
            (None, Some(_)) if !place.is_empty() => None,
            _ => other(),
        },
        (_, Value::String(kinds)) if kinds.split('|').any(|kind| kind == kind_of(value)) => None,
        _ => other(),
    }
}

fn kind_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "bool",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

fn exchanges() -> Vec<SchedulerExchange> {
    let exchange = |line: &str| {
        let recorded: Value = serde_json::from_str(line).expect("each line is one exchange");
        let name = recorded["name"].as_str().expect("a name").to_owned();
        SchedulerExchange { recorded, name }
    };
    EXCHANGES.lines().map(exchange).collect()
}

/// Sends the exchanges to a new server, and returns the differences.
fn replay(exchanges: &[SchedulerExchange]) -> Vec<String> {
    let (scheduler, mut names) = (Scheduler::before_bootstrap(), PlaceholderValues::default());
    let mut differences = Vec::new();
    for exchange in exchanges {
        let difference = match exchange.ask(&scheduler, &names) {
            Ok(answer) => {
                exchange.learn(&answer, &mut names);
                exchange.unexplained(&answer)
            }
            Err(unknown) => Some(format!("{unknown} is not known")),
        };
        differences.extend(difference.map(|difference| format!("{}: {difference}", exchange.name)));
    }
    differences
}

#[test]
fn recorded_exchanges_are_answered_alike() {
    let all = exchanges();
    let second = all.iter().position(|exchange| exchange.name == "boot").expect("a second life");
    let lives = [&all[..second], &all[second..]];
    let differences: Vec<String> = lives.iter().flat_map(|life| replay(life)).collect();
    assert!(differences.is_empty(), "{} differ:\n{}", differences.len(), differences.join("\n"));
}

#[test]
fn every_departure_has_an_exchange_and_a_reason() {
    let names: BTreeSet<String> = exchanges().into_iter().map(|exchange| exchange.name).collect();
    for (name, _, reason) in DEPARTURES {
        assert!(names.contains(name) && !reason.is_empty(), "{name}");
    }
}

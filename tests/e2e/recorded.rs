//! Exchanges recorded with a server of the same API: each request is sent again, in order, and its
//! answer is compared in status, keys and types.
//!
//! Each line of `recorded/exchanges.jsonl` holds a request and the shape of its answer. A
//! placeholder such as `<token-3>` is a value of an earlier answer.
//!
//! A part of the recording is left out, so some requests meet another state. These requests, and
//! deliberate differences, are in `recorded/departures.tsv` with our status and the reason. The
//! exchanges with a sealed server are in `sealed.rs` and `unseal.rs`.

use crate::world::World;
use bulkhead_tests::bulkhead::ROOT;
use bulkhead_tests::scheduler::{PlainAnswer, PlainRequest};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

const EXCHANGES: &str = include_str!("recorded/exchanges.jsonl");
/// Name, our status and reason, separated by tabs.
const DEPARTURES: &str = include_str!("recorded/departures.tsv");

/// Values of placeholders, by placeholder.
struct PlaceholderValues(BTreeMap<String, String>);

impl PlaceholderValues {
    fn of(world: &World) -> Self {
        let values = [
            ("<root>", ROOT.to_owned()),
            ("<database-password>", world.postgres.password.clone()),
            ("<database-url>", world.postgres.url()),
        ];
        Self(values.into_iter().map(|(name, value)| (name.to_owned(), value)).collect())
    }

    fn fill(&self, text: &str) -> String {
        self.0.iter().fold(text.to_owned(), |text, (name, value)| text.replace(name, value))
    }

    /// Stores the values of the placeholders in `shape`, taken from an answer.
    fn learn(&mut self, shape: &Value, answer: &Value) {
        match (shape, answer) {
            (Value::String(pattern), Value::String(text)) => {
                let Some((before, rest)) = pattern.split_once('<') else { return };
                let Some((name, after)) = rest.split_once('>') else { return };
                let value = text.strip_prefix(before).and_then(|rest| rest.strip_suffix(after));
                if let Some(value) = value {
                    self.0.entry(format!("<{name}>")).or_insert_with(|| value.to_owned());
                }
            }
            (Value::Object(shapes), Value::Object(values)) => {
                for (name, shape) in shapes {
                    values.get(name).into_iter().for_each(|value| self.learn(shape, value));
                }
            }
            (Value::Array(shapes), Value::Array(values)) => {
                shapes.iter().zip(values).for_each(|(shape, value)| self.learn(shape, value));
            }
            _ => {}
        }
    }
}

struct RecordedExchange(Value);

impl RecordedExchange {
    fn text(&self, key: &str) -> &str {
        self.0[key].as_str().unwrap_or_default()
    }

    fn ask(&self, world: &World, names: &PlaceholderValues) -> PlainAnswer {
        let mut request = PlainRequest::new(self.text("method"), &names.fill(self.text("path")));
        if let Some(token) = self.0["token"].as_str() {
            request = request.with_header("X-Vault-Token", &names.fill(token));
        }
        for (name, value) in self.0["headers"].as_object().into_iter().flatten() {
            let value = value.as_str().expect("a header is a text");
            request = request.with_header(name, &names.fill(value));
        }
        request.body = names.fill(self.text("body")).into_bytes();
        request.send(world.bulkhead.address())
    }

    /// Returns the first difference between the answer and the recorded answer.
    fn difference(&self, answer: &PlainAnswer) -> Option<String> {
        let status = self.0["status"].as_u64().expect("a status");
        if u64::from(answer.status) != status {
            return Some(format!("{} for {status}: {}", answer.status, answer.text()));
        }
        let shape = self.0.get("shape")?;
        if answer.body.is_empty() {
            return Some("the answer is empty".to_owned());
        }
        difference(&answer.json(), shape, "")
    }
}

/// Returns the first place where a value differs from the shape. A value may have more members, and
/// a list may be empty instead of a recorded null.
fn difference(value: &Value, shape: &Value, place: &str) -> Option<String> {
    match (value, shape) {
        (Value::Object(value), Value::Object(shape)) => shape.iter().find_map(|(key, shape)| {
            let place = format!("{place}/{key}");
            match value.get(key) {
                Some(value) => difference(value, shape, &place),
                None => Some(format!("{place} is missing")),
            }
        }),
        (Value::Array(values), Value::Array(shapes)) => match (values.first(), shapes.first()) {
            (Some(value), Some(shape)) => difference(value, shape, place),
            (None, Some(_)) => Some(format!("{place} is empty")),
            (_, None) => None,
        },
        (Value::Null | Value::Array(_) | Value::Object(_), Value::String(kind))
            if kind == "null" =>
        {
            None
        }
        (Value::Null, Value::Array(shapes)) if shapes.is_empty() => None,
        (Value::Bool(_), Value::String(kind)) if kind == "bool" => None,
        (Value::Number(_), Value::String(kind)) if kind == "number" => None,
        (Value::String(_), Value::String(kind))
            if !["bool", "number", "null"].contains(&&**kind) =>
        {
            None
        }
        _ => Some(format!("{place} is {value} for {shape}")),
    }
}

fn exchanges() -> Vec<RecordedExchange> {
    let exchange =
        |line| RecordedExchange(serde_json::from_str(line).expect("each line is one exchange"));
    EXCHANGES.lines().map(exchange).collect()
}

fn departures() -> BTreeMap<&'static str, (u16, &'static str)> {
    let departure = |line: &'static str| {
        let mut parts = line.splitn(3, '\t');
        let mut next = || parts.next().expect("a name, a status and a reason");
        let (name, status, reason) = (next(), next(), next());
        (name, (status.parse().expect("a status"), reason))
    };
    DEPARTURES.lines().map(departure).collect()
}

#[test]
fn recorded_exchanges_are_answered_alike() {
    let world = World::empty();
    let (departures, mut names) = (departures(), PlaceholderValues::of(&world));
    let mut unexplained = Vec::new();
    for exchange in exchanges() {
        let answer = exchange.ask(&world, &names);
        if let Some(shape) = exchange.0.get("shape").filter(|_| !answer.body.is_empty()) {
            names.learn(shape, &answer.json());
        }
        let name = exchange.text("name");
        let reason = match (departures.get(name), exchange.difference(&answer)) {
            (None, None) => continue,
            (Some((status, _)), Some(_)) if answer.status == *status => continue,
            (None, Some(difference)) => difference,
            (Some(_), None) => "it does not depart any more".to_owned(),
            (Some((status, _)), Some(difference)) => format!("departs to {status}: {difference}"),
        };
        unexplained.push(format!("{name}\t{}\t{reason}", answer.status));
    }
    assert!(unexplained.is_empty(), "{} differ:\n{}", unexplained.len(), unexplained.join("\n"));
}

#[test]
fn every_departure_has_an_exchange_and_a_reason() {
    let exchanges = exchanges();
    let names: BTreeSet<&str> = exchanges.iter().map(|exchange| exchange.text("name")).collect();
    for (name, (_, reason)) in departures() {
        assert!(names.contains(name) && !reason.is_empty(), "{name}");
    }
}

//! Label selectors of Kubernetes: conditions on the labels of an object, such as a namespace.
//!
//! The attack this file prevents: a selector misread as "every object". An unknown key or a
//! selector without conditions is refused (decision E2).

use super::names::{is_key, is_label_value};
use crate::document::{ObjectMembers, parse};
use bulkhead_wire::failure::quoted;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

/// Maximum number of conditions.
const MOST: usize = 1_000;

/// A label selector with at least one condition. An object matches if it meets all conditions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LabelSelector {
    conditions: Vec<LabelCondition>,
}

/// A condition on the label of a key.
#[derive(Clone, Debug, PartialEq, Eq)]
enum LabelCondition {
    In(String, BTreeSet<String>),
    NotIn(String, BTreeSet<String>),
    Exists(String),
    DoesNotExist(String),
}

impl LabelSelector {
    /// Parses `text`: JSON or YAML with `matchLabels`, `matchExpressions` or both.
    ///
    /// # Errors
    /// The reason, for a message that begins with the field.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut members = ObjectMembers::of(parse(text)?)?;
        let (labels, expressions) = (members.take("matchLabels"), members.take("matchExpressions"));
        members.refuse_others()?;
        let mut conditions = labels.map_or(Ok(Vec::new()), match_labels)?;
        conditions.extend(expressions.map_or(Ok(Vec::new()), match_expressions)?);
        match conditions.len() {
            0 => Err("the selector has no conditions, and would match every namespace; to match \
                     every namespace, use * in the list of namespaces"
                .to_owned()),
            count if count > MOST => Err(format!("it has more than {MOST} conditions")),
            _ => Ok(Self { conditions }),
        }
    }

    /// Returns whether an object with these labels meets all conditions.
    #[must_use]
    pub fn matches(&self, labels: &BTreeMap<String, String>) -> bool {
        self.conditions.iter().all(|condition| match condition {
            LabelCondition::In(key, values) => {
                labels.get(key).is_some_and(|value| values.contains(value))
            }
            LabelCondition::NotIn(key, values) => {
                labels.get(key).is_none_or(|value| !values.contains(value))
            }
            LabelCondition::Exists(key) => labels.contains_key(key),
            LabelCondition::DoesNotExist(key) => !labels.contains_key(key),
        })
    }
}

fn match_labels(value: Value) -> Result<Vec<LabelCondition>, String> {
    let Value::Object(labels) = value else {
        return Err("matchLabels is not an object of texts".to_owned());
    };
    let condition = |(key, value): (String, Value)| match value {
        Value::String(value) => {
            Ok(LabelCondition::In(checked_key(key)?, BTreeSet::from([checked_value(value)?])))
        }
        _ => Err(format!(
            "matchLabels: the value of {} is not a text; quote the value",
            quoted(&key)
        )),
    };
    labels.into_iter().map(condition).collect()
}

fn match_expressions(value: Value) -> Result<Vec<LabelCondition>, String> {
    let Value::Array(all) = value else {
        return Err("matchExpressions is not a list".to_owned());
    };
    all.into_iter().map(expression).collect()
}

fn expression(value: Value) -> Result<LabelCondition, String> {
    let mut members = ObjectMembers::of(value)?;
    let text = |value: Option<Value>| value.as_ref().and_then(Value::as_str).map(str::to_owned);
    let key = text(members.take("key")).ok_or("an expression has no key")?;
    let operator = text(members.take("operator")).ok_or("an expression has no operator")?;
    let values = members.take_texts("values")?;
    members.refuse_others()?;
    let key = checked_key(key)?;
    let values: BTreeSet<String> =
        values.into_iter().map(checked_value).collect::<Result<_, _>>()?;
    match (operator.as_str(), values.is_empty()) {
        ("In", false) => Ok(LabelCondition::In(key, values)),
        ("NotIn", false) => Ok(LabelCondition::NotIn(key, values)),
        ("In" | "NotIn", true) => Err(format!("operator {operator} needs values")),
        ("Exists", true) => Ok(LabelCondition::Exists(key)),
        ("DoesNotExist", true) => Ok(LabelCondition::DoesNotExist(key)),
        ("Exists" | "DoesNotExist", false) => Err(format!("operator {operator} takes no values")),
        _ => {
            let shown = quoted(&operator);
            Err(format!("operator {shown} is unknown; there are In, NotIn, Exists, DoesNotExist"))
        }
    }
}

fn checked_key(key: String) -> Result<String, String> {
    if is_key(&key) { Ok(key) } else { Err(format!("{} is not a key of labels", quoted(&key))) }
}

fn checked_value(value: String) -> Result<String, String> {
    if is_label_value(&value) {
        Ok(value)
    } else {
        Err(format!("{} is not a value of labels", quoted(&value)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn matches(text: &str, labels: &[(&str, &str)]) -> bool {
        let pairs = labels.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned()));
        LabelSelector::parse(text).unwrap().matches(&BTreeMap::from_iter(pairs))
    }

    #[test]
    fn selectors_match_as_the_cluster_does() {
        let blue = r#"{"matchLabels":{"team":"blue"}}"#;
        assert!(matches(blue, &[("team", "blue"), ("x", "y")]));
        assert!(!matches(blue, &[("team", "red")]) && !matches(blue, &[]));
        assert!(matches("{'matchLabels':{'team':'blue'}}", &[("team", "blue")]));
        assert!(!matches("{'matchLabels':{'team':'blue'}}", &[("team", "red")]));
        let both = "matchLabels: {a: b}\nmatchExpressions:\n- {key: team, operator: In, \
                    values: [blue, green]}\n- {key: old, operator: DoesNotExist, values: []}\n";
        assert!(matches(both, &[("a", "b"), ("team", "green")]));
        assert!(!matches(both, &[("a", "b"), ("team", "green"), ("old", "")]));
        let other = "matchExpressions: [{key: team, operator: NotIn, values: [red]}]";
        assert!(matches(other, &[]) && !matches(other, &[("team", "red")]));
        assert!(matches("matchExpressions: [{key: k, operator: Exists}]", &[("k", "")]));
    }

    #[test]
    fn selector_misreadable_as_every_namespace_is_refused() {
        for (text, expected) in [
            (r#"{"matchLabel":{"team":"blue"}}"#, "\"matchLabel\""),
            ("{}", "every namespace"),
            ("matchLabels: {}", "every namespace"),
            ("matchLabels: [a]", "not an object"),
            ("matchLabels: {a: 1}", "quote the value"),
            ("matchLabels: {a: 'b,c'}", "not a value"),
            ("matchLabels: {'a b': c}", "not a key"),
            ("matchExpressions: {}", "not a list"),
            ("matchExpressions: [{key: a, operator: In}]", "needs values"),
            ("matchExpressions: [{key: a, operator: Exists, values: [b]}]", "takes no values"),
            ("matchExpressions: [{key: a, operator: Like, values: [b]}]", "\"Like\""),
            ("matchExpressions: [{operator: Exists}]", "no key"),
            ("matchExpressions: [{key: a, operator: Exists, vals: []}]", "\"vals\""),
            ("{]", "neither JSON nor YAML"),
            ("{'matchLabel': {'team': 'blue'}}", "\"matchLabel\""),
            ("all", "not an object"),
        ] {
            let why = LabelSelector::parse(text).unwrap_err();
            assert!(why.contains(expected), "{text}: {why}");
        }
    }
}

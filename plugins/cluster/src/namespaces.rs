//! Namespaces permitted to a role: a list, or required labels.
//!
//! The attack this file prevents: a selector misread as "every namespace". An unknown key or a
//! selector without conditions is refused (decision E2).

use crate::document::{ObjectMembers, parse};
use crate::names::{is_key, is_label, is_label_value};
use bulkhead_sdk::Failure;
use bulkhead_sdk::wire::failure::quoted;
use kube::core::{Expression, Selector};
use serde_json::Value;
use std::collections::BTreeSet;

/// Means every namespace.
pub(crate) const ALL: &str = "*";

/// Maximum number of namespaces in a list, and of conditions in a selector.
const MOST: usize = 1_000;

/// Normalises the list: lower case, sorted, without duplicates.
pub(crate) fn listed(given: &[String]) -> Result<Vec<String>, Failure> {
    let names: BTreeSet<String> = given
        .iter()
        .map(|name| name.trim().to_lowercase())
        .filter(|name| !name.is_empty())
        .collect();
    if names.len() > MOST {
        return Err(Failure::invalid(format!(
            "allowed_cluster_namespaces: there may be at most {MOST}; use a selector"
        )));
    }
    match names.iter().find(|name| *name != ALL && !is_label(name)) {
        Some(name) => Err(Failure::invalid(format!(
            "allowed_cluster_namespaces: {} is no name of a namespace",
            quoted(name)
        ))),
        None => Ok(names.into_iter().collect()),
    }
}

/// Parses the selector in `text`.
///
/// # Errors
/// The reason the selector is invalid.
pub(crate) fn selector(text: &str) -> Result<Selector, Failure> {
    let read = || {
        let mut members = ObjectMembers::of(parse(text)?)?;
        let (labels, expressions) = (members.take("matchLabels"), members.take("matchExpressions"));
        members.refuse_others()?;
        let mut conditions = labels.map_or(Ok(Vec::new()), match_labels)?;
        conditions.extend(expressions.map_or(Ok(Vec::new()), match_expressions)?);
        match conditions.len() {
            0 => Err("it asks for nothing, and would match every namespace; use \
                      allowed_cluster_namespaces=* for that"
                .to_owned()),
            count if count > MOST => Err(format!("it has more than {MOST} conditions")),
            _ => Ok(Selector::from_iter(conditions)),
        }
    };
    read().map_err(|why: String| {
        Failure::invalid(format!("allowed_cluster_namespace_selector: {why}"))
    })
}

fn match_labels(value: Value) -> Result<Vec<Expression>, String> {
    let Value::Object(labels) = value else {
        return Err("matchLabels is no object of texts".to_owned());
    };
    let condition = |(key, value): (String, Value)| match value {
        Value::String(value) => Ok(Expression::Equal(checked_key(key)?, checked_value(value)?)),
        _ => Err(format!("matchLabels: the value of {} is no text; quote it", quoted(&key))),
    };
    labels.into_iter().map(condition).collect()
}

fn match_expressions(value: Value) -> Result<Vec<Expression>, String> {
    let Value::Array(all) = value else {
        return Err("matchExpressions is no list".to_owned());
    };
    all.into_iter().map(expression).collect()
}

fn expression(value: Value) -> Result<Expression, String> {
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
        ("In", false) => Ok(Expression::In(key, values)),
        ("NotIn", false) => Ok(Expression::NotIn(key, values)),
        ("In" | "NotIn", true) => Err(format!("operator {operator} needs values")),
        ("Exists", true) => Ok(Expression::Exists(key)),
        ("DoesNotExist", true) => Ok(Expression::DoesNotExist(key)),
        ("Exists" | "DoesNotExist", false) => Err(format!("operator {operator} takes no values")),
        _ => {
            let shown = quoted(&operator);
            Err(format!("operator {shown} is unknown; there are In, NotIn, Exists, DoesNotExist"))
        }
    }
}

fn checked_key(key: String) -> Result<String, String> {
    if is_key(&key) { Ok(key) } else { Err(format!("{} is no key of labels", quoted(&key))) }
}

fn checked_value(value: String) -> Result<String, String> {
    if is_label_value(&value) {
        Ok(value)
    } else {
        Err(format!("{} is no value of labels", quoted(&value)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kube::core::SelectorExt;
    use std::collections::BTreeMap;

    fn matches(text: &str, labels: &[(&str, &str)]) -> bool {
        let pairs = labels.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned()));
        selector(text).unwrap().matches(&BTreeMap::from_iter(pairs))
    }

    #[test]
    fn a_list_is_kept_in_lower_case_sorted_and_each_once() {
        let given = ["app3", "app4", "App4", " apps ", ""].map(str::to_owned);
        assert_eq!(listed(&given).unwrap(), ["app3", "app4", "apps"]);
        assert_eq!(listed(&["*".to_owned()]).unwrap(), ["*"]);
        for name in ["a/b", "../x", "a%2fb", "app*", "a.b"] {
            assert!(listed(&[name.to_owned()]).is_err(), "{name}");
        }
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
    fn a_selector_that_could_be_misread_as_every_namespace_is_refused() {
        for (text, expected) in [
            (r#"{"matchLabel":{"team":"blue"}}"#, "\"matchLabel\""),
            ("{}", "every namespace"),
            ("matchLabels: {}", "every namespace"),
            ("matchLabels: [a]", "no object"),
            ("matchLabels: {a: 1}", "quote it"),
            ("matchLabels: {a: 'b,c'}", "no value"),
            ("matchLabels: {'a b': c}", "no key"),
            ("matchExpressions: {}", "no list"),
            ("matchExpressions: [{key: a, operator: In}]", "needs values"),
            ("matchExpressions: [{key: a, operator: Exists, values: [b]}]", "takes no values"),
            ("matchExpressions: [{key: a, operator: Like, values: [b]}]", "\"Like\""),
            ("matchExpressions: [{operator: Exists}]", "no key"),
            ("matchExpressions: [{key: a, operator: Exists, vals: []}]", "\"vals\""),
            ("{]", "neither JSON nor YAML"),
            ("{'matchLabel': {'team': 'blue'}}", "\"matchLabel\""),
            ("all", "no object"),
        ] {
            let why = selector(text).unwrap_err().message;
            assert!(why.contains(expected), "{text}: {why}");
        }
    }
}

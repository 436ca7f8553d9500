//! Namespaces permitted to a role: a list, or required labels.
//!
//! The attack this file prevents: a list misread as "every namespace" (decision E2).

use bulkhead_sdk::Failure;
use bulkhead_sdk::kubernetes::{LabelSelector, is_label};
use bulkhead_sdk::wire::failure::quoted;
use std::collections::BTreeSet;

/// Means every namespace.
pub(crate) const ALL: &str = "*";

/// Maximum number of namespaces in a list.
const MOST: usize = 1_000;

/// Normalises the list: lower case, sorted, without duplicates.
pub(crate) fn listed(list: &[String]) -> Result<Vec<String>, Failure> {
    let names: BTreeSet<String> = list
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
            "allowed_cluster_namespaces: {} is not a name of a namespace",
            quoted(name)
        ))),
        None => Ok(names.into_iter().collect()),
    }
}

/// Parses the selector in `text`.
///
/// # Errors
/// The reason the selector is invalid.
pub(crate) fn selector(text: &str) -> Result<LabelSelector, Failure> {
    LabelSelector::parse(text)
        .map_err(|why| Failure::invalid(format!("allowed_cluster_namespace_selector: {why}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn list_is_kept_lower_case_sorted_and_unique() {
        let list = ["app3", "app4", "App4", " apps ", ""].map(str::to_owned);
        assert_eq!(listed(&list).unwrap(), ["app3", "app4", "apps"]);
        assert_eq!(listed(&["*".to_owned()]).unwrap(), ["*"]);
        for name in ["a/b", "../x", "a%2fb", "app*", "a.b"] {
            assert!(listed(&[name.to_owned()]).is_err(), "{name}");
        }
    }
}

//! Second matcher for the fuzz test, written from the text of decisions H10 and H11 alone.
//!
//! The matcher works on texts and shares no type with the product. It tries every rule and caches
//! nothing, so that it can be read beside the specification.

use serde_json::Value;
use std::collections::BTreeSet;

/// Values by the name of their parameter.
pub(super) type NaiveLists = Vec<(&'static str, Vec<Value>)>;

/// A `path "…" { … }` block as written.
#[derive(Clone, Debug, Default)]
pub(super) struct NaiveRule {
    pub(super) policy: &'static str,
    pub(super) pattern: String,
    pub(super) words: Vec<&'static str>,
    pub(super) allowed: NaiveLists,
    pub(super) denied: NaiveLists,
    pub(super) required: Vec<&'static str>,
    pub(super) min: u64,
    pub(super) max: u64,
}

/// A request.
#[derive(Clone, Debug, Default)]
pub(super) struct NaiveRequest {
    pub(super) path: String,
    pub(super) word: &'static str,
    pub(super) sudo: bool,
    pub(super) wrap_ttl: Option<u64>,
    pub(super) parameters: Vec<(&'static str, Value)>,
}

/// The fields of the endpoint; the second is another name of the first.
pub(super) const FIELDS: [&str; 3] = ["ttl", "lease", "name"];

/// Returns the policies that grant the request; empty if the request is denied.
pub(super) fn granting(rules: &[NaiveRule], request: &NaiveRequest) -> BTreeSet<&'static str> {
    let path = request.path.as_str();
    let pattern =
        if request.word == "list" { pattern_of_list(rules, path) } else { pattern_of(rules, path) };
    let Some(pattern) = pattern else { return BTreeSet::new() };
    let words = granted_words(rules, pattern);
    let same = || rules.iter().filter(|rule| rule.pattern == pattern);
    let is_checked = !["list", "delete"].contains(&request.word);
    if !words.contains(request.word)
        || (request.sudo && !words.contains("sudo"))
        || !may_wrap(rules, pattern, request.wrap_ttl)
        || (is_checked && !may_send(&same().collect::<Vec<_>>(), &request.parameters))
    {
        return BTreeSet::new();
    }
    same().filter(|rule| rule.words.contains(&request.word)).map(|rule| rule.policy).collect()
}

/// Returns the capabilities shown for a path. A path that ends in a slash means the folder.
pub(super) fn shown_capabilities(rules: &[NaiveRule], path: &str) -> Vec<&'static str> {
    let pattern = path
        .strip_suffix('/')
        .map_or_else(|| pattern_of(rules, path), |path| pattern_of_list(rules, path));
    let words = pattern.map(|pattern| granted_words(rules, pattern)).unwrap_or_default();
    if words.is_empty() { vec!["deny"] } else { words.into_iter().collect() }
}

/// Returns the capabilities that all rules with this pattern grant together.
fn granted_words(rules: &[NaiveRule], pattern: &str) -> BTreeSet<&'static str> {
    if denies(rules, pattern) {
        return BTreeSet::new();
    }
    rules
        .iter()
        .filter(|rule| rule.pattern == pattern)
        .flat_map(|rule| rule.words.clone())
        .collect()
}

/// Returns true if a rule with this pattern says `deny`, or if the wrapping bounds contradict each
/// other.
fn denies(rules: &[NaiveRule], pattern: &str) -> bool {
    let mut same = rules.iter().filter(|rule| rule.pattern == pattern);
    let contradict = match bounds_on_wrapping(rules, pattern) {
        (Some(min), Some(max)) => min > max,
        _ => false,
    };
    contradict || same.any(|rule| rule.words.contains(&"deny"))
}

/// Returns the smallest minimum and the smallest maximum that rules with this pattern set.
fn bounds_on_wrapping(rules: &[NaiveRule], pattern: &str) -> (Option<u64>, Option<u64>) {
    let same = || rules.iter().filter(|rule| rule.pattern == pattern);
    let smallest = |ttl: fn(&NaiveRule) -> u64| same().map(ttl).filter(|ttl| *ttl != 0).min();
    (smallest(|rule| rule.min), smallest(|rule| rule.max))
}

fn may_wrap(rules: &[NaiveRule], pattern: &str, wrap_ttl: Option<u64>) -> bool {
    match (bounds_on_wrapping(rules, pattern), wrap_ttl) {
        ((None, None), _) => true,
        (_, None) => false,
        ((min, max), Some(ttl)) => {
            min.is_none_or(|min| ttl >= min) && max.is_none_or(|max| ttl <= max)
        }
    }
}

fn exact<'a>(rules: &'a [NaiveRule], path: &str) -> Option<&'a str> {
    rules.iter().map(|rule| rule.pattern.as_str()).find(|pattern| *pattern == path)
}

fn pattern_of<'a>(rules: &'a [NaiveRule], path: &str) -> Option<&'a str> {
    exact(rules, path).or_else(|| find_closest(rules, path))
}

fn pattern_of_list<'a>(rules: &'a [NaiveRule], path: &str) -> Option<&'a str> {
    let folder = path.to_owned() + "/";
    if let Some(exact) = exact(rules, &folder).or_else(|| exact(rules, path)) {
        return Some(exact);
    }
    match (find_closest(rules, &folder), find_closest(rules, path)) {
        // Deny wins over any wildcard that is not closer, for LIST too.
        (Some(by_folder), Some(by_name))
            if is_closer(by_name, by_folder) && denies(rules, by_name) =>
        {
            Some(by_name)
        }
        (by_folder, by_name) => by_folder.or(by_name),
    }
}

/// Returns the best of the longest matching prefix and all matching patterns with segments,
/// compared in pairs.
fn find_closest<'a>(rules: &'a [NaiveRule], path: &str) -> Option<&'a str> {
    let is_wild = |pattern: &str| pattern.ends_with('*') || pattern.contains('+');
    let patterns = rules.iter().map(|rule| rule.pattern.as_str());
    let matching =
        patterns.filter(|pattern| is_wild(pattern) && matches(pattern.as_bytes(), path.as_bytes()));
    let (segments, mut prefixes): (Vec<&str>, Vec<&str>) =
        matching.partition(|pattern| pattern.contains('+'));
    prefixes.sort_by_key(|prefix| prefix.len());
    let longest = prefixes.pop();
    segments
        .into_iter()
        .chain(longest)
        .reduce(|best, other| if is_closer(other, best) { other } else { best })
}

/// Returns true if `a` wins against `b`, question by question from (a) to (e).
fn is_closer(a: &str, b: &str) -> bool {
    let first_wildcard = |pattern: &str| pattern.find(['+', '*']).unwrap();
    let segments = |pattern: &str| pattern.matches('+').count();
    if first_wildcard(a) != first_wildcard(b) {
        return first_wildcard(a) > first_wildcard(b);
    }
    if a.ends_with('*') != b.ends_with('*') {
        return !a.ends_with('*');
    }
    if segments(a) != segments(b) {
        return segments(a) < segments(b);
    }
    if a.len() != b.len() {
        return a.len() > b.len();
    }
    a > b
}

/// Compares byte by byte: `*` matches the rest, `+` matches everything up to the next slash.
fn matches(pattern: &[u8], path: &[u8]) -> bool {
    match pattern {
        [] => path.is_empty(),
        [b'*'] => true,
        [b'+', rest @ ..] => {
            let segment = path.iter().take_while(|byte| **byte != b'/').count();
            matches(rest, &path[segment..])
        }
        [first, rest @ ..] => path.first() == Some(first) && matches(rest, &path[1..]),
    }
}

/// Returns the canonical name of a field: lower case, with the alias replaced.
fn folded(name: &str) -> String {
    let name = name.to_lowercase();
    if name == FIELDS[1] { FIELDS[0].to_owned() } else { name }
}

fn may_send(rules: &[&NaiveRule], parameters: &[(&'static str, Value)]) -> bool {
    // An endpoint reads a declared field only under its exact spelling.
    let is_read =
        |name: &str| !FIELDS.contains(&name.to_lowercase().as_str()) || FIELDS.contains(&name);
    let mut required = rules.iter().flat_map(|rule| &rule.required);
    if !required.all(|name| {
        parameters.iter().any(|(sent, _)| is_read(sent) && folded(sent) == folded(name))
    }) {
        return false;
    }
    let lists = |of: fn(&NaiveRule) -> &NaiveLists| {
        rules.iter().flat_map(|rule| of(rule).clone()).collect::<Vec<_>>()
    };
    let (allowed, denied) = (lists(|rule| &rule.allowed), lists(|rule| &rule.denied));
    parameters.iter().all(|(name, value)| {
        let named = |(key, _): &&(&str, Vec<Value>)| folded(key) == folded(name);
        let is_denied = denied.iter().any(|(key, _)| *key == "*")
            || denied
                .iter()
                .filter(named)
                .any(|(_, list)| list.is_empty() || fits_any(value, list));
        let by_name: Vec<_> = allowed.iter().filter(named).collect();
        let by_star: Vec<_> = allowed.iter().filter(|(key, _)| *key == "*").collect();
        let counting = if by_name.is_empty() { by_star } else { by_name };
        let any = counting.iter().any(|(_, list)| list.is_empty());
        // Lists of two policies for the same key are merged; lists for two keys of the same field
        // are not.
        let is_allowed = allowed.is_empty()
            || any
            || ["ttl", "lease", "name", "other", "*"].iter().any(|key| {
                let joined: Vec<Value> = counting
                    .iter()
                    .filter(|(of, _)| of.to_lowercase() == *key)
                    .flat_map(|(_, list)| list.clone())
                    .collect();
                fits_only(value, &joined)
            });
        !is_denied && is_allowed
    })
}

fn text(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

fn is_in_list(value: &Value, list: &[Value]) -> bool {
    list.iter().map(text).any(|written| {
        let (parameter, bare) = (text(value), written.trim_matches('*'));
        match (written.starts_with('*'), written.ends_with('*')) {
            (true, true) => parameter.contains(bare),
            (true, false) => parameter.ends_with(bare),
            (false, true) => parameter.starts_with(bare),
            (false, false) => parameter == written,
        }
    })
}

fn takes_all(list: &[Value]) -> bool {
    list.iter().any(|written| written == "*")
}

fn fits_any(value: &Value, list: &[Value]) -> bool {
    match value {
        Value::Array(items) => takes_all(list) || items.iter().any(|item| is_in_list(item, list)),
        _ => is_in_list(value, list),
    }
}

/// Returns true if everything in `value` is listed. Only `*` lists an empty array.
fn fits_only(value: &Value, list: &[Value]) -> bool {
    match value {
        Value::Array(items) => {
            takes_all(list) || !items.is_empty() && items.iter().all(|item| is_in_list(item, list))
        }
        _ => is_in_list(value, list),
    }
}

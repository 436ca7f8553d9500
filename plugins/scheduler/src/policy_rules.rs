//! Rules of a policy: checked strictly on write, shown in parsed form.
//!
//! This file prevents a policy that means less than its author thinks: unknown or repeated blocks,
//! blocks without a required label, and unknown capabilities are refused. The rules are never
//! evaluated here: no answer of the ACL API depends on them. [`words`] is the table of blocks,
//! levels and capabilities.
//!
//! Keys are read in any case. A second `policy` in a block replaces the first, a second
//! `capabilities` extends the first, and other keys in a block are passed over, as the scheduler
//! does.

mod words;

use bulkhead_sdk::wire::hcl::{self, HclBody, HclItem, HclValue};
use serde_json::{Map, Value, json};
use words::{BlockKind, BlockLabel, KINDS, LONGEST_LABEL, PolicyLevel, VARIABLES};

/// Checks the rules of a policy. Empty rules are allowed and grant nothing.
///
/// # Errors
/// The first problem, with its line if known.
pub(crate) fn check(rules: &str) -> Result<(), String> {
    parse(rules).map(|_| ())
}

/// Returns the parsed form of stored rules; null for rules that are no longer valid.
#[must_use]
pub(crate) fn shown(rules: &str) -> Value {
    parse(rules).unwrap_or_default()
}

fn parse(rules: &str) -> Result<Value, String> {
    let mut shown = Map::new();
    shown.insert("Raw".to_owned(), rules.into());
    shown.insert("ExtraKeysHCL".to_owned(), Value::Null);
    for kind in &KINDS {
        shown.insert(kind.shown.to_owned(), Value::Null);
    }
    if rules.is_empty() {
        return Ok(Value::Object(shown));
    }
    let syntax = if hcl::is_json(rules) { RulesSyntax::Json } else { RulesSyntax::Native };
    let body = hcl::parse(rules).map_err(|error| error.to_string())?;
    if body.items.is_empty() {
        return Err(format!("Invalid policy: no block; give one of {}, or no rules", blocks()));
    }
    for item in &body.items {
        let kind = kind_of(item)?;
        let value = block(kind, item, syntax)?;
        match (&kind.label, shown.entry(kind.shown).or_insert(Value::Null)) {
            (BlockLabel::Required(_), Value::Array(list)) => list.push(value),
            (BlockLabel::Required(_), place) => *place = json!([value]),
            (BlockLabel::Absent, place @ Value::Null) => *place = value,
            (BlockLabel::Absent, _) => {
                let (key, line) = (&item.key, item.line);
                return Err(format!(
                    "Invalid or duplicate policy keys: {key}: line {line} repeats the block; \
                     write the block once"
                ));
            }
        }
    }
    Ok(Value::Object(shown))
}

/// The language of the rules.
#[derive(Clone, Copy, PartialEq, Eq)]
enum RulesSyntax {
    /// HCL1: the label of a block stands before the block.
    Native,
    /// JSON: labels are keys of an object.
    Json,
}

fn kind_of(item: &HclItem) -> Result<&'static BlockKind, String> {
    KINDS.iter().find(|kind| item.key.eq_ignore_ascii_case(kind.block)).ok_or_else(|| {
        let (key, line) = (&item.key, item.line);
        format!(
            "Invalid or duplicate policy keys: {key}: line {line} has an unknown block; known are \
             {}",
            blocks()
        )
    })
}

/// Returns the names of all blocks, for messages.
fn blocks() -> String {
    KINDS.map(|kind| kind.block).join(", ")
}

/// Returns the parsed form of one block.
fn block(kind: &BlockKind, item: &HclItem, syntax: RulesSyntax) -> Result<Value, String> {
    let HclValue::Block(body) = &item.value else {
        let (noun, line, found) = (kind.noun, item.line, item.value.kind());
        return Err(format!("Invalid {noun} policy: line {line} has {found}; write a block"));
    };
    let mut shown = Map::new();
    if let Some(name) = label(kind, item)? {
        shown.insert("Name".to_owned(), name.into());
    }
    let level = level(kind, item, body)?;
    shown.insert("Policy".to_owned(), level.map_or("", |level| level.word).into());
    if let Some(vocabulary) = kind.capabilities {
        let listed = capabilities(kind.noun, vocabulary, body)?;
        shown.insert("Capabilities".to_owned(), json!(granted(kind, level, listed)));
    }
    if kind.has_variables {
        shown.insert("Variables".to_owned(), variables(body, syntax)?);
    }
    Ok(Value::Object(shown))
}

/// Returns the label of a block; `None` for kinds without a label.
fn label<'a>(kind: &BlockKind, item: &'a HclItem) -> Result<Option<&'a str>, String> {
    let (noun, line) = (kind.noun, item.line);
    let more = match (&kind.label, item.labels.as_slice()) {
        (BlockLabel::Absent, []) => return Ok(None),
        (BlockLabel::Absent, [label, ..]) => {
            return Err(format!(
                "Invalid or duplicate policy keys: {label}: line {line} has a label; write \
                 `{noun} {{ … }}`"
            ));
        }
        (BlockLabel::Required(more), [_]) => *more,
        (BlockLabel::Required(_), labels) => {
            return Err(format!(
                "Invalid {noun} name: line {line} has {} labels; give one",
                labels.len()
            ));
        }
    };
    let label = item.labels.first().map_or("", String::as_str);
    let is_of_label =
        |byte: u8| byte.is_ascii_alphanumeric() || b"-*".contains(&byte) || more.contains(&byte);
    if !(1..=LONGEST_LABEL).contains(&label.len()) || !label.bytes().all(is_of_label) {
        let more = String::from_utf8_lossy(more);
        return Err(format!(
            "Invalid {noun} name: line {line} has {label:?}; give 1 to {LONGEST_LABEL} letters, \
             digits or characters of \"-*{more}\""
        ));
    }
    Ok(Some(label))
}

/// Returns the items of a body under `key`.
fn items<'a>(body: &'a HclBody, key: &'static str) -> impl Iterator<Item = &'a HclItem> {
    body.items.iter().filter(move |item| item.key.eq_ignore_ascii_case(key))
}

/// Returns the level of a block; `None` for an empty or missing level where the block may have
/// capabilities instead.
fn level(
    kind: &BlockKind,
    block: &HclItem,
    body: &HclBody,
) -> Result<Option<&'static PolicyLevel>, String> {
    let (mut line, mut word) = (block.line, "");
    for item in items(body, "policy") {
        let HclValue::Text(text) = &item.value else {
            return Err(bad_level(kind, item.line, item.value.kind()));
        };
        (line, word) = (item.line, text);
    }
    if word.is_empty() && kind.capabilities.is_some() {
        return Ok(None);
    }
    let level = kind.levels.iter().find(|level| level.word == word);
    level.map(Some).ok_or_else(|| bad_level(kind, line, &format!("the policy {word:?}")))
}

fn bad_level(kind: &BlockKind, line: usize, found: &str) -> String {
    let words: Vec<&str> = kind.levels.iter().map(|level| level.word).collect();
    let (noun, words) = (kind.noun, words.join(", "));
    format!("Invalid {noun} policy: line {line} has {found}; give one of {words} as policy")
}

/// Returns the capabilities listed in a block; `None` without a list.
fn capabilities(
    noun: &str,
    vocabulary: &'static [&'static str],
    body: &HclBody,
) -> Result<Option<Vec<&'static str>>, String> {
    let mut listed = None;
    for item in items(body, "capabilities") {
        let HclValue::List(words) = &item.value else {
            let (line, found) = (item.line, item.value.kind());
            return Err(format!(
                "Invalid {noun} capabilities: line {line} has {found}; write a list of texts"
            ));
        };
        let listed = listed.get_or_insert_with(Vec::new);
        for word in words {
            listed.push(capability(noun, vocabulary, item.line, word)?);
        }
    }
    Ok(listed)
}

fn capability(
    noun: &str,
    vocabulary: &'static [&'static str],
    line: usize,
    node: &HclValue,
) -> Result<&'static str, String> {
    let HclValue::Text(text) = node else {
        let found = node.kind();
        return Err(format!(
            "Invalid {noun} capability: line {line} has {found} in the list; write texts"
        ));
    };
    vocabulary.iter().copied().find(|word| word == text).ok_or_else(|| {
        let vocabulary = vocabulary.join(", ");
        format!("Invalid {noun} capability '{text}': line {line}; known are {vocabulary}")
    })
}

/// Returns the given capabilities, then the capabilities of the level, then the capabilities that
/// these contain; `None` if nothing is listed and nothing granted.
fn granted(
    kind: &BlockKind,
    level: Option<&PolicyLevel>,
    listed: Option<Vec<&'static str>>,
) -> Option<Vec<&'static str>> {
    let is_listed = listed.is_some();
    let mut words = listed.unwrap_or_default();
    words.extend(level.into_iter().flat_map(|level| level.grants.concat()));
    let contained: Vec<&str> = words
        .iter()
        .flat_map(|word| kind.implied.iter().filter(move |implied| implied.word == *word))
        .flat_map(|implied| implied.adds.iter().copied())
        .collect();
    words.extend(contained);
    (is_listed || !words.is_empty()).then_some(words)
}

/// Returns the variables of a namespace: paths with their capabilities.
fn variables(body: &HclBody, syntax: RulesSyntax) -> Result<Value, String> {
    let (mut paths, mut line) = (Vec::new(), None);
    for item in items(body, "variables") {
        line = Some(item.line);
        for body in bodies(item, syntax)? {
            for path in items(body, "path") {
                paths.extend(variable_paths(path, syntax)?);
            }
        }
    }
    match line {
        None => Ok(Value::Null),
        Some(line) if paths.is_empty() => Err(format!(
            "Invalid variable policy: no variable paths in line {line}; write `path \"…\" {{ \
             capabilities = […] }}`"
        )),
        Some(_) => Ok(json!({ "Paths": paths })),
    }
}

/// Returns the block of an item without a label. JSON may have a list of blocks there.
fn bodies(item: &HclItem, syntax: RulesSyntax) -> Result<Vec<&HclBody>, String> {
    let values = match (&item.value, syntax) {
        (HclValue::List(values), RulesSyntax::Json) => values.as_slice(),
        (value, _) => std::slice::from_ref(value),
    };
    let mut bodies = Vec::new();
    for value in values {
        let HclValue::Block(body) = value else { return Err(not_a_block(item)) };
        bodies.push(body);
    }
    if item.labels.is_empty() { Ok(bodies) } else { Err(not_a_block(item)) }
}

fn not_a_block(item: &HclItem) -> String {
    let (key, line) = (&item.key, item.line);
    format!("Invalid {key}: line {line}; write `{key} {{ … }}`")
}

/// Returns the paths of one item `path`: a labelled block, or in JSON an object for each path.
fn variable_paths(item: &HclItem, syntax: RulesSyntax) -> Result<Vec<Value>, String> {
    if let ([path], HclValue::Block(body)) = (item.labels.as_slice(), &item.value) {
        return Ok(vec![variable_path(item.line, path, body)?]);
    }
    let no_label =
        || format!("Invalid missing variable path: line {} has no single path as label", item.line);
    if syntax == RulesSyntax::Native {
        return Err(no_label());
    }
    let mut paths = Vec::new();
    for body in bodies(item, syntax)? {
        for named in &body.items {
            let HclValue::Block(body) = &named.value else { return Err(no_label()) };
            paths.push(variable_path(named.line, &named.key, body)?);
        }
    }
    Ok(paths)
}

fn variable_path(line: usize, path: &str, body: &HclBody) -> Result<Value, String> {
    if path.is_empty() || path.starts_with('/') {
        return Err(format!(
            "Invalid variable path {path:?}: line {line}; give a path without a leading '/'"
        ));
    }
    let mut words = capabilities("variable", VARIABLES, body)?;
    if let Some(words) = &mut words {
        if words.contains(&"deny") {
            *words = vec!["deny"];
        } else if words.contains(&"read") && !words.contains(&"list") {
            words.push("list");
        }
    }
    Ok(json!({ "PathSpec": path, "Capabilities": words }))
}

#[cfg(test)]
mod tests;

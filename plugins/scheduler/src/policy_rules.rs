//! Rules of a policy: checked strictly on write, shown in parsed form.
//!
//! Prevents a policy that means less than its author thinks: unknown or repeated blocks, blocks
//! without a required label, and unknown capabilities are refused. The rules are never evaluated
//! here: no answer of the ACL API depends on them.

use bulkhead_sdk::wire::hcl::{self, HclBody, HclItem, HclValue};
use serde_json::{Map, Value, json};

/// A kind of block with a label: its names and allowed content.
struct BlockKind {
    block: &'static str,
    /// Name in the parsed form.
    shown: &'static str,
    /// Name in error messages.
    noun: &'static str,
    /// Allowed characters of a label besides letters, digits, `-` and `*`.
    more_of_label: &'static [u8],
    levels: &'static [&'static str],
    capabilities: &'static [&'static str],
    /// Returns the capabilities that a level stands for.
    expand: fn(&str) -> &'static [&'static str],
}

const LABELLED: [BlockKind; 3] = [
    BlockKind {
        block: "namespace",
        shown: "Namespaces",
        noun: "namespace",
        more_of_label: b"",
        levels: &["read", "write", "scale", "deny"],
        capabilities: &[
            "deny",
            "list-jobs",
            "parse-job",
            "read-job",
            "submit-job",
            "register-job",
            "dispatch-job",
            "read-logs",
            "read-fs",
            "alloc-exec",
            "alloc-node-exec",
            "alloc-lifecycle",
            "csi-register-plugin",
            "csi-write-volume",
            "csi-read-volume",
            "csi-list-volume",
            "csi-mount-volume",
            "host-volume-create",
            "host-volume-delete",
            "host-volume-read",
            "host-volume-register",
            "host-volume-write",
            "list-scaling-policies",
            "read-scaling-policy",
            "read-job-scaling",
            "scale-job",
            "sentinel-override",
            "submit-recommendation",
        ],
        expand: of_namespace,
    },
    BlockKind {
        block: "node_pool",
        shown: "NodePools",
        noun: "node pool",
        more_of_label: b"_",
        levels: &["read", "write", "deny"],
        capabilities: &["deny", "read", "write", "delete"],
        expand: of_node_pool,
    },
    BlockKind {
        block: "host_volume",
        shown: "HostVolumes",
        noun: "host volume",
        more_of_label: b"",
        levels: &["read", "write", "deny"],
        capabilities: &["deny", "mount-readonly", "mount-readwrite"],
        expand: of_host_volume,
    },
];

/// Kinds of blocks without a label: block, name in the parsed form, and levels.
const PLAIN: [(&str, &str, &[&str]); 6] = [
    ("agent", "Agent", &["read", "write", "deny"]),
    ("node", "Node", &["read", "write", "deny"]),
    ("operator", "Operator", &["read", "write", "deny"]),
    ("quota", "Quota", &["read", "write", "deny"]),
    ("plugin", "Plugin", &["list", "read", "deny"]),
    ("sentinel", "Sentinel", &["read", "write", "deny"]),
];

/// Capabilities of a path of variables.
const VARIABLES: [&str; 5] = ["list", "read", "write", "destroy", "deny"];
const LONGEST_LABEL: usize = 128;

const READ_NAMESPACE: [&str; 9] = [
    "list-jobs",
    "parse-job",
    "read-job",
    "csi-list-volume",
    "csi-read-volume",
    "read-job-scaling",
    "list-scaling-policies",
    "read-scaling-policy",
    "host-volume-read",
];
const WRITE_NAMESPACE: [&str; 21] = [
    "list-jobs",
    "parse-job",
    "read-job",
    "csi-list-volume",
    "csi-read-volume",
    "read-job-scaling",
    "list-scaling-policies",
    "read-scaling-policy",
    "host-volume-read",
    "scale-job",
    "submit-job",
    "dispatch-job",
    "read-logs",
    "read-fs",
    "alloc-exec",
    "alloc-lifecycle",
    "csi-mount-volume",
    "csi-write-volume",
    "submit-recommendation",
    "host-volume-create",
    "host-volume-read",
];
const SCALE_NAMESPACE: [&str; 4] =
    ["list-scaling-policies", "read-scaling-policy", "read-job-scaling", "scale-job"];

fn of_namespace(level: &str) -> &'static [&'static str] {
    match level {
        "read" => &READ_NAMESPACE,
        "write" => &WRITE_NAMESPACE,
        "scale" => &SCALE_NAMESPACE,
        "deny" => &["deny"],
        _ => &[],
    }
}

fn of_node_pool(level: &str) -> &'static [&'static str] {
    match level {
        "read" => &["read"],
        "write" => &["delete", "read", "write"],
        "deny" => &["deny"],
        _ => &[],
    }
}

fn of_host_volume(level: &str) -> &'static [&'static str] {
    match level {
        "read" => &["mount-readonly"],
        "write" => &["mount-readonly", "mount-readwrite"],
        "deny" => &["deny"],
        _ => &[],
    }
}

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
    for name in LABELLED.iter().map(|kind| kind.shown).chain(PLAIN.map(|(_, name, _)| name)) {
        shown.insert(name.to_owned(), Value::Null);
    }
    let body = hcl::parse(rules).map_err(|error| error.to_string())?;
    for item in &body.items {
        let (name, value, is_labelled) = block(item)?;
        let place = shown.entry(name).or_insert(Value::Null);
        match (is_labelled, place) {
            (true, Value::Array(list)) => list.push(value),
            (true, place) => *place = json!([value]),
            (false, place @ Value::Null) => *place = value,
            (false, _) => return Err(format!("Invalid or duplicate policy keys: {}", item.key)),
        }
    }
    Ok(Value::Object(shown))
}

/// Parses one block. Returns its name in the parsed form, its value, and true if the block may
/// occur several times.
fn block(item: &HclItem) -> Result<(&'static str, Value, bool), String> {
    let HclValue::Block(body) = &item.value else { return Err(unknown(item)) };
    if let Some(kind) = LABELLED.iter().find(|kind| kind.block == item.key) {
        return labelled(kind, item, body).map(|value| (kind.shown, value, true));
    }
    let plain = PLAIN.iter().find(|(block, ..)| *block == item.key && item.labels.is_empty());
    let (block, name, levels) = plain.ok_or_else(|| unknown(item))?;
    let level = level(block, levels, body)?;
    if level.is_empty() {
        return Err(format!("Invalid {block} policy: line {} has no policy", item.line));
    }
    Ok((name, json!({ "Policy": level }), false))
}

fn unknown(item: &HclItem) -> String {
    format!("Invalid policy: line {} has an unknown block or value {:?}", item.line, item.key)
}

fn labelled(kind: &BlockKind, item: &HclItem, body: &HclBody) -> Result<Value, String> {
    // The JSON form has the label as the only key of an object.
    let (label, body) = match (item.labels.as_slice(), body.items.as_slice()) {
        ([label], _) => (label, body),
        ([], [HclItem { key, labels, value: HclValue::Block(inner), .. }]) if labels.is_empty() => {
            (key, inner)
        }
        _ => return Err(format!("Invalid {} name: line {} needs one", kind.noun, item.line)),
    };
    let is_of_label = |byte: u8| {
        byte.is_ascii_alphanumeric() || b"-*".contains(&byte) || kind.more_of_label.contains(&byte)
    };
    if !(1..=LONGEST_LABEL).contains(&label.len()) || !label.bytes().all(is_of_label) {
        return Err(format!("Invalid {} name: {label:?}", kind.noun));
    }
    let level = level(kind.noun, kind.levels, body)?;
    let mut capabilities = capabilities(kind.noun, kind.capabilities, body)?;
    capabilities.extend((kind.expand)(&level).iter().map(|word| (*word).to_owned()));
    Ok(match kind.block {
        "namespace" => {
            let variables = variables(body)?;
            json!({ "Name": label, "Policy": level, "Capabilities": capabilities,
                    "Variables": variables })
        }
        _ => json!({ "Name": label, "Policy": level, "Capabilities": capabilities }),
    })
}

/// Returns the level of a block; empty if the block has none.
fn level(noun: &str, levels: &[&str], body: &HclBody) -> Result<String, String> {
    match body.items.iter().find(|item| item.key == "policy") {
        None => Ok(String::new()),
        Some(HclItem { value: HclValue::Text(level), .. }) if levels.contains(&level.as_str()) => {
            Ok(level.clone())
        }
        Some(item) => Err(format!(
            "Invalid {noun} policy: line {}; give one of {}",
            item.line,
            levels.join(", ")
        )),
    }
}

/// Returns the capabilities listed in a block.
fn capabilities(noun: &str, known: &[&str], body: &HclBody) -> Result<Vec<String>, String> {
    let Some(item) = body.items.iter().find(|item| item.key == "capabilities") else {
        return Ok(Vec::new());
    };
    let HclValue::List(words) = &item.value else {
        return Err(format!("Invalid {noun} capabilities: line {} needs a list", item.line));
    };
    let word = |node: &HclValue| match node {
        HclValue::Text(word) if known.contains(&word.as_str()) => Ok(word.clone()),
        HclValue::Text(word) => Err(format!("Invalid {noun} capability '{word}'")),
        other => Err(format!("Invalid {noun} capability: {}", other.kind())),
    };
    words.iter().map(word).collect()
}

/// Returns the variables of a namespace: paths with their capabilities.
fn variables(body: &HclBody) -> Result<Value, String> {
    let Some(item) = body.items.iter().find(|item| item.key == "variables") else {
        return Ok(Value::Null);
    };
    let HclValue::Block(inside) = &item.value else {
        return Err(format!("Invalid variables: line {} needs a block", item.line));
    };
    let mut paths = Vec::new();
    for path in inside.items.iter().filter(|item| item.key == "path") {
        let (label, body) = match (&path.labels[..], &path.value) {
            ([label], HclValue::Block(body)) => (label, body),
            _ => return Err(format!("Invalid variables: line {} needs a path", path.line)),
        };
        let capabilities = capabilities("variables", &VARIABLES, body)?;
        paths.push(json!({ "PathSpec": label, "Capabilities": capabilities }));
    }
    if paths.is_empty() {
        return Err(format!("Invalid variables: line {} has no path", item.line));
    }
    Ok(json!({ "Paths": paths }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_of_the_field_are_taken() {
        for rules in [
            "",
            "namespace \"default\" {\n  policy = \"read\"\n colour = \"red\" }",
            "namespace \"*\" { capabilities = [\"alloc-node-exec\"]\n variables { path \"*\" { \
             capabilities = [\"write\", \"list\"] } } }",
            "agent { policy = \"read\" }\noperator { policy = \"write\" }\nplugin { policy = \
             \"list\" }",
            "node_pool \"a_b\" { policy = \"write\" }",
            r#"{"namespace":{"default":{"policy":"read"}}}"#,
        ] {
            assert_eq!(check(rules), Ok(()), "{rules}");
        }
    }

    #[test]
    fn meaningless_rules_are_refused() {
        for (rules, says) in [
            ("castle \"x\" { policy = \"read\" }", "Invalid policy"),
            ("namespace { policy = \"read\" }", "name"),
            ("namespace \"a b\" { policy = \"read\" }", "Invalid namespace name"),
            ("namespace \"a\" { policy = \"fly\" }", "one of read"),
            ("namespace \"a\" { capabilities = [\"fly\"] }", "capability 'fly'"),
            ("agent { policy = \"read\" }\nagent { policy = \"write\" }", "duplicate"),
            ("agent { }", "no policy"),
            ("policy = \"read\"", "Invalid policy"),
            ("namespace \"a\" {", ""),
        ] {
            let why = check(rules).expect_err(rules);
            assert!(why.contains(says), "{rules}: {why}");
        }
    }

    #[test]
    fn rules_are_shown_with_what_their_level_stands_for() {
        let shown =
            shown("namespace \"default\" { policy = \"read\" }\nnode { policy = \"deny\" }");
        assert_eq!(shown["Namespaces"][0]["Capabilities"], json!(READ_NAMESPACE));
        assert_eq!(shown["Node"], json!({ "Policy": "deny" }));
        assert_eq!(shown["Agent"], Value::Null);
        assert_eq!(shown["Namespaces"][0]["Variables"], Value::Null);
    }
}

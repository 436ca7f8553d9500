//! Tests of changes of a mount's grants: the resulting list and the refusals.

use super::*;
use bulkhead_sandbox::GrantPattern;
use serde_json::json;

/// Returns the list after a change of `before`.
fn changed(before: Option<&[&str]>, values: Value) -> Result<Option<Vec<String>>, String> {
    below(None, before, values)
}

/// Returns the list after a change of `before` below a ceiling.
fn below(
    ceiling: Option<&[GrantPattern]>,
    before: Option<&[&str]>,
    values: Value,
) -> Result<Option<Vec<String>>, String> {
    let parse =
        |texts: &[&str]| texts.iter().map(|text| text.parse().unwrap()).collect::<Vec<Grant>>();
    let (mut grants, usual) = (before.map(parse), parse(&["database:*"]));
    let running =
        RunningPlugin { version: "1.0.0", digest: "", is_official: true, usual: &usual, ceiling };
    let changed = change(&mut grants, values.as_object().unwrap(), "third", running);
    changed.map_err(|failure| failure.message)?;
    Ok(grants.map(|grants| grants.iter().map(Grant::to_string).collect()))
}

fn list(before: Option<&[&str]>, values: Value) -> Option<Vec<String>> {
    changed(before, values).unwrap()
}

#[test]
fn update_without_setting_keeps_present_value() {
    for nothing in [json!({}), json!({"add_grants": [], "remove_grants": []})] {
        assert_eq!(list(None, nothing.clone()), None);
        assert_eq!(list(Some(&["database:x"]), nothing).unwrap(), ["database:x"]);
    }
    assert_eq!(list(None, json!({"grants": []})).unwrap(), [""; 0], "an empty list grants nothing");
}

#[test]
fn added_grants_extend_implicit_grants_in_canonical_spelling() {
    let added = list(None, json!({"add_grants": ["sql:postgres://DB.example"]}));
    assert_eq!(added.unwrap(), ["database:*", "sql:postgres://db.example:5432"]);
    let again = list(
        Some(&["database:x", "database:y"]),
        json!({"add_grants": ["database:x", "database:x"]}),
    );
    assert_eq!(again.unwrap(), ["database:y", "database:x"]);
    assert_eq!(list(None, json!({"remove_grants": ["database:*"]})).unwrap(), [""; 0]);
    assert_eq!(
        list(Some(&["database:x"]), json!({"grants": ["address:10.1.2.3"]})).unwrap(),
        ["address:10.1.2.3/32"]
    );
}

#[test]
fn grants_value_default_removes_own_list() {
    assert_eq!(list(Some(&["database:x"]), json!({"grants": ["default"]})), None);
    assert_eq!(list(None, json!({"grants": ["database:*"]})), None, "the list as it is shown");
    assert_eq!(list(Some(&[]), json!({"grants": ["database:*"]})).unwrap(), ["database:*"]);
    for (values, says) in [
        (json!({"grants": ["default", "database:x"]}), "\"default\" is not a grant"),
        (
            json!({"grants": ["default"], "add_grants": ["database:x"]}),
            "give grants, or the others",
        ),
        (json!({"add_grants": ["default"]}), "\"default\" is not a grant"),
    ] {
        let why = changed(Some(&["database:x"]), values).unwrap_err();
        assert!(why.contains(says), "{why}");
    }
}

#[test]
fn added_limit_replaces_previous_limit() {
    let before: &[&str] = &["limit:memory=64MiB", "limit:log=1KiB"];
    let after = list(Some(before), json!({"add_grants": ["limit:memory=128MiB"]}));
    assert_eq!(after.unwrap(), ["limit:log=1KiB", "limit:memory=128MiB"]);
}

#[test]
fn unstorable_grant_setting_is_refused() {
    for (values, says) in [
        (json!({"grants": ["htp:https://a"]}), "grants: \"htp:https://a\" is not a grant"),
        (json!({"add_grants": ["database:x", ""]}), "add_grants: \"\" is not a grant"),
        (json!({"remove_grants": ["database:y"]}), "there are: database:x"),
        (json!({"grants": [], "add_grants": ["database:y"]}), "give grants, or the others"),
        (json!({"grants": ["limit:log=1KiB", "limit:log=2KiB"]}), "one limit"),
        (json!({"grants": ["limit:memory=1GiB"]}), "the most is memory=256MiB"),
    ] {
        let why = changed(Some(&["database:x"]), values).unwrap_err();
        assert!(why.contains(says), "{why}");
    }
    let many: Vec<String> = (0..257).map(|number| format!("database:x{number}")).collect();
    assert!(changed(None, json!({"grants": many})).unwrap_err().contains("at most 256"));
}

#[test]
fn grant_above_ceiling_is_refused_unless_already_present() {
    let ceiling =
        ["database:x", "limit:memory=96MiB"].map(|line| line.parse::<GrantPattern>().unwrap());
    for (line, allows) in [
        ("database:y", "which allows database:x, limit:memory=96MiB;"),
        ("limit:memory=128MiB", "which allows limit:memory=96MiB;"),
        ("limit:log=1MiB", "which allows limit:log=64KiB;"),
    ] {
        for field in ["grants", "add_grants"] {
            let why = below(Some(&ceiling), None, json!({ field: [line] })).unwrap_err();
            assert!(
                why.starts_with(&format!("grant {line} is above")) && why.contains(allows),
                "{why}"
            );
            assert!(
                why.contains("plugin third") && why.contains(&format!("--grant '{line}'")),
                "{why}"
            );
        }
        let list = below(Some(&ceiling), Some(&[line]), json!({ "add_grants": ["database:x"] }));
        assert_eq!(list.unwrap().unwrap(), [line, "database:x"]);
    }
    let fits = json!({ "grants": ["database:x", "limit:memory=96MiB", "sql:postgres://db:5432"] });
    assert_eq!(below(Some(&ceiling), None, fits).unwrap().unwrap().len(), 3);
}

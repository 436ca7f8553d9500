//! Tests of the fields that need `sudo`: changes, values that change nothing, and groups.

use super::*;
use crate::description::{FieldKind, Verb};
use serde_json::json;

fn fields() -> Vec<Field> {
    let text = |name: &str| Field::new(name, FieldKind::String, "");
    let inside = vec![
        Field::new("lines", FieldKind::TextList, "").needs_sudo(),
        Field { aliases: vec!["probation_time".to_owned()], ..text("probation").needs_sudo() },
        text("note"),
    ];
    vec![
        text("version").needs_sudo(),
        Field::new("override", FieldKind::Bool, "").needs_sudo(),
        Field {
            aliases: vec!["lines".to_owned()],
            ..Field::new("grants", FieldKind::TextList, "")
        }
        .needs_sudo(),
        text("note"),
        Field::new("config", FieldKind::Any, "").with_members(inside.clone()),
        Field::new("lockout", FieldKind::Any, "").with_members(inside).needs_sudo(),
    ]
}

fn map(value: Value) -> Map<String, Value> {
    value.as_object().cloned().unwrap()
}

fn changed(sent: Value, present: Value) -> Vec<String> {
    changed_sudo_fields(&fields(), &map(sent), &PresentValues::Known(map(present)))
}

#[test]
fn field_rights_name_each_changed_field() {
    let present = json!({ "version": "1.0.0", "grants": ["http:*"], "override": true });
    for (sent, names) in [
        (json!({ "version": "2.0.0", "note": "x" }), vec!["version"]),
        (json!({ "version": "" }), vec!["version"]),
        (json!({ "override": "false" }), vec!["override"]),
        (json!({ "override": "" }), vec!["override"]),
        (json!({ "grants": [] }), vec!["grants"]),
        (json!({ "lines": ["http:*", "ldap:*"] }), vec!["grants"]),
        (json!({ "config": { "lines": "a" } }), vec!["config.lines"]),
        (json!({ "config": { "probation_time": "1s" } }), vec!["config.probation"]),
        (json!({ "lockout": { "note": "x" } }), vec!["lockout"]),
        (json!({ "lockout": "text" }), vec!["lockout"]),
        (json!({ "lockout": { "other": 1 } }), vec!["lockout"]),
    ] {
        assert!(has_sudo_field(&fields(), &map(sent.clone())), "{sent}");
        assert_eq!(changed(sent.clone(), present.clone()), names, "{sent}");
    }
}

#[test]
fn field_rights_pass_values_that_change_nothing() {
    let present = json!({
        "version": "1.0.0", "grants": ["http:*"], "override": true,
        "lockout": { "probation": "5", "note": "n" }, "config": { "lines": ["a"] },
    });
    for sent in [
        json!({ "version": "1.0.0", "grants": "http:*", "override": "1" }),
        json!({ "lockout": { "probation_time": 5 } }),
        json!({ "lockout": {} }),
        json!({ "config": { "lines": "a", "note": "other" } }),
        json!({ "config": "" }),
        json!({ "note": "new" }),
        json!({ "unknown": "new" }),
    ] {
        assert_eq!(changed(sent.clone(), present.clone()), [""; 0], "{sent}");
    }
    let empty = json!({
        "version": "", "override": false, "grants": [], "lockout": { "probation": "" },
        "config": { "lines": [], "probation": "" },
    });
    assert_eq!(changed(empty, json!({})), [""; 0]);
    assert!(!has_sudo_field(&fields(), &map(json!({ "note": "x", "config": { "note": "y" } }))));
}

#[test]
fn field_rights_count_all_against_unreadable_objects() {
    let sent = map(json!({ "version": "", "config": { "probation": "" }, "note": "x" }));
    let names = changed_sudo_fields(&fields(), &sent, &PresentValues::Unknown);
    assert_eq!(names, ["config.probation", "version"]);
}

#[test]
fn field_rights_of_new_objects_begin_at_defaults() {
    let mut route = Route::new(Verb::Write, "x", "");
    let flag = Field::new("check", FieldKind::Bool, "").needs_sudo();
    route.fields = vec![Field { default: Some(json!(true)), ..flag }];
    let present = PresentValues::defaults(&route);
    let names = |sent: Value| changed_sudo_fields(&route.fields, &map(sent), &present);
    assert_eq!(names(json!({ "check": "true" })), [""; 0]);
    assert_eq!(names(json!({ "check": false })), ["check"]);
}

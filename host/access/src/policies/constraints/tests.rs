//! Tests of `constraints.rs`.

use super::super::comparison::{comparison_cost, is_same, tally};
use super::*;
use bulkhead_wire::description::FieldKind;
use serde_json::json;

fn map(value: Value) -> Map<String, Value> {
    value.as_object().unwrap().clone()
}

fn lists(value: Value) -> ParameterLists {
    map(value).into_iter().map(|(name, list)| (name, list.as_array().unwrap().clone())).collect()
}

fn allowed(value: Value) -> ParameterConstraints {
    ParameterConstraints { allowed: lists(value), ..ParameterConstraints::default() }
}

fn denied(value: Value) -> ParameterConstraints {
    ParameterConstraints { denied: lists(value), ..ParameterConstraints::default() }
}

fn passes(constraints: &ParameterConstraints, fields: Value) -> bool {
    constraints.check(&map(fields), &[]).is_ok()
}

fn schema() -> Vec<Field> {
    let field = |value: Value| serde_json::from_value(value).unwrap();
    vec![
        field(json!({"name": "cluster_host", "kind": "string", "aliases": ["kubernetes_host"],
            "about": ""})),
        field(json!({"name": "ttl", "kind": "duration", "about": ""})),
    ]
}

#[test]
fn no_constraints_allow_everything() {
    assert!(passes(&ParameterConstraints::default(), json!({"a": 1, "b": [2]})));
}

#[test]
fn required_parameter_matches_any_case_and_rejects_null() {
    let rule = ParameterConstraints {
        required: ["ttl".to_owned()].into(),
        ..ParameterConstraints::default()
    };
    assert!(passes(&rule, json!({"TTL": "1h"})));
    assert!(!passes(&rule, json!({"ttl": null})));
    assert!(rule.check(&Map::new(), &[]).unwrap_err().contains("without parameter \"ttl\""));
}

#[test]
fn required_parameter_in_unread_spelling_counts_as_missing() {
    let check =
        |rule: &ParameterConstraints, fields: Value| rule.check(&map(fields), &schema()).is_ok();
    let ttl = ParameterConstraints {
        required: ["TTL".to_lowercase()].into(),
        ..ParameterConstraints::default()
    };
    assert!(check(&ttl, json!({"ttl": 60})));
    assert!(!check(&ttl, json!({"TTL": 60})));
    let host = ParameterConstraints {
        required: ["cluster_host".to_owned()].into(),
        ..ParameterConstraints::default()
    };
    assert!(check(&host, json!({"kubernetes_host": "a"})));
    assert!(!check(&host, json!({"Kubernetes_Host": "a"})));
}

#[test]
fn every_spelling_that_was_sent_is_checked() {
    let check =
        |rule: &ParameterConstraints, fields: Value| rule.check(&map(fields), &schema()).is_ok();
    for rule in
        [allowed(json!({"cluster_host": ["good"]})), denied(json!({"cluster_host": ["bad"]}))]
    {
        assert!(check(&rule, json!({"cluster_host": "good", "kubernetes_host": "good"})));
        for (one, other) in [("good", "bad"), ("bad", "good")] {
            assert!(!check(&rule, json!({"cluster_host": one, "kubernetes_host": other})));
            assert!(!check(&rule, json!({"cluster_host": one, "CLUSTER_HOST": other})));
            assert!(!check(&rule, json!({"Cluster_Host": one, "KUBERNETES_host": other})));
        }
    }
}

#[test]
fn denied_value_is_denied_in_every_readable_form() {
    for (written, values) in [
        (json!(true), json!(["TRUE", "True", "t", "1", 1, true])),
        (json!("false"), json!(["FALSE", "0", 0, "f", false])),
        (json!("1h"), json!([3600, "3600", "60m", " 1h ", 3600.0])),
        (json!(3600), json!([3600, "3600", "60m", "1h", 3600.0])),
        (json!("t*"), json!([true, "true"])),
        (json!("b"), json!(["b", ["a", "b"], [["b"]], {"k": "b"}, {"k": ["b"]}])),
        (json!("*"), json!(["", 0, [], {}, false])),
    ] {
        for value in values.as_array().unwrap() {
            let rule = denied(json!({"a": [written]}));
            assert!(!passes(&rule, json!({"a": value})), "{value} under denied {written}");
            assert!(!passes(&rule, json!({"a": [value]})), "[{value}] under denied {written}");
        }
    }
    for (written, value) in [("1h", "1 h"), ("env", "envoy"), ("", "0"), ("1", "true"), ("a", "ab")]
    {
        assert!(
            passes(&denied(json!({"a": [written]})), json!({"a": value})),
            "{value} under denied {written}"
        );
    }
}

#[test]
fn allowed_value_is_allowed_only_as_written() {
    let rule = allowed(json!({"a": [true, 3600, "b"]}));
    for value in [
        json!("TRUE"),
        json!("1"),
        json!("60m"),
        json!(["b", null]),
        json!([["b"]]),
        json!({"k": "b"}),
    ] {
        assert!(!passes(&rule, json!({"a": value})), "{value}");
    }
}

#[test]
fn denied_value_is_denied_in_every_equivalent_spelling() {
    let rule = denied(json!({"policies": ["admin", "team-*"], "from": ["secret/"]}));
    for parameters in [
        json!({"policies": ["x", "ADMIN"]}),
        json!({"policies": [" Admin "]}),
        json!({"policies": "Team-Orders"}),
        json!({"from": "/secret"}),
        json!({"from": "secret"}),
    ] {
        assert!(!passes(&rule, parameters.clone()), "{parameters}");
    }
    assert!(passes(&rule, json!({"policies": ["administrators"], "from": "secret2"})));
    assert!(
        !passes(&allowed(json!({"policies": ["admin"]})), json!({"policies": ["ADMIN"]})),
        "read narrowly"
    );
}

#[test]
fn a_request_without_parameters_meets_allowed_and_denied() {
    for rule in [allowed(json!({"a": ["x"]})), denied(json!({"*": []}))] {
        assert!(passes(&rule, json!({})));
        assert!(passes(&rule, json!({"b": null})));
    }
}

#[test]
fn only_listed_parameters_with_listed_values_are_allowed() {
    let rule = allowed(json!({"a": ["x", "y*"], "b": []}));
    assert!(passes(&rule, json!({"a": "x", "b": {"any": "thing"}})));
    assert!(passes(&rule, json!({"A": "yes"})));
    assert!(!passes(&rule, json!({"a": "z"})));
    assert!(!passes(&rule, json!({"a": "x", "c": 1})));
}

#[test]
fn star_parameter_matches_all_unnamed_parameters() {
    let rule = allowed(json!({"a": ["x"], "*": []}));
    assert!(passes(&rule, json!({"a": "x", "other": 1})));
    assert!(!passes(&rule, json!({"a": "y", "other": 1})));
    let narrow = allowed(json!({"*": ["x"]}));
    assert!(passes(&narrow, json!({"any": "x"})));
    assert!(!passes(&narrow, json!({"any": "y"})));
}

#[test]
fn denied_wins_over_allowed() {
    let both = ParameterConstraints {
        allowed: lists(json!({"*": []})),
        ..denied(json!({"a": ["x"], "b": []}))
    };
    assert!(passes(&both, json!({"a": "y", "c": 1})));
    assert!(!passes(&both, json!({"a": "x"})));
    assert!(!passes(&both, json!({"b": "anything"})));
    assert!(!passes(&denied(json!({"*": ["x"]})), json!({"a": "y"})));
}

#[test]
fn lists_are_compared_element_by_element() {
    let rule = allowed(json!({"a": ["x", "y"]}));
    assert!(passes(&rule, json!({"a": ["x", "y", "x"]})));
    assert!(!passes(&rule, json!({"a": ["x", "z"]})));
    let rule = denied(json!({"a": ["x", "y"]}));
    assert!(passes(&rule, json!({"a": ["z"]})));
    assert!(!passes(&rule, json!({"a": ["z", "x"]})));
    assert!(!passes(&rule, json!({"a": [["z", ["y"]]]})), "nesting hides nothing");
}

#[test]
fn empty_list_is_allowed_only_if_listed() {
    assert!(!passes(&allowed(json!({"cidrs": ["10.0.0.0/8"]})), json!({"cidrs": []})));
    assert!(passes(&allowed(json!({"cidrs": ["10.0.0.0/8", []]})), json!({"cidrs": []})));
    assert!(passes(&allowed(json!({"cidrs": []})), json!({"cidrs": []})));
}

#[test]
fn maps_are_compared_by_key_and_value() {
    let rule = allowed(json!({"meta": ["env=test", "team=*"]}));
    assert!(passes(&rule, json!({"meta": {"env": "test", "team": "a"}})));
    assert!(!passes(&rule, json!({"meta": {"env": "production"}})));
    assert!(!passes(&allowed(json!({"meta": ["test"]})), json!({"meta": {"role": "test"}})));
    assert!(!passes(
        &denied(json!({"meta": ["production"]})),
        json!({"meta": {"env": "production"}})
    ));
    assert!(!passes(
        &denied(json!({"meta": ["env=production"]})),
        json!({"meta": {"env": "production"}})
    ));
}

#[test]
fn scalars_compare_equal_in_every_request_form() {
    for (value, written) in [
        (json!(3600), json!("1h")),
        (json!(3600), json!("3600s")),
        (json!(3600), json!(3600)),
        (json!(3600), json!(3600.0)),
        (json!(3600), json!("36*")),
        (json!("3600"), json!(3600)),
        (json!(true), json!("True")),
        (json!(true), json!(1)),
        (json!(false), json!("0")),
        (json!("true"), json!(true)),
        (json!("abc"), json!("*c")),
        (json!("abc"), json!("*b*")),
        (json!({"x": 1}), json!("*")),
        (json!(true), json!("t*")),
    ] {
        assert!(is_same(&value, &written), "{value} {written}");
    }
}

#[test]
fn other_scalars_are_not_the_same() {
    for (value, written) in [
        (json!(3600), json!("2h")),
        (json!(0), json!("")),
        (json!(-1), json!("1")),
        (json!(9_007_199_254_740_993_u64), json!(9_007_199_254_740_992_u64)),
        (json!(true), json!("false")),
        (json!("abc"), json!("a*c")),
        (json!("ABC"), json!("abc")),
        (json!(""), json!("a*")),
        (json!({"x": 1}), json!("x*")),
    ] {
        assert!(!is_same(&value, &written), "{value} {written}");
    }
}

#[test]
fn alias_in_policy_constrains_its_target_field() {
    let check =
        |rule: &ParameterConstraints, fields: Value| rule.check(&map(fields), &schema()).is_ok();
    assert!(!check(&denied(json!({"kubernetes_host": []})), json!({"cluster_host": "a"})));
    assert!(!check(&denied(json!({"cluster_host": []})), json!({"kubernetes_host": "a"})));
    let both = allowed(json!({"kubernetes_host": ["a"], "cluster_host": ["b"]}));
    assert!(
        check(&both, json!({"cluster_host": "a"})) && check(&both, json!({"cluster_host": "b"}))
    );
    assert!(!check(&both, json!({"cluster_host": "c"})));
    let required = ParameterConstraints {
        required: ["kubernetes_host".to_owned()].into(),
        ..ParameterConstraints::default()
    };
    assert!(check(&required, json!({"cluster_host": "a"})));
}

/// Returns a shortened schema of an endpoint that mounts a plugin.
fn mounting() -> Vec<Field> {
    let text = |name: &str| Field::new(name, FieldKind::String, "");
    let plugin_name = || text("plugin_name").counts_as("type");
    let ttl = Field::new("max_ttl", FieldKind::Duration, "");
    let options = Field::new("options", FieldKind::Map, "").with_members(vec![text("reuse")]);
    let file = Field { aliases: vec!["path".to_owned()], ..text("file_path") };
    vec![
        text("type").deferring("plugin"),
        plugin_name(),
        text("token_period"),
        text("period").old_name_of("token_period"),
        Field::new("config", FieldKind::Any, "").with_members(vec![ttl, plugin_name(), options]),
        Field::new("audit", FieldKind::Map, "").with_members(vec![file]),
    ]
}

fn passes_mounting(rule: &ParameterConstraints, fields: &Value) -> bool {
    rule.check(&map(fields.clone()), &mounting()).is_ok()
}

#[test]
fn denied_parameter_matches_all_names_of_setting() {
    for (rule, sent) in [
        (json!({"token_period": []}), json!({"period": "1h"})),
        (json!({"period": []}), json!({"token_period": "1h"})),
        (json!({"Period": ["1h"]}), json!({"token_period": "60m"})),
        (json!({"max_ttl": []}), json!({"config": {"max_ttl": "1h"}})),
        (json!({"max_ttl": []}), json!({"config": {"MAX_TTL": "1h"}})),
        (json!({"max_ttl": [3600]}), json!({"config": {"max_ttl": "60m"}})),
        (json!({"reuse": ["bounded"]}), json!({"config": {"options": {"reuse": "bounded"}}})),
        (json!({"type": ["kv"]}), json!({"type": "kv"})),
        (json!({"type": ["kv"]}), json!({"type": "plugin", "plugin_name": "kv"})),
        (json!({"type": ["kv"]}), json!({"type": "plugin", "config": {"plugin_name": "kv"}})),
        (json!({"plugin_name": ["kv"]}), json!({"type": "kv"})),
        (json!({"type": ["plugin"]}), json!({"type": "plugin", "plugin_name": "kv"})),
        (json!({"file_path": []}), json!({"audit": {"path": "/x"}})),
        (json!({"audit": ["file_path=/x*"]}), json!({"audit": {"path": "/x/y"}})),
    ] {
        assert!(!passes_mounting(&denied(rule.clone()), &sent), "{sent} under denied {rule}");
    }
    for (rule, sent) in [
        (json!({"plugin_name": []}), json!({"type": "kv"})),
        (json!({"max_ttl": [60]}), json!({"config": {"max_ttl": 61}})),
        (json!({"type": ["kv"]}), json!({"type": "plugin", "plugin_name": "ssh"})),
        (json!({"max_ttl": []}), json!({"config": {"other": 1, "max_ttl": null}})),
    ] {
        assert!(passes_mounting(&denied(rule.clone()), &sent), "{sent} under denied {rule}");
    }
}

#[test]
fn allowed_parameter_matches_all_names_of_setting() {
    for (rule, sent, may) in [
        (json!({"token_period": ["1h"]}), json!({"period": "1h"}), true),
        (json!({"token_period": ["1h"]}), json!({"period": "2h"}), false),
        (json!({"type": ["kv"]}), json!({"type": "plugin", "plugin_name": "kv"}), true),
        (json!({"type": ["kv"]}), json!({"type": "plugin", "plugin_name": "ssh"}), false),
        (json!({"type": ["kv"]}), json!({"type": "plugin"}), false),
        (json!({"type": ["kv"]}), json!({"type": "plugin", "plugin_name": ""}), false),
        (
            json!({"type": ["kv"], "plugin_name": []}),
            json!({"type": "plugin", "plugin_name": "ssh"}),
            false,
        ),
        (
            json!({"type": ["kv"], "config": [], "*": []}),
            json!({"type": "plugin", "config": {"plugin_name": "ssh"}}),
            false,
        ),
        (
            json!({"type": ["plugin"], "plugin_name": []}),
            json!({"type": "plugin", "plugin_name": "ssh"}),
            true,
        ),
        (
            json!({"type": ["plugin"], "plugin_name": ["ssh"]}),
            json!({"type": "plugin", "plugin_name": "ssh"}),
            true,
        ),
        (json!({"max_ttl": ["1h"]}), json!({"config": {"max_ttl": "60m"}}), true),
        (json!({"max_ttl": ["1h"]}), json!({"config": {"max_ttl": "2h"}}), false),
        (json!({"max_ttl": ["1h"]}), json!({"config": {"max_ttl": "1h", "x": 1}}), false),
        (json!({"max_ttl": ["1h"]}), json!({"config": {}}), false),
        (json!({"config": [], "max_ttl": ["1h"]}), json!({"config": {"max_ttl": "2h"}}), false),
        (json!({"*": [], "max_ttl": ["1h"]}), json!({"config": {"max_ttl": "2h"}}), false),
        (
            json!({"config": [], "reuse": ["fresh"]}),
            json!({"config": {"options": {"reuse": "bounded"}, "max_ttl": 1}}),
            false,
        ),
        (
            json!({"config": [], "reuse": ["fresh"]}),
            json!({"config": {"options": {"reuse": "fresh"}, "max_ttl": 1}}),
            true,
        ),
    ] {
        assert_eq!(passes_mounting(&allowed(rule.clone()), &sent), may, "{sent} under {rule}");
    }
}

#[test]
fn required_setting_counts_under_each_readable_name() {
    let required = |name: &str| ParameterConstraints {
        required: [name.to_owned()].into(),
        ..ParameterConstraints::default()
    };
    for (name, sent, is_there) in [
        ("token_period", json!({"period": 1}), true),
        ("period", json!({"token_period": 1}), true),
        ("max_ttl", json!({"config": {"max_ttl": 1}}), true),
        ("max_ttl", json!({"config": {"Max_Ttl": 1}}), false),
    ] {
        assert_eq!(passes_mounting(&required(name), &sent), is_there, "{name}: {sent}");
    }
}

#[test]
fn a_long_comparison_is_refused_before_it_begins() {
    let listed: Vec<Value> = (0..500).map(|number| json!(format!("value-{number}"))).collect();
    let many = json!({"a": vec![Value::from(7); 300_000]});
    let long = json!({"a": "x".repeat(1 << 20)});
    let names: Map<String, Value> =
        (0..300).map(|number| (format!("n{number}"), json!("value-1"))).collect();
    for rule in [denied(json!({"a": listed})), allowed(json!({"*": listed}))] {
        for sent in [&many, &long] {
            let comparisons = tally::of(|| {
                let why = rule.check(&map(sent.clone()), &[]).unwrap_err();
                assert!(why.contains("comparisons") && why.contains("send fewer"), "{why}");
            });
            assert_eq!(comparisons, 0, "the request was compared");
        }
    }
    let each = allowed(json!({"*": listed}));
    assert!(each.check(&names, &[]).unwrap_err().contains("comparisons"));
    let some = json!({"a": vec![Value::from("value-1"); 200]});
    let comparisons = tally::of(|| {
        assert!(passes(&allowed(json!({"a": listed})), some.clone()));
        assert!(!passes(&denied(json!({"a": listed})), some));
    });
    assert!((1..=2 * MOST_COMPARISONS).contains(&comparisons), "{comparisons} comparisons");
    assert!(passes(&denied(json!({"b": listed})), many), "no rule speaks of it");
}

#[test]
fn merging_joins_values_and_any_value_wins() {
    let mut rule = allowed(json!({"a": ["x"], "b": ["x"]}));
    rule.merge(&ParameterConstraints {
        required: ["r".to_owned()].into(),
        ..allowed(json!({"a": ["y"], "b": [], "c": []}))
    });
    assert_eq!(rule.allowed, lists(json!({"a": ["x", "y"], "b": [], "c": []})));
    rule.merge(&allowed(json!({"b": ["z"]})));
    assert_eq!(rule.allowed.get("b").unwrap(), &Vec::<Value>::new());
    assert!(rule.required.contains("r"));
}

#[test]
fn refusals_show_names_and_never_values() {
    let fields = map(json!({"password": "hunter2"}));
    for rule in [allowed(json!({"password": ["x"]})), denied(json!({"password": ["hunter2"]}))] {
        let error = rule.check(&fields, &[]).unwrap_err();
        assert!(error.contains("\"password\"") && !error.contains("hunter2"), "{error}");
    }
}

#[test]
fn refused_value_says_policy_lists_others() {
    for (rule, sent) in [
        (allowed(json!({"a": ["x"]})), json!({"a": "y"})),
        (allowed(json!({"*": ["x"]})), json!({"a": "y"})),
    ] {
        let why = rule.check(&map(sent), &[]).unwrap_err();
        assert_eq!(why, "with this value of parameter \"a\"; the policy lists others");
    }
    let why = allowed(json!({"a": []})).check(&map(json!({"b": 1})), &[]).unwrap_err();
    assert_eq!(why, "with parameter \"b\", which the policy does not list");
}

#[test]
fn comparison_cost_counts_values_and_long_texts() {
    let text = |bytes: usize| json!("x".repeat(bytes));
    for (value, cost) in [
        (json!(null), 1),
        (json!(true), 1),
        (json!(1), 1),
        (text(0), 1),
        (text(1_023), 1),
        (text(1_024), 2),
        (text(3_000), 3),
        (json!([]), 1),
        (json!([1, "a", text(2_048)]), 6),
        (json!({"k": 1, "l": text(1_024)}), 6),
        (json!({"k": [1, [2]]}), 6),
    ] {
        assert_eq!(comparison_cost(&value), cost, "{cost}");
    }
}

#[test]
fn parameter_without_deferring_value_never_defers() {
    let schema = vec![
        Field::new("count", FieldKind::Int, ""),
        Field::new("name", FieldKind::String, "").counts_as("count"),
    ];
    let rule = allowed(json!({"name": []}));
    assert!(rule.check(&map(json!({"name": "x"})), &schema).is_ok());
    let why = rule.check(&map(json!({"name": "x", "count": 7})), &schema).unwrap_err();
    assert!(why.contains("\"count\", which the policy does not list"), "{why}");
}

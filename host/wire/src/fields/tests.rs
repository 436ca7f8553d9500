//! Tests of reading a request's fields by their schema.

use super::*;
use crate::description::Verb;
use crate::failure::FailureKind;
use serde_json::json;

fn field(name: &str, kind: FieldKind) -> Field {
    Field::new(name, kind, format!("what {name} is"))
}

fn route() -> Route {
    let fields = vec![
        field("name", FieldKind::Name),
        Field {
            aliases: vec!["kubernetes_host".into(), "host".into()],
            ..field("cluster_host", FieldKind::String)
        },
        Field { aliases: vec!["max".into()], ..field("max_ttl", FieldKind::Duration) },
        Field { required: true, ..field("statements", FieldKind::TextList) },
        Field { default: Some(json!("1h")), ..field("period", FieldKind::Duration) },
        field("schedule", FieldKind::String),
        Field { secret: true, aliases: vec!["pass".into()], ..field("password", FieldKind::Name) },
        Field { secret: true, ..field("keys", FieldKind::Any) },
    ];
    Route {
        fields,
        exclusive: vec![vec!["period".into(), "schedule".into()]],
        existence: Some("role/{name}".to_owned()),
        ..Route::new(Verb::Write, "roles/{name}", "")
    }
}

fn map(value: Value) -> Map<String, Value> {
    value.as_object().unwrap().clone()
}

fn capture(text: &str) -> [(String, String); 1] {
    [("name".to_owned(), text.to_owned())]
}

fn folded(input: Value) -> Result<FoldedFields, Failure> {
    fold_names(&route(), &map(input), &capture("a"))
}

fn refusal(input: Value) -> String {
    let failure = folded(input).unwrap_err();
    assert_eq!(failure.kind, FailureKind::InvalidRequest);
    failure.message
}

#[test]
fn null_is_absent_under_any_name() {
    let folded =
        folded(json!({ "max_ttl": null, "kubernetes_host": null, "nobody": null })).unwrap();
    assert_eq!(
        folded,
        FoldedFields { values: map(json!({ "name": "a" })), ..FoldedFields::default() }
    );
}

#[test]
fn every_spelling_arrives_under_the_canonical_name() {
    for name in ["cluster_host", "kubernetes_host", "host"] {
        let folded = folded(json!({ name: "h" })).unwrap();
        assert_eq!(folded.values, map(json!({ "name": "a", "cluster_host": "h" })));
    }
}

#[test]
fn spellings_may_agree_after_coercion_but_not_differ() {
    assert_eq!(
        folded(json!({ "max_ttl": "1h", "max": 3600 })).unwrap().values["max_ttl"],
        json!(3600)
    );
    let why = refusal(json!({ "max_ttl": "1h", "max": "2h" }));
    assert!(why.contains("max_ttl") && why.contains("max and"), "{why}");
    let why = refusal(json!({ "kubernetes_host": "h", "host": "other" }));
    assert!(why.contains("kubernetes_host") && why.contains("host and"), "{why}");
    assert_eq!(
        folded(json!({ "max_ttl": "1h", "max": null })).unwrap().values["max_ttl"],
        json!(3600)
    );
}

#[test]
fn field_refusal_names_field_value_and_accepted_kind() {
    assert!(
        refusal(json!({ "max": "soon" }))
            .starts_with(r#"max: "soon" is not a duration: give whole seconds"#)
    );
    assert!(refusal(json!({ "max_ttl": [1] })).starts_with("max_ttl: a list is not a duration"));
    assert!(refusal(json!({ "host": {} })).starts_with("host: an object is not a text: give"));
}

#[test]
fn secret_field_refusal_shows_only_type() {
    let why = refusal(json!({ "pass": "hunter 2" }));
    assert!(why.starts_with("pass: a text is not a name") && !why.contains("hunter"), "{why}");
    let why = refusal(json!({ "pass": "a", "password": "b-secret" }));
    assert!(!why.contains("b-secret"), "{why}");
}

#[test]
fn path_wins_over_body_and_reports_difference() {
    let same = folded(json!({ "name": "a" })).unwrap();
    assert_eq!((same.values, same.overridden), (map(json!({ "name": "a" })), Vec::new()));
    for other in [json!("b"), json!("not a name"), json!([1])] {
        let folded = folded(json!({ "name": other })).unwrap();
        assert_eq!(
            (folded.values, folded.overridden),
            (map(json!({ "name": "a" })), vec!["name".to_owned()])
        );
    }
}

#[test]
fn capture_of_invalid_name_is_no_path() {
    for text in ["a b", "..", "-a", "", "ä"] {
        let failure = fold_names(&route(), &Map::new(), &capture(text)).unwrap_err();
        assert_eq!(failure.kind, FailureKind::NotFound, "{text}");
        assert!(failure.message.contains(&quoted(text)), "{}", failure.message);
    }
}

#[test]
fn a_capture_of_kind_string_takes_any_segment() {
    let mut route = route();
    route.fields[0].kind = FieldKind::String;
    let folded = fold_names(&route, &Map::new(), &capture("a b")).unwrap();
    assert_eq!(folded.values, map(json!({ "name": "a b" })));
}

#[test]
fn capture_without_field_is_internal_failure() {
    let failure =
        fold_names(&route(), &Map::new(), &[("other".to_owned(), "a".to_owned())]).unwrap_err();
    assert_eq!(failure.kind, FailureKind::Internal);
}

#[test]
fn unknown_fields_are_dropped_and_listed_in_order() {
    let folded = folded(json!({ "zeta": 1, "alpha": 2, "Max_ttl": 3 })).unwrap();
    assert_eq!(folded.values, map(json!({ "name": "a" })));
    assert_eq!(folded.unknown, ["Max_ttl", "alpha", "zeta"]);
}

#[test]
fn open_fields_keep_the_unknown_as_it_came() {
    let route = Route { open_fields: true, ..route() };
    let input = map(json!({ "tls": { "a": [1] }, "host": "h", "gone": null }));
    let folded = fold_names(&route, &input, &capture("a")).unwrap();
    assert_eq!(
        folded.values,
        map(json!({ "name": "a", "cluster_host": "h", "tls": { "a": [1] } }))
    );
    assert!(folded.unknown.is_empty());
}

#[test]
fn verbatim_body_stays_unchanged_without_captures() {
    let route = Route { open_fields: true, verbatim: true, ..route() };
    let input = map(json!({ "name": null, "ttl": "", "host": { "a": [null] } }));
    let folded = fold_names(&route, &input, &capture("a")).unwrap();
    assert_eq!(folded.values, input);
    assert!(folded.unknown.is_empty() && folded.overridden.is_empty());
    let failure = fold_names(&route, &input, &capture("-")).unwrap_err();
    assert_eq!(failure.kind, FailureKind::NotFound);
}

#[test]
fn secret_document_is_no_secret_of_call() {
    let fields = vec![Field::new("data", FieldKind::Any, "").secret()];
    let values = map(json!({ "data": { "password": "hunter2" } }));
    assert_eq!(secrets(&fields, &values), Vec::<&str>::new());
}

#[test]
fn a_logged_call_shows_no_value() {
    let folded = folded(json!({ "password": "hunter2", "host": "h1" })).unwrap();
    let text = format!("{folded:?}");
    assert!(
        text.contains("password") && !text.contains("hunter2") && !text.contains("h1"),
        "{text}"
    );
}

#[test]
fn creation_requires_required_fields_and_fills_defaults() {
    let mut values = map(json!({ "statements": ["x"] }));
    apply_defaults(&route(), &mut values, true).unwrap();
    assert_eq!(values, map(json!({ "statements": ["x"], "period": 3600 })));
    for values in [json!({}), json!({ "statements": [] })] {
        let failure = apply_defaults(&route(), &mut map(values), true).unwrap_err();
        let (kind, message) = (failure.kind, failure.message.as_str());
        assert_eq!(
            (kind, message),
            (FailureKind::InvalidRequest, "statements is required: what statements is")
        );
    }
}

#[test]
fn update_keeps_absent_fields() {
    let mut values = map(json!({ "max_ttl": 60 }));
    apply_defaults(&route(), &mut values, false).unwrap();
    assert_eq!(values, map(json!({ "max_ttl": 60 })));
}

#[test]
fn empty_scalar_text_changes_nothing_in_update() {
    let kinds = [
        ("ttl", FieldKind::Duration),
        ("uses", FieldKind::Int),
        ("renewable", FieldKind::Bool),
        ("about", FieldKind::String),
        ("list", FieldKind::CommaList),
        ("map", FieldKind::Map),
    ];
    let fields = kinds.map(|(name, kind)| field(name, kind)).to_vec();
    let route =
        Route { fields, existence: Some("x".to_owned()), ..Route::new(Verb::Write, "x", "") };
    let empty =
        map(json!({"ttl": "", "uses": " ", "renewable": "", "about": "", "list": "", "map": ""}));
    let said = map(json!({"ttl": 0, "uses": "0", "renewable": false}));
    let changes = |route: &Route, input: &Map<String, Value>, creating: bool| {
        let mut folded = fold_names(route, input, &[]).unwrap();
        folded.drop_blank(route, creating);
        Value::Object(folded.values)
    };
    assert_eq!(changes(&route, &empty, false), json!({"about": "", "list": [], "map": {}}));
    assert_eq!(changes(&route, &said, false), json!({"ttl": 0, "uses": 0, "renewable": false}));
    let all = json!({
        "ttl": 0, "uses": 0, "renewable": false, "about": "", "list": [], "map": {},
    });
    assert_eq!(changes(&route, &empty, true), all, "a create has the defaults of all fields");
    assert_eq!(changes(&Route { existence: None, ..route }, &empty, false), all);
}

#[test]
fn a_route_without_existence_is_always_complete() {
    let route = Route { existence: None, ..route() };
    assert!(
        apply_defaults(&route, &mut Map::new(), false).unwrap_err().message.contains("statements")
    );
    let mut values = map(json!({ "statements": ["x"] }));
    apply_defaults(&route, &mut values, false).unwrap();
    assert_eq!(values["period"], json!(3600));
}

#[test]
fn exclusive_fields_conflict_only_when_both_used() {
    for creating in [true, false] {
        let mut values = map(json!({ "statements": ["x"], "period": 60, "schedule": "0 0 * * *" }));
        let failure = apply_defaults(&route(), &mut values, creating).unwrap_err();
        assert!(failure.message.contains("period and schedule"), "{}", failure.message);
    }
    for (period, schedule) in [(60, ""), (0, "0 0 * * *"), (0, "")] {
        let mut values = map(json!({ "period": period, "schedule": schedule }));
        assert_eq!(apply_defaults(&route(), &mut values, false), Ok(()));
    }
}

#[test]
fn default_is_omitted_when_rival_is_given() {
    let mut values = map(json!({ "statements": ["x"], "schedule": "0 0 * * *" }));
    apply_defaults(&route(), &mut values, true).unwrap();
    assert!(!values.contains_key("period"));
}

#[test]
fn unfit_default_is_internal_failure() {
    let mut route = route();
    route.fields[4].default = Some(json!("soon"));
    let failure =
        apply_defaults(&route, &mut map(json!({ "statements": ["x"] })), true).unwrap_err();
    assert_eq!(failure.kind, FailureKind::Internal);
}

#[test]
fn marked_field_texts_of_any_name_are_secrets() {
    let values = map(json!({
        "cluster_host": "seen", "password": "p1", "pass": "p2",
        "keys": ["k1", { "deep": ["k2", ""] }, 5, null], "unknown": "u",
    }));
    let mut route = route();
    assert_eq!(secrets(&route.fields, &values), ["p1", "p2"], "any value is a payload");
    let keys = route.fields.iter_mut().find(|field| field.name == "keys").unwrap();
    keys.kind = FieldKind::TextList;
    assert_eq!(secrets(&route.fields, &values), ["p1", "p2", "k1", "k2"]);
}

#[test]
fn secret_settings_inside_of_others_are_secrets_too() {
    let setting = |name: &str| Field::new(name, FieldKind::String, "a setting");
    let inside = vec![setting("key_type"), setting("ca_private_key").secret()];
    let config = Field::new("config", FieldKind::Map, "settings").with_members(inside);
    let values = map(json!({ "config": { "key_type": "ec", "ca_private_key": "k1" } }));
    assert_eq!(secrets(std::slice::from_ref(&config), &values), ["k1"]);
    for (value, found) in [
        (json!(["key_type=ec", "ca_private_key=k1"]), vec!["k1"]),
        (json!("ca_private_key=k1"), vec!["k1"]),
        (json!("k1"), vec!["k1"]),
    ] {
        let values = map(json!({ "config": value }));
        assert_eq!(secrets(std::slice::from_ref(&config), &values), found);
        let spelled = values.get_key_value("config").unwrap();
        let why = single_value(&config, &[spelled]).err().map(|why| why.message);
        assert!(!why.is_some_and(|why| why.contains("k1")), "{value}");
    }
    let row = Route { fields: vec![config], ..Route::new(Verb::Write, "x", "Writes.") };
    let table = crate::route::RouteTable::new(vec![row]).unwrap();
    assert!(table.is_secret("ca_private_key") && !table.is_secret("key_type"));
}

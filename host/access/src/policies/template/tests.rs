//! Tests of `template.rs`.

use super::super::identity::{TemplateAlias, TemplateEntity, TemplateGroup};
use super::*;
use std::collections::BTreeMap;

fn texts(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
}

fn named(name: &str) -> TemplateIdentity {
    let alias = TemplateAlias {
        id: "alias-1".to_owned(),
        name: "ann@corp".to_owned(),
        metadata: texts(&[("region", "eu")]),
        custom_metadata: texts(&[("desk", "7")]),
    };
    let entity = TemplateEntity {
        id: "entity-1".to_owned(),
        name: name.to_owned(),
        metadata: texts(&[("team", "ops"), ("a.b", "dotted"), ("empty", "")]),
        aliases: BTreeMap::from([("auth_jwt_1".to_owned(), alias)]),
    };
    let group = TemplateGroup {
        id: "group-1".to_owned(),
        name: "night.shift".to_owned(),
        metadata: texts(&[("room", "12")]),
    };
    TemplateIdentity { entity: Some(entity), groups: vec![group] }
}

fn resolved(text: &str, identity: &TemplateIdentity) -> Result<PathPattern, UnresolvedReason> {
    RulePath::parse(text)
        .unwrap_or_else(|why| panic!("{text} {why}"))
        .resolve(identity)
        .map(Cow::into_owned)
}

#[test]
fn every_reference_of_the_specification_is_resolved() {
    let ann = named("ann");
    for (text, path) in [
        ("x/{{identity.entity.id}}", "x/entity-1"),
        ("x/{{ identity.entity.name }}/*", "x/ann/*"),
        ("/x/{{identity.entity.metadata.team}}-{{identity.entity.name}}", "x/ops-ann"),
        ("x/{{identity.entity.metadata.a.b}}", "x/dotted"),
        ("x/{{identity.entity.aliases.auth_jwt_1.id}}", "x/alias-1"),
        ("x/{{identity.entity.aliases.auth_jwt_1.name}}", "x/ann@corp"),
        ("x/{{identity.entity.aliases.auth_jwt_1.metadata.region}}", "x/eu"),
        ("x/{{identity.entity.aliases.auth_jwt_1.custom_metadata.desk}}*", "x/7*"),
        ("x/+/{{identity.groups.ids.group-1.name}}", "x/+/night.shift"),
        ("{{identity.groups.ids.group-1.metadata.room}}", "12"),
        ("{{identity.groups.names.night.shift.id}}/x", "group-1/x"),
        ("{{identity.groups.names.night.shift.metadata.room}}/x", "12/x"),
    ] {
        assert_eq!(resolved(text, &ann).unwrap(), PathPattern::parse(path).unwrap(), "{text}");
    }
}

#[test]
fn placeholder_without_value_for_caller_is_unknown() {
    let ann = named("ann");
    for name in [
        "identity.entity.metadata.other",
        "identity.entity.metadata.empty",
        "identity.entity.aliases.auth_other_1.name",
        "identity.groups.ids.group-2.name",
        "identity.groups.names.day.id",
    ] {
        assert_eq!(
            resolved(&format!("x/{{{{{name}}}}}/*"), &ann),
            Err(UnresolvedReason::Unknown),
            "{name}"
        );
    }
    assert_eq!(
        resolved("x/{{identity.entity.id}}", &TemplateIdentity::default()),
        Err(UnresolvedReason::Unknown)
    );
    assert_eq!(resolved("x/{{identity.entity.name}}*", &named("")), Err(UnresolvedReason::Unknown));
}

#[test]
fn template_value_exceeding_one_segment_is_refused_unquoted() {
    for value in [
        "*",
        "a*",
        "+",
        "a+b",
        "a/b",
        "/",
        "../x",
        "a,b",
        "a\nb",
        "a\u{0}b",
        "\u{85}",
        "secret-ann/x",
    ] {
        for text in [
            "x/{{identity.entity.name}}",
            "x/{{identity.entity.name}}/*",
            "{{identity.entity.name}}",
        ] {
            let Err(UnresolvedReason::Refused(why)) = resolved(text, &named(value)) else {
                panic!("{value:?} {text}")
            };
            assert!(why.contains("identity.entity.name") && !why.contains("secret"), "{why}");
        }
    }
    for value in [".", ".."] {
        assert!(matches!(
            resolved("x/{{identity.entity.name}}", &named(value)),
            Err(UnresolvedReason::Refused(_))
        ));
    }
    let long = named(&"x".repeat(5_000));
    assert!(matches!(
        resolved("x/{{identity.entity.name}}", &long),
        Err(UnresolvedReason::Refused(_))
    ));
}

#[test]
fn a_value_is_never_read_as_a_template() {
    let braces = named("{{identity.entity.id}}");
    let pattern = resolved("x/{{identity.entity.name}}", &braces).unwrap();
    assert!(pattern.matches("x/{{identity.entity.id}}") && !pattern.matches("x/entity-1"));
}

#[test]
fn malformed_braces_and_unknown_references_fail_with_remedy() {
    for (text, part) in [
        ("x/{{identity.entity.id", "does not close it"),
        ("x/{{", "does not close it"),
        ("x/identity.entity.id}}", "without \"{{\""),
        ("x/}}/{{identity.entity.id}}", "without \"{{\""),
        ("x/{{identity.entity.id}}}}", "without \"{{\""),
        ("x/{{{identity.entity.id}}}", "not part of an identity"),
        ("x/{{}}", "not part of an identity"),
        ("x/{{identity.entity}}", "not part of an identity"),
        ("x/{{identity.entity.email}}", "known are identity.entity."),
        ("x/{{identity.entity.metadata.}}", "not part of an identity"),
        ("x/{{identity.entity.custom_metadata.k}}", "not part of an identity"),
        ("x/{{identity.entity.aliases.name}}", "not part of an identity"),
        ("x/{{identity.groups.ids.1.id}}", "not part of an identity"),
        ("x/{{identity.groups.names.a.name}}", "not part of an identity"),
        ("x/{{identity.groups.names..id}}", "not part of an identity"),
        ("x/{{Identity.entity.id}}", "not part of an identity"),
        ("x/{{identity.entity.id}}+", "one whole segment"),
        ("x/*/{{identity.entity.id}}", "only at the end"),
        ("x//{{identity.entity.id}}", "empty segment"),
    ] {
        let why = RulePath::parse(text).unwrap_err();
        assert!(why.contains(part), "{text} gave {why}");
    }
}

#[test]
fn single_braces_are_letters_of_a_path() {
    assert!(matches!(RulePath::parse("x/{name}/}").unwrap(), RulePath::Fixed(_)));
}

//! Paths of rules that name their caller: `teams/{{identity.entity.name}}/*`.
//!
//! The attack this file stops: a caller who has a say in the own name, chooses `*` or `a/b`, and so
//! turns a rule for one folder into a rule for all. A value becomes a part of one segment; one that
//! could be more is refused.

use super::identity::Identity;
use super::pattern::Pattern;
use bulkhead_wire::failure::quoted;
use std::borrow::Cow;
use std::fmt;

/// The path of a rule, before it is known who asks.
#[derive(Clone, Debug, PartialEq)]
pub enum RulePath {
    /// The same for everyone.
    Fixed(Pattern),
    /// Another one for each caller.
    Templated(Template),
}

/// A pattern with places for what the caller is called.
#[derive(Clone, Debug, PartialEq)]
pub struct Template {
    text: String,
    parts: Vec<Part>,
}

#[derive(Clone, Debug, PartialEq)]
enum Part {
    Text(String),
    Value(Reference),
}

/// One `{{identity.…}}`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Reference {
    /// Of whom.
    pub subject: Subject,
    /// What.
    pub attribute: Attribute,
}

/// Of whom a reference speaks.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Subject {
    /// The caller's entity.
    Entity,
    /// The entity's alias at one auth method.
    Alias {
        /// The method's accessor.
        mount: String,
    },
    /// The group with this id, if the caller is in it.
    GroupById(String),
    /// The group with this name, if the caller is in it.
    GroupByName(String),
}

/// What a reference asks of its subject.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Attribute {
    /// Its id.
    Id,
    /// Its name.
    Name,
    /// One of its texts, by key.
    Metadata(String),
    /// One of the texts that operators gave an alias, by key.
    CustomMetadata(String),
}

/// Why a templated rule does not count for a caller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Unresolved {
    /// The caller has no such value, as many have not.
    Unknown,
    /// The caller has a value that must not stand in a path. The sentence says which and never
    /// shows it.
    Refused(String),
}

const KNOWN: &str = "known are identity.entity.{id, name, metadata.KEY, aliases.MOUNT-ACCESSOR.{id, name, \
                     metadata.KEY, custom_metadata.KEY}}, identity.groups.ids.ID.{name, metadata.KEY} and \
                     identity.groups.names.NAME.{id, metadata.KEY}";

impl RulePath {
    /// Reads the label of a rule.
    ///
    /// # Errors
    /// What is wrong with it, to stand behind the label, and what to write instead.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        if !text.contains("{{") && !text.contains("}}") {
            return Ok(Self::Fixed(Pattern::parse(text)?));
        }
        let template = Template { text: text.to_owned(), parts: parts(text)? };
        // With any value in its places it must be a pattern.
        Pattern::parse(&template.filled(|_| "x"))?;
        Ok(Self::Templated(template))
    }

    /// The path for this caller.
    pub(super) fn resolve(&self, identity: &Identity) -> Result<Cow<'_, Pattern>, Unresolved> {
        match self {
            Self::Fixed(pattern) => Ok(Cow::Borrowed(pattern)),
            Self::Templated(template) => template.resolve(identity).map(Cow::Owned),
        }
    }

    /// What must be known of a caller to resolve it.
    pub(super) fn references(&self) -> impl Iterator<Item = &Reference> {
        let parts = match self {
            Self::Fixed(_) => [].as_slice(),
            Self::Templated(template) => template.parts.as_slice(),
        };
        references(parts)
    }
}

impl Template {
    fn resolve(&self, identity: &Identity) -> Result<Pattern, Unresolved> {
        for reference in references(&self.parts) {
            let value = identity.value(reference).ok_or(Unresolved::Unknown)?;
            if value.contains(is_unfit) {
                let why = format!(
                    "the caller's value of {reference} holds \"/\", \"*\", \"+\", \",\" or a control character"
                );
                return Err(Unresolved::Refused(why));
            }
        }
        let text = self.filled(|reference| identity.value(reference).unwrap_or_default());
        let fault = |why| {
            Unresolved::Refused(format!("with the caller's values, {} {why}", quoted(&self.text)))
        };
        Pattern::parse(&text).map_err(fault)
    }

    fn filled<'a>(&'a self, value: impl Fn(&'a Reference) -> &'a str) -> String {
        let text = |part: &'a Part| match part {
            Part::Text(text) => text.as_str(),
            Part::Value(reference) => value(reference),
        };
        self.parts.iter().map(text).collect()
    }
}

/// As it was written.
impl fmt::Display for Template {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

fn references(parts: &[Part]) -> impl Iterator<Item = &Reference> {
    parts.iter().filter_map(|part| match part {
        Part::Text(_) => None,
        Part::Value(reference) => Some(reference),
    })
}

/// A slash would reach into another folder, a wildcard into all of them; a comma makes two of one
/// in lists of paths.
fn is_unfit(c: char) -> bool {
    matches!(c, '/' | '*' | '+' | ',') || c.is_control()
}

fn parts(text: &str) -> Result<Vec<Part>, String> {
    const UNOPENED: &str = "has \"}}\" without \"{{\" in front; write {{identity.entity.id}}";
    let mut parts = Vec::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("{{") {
        let Some((name, after)) = after.split_once("}}") else {
            return Err(
                "opens \"{{\" and does not close it; write {{identity.entity.id}}".to_owned()
            );
        };
        let Some(reference) = Reference::parse(name.trim()) else {
            return Err(format!(
                "names {}, which is no part of an identity; {KNOWN}",
                quoted(name.trim())
            ));
        };
        if before.contains("}}") {
            return Err(UNOPENED.to_owned());
        }
        parts.push(Part::Text(before.to_owned()));
        parts.push(Part::Value(reference));
        rest = after;
    }
    if rest.contains("}}") {
        return Err(UNOPENED.to_owned());
    }
    parts.push(Part::Text(rest.to_owned()));
    Ok(parts)
}

impl Reference {
    /// Reads what stands between the braces.
    fn parse(name: &str) -> Option<Self> {
        let path = name.strip_prefix("identity.")?;
        let (subject, attribute) = if let Some(path) = path.strip_prefix("entity.aliases.") {
            let (mount, attribute) = path.split_once('.')?;
            (Subject::Alias { mount: mount.to_owned() }, Attribute::parse(attribute)?)
        } else if let Some(attribute) = path.strip_prefix("entity.") {
            (Subject::Entity, Attribute::parse(attribute)?)
        } else if let Some(path) = path.strip_prefix("groups.ids.") {
            let (id, attribute) = path.split_once('.')?;
            (Subject::GroupById(id.to_owned()), Attribute::parse(attribute)?)
        } else {
            let (name, attribute) = of_group_name(path.strip_prefix("groups.names.")?)?;
            (Subject::GroupByName(name.to_owned()), attribute)
        };
        Self { subject, attribute }.known()
    }

    /// Itself, if its subject has such an attribute.
    fn known(self) -> Option<Self> {
        let is_known = match (&self.subject, &self.attribute) {
            (Subject::Alias { mount }, _) => !mount.is_empty(),
            (_, Attribute::CustomMetadata(_)) => false,
            (Subject::Entity, _) => true,
            (Subject::GroupById(id), attribute) => !id.is_empty() && *attribute != Attribute::Id,
            (Subject::GroupByName(name), attribute) => {
                !name.is_empty() && *attribute != Attribute::Name
            }
        };
        is_known.then_some(self)
    }
}

/// Names of groups may hold dots, so that the attribute is looked for from the other end.
fn of_group_name(path: &str) -> Option<(&str, Attribute)> {
    if let Some((name, key)) = path.split_once(".metadata.") {
        return (!key.is_empty()).then(|| (name, Attribute::Metadata(key.to_owned())));
    }
    Some((path.strip_suffix(".id")?, Attribute::Id))
}

impl Attribute {
    fn parse(text: &str) -> Option<Self> {
        let key = |key: &str| (!key.is_empty()).then(|| key.to_owned());
        match text {
            "id" => Some(Self::Id),
            "name" => Some(Self::Name),
            _ => match text.strip_prefix("metadata.") {
                Some(text) => key(text).map(Self::Metadata),
                None => key(text.strip_prefix("custom_metadata.")?).map(Self::CustomMetadata),
            },
        }
    }
}

/// As policies write it, without the braces.
impl fmt::Display for Reference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.subject {
            Subject::Entity => f.write_str("identity.entity.")?,
            Subject::Alias { mount } => write!(f, "identity.entity.aliases.{mount}.")?,
            Subject::GroupById(id) => write!(f, "identity.groups.ids.{id}.")?,
            Subject::GroupByName(name) => write!(f, "identity.groups.names.{name}.")?,
        }
        match &self.attribute {
            Attribute::Id => f.write_str("id"),
            Attribute::Name => f.write_str("name"),
            Attribute::Metadata(key) => write!(f, "metadata.{key}"),
            Attribute::CustomMetadata(key) => write!(f, "custom_metadata.{key}"),
        }
    }
}

#[cfg(test)]
mod tests {

    use super::super::identity::{Alias, Entity, Group};
    use super::*;
    use std::collections::BTreeMap;

    fn texts(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
        pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
    }

    fn named(name: &str) -> Identity {
        let alias = Alias {
            id: "alias-1".to_owned(),
            name: "ann@corp".to_owned(),
            metadata: texts(&[("region", "eu")]),
            custom_metadata: texts(&[("desk", "7")]),
        };
        let entity = Entity {
            id: "entity-1".to_owned(),
            name: name.to_owned(),
            metadata: texts(&[("team", "ops"), ("a.b", "dotted"), ("empty", "")]),
            aliases: BTreeMap::from([("auth_jwt_1".to_owned(), alias)]),
        };
        let group = Group {
            id: "group-1".to_owned(),
            name: "night.shift".to_owned(),
            metadata: texts(&[("room", "12")]),
        };
        Identity { entity: Some(entity), groups: vec![group] }
    }

    fn resolved(text: &str, identity: &Identity) -> Result<Pattern, Unresolved> {
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
            assert_eq!(resolved(text, &ann).unwrap(), Pattern::parse(path).unwrap(), "{text}");
        }
    }

    #[test]
    fn what_the_caller_does_not_have_is_unknown() {
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
                Err(Unresolved::Unknown),
                "{name}"
            );
        }
        assert_eq!(
            resolved("x/{{identity.entity.id}}", &Identity::default()),
            Err(Unresolved::Unknown)
        );
        assert_eq!(resolved("x/{{identity.entity.name}}*", &named("")), Err(Unresolved::Unknown));
    }

    #[test]
    fn a_value_that_could_be_more_than_a_part_of_one_segment_is_refused_and_not_shown() {
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
                let Err(Unresolved::Refused(why)) = resolved(text, &named(value)) else {
                    panic!("{value:?} {text}")
                };
                assert!(why.contains("identity.entity.name") && !why.contains("secret"), "{why}");
            }
        }
        for value in [".", ".."] {
            assert!(matches!(
                resolved("x/{{identity.entity.name}}", &named(value)),
                Err(Unresolved::Refused(_))
            ));
        }
        let long = named(&"x".repeat(5_000));
        assert!(matches!(
            resolved("x/{{identity.entity.name}}", &long),
            Err(Unresolved::Refused(_))
        ));
    }

    #[test]
    fn a_value_is_never_read_as_a_template() {
        let braces = named("{{identity.entity.id}}");
        let pattern = resolved("x/{{identity.entity.name}}", &braces).unwrap();
        assert!(pattern.matches("x/{{identity.entity.id}}") && !pattern.matches("x/entity-1"));
    }

    #[test]
    fn malformed_braces_and_unknown_references_are_refused_with_the_remedy() {
        for (text, part) in [
            ("x/{{identity.entity.id", "does not close it"),
            ("x/{{", "does not close it"),
            ("x/identity.entity.id}}", "without \"{{\""),
            ("x/}}/{{identity.entity.id}}", "without \"{{\""),
            ("x/{{identity.entity.id}}}}", "without \"{{\""),
            ("x/{{{identity.entity.id}}}", "no part of an identity"),
            ("x/{{}}", "no part of an identity"),
            ("x/{{identity.entity}}", "no part of an identity"),
            ("x/{{identity.entity.email}}", "known are identity.entity."),
            ("x/{{identity.entity.metadata.}}", "no part of an identity"),
            ("x/{{identity.entity.custom_metadata.k}}", "no part of an identity"),
            ("x/{{identity.entity.aliases.name}}", "no part of an identity"),
            ("x/{{identity.groups.ids.1.id}}", "no part of an identity"),
            ("x/{{identity.groups.names.a.name}}", "no part of an identity"),
            ("x/{{identity.groups.names..id}}", "no part of an identity"),
            ("x/{{Identity.entity.id}}", "no part of an identity"),
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
}

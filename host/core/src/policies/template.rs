//! Paths of rules that name their caller: `teams/{{identity.entity.name}}/*`.
//!
//! The attack this file stops: a caller who has a say in the own name, chooses `*` or `a/b`, and so
//! turns a rule for one folder into a rule for all. A value becomes a part of one segment; one that
//! could be more is refused.

use super::identity::Identity;
use super::pattern::Pattern;
use super::reference::{Attribute, Reference, Subject};
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

/// Why a templated rule does not count for a caller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Unresolved {
    /// The caller has no such value, as many have not.
    Unknown,
    /// The caller has a value that must not stand in a path. The sentence says which and never
    /// shows it.
    Refused(String),
}

const KNOWN: &str = "known are identity.entity.{id, name, metadata.KEY, \
                     aliases.MOUNT-ACCESSOR.{id, name, \
                     metadata.KEY, custom_metadata.KEY}}, identity.groups.ids.ID.{name, \
                     metadata.KEY} and \
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

    /// The paths that the rule may speak of, for a caller for whom [`resolve`](Self::resolve) fails
    /// with `why`.
    pub(super) fn for_any_value(&self, why: &Unresolved) -> Pattern {
        match self {
            Self::Fixed(pattern) => pattern.clone(),
            Self::Templated(template) => template.for_any_value(why),
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
                    "the caller's value of {reference} holds \"/\", \"*\", \"+\", \",\" or a \
                     control character"
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

    /// A whole segment that the caller does not have may be any segment. Where a value is a part of
    /// a segment, and where it is unfit because it may be several, anything may follow.
    fn for_any_value(&self, why: &Unresolved) -> Pattern {
        const VALUE: &str = "\u{0}";
        let text = self.filled(|_| VALUE);
        let is_part = |segment: &str| segment.contains(VALUE) && segment != VALUE;
        let loose = match why {
            Unresolved::Unknown if !text.split('/').any(is_part) => text.replace(VALUE, "+"),
            _ => format!("{}*", text.split(VALUE).next().unwrap_or_default()),
        };
        // With any value the template is a pattern; of what is none, everything is denied.
        Pattern::parse(&loose).unwrap_or_else(|_| Pattern::everything())
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
    pub(crate) fn parse(name: &str) -> Option<Self> {
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
mod tests;

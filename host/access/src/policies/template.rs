//! Rule paths that contain values of the caller: `teams/{{identity.entity.name}}/*`.
//!
//! This file prevents a caller who can choose their own name from choosing `*` or `a/b` and so
//! turning a rule for a single folder into a rule for all folders. A value may be only a part of a
//! single segment; other values are refused.

use super::identity::TemplateIdentity;
use super::pattern::PathPattern;
use super::reference::{ReferenceAttribute, ReferenceSubject, TemplateReference};
use bulkhead_wire::failure::quoted;
use std::borrow::Cow;
use std::fmt;

/// The path of a rule before the caller is known.
#[derive(Clone, Debug, PartialEq)]
pub enum RulePath {
    /// A path that is the same for every caller.
    Fixed(PathPattern),
    /// A path that differs by caller.
    Templated(PathTemplate),
}

/// A pattern with placeholders for the caller's values.
#[derive(Clone, Debug, PartialEq)]
pub struct PathTemplate {
    text: String,
    parts: Vec<TemplatePart>,
}

#[derive(Clone, Debug, PartialEq)]
enum TemplatePart {
    Text(String),
    Value(TemplateReference),
}

/// The reason a templated rule does not apply to a caller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum UnresolvedReason {
    /// The caller does not have the value; this is common.
    Unknown,
    /// The caller's value must not stand in a path. The sentence names the attribute and never
    /// shows the value.
    Refused(String),
}

const KNOWN: &str = "known are identity.entity.{id, name, metadata.KEY, \
                     aliases.MOUNT-ACCESSOR.{id, name, \
                     metadata.KEY, custom_metadata.KEY}}, identity.groups.ids.ID.{name, \
                     metadata.KEY} and \
                     identity.groups.names.NAME.{id, metadata.KEY}";

impl RulePath {
    /// Parses the label of a rule.
    ///
    /// # Errors
    /// The fault and its remedy. The text follows the quoted label.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        if !text.contains("{{") && !text.contains("}}") {
            return Ok(Self::Fixed(PathPattern::parse(text)?));
        }
        let template = PathTemplate { text: text.to_owned(), parts: parse_parts(text)? };
        // The template must be a valid pattern with any fit value.
        PathPattern::parse(&template.filled(|_| "x"))?;
        Ok(Self::Templated(template))
    }

    /// Returns the path for this caller.
    pub(super) fn resolve(
        &self,
        identity: &TemplateIdentity,
    ) -> Result<Cow<'_, PathPattern>, UnresolvedReason> {
        match self {
            Self::Fixed(pattern) => Ok(Cow::Borrowed(pattern)),
            Self::Templated(template) => template.resolve(identity).map(Cow::Owned),
        }
    }

    /// Returns a pattern for all paths that the rule may mean for a caller whose
    /// [`resolve`](Self::resolve) fails with `why`.
    pub(super) fn for_any_value(&self, why: &UnresolvedReason) -> PathPattern {
        match self {
            Self::Fixed(pattern) => pattern.clone(),
            Self::Templated(template) => template.for_any_value(why),
        }
    }

    /// Returns the caller attributes that the path uses.
    pub(super) fn references(&self) -> impl Iterator<Item = &TemplateReference> {
        let parts = match self {
            Self::Fixed(_) => [].as_slice(),
            Self::Templated(template) => template.parts.as_slice(),
        };
        references(parts)
    }
}

impl PathTemplate {
    fn resolve(&self, identity: &TemplateIdentity) -> Result<PathPattern, UnresolvedReason> {
        for reference in references(&self.parts) {
            let value = identity.value(reference).ok_or(UnresolvedReason::Unknown)?;
            if value.contains(is_unfit) {
                let why = format!(
                    "the caller's value of {reference} holds \"/\", \"*\", \"+\", \",\" or a \
                     control character"
                );
                return Err(UnresolvedReason::Refused(why));
            }
        }
        let text = self.filled(|reference| identity.value(reference).unwrap_or_default());
        let fault = |why| {
            UnresolvedReason::Refused(format!(
                "with the caller's values, {} {why}",
                quoted(&self.text)
            ))
        };
        PathPattern::parse(&text).map_err(fault)
    }

    /// Returns the paths that any value could produce. A missing value that is a whole segment may
    /// be any single segment. A value that is only a part of a segment, or unfit because it may be
    /// several segments, may be followed by anything.
    fn for_any_value(&self, why: &UnresolvedReason) -> PathPattern {
        const VALUE: &str = "\u{0}";
        let text = self.filled(|_| VALUE);
        let is_part = |segment: &str| segment.contains(VALUE) && segment != VALUE;
        let loose = match why {
            UnresolvedReason::Unknown if !text.split('/').any(is_part) => text.replace(VALUE, "+"),
            _ => format!("{}*", text.split(VALUE).next().unwrap_or_default()),
        };
        // The template is a pattern with any value. If it is not, everything is denied.
        PathPattern::parse(&loose).unwrap_or_else(|_| PathPattern::match_all())
    }

    fn filled<'a>(&'a self, value: impl Fn(&'a TemplateReference) -> &'a str) -> String {
        let text = |part: &'a TemplatePart| match part {
            TemplatePart::Text(text) => text.as_str(),
            TemplatePart::Value(reference) => value(reference),
        };
        self.parts.iter().map(text).collect()
    }
}

/// Shows the template as written.
impl fmt::Display for PathTemplate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

fn references(parts: &[TemplatePart]) -> impl Iterator<Item = &TemplateReference> {
    parts.iter().filter_map(|part| match part {
        TemplatePart::Text(_) => None,
        TemplatePart::Value(reference) => Some(reference),
    })
}

/// Returns true for characters that must not stand in a value. A slash would reach into another
/// folder, a wildcard into every folder; a comma would split a path in a list of paths.
fn is_unfit(c: char) -> bool {
    matches!(c, '/' | '*' | '+' | ',') || c.is_control()
}

fn parse_parts(text: &str) -> Result<Vec<TemplatePart>, String> {
    const UNOPENED: &str = "has \"}}\" without \"{{\" in front; write {{identity.entity.id}}";
    let mut parts = Vec::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("{{") {
        let Some((name, after)) = after.split_once("}}") else {
            return Err(
                "opens \"{{\" and does not close it; write {{identity.entity.id}}".to_owned()
            );
        };
        let Some(reference) = TemplateReference::parse(name.trim()) else {
            return Err(format!(
                "names {}, which is not part of an identity; {KNOWN}",
                quoted(name.trim())
            ));
        };
        if before.contains("}}") {
            return Err(UNOPENED.to_owned());
        }
        parts.push(TemplatePart::Text(before.to_owned()));
        parts.push(TemplatePart::Value(reference));
        rest = after;
    }
    if rest.contains("}}") {
        return Err(UNOPENED.to_owned());
    }
    parts.push(TemplatePart::Text(rest.to_owned()));
    Ok(parts)
}

impl TemplateReference {
    /// Parses the text between the braces.
    pub(crate) fn parse(name: &str) -> Option<Self> {
        let path = name.strip_prefix("identity.")?;
        let (subject, attribute) = if let Some(path) = path.strip_prefix("entity.aliases.") {
            let (mount, attribute) = path.split_once('.')?;
            (
                ReferenceSubject::Alias { mount: mount.to_owned() },
                ReferenceAttribute::parse(attribute)?,
            )
        } else if let Some(attribute) = path.strip_prefix("entity.") {
            (ReferenceSubject::Entity, ReferenceAttribute::parse(attribute)?)
        } else if let Some(path) = path.strip_prefix("groups.ids.") {
            let (id, attribute) = path.split_once('.')?;
            (ReferenceSubject::GroupById(id.to_owned()), ReferenceAttribute::parse(attribute)?)
        } else {
            let (name, attribute) = of_group_name(path.strip_prefix("groups.names.")?)?;
            (ReferenceSubject::GroupByName(name.to_owned()), attribute)
        };
        Self { subject, attribute }.with_known_attribute()
    }

    /// Returns the reference if its subject has such an attribute.
    fn with_known_attribute(self) -> Option<Self> {
        let is_known = match (&self.subject, &self.attribute) {
            (ReferenceSubject::Alias { mount }, _) => !mount.is_empty(),
            (_, ReferenceAttribute::CustomMetadata(_)) => false,
            (ReferenceSubject::Entity, _) => true,
            (ReferenceSubject::GroupById(id), attribute) => {
                !id.is_empty() && *attribute != ReferenceAttribute::Id
            }
            (ReferenceSubject::GroupByName(name), attribute) => {
                !name.is_empty() && *attribute != ReferenceAttribute::Name
            }
        };
        is_known.then_some(self)
    }
}

/// Splits a group's name from its attribute. Group names may contain dots, so the attribute is
/// searched from the end.
fn of_group_name(path: &str) -> Option<(&str, ReferenceAttribute)> {
    if let Some((name, key)) = path.split_once(".metadata.") {
        return (!key.is_empty()).then(|| (name, ReferenceAttribute::Metadata(key.to_owned())));
    }
    Some((path.strip_suffix(".id")?, ReferenceAttribute::Id))
}

impl ReferenceAttribute {
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

/// Shows the reference as written in policies, without the braces.
impl fmt::Display for TemplateReference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.subject {
            ReferenceSubject::Entity => f.write_str("identity.entity.")?,
            ReferenceSubject::Alias { mount } => write!(f, "identity.entity.aliases.{mount}.")?,
            ReferenceSubject::GroupById(id) => write!(f, "identity.groups.ids.{id}.")?,
            ReferenceSubject::GroupByName(name) => write!(f, "identity.groups.names.{name}.")?,
        }
        match &self.attribute {
            ReferenceAttribute::Id => f.write_str("id"),
            ReferenceAttribute::Name => f.write_str("name"),
            ReferenceAttribute::Metadata(key) => write!(f, "metadata.{key}"),
            ReferenceAttribute::CustomMetadata(key) => write!(f, "custom_metadata.{key}"),
        }
    }
}

#[cfg(test)]
mod tests;

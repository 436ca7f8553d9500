//! Identity of a caller, as far as policy templates can refer to it.
//!
//! This file holds values only. Other files decide the source of a value and whether the value may
//! stand in a path.

use super::reference::{ReferenceAttribute, ReferenceSubject, TemplateReference};
use std::collections::BTreeMap;

/// The identity behind a token. A token without an entity has the empty identity.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TemplateIdentity {
    /// The person or machine behind the caller's logins.
    pub entity: Option<TemplateEntity>,
    /// The groups of the entity, direct or through another group.
    pub groups: Vec<TemplateGroup>,
}

/// A person or machine.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TemplateEntity {
    /// Unique id, never reused.
    pub id: String,
    /// Display name.
    pub name: String,
    /// Texts by key.
    pub metadata: BTreeMap<String, String>,
    /// The entity's aliases, by the accessor of their auth mount.
    pub aliases: BTreeMap<String, TemplateAlias>,
}

/// An entity's name at an auth method.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TemplateAlias {
    /// Unique id, never reused.
    pub id: String,
    /// Name as proven by the auth method.
    pub name: String,
    /// Texts by key, as proven by the auth method.
    pub metadata: BTreeMap<String, String>,
    /// Texts by key, as written by operators.
    pub custom_metadata: BTreeMap<String, String>,
}

/// A set of entities.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TemplateGroup {
    /// Unique id, never reused.
    pub id: String,
    /// Display name.
    pub name: String,
    /// Texts by key.
    pub metadata: BTreeMap<String, String>,
}

impl TemplateIdentity {
    /// Returns the value of `reference`; `None` if the value is missing or empty. An empty value
    /// would turn a rule for the caller's folder into a rule for the parent folder.
    #[must_use]
    pub fn value(&self, reference: &TemplateReference) -> Option<&str> {
        let attribute = &reference.attribute;
        let value = match &reference.subject {
            ReferenceSubject::Entity => {
                let entity = self.entity.as_ref()?;
                attribute_of(&entity.id, &entity.name, &entity.metadata, attribute)
            }
            ReferenceSubject::Alias { mount } => {
                self.entity.as_ref()?.aliases.get(mount)?.value(attribute)
            }
            ReferenceSubject::GroupById(id) => {
                self.groups.iter().find(|group| group.id == *id)?.value(attribute)
            }
            ReferenceSubject::GroupByName(name) => {
                self.groups.iter().find(|group| group.name == *name)?.value(attribute)
            }
        };
        value.filter(|value| !value.is_empty())
    }
}

impl TemplateAlias {
    fn value(&self, attribute: &ReferenceAttribute) -> Option<&str> {
        match attribute {
            ReferenceAttribute::CustomMetadata(key) => {
                self.custom_metadata.get(key).map(String::as_str)
            }
            _ => attribute_of(&self.id, &self.name, &self.metadata, attribute),
        }
    }
}

impl TemplateGroup {
    fn value(&self, attribute: &ReferenceAttribute) -> Option<&str> {
        attribute_of(&self.id, &self.name, &self.metadata, attribute)
    }
}

/// Returns the attribute of an entity, alias or group; `None` for custom metadata.
fn attribute_of<'a>(
    id: &'a str,
    name: &'a str,
    metadata: &'a BTreeMap<String, String>,
    attribute: &ReferenceAttribute,
) -> Option<&'a str> {
    match attribute {
        ReferenceAttribute::Id => Some(id),
        ReferenceAttribute::Name => Some(name),
        ReferenceAttribute::Metadata(key) => metadata.get(key).map(String::as_str),
        ReferenceAttribute::CustomMetadata(_) => None,
    }
}

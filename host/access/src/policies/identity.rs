//! Identity of a caller, as far as policy templates can refer to it.
//!
//! This file holds values only. Other files decide the source of a value and whether the value may
//! stand in a path.

use super::reference::{Attribute, Reference, Subject};
use std::collections::BTreeMap;

/// The identity behind a token. A token without an entity has the empty identity.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Identity {
    /// The person or machine behind the caller's logins.
    pub entity: Option<Entity>,
    /// The groups of the entity, direct or through another group.
    pub groups: Vec<Group>,
}

/// A person or machine.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Entity {
    /// Unique id, never reused.
    pub id: String,
    /// Display name.
    pub name: String,
    /// Texts by key.
    pub metadata: BTreeMap<String, String>,
    /// The entity's aliases, by the accessor of their auth mount.
    pub aliases: BTreeMap<String, Alias>,
}

/// An entity's name at an auth method.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Alias {
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
pub struct Group {
    /// Unique id, never reused.
    pub id: String,
    /// Display name.
    pub name: String,
    /// Texts by key.
    pub metadata: BTreeMap<String, String>,
}

impl Identity {
    /// Returns the value of `reference`; `None` if the value is missing or empty. An empty value
    /// would turn a rule for the caller's folder into a rule for the parent folder.
    #[must_use]
    pub fn value(&self, reference: &Reference) -> Option<&str> {
        let attribute = &reference.attribute;
        let value = match &reference.subject {
            Subject::Entity => {
                let entity = self.entity.as_ref()?;
                attribute_of(&entity.id, &entity.name, &entity.metadata, attribute)
            }
            Subject::Alias { mount } => self.entity.as_ref()?.aliases.get(mount)?.value(attribute),
            Subject::GroupById(id) => {
                self.groups.iter().find(|group| group.id == *id)?.value(attribute)
            }
            Subject::GroupByName(name) => {
                self.groups.iter().find(|group| group.name == *name)?.value(attribute)
            }
        };
        value.filter(|value| !value.is_empty())
    }
}

impl Alias {
    fn value(&self, attribute: &Attribute) -> Option<&str> {
        match attribute {
            Attribute::CustomMetadata(key) => self.custom_metadata.get(key).map(String::as_str),
            _ => attribute_of(&self.id, &self.name, &self.metadata, attribute),
        }
    }
}

impl Group {
    fn value(&self, attribute: &Attribute) -> Option<&str> {
        attribute_of(&self.id, &self.name, &self.metadata, attribute)
    }
}

/// Returns the attribute of an entity, alias or group; `None` for custom metadata.
fn attribute_of<'a>(
    id: &'a str,
    name: &'a str,
    metadata: &'a BTreeMap<String, String>,
    attribute: &Attribute,
) -> Option<&'a str> {
    match attribute {
        Attribute::Id => Some(id),
        Attribute::Name => Some(name),
        Attribute::Metadata(key) => metadata.get(key).map(String::as_str),
        Attribute::CustomMetadata(_) => None,
    }
}

//! Who calls, as far as the templates of policies may ask.
//!
//! Values only: where they come from, and whether they may stand in a path, is not known here.

use super::reference::{Attribute, Reference, Subject};
use std::collections::BTreeMap;

/// Whom a token stands for. The empty one is that of a token without an entity.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Identity {
    /// The one person or machine behind the caller's logins.
    pub entity: Option<Entity>,
    /// The groups that the entity is in, directly or through another group.
    pub groups: Vec<Group>,
}

/// One person or machine.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Entity {
    /// Never given to another one.
    pub id: String,
    /// For people.
    pub name: String,
    /// Texts by key.
    pub metadata: BTreeMap<String, String>,
    /// What it is called where it logs in, by the accessor of that mount.
    pub aliases: BTreeMap<String, Alias>,
}

/// An entity's name at one auth method.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Alias {
    /// Never given to another one.
    pub id: String,
    /// As the auth method proved it.
    pub name: String,
    /// Texts by key, as the auth method proved them.
    pub metadata: BTreeMap<String, String>,
    /// Texts by key, as operators wrote them.
    pub custom_metadata: BTreeMap<String, String>,
}

/// A set of entities.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Group {
    /// Never given to another one.
    pub id: String,
    /// For people.
    pub name: String,
    /// Texts by key.
    pub metadata: BTreeMap<String, String>,
}

impl Identity {
    /// What `reference` stands for; `None` where there is no such thing, or where it is empty: an
    /// empty value would make a rule for one caller's folder a rule for the folder above.
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

/// What entities, aliases and groups have in common.
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

//! References of templated policy paths: a value of an entity, alias or group of the caller.

/// A `{{identity.…}}` reference.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct TemplateReference {
    /// The subject of the reference.
    pub subject: ReferenceSubject,
    /// The requested attribute of the subject.
    pub attribute: ReferenceAttribute,
}

/// The subject of a [`TemplateReference`].
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ReferenceSubject {
    /// The caller's entity.
    Entity,
    /// The entity's alias at an auth method.
    Alias {
        /// Accessor of the auth method.
        mount: String,
    },
    /// The group with this id, if the caller is a member.
    GroupById(String),
    /// The group with this name, if the caller is a member.
    GroupByName(String),
}

/// The requested attribute of a [`ReferenceSubject`].
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ReferenceAttribute {
    /// The subject's id.
    Id,
    /// The subject's name.
    Name,
    /// A metadata text of the subject, by key.
    Metadata(String),
    /// A metadata text that operators gave an alias, by key.
    CustomMetadata(String),
}

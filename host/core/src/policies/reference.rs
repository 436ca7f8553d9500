//! What a templated policy path asks of the caller: one value of one entity, alias or group.

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

//! A capture or body field of a row, as a constant.

use bulkhead_wire::description::{self, FieldKind};
use serde_json::Value;

/// A capture or body field.
#[derive(Clone, Copy)]
pub struct Field {
    name: &'static str,
    kind: FieldKind,
    about: &'static str,
    aliases: &'static [&'static str],
    default: Option<FieldDefault>,
    required: bool,
    sudo: bool,
    secret: bool,
    old_name_of: Option<&'static str>,
    counts_as: Option<&'static str>,
    members: &'static [Field],
}

/// A default, filled in when a write creates an object.
#[derive(Clone, Copy)]
enum FieldDefault {
    Text(&'static str),
    Flag(bool),
    Whole(i64),
}

impl Field {
    const fn new(name: &'static str, kind: FieldKind, about: &'static str) -> Self {
        Self {
            name,
            kind,
            about,
            aliases: &[],
            default: None,
            required: false,
            sudo: false,
            secret: false,
            old_name_of: None,
            counts_as: None,
            members: &[],
        }
    }

    /// Creates a path segment, or a reference to an object by name.
    #[must_use]
    pub const fn name_of(name: &'static str, about: &'static str) -> Self {
        Self::new(name, FieldKind::Name, about)
    }

    /// Creates a text; numbers and flags are converted to text.
    #[must_use]
    pub const fn text(name: &'static str, about: &'static str) -> Self {
        Self::new(name, FieldKind::String, about)
    }

    /// Creates a flag: true or false.
    #[must_use]
    pub const fn flag(name: &'static str, about: &'static str) -> Self {
        Self::new(name, FieldKind::Bool, about)
    }

    /// Creates a whole number.
    #[must_use]
    pub const fn whole(name: &'static str, about: &'static str) -> Self {
        Self::new(name, FieldKind::Int, about)
    }

    /// Creates a duration, read as seconds.
    #[must_use]
    pub const fn seconds(name: &'static str, about: &'static str) -> Self {
        Self::new(name, FieldKind::Duration, about)
    }

    /// Creates a list of words, also written as `a, b`.
    #[must_use]
    pub const fn words(name: &'static str, about: &'static str) -> Self {
        Self::new(name, FieldKind::CommaList, about)
    }

    /// Creates a list of texts, or a single text; never split at commas.
    #[must_use]
    pub const fn texts(name: &'static str, about: &'static str) -> Self {
        Self::new(name, FieldKind::TextList, about)
    }

    /// Creates an object of texts.
    #[must_use]
    pub const fn map(name: &'static str, about: &'static str) -> Self {
        Self::new(name, FieldKind::Map, about)
    }

    /// Creates a field for any JSON value.
    #[must_use]
    pub const fn any(name: &'static str, about: &'static str) -> Self {
        Self::new(name, FieldKind::Any, about)
    }

    /// Requires the field when a write creates an object.
    #[must_use]
    pub const fn required(mut self) -> Self {
        self.required = true;
        self
    }

    /// Requires the capability `sudo` on the path for a change of the value. For a field with more
    /// power than the other fields of its row. The host compares the value with the member of the
    /// same name in the stored record of the row's object, or, without a record, with the default.
    #[must_use]
    pub const fn needs_sudo(mut self) -> Self {
        self.sudo = true;
        self
    }

    /// Keeps the value out of logs, audit lines and errors.
    #[must_use]
    pub const fn secret(mut self) -> Self {
        self.secret = true;
        self
    }

    /// Adds other names that clients send.
    #[must_use]
    pub const fn aliases(mut self, names: &'static [&'static str]) -> Self {
        self.aliases = names;
        self
    }

    /// Makes this field the older name of the field `new`; the engine reads both. Policies treat
    /// both fields as a single parameter.
    #[must_use]
    pub const fn old_name_of(mut self, new: &'static str) -> Self {
        self.old_name_of = Some(new);
        self
    }

    /// Makes this field's value set the parameter `other` too. Policy rules for the other parameter
    /// also apply to this field.
    #[must_use]
    pub const fn counts_as(mut self, other: &'static str) -> Self {
        self.counts_as = Some(other);
        self
    }

    /// Declares the settings inside an object. Policies treat each setting as a parameter of its
    /// own.
    #[must_use]
    pub const fn members(mut self, settings: &'static [Self]) -> Self {
        self.members = settings;
        self
    }

    /// Sets a default text.
    #[must_use]
    pub const fn or_text(mut self, text: &'static str) -> Self {
        self.default = Some(FieldDefault::Text(text));
        self
    }

    /// Sets a default flag.
    #[must_use]
    pub const fn or_flag(mut self, flag: bool) -> Self {
        self.default = Some(FieldDefault::Flag(flag));
        self
    }

    /// Sets a default number, or a default duration in seconds.
    #[must_use]
    pub const fn or_whole(mut self, number: i64) -> Self {
        self.default = Some(FieldDefault::Whole(number));
        self
    }

    /// Returns the canonical name.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        self.name
    }

    /// Returns the field in the form of the description.
    pub(crate) fn declaration(&self) -> description::Field {
        description::Field {
            aliases: self.aliases.iter().map(|alias| (*alias).to_owned()).collect(),
            default: self.default.map(|preset| match preset {
                FieldDefault::Text(text) => Value::from(text),
                FieldDefault::Flag(flag) => Value::from(flag),
                FieldDefault::Whole(number) => Value::from(number),
            }),
            required: self.required,
            sudo: self.sudo,
            secret: self.secret,
            old_name_of: self.old_name_of.map(str::to_owned),
            counts_as: self.counts_as.map(str::to_owned),
            members: self.members.iter().map(Self::declaration).collect(),
            ..description::Field::new(self.name, self.kind, self.about)
        }
    }
}

//! One capture or body field of a row, as a constant.

use bulkhead_wire::description::{self, FieldKind};
use serde_json::Value;

/// One capture or body field.
#[derive(Clone, Copy)]
pub struct Field {
    name: &'static str,
    kind: FieldKind,
    about: &'static str,
    aliases: &'static [&'static str],
    default: Option<Preset>,
    required: bool,
    secret: bool,
    old_name_of: Option<&'static str>,
    counts_as: Option<&'static str>,
    members: &'static [Field],
}

/// A default, filled in when a write creates.
#[derive(Clone, Copy)]
enum Preset {
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
            secret: false,
            old_name_of: None,
            counts_as: None,
            members: &[],
        }
    }

    /// A path segment, or a reference to an object by its name.
    #[must_use]
    pub const fn name_of(name: &'static str, about: &'static str) -> Self {
        Self::new(name, FieldKind::Name, about)
    }

    /// Text; numbers and flags are written out.
    #[must_use]
    pub const fn text(name: &'static str, about: &'static str) -> Self {
        Self::new(name, FieldKind::String, about)
    }

    /// True or false.
    #[must_use]
    pub const fn flag(name: &'static str, about: &'static str) -> Self {
        Self::new(name, FieldKind::Bool, about)
    }

    /// A whole number.
    #[must_use]
    pub const fn whole(name: &'static str, about: &'static str) -> Self {
        Self::new(name, FieldKind::Int, about)
    }

    /// A duration, read as seconds.
    #[must_use]
    pub const fn seconds(name: &'static str, about: &'static str) -> Self {
        Self::new(name, FieldKind::Duration, about)
    }

    /// A list of words, also written `a, b`.
    #[must_use]
    pub const fn words(name: &'static str, about: &'static str) -> Self {
        Self::new(name, FieldKind::CommaList, about)
    }

    /// A list of texts, or one text; never split.
    #[must_use]
    pub const fn texts(name: &'static str, about: &'static str) -> Self {
        Self::new(name, FieldKind::TextList, about)
    }

    /// An object of texts.
    #[must_use]
    pub const fn map(name: &'static str, about: &'static str) -> Self {
        Self::new(name, FieldKind::Map, about)
    }

    /// Any JSON value.
    #[must_use]
    pub const fn any(name: &'static str, about: &'static str) -> Self {
        Self::new(name, FieldKind::Any, about)
    }

    /// Must be given when a write creates.
    #[must_use]
    pub const fn required(mut self) -> Self {
        self.required = true;
        self
    }

    /// Never in a log, an audit line or an error.
    #[must_use]
    pub const fn secret(mut self) -> Self {
        self.secret = true;
        self
    }

    /// Other names that clients send.
    #[must_use]
    pub const fn aliases(mut self, names: &'static [&'static str]) -> Self {
        self.aliases = names;
        self
    }

    /// It is the older name of the field `new`, and the engine reads both: to policies they are
    /// one.
    #[must_use]
    pub const fn old_name_of(mut self, new: &'static str) -> Self {
        self.old_name_of = Some(new);
        self
    }

    /// Its value sets the parameter `other` too, of which a policy may speak.
    #[must_use]
    pub const fn counts_as(mut self, other: &'static str) -> Self {
        self.counts_as = Some(other);
        self
    }

    /// The settings inside of an object: to policies each is a parameter of its own name.
    #[must_use]
    pub const fn members(mut self, settings: &'static [Self]) -> Self {
        self.members = settings;
        self
    }

    /// A text to start from.
    #[must_use]
    pub const fn or_text(mut self, text: &'static str) -> Self {
        self.default = Some(Preset::Text(text));
        self
    }

    /// A flag to start from.
    #[must_use]
    pub const fn or_flag(mut self, flag: bool) -> Self {
        self.default = Some(Preset::Flag(flag));
        self
    }

    /// A number, or seconds, to start from.
    #[must_use]
    pub const fn or_whole(mut self, number: i64) -> Self {
        self.default = Some(Preset::Whole(number));
        self
    }

    /// Its canonical name.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        self.name
    }

    /// The field as the host reads it.
    pub(crate) fn declaration(&self) -> description::Field {
        description::Field {
            aliases: self.aliases.iter().map(|alias| (*alias).to_owned()).collect(),
            default: self.default.map(|preset| match preset {
                Preset::Text(text) => Value::from(text),
                Preset::Flag(flag) => Value::from(flag),
                Preset::Whole(number) => Value::from(number),
            }),
            required: self.required,
            secret: self.secret,
            old_name_of: self.old_name_of.map(str::to_owned),
            counts_as: self.counts_as.map(str::to_owned),
            members: self.members.iter().map(Self::declaration).collect(),
            ..description::Field::new(self.name, self.kind, self.about)
        }
    }
}

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
        Self { name, kind, about, aliases: &[], default: None, required: false, secret: false }
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
            ..description::Field::new(self.name, self.kind, self.about)
        }
    }
}

//! Placeholders of statements, and the placeholders that have a value in statements for a purpose.
//!
//! Prevents a role whose statements fail at every use: a placeholder without a value is refused
//! when the role is written.

use super::Values;
use crate::database_plugin::{Act, Purpose};

/// A placeholder: its word, its spelling, and the value that it stands for.
#[derive(Clone, Copy)]
pub(super) struct Placeholder {
    pub(super) word: &'static str,
    pub(super) written: &'static str,
    pub(super) kind: Kind,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Username,
    Password,
    Subject,
    Expiration,
}

pub(super) const PLACEHOLDERS: [Placeholder; 5] = [
    Placeholder { word: "name", written: "{{name}}", kind: Kind::Username },
    Placeholder { word: "username", written: "{{username}}", kind: Kind::Username },
    Placeholder { word: "password", written: "{{password}}", kind: Kind::Password },
    Placeholder { word: "subject", written: "{{subject}}", kind: Kind::Subject },
    Placeholder { word: "expiration", written: "{{expiration}}", kind: Kind::Expiration },
];

/// The kinds of placeholders that have a value.
#[derive(Clone, Copy)]
pub(super) struct Available {
    password: bool,
    subject: bool,
    expiration: bool,
}

impl Available {
    /// Returns the kinds with a value in `values`.
    pub(super) fn of_values(values: &Values<'_>) -> Self {
        Self {
            password: values.password.is_some(),
            subject: values.subject.is_some(),
            expiration: values.expiration.is_some(),
        }
    }

    /// Returns the kinds with a value in statements for `purpose`. The user name always has a
    /// value.
    pub(super) fn of_purpose(purpose: &Purpose) -> Self {
        let sets_credential = matches!(purpose.act, Act::Creation | Act::Rotation);
        let is = |credential_type: &str| purpose.credential_type == credential_type;
        Self {
            password: sets_credential && is("password"),
            subject: sets_credential && is("client_certificate"),
            expiration: matches!(purpose.act, Act::Creation | Act::Renewal),
        }
    }

    pub(super) fn has(self, kind: Kind) -> bool {
        match kind {
            Kind::Username => true,
            Kind::Password => self.password,
            Kind::Subject => self.subject,
            Kind::Expiration => self.expiration,
        }
    }

    /// Lists the placeholders that have a value, such as
    /// `{{name}}, {{username}} and {{expiration}}`.
    pub(super) fn list(self) -> String {
        let mut written: Vec<&str> = PLACEHOLDERS
            .iter()
            .filter(|placeholder| self.has(placeholder.kind))
            .map(|placeholder| placeholder.written)
            .collect();
        let last = written.pop().unwrap_or_default();
        format!("{} and {last}", written.join(", "))
    }
}

//! Placeholders of statements, and the placeholders that have a value in statements for a purpose.
//!
//! This file prevents a role whose statements fail at every use: a placeholder without a value is
//! refused when the role is written.

use super::PlaceholderValues;
use crate::database_plugin::{StatementAct, StatementPurpose};

/// A placeholder: its word, its spelling, and the value that it stands for.
#[derive(Clone, Copy)]
pub(super) struct Placeholder {
    pub(super) word: &'static str,
    pub(super) written: &'static str,
    pub(super) kind: PlaceholderKind,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum PlaceholderKind {
    Username,
    Password,
    Subject,
    Expiration,
}

pub(super) const PLACEHOLDERS: [Placeholder; 5] = [
    Placeholder { word: "name", written: "{{name}}", kind: PlaceholderKind::Username },
    Placeholder { word: "username", written: "{{username}}", kind: PlaceholderKind::Username },
    Placeholder { word: "password", written: "{{password}}", kind: PlaceholderKind::Password },
    Placeholder { word: "subject", written: "{{subject}}", kind: PlaceholderKind::Subject },
    Placeholder {
        word: "expiration",
        written: "{{expiration}}",
        kind: PlaceholderKind::Expiration,
    },
];

/// The kinds of placeholders that have a value.
#[derive(Clone, Copy)]
pub(super) struct AvailableKinds {
    password: bool,
    subject: bool,
    expiration: bool,
}

impl AvailableKinds {
    /// Returns the kinds with a value in `values`.
    pub(super) fn of_values(values: &PlaceholderValues<'_>) -> Self {
        Self {
            password: values.password.is_some(),
            subject: values.subject.is_some(),
            expiration: values.expiration.is_some(),
        }
    }

    /// Returns the kinds with a value in statements for `purpose`. The user name always has a
    /// value.
    pub(super) fn of_purpose(purpose: &StatementPurpose) -> Self {
        let sets_credential =
            matches!(purpose.act, StatementAct::Creation | StatementAct::Rotation);
        let is = |credential_type: &str| purpose.credential_type == credential_type;
        Self {
            password: sets_credential && is("password"),
            subject: sets_credential && is("client_certificate"),
            expiration: matches!(purpose.act, StatementAct::Creation | StatementAct::Renewal),
        }
    }

    pub(super) fn has(self, kind: PlaceholderKind) -> bool {
        match kind {
            PlaceholderKind::Username => true,
            PlaceholderKind::Password => self.password,
            PlaceholderKind::Subject => self.subject,
            PlaceholderKind::Expiration => self.expiration,
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

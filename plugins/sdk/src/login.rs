//! A login: who was proven, and what the token is to be.

use crate::internal::internal_text;
use crate::token_params::TokenParams;
use bulkhead_wire::failure::Failure;
use bulkhead_wire::stored::Stored;
use std::collections::BTreeMap;

/// A login. The host makes the token, within the limits of the mount.
///
/// Only what was verified belongs into its alias and metadata: policies are templated by them. No
/// `Debug`: what it keeps may be a secret.
#[derive(Clone, PartialEq)]
pub struct Login {
    /// For people, behind the mount's name in the token's.
    pub display_name: String,
    /// The one identity that was proven, by a name that is its own on this mount.
    pub alias: String,
    /// What is known of the identity.
    pub alias_metadata: BTreeMap<String, String>,
    /// The external groups that it is in; `None` leaves its groups as they are.
    pub group_aliases: Option<Vec<String>>,
    /// Shown with the token.
    pub metadata: BTreeMap<String, String>,
    /// What the role says of its tokens.
    pub token: TokenParams,
    /// Whether the token may be renewed, which asks
    /// [`renew_login`](crate::auth_method::AuthMethod::renew_login).
    pub renewable: bool,
    /// Comes back at renewal; no caller sees it.
    pub internal: String,
}

impl Login {
    /// The login of `alias`, with a token as the role says.
    #[must_use]
    pub fn of(alias: impl Into<String>, token: &TokenParams) -> Self {
        let alias = alias.into();
        Self {
            display_name: alias.clone(),
            alias,
            alias_metadata: BTreeMap::new(),
            group_aliases: None,
            metadata: BTreeMap::new(),
            token: token.clone(),
            renewable: true,
            internal: "{}".to_owned(),
        }
    }

    /// With a name for people that is not the alias.
    #[must_use]
    pub fn named(self, display_name: impl Into<String>) -> Self {
        Self { display_name: display_name.into(), ..self }
    }

    /// With something that is known of the identity, and shown with the token.
    #[must_use]
    pub fn with(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        let (name, value) = (name.into(), value.into());
        self.alias_metadata.insert(name.clone(), value.clone());
        self.metadata.insert(name, value);
        self
    }

    /// In these external groups and no others.
    #[must_use]
    pub fn in_groups(self, names: impl IntoIterator<Item = String>) -> Self {
        Self { group_aliases: Some(names.into_iter().collect()), ..self }
    }

    /// With what its renewal needs to know.
    ///
    /// # Errors
    /// Internal when it cannot be written as JSON.
    pub fn keeping(self, internal: &impl Stored) -> Result<Self, Failure> {
        Ok(Self { internal: internal_text(internal)?, ..self })
    }
}

//! Login: the verified identity, and the settings of the token.

use crate::internal::internal_text;
use crate::token_params::TokenParams;
use bulkhead_wire::failure::Failure;
use bulkhead_wire::login as bounds;
use bulkhead_wire::stored::Stored;
use std::collections::BTreeMap;

/// Outcome of a successful login. The host makes the token, within the limits of the mount.
///
/// Alias and metadata must contain verified values only, because policy templates use them. No
/// `Debug`: `internal` may be secret.
#[derive(Clone, PartialEq)]
pub struct Login {
    /// Display name; the host puts the mount's name in front.
    pub display_name: String,
    /// Verified identity, by a name that is unique on this mount.
    pub alias: String,
    /// Metadata of the alias.
    pub alias_metadata: BTreeMap<String, String>,
    /// External groups of the identity; `None` leaves the groups unchanged.
    pub group_aliases: Option<Vec<String>>,
    /// Metadata of the token, shown with the token.
    pub metadata: BTreeMap<String, String>,
    /// Token settings of the role.
    pub token: TokenParams,
    /// The token may be renewed; each renewal calls
    /// [`renew_login`](crate::auth_method::AuthMethod::renew_login).
    pub renewable: bool,
    /// JSON that a renewal receives; never shown to a caller.
    pub internal: String,
}

impl Login {
    /// Returns a login of `alias` whose token follows the role's settings.
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

    /// Sets a display name other than the alias.
    #[must_use]
    pub fn named(self, display_name: impl Into<String>) -> Self {
        Self { display_name: display_name.into(), ..self }
    }

    /// Adds a pair to the metadata of the alias and of the token.
    #[must_use]
    pub fn with(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        let (name, value) = (name.into(), value.into());
        self.alias_metadata.insert(name.clone(), value.clone());
        self.metadata.insert(name, value);
        self
    }

    /// Sets the external groups; the identity leaves all others.
    #[must_use]
    pub fn in_groups(self, names: impl IntoIterator<Item = String>) -> Self {
        Self { group_aliases: Some(names.into_iter().collect()), ..self }
    }

    /// Sets the data that a renewal receives.
    ///
    /// # Errors
    /// Internal if `internal` cannot be serialised as JSON.
    pub fn with_internal(self, internal: &impl Stored) -> Result<Self, Failure> {
        Ok(Self { internal: internal_text(internal)?, ..self })
    }

    /// Returns the login if the host accepts it. Every login and renewal passes this check before
    /// the host sees the result: odd claims that an issuer signed (control characters, 600 groups)
    /// are the caller's error and not a fault of the plugin.
    ///
    /// # Errors
    /// Invalid request that names the bound and repeats no claim.
    #[cfg_attr(
        all(target_family = "wasm", not(feature = "auth-method")),
        allow(dead_code, reason = "only an auth method answers logins")
    )]
    pub(crate) fn within_bounds(self) -> Result<Self, Failure> {
        self.check_bounds().map_err(|fault| {
            Failure::invalid(format!(
                "the login comes {fault}; log in with a token with shorter or fewer claims, all \
                 printable"
            ))
        })?;
        Ok(self)
    }

    #[cfg_attr(
        all(target_family = "wasm", not(feature = "auth-method")),
        allow(dead_code, reason = "only an auth method answers logins")
    )]
    fn check_bounds(&self) -> Result<(), String> {
        bounds::check_alias(&self.alias)?;
        bounds::check_display_name(&self.display_name)?;
        bounds::check_groups(self.group_aliases.as_deref().unwrap_or_default())?;
        bounds::check_metadata("of the alias", self.alias_metadata.iter())?;
        bounds::check_metadata("of the token", self.metadata.iter())?;
        bounds::check_internal(&self.internal)
    }
}

#[cfg(test)]
mod tests {
    use super::Login;
    use crate::token_params::TokenParams;
    use bulkhead_wire::failure::FailureKind;

    fn login() -> Login {
        Login::of("eve", &TokenParams::default()).in_groups(["builders".to_owned()])
    }

    #[test]
    fn inputs_beyond_host_bounds_are_caller_errors() {
        assert!(login().within_bounds().is_ok());
        let many = || (0..600).map(|one| format!("group-{one}"));
        let long = "x".repeat(1_025);
        for (odd, what) in [
            (Login { alias: "a\u{0}b".to_owned(), ..login() }, "an alias that cannot be printed"),
            (Login { alias: " ".to_owned(), ..login() }, "an alias that is empty"),
            (login().named("a\r\nb"), "an unprintable display name"),
            (login().in_groups(many()), "600 group aliases; there may be 512"),
            (login().in_groups(["a\tb".to_owned()]), "a group alias that cannot be printed"),
            (login().with("claim", long), "metadata of the alias"),
        ] {
            let refused = odd.within_bounds().err().expect(what);
            assert_eq!(refused.kind, FailureKind::InvalidRequest, "{what}");
            assert!(refused.message.contains(what), "{}", refused.message);
        }
    }
}

//! Parsing and checking of a connection's settings.
//!
//! Settings are stored as written, so that a read returns exactly the written values. This file
//! interprets them on every call, without other inputs.

use crate::target;
use bulkhead_sdk::connection::{
    CONNECTION_URL, ConnectionParameters, ConnectionTarget, UsernameRules, addresses, read_target,
    text, warnings, without_nulls,
};
use bulkhead_sdk::database_plugin::{
    ConfiguredConnection, ConnectionSettings, DatabaseTarget, Refusal,
};

/// Rules for user names. The default form is familiar from existing audit trails:
/// `v-token-readonly-<random>`. MySQL refuses longer names.
const USERNAMES: UsernameRules = UsernameRules {
    default: "{{ printf \"v-%s-%s-%s-%s\" (.DisplayName | truncate 10) (.RoleName | truncate 10) \
              (random 20) (unix_time) | truncate 32 }}",
    longest: 32,
};

/// Rules for user names on servers before MySQL 5.7.
const LEGACY_USERNAMES: UsernameRules = UsernameRules {
    default: "{{ printf \"v-%s-%s\" (.RoleName | truncate 4) (random 20) | truncate 16 }}",
    longest: 16,
};

/// Plugin names that select these rules.
const LEGACY: [&str; 3] =
    ["mysql-aurora-database-plugin", "mysql-rds-database-plugin", "mysql-legacy-database-plugin"];

/// Setting with the plugin name that the connection uses. The caller adds this setting to each
/// call; the operator cannot set it.
const PLUGIN_NAME: &str = "plugin_name";

/// The interpreted settings. No `Debug`, because the target contains the password.
pub(crate) struct ParsedConnection {
    pub(crate) target: DatabaseTarget,
    pub(crate) usernames: UsernameRules,
    /// The operator's template for user names; empty means the default.
    pub(crate) username_template: String,
    /// Set if no user manages the others and each user changes its own password.
    pub(crate) self_managed: bool,
}

impl ParsedConnection {
    /// # Errors
    /// A refusal that names the setting, never its value.
    pub(crate) fn read(settings: &ConnectionSettings) -> Result<Self, Refusal> {
        Self::from_parts(settings, &parameters(settings)?)
    }

    fn from_parts(
        settings: &ConnectionSettings,
        parameters: &ConnectionParameters,
    ) -> Result<Self, Refusal> {
        let ConnectionTarget { target, self_managed } =
            read_target(settings, |login, pool| target::read(settings, parameters, login, pool))?;
        let is_legacy = text(settings, PLUGIN_NAME)?.is_some_and(|name| LEGACY.contains(&name));
        Ok(Self {
            target,
            usernames: if is_legacy { LEGACY_USERNAMES } else { USERNAMES },
            username_template: text(settings, "username_template")?.unwrap_or_default().to_owned(),
            self_managed,
        })
    }

    /// Tells if the template could give two users the same name.
    pub(crate) fn may_repeat_names(&self) -> Result<bool, Refusal> {
        self.usernames.may_repeat(&self.username_template)
    }
}

/// Checks and normalises the settings without any request.
pub(crate) fn configure(settings: &ConnectionSettings) -> Result<ConfiguredConnection, Refusal> {
    let parameters = parameters(settings)?;
    let connection = ParsedConnection::from_parts(settings, &parameters)?;
    let may_repeat = connection.may_repeat_names()?;
    let mut stored_settings = without_nulls(settings);
    stored_settings.remove(PLUGIN_NAME);
    let more = [(may_repeat, "username-template-repeats")];
    Ok(ConfiguredConnection {
        settings: stored_settings,
        targets: addresses(&connection.target),
        warnings: warnings(settings, &parameters, &connection.target, &more),
    })
}

fn parameters(settings: &ConnectionSettings) -> Result<ConnectionParameters, Refusal> {
    target::parameters(text(settings, CONNECTION_URL)?.unwrap_or_default())
}

#[cfg(test)]
mod tests;

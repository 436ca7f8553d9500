//! Database plugins, implemented with their import. The only decision here is the failure kind of a
//! plugin's refusal.

use super::{Imports, failure};
use crate::bindings::secrets_engine::bulkhead::plugin as import;
use crate::bindings::secrets_engine::bulkhead::plugin::database_types as words;
use crate::database_plugin::{
    Account, ConfiguredConnection, ConnectionSettings, CreatedUser, Credential, NewUser,
    StatementPurpose, StoreTime, is_nothing_made,
};
use crate::host::{
    CreationFailure, DatabaseConnection, Databases, ResolvedPlugin, VersionChoice, database_kind,
};
use bulkhead_wire::failure::Failure;
use serde_json::Value;

/// The key of the plugin's own name in the settings; never a setting of the operator.
const PLUGIN_NAME: &str = "plugin_name";

impl Databases for Imports {
    fn resolve(&self, plugin: &str, version: &str) -> Result<ResolvedPlugin, Failure> {
        resolved(plugin, import::database::resolve(plugin, version))
    }

    fn choose(&self, name: &str, choice: VersionChoice<'_>) -> Result<ResolvedPlugin, Failure> {
        let host_choice = import::database::VersionChoice {
            plugin: choice.plugin.to_owned(),
            version: choice.version.to_owned(),
            overrides_pin: choice.overrides_pin,
            keeps: choice.keeps,
            ext: Vec::new(),
        };
        resolved(choice.plugin, import::database::choose(name, &host_choice))
    }

    fn running(&self, connection: &DatabaseConnection) -> Result<ResolvedPlugin, Failure> {
        let DatabaseConnection { plugin, version, name, .. } = connection;
        resolved(plugin, import::database::running(name, plugin, version))
    }

    fn release(&self, name: &str) -> Result<(), Failure> {
        import::database::release(name).map_err(failure)
    }

    fn configure(&self, connection: &DatabaseConnection) -> Result<ConfiguredConnection, Failure> {
        let answer = import::database::configure(&host_connection(connection)).map_err(refusal)?;
        let mut settings: ConnectionSettings =
            serde_json::from_str(&answer.settings).map_err(|_| {
                Failure::internal(format!("plugin {:?} made no settings", connection.plugin))
            })?;
        settings.remove(PLUGIN_NAME);
        Ok(ConfiguredConnection { settings, targets: answer.targets, warnings: answer.warnings })
    }

    fn check_statements(
        &self,
        connection: &DatabaseConnection,
        statements: &[String],
        purpose: &StatementPurpose,
    ) -> Result<Option<u32>, Failure> {
        let purpose = words::Purpose {
            act: purpose.act.word().to_owned(),
            credential_type: purpose.credential_type.clone(),
            passwords: purpose.passwords.clone(),
            ext: Vec::new(),
        };
        import::database::check_statements(&host_connection(connection), statements, &purpose)
            .map_err(refusal)
    }

    fn verify(&self, connection: &DatabaseConnection) -> Result<Vec<String>, Failure> {
        import::database::verify(&host_connection(connection)).map_err(refusal)
    }

    fn plan_accounts(
        &self,
        connection: &DatabaseConnection,
        display_name: &str,
        role_name: &str,
        creation: &[String],
    ) -> Result<CreatedUser, Failure> {
        import::database::plan_accounts(
            &host_connection(connection),
            display_name,
            role_name,
            creation,
        )
        .map(created_user)
        .map_err(refusal)
    }

    fn create_accounts(
        &self,
        connection: &DatabaseConnection,
        user: &NewUser,
        statements: &[String],
        rollback: &[String],
    ) -> Result<Vec<Account>, CreationFailure> {
        let user = words::NewUser {
            username: user.username.clone(),
            credential: credential(&user.credential),
            expires: user.expires,
            ext: Vec::new(),
        };
        import::database::create_accounts(&host_connection(connection), &user, statements, rollback)
            .map(|user| created_user(user).accounts)
            .map_err(unmade)
    }

    fn change_credential(
        &self,
        connection: &DatabaseConnection,
        username: &str,
        new: &Credential,
        current: Option<&Credential>,
        statements: &[String],
    ) -> Result<(), Failure> {
        let (new, current) = (credential(new), current.map(credential));
        import::database::change_credential(
            &host_connection(connection),
            username,
            &new,
            current.as_ref(),
            statements,
        )
        .map_err(refusal)
    }

    fn prolong_accounts(
        &self,
        connection: &DatabaseConnection,
        user: &CreatedUser,
        expires: StoreTime,
        statements: &[String],
    ) -> Result<(), Failure> {
        let (connection, user) = (host_connection(connection), host_user(user));
        import::database::prolong_accounts(&connection, &user, expires, statements).map_err(refusal)
    }

    fn remove_accounts(
        &self,
        connection: &DatabaseConnection,
        user: &CreatedUser,
        statements: &[String],
    ) -> Result<(), Failure> {
        let (connection, user) = (host_connection(connection), host_user(user));
        import::database::remove_accounts(&connection, &user, statements).map_err(refusal)
    }

    fn check_credential(
        &self,
        connection: &DatabaseConnection,
        username: &str,
        secret: &Credential,
    ) -> Result<Option<bool>, Failure> {
        import::database::check_credential(
            &host_connection(connection),
            username,
            &credential(secret),
        )
        .map_err(refusal)
    }

    fn close(&self, name: &str) {
        import::database::close(name);
    }
}

/// Reads the plugin that the host found under the name `plugin`.
fn resolved(
    plugin: &str,
    found: Result<import::database::Resolved, import::types::Failure>,
) -> Result<ResolvedPlugin, Failure> {
    let found = found.map_err(failure)?;
    let description = serde_json::from_str(&found.description).map_err(|_| {
        Failure::internal(format!("the description of plugin {plugin:?} cannot be read"))
    })?;
    let is_built_in = found.ext.iter().any(|(name, value)| name == "built-in" && value == "true");
    Ok(ResolvedPlugin { version: found.version, description, is_built_in })
}

/// Builds the connection for the host. The settings contain the plugin name that the connection
/// asked for, because a component can have several names, with user names that differ by name.
fn host_connection(connection: &DatabaseConnection) -> import::database::Connection {
    let mut settings = connection.settings.clone();
    settings.insert(PLUGIN_NAME.to_owned(), Value::String(connection.plugin.clone()));
    import::database::Connection {
        plugin: connection.plugin.clone(),
        version: connection.version.clone(),
        name: connection.name.clone(),
        generation: connection.generation,
        settings: Value::Object(settings).to_string(),
        ext: Vec::new(),
    }
}

fn credential(given: &Credential) -> words::Credential {
    match given {
        Credential::Password(text) => words::Credential::Password(text.clone()),
        Credential::PublicKeyPem(text) => words::Credential::PublicKeyPem(text.clone()),
        Credential::SubjectDn(text) => words::Credential::SubjectDn(text.clone()),
    }
}

fn created_user(user: words::CreatedUser) -> CreatedUser {
    let accounts = user.accounts.into_iter();
    let accounts = accounts.map(|words::Account { name, host, identity, .. }| Account {
        name,
        host,
        identity,
    });
    CreatedUser { username: user.username, accounts: accounts.collect() }
}

fn host_user(user: &CreatedUser) -> words::CreatedUser {
    let accounts = user.accounts.iter().map(|account| words::Account {
        name: account.name.clone(),
        host: account.host.clone(),
        identity: account.identity.clone(),
        ext: Vec::new(),
    });
    let (username, accounts) = (user.username.clone(), accounts.collect());
    words::CreatedUser { username, accounts, ext: Vec::new() }
}

fn refusal(why: import::types::Failure) -> Failure {
    let failure = Failure::new(database_kind(&why.code), why.message);
    Failure { retry_after: why.retry_after, ..failure }
}

fn unmade(why: import::types::Failure) -> CreationFailure {
    match is_nothing_made(&why.ext) {
        true => CreationFailure::Surely(refusal(why)),
        false => CreationFailure::Perhaps(refusal(why)),
    }
}

//! Database plugin for MySQL and MariaDB: creates accounts on a server with the operator's
//! statements and removes them for every host.
//!
//! The plugin never dials and never reads a file or an environment variable: all login data comes
//! from the connection's settings, and the host dials. The plugin keeps no state between calls.
//!
//! The modules in order: a module imports only from modules to its left or in lines above.
//! `tests/tidy` reads the order from this page.
//!
//! ```text
//! codes → description → dsn → sql_failure → tls → target → settings → accounts → proof
//! → sessions → account_list → named → rights → remove → users
//! ```

mod account_list;
mod accounts;
mod codes;
mod description;
mod dsn;
mod named;
mod proof;
mod remove;
mod rights;
mod sessions;
mod settings;
mod sql_failure;
mod target;
mod tls;
mod users;

use bulkhead_sdk::database_plugin::{
    Account, ConfiguredConnection, ConnectionSettings, CreatedUser, Credential, DatabasePlugin,
    NewUser, Refusal, SqlHost, StatementPurpose, StoreTime,
};
use bulkhead_sdk::statements::{self, SqlDialect};
use bulkhead_sdk::wire::description::DatabaseDescription;
use settings::ParsedConnection;

/// Database plugin `mysql-database-plugin`.
pub struct MySql;

impl DatabasePlugin for MySql {
    fn description() -> DatabaseDescription {
        description::description()
    }

    fn configure(settings: &ConnectionSettings) -> Result<ConfiguredConnection, Refusal> {
        settings::configure(settings)
    }

    fn check_statements(
        _: &ConnectionSettings,
        statements: &[String],
        purpose: &StatementPurpose,
    ) -> Result<Option<u32>, Refusal> {
        statements::check(SqlDialect::Mysql, statements, purpose)?;
        let as_it_is = |password: &str| Some(password.to_owned());
        Ok(statements::first_fitting(SqlDialect::Mysql, statements, purpose, as_it_is))
    }

    fn verify(host: &dyn SqlHost, settings: &ConnectionSettings) -> Result<Vec<String>, Refusal> {
        let connection = ParsedConnection::read(settings)?;
        let refused = |failure| sql_failure::refusal(failure, &connection.target);
        host.ping(&connection.target).map_err(refused)?;
        rights::lacking(host, &connection).map_err(refused)
    }

    fn plan_username(
        host: &dyn SqlHost,
        settings: &ConnectionSettings,
        display_name: &str,
        role_name: &str,
    ) -> Result<String, Refusal> {
        let connection = ParsedConnection::read(settings)?;
        connection.usernames.plan(host, &connection.username_template, display_name, role_name)
    }

    fn plan_accounts(
        settings: &ConnectionSettings,
        username: &str,
        creation: &[String],
    ) -> Result<Vec<Account>, Refusal> {
        ParsedConnection::read(settings)?;
        Ok(users::plan_accounts(username, creation))
    }

    fn create_user(
        host: &dyn SqlHost,
        settings: &ConnectionSettings,
        user: &NewUser,
        statements: &[String],
        rollback: &[String],
    ) -> Result<Vec<Account>, Refusal> {
        users::create(host, &ParsedConnection::read(settings)?, user, statements, rollback)
    }

    fn change_credential(
        host: &dyn SqlHost,
        settings: &ConnectionSettings,
        username: &str,
        credential: &Credential,
        current: Option<&Credential>,
        statements: &[String],
    ) -> Result<(), Refusal> {
        let connection = ParsedConnection::read(settings)?;
        users::change_credential(host, &connection, username, credential, current, statements)
    }

    fn set_expiration(
        host: &dyn SqlHost,
        settings: &ConnectionSettings,
        user: &CreatedUser,
        expires: StoreTime,
        statements: &[String],
    ) -> Result<(), Refusal> {
        users::set_expiration(host, &ParsedConnection::read(settings)?, user, expires, statements)
    }

    fn delete_user(
        host: &dyn SqlHost,
        settings: &ConnectionSettings,
        user: &CreatedUser,
        statements: &[String],
    ) -> Result<(), Refusal> {
        remove::delete(host, &ParsedConnection::read(settings)?, user, statements)
    }

    fn check_credential(
        host: &dyn SqlHost,
        settings: &ConnectionSettings,
        username: &str,
        credential: &Credential,
    ) -> Result<Option<bool>, Refusal> {
        proof::check_credential(host, &ParsedConnection::read(settings)?, username, credential)
    }
}

bulkhead_sdk::export_database_plugin!(MySql);

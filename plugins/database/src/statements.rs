//! Checks of the statements of roles and connections. A write is refused if the statements would
//! fail at each use.

use crate::connection::Connection;
use crate::credential::{CredentialOptions, CredentialRecipe};
use crate::placement::CredentialStatements;
use bulkhead_sdk::database_plugin::StatementAct;
use bulkhead_sdk::wire::description::DatabaseDescription;
use bulkhead_sdk::wire::failure::quoted;
use bulkhead_sdk::{Failure, Host};

/// Statements of a role: the name of the field, the use, and the list of statements.
pub(crate) type RoleStatements<'a> = (&'static str, StatementAct, &'a [String]);

/// Refuses a credential type that the plugin of the connection `name` does not know, statements
/// that the plugin cannot read, placeholders without a value, and a policy whose passwords do not
/// fit.
///
/// # Errors
/// Invalid request that names the field.
pub(crate) fn check_role(
    host: &dyn Host,
    (name, connection): (&str, &Connection),
    (credential_type, options): (&str, &CredentialOptions),
    statements: &[RoleStatements<'_>],
) -> Result<DatabaseDescription, Failure> {
    let plugin = connection.plugin(host, name)?;
    if !plugin.credential_types.iter().any(|supported| supported == credential_type) {
        let (plugin, supported) = (quoted(&plugin.name), plugin.credential_types.join(", "));
        return Err(Failure::invalid(format!(
            "unsupported credential_type: {credential_type} is not a type of plugin {plugin}; use \
             {supported}"
        )));
    }
    let recipe = CredentialRecipe::read(credential_type, options)?;
    for (field, act, statements) in statements.iter().filter(|(.., list)| !list.is_empty()) {
        let place = CredentialStatements {
            connection,
            db_name: name,
            act: *act,
            credential_type,
            statements,
        };
        let sets_password = matches!(act, StatementAct::Creation | StatementAct::Rotation);
        let policy = recipe.policy(connection).filter(|_| sets_password);
        place.check(host, policy).map_err(|why| of_field(field, why))?;
    }
    Ok(plugin)
}

/// Refuses statements for the own user of the connection `name` if the plugin cannot read the
/// statements or if the policy's passwords do not fit.
///
/// # Errors
/// Invalid request that names the field.
pub(crate) fn check_root(
    host: &dyn Host,
    name: &str,
    connection: &Connection,
) -> Result<(), Failure> {
    if connection.root_rotation_statements.is_empty() {
        return Ok(());
    }
    let checked = CredentialStatements::of_root(name, connection)
        .check(host, Some(&connection.password_policy));
    checked.map_err(|why| of_field("root_rotation_statements", why))
}

fn of_field(field: &str, why: Failure) -> Failure {
    Failure { message: format!("{field}: {}", why.message), ..why }
}

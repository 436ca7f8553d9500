//! Interfaces without an import in this world: each call is refused with a message.

use super::Imports;
use crate::database_plugin::{
    Account, ConfiguredConnection, CreatedUser, Credential, NewUser, StatementPurpose, StoreTime,
};
use crate::host::{
    CreationFailure, DatabaseConnection, Databases, Leases, ResolvedPlugin, VersionChoice,
};
use bulkhead_wire::failure::{Failure, FailureKind};

fn absent<T>(what: &str) -> Result<T, Failure> {
    Err(Failure::new(FailureKind::UnsupportedOperation, format!("an auth method has no {what}")))
}

impl Leases for Imports {
    fn reserve(&self, _tag: &str, _lane: &str, _internal: &str) -> Result<String, Failure> {
        absent("leases")
    }

    fn amend(&self, _tag: &str, _internal: &str) -> Result<(), Failure> {
        absent("leases")
    }

    fn end_issued(&self, _handle: &str) -> Result<(), Failure> {
        absent("leases")
    }

    fn end(&self, _tag: &str) -> Result<(), Failure> {
        absent("leases")
    }

    fn count(&self, _lane: &str) -> Result<u32, Failure> {
        absent("leases")
    }
}

impl Databases for Imports {
    fn resolve(&self, _plugin: &str, _version: &str) -> Result<ResolvedPlugin, Failure> {
        absent("database plugins")
    }

    fn choose(&self, _name: &str, _choice: VersionChoice<'_>) -> Result<ResolvedPlugin, Failure> {
        absent("database plugins")
    }

    fn running(&self, _connection: &DatabaseConnection) -> Result<ResolvedPlugin, Failure> {
        absent("database plugins")
    }

    fn release(&self, _name: &str) -> Result<(), Failure> {
        absent("database plugins")
    }

    fn configure(&self, _connection: &DatabaseConnection) -> Result<ConfiguredConnection, Failure> {
        absent("database plugins")
    }

    fn check_statements(
        &self,
        _connection: &DatabaseConnection,
        _statements: &[String],
        _purpose: &StatementPurpose,
    ) -> Result<Option<u32>, Failure> {
        absent("database plugins")
    }

    fn verify(&self, _connection: &DatabaseConnection) -> Result<Vec<String>, Failure> {
        absent("database plugins")
    }

    fn plan_accounts(
        &self,
        _connection: &DatabaseConnection,
        _display_name: &str,
        _role_name: &str,
        _creation: &[String],
    ) -> Result<CreatedUser, Failure> {
        absent("database plugins")
    }

    fn create_accounts(
        &self,
        _connection: &DatabaseConnection,
        _user: &NewUser,
        _statements: &[String],
        _rollback: &[String],
    ) -> Result<Vec<Account>, CreationFailure> {
        absent("database plugins").map_err(CreationFailure::Surely)
    }

    fn change_credential(
        &self,
        _connection: &DatabaseConnection,
        _username: &str,
        _new: &Credential,
        _current: Option<&Credential>,
        _statements: &[String],
    ) -> Result<(), Failure> {
        absent("database plugins")
    }

    fn prolong_accounts(
        &self,
        _connection: &DatabaseConnection,
        _user: &CreatedUser,
        _expires: StoreTime,
        _statements: &[String],
    ) -> Result<(), Failure> {
        absent("database plugins")
    }

    fn remove_accounts(
        &self,
        _connection: &DatabaseConnection,
        _user: &CreatedUser,
        _statements: &[String],
    ) -> Result<(), Failure> {
        absent("database plugins")
    }

    fn check_credential(
        &self,
        _connection: &DatabaseConnection,
        _username: &str,
        _held: &Credential,
    ) -> Result<Option<bool>, Failure> {
        absent("database plugins")
    }

    fn close(&self, _name: &str) {}
}

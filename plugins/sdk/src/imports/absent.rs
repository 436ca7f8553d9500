//! Interfaces without an import in this world: each call is refused with a message.

use super::Imports;
use crate::database_plugin::{Configured, Credential, NewUser, Purpose, StoreTime};
use crate::host::{Connection, Databases, Leases, Resolved, Unmade, VersionChoice};
use bulkhead_wire::failure::{Failure, Kind};

fn absent<T>(what: &str) -> Result<T, Failure> {
    Err(Failure::new(Kind::UnsupportedOperation, format!("an auth method has no {what}")))
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
    fn resolve(&self, _plugin: &str, _version: &str) -> Result<Resolved, Failure> {
        absent("database plugins")
    }

    fn choose(&self, _name: &str, _choice: VersionChoice<'_>) -> Result<Resolved, Failure> {
        absent("database plugins")
    }

    fn running(&self, _connection: &Connection) -> Result<Resolved, Failure> {
        absent("database plugins")
    }

    fn release(&self, _name: &str) -> Result<(), Failure> {
        absent("database plugins")
    }

    fn configure(&self, _connection: &Connection) -> Result<Configured, Failure> {
        absent("database plugins")
    }

    fn check_statements(
        &self,
        _connection: &Connection,
        _statements: &[String],
        _purpose: &Purpose,
    ) -> Result<Option<u32>, Failure> {
        absent("database plugins")
    }

    fn verify(&self, _connection: &Connection) -> Result<Vec<String>, Failure> {
        absent("database plugins")
    }

    fn plan_username(
        &self,
        _connection: &Connection,
        _display_name: &str,
        _role_name: &str,
    ) -> Result<String, Failure> {
        absent("database plugins")
    }

    fn create_user(
        &self,
        _connection: &Connection,
        _user: &NewUser,
        _statements: &[String],
        _rollback: &[String],
    ) -> Result<(), Unmade> {
        absent("database plugins").map_err(Unmade::Surely)
    }

    fn change_credential(
        &self,
        _connection: &Connection,
        _username: &str,
        _new: &Credential,
        _current: Option<&Credential>,
        _statements: &[String],
    ) -> Result<(), Failure> {
        absent("database plugins")
    }

    fn set_expiration(
        &self,
        _connection: &Connection,
        _username: &str,
        _expires: StoreTime,
        _statements: &[String],
    ) -> Result<(), Failure> {
        absent("database plugins")
    }

    fn delete_user(
        &self,
        _connection: &Connection,
        _username: &str,
        _statements: &[String],
    ) -> Result<(), Failure> {
        absent("database plugins")
    }

    fn check_credential(
        &self,
        _connection: &Connection,
        _username: &str,
        _held: &Credential,
    ) -> Result<Option<bool>, Failure> {
        absent("database plugins")
    }

    fn close(&self, _name: &str) {}
}

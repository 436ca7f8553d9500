//! The code of a database plugin, linked for instances with the state of a call.

use crate::bindings::accounts_plugin::AccountsPluginPre;
use crate::bindings::database_plugin::DatabasePluginPre;
use crate::state::CallState;
use crate::structure::interface_name;
use wasmtime::component::{Component, InstancePre};

/// A database plugin with the positions of its exports.
pub(crate) struct LinkedDatabasePlugin {
    pub(crate) users: DatabasePluginPre<CallState>,
    /// The same code with the export `database-accounts`, if the plugin has the export.
    pub(crate) accounts: Option<AccountsPluginPre<CallState>>,
}

impl LinkedDatabasePlugin {
    /// Checks all types of the plugin's exports.
    ///
    /// # Errors
    /// If an export is missing, or has other types than the contract.
    pub(crate) fn of(
        component: &Component,
        linked: InstancePre<CallState>,
    ) -> Result<Self, String> {
        let users = DatabasePluginPre::new(linked.clone())
            .map_err(|error| format!("the component is not a database plugin: {error:#}"))?;
        let accounts = match component.get_export_index(None, interface_name("database-accounts")) {
            Some(_) => Some(AccountsPluginPre::new(linked).map_err(|error| {
                format!("the component's database-accounts do not fit: {error:#}")
            })?),
            None => None,
        };
        Ok(Self { users, accounts })
    }
}

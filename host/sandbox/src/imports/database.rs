//! The `database` import: an engine calls a database plugin through the host.
//!
//! Each nested call runs in a fresh instance with the secrets, the deadline and the effect mark of
//! the root call, without storage, and with grants only for the targets of the call's connection.

mod nested;

use crate::bindings::secrets_engine::bulkhead::plugin::database::{
    Connection, Host, Resolved, VersionChoice,
};
use crate::bindings::secrets_engine::bulkhead::plugin::database_types::{
    Configured, CreatedUser, Credential, NewUser, Purpose,
};
use crate::closing::CallInterruption;
use crate::contract::Failure;
use crate::database_plugin::DatabasePlugin;
use crate::grants::{Act, Publisher};
use crate::host_services::ConnectionChoice;
use crate::nested_answer::answer_bytes;
use crate::state::{CallState, PasswordUse, refusal};
use bulkhead_wire::failure::Failure as Refused;
use nested::{NestedCall, check_name, linked};
use std::sync::Arc;

/// Runs a function of the nested plugin: `nested!(self, connection, call_verify(&settings))`,
/// optionally with a use of a password.
macro_rules! nested {
    ($state:expr, $connection:expr, $function:ident($($argument:expr),*)) => {
        nested!($state, $connection, PasswordUse::Other, $function($($argument),*))
    };
    ($state:expr, $connection:expr, $password_use:expr, $function:ident($($argument:expr),*)) => {{
        let prepared = NestedCall::prepare($state, $connection).await;
        run!($state, prepared, $password_use, |linked, store| {
            let instance = linked.users.instantiate_async(&mut store).await?;
            let users = instance.bulkhead_plugin_database_users();
            users.$function(&mut store, $($argument),*).await?
        })
    }};
}

/// Runs a prepared call, as a block over the linked code and the store.
macro_rules! run {
    (
        $state:expr, $prepared:expr, $password_use:expr,
        |$linked:ident, $store:ident| $done:block
    ) => {{
        match $prepared {
            Err(failure) => Ok(Err(refusal(&failure))),
            Ok(mut nested) => {
                nested.store.data_mut().password_use = $password_use;
                let deadline = $state.context.deadline;
                let work = async {
                    let $linked = linked(&nested.plugin)?;
                    let mut $store = &mut nested.store;
                    Ok($done)
                };
                let outcome = tokio::time::timeout_at(deadline, work).await;
                let outcome = outcome.map_err(CallInterruption::from);
                $state.charge(answer_bytes(&outcome))?;
                Ok(nested.settle(outcome))
            }
        }
    }};
}

/// Runs a function about accounts, in a prepared call: of the export `database-accounts`, or of
/// `database-users` if the plugin has no such export.
macro_rules! accounts {
    (
        $state:expr, $prepared:expr,
        $function:ident($($argument:expr),*),
        else $other:ident($($less:expr),*), $convert:expr
    ) => {
        run!($state, $prepared, PasswordUse::Other, |linked, store| {
            match &linked.accounts {
                Some(pre) => {
                    let instance = pre.instantiate_async(&mut store).await?;
                    let accounts = instance.bulkhead_plugin_database_accounts();
                    accounts.$function(&mut store, $($argument),*).await?
                }
                None => {
                    let instance = linked.users.instantiate_async(&mut store).await?;
                    let users = instance.bulkhead_plugin_database_users();
                    users.$other(&mut store, $($less),*).await?.map($convert)
                }
            }
        })
    };
}

impl Host for CallState {
    fn resolve(
        &mut self,
        plugin: String,
        version: String,
    ) -> wasmtime::Result<Result<Resolved, Failure>> {
        granted!(self, Act::Database(&plugin));
        let found = self.context.services.database_plugin(&plugin, &version);
        Ok(resolved(found))
    }

    async fn choose(
        &mut self,
        name: String,
        choice: VersionChoice,
    ) -> wasmtime::Result<Result<Resolved, Failure>> {
        granted!(self, Act::Database(&choice.plugin));
        self.charge_row(name.len().saturating_add(choice.version.len()))?;
        if let Err(refused) = check_name(&name) {
            return Ok(Err(refusal(&refused)));
        }
        if let Err(refused) = self.check_name("connection's name", &name) {
            return Ok(Err(refused));
        }
        let services = Arc::clone(&self.context.services);
        let unit = match self.unit() {
            Ok(unit) => unit,
            Err(refused) => return Ok(Err(refused)),
        };
        let VersionChoice { plugin, version, overrides_pin, keeps, .. } = &choice;
        let (overrides_pin, keeps) = (*overrides_pin, *keeps);
        let choice = ConnectionChoice { plugin, version, overrides_pin, keeps };
        Ok(resolved(services.choose_plugin(unit, &name, choice).await))
    }

    async fn running(
        &mut self,
        name: String,
        plugin: String,
        version: String,
    ) -> wasmtime::Result<Result<Resolved, Failure>> {
        granted!(self, Act::Database(&plugin));
        let services = Arc::clone(&self.context.services);
        Ok(resolved(services.serving_plugin(&name, &plugin, &version).await))
    }

    fn release(&mut self, name: String) -> wasmtime::Result<Result<(), Failure>> {
        granted!(self, Act::Close);
        self.charge_row(name.len())?;
        let services = Arc::clone(&self.context.services);
        Ok(self.unit().map(|unit| services.release_plugin(unit, &name)))
    }

    async fn configure(
        &mut self,
        connection: Connection,
    ) -> wasmtime::Result<Result<Configured, Failure>> {
        granted!(self, Act::Database(&connection.plugin));
        nested!(self, &connection, call_configure(&connection.settings))
    }

    async fn check_statements(
        &mut self,
        connection: Connection,
        statements: Vec<String>,
        purpose: Purpose,
    ) -> wasmtime::Result<Result<Option<u32>, Failure>> {
        granted!(self, Act::Database(&connection.plugin));
        purpose.passwords.iter().for_each(|password| self.context.tree.secrets.add(password));
        nested!(
            self,
            &connection,
            call_check_statements(&connection.settings, &statements, &purpose)
        )
    }

    async fn verify(
        &mut self,
        connection: Connection,
    ) -> wasmtime::Result<Result<Vec<String>, Failure>> {
        granted!(self, Act::Database(&connection.plugin));
        nested!(self, &connection, call_verify(&connection.settings))
    }

    async fn plan_username(
        &mut self,
        connection: Connection,
        display_name: String,
        role_name: String,
    ) -> wasmtime::Result<Result<String, Failure>> {
        granted!(self, Act::Database(&connection.plugin));
        nested!(
            self,
            &connection,
            call_plan_username(&connection.settings, &display_name, &role_name)
        )
    }

    async fn create_user(
        &mut self,
        connection: Connection,
        user: NewUser,
        statements: Vec<String>,
        rollback: Vec<String>,
    ) -> wasmtime::Result<Result<(), Failure>> {
        granted!(self, Act::Database(&connection.plugin));
        keep_secret(self, &user.credential);
        nested!(
            self,
            &connection,
            call_create_user(&connection.settings, &user, &statements, &rollback)
        )
    }

    async fn change_credential(
        &mut self,
        connection: Connection,
        username: String,
        credential: Credential,
        current: Option<Credential>,
        statements: Vec<String>,
    ) -> wasmtime::Result<Result<(), Failure>> {
        granted!(self, Act::Database(&connection.plugin));
        keep_secret(self, &credential);
        current.iter().for_each(|current| keep_secret(self, current));
        let current = current.as_ref();
        nested!(
            self,
            &connection,
            PasswordUse::Change(username.clone()),
            call_change_credential(
                &connection.settings,
                &username,
                &credential,
                current,
                &statements
            )
        )
    }

    async fn set_expiration(
        &mut self,
        connection: Connection,
        username: String,
        expires: u64,
        statements: Vec<String>,
    ) -> wasmtime::Result<Result<(), Failure>> {
        granted!(self, Act::Database(&connection.plugin));
        nested!(
            self,
            &connection,
            call_set_expiration(&connection.settings, &username, expires, &statements)
        )
    }

    async fn delete_user(
        &mut self,
        connection: Connection,
        username: String,
        statements: Vec<String>,
    ) -> wasmtime::Result<Result<(), Failure>> {
        granted!(self, Act::Database(&connection.plugin));
        nested!(self, &connection, call_delete_user(&connection.settings, &username, &statements))
    }

    async fn check_credential(
        &mut self,
        connection: Connection,
        username: String,
        credential: Credential,
    ) -> wasmtime::Result<Result<Option<bool>, Failure>> {
        granted!(self, Act::Database(&connection.plugin));
        keep_secret(self, &credential);
        nested!(
            self,
            &connection,
            PasswordUse::Proof,
            call_check_credential(&connection.settings, &username, &credential)
        )
    }

    async fn plan_accounts(
        &mut self,
        connection: Connection,
        display_name: String,
        role_name: String,
        creation: Vec<String>,
    ) -> wasmtime::Result<Result<CreatedUser, Failure>> {
        granted!(self, Act::Database(&connection.plugin));
        let settings = &connection.settings;
        let prepared = NestedCall::prepare(self, &connection).await;
        accounts!(
            self,
            prepared,
            call_plan_accounts(settings, &display_name, &role_name, &creation),
            else call_plan_username(settings, &display_name, &role_name),
            without_accounts
        )
    }

    async fn create_accounts(
        &mut self,
        connection: Connection,
        user: NewUser,
        statements: Vec<String>,
        rollback: Vec<String>,
    ) -> wasmtime::Result<Result<CreatedUser, Failure>> {
        granted!(self, Act::Database(&connection.plugin));
        keep_secret(self, &user.credential);
        let settings = &connection.settings;
        let prepared = NestedCall::prepare(self, &connection).await;
        accounts!(
            self,
            prepared,
            call_create_accounts(settings, &user, &statements, &rollback),
            else call_create_user(settings, &user, &statements, &rollback),
            |()| without_accounts(user.username.clone())
        )
    }

    async fn prolong_accounts(
        &mut self,
        connection: Connection,
        user: CreatedUser,
        expires: u64,
        statements: Vec<String>,
    ) -> wasmtime::Result<Result<(), Failure>> {
        granted!(self, Act::Database(&connection.plugin));
        let settings = &connection.settings;
        let prepared = NestedCall::prepare_for(self, &connection, &user).await;
        accounts!(
            self,
            prepared,
            call_prolong_accounts(settings, &user, expires, &statements),
            else call_set_expiration(settings, &user.username, expires, &statements),
            |()| ()
        )
    }

    async fn remove_accounts(
        &mut self,
        connection: Connection,
        user: CreatedUser,
        statements: Vec<String>,
    ) -> wasmtime::Result<Result<(), Failure>> {
        granted!(self, Act::Database(&connection.plugin));
        let settings = &connection.settings;
        let prepared = NestedCall::prepare_for(self, &connection, &user).await;
        accounts!(
            self,
            prepared,
            call_remove_accounts(settings, &user, &statements),
            else call_delete_user(settings, &user.username, &statements),
            |()| ()
        )
    }

    fn close(&mut self, name: String) -> wasmtime::Result<()> {
        self.require_grant(&Act::Close)?;
        self.resources.pools.close(self.mount(), &name);
        Ok(())
    }
}

/// Converts a plugin of the catalog for the engine.
fn resolved(found: Result<Arc<DatabasePlugin>, Refused>) -> Result<Resolved, Failure> {
    let found = found.map_err(|failure| refusal(&failure))?;
    let built_in = (found.identity().maker == Publisher::Official).to_string();
    Ok(Resolved {
        version: found.identity().version.clone(),
        description: found.description_text().to_owned(),
        ext: vec![("built-in".to_owned(), built_in)],
    })
}

fn keep_secret(state: &CallState, credential: &Credential) {
    if let Credential::Password(password) = credential {
        state.context.tree.secrets.add(password);
    }
}

/// Returns a user whose accounts the plugin does not tell.
fn without_accounts(username: String) -> CreatedUser {
    CreatedUser { username, accounts: Vec::new(), ext: Vec::new() }
}

//! The `database` import: an engine calls a database plugin through the host.
//!
//! Each nested call runs in a fresh instance with the secrets, the deadline and the effect mark of
//! the root call, without storage, and with grants only for the targets of the call's connection.

use crate::bindings::database_plugin::DatabasePluginPre;
use crate::bindings::secrets_engine::bulkhead::plugin::database::{
    Connection, Host, Resolved, VersionChoice,
};
use crate::bindings::secrets_engine::bulkhead::plugin::database_types::{
    Configured, Credential, NewUser, Purpose, Refusal,
};
use crate::closing::CallInterruption;
use crate::contract::Failure;
use crate::database_plugin::DatabasePlugin;
use crate::grants::{Act, Publisher};
use crate::host_services::ConnectionChoice;
use crate::instance::new_store;
use crate::limits;
use crate::nested_answer::answer_bytes;
use crate::nested_refusal::failure_of;
use crate::outcome::{EntryResult, settle};
use crate::state::{CallState, ConnectionKey, PasswordUse, refusal};
use bulkhead_outbound::fingerprint::Fingerprint;
use bulkhead_outbound::sql::{ConnectionTargets, check_targets};
use bulkhead_wire::failure::Failure as Refused;
use std::sync::Arc;
use wasmtime::{Store, format_err};

/// Runs a function of the nested plugin: `nested!(self, connection, call_verify(&settings))`,
/// optionally with a use of a password.
macro_rules! nested {
    ($state:expr, $connection:expr, $function:ident($($argument:expr),*)) => {
        nested!($state, $connection, PasswordUse::Other, $function($($argument),*))
    };
    ($state:expr, $connection:expr, $password_use:expr, $function:ident($($argument:expr),*)) => {{
        match NestedCall::prepare($state, $connection).await {
            Err(failure) => Ok(Err(refusal(&failure))),
            Ok(mut nested) => {
                nested.store.data_mut().password_use = $password_use;
                let deadline = $state.context.deadline;
                let work = async {
                    let pre = linked(&nested.plugin)?;
                    let instance = pre.instantiate_async(&mut nested.store).await?;
                    let users = instance.bulkhead_plugin_database_users();
                    let done = users.$function(&mut nested.store, $($argument),*).await?;
                    Ok(done)
                };
                let outcome = tokio::time::timeout_at(deadline, work).await;
                let outcome = outcome.map_err(CallInterruption::from);
                $state.charge(answer_bytes(&outcome))?;
                Ok(nested.settle(outcome))
            }
        }
    }};
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

/// A nested call before its start.
struct NestedCall {
    plugin: Arc<DatabasePlugin>,
    store: Store<CallState>,
    connection: String,
}

impl NestedCall {
    async fn prepare(state: &mut CallState, connection: &Connection) -> Result<Self, Refused> {
        if state.context.slots < 2 {
            let title = state.plugin.title();
            return Err(Refused::internal(format!(
                "{title} reached for a database plugin on a route that its table does not mark as \
                 nested"
            )));
        }
        check_name(&connection.name)?;
        let services = Arc::clone(&state.context.services);
        let Connection { name, plugin, version, .. } = connection;
        let plugin = services.serving_plugin(name, plugin, version).await?;
        if !plugin.is_linked() {
            services.load_database_plugin(&plugin).await?;
        }
        keep_settings_secret(state, &plugin, &connection.settings);
        let targets = targets(state, &plugin, connection).await?;
        let mut store = Self::store(state, &plugin, &targets);
        let key =
            ConnectionKey { name: connection.name.clone(), generation: connection.generation };
        store.data_mut().connection = Some(key);
        Ok(Self { plugin, store, connection: connection.name.clone() })
    }

    fn store(state: &CallState, plugin: &DatabasePlugin, targets: &[String]) -> Store<CallState> {
        let mut context = state.context.clone();
        context.grants = Arc::new(context.grants.for_connection(&plugin.dials(), targets));
        let identity = plugin.shared_identity();
        new_store(CallState::new(&state.resources, context, identity, None))
    }

    /// Converts the outcome into a result. A refusal gets the sentence of the plugin's description
    /// for the refusal's code.
    fn settle<T>(self, outcome: EntryResult<T, Refusal>) -> Result<T, Failure> {
        let mut refused = None;
        let outcome = outcome.map(|entered| {
            entered.map(|done| {
                done.map_err(|why| {
                    let refused_grant = self.store.data().refused_grant.as_deref();
                    let failure = failure_of(&self.plugin, (&self.connection, refused_grant), &why);
                    refused = Some(failure.clone());
                    failure
                })
            })
        });
        let settled = settle(self.store.data(), outcome);
        // `settle` keeps kind and message; the pairs that engines read are added again here.
        settled.map_err(|failure| match refused {
            Some(refused) => Failure { message: failure.message, ..refused },
            None => refusal(&failure),
        })
    }
}

/// Returns the plugin's code, linked for instances with the state of a call.
fn linked(plugin: &DatabasePlugin) -> wasmtime::Result<&DatabasePluginPre<CallState>> {
    plugin.linked().ok_or_else(|| format_err!("the database plugin is not linked for this state"))
}

/// Refuses a connection name that is too long for pools and log lines.
fn check_name(connection: &str) -> Result<(), Refused> {
    let (bytes, most) = (connection.len(), limits::CONNECTION_BYTES);
    if bytes <= most {
        return Ok(());
    }
    Err(Refused::invalid(format!(
        "a connection's name has at most {most} bytes; this one has {bytes}"
    )))
}

/// Returns the servers that the connection names, from the plugin's pure `configure`. The plugin is
/// asked only if the names allow anything.
async fn targets(
    state: &mut CallState,
    plugin: &DatabasePlugin,
    connection: &Connection,
) -> Result<ConnectionTargets, Refused> {
    if !state.context.grants.may_dial_targets(&plugin.dials()) {
        return Ok(ConnectionTargets::default());
    }
    let settings =
        Fingerprint::begin().bytes(&plugin.identity().digest).bytes(&connection.settings).end();
    if let Some(known) = state.resources.targets.find(state.mount(), &settings) {
        return Ok(known);
    }
    let mut store = NestedCall::store(state, plugin, &[]);
    let work = async {
        let instance = linked(plugin)?.instantiate_async(&mut store).await?;
        let users = instance.bulkhead_plugin_database_users();
        // A refusal here only means that nothing may be dialled; the next call reports the refusal.
        let configured = users.call_configure(&mut store, &connection.settings).await?;
        Ok(Ok(configured.map(|configured| configured.targets).unwrap_or_default()))
    };
    let outcome = tokio::time::timeout_at(state.context.deadline, work).await;
    let found = settle(store.data(), outcome.map_err(CallInterruption::from))?;
    check_targets(&connection.name, &found)?;
    let found = ConnectionTargets::from(found);
    state.resources.targets.remember(state.mount(), settings, &found);
    Ok(found)
}

/// Adds the values of the settings that the plugin marks secret to the call's secrets.
fn keep_settings_secret(state: &CallState, plugin: &DatabasePlugin, settings: &str) {
    let Ok(settings) = serde_json::from_str::<serde_json::Map<String, serde_json::Value>>(settings)
    else {
        return;
    };
    for secret in bulkhead_wire::fields::secrets(&plugin.description().settings, &settings) {
        state.context.tree.secrets.add(secret);
    }
}

//! A nested call of a database plugin: its instance, its grants and its result.

use crate::bindings::secrets_engine::bulkhead::plugin::database::Connection;
use crate::bindings::secrets_engine::bulkhead::plugin::database_types::{
    Account, CreatedUser, Refusal,
};
use crate::closing::CallInterruption;
use crate::contract::Failure;
use crate::database_plugin::DatabasePlugin;
use crate::host_services::HostServices;
use crate::instance::new_store;
use crate::limits;
use crate::linked_database_plugin::LinkedDatabasePlugin;
use crate::nested_refusal::failure_of;
use crate::outcome::{EntryResult, settle};
use crate::state::{CallState, ConnectionKey, refusal};
use bulkhead_outbound::fingerprint::Fingerprint;
use bulkhead_outbound::sql::{ConnectionTargets, check_targets};
use bulkhead_wire::failure::{Failure as Refused, quoted};
use std::sync::Arc;
use wasmtime::{Store, format_err};

/// A nested call before its start.
pub(super) struct NestedCall {
    pub(super) plugin: Arc<DatabasePlugin>,
    pub(super) store: Store<CallState>,
    connection: String,
}

impl NestedCall {
    pub(super) async fn prepare(
        state: &mut CallState,
        connection: &Connection,
    ) -> Result<Self, Refused> {
        if state.context.slots < 2 {
            let title = state.plugin.title();
            return Err(Refused::internal(format!(
                "{title} called a database plugin on a route without the mark nested"
            )));
        }
        check_name(&connection.name)?;
        let plugin = serving_plugin(Arc::clone(&state.context.services), connection).await?;
        keep_settings_secret(state, &plugin, &connection.settings);
        let targets = targets(state, &plugin, connection).await?;
        let mut store = Self::store(state, &plugin, &targets);
        let key =
            ConnectionKey { name: connection.name.clone(), generation: connection.generation };
        store.data_mut().connection = Some(key);
        Ok(Self { plugin, store, connection: connection.name.clone() })
    }

    /// Prepares a call about the accounts of `user`. Refuses accounts known by more than the
    /// user's name, if the version of the plugin has no export for accounts: by the name alone, the
    /// plugin would miss renamed and further accounts, or reach an account of somebody else.
    pub(super) async fn prepare_for(
        state: &mut CallState,
        connection: &Connection,
        user: &CreatedUser,
    ) -> Result<Self, Refused> {
        let nested = Self::prepare(state, connection).await?;
        let is_more = |account: &Account| {
            account.name != user.username || account.host.is_some() || !account.identity.is_empty()
        };
        let knows_accounts = || linked(&nested.plugin).is_ok_and(|code| code.accounts.is_some());
        if !user.accounts.iter().any(is_more) || knows_accounts() {
            return Ok(nested);
        }
        Err(Refused::invalid(format!(
            "{} of connection {} does not know the accounts of user {}, which another version \
             created; choose the creating version or a later version (plugin_version), then try \
             again",
            nested.plugin.identity().title(),
            quoted(&connection.name),
            quoted(&user.username)
        )))
    }

    fn store(state: &CallState, plugin: &DatabasePlugin, targets: &[String]) -> Store<CallState> {
        let mut context = state.context.clone();
        context.grants = Arc::new(context.grants.for_connection(&plugin.dials(), targets));
        let identity = plugin.shared_identity();
        new_store(CallState::new(&state.resources, context, identity, None))
    }

    /// Converts the outcome into a result. A refusal gets the sentence of the plugin's description
    /// for the refusal's code.
    pub(super) fn settle<T>(mut self, outcome: EntryResult<T, Refusal>) -> Result<T, Failure> {
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
        self.store.data_mut().spans.end_call(settled.is_ok());
        // `settle` keeps kind and message; the pairs that engines read are added again here.
        settled.map_err(|failure| match refused {
            Some(refused) => Failure { message: failure.message, ..refused },
            None => refusal(&failure),
        })
    }
}

/// Returns the plugin that serves the connection, with its code.
async fn serving_plugin(
    services: Arc<dyn HostServices>,
    connection: &Connection,
) -> Result<Arc<DatabasePlugin>, Refused> {
    let Connection { name, plugin, version, .. } = connection;
    let plugin = services.serving_plugin(name, plugin, version).await?;
    if !plugin.is_linked() {
        services.load_database_plugin(&plugin).await?;
    }
    Ok(plugin)
}

/// Returns the plugin's code, linked for instances with the state of a call.
pub(super) fn linked(plugin: &DatabasePlugin) -> wasmtime::Result<&LinkedDatabasePlugin> {
    plugin.linked().ok_or_else(|| format_err!("the database plugin is not linked for this state"))
}

/// Refuses a connection name that is too long for pools and log lines.
pub(super) fn check_name(connection: &str) -> Result<(), Refused> {
    let (bytes, most) = (connection.len(), limits::CONNECTION_BYTES);
    if bytes <= most {
        return Ok(());
    }
    Err(Refused::invalid(format!(
        "a connection's name has at most {most} bytes; this name has {bytes}"
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
    if let Some(targets) = state.resources.targets.find(state.mount(), &settings) {
        return Ok(targets);
    }
    let mut store = NestedCall::store(state, plugin, &[]);
    let work = async {
        let instance = linked(plugin)?.users.instantiate_async(&mut store).await?;
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

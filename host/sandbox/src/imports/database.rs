//! The `database` import: an engine calls a database plugin through the host.
//!
//! Each nested call runs in a fresh instance with the secrets, the deadline and the effect mark of
//! the root call, without storage, and with grants only for the targets of the call's connection.

use crate::bindings::database_plugin::DatabasePluginPre;
use crate::bindings::database_plugin::exports::bulkhead::plugin::database_users;
use crate::bindings::secrets_engine::bulkhead::plugin::database::{Connection, Host, Resolved};
use crate::bindings::secrets_engine::bulkhead::plugin::database_types::{
    Configured, Credential, NewUser, Purpose, Refusal,
};
use crate::closing::Cut;
use crate::contract::Failure;
use crate::database_plugin::DatabasePlugin;
use crate::fingerprint::Fingerprint;
use crate::grants::Act;
use crate::instance::new_store;
use crate::limits;
use crate::nested_answer::answer_bytes;
use crate::outcome::{Entered, settle};
use crate::sql::{Targets, check_targets};
use crate::state::{CallState, ConnectionKey, PasswordUse, refusal};
use bulkhead_wire::failure::{Failure as Refused, Kind};
use std::sync::Arc;
use wasmtime::{Store, format_err};

/// Runs a function of the nested plugin: `nested!(self, connection, call_verify(&settings))`,
/// optionally with a use of a password.
macro_rules! nested {
    ($state:expr, $connection:expr, $function:ident($($argument:expr),*)) => {
        nested!($state, $connection, PasswordUse::Other, $function($($argument),*))
    };
    ($state:expr, $connection:expr, $password_use:expr, $function:ident($($argument:expr),*)) => {{
        match Nested::prepare($state, $connection).await {
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
                let outcome = tokio::time::timeout_at(deadline, work).await.map_err(Cut::from);
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
        Ok(found.map_err(|failure| refusal(&failure)).map(|found| Resolved {
            version: found.identity().version.clone(),
            description: found.description_text().to_owned(),
            ext: Vec::new(),
        }))
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
        self.demand(&Act::Close)?;
        self.resources.pools.close(self.mount(), &name);
        Ok(())
    }
}

fn keep_secret(state: &CallState, credential: &Credential) {
    if let Credential::Password(password) = credential {
        state.context.tree.secrets.add(password);
    }
}

/// A nested call before its start.
struct Nested {
    plugin: Arc<DatabasePlugin>,
    store: Store<CallState>,
    connection: String,
}

impl Nested {
    async fn prepare(state: &mut CallState, connection: &Connection) -> Result<Self, Refused> {
        if state.context.slots < 2 {
            let title = state.plugin.title();
            return Err(Refused::internal(format!(
                "{title} reached for a database plugin on a route that its table does not mark as \
                 nested"
            )));
        }
        check_name(&connection.name)?;
        let plugin =
            state.context.services.database_plugin(&connection.plugin, &connection.version)?;
        if !plugin.is_linked() {
            state.context.services.load_database_plugin(&plugin).await?;
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
    fn settle<T>(self, outcome: Entered<T, Refusal>) -> Result<T, Failure> {
        let mut refused = None;
        let outcome = outcome.map(|entered| {
            entered.map(|done| {
                done.map_err(|why| {
                    let failure = failure_of(&self, &why);
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
) -> Result<Targets, Refused> {
    if !state.context.grants.heeds_targets(&plugin.dials()) {
        return Ok(Targets::default());
    }
    let settings =
        Fingerprint::begin().bytes(&plugin.identity().digest).bytes(&connection.settings).end();
    if let Some(known) = state.resources.targets.find(state.mount(), &settings) {
        return Ok(known);
    }
    let mut store = Nested::store(state, plugin, &[]);
    let work = async {
        let instance = linked(plugin)?.instantiate_async(&mut store).await?;
        let users = instance.bulkhead_plugin_database_users();
        // A refusal here only means that nothing may be dialled; the next call reports the refusal.
        let configured = users.call_configure(&mut store, &connection.settings).await?;
        Ok(Ok(configured.map(|configured| configured.targets).unwrap_or_default()))
    };
    let outcome = tokio::time::timeout_at(state.context.deadline, work).await;
    let found = settle(store.data(), outcome.map_err(Cut::from))?;
    check_targets(&connection.name, &found)?;
    let found = Targets::from(found);
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

/// Converts a refusal into a failure: the code decides the kind, and the description has the
/// message.
fn failure_of(nested: &Nested, refused: &database_users::Refusal) -> Failure {
    let description = nested.plugin.description();
    let sentence = description.codes.get(&refused.code);
    let unknown = format!("the database plugin refused with {:?}", refused.code);
    let message = match &nested.store.data().refused_grant {
        // The host prints the line that would allow the act, because the plugin does not know the
        // mount.
        Some(why) if refused.code == Kind::PermissionDenied.code() => why.clone(),
        _ => sentence.map_or(unknown, |sentence| fill(sentence, nested, refused)),
    };
    let mut ext = refused.ext.clone();
    ext.push(("code".to_owned(), refused.code.clone()));
    ext.extend(refused.setting.iter().map(|setting| ("setting".to_owned(), setting.clone())));
    ext.extend(refused.statement.iter().map(|index| ("statement".to_owned(), index.to_string())));
    ext.extend(refused.vendor_code.iter().map(|code| ("vendor-code".to_owned(), code.clone())));
    Failure { code: kind(&refused.code).code().to_owned(), message, retry_after: None, ext }
}

/// Returns the kind of a refusal's code. Mistakes and refusals of the database are for the caller
/// to fix, unlike failures that may pass without a fix (decision P4).
fn kind(code: &str) -> Kind {
    match code {
        "unreachable" => Kind::Unreachable,
        "timed-out" => Kind::TimedOut,
        "conflict" => Kind::Conflict,
        "internal" => Kind::Internal,
        _ => Kind::InvalidRequest,
    }
}

/// Fills values into a sentence. A single pass, so that a value that looks like a placeholder stays
/// as it is.
fn fill(sentence: &str, nested: &Nested, refused: &database_users::Refusal) -> String {
    let mut out = String::new();
    let mut rest = sentence;
    while let Some((before, after)) = rest.split_once('{') {
        let Some((name, tail)) = after.split_once('}') else { break };
        out.push_str(before);
        match name {
            "connection" => out.push_str(&format!("{:?}", nested.connection)),
            "setting" => out.push_str(refused.setting.as_deref().unwrap_or("a setting")),
            "vendor-code" => out.push_str(refused.vendor_code.as_deref().unwrap_or("none")),
            "statement" => out.push_str(
                &refused.statement.map_or("?".to_owned(), |index| (index + 1).to_string()),
            ),
            other => out.push_str(
                refused.ext.iter().find(|(key, _)| key == other).map_or("?", |(_, value)| value),
            ),
        }
        rest = tail;
    }
    out.push_str(rest);
    out
}

//! The `sql` import: grant, vetted address, pool, and effects in separate tasks.
//!
//! This file prevents a plugin from dialling a server that its connection does not name. Every
//! target is checked against the grants of the nested call, which are the targets of this very
//! connection.

mod types;

use crate::bindings::database_plugin::bulkhead::plugin::sql as contract;
use crate::call_tree::{CallTree, SideEffect};
use crate::effect::{self, EffectFailure};
use crate::grants::SqlTarget;
use crate::limits;
use crate::resources::StoreResources;
use crate::secrets::SecretSet;
use crate::state::{CallState, PasswordUse};
use crate::target_calls::TargetInterface;
use bulkhead_outbound::addresses::AllowedAddresses;
use bulkhead_outbound::sql::{
    DatabaseEndpoint, DatabaseTarget, LoginRequest, PoolKey, SecretRecorder, SqlFailure,
    SqlSession, SqlStatement, failed,
};
use bulkhead_wire::log_level::LogLevel;
use contract::Host;
use futures_util::FutureExt as _;
use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;

/// Failure code of an act that a grant would allow.
const NOT_GRANTED: &str = "permission-denied";

type ResultRows = Vec<Vec<Option<String>>>;

impl Host for CallState {
    async fn ping(
        &mut self,
        target: contract::Target,
    ) -> wasmtime::Result<Result<(), contract::Failure>> {
        let (target, endpoints) = check_endpoints(self, target)?;
        let done = ping(self, &target, endpoints).await;
        Ok(report(self, &target, done))
    }

    async fn query(
        &mut self,
        target: contract::Target,
        statement: String,
        parameters: Vec<String>,
    ) -> wasmtime::Result<Result<ResultRows, contract::Failure>> {
        let (target, endpoints) = check_endpoints(self, target)?;
        let done = async {
            let lent = lend(self, &target, endpoints).await?;
            within_time(self, lent.query(&statement, &parameters)).await
        };
        let done = done.await;
        Ok(report(self, &target, done))
    }

    async fn transact(
        &mut self,
        target: contract::Target,
        statements: Vec<contract::Statement>,
    ) -> wasmtime::Result<Result<(), contract::Failure>> {
        let (target, endpoints) = check_endpoints(self, target)?;
        let statements: Vec<_> = statements.into_iter().map(SqlStatement::from).collect();
        let done = match lend(self, &target, endpoints).await {
            Ok(lent) => change(self, async move { lent.transact(&statements).await }).await,
            Err(failure) => Err(failure),
        };
        Ok(report(self, &target, done))
    }

    async fn execute(
        &mut self,
        target: contract::Target,
        statement: contract::Statement,
    ) -> wasmtime::Result<Result<(), contract::Failure>> {
        let (target, endpoints) = check_endpoints(self, target)?;
        let statement = SqlStatement::from(statement);
        let done = match lend(self, &target, endpoints).await {
            Ok(lent) => change(self, async move { lent.execute(&statement).await }).await,
            Err(failure) => Err(failure),
        };
        Ok(report(self, &target, done))
    }
}

/// Counts the host call and checks the grant of every endpoint. Returns the addresses to which each
/// endpoint may resolve, in the order of the endpoints.
fn check_endpoints(
    state: &mut CallState,
    target: contract::Target,
) -> wasmtime::Result<(DatabaseTarget, Result<Vec<AllowedAddresses>, SqlFailure>)> {
    state.enter_target(TargetInterface::Sql)?;
    let target = DatabaseTarget::from(target);
    let (grants, own) = (&state.context.grants, &state.resources.own_addresses);
    let reach = |end: &DatabaseEndpoint| {
        let reach = grants
            .reach_of(SqlTarget { driver: &target.driver, host: &end.host, port: end.port }, own);
        reach.map_err(|refused| failed(NOT_GRANTED, refused.message))
    };
    let reaches = target.endpoints.iter().map(reach).collect();
    Ok((target, reaches))
}

/// Returns the pool of the call's connection, and the addresses to which each endpoint may resolve.
/// Begins the span of the exchange.
fn admit(
    state: &mut CallState,
    target: &DatabaseTarget,
    endpoints: Result<Vec<AllowedAddresses>, SqlFailure>,
) -> Result<(PoolKey, Vec<AllowedAddresses>), SqlFailure> {
    let reaches = endpoints?;
    check_size(target)?;
    let Some(key) = pool_key(state, target) else {
        return Err(failed(NOT_GRANTED, "sql is for calls about a connection"));
    };
    state.context.tree.secrets.add(&target.password);
    state.begin_exchange(|| endpoint_names(target));
    Ok((key, reaches))
}

/// Names the first endpoints of a target, for the log.
fn endpoint_names(target: &DatabaseTarget) -> String {
    let ends = target.endpoints.iter().take(limits::SQL_ENDPOINTS);
    ends.map(|end| format!("{}:{}", end.host, end.port)).collect::<Vec<_>>().join(",")
}

/// Refuses a target that is too large to be kept in a pool. The TLS settings have separate bounds.
fn check_size(target: &DatabaseTarget) -> Result<(), SqlFailure> {
    let names = [&target.driver, &target.database, &target.username, &target.password];
    let hosts = target.endpoints.iter().map(|endpoint| &endpoint.host);
    let all = names.into_iter().chain(hosts).chain(&target.tls.server_name);
    let bytes = all.map(String::len).fold(0, usize::saturating_add);
    let (ends, most) = (target.endpoints.len(), limits::SQL_ENDPOINTS);
    if bytes <= limits::SQL_TARGET_BYTES && ends <= most {
        return Ok(());
    }
    let why = format!(
        "a target has at most {most} endpoints, and {} bytes of names and password; this target \
         has {ends} and {bytes}",
        limits::SQL_TARGET_BYTES
    );
    Err(failed("invalid-request", why))
}

async fn ping(
    state: &mut CallState,
    target: &DatabaseTarget,
    endpoints: Result<Vec<AllowedAddresses>, SqlFailure>,
) -> Result<(), SqlFailure> {
    let (key, reaches) = admit(state, target, endpoints)?;
    let (resources, tree) = (Arc::clone(&state.resources), Arc::clone(&state.context.tree));
    let login = login(&resources, &tree, target, (key, reaches));
    let pinged = match state.password_use {
        PasswordUse::Proof => within_time(state, login.prove()).await,
        PasswordUse::Change(_) | PasswordUse::Other => within_time(state, login.ping()).await,
    };
    state.context.tree.mark_effect(SideEffect::Safe);
    pinged
}

/// Lends a session of the call's connection.
async fn lend(
    state: &mut CallState,
    target: &DatabaseTarget,
    endpoints: Result<Vec<AllowedAddresses>, SqlFailure>,
) -> Result<SqlSession, SqlFailure> {
    let (key, reaches) = admit(state, target, endpoints)?;
    let (resources, tree) = (Arc::clone(&state.resources), Arc::clone(&state.context.tree));
    let login = login(&resources, &tree, target, (key, reaches));
    let lent = match &state.password_use {
        PasswordUse::Change(username) if *username == target.username => {
            within_time(state, login.lend_for_change()).await
        }
        _ => within_time(state, login.lend()).await,
    }?;
    // From here on, the plugin may read data outside.
    state.context.tree.mark_effect(SideEffect::Safe);
    Ok(lent)
}

fn login<'a>(
    resources: &'a StoreResources,
    tree: &'a CallTree,
    target: &'a DatabaseTarget,
    (key, reaches): (PoolKey, Vec<AllowedAddresses>),
) -> LoginRequest<'a> {
    let (pools, changes) = (&resources.pools, &resources.password_changes);
    let (passwords, secrets) = (&tree.passwords, &tree.secrets);
    LoginRequest { pools, changes, passwords, secrets, key, target, reaches }
}

impl SecretRecorder for SecretSet {
    fn record_secret(&self, secret: &str) {
        self.add(secret);
    }
}

/// Returns the pool of the call's connection; `None` for a call without a connection.
fn pool_key(state: &CallState, target: &DatabaseTarget) -> Option<PoolKey> {
    let connection = state.connection.as_ref()?;
    Some(PoolKey::new(state.mount(), &connection.name, connection.generation, target))
}

async fn within_time<T>(
    state: &mut CallState,
    work: impl Future<Output = Result<T, SqlFailure>>,
) -> Result<T, SqlFailure> {
    let time = limits::EFFECT_TIME.min(state.context.left());
    // The library panics on a server's message that is too short. The server is at fault, and only
    // this session ends.
    let work = AssertUnwindSafe(work).catch_unwind();
    match tokio::time::timeout(time, work).await {
        Ok(Ok(done)) => done,
        Ok(Err(_)) => Err(failed("unreachable", "the server violates the protocol")),
        Err(_) => Err(failed("timed-out", "the database took too long")),
    }
}

/// Runs a change. The remaining time is checked after dialling, which may take long.
async fn change(
    state: &mut CallState,
    work: impl Future<Output = Result<(), SqlFailure>> + Send + 'static,
) -> Result<(), SqlFailure> {
    effect::run(&state.context, work).await.unwrap_or_else(|unheard| {
        Err(match unheard {
            EffectFailure::NoTime => {
                failed("timed-out", "too little time is left in this call to begin a change")
            }
            EffectFailure::TimedOut => failed("timed-out", "the database took too long"),
            EffectFailure::NotBegun => failed("unreachable", "the change was not begun"),
            EffectFailure::NoAnswer => {
                failed("unreachable", "the database's answer to a change was lost")
            }
        })
    })
}

/// Logs a failure for the operator and scrubs the failure for the plugin.
fn report<T>(
    state: &mut CallState,
    target: &DatabaseTarget,
    done: Result<T, SqlFailure>,
) -> Result<T, contract::Failure> {
    state.note_target(TargetInterface::Sql, done.is_ok());
    done.map_err(|mut failure| {
        if failure.code == "unreachable"
            && let Some(key) = pool_key(state, target)
        {
            state.resources.pools.close_failed_pool(&key);
        }
        let shown = state.scrub_for_caller(&failure.message);
        let said = std::mem::replace(&mut failure.message, shown);
        if failure.code == NOT_GRANTED {
            state.refused_grant = Some(failure.message.clone());
        }
        let mut pairs = vec![
            (
                "connection".to_owned(),
                state.connection.as_ref().map(|key| key.name.clone()).unwrap_or_default(),
            ),
            ("target".to_owned(), state.scrub(&endpoint_names(target))),
            ("cause".to_owned(), failure.code.clone()),
            ("sqlstate".to_owned(), failure.sqlstate.clone().unwrap_or_default()),
        ];
        // The server's message repeats the data of the request, and so does the refusal of a
        // setting.
        if failure.sqlstate.is_none() && failure.code != "invalid-request" {
            pairs.push(("detail".to_owned(), state.scrub(&said)));
        }
        state.context.services.log(LogLevel::Warn, &state.plugin, "sql-failed", &pairs);
        failure.into()
    })
}

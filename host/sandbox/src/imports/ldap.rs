//! The `ldap` import: grant, vetted address, session, and changes as effects.
//!
//! This file prevents a component from reaching a directory that the mount was not granted, and a
//! directory's password from leaving in a text. The grants of all servers of a target are checked
//! before the first dial, and every password becomes a secret of the call before anything can fail.

mod types;

use crate::bindings::secrets_engine::bulkhead::plugin::ldap as contract;
use crate::call_tree::SideEffect;
use crate::effect::{self, EffectFailure};
use crate::grants::Act;
use crate::limits;
use crate::state::CallState;
use crate::target_calls::TargetInterface;
use bulkhead_outbound::addresses::{AllowedAddresses, LdapServer};
use bulkhead_outbound::connections::ConnectionPermit;
use bulkhead_outbound::ldap::{
    AttributeChange, DirectoryTarget, LdapFailure, LdapLogin, LdapPoolKey, LdapSession,
    MountLogins, check_changes, check_dn, failed, parse_server, prepare, secrets,
};
use bulkhead_wire::log_level::LogLevel;
use contract::Host;
use std::future::Future;
use std::sync::Arc;
use tokio::task::JoinSet;
use tokio::time::timeout;

/// Failure code of an act that a grant would allow.
const NOT_GRANTED: &str = "permission-denied";

impl Host for CallState {
    async fn bind(
        &mut self,
        target: contract::Target,
    ) -> wasmtime::Result<Result<(), contract::Failure>> {
        let (target, servers) = check_servers(self, target, &[])?;
        let done = async {
            let login = LdapLogin::new(&target, servers?, &self.resources.tls)?;
            let connection = acquire_connection(self).await?;
            self.begin_exchange(|| target.urls.join(","));
            let mount_logins = logins(self);
            let opened =
                run_detached(self, async move { LdapSession::open(&login, &mount_logins).await })
                    .await;
            drop(connection);
            opened.map(drop)
        };
        let done = done.await;
        Ok(report(self, &target, done))
    }

    async fn search(
        &mut self,
        target: contract::Target,
        query: contract::Query,
    ) -> wasmtime::Result<Result<Vec<contract::Entry>, contract::Failure>> {
        let (target, servers) = check_servers(self, target, &[])?;
        let done = match prepare(query.into()) {
            Ok(prepared) => {
                with_session(self, &target, servers, async |state, mut session| {
                    let work = async move {
                        let found = session.search(&prepared).await;
                        found.map(|found| (session, found))
                    };
                    run_detached(state, work).await
                })
                .await
            }
            Err(failure) => Err(failure),
        };
        let found = report(self, &target, done);
        Ok(found.map(|found| found.into_iter().map(contract::Entry::from).collect()))
    }

    async fn modify(
        &mut self,
        target: contract::Target,
        dn: String,
        changes: Vec<contract::Change>,
    ) -> wasmtime::Result<Result<(), contract::Failure>> {
        let (target, servers, changes) = check_change(self, target, changes)?;
        let new = secrets(&changes);
        let done = match check_dn(&dn).and_then(|()| check_changes(&changes)) {
            Ok(()) => {
                with_session(self, &target, servers, async |state, mut session| {
                    logins(state).forget_passwords(&dn, &new);
                    change(state, async move {
                        let done = session.modify(&dn, changes).await;
                        (session, done)
                    })
                    .await
                })
                .await
            }
            Err(failure) => Err(failure),
        };
        Ok(report(self, &target, done))
    }

    async fn change_password(
        &mut self,
        target: contract::Target,
        dn: String,
        current: Option<String>,
        new: String,
    ) -> wasmtime::Result<Result<(), contract::Failure>> {
        let (target, servers) = check_servers(self, target, &passwords(current.as_deref(), &new))?;
        let done = match check_dn(&dn).and_then(|()| check_password(&new)) {
            Ok(()) => {
                with_session(self, &target, servers, async |state, mut session| {
                    logins(state).forget_passwords(&dn, std::slice::from_ref(&new));
                    change(state, async move {
                        let done = session.change_password(&dn, current.as_deref(), &new).await;
                        (session, done)
                    })
                    .await
                })
                .await
            }
            Err(failure) => Err(failure),
        };
        Ok(report(self, &target, done))
    }

    fn close(&mut self, target: contract::Target) -> wasmtime::Result<()> {
        self.require_grant(&Act::Close)?;
        let target = DirectoryTarget::from(target);
        self.resources.directories.close(&LdapPoolKey::new(self.mount(), &target));
        logins(self).forget(&target.bind_dn);
        Ok(())
    }
}

/// Returns the known logins of the mount.
fn logins(state: &CallState) -> MountLogins {
    state.resources.directories.logins(state.mount())
}

type GrantedServers = Result<Vec<(LdapServer, AllowedAddresses)>, LdapFailure>;

/// Counts the host call, adds its secrets to the call's secrets, and checks the grant of every
/// server.
fn check_servers(
    state: &mut CallState,
    target: contract::Target,
    values: &[String],
) -> wasmtime::Result<(DirectoryTarget, GrantedServers)> {
    state.enter_target(TargetInterface::Ldap)?;
    let target = DirectoryTarget::from(target);
    let secrets = [Some(&target.password), target.tls.client_key.as_ref()];
    for secret in secrets.into_iter().flatten().chain(values) {
        state.charge(secret.len())?;
        state.context.tree.secrets.add(secret);
    }
    if target.urls.len() > limits::LDAP_SERVERS {
        return Ok((target, Err(failed("invalid-request", "a target has at most 16 URLs"))));
    }
    let (grants, own) = (&state.context.grants, &state.resources.own_addresses);
    let reach = |url: &String| {
        let server = parse_server(url)?;
        let reach = grants.reach_of_directory(&server, own);
        let reach = reach.map_err(|refused| failed(NOT_GRANTED, refused.message))?;
        Ok((server, reach))
    };
    let servers = target.urls.iter().map(reach).collect();
    Ok((target, servers))
}

/// Checks the grants for changes of an entry, as [`check_servers`].
fn check_change(
    state: &mut CallState,
    target: contract::Target,
    changes: Vec<contract::Change>,
) -> wasmtime::Result<(DirectoryTarget, GrantedServers, Vec<AttributeChange>)> {
    let changes: Vec<_> = changes.into_iter().map(AttributeChange::from).collect();
    let (target, servers) = check_servers(state, target, &secrets(&changes))?;
    Ok((target, servers, changes))
}

/// Runs `work` with an idle or fresh session that is logged in as the target. The work returns the
/// session if the session's last request was answered.
async fn with_session<T>(
    state: &mut CallState,
    target: &DirectoryTarget,
    servers: GrantedServers,
    work: impl AsyncFnOnce(&mut CallState, LdapSession) -> Result<(LdapSession, T), LdapFailure>,
) -> Result<T, LdapFailure> {
    let login = LdapLogin::new(target, servers?, &state.resources.tls)?;
    let connection = acquire_connection(state).await?;
    state.begin_exchange(|| target.urls.join(","));
    let key = LdapPoolKey::new(state.mount(), target);
    let (idle, lent) = state.resources.directories.take(&key, login.reaches());
    let mount_logins = logins(state);
    let session = run_detached(state, async move {
        if let Some(mut session) = idle
            && session.is_alive().await
        {
            return Ok(session);
        }
        LdapSession::open(&login, &mount_logins).await
    });
    let session = session.await?;
    let (session, done) = work(state, session).await?;
    state.resources.directories.put_back(key, session, &lent);
    drop(connection);
    Ok(done)
}

/// Waits for a connection within the limits of the mount and the process, until the call's deadline
/// at the latest.
async fn acquire_connection(state: &mut CallState) -> Result<ConnectionPermit, LdapFailure> {
    let patience = limits::CONNECTION_WAIT_TIMEOUT.min(state.context.left());
    let compartment = Arc::clone(&state.context.compartment);
    let all = Arc::clone(&state.resources.process.connections);
    let acquired = timeout(patience, compartment.acquire_connection(all)).await.ok().flatten();
    acquired.ok_or_else(|| failed("timed-out", "all connections of the mount are in use"))
}

/// Runs work without changes in a separate task, because TLS and LDAP need more stack than a call
/// has. The task ends with the call.
async fn run_detached<T: Send + 'static>(
    state: &mut CallState,
    work: impl Future<Output = Result<T, LdapFailure>> + Send + 'static,
) -> Result<T, LdapFailure> {
    state.context.tree.mark_effect(SideEffect::Safe);
    let mut tasks = JoinSet::new();
    tasks.spawn(work);
    match timeout(limits::EFFECT_TIME.min(state.context.left()), tasks.join_next()).await {
        Ok(Some(Ok(done))) => done,
        Ok(_) => Err(failed("unreachable", "the session broke")),
        Err(_) => Err(failed("timed-out", "the directory took too long")),
    }
}

/// Runs a change. The remaining time is checked after dialling, which may take long. A session
/// without an answer is not used again.
async fn change(
    state: &mut CallState,
    work: impl Future<Output = (LdapSession, Result<(), LdapFailure>)> + Send + 'static,
) -> Result<(LdapSession, ()), LdapFailure> {
    let unheard = |code: &str, message: &str| LdapFailure {
        may_have_happened: true,
        ..failed(code, message)
    };
    match effect::run(&state.context, work).await {
        Ok((session, done)) => done.map(|()| (session, ())),
        Err(EffectFailure::NoTime) => {
            Err(failed("timed-out", "too little time is left in this call to begin a change"))
        }
        Err(EffectFailure::NotBegun) => Err(failed("unreachable", "the change was not begun")),
        Err(EffectFailure::TimedOut) => Err(unheard("timed-out", "the directory took too long")),
        Err(EffectFailure::NoAnswer) => {
            Err(unheard("unreachable", "the directory's answer to a change was lost"))
        }
    }
}

/// Refuses an empty new password: the server would choose a password and return it (RFC 3062).
fn check_password(new: &str) -> Result<(), LdapFailure> {
    if new.is_empty() {
        return Err(failed("invalid-request", "the new password is empty"));
    }
    Ok(())
}

/// Logs a failure for the operator and scrubs the failure for the component.
fn report<T>(
    state: &mut CallState,
    target: &DirectoryTarget,
    done: Result<T, LdapFailure>,
) -> Result<T, contract::Failure> {
    state.note_target(TargetInterface::Ldap, done.is_ok());
    done.map_err(|mut failure| {
        let shown = state.scrub_for_caller(&failure.message);
        let said = std::mem::replace(&mut failure.message, shown);
        let result = failure.result_code.map(|code| code.to_string());
        let mut pairs = vec![
            ("target".to_owned(), state.scrub(&target.urls.join(","))),
            ("cause".to_owned(), failure.code.clone()),
            ("result".to_owned(), result.unwrap_or_default()),
        ];
        // The server's message may repeat the data of the request.
        if failure.result_code.is_none() {
            pairs.push(("detail".to_owned(), state.scrub(&said)));
        }
        state.context.services.log(LogLevel::Warn, &state.plugin, "ldap-failed", &pairs);
        failure.into()
    })
}

/// Returns the two passwords of a change, which are secrets of the call.
fn passwords(current: Option<&str>, new: &str) -> [String; 2] {
    [current.unwrap_or_default().to_owned(), new.to_owned()]
}

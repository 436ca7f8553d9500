//! The `ldap` import: grant, vetted address, session, and changes as effects.
//!
//! Prevents a component from reaching a directory that the mount was not granted, and a directory's
//! password from leaving in a text. The grants of all servers of a target are checked before the
//! first dial, and every password becomes a secret of the call before anything can fail.

use crate::bindings::secrets_engine::bulkhead::plugin::ldap::{
    Change, Entry, Failure, Host, Query, Target,
};
use crate::call_tree::Effect;
use crate::compartment::Connection;
use crate::effect::{self, Unheard};
use crate::grants::{Act, LdapServer, Reach};
use crate::host_services::Level;
use crate::ldap::{
    LdapFailure, LdapKey, Login, LoginsOfMount, Session, check_changes, check_dn, failed,
    parse_server, prepare, secrets,
};
use crate::limits;
use crate::state::CallState;
use std::future::Future;
use std::sync::Arc;
use tokio::task::JoinSet;
use tokio::time::timeout;

/// Failure code of an act that a grant would allow.
const NOT_GRANTED: &str = "permission-denied";

impl Host for CallState {
    async fn bind(&mut self, target: Target) -> wasmtime::Result<Result<(), Failure>> {
        let asked = ask(self, &target, &[])?;
        let done = async {
            let login = Login::new(&target, asked?, &self.resources.tls)?;
            let connection = acquire_connection(self).await?;
            let known = logins(self);
            let opened = safely(self, async move { Session::open(&login, &known).await }).await;
            drop(connection);
            opened.map(drop)
        };
        let done = done.await;
        Ok(report(self, &target, done))
    }

    async fn search(
        &mut self,
        target: Target,
        query: Query,
    ) -> wasmtime::Result<Result<Vec<Entry>, Failure>> {
        let asked = ask(self, &target, &[])?;
        let done = match prepare(query) {
            Ok(prepared) => {
                with_session(self, &target, asked, async |state, mut session| {
                    let work = async move {
                        let found = session.search(&prepared).await;
                        found.map(|found| (session, found))
                    };
                    safely(state, work).await
                })
                .await
            }
            Err(failure) => Err(failure),
        };
        Ok(report(self, &target, done))
    }

    async fn modify(
        &mut self,
        target: Target,
        dn: String,
        changes: Vec<Change>,
    ) -> wasmtime::Result<Result<(), Failure>> {
        let asked = ask(self, &target, &secrets(&changes))?;
        let new = secrets(&changes);
        let done = match check_dn(&dn).and_then(|()| check_changes(&changes)) {
            Ok(()) => {
                with_session(self, &target, asked, async |state, mut session| {
                    logins(state).changed(&dn, &new);
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
        target: Target,
        dn: String,
        current: Option<String>,
        new: String,
    ) -> wasmtime::Result<Result<(), Failure>> {
        let asked = ask(self, &target, &[current.clone().unwrap_or_default(), new.clone()])?;
        let done = match check_dn(&dn).and_then(|()| check_password(&new)) {
            Ok(()) => {
                with_session(self, &target, asked, async |state, mut session| {
                    logins(state).changed(&dn, std::slice::from_ref(&new));
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

    fn close(&mut self, target: Target) -> wasmtime::Result<()> {
        self.demand(&Act::Close)?;
        self.resources.directories.close(&LdapKey::new(self.mount(), &target));
        logins(self).forget(&target.bind_dn);
        Ok(())
    }
}

/// Returns the known logins of the mount.
fn logins(state: &CallState) -> LoginsOfMount {
    state.resources.directories.logins(state.mount())
}

type Asked = Result<Vec<(LdapServer, Reach)>, LdapFailure>;

/// Counts the host call, adds its secrets to the call's secrets, and checks the grant of every
/// server.
fn ask(state: &mut CallState, target: &Target, values: &[String]) -> wasmtime::Result<Asked> {
    state.enter()?;
    let secrets = [Some(&target.password), target.tls.client_key.as_ref()];
    for secret in secrets.into_iter().flatten().chain(values) {
        state.charge(secret.len())?;
        state.context.tree.secrets.add(secret);
    }
    if target.urls.len() > limits::LDAP_SERVERS {
        return Ok(Err(failed("invalid-request", "a target has at most 16 URLs")));
    }
    let (grants, own) = (&state.context.grants, &state.resources.own_addresses);
    let reach = |url: &String| {
        let server = parse_server(url)?;
        let reach = grants.reach_of_directory(&server, own);
        let reach = reach.map_err(|refused| failed(NOT_GRANTED, refused.message))?;
        Ok((server, reach))
    };
    Ok(target.urls.iter().map(reach).collect())
}

/// Runs `work` with an idle or fresh session that is logged in as the target. The work returns the
/// session if the session's last request was answered.
async fn with_session<T>(
    state: &mut CallState,
    target: &Target,
    asked: Asked,
    work: impl AsyncFnOnce(&mut CallState, Session) -> Result<(Session, T), LdapFailure>,
) -> Result<T, LdapFailure> {
    let login = Login::new(target, asked?, &state.resources.tls)?;
    let connection = acquire_connection(state).await?;
    let key = LdapKey::new(state.mount(), target);
    let (idle, lent) = state.resources.directories.take(&key, login.reaches());
    let known = logins(state);
    let session = safely(state, async move {
        if let Some(mut session) = idle
            && session.lives().await
        {
            return Ok(session);
        }
        Session::open(&login, &known).await
    });
    let session = session.await?;
    let (session, done) = work(state, session).await?;
    state.resources.directories.put_back(key, session, &lent);
    drop(connection);
    Ok(done)
}

/// Waits for a connection within the limits of the mount and the process, until the call's deadline
/// at the latest.
async fn acquire_connection(state: &mut CallState) -> Result<Connection, LdapFailure> {
    let patience = limits::CONNECTION_PATIENCE.min(state.context.left());
    let compartment = Arc::clone(&state.context.compartment);
    let all = Arc::clone(&state.resources.process.connections);
    let acquired = timeout(patience, compartment.acquire_connection(all)).await.ok().flatten();
    acquired
        .ok_or_else(|| failed("timed-out", "all connections that the mount may have are in use"))
}

/// Runs work without changes in a separate task, because TLS and LDAP need more stack than a call
/// has. The task ends with the call.
async fn safely<T: Send + 'static>(
    state: &mut CallState,
    work: impl Future<Output = Result<T, LdapFailure>> + Send + 'static,
) -> Result<T, LdapFailure> {
    state.context.tree.mark(Effect::Safe);
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
    work: impl Future<Output = (Session, Result<(), LdapFailure>)> + Send + 'static,
) -> Result<(Session, ()), LdapFailure> {
    let unheard = |code: &str, message: &str| LdapFailure {
        may_have_happened: true,
        ..failed(code, message)
    };
    match effect::run(&state.context, work).await {
        Ok((session, done)) => done.map(|()| (session, ())),
        Err(Unheard::NoTime) => {
            Err(failed("timed-out", "too little time is left in this call to begin a change"))
        }
        Err(Unheard::NotBegun) => Err(failed("unreachable", "the change was not begun")),
        Err(Unheard::TimedOut) => Err(unheard("timed-out", "the directory took too long")),
        Err(Unheard::NoAnswer) => {
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
    target: &Target,
    done: Result<T, LdapFailure>,
) -> Result<T, LdapFailure> {
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
        state.context.services.log(Level::Warn, &state.plugin.title(), "ldap-failed", &pairs);
        failure
    })
}

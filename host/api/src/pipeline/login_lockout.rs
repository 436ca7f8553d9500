//! Lockout: refuses logins for locked names, both before and after their proof.
//!
//! Costs a successful login nothing while no login at the mount has failed lately. Otherwise the
//! component first tells the name of the login, and a locked name is refused without a proof. If a
//! name is locked during a login of the name, the login gets the same refusal whether the proof
//! holds or not, so that no answer tells a right guess from a wrong guess.

use super::permitted_request::PermittedRequest;
use bulkhead_access::lockouts::{FailureEffect, LockoutPolicy, LoginName};
use bulkhead_access::log::cause;
use bulkhead_core::host_services::CallServices;
use bulkhead_core::mounts::Mount;
use bulkhead_sandbox::contract::{self, AnswerPayload, ComponentAnswer};
use bulkhead_sandbox::{CallScope, CallTree, HostServices, MountablePlugin};
use bulkhead_wire::client::Client;
use bulkhead_wire::duration;
use bulkhead_wire::failure::{Failure, FailureKind};
use bulkhead_wire::log_level::LogLevel;
use std::sync::Arc;

/// Pause for a client that locked too many names, in milliseconds.
const RETRY_AFTER: u64 = 60_000;

/// A login on its way to a component.
pub(super) struct LoginAttempt<'a> {
    permitted: &'a PermittedRequest<'a>,
    mount: &'a Arc<Mount>,
    policy: LockoutPolicy,
    /// The engine, for asking the component for the name of the login.
    engine: &'a MountablePlugin,
    scope: CallScope,
}

impl<'a> LoginAttempt<'a> {
    /// Returns the attempt if the request is a login and its mount locks names.
    pub(super) fn of(
        permitted: &'a PermittedRequest<'a>,
        mount: &'a Arc<Mount>,
        engine: &'a MountablePlugin,
        scope: &CallScope,
    ) -> Option<Self> {
        let policy = mount.record.settings.user_lockout.unwrap_or_default();
        let is_counted = permitted.route.login && !policy.is_disabled;
        is_counted.then(|| Self { permitted, mount, policy, engine, scope: scope.clone() })
    }

    /// Refuses a locked name, and a name without a free counter, before any proof.
    ///
    /// # Errors
    /// 403; 429 if the client has locked as many names as it may; 503 if the locks of other nodes
    /// cannot be read.
    pub(super) async fn refuse_locked(&self, call: &contract::Call) -> Result<(), Failure> {
        let core = self.permitted.core;
        core.lockouts.follow(&core.store).await?;
        if !core.lockouts.is_asked(&self.mount.record.uuid, self.client(), core.store.now()) {
            return Ok(());
        }
        match self.alias(call).await {
            Some(alias) if self.is_locked(&alias) => Err(self.locked_failure()),
            Some(alias) if !core.lockouts.would_count(self.login_name(&alias)) => {
                Err(too_many_names())
            }
            _ => Ok(()),
        }
    }

    fn client(&self) -> Client {
        Client::of(self.permitted.request.remote)
    }

    fn login_name<'n>(&'n self, name: &'n str) -> LoginName<'n> {
        LoginName { mount: &self.mount.record.uuid, name, client: self.client() }
    }

    /// Counts a failed login against the name; a successful login resets the count. Returns the
    /// component's answer, or a refusal if the name was locked meanwhile.
    ///
    /// # Errors
    /// The component's failure; 403; 503 if the locks of other nodes cannot be read.
    pub(super) async fn count_result(
        &self,
        call: &contract::Call,
        answered: Result<ComponentAnswer, Failure>,
    ) -> Result<ComponentAnswer, Failure> {
        let is_refusal = |failure: &Failure| {
            matches!(failure.kind, FailureKind::InvalidRequest | FailureKind::PermissionDenied)
        };
        match answered {
            Ok(answer) => self.admit(answer).await,
            Err(failure) if is_refusal(&failure) => match self.alias(call).await {
                Some(alias) => Err(self.count(&alias, failure).await),
                None => Err(failure),
            },
            Err(failure) => Err(failure),
        }
    }

    async fn admit(&self, answer: ComponentAnswer) -> Result<ComponentAnswer, Failure> {
        let alias = match &answer.outcome {
            AnswerPayload::Login(login) => login.alias.as_ref().map(|alias| alias.name.as_str()),
            _ => None,
        };
        let Some(alias) = alias else { return Ok(answer) };
        self.permitted.core.lockouts.follow(&self.permitted.core.store).await?;
        if self.is_locked(alias) {
            return Err(self.locked_failure());
        }
        self.permitted.core.lockouts.forget(&self.mount.record.uuid, alias);
        Ok(answer)
    }

    async fn count(&self, alias: &str, failure: Failure) -> Failure {
        let core = self.permitted.core;
        match core.lockouts.count(self.login_name(alias), self.policy, core.store.now()) {
            FailureEffect::Noted => failure,
            FailureEffect::WasLocked => self.locked_failure(),
            FailureEffect::NoRoom => {
                self.warn("failure-not-counted", &[]);
                failure
            }
            FailureEffect::NowLocked => {
                let pairs = [
                    ("failures", self.policy.threshold.to_string()),
                    ("seconds", self.policy.duration.to_string()),
                ];
                self.warn("name-locked", &pairs);
                if let Err(why) = core.lockouts.share(&core.store, self.login_name(alias)).await {
                    // The name is locked at this node.
                    self.warn("lock-not-shared", &[cause(&why)]);
                }
                failure
            }
        }
    }

    /// Logs without the name, because users type passwords into that field.
    fn warn(&self, event: &str, more: &[(&str, String)]) {
        let mount = ("mount", self.mount.record.path.to_string());
        let remote = ("remote", self.permitted.request.remote.to_string());
        let pairs: Vec<(&str, String)> =
            [mount, remote].into_iter().chain(more.iter().cloned()).collect();
        self.permitted.core.log.line(LogLevel::Warn, event, &pairs);
    }

    /// Returns the refusal of a locked name: the same for every name and every proof, and without
    /// the advice to log in.
    fn locked_failure(&self) -> Failure {
        let time = duration::show(self.policy.duration);
        Failure::denied(format!(
            "this name is locked after too many failed logins: the lock ends {time} after the last \
             failure, or when an operator unlocks the name at sys/locked-users"
        ))
        .recordable()
    }

    fn is_locked(&self, alias: &str) -> bool {
        let core = self.permitted.core;
        core.lockouts.is_locked(&self.mount.record.uuid, alias, core.store.now())
    }

    /// Asks the component for the name of the login, in a unit that is never committed. A component
    /// without an answer locks no name.
    async fn alias(&self, call: &contract::Call) -> Option<String> {
        let core = self.permitted.core;
        let services = CallServices::new(core, self.mount, None, "");
        let tree: Arc<CallTree> = self.permitted.call_tree();
        let scope = CallScope {
            services: Arc::clone(&services) as Arc<dyn HostServices>,
            tree,
            ..self.scope.clone()
        };
        let done = self.engine.alias_lookahead(scope, core.store.begin(), call).await;
        services.release_guards().await;
        done.result.ok().flatten().filter(|alias| !alias.is_empty())
    }
}

fn too_many_names() -> Failure {
    let message = "logins with too many names failed from your address, and further names are \
                   refused at present; wait, or log in from another address";
    Failure { retry_after: Some(RETRY_AFTER), ..Failure::new(FailureKind::RateLimited, message) }
}

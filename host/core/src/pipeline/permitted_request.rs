//! Serving a permitted request: by the host, by a listing, or by entering a component.

use super::destination::unmounted;
use super::{PermittedRequest, answer, object_text, operation};
use crate::api::{self, Endpoint, HostCall};
use crate::core::Core;
use crate::guards;
use crate::host_services::{CallServices, Path};
use crate::leases;
use crate::mounts::{Inside, Mount};
use crate::paging::Paging;
use crate::tokens;
use bulkhead_sandbox::{
    CallTree, Effect, HostServices, Limits, Priority, Scope, SlotRequest, contract,
};
use bulkhead_store::{Space, Unit};
use bulkhead_wire::failure::{Failure, Kind};
use bulkhead_wire::fields;
use bulkhead_wire::response::Response;
use serde_json::{Map, Value, json};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

impl PermittedRequest<'_> {
    /// An endpoint of the host.
    pub(super) async fn host(
        self,
        endpoint: Endpoint,
        mut unit: Unit,
        effect: &mut Effect,
    ) -> Result<Response, Failure> {
        if api::reaches_outside(self.core, endpoint) {
            // Whatever conflict it meets, it is for the caller to try again.
            *effect = Effect::Effect;
        }
        let caller = tokens::assert_valid(&self.core.store, &mut unit, self.caller).await?;
        let capabilities = self.permit.capabilities();
        let call = HostCall {
            request: self.request,
            caller: &caller,
            values: &self.folded.values,
            capabilities,
        };
        let reply = api::serve(self.core, endpoint, &mut unit, &call).await?;
        let committed = unit.commit().await;
        if committed.is_ok() || matches!(reply.then, api::Then::PoliciesChanged) {
            // Of a commit that failed nobody knows whether it is stored: what was parsed before is
            // forgotten too.
            api::after_commit(self.core, reply.then).await?;
        }
        committed?;
        Ok(answer::of_host(&self, reply.body, reply.warnings))
    }

    /// Names below a prefix, paged by the host without running plugin code.
    pub(super) async fn list(
        self,
        mount: &Arc<Mount>,
        mut unit: Unit,
    ) -> Result<Response, Failure> {
        let _inside = self.enter(mount)?;
        self.count(mount)?;
        let prefix = self.route.list.as_deref().unwrap_or_default();
        let prefix = bulkhead_wire::route::fill(prefix, &self.destination.captures);
        let keys =
            names(&mut unit, &format!("{}/{prefix}", mount.record.uuid), &self.request.fields)
                .await?;
        unit.commit().await?;
        if keys.is_empty() {
            return Err(Failure::absent());
        }
        let mut data = Map::new();
        data.insert("keys".to_owned(), json!(keys));
        Ok(answer::data(&self.request.id, mount, data, Vec::new()))
    }

    /// A row of the component's table: one call, in an instance of its own or one that is lent.
    pub(super) async fn component(
        self,
        mount: &Arc<Mount>,
        unit: Unit,
        effect: &mut Effect,
    ) -> Result<Response, Failure> {
        if self.route.leases {
            self.caller.may_hold_leases()?;
        }
        let _inside = self.enter(mount)?;
        self.count(mount)?;
        let pass = mount.may_call()?;
        let time = self.time(mount);
        let deadline = Instant::now() + time;
        let ends = self
            .core
            .store
            .now()
            .saturating_add(u64::try_from(time.as_millis()).unwrap_or(u64::MAX));
        let slots = if self.route.nested { 2 } else { 1 };
        let wanted = SlotRequest {
            compartment: &mount.compartment,
            slots,
            priority: Priority::Foreground,
            deadline,
        };
        let _admission = self.core.sandbox.admit(wanted).await?;
        let services =
            CallServices::new(self.core, mount, self.route.leases.then(|| self.lease_path(ends)));
        let tree = Arc::new(CallTree::default());
        for secret in fields::secrets(&self.route.fields, &self.folded.values) {
            tree.secrets.add(secret);
        }
        let opened = self.core.mounts.open(mount, &self.permit);
        let scope = Scope {
            compartment: opened.compartment,
            grants: opened.grants,
            reuse: opened.reuse,
            deadline,
            slots,
            services: Arc::clone(&services) as Arc<dyn HostServices>,
            tree: Arc::clone(&tree),
        };
        let call = self.call(mount, ends)?;
        let done = opened.plugin.engine.handle(scope, unit, &call).await;
        mount.called(self.core, pass, done.ended);
        *effect = tree.effect();
        let mut reserved = services.reserved();
        let checkpointed = done.unit.checkpoints() > 0;
        let settled = match done.result {
            Ok(answered) => {
                let confirmed = answer::tag(&answered).map(str::to_owned);
                let settled =
                    answer::settle(&self, mount, done.unit, answered, &reserved, ends).await;
                reserved.retain(|one| settled.is_err() || confirmed.as_ref() != Some(&one.tag));
                settled
            }
            Err(failure) => Err(failure),
        };
        if checkpointed && !reserved.is_empty() {
            undo_unconfirmed(self.core, &reserved).await;
        }
        guards::release(self.core, services.guards()).await;
        settled
    }

    /// Keeps the mount from being removed or moved while the request runs. One that was removed or
    /// moved after the request found it is not there.
    fn enter(&self, mount: &Mount) -> Result<Inside, Failure> {
        mount.enter().ok_or_else(|| unmounted(&self.request.path))
    }

    /// Counts the request against the rate of its mount: once, however often it runs.
    fn count(&self, mount: &Mount) -> Result<(), Failure> {
        if self.is_first { within_rate(mount) } else { Ok(()) }
    }

    /// How long the call may take: what its route or else the server says, where the mount's limit
    /// is not shorter.
    fn time(&self, mount: &Mount) -> Duration {
        let usual = self.core.process.settings.request_timeout;
        let time =
            if self.route.deadline == 0 { usual } else { Duration::from_secs(self.route.deadline) };
        // A route's table is its author's word, and may say any number.
        [mount.compartment.limits().deadline, Limits::CEILING.deadline]
            .into_iter()
            .flatten()
            .fold(time, Duration::min)
    }

    fn lease_path(&self, deadline: u64) -> Path {
        Path { path: self.request.path.clone(), caller: self.caller.clone(), deadline }
    }

    fn call(&self, mount: &Mount, deadline: u64) -> Result<contract::Call, Failure> {
        let now = self.core.store.now() / 1000;
        Ok(contract::Call {
            id: self.request.id.clone(),
            operation: operation(self.request.verb, self.creates).word().to_owned(),
            route: self.route.path.clone(),
            captures: self.destination.captures.clone(),
            fields: object_text(&self.folded.values)?,
            resumed: false,
            deadline,
            caller: self.caller_seen(mount),
            mount: mount.seen(self.core.lifetimes, self.caller.record.left(now)),
            ext: Vec::new(),
        })
    }

    /// The caller as the plugin sees it. Its id stands for the token on this mount and nowhere
    /// else.
    fn caller_seen(&self, mount: &Mount) -> contract::Caller {
        let named = format!("{} {}", mount.record.uuid, self.caller.hash);
        contract::Caller {
            entity: String::new(),
            display_name: self.caller.record.display_name.clone(),
            id: self.core.store.keyed_hash("caller", named.as_bytes()),
            capabilities: self.permit.capabilities().to_vec(),
            remote_address: self.request.remote.to_string(),
        }
    }
}

/// Refuses a request of a mount that has had as many as it may.
fn within_rate(mount: &Mount) -> Result<(), Failure> {
    mount.compartment.count_request(Instant::now()).map_err(|wait| {
        let (path, rate) =
            (&mount.record.path, mount.compartment.limits().rate.unwrap_or_default());
        let message = format!(
            "mount {path} takes {rate} requests a second and has had them; try again later"
        );
        let retry_after = u64::try_from(wait.as_millis()).ok();
        Failure { retry_after, ..Failure::new(Kind::RateLimited, message) }
    })
}

/// What a call reserved and did not confirm is undone by due work; a confirmed reservation is gone
/// already.
async fn undo_unconfirmed(core: &Core, reserved: &[leases::Reserved]) {
    if let Err(failure) = leases::undo(&core.store, reserved).await {
        // Nothing is lost: the reservation is due by itself, a minute after its call's deadline.
        core.log.line("warn", "undo-delayed", &[("cause", failure.message)]);
    }
}

/// Names below `prefix`: all, or as `after` and `limit` of the query say.
async fn names(
    unit: &mut Unit,
    prefix: &str,
    query: &Map<String, Value>,
) -> Result<Vec<String>, Failure> {
    let Paging { after, limit } = Paging::of(query)?;
    Ok(unit.names(Space::Data, prefix, &after, limit).await?)
}

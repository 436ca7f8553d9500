//! Test bed: runs an engine natively against a host in memory, for unit tests and the tutorial.
//!
//! A request passes through the same route table and field handling as in the real host. Writes are
//! committed only if the call succeeds or makes a checkpoint, and the engine's own `revoke` undoes
//! every reservation that the answer does not confirm. Guards that a call leaves wait for
//! [`TestBed::run_guards`]. Reservations, checkpoints and effects are recorded in order (see
//! [`TestHost::steps`]), and a test can make each of them fail or be the last before the process
//! dies ([`TestHost::die_after`]).
//!
//! A call that exceeds a limit of its component, such as the number of HTTP requests, is stopped as
//! by the real host ([`TestHost::set_limits`]). The test bed checks neither policies nor tokens:
//! the host does, out of sight of engines.

mod ambient;
mod auth;
mod cache;
mod crypto;
mod databases;
mod directory;
mod host;
mod http;
mod identity;
mod lease_book;
mod leases;
mod metrics;
mod migration;
mod passwords;
mod plugin_versions;
mod raw;
mod records;
mod script;
mod seal;
mod timers;

pub use auth::AuthBed;
pub use databases::{User, plugin};
pub use directory::{Flavour, TestDirectory};
pub use host::TestHost;
pub use seal::SealTestHost;

use crate::answer::{Answer, Outcome};
use crate::call::{Call, Caller, Context, Mount};
use crate::database_plugin::StoreTime;
use crate::engine::{Lease, RevocationReason, SecretsEngine};
use crate::host::Host;
use crate::login::Login;
use crate::mounted_plugin::MountedPlugin;
use bulkhead_wire::api_version;
use bulkhead_wire::call_limits::CallLimits;
use bulkhead_wire::description::{ComponentDescription, Operation, Route, Verb};
use bulkhead_wire::failure::{Failure, FailureKind};
use bulkhead_wire::fields;
use bulkhead_wire::route::{RouteMatch, RouteTable, fill_pattern};
use serde_json::{Map, Value, json};
use std::marker::PhantomData;

/// Maximum number of keys in a listing.
const PAGE: u32 = 1_000;
/// Time of a call, in milliseconds.
const TIME: u64 = 90_000;

/// Revokes a lease of the mounted plugin.
type Revocation = fn(&dyn Host, &Context, &Lease, RevocationReason) -> Result<(), Failure>;

/// A plugin mounted in a host in memory: an engine, or the auth method of an [`AuthBed`].
pub struct TestBed<P> {
    /// The host: clock, storage, lease book, databases and the rest.
    pub host: TestHost,
    /// The caller of requests.
    pub caller: Caller,
    /// The mount, named after the plugin. Default TTL 1 hour and maximum TTL 32 days, unless a test
    /// changes them.
    pub mount: Mount,
    description: ComponentDescription,
    revocation: Revocation,
    plugin: PhantomData<P>,
}

/// The answer that a caller would receive. No `Debug`: may contain a secret.
#[derive(Clone, Default, PartialEq)]
pub struct Reply {
    /// The envelope's `data`; empty for 204.
    pub data: Map<String, Value>,
    /// Warnings of the engine, and the host's warnings about unknown fields.
    pub warnings: Vec<String>,
    /// Tag of the confirmed lease, for [`TestBed::renew`] and [`TestBed::revoke`].
    pub lease: Option<String>,
    /// Requested lifetime of the lease, in seconds.
    pub ttl: u64,
    /// Maximum lifetime over all renewals, in seconds.
    pub max_ttl: u64,
    /// The login that the host would turn into a token.
    pub login: Option<Login>,
    /// True for a 404 with data.
    pub is_absent: bool,
    /// The envelope's `lease_duration` of an answer without a lease.
    pub lease_duration: Option<u64>,
}

impl<E: SecretsEngine> TestBed<E> {
    /// Registers the engine and mounts the engine.
    ///
    /// # Errors
    /// The mistakes in the engine's table.
    pub fn new() -> Result<Self, String> {
        Self::mounted(E::description(), E::revoke)
    }
}

impl<P: MountedPlugin> TestBed<P> {
    /// Registers a plugin and mounts the plugin.
    fn mounted(description: ComponentDescription, revocation: Revocation) -> Result<Self, String> {
        let mount = Mount {
            path: format!("{}/", P::NAME),
            kind: P::NAME.to_owned(),
            default_ttl: 3_600,
            max_ttl: 2_764_800,
            longest_lease: 2_764_800,
            ..Mount::default()
        };
        let caller = Caller { display_name: "token".to_owned(), ..Caller::default() };
        RouteTable::new(description.routes.clone())?;
        let host = TestHost::default();
        host.set_limits(CallLimits::asked(P::ASKS));
        if P::INDEXED {
            host.number_commits();
        }
        Ok(Self { host, caller, mount, description, revocation, plugin: PhantomData })
    }

    /// Sends a GET.
    ///
    /// # Errors
    /// The failure that a caller would receive; an absent object is not found with an empty
    /// message.
    pub fn read(&self, path: &str) -> Result<Reply, Failure> {
        self.request(Verb::Read, path, &json!({}))
    }

    /// Sends a POST.
    ///
    /// # Errors
    /// The failure that a caller would receive.
    pub fn write(&self, path: &str, body: &Value) -> Result<Reply, Failure> {
        self.request(Verb::Write, path, body)
    }

    /// Sends a PATCH.
    ///
    /// # Errors
    /// As [`read`](Self::read).
    pub fn patch(&self, path: &str, body: &Value) -> Result<Reply, Failure> {
        self.request(Verb::Patch, path, body)
    }

    /// Sends a DELETE.
    ///
    /// # Errors
    /// The failure that a caller would receive.
    pub fn delete(&self, path: &str) -> Result<Reply, Failure> {
        self.delete_with(path, &json!({}))
    }

    /// Sends a DELETE with fields.
    ///
    /// # Errors
    /// The failure that a caller would receive.
    pub fn delete_with(&self, path: &str, fields: &Value) -> Result<Reply, Failure> {
        self.request(Verb::Delete, path, fields)
    }

    /// Sends a LIST; `data.keys` are the names.
    ///
    /// # Errors
    /// The failure that a caller would receive; an empty listing is not found.
    pub fn list(&self, path: &str) -> Result<Reply, Failure> {
        self.request(Verb::List, path, &json!({}))
    }

    /// Fires a timer.
    ///
    /// # Errors
    /// The failure of the engine, after which the timer stays; not found if the timer does not
    /// exist.
    pub fn wake(&self, key: &str, attempt: u32) -> Result<(), Failure> {
        let rung = self.host.ringing(key)?;
        let woken = P::wake(&self.host, &self.context(), key, attempt);
        if woken.is_ok() {
            self.host.remove_rung(key, &rung);
        }
        let woken = self.settle(woken);
        if woken.is_err() {
            self.host.count_attempts(key, attempt);
        }
        woken
    }

    /// Wakes the engine once for each guard left by a call, and returns the number of guards.
    ///
    /// # Errors
    /// The failure of the engine; that guard stays, and the guards after it are not woken.
    pub fn run_guards(&self) -> Result<usize, Failure> {
        let left = self.host.left_guards();
        for (key, attempts) in &left {
            self.wake(key, attempts.saturating_add(1))?;
        }
        Ok(left.len())
    }

    /// Fires each timer and guard that is due once, as the host does, and returns the failures of
    /// the engine. A timer whose wake failed stays.
    pub fn ring_due(&self) -> Vec<Failure> {
        let due = self.host.due_timers();
        let woken = due.iter().map(|(key, attempts)| self.wake(key, attempts.saturating_add(1)));
        woken.filter_map(Result::err).collect()
    }

    fn request(&self, verb: Verb, path: &str, body: &Value) -> Result<Reply, Failure> {
        let table = self.table()?;
        let (route, captures) = match table.find(verb, path) {
            RouteMatch::Row { route, captures, .. } => (route, captures),
            RouteMatch::NoPath => {
                return Err(Failure::new(FailureKind::NotFound, format!("no route for {path:?}")));
            }
            RouteMatch::NoVerb => {
                return Err(Failure::new(
                    FailureKind::UnsupportedOperation,
                    format!("not served on {path:?}"),
                ));
            }
        };
        let body = body.as_object().ok_or_else(|| Failure::invalid("a body is an object"))?;
        let mut folded = fields::fold_names(route, body, &captures)?;
        if let Some(prefix) = route.list.as_deref().filter(|_| verb == Verb::List) {
            return self.list_keys(&fill_pattern(prefix, &captures));
        }
        let operation = self.operation(route, &captures)?;
        let creating = operation == Operation::Create;
        folded.drop_blank(route, creating);
        let mut values = folded.values;
        fields::apply_defaults(route, &mut values, creating)?;
        let call = Call { captures, ..self.call(operation, route, values) };
        let mut reply = self.reply(P::handle(&self.host, &call), route.login)?;
        reply.warnings.extend(folded.unknown.iter().map(|name| format!("ignored: {name}")));
        Ok(reply)
    }

    /// Returns the rows for the mount's option `version`, as the host serves them.
    fn table(&self) -> Result<RouteTable, Failure> {
        let option = self.mount.options.iter().find(|(name, _)| name == api_version::OPTION);
        let chosen = self.description.api_version(option.map(|(_, text)| text.as_str()));
        let served = [0, chosen.unwrap_or_default()];
        let routes = self.description.routes.iter();
        let rows = routes.filter(|route| served.contains(&route.api_version)).cloned().collect();
        RouteTable::new(rows).map_err(Failure::internal)
    }

    fn operation(
        &self,
        route: &Route,
        captures: &[(String, String)],
    ) -> Result<Operation, Failure> {
        Ok(match (route.verb, &route.existence) {
            (Verb::Write, Some(key))
                if self.host.storage().get_bytes(&fill_pattern(key, captures))?.is_none() =>
            {
                Operation::Create
            }
            (Verb::Write, _) => Operation::Update,
            (Verb::Read, _) => Operation::Read,
            (Verb::Patch, _) => Operation::Patch,
            (Verb::Delete, _) => Operation::Delete,
            (Verb::List, _) => Operation::List,
        })
    }

    fn call(&self, operation: Operation, route: &Route, values: Map<String, Value>) -> Call {
        Call {
            id: "test".to_owned(),
            operation,
            route: route.path.clone(),
            captures: Vec::new(),
            fields: values,
            deadline: self.deadline(),
            caller: self.caller.clone(),
            mount: self.mount.clone(),
        }
    }

    /// Returns the context of a call that is not a request.
    fn context(&self) -> Context {
        let limits = self.host.limits();
        Context { mount: self.mount.clone(), deadline: self.deadline(), limits }
    }

    fn deadline(&self) -> StoreTime {
        self.host.clock().now().saturating_add(TIME)
    }

    fn list_keys(&self, prefix: &str) -> Result<Reply, Failure> {
        let mut keys = self.host.storage().keys(prefix, "", PAGE)?;
        for key in &mut keys {
            if let Some((folder, _)) = key.split_once('/') {
                *key = format!("{folder}/");
            }
        }
        keys.dedup();
        if keys.is_empty() {
            return Err(Failure::absent());
        }
        let data = Map::from_iter([("keys".to_owned(), json!(keys))]);
        Ok(Reply { data, ..Reply::default() })
    }

    /// Commits the writes of a successful call; drops the writes of a call that failed or died.
    fn settle<T>(&self, outcome: Result<T, Failure>) -> Result<T, Failure> {
        let committed = |done| self.host.check_commit().map(|()| done);
        let outcome = self.host.check_alive().and(outcome).and_then(committed);
        match outcome {
            Ok(_) => drop(self.host.commit()),
            Err(_) => self.host.roll_back(),
        }
        self.host.end_call();
        outcome
    }

    fn reply(&self, served: Result<Answer, Failure>, is_login: bool) -> Result<Reply, Failure> {
        let reply = self.settle(
            self.host.check_alive().and(served).and_then(|answer| self.confirm(answer, is_login)),
        );
        for lease in self.host.unconfirmed_leases() {
            self.undo(&lease);
        }
        reply
    }

    fn confirm(&self, answer: Answer, is_login: bool) -> Result<Reply, Failure> {
        let (warnings, is_absent) = (answer.warnings, answer.is_absent);
        let lease_duration = answer.lease_duration;
        match answer.outcome {
            Outcome::Data(text) => {
                let data = serde_json::from_str(&text)
                    .map_err(|_| Failure::internal("the engine answered no object"))?;
                Ok(Reply { data, warnings, is_absent, lease_duration, ..Reply::default() })
            }
            Outcome::Nothing => Ok(Reply { warnings, ..Reply::default() }),
            Outcome::Raw(_) => {
                Err(Failure::internal("no row of this version of the contract answers raw HTTP"))
            }
            Outcome::Secret(secret) => self.lease_out(secret, warnings),
            Outcome::Login(login) if is_login => {
                let login = Some(login.within_bounds()?);
                Ok(Reply { warnings, login, ..Reply::default() })
            }
            Outcome::Login(_) => {
                Err(Failure::internal("a login was answered on a row that is not marked login"))
            }
        }
    }
}

#[cfg(test)]
mod tests;

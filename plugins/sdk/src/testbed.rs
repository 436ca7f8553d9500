//! Runs an engine natively against a host in memory, for unit tests and the tutorial.
//!
//! A request passes through the same route table, folding and completion as in the real host,
//! writes count only when the call succeeds or checkpoints, and what a failed call reserved is
//! undone by the engine's own `revoke`. What a call left guarded waits for [`TestBed::run_guards`].
//! Every reservation, checkpoint and effect is written down in order (see [`TestHost::steps`]), and
//! each can be made to fail, or to be the last that the process did ([`TestHost::die_after`]).
//!
//! It never checks policies, tokens or limits: those are the host's, and no engine sees them.

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
mod metrics;
mod passwords;
mod raw;
mod records;
mod script;
mod timers;

pub use auth::AuthBed;
pub use databases::{User, plugin};
pub use directory::{Flavour, TestDirectory};
pub use host::TestHost;

use crate::answer::{Answer, Outcome, Secret};
use crate::call::{Call, Caller, Context, Mount};
use crate::database_plugin::StoreTime;
use crate::engine::{Lease, Reason, Renewal, SecretsEngine};
use crate::host::Host;
use crate::login::Login;
use bulkhead_wire::description::{Operation, Route, Verb};
use bulkhead_wire::failure::{Failure, Kind};
use bulkhead_wire::fields;
use bulkhead_wire::route::{Match, Table, fill};
use serde_json::{Map, Value, json};
use std::marker::PhantomData;

/// The largest page of a listing.
const PAGE: u32 = 1_000;
/// Milliseconds that a call has.
const TIME: u64 = 90_000;

/// An engine, mounted at a path of its own in a host in memory.
pub struct TestBed<E> {
    /// Clock, storage, lease book, databases.
    pub host: TestHost,
    /// The caller.
    pub caller: Caller,
    /// The mount, named after the engine; 1 hour and 32 days unless a test says otherwise.
    pub mount: Mount,
    table: Table,
    engine: PhantomData<E>,
}

/// What a caller would see. No `Debug`: it may hold a secret.
#[derive(Clone, Default, PartialEq)]
pub struct Reply {
    /// The envelope's `data`; empty for 204.
    pub data: Map<String, Value>,
    /// Warnings of the engine, and those that the host adds about unknown fields.
    pub warnings: Vec<String>,
    /// The lease of a secret that was reserved: its tag, for [`TestBed::renew`] and
    /// [`TestBed::revoke`].
    pub lease: Option<String>,
    /// Seconds that the lease was asked to live.
    pub ttl: u64,
    /// Longest lifetime over all renewals, in seconds.
    pub max_ttl: u64,
    /// The login, of which the host would make a token.
    pub login: Option<Login>,
}

impl<E: SecretsEngine> TestBed<E> {
    /// Registers the engine and mounts it.
    ///
    /// # Errors
    /// What is wrong with the engine's table.
    pub fn new() -> Result<Self, String> {
        let mount = Mount {
            path: format!("{}/", E::NAME),
            kind: E::NAME.to_owned(),
            default_ttl: 3_600,
            max_ttl: 2_764_800,
            longest_lease: 2_764_800,
            ..Mount::default()
        };
        let caller = Caller { display_name: "token".to_owned(), ..Caller::default() };
        let table = Table::new(E::description().routes)?;
        let host = TestHost::default();
        if E::INDEXED {
            host.number_commits();
        }
        Ok(Self { host, caller, mount, table, engine: PhantomData })
    }

    /// GET.
    ///
    /// # Errors
    /// As a caller would see them; an absent object is not found with an empty message.
    pub fn read(&self, path: &str) -> Result<Reply, Failure> {
        self.request(Verb::Read, path, &json!({}))
    }

    /// POST.
    ///
    /// # Errors
    /// As a caller would see them.
    pub fn write(&self, path: &str, body: &Value) -> Result<Reply, Failure> {
        self.request(Verb::Write, path, body)
    }

    /// DELETE.
    ///
    /// # Errors
    /// As a caller would see them.
    pub fn delete(&self, path: &str) -> Result<Reply, Failure> {
        self.request(Verb::Delete, path, &json!({}))
    }

    /// LIST; `data.keys` are the names.
    ///
    /// # Errors
    /// As a caller would see them; nothing to list is not found.
    pub fn list(&self, path: &str) -> Result<Reply, Failure> {
        self.request(Verb::List, path, &json!({}))
    }

    /// Prolongs a lease, as far as the engine grants it.
    ///
    /// # Errors
    /// What the engine refused, and not found for a lease that does not exist.
    pub fn renew(&self, tag: &str, increment: u64) -> Result<Renewal, Failure> {
        let lease = self.lease(tag)?;
        let renewed = self.settle(E::renew(&self.host, &self.context(), &lease, increment))?;
        self.host.prolong_lease(tag, renewed.ttl);
        Ok(renewed)
    }

    /// Ends a lease.
    ///
    /// # Errors
    /// What the engine refused, and not found for a lease that does not exist. The lease then
    /// stays.
    pub fn revoke(&self, tag: &str, reason: Reason) -> Result<(), Failure> {
        let lease = self.lease(tag)?;
        self.settle(E::revoke(&self.host, &self.context(), &lease, reason))?;
        self.host.forget_lease(tag);
        Ok(())
    }

    /// Lets a timer ring.
    ///
    /// # Errors
    /// What the engine refused; the timer then stays. Not found when there is none.
    pub fn wake(&self, key: &str, attempt: u32) -> Result<(), Failure> {
        let rung = self.host.ringing(key)?;
        let woken = E::wake(&self.host, &self.context(), key, attempt);
        if woken.is_ok() {
            self.host.remove_rung(key, &rung);
        }
        let woken = self.settle(woken);
        if woken.is_err() {
            self.host.count_attempts(key, attempt);
        }
        woken
    }

    /// Wakes the engine for each guard that a call left standing, once, and tells how many there
    /// were.
    ///
    /// # Errors
    /// What the engine refused; that guard stays, and those behind it are not woken.
    pub fn run_guards(&self) -> Result<usize, Failure> {
        let left = self.host.left_guards();
        for (key, attempts) in &left {
            self.wake(key, attempts.saturating_add(1))?;
        }
        Ok(left.len())
    }

    fn request(&self, verb: Verb, path: &str, body: &Value) -> Result<Reply, Failure> {
        let (route, captures) = match self.table.find(verb, path) {
            Match::Row { route, captures, .. } => (route, captures),
            Match::NoPath => {
                return Err(Failure::new(Kind::NotFound, format!("no route for {path:?}")));
            }
            Match::NoVerb => {
                return Err(Failure::new(
                    Kind::UnsupportedOperation,
                    format!("not served on {path:?}"),
                ));
            }
        };
        let body = body.as_object().ok_or_else(|| Failure::invalid("a body is an object"))?;
        let mut folded = fields::fold(route, body, &captures)?;
        if let Some(prefix) = route.list.as_deref().filter(|_| verb == Verb::List) {
            return self.list_keys(&fill(prefix, &captures));
        }
        let operation = self.operation(route, &captures)?;
        let creating = operation == Operation::Create;
        folded.drop_unsaid(route, creating);
        let mut values = folded.values;
        fields::complete(route, &mut values, creating)?;
        let call = self.call(operation, route, values);
        let mut reply = self.reply(E::handle(&self.host, &call), route.login)?;
        reply.warnings.extend(folded.unknown.iter().map(|name| format!("ignored: {name}")));
        Ok(reply)
    }

    fn operation(
        &self,
        route: &Route,
        captures: &[(String, String)],
    ) -> Result<Operation, Failure> {
        Ok(match (route.verb, &route.existence) {
            (Verb::Write, Some(key))
                if self.host.storage().get_bytes(&fill(key, captures))?.is_none() =>
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
            fields: values,
            deadline: self.deadline(),
            caller: self.caller.clone(),
            mount: self.mount.clone(),
        }
    }

    /// What the engine is told of a call that is no request.
    fn context(&self) -> Context {
        Context { mount: self.mount.clone(), deadline: self.deadline() }
    }

    fn deadline(&self) -> StoreTime {
        self.host.clock().now().saturating_add(TIME)
    }

    fn list_keys(&self, prefix: &str) -> Result<Reply, Failure> {
        let keys = self.host.storage().keys(prefix, "", PAGE)?;
        if keys.is_empty() {
            return Err(Failure::absent());
        }
        let data = Map::from_iter([("keys".to_owned(), json!(keys))]);
        Ok(Reply { data, ..Reply::default() })
    }

    /// Commits what a call wrote when it succeeded, drops it when it failed or died.
    fn settle<T>(&self, outcome: Result<T, Failure>) -> Result<T, Failure> {
        let outcome = self.host.check_alive().and(outcome);
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
        let warnings = answer.warnings;
        match answer.outcome {
            Outcome::Data(text) => {
                let data = serde_json::from_str(&text)
                    .map_err(|_| Failure::internal("the engine answered no object"))?;
                Ok(Reply { data, warnings, ..Reply::default() })
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

    fn lease_out(&self, secret: Secret, warnings: Vec<String>) -> Result<Reply, Failure> {
        let ttl = if secret.ttl == 0 { self.mount.default_ttl } else { secret.ttl };
        let lease = secret.tag().map(str::to_owned);
        if let Some(tag) = &lease {
            self.host.confirm_lease(tag, ttl)?;
        }
        let (data, max_ttl) = (secret.data, secret.max_ttl);
        Ok(Reply { data, warnings, lease, ttl, max_ttl, login: None })
    }

    /// Ends what a call reserved and did not confirm. A failure leaves it in the book, as in the
    /// real host.
    fn undo(&self, lease: &Lease) {
        self.host.record(format!("undo {}", lease.tag));
        let revoked = E::revoke(&self.host, &self.context(), lease, Reason::Undo);
        if self.settle(revoked).is_ok() {
            self.host.forget_lease(&lease.tag);
        }
    }

    /// A lease as the engine sees it.
    ///
    /// # Errors
    /// Not found when there is none.
    pub fn lease(&self, tag: &str) -> Result<Lease, Failure> {
        let unknown = || Failure::new(Kind::NotFound, format!("there is no lease {tag:?}"));
        self.host.lease(tag).ok_or_else(unknown)
    }
}

#[cfg(test)]
mod tests;

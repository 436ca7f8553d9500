//! Runs an engine natively against a host in memory, for unit tests and the tutorial.
//!
//! A request passes through the same route table, folding and completion as in the real host,
//! writes count only when the call succeeds or checkpoints, and what a failed call reserved is
//! undone by the engine's own `revoke`. What a call left guarded waits for [`TestBed::run_guards`].
//! Every reservation, checkpoint and effect is written down in order (see [`TestHost::steps`]), and
//! each can be made to fail, or to be the last that the process did ([`TestHost::die_after`]).
//!
//! It never checks policies, tokens or limits: those are the host's, and no engine sees them.

mod cache;
mod databases;
mod host;
mod http;
mod timers;

pub use databases::{User, plugin};
pub use host::TestHost;

use crate::answer::{Answer, Outcome, Secret};
use crate::call::{Call, Caller, Mount};
use crate::engine::{Lease, Reason, Renewal, SecretsEngine};
use crate::host::Host;
use bulkhead_wire::description::{Operation, Route, Verb};
use bulkhead_wire::failure::{Failure, Kind};
use bulkhead_wire::fields;
use bulkhead_wire::route::{Match, Table, fill};
use serde_json::{Map, Value, json};
use std::marker::PhantomData;

/// The largest page of a listing.
const PAGE: u32 = 1_000;

/// An engine, mounted at a path of its own in a host in memory.
pub struct TestBed<E> {
    /// Clock, storage, lease book, databases.
    pub host: TestHost,
    /// Who calls.
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
        let renewed = self.settled(E::renew(&self.host, &lease, increment, &self.mount))?;
        self.host.prolong(tag, renewed.ttl);
        Ok(renewed)
    }

    /// Ends a lease.
    ///
    /// # Errors
    /// What the engine refused, and not found for a lease that does not exist. The lease then
    /// stays.
    pub fn revoke(&self, tag: &str, reason: Reason) -> Result<(), Failure> {
        let lease = self.lease(tag)?;
        self.settled(E::revoke(&self.host, &lease, reason))?;
        self.host.forget_lease(tag);
        Ok(())
    }

    /// Lets a timer ring.
    ///
    /// # Errors
    /// What the engine refused; the timer then stays. Not found when there is none.
    pub fn wake(&self, key: &str, attempt: u32) -> Result<(), Failure> {
        let rung = self.host.ringing(key)?;
        let woken = E::wake(&self.host, key, attempt);
        if woken.is_ok() {
            self.host.remove_rung(key, &rung);
        }
        let woken = self.settled(woken);
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
        let folded = fields::fold(route, body, &captures)?;
        if let Some(prefix) = route.list.as_deref().filter(|_| verb == Verb::List) {
            return self.page(&fill(prefix, &captures));
        }
        let operation = self.operation(route, &captures)?;
        let mut values = folded.values;
        fields::complete(route, &mut values, operation == Operation::Create)?;
        let call = self.call(operation, route, values);
        let mut reply = self.answered(E::handle(&self.host, &call))?;
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
            resumed: false,
            deadline: self.host.clock().now().saturating_add(90_000),
            caller: self.caller.clone(),
            mount: self.mount.clone(),
        }
    }

    fn page(&self, prefix: &str) -> Result<Reply, Failure> {
        let keys = self.host.storage().keys(prefix, "", PAGE)?;
        if keys.is_empty() {
            return Err(Failure::absent());
        }
        let data = Map::from_iter([("keys".to_owned(), json!(keys))]);
        Ok(Reply { data, ..Reply::default() })
    }

    /// Keeps what a call wrote when it succeeded, drops it when it failed or died.
    fn settled<T>(&self, outcome: Result<T, Failure>) -> Result<T, Failure> {
        let outcome = self.host.alive().and(outcome);
        match outcome {
            Ok(_) => self.host.commit(),
            Err(_) => self.host.roll_back(),
        }
        self.host.end_call();
        outcome
    }

    fn answered(&self, served: Result<Answer, Failure>) -> Result<Reply, Failure> {
        let reply =
            self.settled(self.host.alive().and(served).and_then(|answer| self.confirmed(answer)));
        for lease in self.host.unconfirmed() {
            self.undo(&lease);
        }
        reply
    }

    fn confirmed(&self, answer: Answer) -> Result<Reply, Failure> {
        let warnings = answer.warnings;
        match answer.outcome {
            Outcome::Data(data) => Ok(Reply { data, warnings, ..Reply::default() }),
            Outcome::Nothing => Ok(Reply { warnings, ..Reply::default() }),
            Outcome::Raw(_) => {
                Err(Failure::internal("no row of this version of the contract answers raw HTTP"))
            }
            Outcome::Secret(secret) => self.leased(secret, warnings),
        }
    }

    fn leased(&self, secret: Secret, warnings: Vec<String>) -> Result<Reply, Failure> {
        let ttl = if secret.ttl == 0 { self.mount.default_ttl } else { secret.ttl };
        let lease = secret.tag().map(str::to_owned);
        if let Some(tag) = &lease {
            self.host.confirm(tag, ttl)?;
        }
        Ok(Reply { data: secret.data, warnings, lease, ttl, max_ttl: secret.max_ttl })
    }

    /// Ends what a call reserved and did not confirm. A failure leaves it in the book, as in the
    /// real host.
    fn undo(&self, lease: &Lease) {
        self.host.write_down(format!("undo {}", lease.tag));
        if self.settled(E::revoke(&self.host, lease, Reason::Undo)).is_ok() {
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
mod tests {
    use super::TestBed;
    use crate::host::Clock;
    use crate::table::{Field, Row, read, write};
    use crate::{Answer, Call, Failure, Host, Kind, SecretsEngine};
    use serde_json::json;

    struct Egg;

    const KEY: &[Field] = &[Field::name_of("key", "the timer's name")];

    impl SecretsEngine for Egg {
        const NAME: &'static str = "egg";
        const VERSION: &'static str = "1.0.0";
        const SCHEMA: u32 = 1;
        const ABOUT: &'static str = "Boils eggs.";
        const INDEXED: bool = true;
        const TABLE: &'static [Row] = &[
            write("boil/{key}", boil).about("Starts a timer.").fields(&[KEY]),
            read("crack", crack).about("Writes and then fails."),
            write("watch", watch).about("Leaves a guard."),
            write("lay/{key}", lay)
                .about("Keeps an egg, and tells its place in history.")
                .fields(&[KEY]),
        ];

        fn wake(host: &dyn Host, key: &str, attempt: u32) -> Result<(), Failure> {
            if key == "guarded" {
                host.storage().put("woken", &attempt)?;
                host.storage().checkpoint()?;
            }
            if attempt == 1 {
                return Err(Failure::new(Kind::Unreachable, "no pot"));
            }
            host.storage().put(key, &"done")
        }
    }

    fn boil(host: &dyn Host, call: &Call) -> Result<Answer, Failure> {
        host.clock().schedule(call.text("key"), host.clock().now() + 240_000, "kitchen")?;
        Ok(Answer::nothing())
    }

    fn lay(host: &dyn Host, call: &Call) -> Result<Answer, Failure> {
        let key = call.text("key");
        host.storage().put(key, &1)?;
        let own = host.storage().entry::<u8>(key)?.map(|own| (own.created, own.modified));
        assert_eq!(own, Some((0, 0)), "not committed yet");
        let index = host.storage().checkpoint()?;
        let entry = host.storage().entry::<u8>(key)?.ok_or_else(Failure::absent)?;
        assert_eq!(host.storage().checkpoint()?, 0, "nothing was written");
        Answer::data(&json!({"index": index, "created": entry.created, "modified": entry.modified}))
    }

    fn watch(host: &dyn Host, _call: &Call) -> Result<Answer, Failure> {
        host.clock().guard("guarded", "kitchen")?;
        host.storage().checkpoint()?;
        Err(Failure::internal("left"))
    }

    fn crack(host: &dyn Host, _call: &Call) -> Result<Answer, Failure> {
        host.storage().put("shell", &1)?;
        assert_eq!(host.storage().get::<u8>("shell")?, Some(1), "a call sees its own writes");
        Err(Failure::internal("broken"))
    }

    #[test]
    fn an_indexed_engine_sees_when_its_records_were_created_and_modified() {
        let bed = TestBed::<Egg>::new().unwrap();
        for (key, index, created) in [("a", 1, 1), ("b", 2, 2), ("a", 3, 1)] {
            let told = serde_json::Value::Object(
                bed.write(&format!("lay/{key}"), &json!({})).unwrap().data,
            );
            assert_eq!(
                told,
                json!({"index": index, "created": created, "modified": index}),
                "{key}"
            );
        }
    }

    #[test]
    fn a_timer_rings_until_it_is_heard() {
        let bed = TestBed::<Egg>::new().unwrap();
        bed.write("boil/a", &json!({})).unwrap();
        assert_eq!(bed.host.timer("a"), Some(bed.host.now() + 240_000));
        assert!(bed.wake("a", 1).is_err());
        assert!(bed.host.timer("a").is_some());
        bed.wake("a", 2).unwrap();
        assert_eq!((bed.host.timer("a"), bed.host.stored("a")), (None, Some(json!("done"))));
        assert_eq!(bed.wake("a", 3).err().unwrap().kind, Kind::NotFound);
    }

    #[test]
    fn a_guard_that_its_call_left_is_run_until_it_is_heard_and_counts_its_attempts() {
        let bed = TestBed::<Egg>::new().unwrap();
        assert!(bed.write("watch", &json!({})).is_err());
        assert_eq!(bed.host.timer("guarded"), Some(bed.host.now()), "due when its call has ended");
        assert_eq!(bed.run_guards().unwrap_err().message, "no pot");
        assert_eq!(bed.host.stored("woken"), Some(json!(1)));
        assert!(
            bed.host.timer("guarded").is_some(),
            "a checkpoint of the wake does not remove what rang"
        );
        assert_eq!((bed.run_guards(), bed.run_guards()), (Ok(1), Ok(0)));
        assert_eq!(bed.host.stored("woken"), Some(json!(2)));
    }

    #[test]
    fn a_process_that_dies_answers_nothing_more_and_commits_nothing_more() {
        let bed = TestBed::<Egg>::new().unwrap();
        bed.host.die_after("schedule");
        assert_eq!(bed.write("boil/a", &json!({})).err().unwrap().message, "the process died");
        assert_eq!(bed.host.timer("a"), None);
        bed.write("boil/a", &json!({})).unwrap();
        assert!(bed.host.timer("a").is_some(), "the next process works");
    }

    #[test]
    fn a_failed_call_leaves_nothing_behind() {
        let bed = TestBed::<Egg>::new().unwrap();
        assert_eq!(bed.read("crack").err().unwrap().message, "broken");
        assert_eq!(bed.host.stored("shell"), None);
    }

    #[test]
    fn fields_that_no_row_names_are_told_of() {
        let bed = TestBed::<Egg>::new().unwrap();
        assert_eq!(bed.write("boil/a", &json!({"salt": 1})).unwrap().warnings, ["ignored: salt"]);
        assert_eq!(bed.write("boil/-a", &json!({})).err().unwrap().kind, Kind::NotFound);
    }

    #[test]
    fn a_table_that_contradicts_itself_is_not_mounted() {
        struct Twice;
        impl SecretsEngine for Twice {
            const NAME: &'static str = "twice";
            const VERSION: &'static str = "1.0.0";
            const SCHEMA: u32 = 1;
            const ABOUT: &'static str = "Serves one path twice.";
            const TABLE: &'static [Row] =
                &[read("crack", crack).about("One."), read("crack", crack).about("Two.")];
        }
        assert!(TestBed::<Twice>::new().is_err());
    }
}

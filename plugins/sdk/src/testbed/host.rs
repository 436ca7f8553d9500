//! The host in memory: what an engine asks of it, and what a test may arrange and look at.
//!
//! Records, leases and timers commit together, as in the real host; databases, other servers and
//! the cache stand beside them and keep what they did.

mod faces;

use super::ambient::{SharedPod, TestAmbient};
use super::cache::TestCache;
use super::crypto::TestCrypto;
use super::databases::{TestDatabases, User};
use super::directory::TestDirectory;
use super::http::TestServers;
use super::identity::TestIdentity;
use super::lease_book::LeaseBook;
use super::metrics::TestMetrics;
use super::passwords::TestPasswords;
use super::records::Records;
use super::script::{Fate, Script};
use super::timers::{Timer, Timers};
use crate::database_plugin::StoreTime;
use crate::engine::Lease;
use crate::host::{
    Ambient, Cache, Clock, Crypto, Databases, Entity, Host, Http, Identity, Ldap, Leases, Log,
    MachineToken, Metrics, Passwords, Pod, Random, Storage,
};
use crate::http::{Request, Response};
use crate::metric::Metric;
use bulkhead_wire::description::DatabaseDescription;
use bulkhead_wire::failure::Failure;
use serde_json::Value;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

/// What is known of lanes, by their name.
#[derive(Default)]
struct Lanes {
    widths: BTreeMap<String, u32>,
    rests: BTreeMap<String, u64>,
}

/// A host in memory. Its methods are what a test may arrange and look at.
pub struct TestHost {
    script: Rc<Script>,
    records: RefCell<Records>,
    leases: RefCell<LeaseBook>,
    timers: RefCell<Timers>,
    lanes: RefCell<Lanes>,
    databases: TestDatabases,
    servers: TestServers,
    ambient: TestAmbient,
    directory: TestDirectory,
    identity: TestIdentity,
    cache: TestCache,
    crypto: TestCrypto,
    passwords: TestPasswords,
    metrics: TestMetrics,
}

impl Default for TestHost {
    fn default() -> Self {
        let (script, pod) = (Rc::new(Script::default()), SharedPod::default());
        Self {
            databases: TestDatabases::new(&script),
            servers: TestServers::new(&script, &pod),
            ambient: TestAmbient::new(&script, &pod),
            directory: TestDirectory::new(&script),
            identity: TestIdentity::new(&script),
            cache: TestCache::new(&script),
            crypto: TestCrypto::new(&script),
            passwords: TestPasswords::new(&script),
            metrics: TestMetrics::new(&script),
            script,
            records: RefCell::default(),
            leases: RefCell::default(),
            timers: RefCell::default(),
            lanes: RefCell::default(),
        }
    }
}

/// What a test arranges.
impl TestHost {
    /// Lets time pass.
    pub fn advance(&self, seconds: u64) {
        self.script.advance(seconds);
    }

    /// Makes the next `step` (its first word, such as `checkpoint` or `get`) fail before it
    /// happens.
    pub fn refuse(&self, step: &str, failure: Failure) {
        self.script.arrange(step, Fate::Refuse(failure));
    }

    /// Makes the database plugin refuse the next creation of a user, and say that nothing was made.
    pub fn refuse_creation(&self, failure: Failure) {
        self.databases.keep_nothing();
        self.refuse("create-user", failure);
    }

    /// Lets the next `step` happen, and then fail: the answer was lost on the way.
    pub fn lose_reply(&self, step: &str, failure: Failure) {
        self.script.arrange(step, Fate::LoseReply(failure));
    }

    /// Lets the next `step` happen, and then the process die: nothing happens that the call does
    /// afterwards, and what it has not committed is lost. The bed goes on as the process that is
    /// started next.
    pub fn die_after(&self, step: &str) {
        self.script.arrange(step, Fate::Die);
    }

    /// Lets `lane` rest for so many milliseconds more, as if its target did not answer.
    pub fn rest_lane(&self, lane: &str, milliseconds: u64) {
        self.lanes.borrow_mut().rests.insert(lane.to_owned(), milliseconds);
    }

    /// Adds a password policy, in HCL or JSON.
    ///
    /// # Errors
    /// What is wrong with its text.
    pub fn add_policy(&self, name: &str, text: &str) -> Result<(), Failure> {
        self.passwords.add(name, text)
    }

    /// Replaces what the database plugin says of itself.
    pub fn describe_plugin(&self, change: impl FnOnce(&mut DatabaseDescription)) {
        self.databases.describe_plugin(change);
    }

    /// Makes the database plugin's `configure` answer these warning codes from now on.
    pub fn warn_when_configured(&self, codes: &[&str]) {
        self.databases.warn_when_configured(codes);
    }

    /// Makes the database plugin's `verify` answer these warning codes from now on.
    pub fn warn_when_verified(&self, codes: &[&str]) {
        self.databases.warn_when_verified(codes);
    }

    /// Makes the database plugin answer `told` about each login of `username`, until
    /// [`try_logins`](Self::try_logins).
    pub fn tell_of_logins(&self, username: &str, told: Option<bool>) {
        self.databases.tell_of_logins(username, told);
    }

    /// Makes the database plugin compare the credential of `username` again.
    pub fn try_logins(&self, username: &str) {
        self.databases.try_logins(username);
    }

    /// Arranges an answer to `METHOD url`, such as `GET https://a.example/x`. Several are given in
    /// their order, and the last one again and again.
    pub fn answer(&self, asked: &str, answer: Response) {
        self.servers.answer(asked, answer);
    }

    /// Sets a value of the server's environment.
    pub fn set_environment(&self, name: &str, value: &str) {
        self.ambient.set_environment(name, value);
    }

    /// Sets the machine's token of a cloud for an audience.
    pub fn set_cloud_token(&self, cloud: &str, audience: &str, token: MachineToken) {
        self.ambient.set_cloud_token(cloud, audience, token);
    }

    /// Makes the server a pod, or one no more. Requests [`as_pod`](Request::as_pod) are answered
    /// where they go to [`Pod::url`], and refused elsewhere.
    pub fn set_pod(&self, pod: Option<Pod>) {
        self.ambient.set_pod(pod);
    }

    /// The directory that answers at every URL: what a test arranges there and looks at.
    pub fn directory(&self) -> &TestDirectory {
        &self.directory
    }

    /// Lets the engine see an entity: the caller's own, or one with an alias at the mount.
    pub fn add_entity(&self, entity: Entity) {
        self.identity.add(entity);
    }

    /// Forgets what is cached, as the host does when it is sealed or the mount is tuned.
    pub fn forget_cached(&self) {
        self.cache.clear();
    }
}

/// What a test looks at.
impl TestHost {
    /// Reservations, checkpoints, calls of database plugins, HTTP requests, and log events, in
    /// order and since the last look.
    pub fn steps(&self) -> Vec<String> {
        self.script.take_steps()
    }

    /// The committed record under `key`.
    #[must_use]
    pub fn stored(&self, key: &str) -> Option<Value> {
        let records = self.records.borrow();
        records.committed(key).and_then(|bytes| serde_json::from_slice(bytes).ok())
    }

    /// Leases in the book, confirmed or waiting to be undone.
    #[must_use]
    pub fn lease_tags(&self) -> Vec<String> {
        self.leases.borrow().tags()
    }

    /// When the timer or guard `key` rings, if there is one.
    #[must_use]
    pub fn timer(&self, key: &str) -> Option<StoreTime> {
        self.timers.borrow().due(key)
    }

    /// How much of `lane` may run at once, as the engine said last.
    #[must_use]
    pub fn width_of(&self, lane: &str) -> Option<u32> {
        self.lanes.borrow().widths.get(lane).copied()
    }

    /// The user `username` of the database behind `connection`.
    #[must_use]
    pub fn user(&self, connection: &str, username: &str) -> Option<User> {
        self.databases.user(connection, username)
    }

    /// How many users there are, in all databases.
    #[must_use]
    pub fn user_count(&self) -> usize {
        self.databases.user_count()
    }

    /// What the metric shows for that label: its total, where it stands, or the sum of what was
    /// observed; 0 where nothing was given.
    #[must_use]
    pub fn metric(&self, metric: &Metric, label: &str) -> f64 {
        self.metrics.shown(metric, label)
    }

    /// HTTP requests that were sent, in order and since the last look.
    pub fn requests(&self) -> Vec<Request> {
        self.servers.take_requests()
    }
}

/// What the bed does around the engine's calls.
impl TestHost {
    pub(super) fn record(&self, step: String) {
        self.script.record(step);
    }

    pub(super) fn check_alive(&self) -> Result<(), Failure> {
        self.script.check_alive()
    }

    /// Numbers commits from now on.
    pub(super) fn number_commits(&self) {
        self.records.borrow_mut().number_commits();
    }

    /// Commits, and gives the index of the commit, as [`Storage::checkpoint`] does.
    pub(super) fn commit(&self) -> u64 {
        self.timers.borrow_mut().commit();
        self.leases.borrow_mut().commit();
        self.records.borrow_mut().commit()
    }

    pub(super) fn roll_back(&self) {
        self.timers.borrow_mut().roll_back();
        self.leases.borrow_mut().roll_back();
        self.records.borrow_mut().roll_back();
    }

    /// The end of a call, or of the process that ran it.
    pub(super) fn end_call(&self) {
        self.script.revive();
        self.timers.borrow_mut().end_call(self.now());
    }

    /// Guards that their calls left standing, with their failed attempts.
    pub(super) fn left_guards(&self) -> Vec<(String, u32)> {
        self.timers.borrow().left_guards()
    }

    pub(super) fn ringing(&self, key: &str) -> Result<Timer, Failure> {
        self.timers.borrow().ringing(key)
    }

    pub(super) fn remove_rung(&self, key: &str, rung: &Timer) {
        self.timers.borrow_mut().remove_rung(key, rung);
    }

    pub(super) fn count_attempts(&self, key: &str, attempts: u32) {
        self.timers.borrow_mut().count_attempts(key, attempts);
    }

    pub(super) fn lease(&self, tag: &str) -> Option<Lease> {
        self.leases.borrow().lease(tag)
    }

    pub(super) fn unconfirmed_leases(&self) -> Vec<Lease> {
        self.leases.borrow().unconfirmed()
    }

    pub(super) fn confirm_lease(&self, tag: &str, ttl: u64) -> Result<(), Failure> {
        self.leases.borrow_mut().confirm(tag, self.seconds_from_now(ttl))
    }

    pub(super) fn prolong_lease(&self, tag: &str, ttl: u64) {
        self.leases.borrow_mut().prolong(tag, self.seconds_from_now(ttl));
    }

    pub(super) fn forget_lease(&self, tag: &str) {
        self.leases.borrow_mut().forget(tag);
    }

    fn seconds_from_now(&self, seconds: u64) -> StoreTime {
        self.now().saturating_add(seconds.saturating_mul(1_000))
    }
}

impl Host for TestHost {
    fn storage(&self) -> &dyn Storage {
        self
    }

    fn leases(&self) -> &dyn Leases {
        self
    }

    fn clock(&self) -> &dyn Clock {
        self
    }

    fn databases(&self) -> &dyn Databases {
        &self.databases
    }

    fn passwords(&self) -> &dyn Passwords {
        &self.passwords
    }

    fn http(&self) -> &dyn Http {
        &self.servers
    }

    fn ldap(&self) -> &dyn Ldap {
        &self.directory
    }

    fn identity(&self) -> &dyn Identity {
        &self.identity
    }

    fn ambient(&self) -> &dyn Ambient {
        &self.ambient
    }

    fn cache(&self) -> &dyn Cache {
        &self.cache
    }

    fn random(&self) -> &dyn Random {
        &self.crypto
    }

    fn crypto(&self) -> &dyn Crypto {
        &self.crypto
    }

    fn log(&self) -> &dyn Log {
        self
    }

    fn metrics(&self) -> &dyn Metrics {
        &self.metrics
    }
}

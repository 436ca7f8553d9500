//! The host in memory: its faces for an engine, and the methods by which a test arranges and
//! inspects.
//!
//! Records, leases and timers commit together, as in the real host. Databases, other servers and
//! the cache are outside the transaction: a rollback does not undo their effects.

mod faces;
mod limits;

use super::ambient::{SharedPod, TestAmbient};
use super::cache::TestCache;
use super::crypto::TestCrypto;
use super::databases::{TestDatabases, User};
use super::directory::TestDirectory;
use super::http::TestServers;
use super::identity::TestIdentity;
use super::lease_book::LeaseBook;
use super::metrics::TestMetrics;
use super::migration::TestMigration;
use super::passwords::TestPasswords;
use super::records::Records;
use super::script::{Script, StepFate};
use super::timers::{Timer, Timers};
use crate::database_plugin::StoreTime;
use crate::engine::Lease;
use crate::host::{
    Ambient, Cache, Clock, Crypto, Databases, Entity, Host, Http, Identity, Ldap, Leases, Log,
    MachineToken, Metrics, Migration, Passwords, Pod, Random, Storage,
};
use crate::http::{Request, Response};
use crate::metric::Metric;
use bulkhead_wire::description::DatabaseDescription;
use bulkhead_wire::failure::Failure;
use serde_json::Value;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

/// Widths and rests of lanes, by name.
#[derive(Default)]
struct LaneLimits {
    widths: BTreeMap<String, u32>,
    rests: BTreeMap<String, u64>,
}

/// A host in memory. Its methods let a test arrange and inspect.
pub struct TestHost {
    script: Rc<Script>,
    records: RefCell<Records>,
    leases: RefCell<LeaseBook>,
    timers: RefCell<Timers>,
    lanes: RefCell<LaneLimits>,
    pub(super) databases: TestDatabases,
    servers: TestServers,
    ambient: TestAmbient,
    directory: TestDirectory,
    identity: TestIdentity,
    cache: TestCache,
    crypto: TestCrypto,
    passwords: TestPasswords,
    metrics: TestMetrics,
    pub(super) migration: TestMigration,
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
            migration: TestMigration::new(&script),
            script,
            records: RefCell::default(),
            leases: RefCell::default(),
            timers: RefCell::default(),
            lanes: RefCell::default(),
        }
    }
}

/// Arrangements of a test.
impl TestHost {
    /// Advances the clock.
    pub fn advance(&self, seconds: u64) {
        self.script.advance(seconds);
    }

    /// Fails the next `step` (its first word, such as `checkpoint` or `get`) before the step
    /// happens.
    pub fn refuse(&self, step: &str, failure: Failure) {
        self.script.arrange(step, StepFate::Refuse(failure));
    }

    /// Makes the database plugin refuse the next creation of a user, and report that nothing was
    /// made.
    pub fn refuse_creation(&self, failure: Failure) {
        self.databases.keep_nothing();
        self.refuse("create-accounts", failure);
    }

    /// Lets the next `step` happen, and then fails: the answer is lost.
    pub fn lose_reply(&self, step: &str, failure: Failure) {
        self.script.arrange(step, StepFate::LoseReply(failure));
    }

    /// Lets the next `step` happen, and then kills the process: nothing happens that the call does
    /// afterwards, and uncommitted writes are lost. The bed continues as the next process.
    pub fn die_after(&self, step: &str) {
        self.script.arrange(step, StepFate::Die);
    }

    /// Reports `lane` as resting for `milliseconds`, as if its target did not answer.
    pub fn rest_lane(&self, lane: &str, milliseconds: u64) {
        self.lanes.borrow_mut().rests.insert(lane.to_owned(), milliseconds);
    }

    /// Adds a password policy, in HCL or JSON.
    ///
    /// # Errors
    /// The mistakes in the text.
    pub fn add_policy(&self, name: &str, text: &str) -> Result<(), Failure> {
        self.passwords.add(name, text)
    }

    /// Changes the description of the database plugin.
    pub fn describe_plugin(&self, change: impl FnOnce(&mut DatabaseDescription)) {
        self.databases.describe_plugin(change);
    }

    /// Sets the warning codes that the database plugin's `configure` answers.
    pub fn warn_when_configured(&self, codes: &[&str]) {
        self.databases.warn_when_configured(codes);
    }

    /// Sets the warning codes that the database plugin's `verify` answers.
    pub fn warn_when_verified(&self, codes: &[&str]) {
        self.databases.warn_when_verified(codes);
    }

    /// Fixes the database plugin's answer about logins of `username`, until
    /// [`try_logins`](Self::try_logins).
    pub fn fix_login_answer(&self, username: &str, answer: Option<bool>) {
        self.databases.fix_login_answer(username, answer);
    }

    /// Makes the database plugin compare the credential of `username` again.
    pub fn try_logins(&self, username: &str) {
        self.databases.try_logins(username);
    }

    /// Arranges an answer to `METHOD url`, such as `GET https://a.example/x`. Several answers are
    /// given in order, and the last answer is repeated.
    pub fn answer(&self, request: &str, answer: Response) {
        self.servers.answer(request, answer);
    }

    /// Sets a variable of the server's environment.
    pub fn set_environment(&self, name: &str, value: &str) {
        self.ambient.set_environment(name, value);
    }

    /// Sets the machine's token of a cloud for an audience.
    pub fn set_cloud_token(&self, cloud: &str, audience: &str, token: MachineToken) {
        self.ambient.set_cloud_token(cloud, audience, token);
    }

    /// Makes the server a pod, or with `None` not a pod. Requests [`as_pod`](Request::as_pod) are
    /// answered if sent to [`Pod::url`], and refused otherwise.
    pub fn set_pod(&self, pod: Option<Pod>) {
        self.ambient.set_pod(pod);
    }

    /// Returns the directory, which answers at every URL.
    pub fn directory(&self) -> &TestDirectory {
        &self.directory
    }

    /// Adds an entity that the engine can see: the caller's, or an entity with an alias at the
    /// mount.
    pub fn add_entity(&self, entity: Entity) {
        self.identity.add(entity);
    }

    /// Clears the cache, as the host does when sealed or when the mount is tuned.
    pub fn forget_cached(&self) {
        self.cache.clear();
    }
}

/// Observations of a test.
impl TestHost {
    /// Returns the recorded steps since the last call, in order: reservations, checkpoints, timers,
    /// requests to other systems, pauses and log events.
    pub fn steps(&self) -> Vec<String> {
        self.script.take_steps()
    }

    /// Returns the committed record under `key`.
    #[must_use]
    pub fn stored(&self, key: &str) -> Option<Value> {
        let records = self.records.borrow();
        records.committed(key).and_then(|bytes| serde_json::from_slice(bytes).ok())
    }

    /// Returns the tags of committed leases, confirmed or not.
    #[must_use]
    pub fn lease_tags(&self) -> Vec<String> {
        self.leases.borrow().tags()
    }

    /// Returns the time of the timer or guard `key`, if there is one.
    #[must_use]
    pub fn timer(&self, key: &str) -> Option<StoreTime> {
        self.timers.borrow().due(key)
    }

    /// Returns the width that the engine last set for `lane`.
    #[must_use]
    pub fn width_of(&self, lane: &str) -> Option<u32> {
        self.lanes.borrow().widths.get(lane).copied()
    }

    /// Returns the user `username` of the database behind `connection`.
    #[must_use]
    pub fn user(&self, connection: &str, username: &str) -> Option<User> {
        self.databases.user(connection, username)
    }

    /// Returns the number of users in all databases.
    #[must_use]
    pub fn user_count(&self) -> usize {
        self.databases.user_count()
    }

    /// Returns the metric's value for a label: the total of a counter, the value of a gauge, or the
    /// sum of a summary's observations; 0 if none was reported.
    #[must_use]
    pub fn metric(&self, metric: &Metric, label: &str) -> f64 {
        self.metrics.shown(metric, label)
    }

    /// Returns the HTTP requests sent since the last call, in order.
    pub fn requests(&self) -> Vec<Request> {
        self.servers.take_requests()
    }
}

/// Work of the bed around the engine's calls.
impl TestHost {
    pub(super) fn record(&self, step: String) {
        self.script.record(step);
    }

    pub(super) fn check_alive(&self) -> Result<(), Failure> {
        self.script.check_alive()
    }

    /// Begins to number commits.
    pub(super) fn number_commits(&self) {
        self.records.borrow_mut().number_commits();
    }

    /// Commits and returns the index of the commit, as [`Storage::checkpoint`] does.
    pub(crate) fn commit(&self) -> u64 {
        self.script.forget_reads();
        self.timers.borrow_mut().commit();
        self.leases.borrow_mut().commit();
        self.records.borrow_mut().commit()
    }

    pub(super) fn roll_back(&self) {
        self.script.forget_reads();
        self.timers.borrow_mut().roll_back();
        self.leases.borrow_mut().roll_back();
        self.records.borrow_mut().roll_back();
    }

    /// Ends a call, or the process that ran the call.
    pub(super) fn end_call(&self) {
        self.script.revive();
        self.timers.borrow_mut().end_call(self.now());
    }

    /// Returns the guards that calls left, with the number of failed attempts.
    pub(super) fn left_guards(&self) -> Vec<(String, u32)> {
        self.timers.borrow().left_guards()
    }

    /// Returns the timers and guards that are due, with the number of failed attempts.
    pub(super) fn due_timers(&self) -> Vec<(String, u32)> {
        self.timers.borrow().due_timers(self.script.now())
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

    fn migration(&self) -> &dyn Migration {
        &self.migration
    }
}

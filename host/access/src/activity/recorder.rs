//! The recorder of clients: memory for requests, and the task that stores changes.
//!
//! This file prevents a record of clients against the setting: nothing is noted before the setting
//! was read, nor while the setting cannot be read.

use super::month::ActivityMonth;
use super::record::{
    ActivitySettings, MountClients, OTHER_MOUNTS, StoredMonth, TOKEN_MOUNT, remove_month,
    stored_months,
};
use crate::background::BackgroundState;
use crate::log::{Log, cause};
use crate::policies::{RESPONSE_WRAPPING, ROOT};
use crate::tokens::TokenRecord;
use aws_lc_rs::digest::{SHA256, digest};
use bulkhead_store::Store;
use bulkhead_wire::failure::Failure;
use bulkhead_wire::log_level::LogLevel;
use bulkhead_wire::sync;
use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, RwLock};
use std::time::Duration;

/// Interval at which changes are stored.
const STORING_PERIOD: Duration = Duration::from_secs(60);

/// Maximum number of auth mounts with clients of their own in a month. Further mounts share a
/// record.
const MAX_MOUNTS: usize = 100;

/// Maximum number of clients that are recognised without a look at the sketches.
const MAX_SEEN_CLIENTS: usize = 65_536;

/// Maximum number of records of a commit.
const RECORDS_PER_COMMIT: usize = 16;

/// The clients of this node.
pub struct ClientActivity {
    /// Randomly keyed, so that no caller chooses two clients with the same key.
    hasher: RandomState,
    seen: RwLock<SeenClients>,
    months: Mutex<BTreeMap<ActivityMonth, MonthClients>>,
    is_recording: AtomicBool,
    /// Keys in the log of records that cannot be read.
    unreadable: Mutex<BTreeSet<String>>,
    log: Arc<dyn Log>,
}

/// The clients that are recorded already: the only part that a usual request looks at.
#[derive(Default)]
struct SeenClients {
    /// End of the month, in milliseconds of store time.
    end: u64,
    keys: HashSet<u64>,
}

/// The clients of a month.
#[derive(Default)]
struct MonthClients {
    /// True once the stored clients of the month are among the clients.
    is_loaded: bool,
    mounts: BTreeMap<String, MountClients>,
    /// Mounts with clients that are not stored.
    changed: BTreeSet<String>,
    /// Mounts whose stored record cannot be read, and stays for an operator. Their clients count
    /// for the record of further mounts.
    unreadable: BTreeSet<String>,
}

/// A client of a request.
#[derive(Clone, Copy, Hash)]
enum CountedClient<'a> {
    Entity(&'a str),
    Policies(&'a [String]),
}

impl ClientActivity {
    /// Makes the recorder, which notes nothing before [`ClientActivity::begin`].
    pub fn new(log: &Arc<dyn Log>) -> Self {
        Self {
            hasher: RandomState::new(),
            seen: RwLock::default(),
            months: Mutex::default(),
            is_recording: AtomicBool::new(false),
            unreadable: Mutex::default(),
            log: Arc::clone(log),
        }
    }

    /// Follows the settings, which the opening of the service and each minute read. What was noted
    /// and not stored is dropped if clients are not to be recorded, or the settings cannot be read.
    ///
    /// # Errors
    /// 503 if the store cannot be read, 500 for settings that do not parse.
    async fn read_settings(&self, store: &Arc<Store>) -> Result<ActivitySettings, Failure> {
        let settings = ActivitySettings::read(&mut store.begin()).await;
        let is_recording = settings.as_ref().is_ok_and(|settings| settings.is_recording());
        self.is_recording.store(is_recording, Ordering::Relaxed);
        if !is_recording {
            sync::lock(&self.months).clear();
            *sync::write(&self.seen) = SeenClients::default();
        }
        settings
    }

    /// Begins to note clients, if the settings say so. Settings that cannot be read are logged.
    pub async fn begin(&self, store: &Arc<Store>) {
        if let Err(failure) = self.read_settings(store).await {
            self.log_failure(&failure);
        }
    }

    fn log_failure(&self, failure: &Failure) {
        self.log.line(LogLevel::Warn, "client-activity-not-stored", &[cause(failure)]);
    }

    /// Notes a request with a valid token at the store time `now`, in milliseconds.
    pub fn note(&self, token: &TokenRecord, now: u64) {
        if !self.is_recording.load(Ordering::Relaxed) {
            return;
        }
        let Some(client) = CountedClient::of(token) else { return };
        let mount = if token.mount.is_empty() { TOKEN_MOUNT } else { token.mount.as_str() };
        let key = self.hasher.hash_one((client, mount));
        let seen = sync::read(&self.seen);
        if now < seen.end && seen.keys.contains(&key) {
            return;
        }
        drop(seen);
        let month = ActivityMonth::of_seconds(now / 1_000);
        sync::lock(&self.months).entry(month).or_default().add(client, mount);
        sync::write(&self.seen).add(key, month);
    }

    /// Stores changes until the service is sealed, and once more then.
    pub async fn record(&self, background: &BackgroundState) {
        loop {
            if let Err(failure) = self.store(&background.store).await
                && !background.is_outage(&failure)
            {
                self.log_failure(&failure);
            }
            if background.sealing.has_begun() {
                return;
            }
            tokio::select! {
                () = background.sealing.wait_for_seal() => {}
                () = tokio::time::sleep(STORING_PERIOD) => {}
            }
        }
    }

    /// Reads the settings, stores the changes, and removes old months.
    ///
    /// # Errors
    /// 503 if the store cannot be read or written, 500 for settings that do not parse.
    async fn store(&self, store: &Arc<Store>) -> Result<(), Failure> {
        let settings = self.read_settings(store).await?;
        let present = ActivityMonth::of_seconds(store.now() / 1_000);
        let months: Vec<ActivityMonth> = sync::lock(&self.months).keys().copied().collect();
        for month in months {
            self.store_month(store, month).await?;
        }
        sync::lock(&self.months)
            .retain(|month, clients| *month >= present || !clients.changed.is_empty());
        let oldest = present.minus(settings.retention_months);
        for month in stored_months(store).await? {
            if month < oldest {
                remove_month(store, month).await?;
            }
        }
        Ok(())
    }

    async fn store_month(&self, store: &Arc<Store>, month: ActivityMonth) -> Result<(), Failure> {
        let is_loaded = sync::lock(&self.months).get(&month).is_none_or(|month| month.is_loaded);
        if !is_loaded {
            let stored = self.read_stored(store, month).await?;
            let mut months = sync::lock(&self.months);
            months.entry(month).or_default().load(stored);
        }
        loop {
            let changed = self.take_changed(month);
            if changed.is_empty() {
                return Ok(());
            }
            let stored = store_records(store, month, &changed).await;
            if stored.is_err() {
                let mut months = sync::lock(&self.months);
                let clients = months.entry(month).or_default();
                clients.changed.extend(changed.into_iter().map(|(mount, _)| mount));
                return stored;
            }
        }
    }

    /// Reads the stored clients of a month, and logs each record that cannot be read, once.
    async fn read_stored(
        &self,
        store: &Arc<Store>,
        month: ActivityMonth,
    ) -> Result<StoredMonth, Failure> {
        let stored = MountClients::read_month(store, month).await?;
        for (key, failure) in stored.unreadable.values() {
            if sync::lock(&self.unreadable).insert(key.clone()) {
                let pairs = [("key", key.clone()), cause(failure)];
                self.log.line(LogLevel::Error, "client-activity-unreadable", &pairs);
            }
        }
        Ok(stored)
    }

    /// Takes some mounts with changed clients.
    fn take_changed(&self, month: ActivityMonth) -> Vec<(String, MountClients)> {
        let mut months = sync::lock(&self.months);
        let Some(MonthClients { mounts, changed, unreadable, .. }) = months.get_mut(&month) else {
            return Vec::new();
        };
        let mut taken = Vec::new();
        while taken.len() < RECORDS_PER_COMMIT
            && let Some(mount) = changed.pop_first()
        {
            // The record of further mounts may be unreadable, too, and a write would replace the
            // record.
            if unreadable.contains(&mount) {
                continue;
            }
            let clients = mounts.get(&mount).cloned().unwrap_or_default();
            taken.push((mount, clients));
        }
        taken
    }

    /// Returns the clients of a month by mount: stored clients, and clients in memory. A record
    /// that cannot be read is logged once and left out.
    ///
    /// # Errors
    /// 503 if the store cannot be read.
    pub async fn read(
        &self,
        store: &Arc<Store>,
        month: ActivityMonth,
    ) -> Result<BTreeMap<String, MountClients>, Failure> {
        let mut mounts = self.read_stored(store, month).await?.mounts;
        if let Some(recent) = sync::lock(&self.months).get(&month) {
            for (mount, clients) in &recent.mounts {
                mounts.entry(mount.clone()).or_default().merge(clients);
            }
        }
        Ok(mounts)
    }

    /// Returns the months with clients, oldest first.
    ///
    /// # Errors
    /// 503 if the store cannot be read.
    pub async fn months(&self, store: &Arc<Store>) -> Result<BTreeSet<ActivityMonth>, Failure> {
        let mut months: BTreeSet<ActivityMonth> = stored_months(store).await?.into_iter().collect();
        months.extend(sync::lock(&self.months).keys());
        Ok(months)
    }
}

async fn store_records(
    store: &Arc<Store>,
    month: ActivityMonth,
    changed: &[(String, MountClients)],
) -> Result<(), Failure> {
    let mut unit = store.begin();
    for (mount, clients) in changed {
        clients.put(&mut unit, month, mount).await?;
    }
    unit.commit().await?;
    Ok(())
}

impl SeenClients {
    fn add(&mut self, key: u64, month: ActivityMonth) {
        let end = (month.end() + 1).saturating_mul(1_000);
        if self.end != end || self.keys.len() >= MAX_SEEN_CLIENTS {
            self.end = end;
            self.keys.clear();
        }
        self.keys.insert(key);
    }
}

impl MonthClients {
    fn add(&mut self, client: CountedClient<'_>, mount: &str) {
        let name = self.place(mount).to_owned();
        let clients = self.mounts.entry(name.clone()).or_default();
        let is_new = match client {
            CountedClient::Entity(_) => clients.entities.add(client.hash()),
            CountedClient::Policies(_) => clients.tokens.add(client.hash()),
        };
        if is_new {
            self.changed.insert(name);
        }
    }

    /// Adds the stored clients of the month. Mounts that are in memory alone, above the maximum,
    /// move to the record of further mounts.
    fn load(&mut self, stored: StoredMonth) {
        let recent = std::mem::replace(&mut self.mounts, stored.mounts);
        self.unreadable = stored.unreadable.into_keys().collect();
        self.changed.clear();
        for (mount, clients) in recent {
            let name = self.place(&mount).to_owned();
            if self.mounts.entry(name.clone()).or_default().merge(&clients) {
                self.changed.insert(name);
            }
        }
        self.is_loaded = true;
    }

    /// Returns the name under which the clients of a mount are counted.
    fn place<'a>(&self, mount: &'a str) -> &'a str {
        let has_place = self.mounts.len() < MAX_MOUNTS || self.mounts.contains_key(mount);
        match has_place && !self.unreadable.contains(mount) {
            true => mount,
            false => OTHER_MOUNTS,
        }
    }
}

impl<'a> CountedClient<'a> {
    /// Returns the client of a token; `None` for a root token or a wrapping token.
    fn of(token: &'a TokenRecord) -> Option<Self> {
        if !token.entity_id.is_empty() {
            return Some(Self::Entity(&token.entity_id));
        }
        match token.policies.as_slice() {
            [only] if only == ROOT || only == RESPONSE_WRAPPING => None,
            policies => Some(Self::Policies(policies)),
        }
    }

    /// Returns the hash in the sketches. Part of the stored format.
    fn hash(self) -> u64 {
        let text = match self {
            Self::Entity(id) => format!("entity\0{id}"),
            Self::Policies(names) => format!("policies\0{}", names.join("\0")),
        };
        let hash = digest(&SHA256, text.as_bytes());
        let first = hash.as_ref().first_chunk::<8>().copied().unwrap_or_default();
        u64::from_be_bytes(first)
    }
}

#[cfg(test)]
mod tests;

//! The quotas of an open store, as requests ask them.

use super::lease_count::{LeaseCountQuota, delete, names, read};
use super::tally::{Place, Tally};
use crate::log::{Log, cause};
use bulkhead_store::Store;
use bulkhead_wire::failure::{Failure, Kind, quoted};
use bulkhead_wire::sync;
use std::sync::{Arc, RwLock};
use tokio::sync::Mutex;

/// All quotas, in memory: a request for a lease reads none of them from the store.
pub(crate) struct Quotas {
    log: Arc<dyn Log>,
    active: RwLock<Vec<Arc<Active>>>,
    /// So that of two readings of the store the later one stays.
    reading: Mutex<()>,
}

/// How far a quota is used up.
pub(crate) struct Usage {
    pub(crate) name: String,
    pub(crate) max_leases: u64,
    /// Leases that it counts.
    pub(crate) counter: u64,
}

/// A quota, and what is known of its leases.
struct Active {
    name: String,
    quota: LeaseCountQuota,
    tally: Arc<Tally>,
}

impl Quotas {
    /// No quotas: those of a store are there once they are [loaded](Self::load).
    pub(crate) fn new(log: &Arc<dyn Log>) -> Self {
        Self { log: Arc::clone(log), active: RwLock::default(), reading: Mutex::default() }
    }

    /// Reads all quotas, after one was written too. Those that are as they were go on counting
    /// where they were. One that cannot be read is told and left out: it keeps nothing closed.
    ///
    /// # Errors
    /// The store's failure to list them.
    pub(crate) async fn load(&self, store: &Arc<Store>) -> Result<(), Failure> {
        let _alone = self.reading.lock().await;
        let mut loaded = Vec::new();
        for name in names(&mut store.begin(), "", usize::MAX).await? {
            match read(&mut store.begin(), &name).await {
                Ok(Some(quota)) => {
                    let tally = self.tally_of(&quota).unwrap_or_default();
                    loaded.push(Arc::new(Active { name, quota, tally }));
                }
                Ok(None) => {}
                Err(failure) => {
                    let pairs = [("quota", name), cause(&failure)];
                    self.log.line("error", "quota-unreadable", &pairs);
                }
            }
        }
        *sync::write(&self.active) = loaded;
        Ok(())
    }

    /// What is known of the leases at the quota's path. Where another number was allowed there,
    /// only the calls under way are: it was counted up to that number.
    fn tally_of(&self, quota: &LeaseCountQuota) -> Option<Arc<Tally>> {
        let active = sync::read(&self.active);
        let found = active.iter().find(|active| active.quota.is_of_path_of(quota))?;
        let is_as_it_was = found.quota == *quota;
        Some(if is_as_it_was {
            Arc::clone(&found.tally)
        } else {
            Arc::new(found.tally.uncounted())
        })
    }

    /// Lets in a call that may make a lease of the mount at the path `below`. Of the quotas that
    /// count it, that of the longest path decides, and one of a mount before one of all.
    ///
    /// # Errors
    /// 429 where the quota is used up. The store's failure.
    pub(crate) async fn let_in(
        &self,
        store: &Store,
        mount: &str,
        below: &str,
    ) -> Result<Option<Place>, Failure> {
        let Some(active) = self.deciding(mount, below) else { return Ok(None) };
        let Active { name, quota, tally } = &*active;
        let most = u64::from(quota.max_leases);
        match tally.let_in(most, async || quota.count(store).await).await? {
            Some(place) => Ok(Some(place)),
            None => Err(Failure::new(
                Kind::RateLimited,
                format!(
                    "lease count quota exceeded: {most} leases are allowed here by the quota {}; \
                     revoke leases that are not needed, wait until some end, or raise max_leases \
                     at sys/quotas/lease-count/{name}",
                    quoted(name)
                ),
            )),
        }
    }

    fn deciding(&self, mount: &str, below: &str) -> Option<Arc<Active>> {
        let active = sync::read(&self.active);
        let counting = active.iter().filter(|active| active.quota.counts(mount, below));
        counting.max_by_key(|active| active.quota.precision()).map(Arc::clone)
    }

    /// How far each quota is used up.
    ///
    /// # Errors
    /// The store's failure.
    pub(crate) async fn usage(&self, store: &Store) -> Result<Vec<Usage>, Failure> {
        let all: Vec<_> = sync::read(&self.active).iter().map(Arc::clone).collect();
        let mut usage = Vec::with_capacity(all.len());
        for active in all {
            let counter = active.quota.count(store).await?;
            let max_leases = active.quota.max_leases.into();
            usage.push(Usage { name: active.name.clone(), max_leases, counter });
        }
        Ok(usage)
    }

    /// Deletes the quotas of a mount that is gone.
    ///
    /// # Errors
    /// The store's failure; the quotas are there still.
    pub(crate) async fn forget_mount(
        &self,
        store: &Arc<Store>,
        mount: &str,
    ) -> Result<(), Failure> {
        let of_mount = |active: &&Arc<Active>| active.quota.mount == mount;
        let names: Vec<String> = {
            let active = sync::read(&self.active);
            active.iter().filter(of_mount).map(|active| active.name.clone()).collect()
        };
        if names.is_empty() {
            return Ok(());
        }
        let mut unit = store.begin();
        names.iter().for_each(|name| delete(&mut unit, name));
        unit.commit().await?;
        self.load(store).await
    }
}

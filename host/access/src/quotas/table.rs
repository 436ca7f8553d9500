//! The quotas of an open store, checked by requests.

use super::lease_count::LeaseCountQuota;
use super::rate_limit::RateLimitQuota;
use super::rates::RateLimits;
use super::record::{delete, names, read};
use super::tally::{LeaseSlot, LeaseTally};
use crate::log::{Log, cause};
use bulkhead_store::Store;
use bulkhead_wire::failure::{Failure, FailureKind, quoted};
use bulkhead_wire::log_level::LogLevel;
use bulkhead_wire::sync;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, RwLock};
use tokio::sync::Mutex;

/// All quotas, in memory: a request for a lease reads no quota from the store.
pub struct Quotas {
    /// The rate-limit quotas.
    pub rates: RateLimits,
    log: Arc<dyn Log>,
    active: RwLock<Vec<Arc<ActiveLeaseQuota>>>,
    /// Serialises loads, so that of two loads the later result stays.
    reading: Mutex<()>,
}

/// The usage of a quota.
pub struct QuotaUsage {
    /// Name of the quota.
    pub name: String,
    /// Maximum number of leases.
    pub max_leases: u64,
    /// Number of leases that the quota counts.
    pub counter: u64,
}

/// A quota and the running count of its leases.
struct ActiveLeaseQuota {
    name: String,
    quota: LeaseCountQuota,
    tally: Arc<LeaseTally>,
    /// Number of refused requests, also before a change of the quota.
    violations: Arc<AtomicU64>,
}

impl Quotas {
    /// Returns an empty table; [`load`](Self::load) fills the table.
    pub fn new(log: &Arc<dyn Log>) -> Self {
        let (log, rates) = (Arc::clone(log), RateLimits::new(log));
        Self { rates, log, active: RwLock::default(), reading: Mutex::default() }
    }

    /// Loads all quotas, also after a quota was written. Unchanged quotas keep their running count.
    /// A quota that cannot be read is logged and skipped, so that it blocks no request.
    ///
    /// # Errors
    /// The store's failure to list the quotas.
    pub async fn load(&self, store: &Arc<Store>) -> Result<(), Failure> {
        let _alone = self.reading.lock().await;
        let mut loaded = Vec::new();
        for name in names::<LeaseCountQuota>(&mut store.begin(), "", usize::MAX).await? {
            match read(&mut store.begin(), &name).await {
                Ok(Some(quota)) => {
                    let tally = self.tally_of(&quota).unwrap_or_default();
                    let violations = self.violations_of(&name);
                    loaded.push(Arc::new(ActiveLeaseQuota { name, quota, tally, violations }));
                }
                Ok(None) => {}
                Err(failure) => {
                    let pairs = [("quota", name), cause(&failure)];
                    self.log.line(LogLevel::Error, "quota-unreadable", &pairs);
                }
            }
        }
        *sync::write(&self.active) = loaded;
        self.rates.load(store).await
    }

    /// Returns the running count for the quota's path. If the limit changed, only the running calls
    /// are kept, because the old count stopped at the old limit.
    fn tally_of(&self, quota: &LeaseCountQuota) -> Option<Arc<LeaseTally>> {
        let active = sync::read(&self.active);
        let found = active.iter().find(|active| active.quota.place == quota.place)?;
        let is_as_it_was = found.quota == *quota;
        Some(if is_as_it_was {
            Arc::clone(&found.tally)
        } else {
            Arc::new(found.tally.without_count())
        })
    }

    /// Returns the running number of violations of the quota `name`.
    fn violations_of(&self, name: &str) -> Arc<AtomicU64> {
        let active = sync::read(&self.active);
        let found = active.iter().find(|active| active.name == name);
        found.map(|active| Arc::clone(&active.violations)).unwrap_or_default()
    }

    /// Returns the number of refused requests of each lease-count quota.
    pub fn lease_violations(&self) -> Vec<(String, u64)> {
        let count = |active: &Arc<ActiveLeaseQuota>| {
            (active.name.clone(), active.violations.load(Ordering::Relaxed))
        };
        sync::read(&self.active).iter().map(count).collect()
    }

    /// Lets in a call that may create a lease of the mount at the path `below`. If several quotas
    /// count the lease, the longest path applies, and a mount's quota applies before the overall
    /// quota.
    ///
    /// # Errors
    /// 429 if the quota is used up. The store's failure.
    pub async fn admit(
        &self,
        store: &Store,
        mount: &str,
        below: &str,
    ) -> Result<Option<LeaseSlot>, Failure> {
        let Some(active) = self.deciding_quota(mount, below) else { return Ok(None) };
        let ActiveLeaseQuota { name, quota, tally, violations } = &*active;
        let most = u64::from(quota.max_leases);
        match tally.admit(most, async || quota.count(store).await).await? {
            Some(place) => Ok(Some(place)),
            None => {
                violations.fetch_add(1, Ordering::Relaxed);
                Err(Failure::new(
                    FailureKind::RateLimited,
                    format!(
                        "lease count quota exceeded: {most} leases are allowed here by the quota \
                         {}; revoke unneeded leases, wait until some end, or raise max_leases at \
                         sys/quotas/lease-count/{name}",
                        quoted(name)
                    ),
                ))
            }
        }
    }

    fn deciding_quota(&self, mount: &str, below: &str) -> Option<Arc<ActiveLeaseQuota>> {
        let active = sync::read(&self.active);
        let counting =
            active.iter().filter(|active| active.quota.place.contains_path(mount, below));
        counting.max_by_key(|active| active.quota.place.precision()).map(Arc::clone)
    }

    /// Returns the usage of each quota.
    ///
    /// # Errors
    /// The store's failure.
    pub async fn read_usage(&self, store: &Store) -> Result<Vec<QuotaUsage>, Failure> {
        let all: Vec<_> = sync::read(&self.active).iter().map(Arc::clone).collect();
        let mut usage = Vec::with_capacity(all.len());
        for active in all {
            let counter = active.quota.count(store).await?;
            let max_leases = active.quota.max_leases.into();
            usage.push(QuotaUsage { name: active.name.clone(), max_leases, counter });
        }
        Ok(usage)
    }

    /// Deletes the quotas of a removed mount.
    ///
    /// # Errors
    /// The store's failure; the quotas then still exist.
    pub async fn forget_mount(&self, store: &Arc<Store>, mount: &str) -> Result<(), Failure> {
        let of_mount = |active: &&Arc<ActiveLeaseQuota>| active.quota.place.mount == mount;
        let names: Vec<String> = {
            let active = sync::read(&self.active);
            active.iter().filter(of_mount).map(|active| active.name.clone()).collect()
        };
        let rates = self.rates.of_mount(mount);
        if names.is_empty() && rates.is_empty() {
            return Ok(());
        }
        let mut unit = store.begin();
        names.iter().for_each(|name| delete::<LeaseCountQuota>(&mut unit, name));
        rates.iter().for_each(|name| delete::<RateLimitQuota>(&mut unit, name));
        unit.commit().await?;
        self.load(store).await
    }
}

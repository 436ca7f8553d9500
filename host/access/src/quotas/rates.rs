//! The rate-limit quotas of an open store, checked by every request.
//!
//! This file prevents a client in a loop from taking the processors of everybody. A quota counts
//! each client by its address, before its token is looked at, and refuses without calling a
//! component.

use super::place::QuotaPlace;
use super::rate_limit::{RateLimitConfig, RateLimitQuota, read_config};
use super::record::{names, read};
use crate::client_buckets::ClientBuckets;
use crate::log::{Log, cause};
use bulkhead_store::Store;
use bulkhead_wire::client::Client;
use bulkhead_wire::failure::{Failure, FailureKind, quoted};
use bulkhead_wire::log_level::LogLevel;
use bulkhead_wire::sync;
use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, RwLock};
use std::time::{Duration, Instant};

/// Paths without a rate limit in any case: the health of the service, and its unsealing.
const ALWAYS_EXEMPT: [&str; 6] = [
    "sys/health",
    "sys/seal-status",
    "sys/unseal",
    "sys/generate-root/attempt",
    "sys/generate-root/update",
    "sys/quotas",
];

/// All rate-limit quotas, in memory.
pub struct RateLimits {
    log: Arc<dyn Log>,
    active: RwLock<ActiveRateLimits>,
}

#[derive(Default)]
struct ActiveRateLimits {
    config: RateLimitConfig,
    quotas: Vec<Arc<ActiveRateQuota>>,
}

/// A quota with the budgets of its clients.
struct ActiveRateQuota {
    name: String,
    quota: RateLimitQuota,
    budgets: Mutex<QuotaBudgets>,
    /// Number of refused requests, also before a change of the quota.
    violations: Arc<AtomicU64>,
}

/// The budgets of a quota's clients.
#[derive(Default)]
struct QuotaBudgets {
    requests: ClientBuckets,
    /// The blocks of clients that were over the rate, each by its end.
    blocks: ClientBuckets,
}

/// A request that a quota refuses.
pub struct RateRefusal {
    /// The answer: 429 with the time of the next attempt.
    pub failure: Failure,
    /// True if the refusal is recorded in the audit log.
    pub is_audited: bool,
}

impl RateLimits {
    /// Returns an empty table; [`load`](Self::load) fills the table.
    pub(super) fn new(log: &Arc<dyn Log>) -> Self {
        Self { log: Arc::clone(log), active: RwLock::default() }
    }

    /// Loads all quotas and their settings. Unchanged quotas keep their budgets. A quota that
    /// cannot be read is logged and skipped, so that it blocks no request.
    ///
    /// # Errors
    /// The store's failure to list the quotas.
    pub(super) async fn load(&self, store: &Arc<Store>) -> Result<(), Failure> {
        let mut quotas = Vec::new();
        for name in names::<RateLimitQuota>(&mut store.begin(), "", usize::MAX).await? {
            match read(&mut store.begin(), &name).await {
                Ok(Some(quota)) => quotas.push(self.with_budgets(name, quota)),
                Ok(None) => {}
                Err(failure) => {
                    let pairs = [("quota", name), cause(&failure)];
                    self.log.line(LogLevel::Error, "quota-unreadable", &pairs);
                }
            }
        }
        let config = read_config(&mut store.begin()).await?;
        *sync::write(&self.active) = ActiveRateLimits { config, quotas };
        Ok(())
    }

    fn with_budgets(&self, name: String, quota: RateLimitQuota) -> Arc<ActiveRateQuota> {
        let active = sync::read(&self.active);
        let before = active.quotas.iter().find(|one| one.name == name);
        if let Some(same) = before.filter(|one| one.quota == quota) {
            return Arc::clone(same);
        }
        let violations = before.map(|one| Arc::clone(&one.violations)).unwrap_or_default();
        Arc::new(ActiveRateQuota { name, quota, budgets: Mutex::default(), violations })
    }

    /// Returns the number of refused requests of each quota.
    pub fn violations(&self) -> Vec<(String, u64)> {
        let active = sync::read(&self.active);
        let count =
            |one: &Arc<ActiveRateQuota>| (one.name.clone(), one.violations.load(Ordering::Relaxed));
        active.quotas.iter().map(count).collect()
    }

    /// Returns whether there is any quota.
    pub fn is_empty(&self) -> bool {
        sync::read(&self.active).quotas.is_empty()
    }

    /// Takes a request to `path` from the budget of `remote`'s client. `place` is the path's mount,
    /// by its row prefix, and the path below the mount. If several quotas hold the path, the most
    /// precise quota applies.
    ///
    /// # Errors
    /// 429 with the time after which the client has a request again.
    pub fn admit(
        &self,
        path: &str,
        (mount, below): (&str, &str),
        remote: IpAddr,
    ) -> Result<(), RateRefusal> {
        let active = sync::read(&self.active);
        let is_at = |exempt: &str| {
            let rest = path.strip_prefix(exempt.trim_matches('/'));
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        };
        if ALWAYS_EXEMPT.into_iter().any(is_at)
            || active.config.exempt_paths.iter().any(|exempt| is_at(exempt))
        {
            return Ok(());
        }
        let holding =
            active.quotas.iter().filter(|one| one.quota.place.contains_path(mount, below));
        let Some(one) = holding.max_by_key(|one| one.quota.place.precision()) else {
            return Ok(());
        };
        let is_audited = active.config.audits_refusals;
        let taken = one.take(Client::of(remote), Instant::now());
        taken.map_err(|wait| RateRefusal { failure: one.refusal(wait), is_audited })
    }

    /// Returns the names of the quotas of a mount.
    pub(super) fn of_mount(&self, mount: &str) -> Vec<String> {
        let active = sync::read(&self.active);
        let of_mount = |one: &&Arc<ActiveRateQuota>| {
            let QuotaPlace { mount: own, .. } = &one.quota.place;
            own == mount
        };
        active.quotas.iter().filter(of_mount).map(|one| one.name.clone()).collect()
    }
}

impl ActiveRateQuota {
    /// Takes a request from the client's budget, which holds the requests of one interval and grows
    /// evenly.
    ///
    /// # Errors
    /// The time after which the client has a request again.
    fn take(&self, client: Client, now: Instant) -> Result<(), Duration> {
        let RateLimitQuota { rate, interval, block_interval, .. } = &self.quota;
        let interval = Duration::from_secs(*interval);
        let one = interval.div_f64(*rate);
        // A rate below 1 still lets one request in at once.
        let most = interval.max(one);
        let block = Duration::from_secs(*block_interval);
        let mut budgets = sync::lock(&self.budgets);
        let QuotaBudgets { requests, blocks } = &mut *budgets;
        if !block.is_zero() && *blocks.full_at(client, now) > now {
            return Err(*blocks.full_at(client, now) - now);
        }
        let full_at = requests.full_at(client, now);
        let next = (*full_at).max(now) + one;
        if next <= now + most {
            *full_at = next;
            return Ok(());
        }
        let wait = next - (now + most);
        if block <= wait {
            return Err(wait);
        }
        *blocks.full_at(client, now) = now + block;
        Err(block)
    }

    /// Counts a violation, and returns its refusal.
    fn refusal(&self, wait: Duration) -> Failure {
        self.violations.fetch_add(1, Ordering::Relaxed);
        let (name, seconds) = (quoted(&self.name), wait.as_secs().max(1));
        let message = format!(
            "rate limit quota exceeded: the quota {name} allows {} requests in {} s; try again in \
             {seconds} s",
            self.quota.rate, self.quota.interval
        );
        let retry_after = Some(seconds * 1_000);
        Failure { retry_after, ..Failure::new(FailureKind::RateLimited, message) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn quota(rate: f64, interval: u64, block_interval: u64) -> ActiveRateQuota {
        let quota = RateLimitQuota { place: QuotaPlace::default(), rate, interval, block_interval };
        let (name, violations) = ("q".to_owned(), Arc::default());
        ActiveRateQuota { name, quota, budgets: Mutex::default(), violations }
    }

    fn client(text: &str) -> Client {
        Client::of(text.parse().unwrap())
    }

    #[test]
    fn rate_quota_limits_each_client_separately_per_interval() {
        let (quota, now) = (quota(5.0, 10, 0), Instant::now());
        let taken = |who: &str, now| quota.take(client(who), now);
        let admitted = (0..20).filter(|_| taken("192.0.2.1", now).is_ok()).count();
        assert_eq!(admitted, 5);
        assert_eq!(taken("192.0.2.1", now), Err(Duration::from_secs(2)));
        assert_eq!(taken("192.0.2.2", now), Ok(()));
        quota.refusal(Duration::from_secs(2));
        assert_eq!(quota.violations.load(Ordering::Relaxed), 1);
        let later = now + Duration::from_secs(2);
        assert_eq!(taken("192.0.2.1", later), Ok(()));
        assert!(taken("192.0.2.1", later).is_err());
    }

    #[test]
    fn rate_below_one_admits_one_request_then_blocks() {
        let (quota, now) = (quota(0.5, 1, 60), Instant::now());
        let one = client("192.0.2.1");
        assert_eq!(quota.take(one, now), Ok(()));
        assert_eq!(quota.take(one, now), Err(Duration::from_mins(1)));
        let before_the_end = now + Duration::from_secs(59);
        assert_eq!(quota.take(one, before_the_end), Err(Duration::from_secs(1)));
        assert_eq!(quota.take(one, now + Duration::from_mins(1)), Ok(()));
    }
}

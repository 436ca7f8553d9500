//! Stored form of a rate-limit quota, and of the settings of all such quotas.

use super::place::QuotaPlace;
use super::record::Quota;
use bulkhead_store::{Address, IndexColumns, Space, Unit};
use bulkhead_wire::failure::Failure;
use bulkhead_wire::stored;
use bulkhead_wire::stored::Stored;
use serde::{Deserialize, Serialize};

/// Key of the settings.
const CONFIG: &str = "quota-config";

/// Maximum rate of the requests of one client at a path.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RateLimitQuota {
    /// The paths of the quota.
    #[serde(flatten)]
    pub place: QuotaPlace,
    /// Requests of a client in an interval; greater than 0.
    pub rate: f64,
    /// Length of the interval in seconds; greater than 0.
    pub interval: u64,
    /// Seconds for which a client over the rate is refused altogether; 0 for none.
    #[serde(default)]
    pub block_interval: u64,
}

stored!(RateLimitQuota, "rate-limit-quota", reads_stored_rate_limit_quotas);

impl Quota for RateLimitQuota {
    const PREFIX: &'static str = "quota/rate-limit/";
    const WORDS: &'static str = "rate-limit quota";

    fn place(&self) -> &QuotaPlace {
        &self.place
    }
}

/// The settings of all rate-limit quotas.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RateLimitConfig {
    /// Records refused requests in the audit log.
    #[serde(default)]
    pub audits_refusals: bool,
    /// Paths without a rate limit.
    #[serde(default)]
    pub exempt_paths: Vec<String>,
}

stored!(RateLimitConfig, "rate-limit-config", reads_stored_rate_limit_configs);

fn config_address() -> Address {
    Address::new(Space::Core, CONFIG.to_owned())
}

/// Reads the settings; the defaults if none were written.
///
/// # Errors
/// The store's failure; 500 for a row that does not parse.
pub async fn read_config(unit: &mut Unit) -> Result<RateLimitConfig, Failure> {
    let Some(record) = unit.get(&config_address()).await? else {
        return Ok(RateLimitConfig::default());
    };
    RateLimitConfig::from_bytes(&record.body)
        .map_err(|unreadable| unreadable.of(format_args!("the stored settings of the quotas")))
}

/// Writes the settings into the unit of work.
///
/// # Errors
/// 500 if the settings cannot be serialised.
pub fn put_config(unit: &mut Unit, config: &RateLimitConfig) -> Result<(), Failure> {
    unit.put(config_address(), config.to_bytes()?, IndexColumns::default());
    Ok(())
}

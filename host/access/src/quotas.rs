//! Quotas at a mount, at a path below a mount, or overall: limits on the number of leases, and on
//! the rate of a client's requests.
//!
//! A lease-count quota prevents a client in a loop from requesting credentials until the target has
//! no room for users and the store none for leases. A request over the quota is refused before a
//! component is called, so that nothing outside changes. Quotas do not know the content of a lease.

mod lease_count;
mod place;
mod rate_limit;
mod rates;
mod record;
mod table;
mod tally;

pub use lease_count::LeaseCountQuota;
pub use place::QuotaPlace;
pub use rate_limit::{RateLimitConfig, RateLimitQuota, put_config, read_config};
pub use rates::RateRefusal;
pub use record::{Quota, delete, names, put, read};
pub use table::{QuotaUsage, Quotas};
pub use tally::LeaseSlot;

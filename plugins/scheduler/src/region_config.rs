//! The stored configuration of a mount's region, and the checks of its values.

use crate::query::go_duration;
use bulkhead_sdk::database_plugin::StoreTime;
use bulkhead_sdk::trusted_certificates;
use bulkhead_sdk::{Call, Failure, Host};
use serde::{Deserialize, Serialize};
use std::time::Duration;

pub(crate) const KEY: &str = "config";
/// Default name of a region.
const DEFAULT_REGION: &str = "global";
/// Maximum lengths, in bytes, of a region's name, an address, and the certificates.
const LONGEST_REGION: usize = 128;
const LONGEST_ADDRESS: usize = 256;
const LONGEST_CERTIFICATE: usize = 64 * 1024;
/// Maximum number of addresses of the authoritative region.
const MOST_ADDRESSES: usize = 8;
/// Default and minimum pause after a failed round of replication, in milliseconds.
const BACKOFF: u64 = 30_000;
const SHORTEST_BACKOFF: u64 = 100;

/// The stored configuration. No `Debug`: it contains the replication token.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct RegionConfig {
    pub(crate) region: String,
    /// If empty or equal to `region`, this region is authoritative.
    pub(crate) authoritative_region: String,
    /// Base URLs without a trailing slash.
    pub(crate) addresses: Vec<String>,
    pub(crate) replication_token: String,
    pub(crate) ca_certificate: String,
    /// Milliseconds.
    pub(crate) replication_backoff: u64,
    /// Milliseconds; 0 means no limit.
    pub(crate) max_stale: u64,
    /// Store time of the last write. Until the first round of replication, the replica's age counts
    /// from this time.
    pub(crate) since: StoreTime,
}

bulkhead_sdk::stored!(RegionConfig, "region-config", reads_stored_region_configs);

impl Default for RegionConfig {
    fn default() -> Self {
        Self {
            region: DEFAULT_REGION.to_owned(),
            authoritative_region: String::new(),
            addresses: Vec::new(),
            replication_token: String::new(),
            ca_certificate: String::new(),
            replication_backoff: BACKOFF,
            max_stale: 0,
            since: 0,
        }
    }
}

impl RegionConfig {
    /// Returns the stored configuration, or the default of a single region.
    ///
    /// # Errors
    /// Failures of the store.
    pub(crate) fn stored(host: &dyn Host) -> Result<Self, Failure> {
        Ok(host.storage().get(KEY)?.unwrap_or_default())
    }

    /// Returns true if another region is authoritative.
    #[must_use]
    pub(crate) fn is_replica(&self) -> bool {
        !self.authoritative_region.is_empty() && self.authoritative_region != self.region
    }

    /// Merges the fields of a write.
    ///
    /// # Errors
    /// Invalid request for a value of the wrong type.
    pub(crate) fn merge(&mut self, call: &Call) -> Result<(), Failure> {
        call.merge("region", &mut self.region)?;
        call.merge("authoritative_region", &mut self.authoritative_region)?;
        call.merge("addresses", &mut self.addresses)?;
        call.merge("replication_token", &mut self.replication_token)?;
        call.merge("ca_certificate", &mut self.ca_certificate)?;
        merge_duration(call, "replication_backoff", &mut self.replication_backoff, BACKOFF)?;
        merge_duration(call, "max_stale", &mut self.max_stale, 0)?;
        if self.region.is_empty() {
            DEFAULT_REGION.clone_into(&mut self.region);
        }
        // A token that was read from a file often ends with a newline.
        self.replication_token = self.replication_token.trim().to_owned();
        for address in &mut self.addresses {
            *address = address.trim().trim_end_matches('/').to_owned();
        }
        Ok(())
    }

    /// Refuses unusable settings or combinations of settings.
    ///
    /// # Errors
    /// Invalid request that names the setting.
    pub(crate) fn check(&self, host: &dyn Host) -> Result<(), Failure> {
        check_region("region", &self.region)?;
        if !self.authoritative_region.is_empty() {
            check_region("authoritative_region", &self.authoritative_region)?;
        }
        if self.replication_backoff < SHORTEST_BACKOFF {
            return Err(Failure::invalid(format!(
                "replication_backoff is {} ms; give 100ms or more",
                self.replication_backoff
            )));
        }
        if self.addresses.len() > MOST_ADDRESSES {
            return Err(Failure::invalid(format!(
                "addresses has {} URLs; give at most {MOST_ADDRESSES}",
                self.addresses.len()
            )));
        }
        self.addresses.iter().try_for_each(|address| check_address(address))?;
        if !self.replication_token.is_empty() && !is_header_text(&self.replication_token) {
            return Err(Failure::invalid(
                "replication_token has a character outside printable ASCII; give the SecretID of a \
                 management token of the authoritative region",
            ));
        }
        self.check_certificate(host)?;
        self.check_combination()
    }

    fn check_certificate(&self, host: &dyn Host) -> Result<(), Failure> {
        if self.ca_certificate.len() > LONGEST_CERTIFICATE {
            return Err(Failure::invalid("ca_certificate has at most 64 KiB"));
        }
        trusted_certificates::check(host, "ca_certificate", &self.ca_certificate)
    }

    /// Refuses incomplete or contradictory combinations of settings.
    fn check_combination(&self) -> Result<(), Failure> {
        if self.is_replica() {
            let missing = if self.addresses.is_empty() {
                "addresses is empty: give the base URL of the region's API"
            } else if self.replication_token.is_empty() {
                "replication_token is missing: give a management token of the region"
            } else {
                return Ok(());
            };
            let region = &self.authoritative_region;
            return Err(Failure::invalid(format!(
                "authoritative_region is {region:?} and {missing}"
            )));
        }
        if !self.addresses.is_empty() || !self.replication_token.is_empty() {
            return Err(Failure::invalid(
                "addresses and replication_token are for a region with another authoritative \
                 region: give authoritative_region too, or leave both out",
            ));
        }
        Ok(())
    }
}

/// Parses a duration in Go's format into milliseconds; an empty text gives `or`.
fn merge_duration(call: &Call, field: &str, into: &mut u64, or: u64) -> Result<(), Failure> {
    if !call.is_given(field) {
        return Ok(());
    }
    let text = call.text(field);
    if text.is_empty() {
        *into = or;
        return Ok(());
    }
    let duration: Duration = go_duration(text).ok_or_else(|| {
        Failure::invalid(format!(
            "{field} {text:?} is not a duration; give a duration such as \"30s\""
        ))
    })?;
    *into = u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
    Ok(())
}

fn check_region(field: &str, name: &str) -> Result<(), Failure> {
    let is_name = (1..=LONGEST_REGION).contains(&name.len())
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte));
    if is_name {
        return Ok(());
    }
    Err(Failure::invalid(format!(
        "{field} {name:?} is not a name of a region; give 1 to 128 letters, digits, `-`, `_` and \
         `.`"
    )))
}

fn check_address(address: &str) -> Result<(), Failure> {
    let rest = ["http://", "https://"].iter().find_map(|scheme| address.strip_prefix(scheme));
    let is_plain = rest.is_some_and(|rest| {
        !rest.is_empty()
            && !rest.starts_with('/')
            && rest.bytes().all(|byte| byte.is_ascii_graphic() && !b"?#@\\".contains(&byte))
    });
    if is_plain && address.len() <= LONGEST_ADDRESS {
        return Ok(());
    }
    // The address is not repeated, because its user part may contain a password.
    Err(Failure::invalid(
        "addresses holds a text that is not a base URL; give a URL such as \
         \"https://scheduler.example:4646\", at most 256 bytes, without user, query and fragment",
    ))
}

fn is_header_text(token: &str) -> bool {
    token.len() <= 512 && token.bytes().all(|byte| byte.is_ascii_graphic())
}

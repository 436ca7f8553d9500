//! The endpoint `config`: the region that the mount serves, and the authoritative region that it
//! follows.
//!
//! This file prevents the replication token from being read back (CVE-2019-12741), and from being
//! sent to a server that the token was not written for (decision P22).

use crate::region_config::{KEY, RegionConfig};
use crate::replicate;
use bulkhead_sdk::destination::{self, CredentialField, DestinationField};
use bulkhead_sdk::table::Field;
use bulkhead_sdk::{Answer, Call, Failure, Host};
use serde_json::json;

/// Fields of the configuration.
pub(crate) const FIELDS: &[Field] = &[
    Field::text("region", "name of the mount's region; `global` where empty"),
    Field::text(
        "authoritative_region",
        "name of the region with the roles and policies for this mount",
    ),
    Field::words("addresses", "base URLs of the authoritative region's API, in order"),
    Field::text("replication_token", "a management token of the authoritative region").secret(),
    Field::text("ca_certificate", "PEM of the authorities of the authoritative region's servers"),
    Field::text("replication_backoff", "pause after a failed round of replication, such as `30s`"),
    Field::text("max_stale", "maximum age of a replica for reads, such as `5m`; empty for any age"),
];

/// Writes the configuration and starts or stops replication.
///
/// # Errors
/// Invalid request for unusable settings or combinations of settings.
pub(crate) fn write(host: &dyn Host, call: &Call) -> Result<Answer, Failure> {
    let before = RegionConfig::stored(host)?;
    let mut config = before.clone();
    config.merge(call)?;
    config.check(host)?;
    let is_elsewhere = destination::has_another(
        before.addresses.iter().map(String::as_str),
        config.addresses.iter().map(String::as_str),
    );
    let places = [
        DestinationField::of("addresses", is_elsewhere),
        DestinationField::of("ca_certificate", config.ca_certificate != before.ca_certificate),
    ];
    let credentials = [CredentialField::of("replication_token", &before.replication_token)];
    destination::check(call, &places, &credentials)?;
    config.since = host.clock().now();
    host.storage().put(KEY, &config)?;
    // Indexes of one server's history are meaningless at another server.
    let is_other = is_elsewhere || config.authoritative_region != before.authoritative_region;
    replicate::begin(host, &config, is_other)?;
    Ok(Answer::nothing())
}

/// Shows the configuration without the replication token.
///
/// # Errors
/// Failures of the store.
pub(crate) fn read(host: &dyn Host, _call: &Call) -> Result<Answer, Failure> {
    let config = RegionConfig::stored(host)?;
    Answer::data(&json!({
        "region": config.region,
        "authoritative_region": config.authoritative_region,
        "addresses": config.addresses,
        "ca_certificate": config.ca_certificate,
        "replication_backoff": format!("{}ms", config.replication_backoff),
        "max_stale": format!("{}ms", config.max_stale),
    }))
}

/// Removes the configuration. The region is then authoritative, and keeps its records.
///
/// # Errors
/// Failures of the store.
pub(crate) fn delete(host: &dyn Host, _call: &Call) -> Result<Answer, Failure> {
    host.storage().delete(KEY)?;
    replicate::begin(host, &RegionConfig::default(), true)?;
    Ok(Answer::nothing())
}

#[cfg(test)]
mod tests;

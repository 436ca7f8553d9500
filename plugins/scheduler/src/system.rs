//! The few endpoints outside of the ACL system that generic clients ask for.

use crate::caller::authenticate;
use crate::config::RegionConfig;
use crate::refusal::Refusal;
use crate::reply::Reply;
use crate::request::ApiRequest;
use crate::tokens;
use serde_json::json;

/// `GET /v1/regions`. No token is asked for.
///
/// # Errors
/// Those of the store.
pub(crate) fn regions(request: &ApiRequest<'_>) -> Result<Reply, Refusal> {
    let config = RegionConfig::stored(request.host)?;
    let mut regions = vec![config.region.as_str()];
    if config.is_replica() {
        regions.push(&config.authoritative_region);
    }
    regions.sort_unstable();
    Reply::plain(&regions, request.is_pretty())
}

/// `GET /v1/status/leader`. No token is asked for.
///
/// # Errors
/// Internal for what is no JSON.
pub(crate) fn leader(request: &ApiRequest<'_>) -> Result<Reply, Refusal> {
    Reply::plain(&json!("127.0.0.1:4647"), request.is_pretty())
}

/// `GET /v1/status/peers`. No token is asked for.
///
/// # Errors
/// Internal for what is no JSON.
pub(crate) fn peers(request: &ApiRequest<'_>) -> Result<Reply, Refusal> {
    Reply::plain(&json!(["127.0.0.1:4647"]), request.is_pretty())
}

/// `GET /v1/agent/health`. No token is asked for.
///
/// # Errors
/// Internal for what is no JSON.
pub(crate) fn health(request: &ApiRequest<'_>) -> Result<Reply, Refusal> {
    let health = json!({ "server": { "message": "ok", "ok": true } });
    Reply::plain(&health, request.is_pretty())
}

/// `PUT /v1/system/gc`: removes expired tokens at once, however young.
///
/// # Errors
/// 403.
pub(crate) fn collect_garbage(request: &ApiRequest<'_>) -> Result<Reply, Refusal> {
    authenticate(request)?.demand_management()?;
    tokens::remove_expired(request.host)?;
    Ok(Reply::bare())
}

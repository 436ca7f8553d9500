//! Endpoints outside the ACL system that generic clients use.

use crate::caller::authenticate_manager;
use crate::refusal::ApiRefusal;
use crate::region_config::RegionConfig;
use crate::reply::ApiReply;
use crate::request::ApiRequest;
use crate::token_records;
use serde_json::json;

/// Serves `GET /v1/regions`. Needs no token.
///
/// # Errors
/// Failures of the store.
pub(crate) fn regions(request: &ApiRequest<'_>) -> Result<ApiReply, ApiRefusal> {
    let config = RegionConfig::stored(request.host)?;
    let mut regions = vec![config.region.as_str()];
    if config.is_replica() {
        regions.push(&config.authoritative_region);
    }
    regions.sort_unstable();
    ApiReply::plain(&regions, request.is_pretty())
}

/// Serves `GET /v1/status/leader`. Needs no token.
///
/// # Errors
/// Internal if the answer cannot be serialized.
pub(crate) fn leader(request: &ApiRequest<'_>) -> Result<ApiReply, ApiRefusal> {
    ApiReply::plain(&json!("127.0.0.1:4647"), request.is_pretty())
}

/// Serves `GET /v1/status/peers`. Needs no token.
///
/// # Errors
/// Internal if the answer cannot be serialized.
pub(crate) fn peers(request: &ApiRequest<'_>) -> Result<ApiReply, ApiRefusal> {
    ApiReply::plain(&json!(["127.0.0.1:4647"]), request.is_pretty())
}

/// Serves `GET /v1/agent/health`. Needs no token.
///
/// # Errors
/// Internal if the answer cannot be serialized.
pub(crate) fn health(request: &ApiRequest<'_>) -> Result<ApiReply, ApiRefusal> {
    let health = json!({ "server": { "message": "ok", "ok": true } });
    ApiReply::plain(&health, request.is_pretty())
}

/// Serves `PUT /v1/system/gc`: removes expired tokens at once, even if they were created recently.
///
/// # Errors
/// 403.
pub(crate) fn collect_garbage(request: &ApiRequest<'_>) -> Result<ApiReply, ApiRefusal> {
    authenticate_manager(request)?;
    token_records::remove_expired(request.host)?;
    Ok(ApiReply::bare())
}

//! `sys/host-info`: what this server is.

use super::call::Call;
use super::reply::{Body, Reply};
use super::row::{Endpoint, read};
use bulkhead_wire::failure::Failure;
use serde_json::{Map, json};

/// The rows of this file.
pub(super) fn rows() -> Vec<Endpoint> {
    vec![read("sys/host-info", "what this server is").handled_by(host_info)]
}

/// `GET sys/host-info`.
async fn host_info(call: Call<'_>) -> Result<Reply, Failure> {
    let mut data = Map::new();
    data.insert("api_addr".to_owned(), json!(call.core.process.settings.api_address));
    Ok(Body::Data(data).into())
}

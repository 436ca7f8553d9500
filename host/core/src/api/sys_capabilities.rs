//! `sys/capabilities-self`: what the calling token may do on some paths.

use super::{Body, HostCall, Reply};
use crate::core::Core;
use bulkhead_wire::failure::Failure;
use serde_json::{Map, json};

/// `POST sys/capabilities-self`. With one path, `capabilities` repeats its list.
pub(super) async fn of_self(core: &Core, call: &HostCall<'_>) -> Result<Reply, Failure> {
    let acl = core.policies.acl(&core.store, &call.caller.record.policies).await?;
    let paths = call.list("paths");
    let mut data = Map::new();
    for path in &paths {
        data.insert(path.clone(), json!(acl.capabilities(path.trim_start_matches('/'))));
    }
    if let [only] = paths.as_slice() {
        data.insert("capabilities".to_owned(), json!(acl.capabilities(only.trim_start_matches('/'))));
    }
    Ok(Body::Copied(data).into())
}

//! `sys/seal-status`: the progress of unsealing (decision H15).

use super::call::SealedCall;
use super::row::{Endpoint, read};
use bulkhead_access::version_history::BUILD_DATE;
use bulkhead_core::seal::ServiceSeal;
use bulkhead_wire::failure::Failure;
use bulkhead_wire::response::Response;
use serde_json::{Value, json};

/// Warning while enough shares came from several addresses and do not open the data.
const WRONG_SHARE: &str = "enough shares came from different addresses, and at least one share is \
                           wrong; give correct shares: each share is tried with all others";

/// Returns the rows of this file.
pub(super) fn rows() -> Vec<Endpoint> {
    vec![read("sys/seal-status", "how the store is sealed").while_sealed(seal_status)]
}

/// `GET sys/seal-status`.
async fn seal_status(call: SealedCall<'_>) -> Result<Response, Failure> {
    show(call.seal).await
}

/// Returns the current status. An unseal request is answered with the status, too.
pub(super) async fn show(seal: &ServiceSeal) -> Result<Response, Failure> {
    let status = seal.status().await?;
    let date = BUILD_DATE.unwrap_or_default();
    let mut body = json!({
        "type": status.kind,
        "initialized": status.initialized,
        "sealed": status.sealed,
        "t": status.config.map_or(0, |config| config.threshold),
        "n": status.config.map_or(0, |config| config.shares),
        "progress": status.progress,
        "nonce": status.nonce,
        "version": seal.settings().reported_version,
        "bulkhead_version": env!("CARGO_PKG_VERSION"),
        // The same date under 2 names, for 2 families of clients.
        "build_date": date,
        "commit_date": date,
        "migration": status.awaits_migration,
        "recovery_seal": status.is_automatic,
        "ha_enabled": seal.settings().store.is_shared(),
        "storage_type": seal.settings().store.database.kind(),
    });
    name_cluster(&mut body, status.cluster_id);
    if let (true, Value::Object(members)) = (status.is_automatic, &mut body) {
        members.insert("recovery_seal_type".to_owned(), json!("shamir"));
    }
    if let (true, Value::Object(members)) = (status.has_wrong_share, &mut body) {
        members.insert("warnings".to_owned(), json!([WRONG_SHARE]));
    }
    if let (Some(reason), Value::Object(members)) = (suspension(seal), &mut body) {
        members.insert("due_work_suspended".to_owned(), json!(reason));
    }
    Ok(Response::bare(200, body))
}

/// Returns the reason for which due work waits, with the remedy; `None` if due work runs, or the
/// service is sealed.
fn suspension(seal: &ServiceSeal) -> Option<String> {
    let suspension = seal.core()?.due_work_suspension()?;
    Some(format!("{}; {}", suspension.reason(), suspension.remedy()))
}

/// Adds the cluster's name and id, if the cluster is initialised.
pub(super) fn name_cluster(body: &mut Value, cluster_id: Option<String>) {
    if let (Some(id), Value::Object(members)) = (cluster_id, body) {
        members.insert("cluster_name".to_owned(), json!("bulkhead"));
        members.insert("cluster_id".to_owned(), json!(id));
    }
}

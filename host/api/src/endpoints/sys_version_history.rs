//! `sys/version-history`: the versions of this program that opened the data.

use super::call::PermittedCall;
use super::reply::{Reply, ReplyBody};
use super::row::{Endpoint, list};
use bulkhead_access::timestamp::timestamp;
use bulkhead_access::version_history::VersionHistory;
use bulkhead_wire::failure::Failure;
use serde_json::{Map, Value, json};

/// Returns the rows of this file.
pub(super) fn rows() -> Vec<Endpoint> {
    let about = "the versions on this data, in the order of first use";
    vec![list("sys/version-history", about).handled_by(show)]
}

/// `LIST sys/version-history`.
async fn show(call: PermittedCall<'_>) -> Result<Reply, Failure> {
    let VersionHistory { versions } = VersionHistory::read(&call.core.store).await?;
    let mut previous = Value::Null;
    let mut about = Map::new();
    for installed in &versions {
        let shown = json!({
            "build_date": installed.built,
            "previous_version": previous,
            "timestamp_installed": timestamp(installed.installed),
        });
        about.insert(installed.version.clone(), shown);
        previous = json!(installed.version);
    }
    let keys: Vec<&str> = versions.iter().map(|it| it.version.as_str()).collect();
    let data = [("keys", json!(keys)), ("key_info", Value::Object(about))];
    let data = data.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
    Ok(ReplyBody::Data(data).into())
}

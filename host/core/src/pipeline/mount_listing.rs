//! Serving a listing of a mount: its names are paged by the host, without running plugin code.

use super::answer;
use super::permitted_request::PermittedRequest;
use crate::mounts::Mount;
use crate::paging::Paging;
use bulkhead_store::{Space, Unit};
use bulkhead_wire::failure::Failure;
use bulkhead_wire::response::Response;
use bulkhead_wire::route;
use serde_json::{Map, Value, json};
use std::sync::Arc;

impl PermittedRequest<'_> {
    /// Answers the names below the prefix of its route.
    pub(super) async fn list_names(
        self,
        mount: &Arc<Mount>,
        mut unit: Unit,
    ) -> Result<Response, Failure> {
        let _inside = self.enter(mount)?;
        self.count(mount)?;
        let prefix = self.route.list.as_deref().unwrap_or_default();
        let prefix = route::fill(prefix, &self.destination.captures);
        let below = format!("{}/{prefix}", mount.record.uuid);
        let keys = read_names(&mut unit, &below, &self.request.fields).await?;
        unit.commit().await?;
        if keys.is_empty() {
            return Err(Failure::absent());
        }
        let mut data = Map::new();
        data.insert("keys".to_owned(), json!(keys));
        Ok(answer::respond(&self.request.id, mount, data, Vec::new()))
    }
}

/// Names below `prefix`: all, or as `after` and `limit` of the query say.
async fn read_names(
    unit: &mut Unit,
    prefix: &str,
    query: &Map<String, Value>,
) -> Result<Vec<String>, Failure> {
    let Paging { after, limit } = Paging::of(query)?;
    Ok(unit.names(Space::Data, prefix, &after, limit).await?)
}

//! Listings of a mount. The host pages the names without running plugin code.

use super::answer;
use super::permitted_request::PermittedRequest;
use crate::api;
use crate::mounts::Mount;
use crate::paging::{ListingText, Paging};
use bulkhead_store::Space;
use bulkhead_wire::failure::Failure;
use bulkhead_wire::listing::Listing;
use bulkhead_wire::response::Response;
use bulkhead_wire::route;
use serde_json::Map;
use std::sync::Arc;

impl PermittedRequest<'_> {
    /// Lists the names below the prefix of the route.
    pub(super) async fn list_names(self, mount: &Arc<Mount>) -> Result<Response, Failure> {
        self.count(mount)?;
        let prefix = self.route.list.as_deref().unwrap_or_default();
        let prefix = route::fill(prefix, &self.destination.captures);
        let below = format!("{}/{prefix}", mount.record.uuid);
        let listing = self.read_names(&below).await?.ok_or_else(Failure::absent)?;
        let envelope = answer::envelope(&self.request.id, mount, Vec::new());
        Ok(api::respond_listed(envelope, listing))
    }

    /// Returns the names below `prefix`, as far as `after` and `limit` of the query select them.
    /// The pages are read at different points in time.
    async fn read_names(&self, prefix: &str) -> Result<Option<Listing>, Failure> {
        let Paging { after, limit } = Paging::of(&self.request.fields)?;
        let mut text = ListingText::of_names(&self.core.listings);
        let mut scan = self.core.store.scan(Space::Data, prefix);
        if !after.is_empty() {
            scan.skip_to(format!("{prefix}{after}"));
        }
        while let Some(page) = scan.page().await? {
            for name in page.iter().filter_map(|address| address.key.strip_prefix(prefix)) {
                if text.entries() >= limit {
                    return Ok(text.end());
                }
                text.add(name, &Map::new()).await?;
            }
        }
        Ok(text.end())
    }
}

//! Listings of a mount. The host pages the names without running plugin code.

use super::answer;
use super::permitted_request::PermittedRequest;
use crate::endpoints;
use bulkhead_access::paging::{ListingText, Paging};
use bulkhead_core::mounts::Mount;
use bulkhead_store::Space;
use bulkhead_wire::failure::Failure;
use bulkhead_wire::listing::Listing;
use bulkhead_wire::response::Response;
use bulkhead_wire::route;
use serde_json::Map;
use std::sync::Arc;

/// Sorts after every key of a folder: keys never contain this unprintable character.
const LAST_CHAR: char = char::MAX;

impl PermittedRequest<'_> {
    /// Lists the names below the prefix of the route.
    pub(super) async fn list_names(self, mount: &Arc<Mount>) -> Result<Response, Failure> {
        self.count(mount)?;
        let prefix = self.route.list.as_deref().unwrap_or_default();
        let prefix = route::fill_pattern(prefix, &self.destination.captures);
        let below = format!("{}/{prefix}", mount.record.uuid);
        let listing = self.read_names(&below).await?.ok_or_else(Failure::absent)?;
        let envelope = answer::envelope(&self.request.id, mount, self.warn_of_unread());
        Ok(endpoints::respond_listed(envelope, listing))
    }

    /// Returns the names directly below `prefix`, as far as `after` and `limit` of the query select
    /// the names. The name of a folder ends in a slash. A folder is found by its first key; the
    /// other keys of the folder are skipped. The pages are read at different points in time.
    async fn read_names(&self, prefix: &str) -> Result<Option<Listing>, Failure> {
        let Paging { after, limit } = Paging::of(&self.request.fields)?;
        let mut text = ListingText::of_names(&self.core.listings);
        let mut scan = self.core.store.scan(Space::Data, prefix);
        match after.strip_suffix('/') {
            Some(folder) => scan.skip_to(format!("{prefix}{folder}/{LAST_CHAR}")),
            None if after.is_empty() => {}
            None => scan.skip_to(format!("{prefix}{after}")),
        }
        while let Some(page) = scan.page().await? {
            for name in page.iter().filter_map(|address| address.key.strip_prefix(prefix)) {
                if text.entries() >= limit {
                    return Ok(text.end());
                }
                let Some((folder, _)) = name.split_once('/') else {
                    text.add(name, &Map::new()).await?;
                    continue;
                };
                text.add(&format!("{folder}/"), &Map::new()).await?;
                scan.skip_to(format!("{prefix}{folder}/{LAST_CHAR}"));
                // The rest of the page is most likely in the same folder.
                break;
            }
        }
        Ok(text.end())
    }
}

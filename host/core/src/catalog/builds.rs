//! The builds of this program whose compiled code stays in the store: this build, and the build
//! that opened the store before.
//!
//! This file prevents a server that goes back to the release before from compiling every component
//! again.

use bulkhead_sandbox::compiled::BUILD;
use bulkhead_store::{Address, IndexColumns, Space, Store};
use bulkhead_wire::failure::Failure;
use bulkhead_wire::stored;
use bulkhead_wire::stored::Stored;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// The last two builds that opened the store.
#[derive(Default, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(super) struct RecentBuilds {
    present: String,
    /// Empty if only one build has opened the store.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    before: String,
}

stored!(RecentBuilds, "compiler-builds", reads_stored_builds);

impl RecentBuilds {
    /// Notes that this build opened the store. Returns the builds to keep code of.
    ///
    /// # Errors
    /// 503 if the store cannot be read or written.
    pub(super) async fn record_build(store: &Arc<Store>) -> Result<Self, Failure> {
        let address = Address::new(Space::Core, "compiler-builds");
        let mut finish = store.begin().finish();
        loop {
            let unit = finish.restart_host_part();
            let row = unit.get_undamaged(&address).await?;
            // An unreadable row costs a compilation after the next change of the build.
            let stored = row.and_then(|row| Self::from_bytes(&row.body).ok()).unwrap_or_default();
            if stored.present == BUILD {
                return Ok(stored);
            }
            let now = stored.followed_by(BUILD);
            unit.put(address.clone(), now.to_bytes()?, IndexColumns::default());
            if finish.try_commit().await? {
                return Ok(now);
            }
        }
    }

    fn followed_by(self, build: &str) -> Self {
        Self { present: build.to_owned(), before: self.present }
    }

    /// Reports whether code of `build` stays in the store.
    pub(super) fn keep(&self, build: &str) -> bool {
        !build.is_empty() && (build == self.present || build == self.before)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn previous_build_is_kept_and_older_build_dropped() {
        let first = RecentBuilds::default().followed_by("1");
        assert!(first.keep("1") && !first.keep("") && !first.keep("2"));
        let third = first.followed_by("2").followed_by("3");
        assert!(third.keep("3") && third.keep("2") && !third.keep("1"));
        let back = third.followed_by("2");
        assert!(back.keep("2") && back.keep("3"), "after going back, both stay: {back:?}");
    }
}

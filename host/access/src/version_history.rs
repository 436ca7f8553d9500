//! The versions of this program that opened the data, for `sys/version-history`.

use bulkhead_store::{Address, IndexColumns, Space, Store};
use bulkhead_wire::failure::Failure;
use bulkhead_wire::stored;
use bulkhead_wire::stored::Stored;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// Maximum number of versions; the oldest are forgotten.
const MOST: usize = 100;

/// The version of this program.
const VERSION: &str = env!("CARGO_PKG_VERSION");

/// Date of a release build. Clients only display the date.
pub const BUILD_DATE: Option<&str> = option_env!("BULKHEAD_BUILD_DATE");

/// The versions in the order in which they first opened the data.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct VersionHistory {
    /// Oldest version first. A version that returns after another version moves to the end.
    pub versions: Vec<InstalledVersion>,
}

/// A version.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct InstalledVersion {
    /// Semantic version of the program, unique within the history.
    pub version: String,
    /// Store time of the first opening, in seconds.
    pub installed: u64,
    /// `None`: a build that is not a release.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub built: Option<String>,
}

stored!(VersionHistory, "version-history", reads_stored_version_histories);

impl VersionHistory {
    fn address() -> Address {
        Address::new(Space::Core, "version-history")
    }

    /// Notes that this version opened the data, unless the history ends with this version.
    ///
    /// # Errors
    /// 503 if the store cannot be read or written.
    pub async fn note(store: &Arc<Store>) -> Result<(), Failure> {
        let mut finish = store.begin().finish();
        loop {
            let unit = finish.restart_host_part();
            let row = unit.get_undamaged(&Self::address()).await?;
            // An unreadable history must not keep the service from opening; it begins again.
            let history = row.and_then(|row| Self::from_bytes(&row.body).ok()).unwrap_or_default();
            let Some(history) = history.followed_by(VERSION, store.now() / 1_000) else {
                return Ok(());
            };
            unit.put(Self::address(), history.to_bytes()?, IndexColumns::default());
            // After a conflict, another process has opened the data at the same time.
            if finish.try_commit().await? {
                return Ok(());
            }
        }
    }

    /// Reads the history.
    ///
    /// # Errors
    /// 500 for a history that cannot be read, 503 if the store cannot be read.
    pub async fn read(store: &Arc<Store>) -> Result<Self, Failure> {
        let row = store.begin().get(&Self::address()).await?;
        let history = row.map(|row| Self::from_bytes(&row.body)).transpose();
        let history = history.map_err(|unreadable| unreadable.of("the version history"))?;
        Ok(history.unwrap_or_default())
    }

    /// Returns the history with `version` at its end; `None` if it is there. A version that comes
    /// back after another one is moved to the end, because a version is a key of the answer.
    fn followed_by(mut self, version: &str, now: u64) -> Option<Self> {
        if self.versions.last().is_some_and(|last| last.version == version) {
            return None;
        }
        self.versions.retain(|entry| entry.version != version);
        let built = BUILD_DATE.map(str::to_owned);
        self.versions.push(InstalledVersion { version: version.to_owned(), installed: now, built });
        let surplus = self.versions.len().saturating_sub(MOST);
        self.versions.drain(..surplus);
        Some(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(history: &VersionHistory) -> Vec<&str> {
        history.versions.iter().map(|it| it.version.as_str()).collect()
    }

    #[test]
    fn returning_version_is_noted_once_at_history_end() {
        let first = VersionHistory::default().followed_by("1", 10).unwrap();
        assert_eq!(first.clone().followed_by("1", 20), None);
        let back = first.followed_by("2", 20).unwrap().followed_by("1", 30).unwrap();
        assert_eq!(names(&back), ["2", "1"]);
        assert_eq!(back.versions[1].installed, 30);
    }

    #[test]
    fn the_history_is_bounded() {
        let mut history = VersionHistory::default();
        for number in 0..150 {
            history = history.followed_by(&number.to_string(), number).unwrap();
        }
        assert_eq!((history.versions.len(), names(&history)[0]), (100, "50"));
    }
}

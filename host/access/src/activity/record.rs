//! Stored form of the clients of a mount in a month, and of the settings.

use super::month::ActivityMonth;
use super::sketch::ClientSketch;
use bulkhead_store::{Address, IndexColumns, Record, Space, Store, StoreFault, Unit};
use bulkhead_wire::failure::Failure;
use bulkhead_wire::stored;
use bulkhead_wire::stored::Stored;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The name for tokens that no login created.
pub const TOKEN_MOUNT: &str = "token";

/// The name for the auth mounts above the maximum number of a month.
pub const OTHER_MOUNTS: &str = "other";

/// Number of months for which clients are stored, unless the settings name another number.
const RETENTION_MONTHS: u32 = 48;

/// Prefix of the keys. Part of the stored format.
const PREFIX: &str = "client-activity/";

/// Maximum number of records of a page.
const PAGE: u32 = 64;
/// Maximum number of bytes of a page.
const PAGE_BYTES: usize = 1 << 20;

/// The clients of an auth mount in a month.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MountClients {
    /// Entities.
    pub entities: ClientSketch,
    /// Tokens without an entity, one client for equal policies.
    pub tokens: ClientSketch,
}

stored!(MountClients, "client-activity", reads_stored_client_activities);

/// The settings of the recording: on or off, and the number of stored months.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ActivitySettings {
    /// `None`: as this release decides, which is to record.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub enabled: Option<bool>,
    /// Number of months for which clients are stored.
    pub retention_months: u32,
}

stored!(ActivitySettings, "client-activity-settings", reads_stored_activity_settings);

impl MountClients {
    /// Adds all clients of `other`. Returns true if a client is new.
    pub fn merge(&mut self, other: &Self) -> bool {
        let entities = self.entities.merge(&other.entities);
        self.tokens.merge(&other.tokens) || entities
    }

    /// Writes the clients of a mount, together with the clients that another node stored. Replaces
    /// a record that cannot be read.
    ///
    /// # Errors
    /// 500 if the record cannot be formed, 503 if the store cannot be read.
    pub(super) async fn put(
        &self,
        unit: &mut Unit,
        month: ActivityMonth,
        mount: &str,
    ) -> Result<(), Failure> {
        let address = Address::new(Space::Core, format!("{}{mount}", month_prefix(month)));
        let stored = unit.get_undamaged(&address).await?;
        let mut clients = self.clone();
        if let Some(Ok(stored)) = stored.map(|record| Self::parse(&record)) {
            clients.merge(&stored);
        }
        unit.put(address, clients.to_bytes()?, IndexColumns::default());
        Ok(())
    }

    /// Reads the stored clients of a month. A record that cannot be read is left out.
    ///
    /// # Errors
    /// 503 if the store cannot be read.
    pub(super) async fn read_month(
        store: &Arc<Store>,
        month: ActivityMonth,
    ) -> Result<StoredMonth, Failure> {
        let (prefix, mut after) = (month_prefix(month), String::new());
        let mut found = StoredMonth::default();
        loop {
            let page = page(store, (&prefix, &after)).await?;
            let Some((last, _)) = page.last() else { return Ok(found) };
            after.clone_from(last);
            for (key, record) in page {
                let mount = key.strip_prefix(&prefix).unwrap_or_default().to_owned();
                match record.and_then(|record| Self::parse(&record)) {
                    Ok(clients) => _ = found.mounts.insert(mount, clients),
                    Err(unreadable) => _ = found.unreadable.insert(mount, (key, unreadable)),
                }
            }
        }
    }

    fn parse(record: &Record) -> Result<Self, Failure> {
        let parsed = Self::from_bytes(&record.body);
        parsed.map_err(|unreadable| unreadable.of("the record of a month's clients"))
    }
}

/// The stored clients of a month.
#[derive(Default)]
pub(super) struct StoredMonth {
    /// The clients by mount.
    pub(super) mounts: BTreeMap<String, MountClients>,
    /// The mounts whose record cannot be read, each with the record's key and the failure.
    pub(super) unreadable: BTreeMap<String, (String, Failure)>,
}

/// Returns the records of a month after the key `after`. A record that does not open is a failure
/// in the page, and does not hide the other records.
///
/// # Errors
/// 503 if the store cannot be read.
async fn page(
    store: &Arc<Store>,
    range: (&str, &str),
) -> Result<Vec<(String, Result<Record, Failure>)>, Failure> {
    match store.begin().records(Space::Core, range, PAGE, PAGE_BYTES).await {
        Ok(page) => Ok(page.into_iter().map(|(key, record)| (key, Ok(record))).collect()),
        Err(StoreFault::Damaged(_)) => {
            let (prefix, after) = range;
            let mut page = Vec::new();
            for key in store.begin().keys(Space::Core, prefix, after, PAGE).await? {
                match store.begin().get(&Address::new(Space::Core, key.as_str())).await {
                    Ok(record) => page.extend(record.map(|record| (key, Ok(record)))),
                    Err(damaged @ StoreFault::Damaged(_)) => page.push((key, Err(damaged.into()))),
                    Err(fault) => return Err(fault.into()),
                }
            }
            Ok(page)
        }
        Err(fault) => Err(fault.into()),
    }
}

impl Default for ActivitySettings {
    fn default() -> Self {
        Self { enabled: None, retention_months: RETENTION_MONTHS }
    }
}

impl ActivitySettings {
    fn address() -> Address {
        Address::new(Space::Core, "client-activity-settings")
    }

    /// Returns whether clients are recorded.
    #[must_use]
    pub fn is_recording(self) -> bool {
        self.enabled.unwrap_or(true)
    }

    /// Reads the settings.
    ///
    /// # Errors
    /// 503 if the store cannot be read, 500 for settings that do not parse.
    pub async fn read(unit: &mut Unit) -> Result<Self, Failure> {
        let row = unit.get(&Self::address()).await?;
        let settings = row.map(|row| Self::from_bytes(&row.body)).transpose();
        let settings = settings.map_err(|unreadable| unreadable.of("the settings of activity"))?;
        Ok(settings.unwrap_or_default())
    }

    /// Writes the settings. The recorder follows within a minute.
    ///
    /// # Errors
    /// 500 if the record cannot be formed.
    pub fn put(self, unit: &mut Unit) -> Result<(), Failure> {
        unit.put(Self::address(), self.to_bytes()?, IndexColumns::default());
        Ok(())
    }
}

/// Returns the months with a record, oldest first.
///
/// # Errors
/// 503 if the store cannot be read.
pub(super) async fn stored_months(store: &Arc<Store>) -> Result<Vec<ActivityMonth>, Failure> {
    let mut months = Vec::new();
    let mut after = PREFIX.to_owned();
    loop {
        let keys = store.begin().keys(Space::Core, PREFIX, &after, 1).await?;
        let Some(word) = keys.first().and_then(|key| key.strip_prefix(PREFIX)) else {
            return Ok(months);
        };
        let word = word.split('/').next().unwrap_or_default();
        // The keys of a month follow its prefix, and the character after the slash ends them.
        after = format!("{PREFIX}{word}0");
        months.extend(ActivityMonth::parse(word));
    }
}

/// Removes the records of a month.
///
/// # Errors
/// 503 if the store cannot be read or written.
pub(super) async fn remove_month(store: &Arc<Store>, month: ActivityMonth) -> Result<(), Failure> {
    let prefix = month_prefix(month);
    loop {
        let mut unit = store.begin();
        let keys = unit.keys(Space::Core, &prefix, "", PAGE).await?;
        if keys.is_empty() {
            return Ok(());
        }
        keys.into_iter().for_each(|key| unit.delete(Address::new(Space::Core, key)));
        unit.commit().await?;
    }
}

fn month_prefix(month: ActivityMonth) -> String {
    format!("{PREFIX}{}/", month.word())
}

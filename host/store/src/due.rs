//! Due work: finding the records whose time has come, by index and oldest first, without loading
//! the others.
//!
//! It hands out nothing twice only as far as its caller says what is busy; claims belong to the
//! caller.

use sqlx::sqlite::{Sqlite, SqliteRow};
use sqlx::{QueryBuilder, Row as _};

use crate::record::{Address, Space};
use crate::sqlite::Database;

/// Which due records are wanted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DueAsk {
    /// The kinds wanted.
    pub spaces: Vec<Space>,
    /// Store time in milliseconds: records due then or earlier.
    pub until: u64,
    /// Lanes of which nothing is wanted, because enough of them is being worked on. An empty lane
    /// is no lane and leaves nothing out. As many as there are works in progress, not thousands.
    pub busy_lanes: Vec<(Space, String)>,
    /// Records that are being worked on.
    pub busy: Vec<Address>,
    /// At most so many.
    pub limit: u32,
}

/// One due record, as the index names it. The record itself is opened by a unit of work, which also
/// proves that these columns were not edited.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Due {
    /// Where the record is.
    pub address: Address,
    /// When it was due, as store time in milliseconds.
    pub due: u64,
    /// Its lane; empty is none.
    pub lane: String,
    /// Its owner; empty is none.
    pub owner: String,
}

impl Database {
    /// The records that `ask` wants, oldest first.
    ///
    /// # Errors
    /// As SQLite reports them.
    pub(crate) async fn due(&self, ask: &DueAsk) -> Result<Vec<Due>, sqlx::Error> {
        if ask.spaces.is_empty() || ask.limit == 0 {
            return Ok(Vec::new());
        }
        // Busy records are left out below rather than by the query, so that any number of them
        // fits; at most all of them are among the first.
        let busy = u32::try_from(ask.busy.len()).unwrap_or(u32::MAX);
        let found = due_query(ask, ask.limit.saturating_add(busy))
            .build()
            .fetch_all(self.readers())
            .await?;
        let mut wanted = Vec::new();
        for row in &found {
            match parse_due(row)? {
                Some(due) if !ask.busy.contains(&due.address) => wanted.push(due),
                _ => {}
            }
        }
        wanted.truncate(usize::try_from(ask.limit).unwrap_or(usize::MAX));
        Ok(wanted)
    }

    /// The earliest due time later than `moment`, of any kind of record.
    ///
    /// # Errors
    /// As SQLite reports them.
    pub(crate) async fn next_due(&self, moment: Option<u64>) -> Result<Option<u64>, sqlx::Error> {
        let earliest: Option<i64> = sqlx::query_scalar("SELECT min(due) FROM record WHERE due > ?")
            .bind(moment.map_or(-1, as_column))
            .fetch_one(self.readers())
            .await?;
        Ok(earliest.and_then(|due| u64::try_from(due).ok()))
    }
}

/// The planner would rather walk all records of a kind and sort them; the index is named so that it
/// cannot.
fn due_query(ask: &DueAsk, limit: u32) -> QueryBuilder<Sqlite> {
    let mut query = QueryBuilder::new(
        "SELECT space, key, due, lane, owner FROM record INDEXED BY record_by_due WHERE due <= ",
    );
    query.push_bind(as_column(ask.until)).push(" AND space IN (");
    let mut spaces = query.separated(", ");
    for space in &ask.spaces {
        spaces.push_bind(space.number());
    }
    query.push(")");
    let mut lanes = ask.busy_lanes.iter().filter(|(_, lane)| !lane.is_empty()).peekable();
    if lanes.peek().is_some() {
        query.push(" AND (space, lane) NOT IN (").push_values(lanes, |mut tuple, (space, lane)| {
            tuple.push_bind(space.number()).push_bind(lane);
        });
        query.push(")");
    }
    query.push(" ORDER BY due LIMIT ").push_bind(i64::from(limit));
    query
}

/// `None` for a kind or time that no version of ours writes: such a row is no work of ours.
fn parse_due(row: &SqliteRow) -> Result<Option<Due>, sqlx::Error> {
    let space = Space::of_number(row.try_get("space")?);
    let due = u64::try_from(row.try_get::<i64, _>("due")?).ok();
    let Some((space, due)) = space.zip(due) else {
        return Ok(None);
    };
    let address = Address { space, key: row.try_get("key")? };
    Ok(Some(Due { address, due, lane: row.try_get("lane")?, owner: row.try_get("owner")? }))
}

fn as_column(moment: u64) -> i64 {
    i64::try_from(moment).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::testing::{Scratch, edit, plan, put_indexed};
    use crate::{Index, Store};

    /// Three leases in two lanes, a timer without lane, a token, and a lease that is never due.
    async fn sample(scratch: &Scratch) -> Arc<Store> {
        let store = scratch.open().await;
        for (space, key, due, lane) in [
            (Space::Lease, "late", Some(300), "orders"),
            (Space::Lease, "early", Some(100), "orders"),
            (Space::Lease, "other", Some(200), "stock"),
            (Space::Timer, "timer", Some(150), ""),
            (Space::Token, "token", Some(120), ""),
            (Space::Lease, "never", None, "orders"),
        ] {
            let index = Index { due, lane: lane.into(), owner: String::new() };
            put_indexed(&store, Address::new(space, key), "x", index).await;
        }
        store
    }

    fn everything() -> DueAsk {
        DueAsk {
            spaces: vec![Space::Lease, Space::Timer],
            until: u64::MAX,
            limit: 99,
            ..DueAsk::default()
        }
    }

    async fn keys(store: &Store, ask: &DueAsk) -> Vec<String> {
        store.due(ask).await.unwrap().into_iter().map(|due| due.address.key).collect()
    }

    #[tokio::test]
    async fn due_records_come_oldest_first_and_only_of_the_kinds_asked_for() {
        let scratch = Scratch::new();
        let store = sample(&scratch).await;
        assert_eq!(keys(&store, &everything()).await, ["early", "timer", "other", "late"]);
        assert_eq!(keys(&store, &DueAsk { until: 199, ..everything() }).await, ["early", "timer"]);
        assert_eq!(
            keys(&store, &DueAsk { until: 200, ..everything() }).await,
            ["early", "timer", "other"]
        );
        assert_eq!(keys(&store, &DueAsk { limit: 1, ..everything() }).await, ["early"]);
        assert!(keys(&store, &DueAsk { limit: 0, ..everything() }).await.is_empty());
        assert!(keys(&store, &DueAsk { spaces: Vec::new(), ..everything() }).await.is_empty());
    }

    #[tokio::test]
    async fn a_busy_lane_holds_back_its_own_kind_and_no_other() {
        let scratch = Scratch::new();
        let store = sample(&scratch).await;
        let busy = |space, lane: &str| DueAsk {
            busy_lanes: vec![(space, lane.to_owned())],
            ..everything()
        };
        assert_eq!(keys(&store, &busy(Space::Lease, "orders")).await, ["timer", "other"]);
        assert_eq!(keys(&store, &busy(Space::Timer, "orders")).await.len(), 4);
        assert_eq!(keys(&store, &busy(Space::Timer, "")).await.len(), 4);
        let both = DueAsk {
            busy_lanes: vec![(Space::Lease, "orders".into()), (Space::Lease, "stock".into())],
            ..everything()
        };
        assert_eq!(keys(&store, &both).await, ["timer"]);
    }

    #[tokio::test]
    async fn busy_records_do_not_use_up_the_limit() {
        let scratch = Scratch::new();
        let store = sample(&scratch).await;
        let busy = vec![Address::new(Space::Lease, "early"), Address::new(Space::Timer, "timer")];
        assert_eq!(keys(&store, &DueAsk { busy, limit: 1, ..everything() }).await, ["other"]);
    }

    #[tokio::test]
    async fn the_next_due_time_is_the_earliest_or_the_earliest_after_a_moment() {
        let scratch = Scratch::new();
        let store = scratch.open().await;
        assert_eq!(store.next_due().await.unwrap(), None);
        drop(store);
        let scratch = Scratch::new();
        let store = sample(&scratch).await;
        assert_eq!(store.next_due().await.unwrap(), Some(100));
        assert_eq!(store.next_due_after(100).await.unwrap(), Some(120));
        assert_eq!(store.next_due_after(300).await.unwrap(), None);
        assert_eq!(store.next_due_after(u64::MAX).await.unwrap(), None);
    }

    #[tokio::test]
    async fn a_record_due_at_the_first_moment_of_time_is_found() {
        let scratch = Scratch::new();
        let store = scratch.open().await;
        let index = Index { due: Some(0), ..Index::default() };
        put_indexed(&store, Address::new(Space::Timer, "t"), "x", index).await;
        assert_eq!(store.next_due().await.unwrap(), Some(0));
        assert_eq!(keys(&store, &DueAsk { until: 0, ..everything() }).await, ["t"]);
    }

    #[tokio::test]
    async fn rows_of_an_unknown_kind_or_of_a_time_before_1970_are_nobodys_work() {
        let scratch = Scratch::new();
        let store = sample(&scratch).await;
        edit(
            &store,
            "UPDATE record SET due = -5 WHERE key = 'early'; \
             UPDATE record SET space = 99 WHERE key = 'other'",
        )
        .await;
        assert_eq!(keys(&store, &everything()).await, ["timer", "late"]);
        assert_eq!(store.next_due().await.unwrap(), Some(120));
    }

    #[tokio::test]
    async fn finding_due_work_never_walks_the_table() {
        let scratch = Scratch::new();
        let store = sample(&scratch).await;
        let busy_lanes = vec![(Space::Lease, "orders".to_owned())];
        let asked = due_query(&DueAsk { busy_lanes, ..everything() }, 9).into_string();
        for statement in [&asked, "SELECT min(due) FROM record WHERE due > ?"] {
            let plan = plan(&store, statement).await;
            assert!(plan.contains("record_by_due (due"), "{plan}");
            assert!(!plan.contains("SCAN record") && !plan.contains("TEMP B-TREE"), "{plan}");
        }
    }
}

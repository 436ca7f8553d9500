//! The index of a mount: a small number that grows by one with each commit to the mount's data, in
//! commit order (decision F3). A record of such a mount says at which index it was made and at
//! which it was changed last.
//!
//! The committer assigns it, because only there the order is known: a unit that counted for itself
//! would conflict with every other of its mount. So these records are sealed by the committer too;
//! the numbers are under their seal, and a record that does not open hands no number on.

use std::collections::{BTreeMap, BTreeSet};

use sqlx::sqlite::SqliteConnection;

use crate::body::Body;
use crate::commit::Work;
use crate::fault::StoreFault;
use crate::record::{Address, Index, Record, Space};
use crate::rows::SealedRow;
use crate::seal::Seal;
use crate::statements;

/// What a unit changes in the data of a mount that has an index.
pub(crate) struct IndexedWrites {
    /// Where the mount's counter is.
    pub(crate) counter: Address,
    /// What it puts, to be numbered and sealed. What it deletes needs neither.
    pub(crate) puts: Vec<(Address, Record)>,
}

/// Where the counter of `mount` is.
pub(crate) fn counter(mount: &str) -> Address {
    Address::new(Space::Core, format!("index/{mount}"))
}

/// The index that a counter's record holds; 0 where there is none yet.
///
/// # Errors
/// [`StoreFault::Damaged`] when it holds something else.
pub(crate) fn count(counter: &Address, record: Option<&Record>) -> Result<u64, StoreFault> {
    let Some(record) = record else { return Ok(0) };
    let bytes =
        record.body.as_slice().try_into().map_err(|_| StoreFault::Damaged(counter.clone()))?;
    Ok(u64::from_be_bytes(bytes))
}

/// What the units of one group find and leave of counters and of numbered records, as far as
/// numbering needs it.
#[derive(Default)]
pub(crate) struct Numbers<'a> {
    counts: BTreeMap<&'a Address, Result<u64, StoreFault>>,
    /// At which index each record was made; `None` where there is none, or one without a number.
    created: BTreeMap<&'a Address, Result<Option<u64>, StoreFault>>,
}

/// The rows of one numbered unit: of its counter, then of what it puts.
pub(crate) struct Numbered<'a> {
    pub(crate) index: u64,
    pub(crate) rows: Vec<(&'a Address, SealedRow)>,
}

impl<'a> Numbers<'a> {
    /// Reads what the indexed units among `works` are going to change; without such units it reads
    /// nothing.
    ///
    /// # Errors
    /// As SQLite reports them. A row that does not open is an error only of the units that change
    /// it.
    pub(crate) async fn read(
        connection: &mut SqliteConnection,
        seal: &Seal,
        works: &'a [Work],
    ) -> Result<Self, sqlx::Error> {
        let mut numbers = Numbers::default();
        let indexed = || works.iter().filter_map(|work| work.writes.indexed.as_ref());
        let counters: BTreeSet<&Address> = indexed().map(|writes| &writes.counter).collect();
        for (address, row) in statements::rows(connection, &Vec::from_iter(counters)).await? {
            let opened = row.and_then(|row| row.open(seal));
            numbers.counts.insert(address, opened.and_then(|record| count(address, Some(&record))));
        }
        let puts: BTreeSet<&Address> =
            indexed().flat_map(|writes| &writes.puts).map(|(address, _)| address).collect();
        for (address, row) in statements::rows(connection, &Vec::from_iter(puts)).await? {
            let opened = row.and_then(|row| row.open(seal));
            numbers.created.insert(
                address,
                opened.map(|record| (record.created > 0).then_some(record.created)),
            );
        }
        Ok(numbers)
    }

    /// Numbers and seals what one unit writes.
    ///
    /// # Errors
    /// [`StoreFault::Damaged`] when the counter or a record that is replaced does not open;
    /// [`StoreFault::Unavailable`] when it cannot be sealed. Nothing is counted then.
    pub(crate) fn number(
        &self,
        seal: &Seal,
        writes: &'a IndexedWrites,
    ) -> Result<Numbered<'a>, StoreFault> {
        let index = self.counts.get(&writes.counter).cloned().unwrap_or(Ok(0))?.saturating_add(1);
        let body = Body::new(index.to_be_bytes().to_vec());
        let counted = Record { body, index: Index::default(), created: 0, modified: 0 };
        let mut rows = vec![(&writes.counter, SealedRow::of(seal, &writes.counter, &counted)?)];
        for (address, record) in &writes.puts {
            let created = self.created.get(address).cloned().unwrap_or(Ok(None))?.unwrap_or(index);
            let record = Record { created, modified: index, ..record.clone() };
            rows.push((address, SealedRow::of(seal, address, &record)?));
        }
        Ok(Numbered { index, rows })
    }

    /// Takes note of what [`Numbers::number`] gave, for the units that come after in the same
    /// group.
    pub(crate) fn counted(&mut self, writes: &'a IndexedWrites, numbered: &Numbered<'a>) {
        self.counts.insert(&writes.counter, Ok(numbered.index));
        for (address, _) in &writes.puts {
            let created = self.created.entry(address).or_insert(Ok(None));
            if let Ok(created) = created {
                created.get_or_insert(numbered.index);
            }
        }
    }

    /// Takes note that nothing numbered is at `address` any more: it was deleted, or put by a unit
    /// without an index.
    pub(crate) fn gone(&mut self, address: &'a Address) {
        self.created.insert(address, Ok(None));
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::testing::{Scratch, data, edit, put};
    use crate::{Store, Unit};

    fn write(unit: &mut Unit, key: &str) {
        unit.put(data(key), b"x".to_vec(), Index::default());
    }

    /// Puts these keys by one commit of the mount `m`, and gives its index.
    async fn put_in_m(store: &Arc<Store>, keys: &[&str]) -> Option<u64> {
        let mut unit = store.begin_indexed("m");
        keys.iter().for_each(|key| write(&mut unit, key));
        unit.commit().await.unwrap()
    }

    /// At which indexes the record was made and changed.
    async fn numbers(store: &Arc<Store>, key: &str) -> (u64, u64) {
        let record = store.begin().get(&data(key)).await.unwrap().unwrap();
        (record.created, record.modified)
    }

    #[tokio::test]
    async fn each_commit_that_changes_data_of_the_mount_counts_one_and_no_other_does() {
        let scratch = Scratch::new();
        let store = scratch.open().await;
        assert_eq!(store.index("m").await.unwrap(), 0);
        assert_eq!(put_in_m(&store, &["m/a", "m/b"]).await, Some(1));
        let mut unit = store.begin_indexed("m");
        unit.get(&data("m/a")).await.unwrap();
        assert_eq!(unit.checkpoint().await.unwrap(), None);
        write(&mut unit, "m/c");
        assert_eq!(unit.checkpoint().await.unwrap(), Some(2));
        write(&mut unit, "another/a");
        write(&mut unit, "ma");
        unit.put(Address::new(Space::Timer, "m/a"), b"x".to_vec(), Index::default());
        assert_eq!(unit.checkpoint().await.unwrap(), None);
        unit.delete(data("m/never there"));
        assert_eq!(unit.commit().await.unwrap(), Some(3));
        assert_eq!(store.index("m").await.unwrap(), 3);
        store.close().await;
        let store = scratch.open().await;
        assert_eq!(put_in_m(&store, &["m/a"]).await, Some(4));
    }

    #[tokio::test]
    async fn a_record_keeps_the_index_it_was_made_at_until_it_is_deleted() {
        let scratch = Scratch::new();
        let store = scratch.open().await;
        put_in_m(&store, &["m/a", "m/b"]).await;
        put_in_m(&store, &["m/b"]).await;
        assert_eq!((numbers(&store, "m/a").await, numbers(&store, "m/b").await), ((1, 1), (1, 2)));
        let mut removal = store.begin_indexed("m");
        removal.delete(data("m/b"));
        assert_eq!(removal.commit().await.unwrap(), Some(3));
        put_in_m(&store, &["m/b"]).await;
        assert_eq!((numbers(&store, "m/a").await, numbers(&store, "m/b").await), ((1, 1), (4, 4)));
    }

    #[tokio::test]
    async fn mounts_count_apart_and_records_without_an_index_have_none() {
        let scratch = Scratch::new();
        let store = scratch.open().await;
        put(&store, data("m/plain"), "x").await;
        for index in 1..=3 {
            assert_eq!(put_in_m(&store, &["m/a"]).await, Some(index));
        }
        let mut other = store.begin_indexed("m2");
        write(&mut other, "m2/a");
        assert_eq!(other.commit().await.unwrap(), Some(1));
        assert_eq!((store.index("m").await.unwrap(), store.index("m2").await.unwrap()), (3, 1));
        assert_eq!(numbers(&store, "m/plain").await, (0, 0));
        assert_eq!(put_in_m(&store, &["m/plain"]).await, Some(4));
        assert_eq!(numbers(&store, "m/plain").await, (4, 4));
        put(&store, data("m/plain"), "x").await;
        assert_eq!(numbers(&store, "m/plain").await, (0, 0));
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn thirty_two_writers_get_every_index_once_and_see_their_own_on_their_records() {
        const WRITERS: u64 = 32;
        const EACH: u64 = 10;
        let scratch = Scratch::new();
        let store = scratch.open().await;
        let tasks: Vec<_> = (0..WRITERS)
            .map(|writer| {
                let store = Arc::clone(&store);
                tokio::spawn(async move {
                    let mut indexes = Vec::new();
                    for number in 0..EACH {
                        let (own, all) = (format!("m/{writer}/{number}"), "m/all");
                        let index = put_in_m(&store, &[&own, all]).await.unwrap();
                        assert_eq!(numbers(&store, &own).await, (index, index));
                        indexes.push(index);
                    }
                    assert!(indexes.is_sorted());
                    indexes
                })
            })
            .collect();
        let mut indexes = Vec::new();
        for task in tasks {
            indexes.extend(task.await.unwrap());
        }
        indexes.sort_unstable();
        assert_eq!(indexes, Vec::from_iter(1..=WRITERS * EACH));
        assert_eq!(numbers(&store, "m/all").await, (1, WRITERS * EACH));
        assert_eq!(store.index("m").await.unwrap(), WRITERS * EACH);
    }

    #[tokio::test]
    async fn a_record_or_counter_that_was_edited_hands_no_number_on() {
        let scratch = Scratch::new();
        let store = scratch.open().await;
        put_in_m(&store, &["m/a", "m/b"]).await;
        edit(&store, "UPDATE record SET created = 7 WHERE key = 'm/a'").await;
        let fault = |unit: Unit| async move { unit.commit().await.unwrap_err() };
        let mut unit = store.begin_indexed("m");
        write(&mut unit, "m/a");
        assert_eq!(fault(unit).await, StoreFault::Damaged(data("m/a")));
        assert_eq!(put_in_m(&store, &["m/b"]).await, Some(2));
        let mut removal = store.begin_indexed("m");
        removal.delete(data("m/a"));
        assert_eq!(removal.commit().await.unwrap(), Some(3));
        assert_eq!(put_in_m(&store, &["m/a"]).await, Some(4));

        edit(&store, "UPDATE record SET stamp = zeroblob(16) WHERE key = 'index/m'").await;
        let mut unit = store.begin_indexed("m");
        write(&mut unit, "m/b");
        assert_eq!(fault(unit).await, StoreFault::Damaged(counter("m")));
        assert_eq!(numbers(&store, "m/b").await, (1, 2));
    }

    #[test]
    fn a_counter_of_another_shape_is_damaged() {
        let record = |body: &[u8]| Record {
            body: Body::new(body.to_vec()),
            index: Index::default(),
            created: 0,
            modified: 0,
        };
        let counter = counter("m");
        assert_eq!(count(&counter, None), Ok(0));
        assert_eq!(count(&counter, Some(&record(&[0, 0, 0, 0, 0, 0, 1, 2]))), Ok(258));
        for wrong in [&b""[..], b"1", b"123456789"] {
            assert_eq!(
                count(&counter, Some(&record(wrong))),
                Err(StoreFault::Damaged(counter.clone()))
            );
        }
    }
}

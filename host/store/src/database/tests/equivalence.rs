//! The same random writes on both databases leave the same answers to every question.

use futures_util::TryStreamExt as _;

use super::*;

const STEPS: usize = 60;
/// Rows of a group.
const MOST_WRITES: u64 = 12;

/// A generator of numbers: the same seed gives the same numbers.
struct NumberSequence(u64);

impl NumberSequence {
    /// Returns a number below `bound`.
    fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % bound
    }

    fn pick<'t>(&mut self, texts: &[&'t str]) -> &'t str {
        let place = self.below(texts.len() as u64);
        texts[usize::try_from(place).unwrap()]
    }

    fn space(&mut self) -> Space {
        let spaces = [Space::Core, Space::Data, Space::Token, Space::Lease, Space::Timer];
        spaces[usize::try_from(self.below(5)).unwrap()]
    }

    fn address(&mut self) -> Address {
        let folder =
            self.pick(&["m/", "m/ä/", "n/", "cubbyhole/c/", "wrapped-content/c/", "", "/"]);
        Address::new(self.space(), format!("{folder}{}", self.pick(&["a", "b", "é", "z"])))
    }

    fn row(&mut self, store: &Store, address: &Address) -> SealedRow {
        let index = IndexColumns {
            due: (self.below(3) > 0).then(|| self.below(5)),
            lane: self.pick(&["", "m/l", "m/l2", "ö"]).to_owned(),
            owner: self.pick(&["", "o", "owner"]).to_owned(),
        };
        let body = vec![b'x'; usize::try_from(self.below(300)).unwrap()];
        let record = Record::unwritten(RecordBody::new(body), index);
        SealedRow::of(store.seal(), address, &record).unwrap()
    }
}

/// Puts and deletes random rows, and returns the answers after each group.
async fn answers(tested: TestDatabase, seed: u64) -> Vec<String> {
    let scratch = ScratchDirectory::on(tested);
    let store = scratch.open().await;
    let mut random = NumberSequence(seed);
    let mut answers = Vec::new();
    for _ in 0..STEPS {
        let addresses: std::collections::BTreeSet<Address> =
            (0..=random.below(MOST_WRITES)).map(|_| random.address()).collect();
        let (mut rows, mut deletes) = (Vec::new(), Vec::new());
        for address in &addresses {
            if random.below(3) == 0 {
                deletes.push(address);
            } else {
                rows.push(random.row(&store, address));
            }
        }
        let puts = rows.iter().collect();
        write(&store, GroupWrites { puts, deletes, ..GroupWrites::default() }).await;
        answers.push(questions(&store, &mut random).await);
    }
    answers.push(all_rows(&store).await);
    answers
}

/// Returns the answers to random questions, as text.
async fn questions(store: &Arc<Store>, random: &mut NumberSequence) -> String {
    let database = store.database();
    let (space, until) = (random.space(), random.below(6));
    let (prefix, after) = (random.pick(&["", "m", "m/", "n"]), random.pick(&["", "m/a", "n/é\0"]));
    let range = KeyRange::new(space, prefix, after);
    let owners = KeyRange::new(space, random.pick(&["", "o", "ow"]), "");
    let limit = u32::try_from(random.below(6)).unwrap();
    let (lane, owner) = (random.pick(&["", "m/l", "ö"]), random.pick(&["o", "owner"]));
    let heads = database.lane_heads(space, ("", "~")).await.unwrap().into_iter();
    let due = store.due_in_lane((space, lane), until, limit).await.unwrap().into_iter();
    let owned = database.list_owned((space, owner), 0, limit).await.unwrap().into_iter();
    let addresses = [random.address(), random.address()];
    let mut lookups = StateQuestions::default();
    lookups.sizes.extend(&addresses);
    lookups.listings.insert((&range, limit));
    lookups.counters.extend(["m", "cubbyhole/", "cubbyhole/c", "wrapped-content/c"]);
    let state = database.read_state(lookups).await.unwrap();
    format!(
        "{range:?} {:?} {} {} {} {:?} {:?} {:?} {:?} {:?} {:?} {:?} {:?}",
        database.list_keys(&range, limit).await,
        database.count(&range, limit).await.unwrap(),
        database.count_owned(&owners, limit).await.unwrap(),
        database.count_in_lane((space, lane), limit).await.unwrap(),
        database.next_due(Some(until)).await,
        database.stored_by_mount().await,
        heads.map(|head| (head.lane, head.due)).collect::<Vec<_>>(),
        due.map(|due| due.address).collect::<Vec<_>>(),
        owned.map(|(_, key)| key).collect::<Vec<_>>(),
        state.sizes,
        state.counters,
        state.listings.values().collect::<Vec<_>>(),
    )
}

/// Returns all rows in the order of their first write, without stamps and seals.
async fn all_rows(store: &Arc<Store>) -> String {
    let mut reader = store.database().begin_snapshot().await.unwrap();
    let rows: Vec<_> = reader.records().try_collect().await.unwrap();
    reader.close().await;
    let columns = rows.into_iter().map(|row| {
        let row = row.unwrap();
        (row.space, row.key, row.due, row.lane, row.owner, row.sealed.len())
    });
    format!("{:?}", columns.collect::<Vec<_>>())
}

#[tokio::test]
async fn random_writes_leave_equal_answers_on_both() {
    for seed in [1, 0x5eed, 0xb017_4ead] {
        let ours = answers(TestDatabase::Sqlite, seed).await;
        let theirs = answers(TestDatabase::Postgres, seed).await;
        for (step, (sqlite, postgres)) in ours.iter().zip(&theirs).enumerate() {
            assert_eq!(sqlite, postgres, "seed {seed}, step {step}");
        }
        assert_eq!(ours.len(), theirs.len());
        assert!(ours.last().is_some_and(|rows| rows.len() > 2_000), "few rows are left");
    }
}

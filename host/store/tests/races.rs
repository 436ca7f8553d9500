//! Many writers at once: what units of work promise to each other holds when 32 of them race.
//!
//! Commits are not flushed here, so that ten thousand of them take seconds; which writer wins does
//! not depend on the disk.

#![allow(clippy::unwrap_used, clippy::panic, reason = "what tests share fails by panicking, too")]

use bulkhead_store::{
    Address, FlushPolicy, IndexColumns, SealKey, Space, Store, StoreFault, StoreOptions, Unit,
};
use std::path::PathBuf;
use std::sync::Arc;

const WRITERS: usize = 32;
const ROUNDS: usize = 40;

/// A store in a separate directory, which is removed when dropped.
struct Bed {
    store: Arc<Store>,
    directory: PathBuf,
}

impl Bed {
    async fn open(name: &str) -> Bed {
        let directory =
            std::env::temp_dir().join(format!("bulkhead-races-{name}-{}", std::process::id()));
        let options = StoreOptions { flushing: FlushPolicy::Never, ..StoreOptions::at(&directory) };
        Bed { store: Store::open(options, SealKey::generate().unwrap()).await.unwrap(), directory }
    }

    /// Runs `work` in as many tasks as there are writers, each with its number, and waits for all.
    async fn race<F: Future<Output = ()> + Send + 'static>(
        &self,
        work: impl Fn(Arc<Store>, usize) -> F,
    ) {
        let tasks: Vec<_> = (0..WRITERS)
            .map(|writer| tokio::spawn(work(Arc::clone(&self.store), writer)))
            .collect();
        for task in tasks {
            task.await.unwrap();
        }
    }

    async fn put(&self, key: &str, body: &str) {
        let mut unit = self.store.begin();
        write(&mut unit, key, body);
        unit.commit().await.unwrap();
    }

    async fn body(&self, key: &str) -> Option<String> {
        read(&mut self.store.begin(), key).await.unwrap()
    }

    async fn keys(&self, prefix: &str) -> Vec<String> {
        self.store.begin().keys(Space::Data, prefix, "", 999).await.unwrap()
    }
}

impl Drop for Bed {
    fn drop(&mut self) {
        std::fs::remove_dir_all(&self.directory).unwrap();
    }
}

fn write(unit: &mut Unit, key: &str, body: &str) {
    unit.put(Address::new(Space::Data, key), body.as_bytes().to_vec(), IndexColumns::default());
}

async fn read(unit: &mut Unit, key: &str) -> Result<Option<String>, StoreFault> {
    let record = unit.get(&Address::new(Space::Data, key)).await?;
    Ok(record.map(|record| String::from_utf8(record.body.to_vec()).unwrap()))
}

/// Returns `true` for a commit and `false` for a conflict. Any other fault fails the test.
fn committed(outcome: Result<Option<u64>, StoreFault>) -> bool {
    match outcome {
        Ok(_) => true,
        Err(StoreFault::Conflict) => false,
        Err(other) => panic!("{other}"),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rule_kept_by_each_writer_holds_under_concurrency() {
    let bed = Bed::open("skew").await;
    for _ in 0..ROUNDS {
        bed.put("left", "on call").await;
        bed.put("right", "on call").await;
        bed.race(|store, writer| async move {
            while !committed(
                go_off_call(&store, if writer % 2 == 0 { "left" } else { "right" }).await,
            ) {}
        })
        .await;
        let off = [bed.body("left").await, bed.body("right").await];
        assert_eq!(
            off.iter().filter(|state| state.as_deref() == Some("on call")).count(),
            1,
            "{off:?}"
        );
    }
}

/// Goes off call if another stays.
async fn go_off_call(store: &Arc<Store>, who: &str) -> Result<Option<u64>, StoreFault> {
    let mut unit = store.begin();
    let both = [read(&mut unit, "left").await?, read(&mut unit, "right").await?];
    if both.iter().all(|state| state.as_deref() == Some("on call")) {
        write(&mut unit, who, "off");
    }
    unit.commit().await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn key_found_absent_by_many_is_taken_once() {
    let bed = Bed::open("absent").await;
    for round in 0..ROUNDS {
        bed.race(move |store, writer| async move {
            let mut unit = store.begin();
            if read(&mut unit, &format!("name/{round}")).await.unwrap().is_none() {
                write(&mut unit, &format!("name/{round}"), &writer.to_string());
                write(&mut unit, &format!("taken/{round}/{writer}"), "x");
                committed(unit.commit().await);
            }
        })
        .await;
        let taken = bed.keys(&format!("taken/{round}/")).await;
        let name = bed.body(&format!("name/{round}")).await.unwrap();
        assert_eq!(taken, [format!("taken/{round}/{name}")]);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn counted_list_never_exceeds_its_limit() {
    const SEATS: usize = 5;
    let bed = Bed::open("range").await;
    for round in 0..ROUNDS {
        bed.race(move |store, writer| async move {
            while !committed(take_seat(&store, round, writer).await) {}
        })
        .await;
        assert_eq!(bed.keys(&format!("seat/{round}/")).await.len(), SEATS);
    }

    async fn take_seat(
        store: &Arc<Store>,
        round: usize,
        writer: usize,
    ) -> Result<Option<u64>, StoreFault> {
        let mut unit = store.begin();
        let prefix = format!("seat/{round}/");
        if unit.keys(Space::Data, &prefix, "", 999).await?.len() < SEATS {
            write(&mut unit, &format!("{prefix}{writer}"), "x");
        }
        unit.commit().await
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_counter_raced_ten_thousand_times_is_exact() {
    const TOTAL: usize = 10_000;
    let bed = Bed::open("counter").await;
    bed.put("counter", "0").await;
    bed.race(|store, writer| async move {
        for _ in 0..TOTAL / WRITERS + usize::from(writer < TOTAL % WRITERS) {
            while !committed(increment(&store).await) {}
        }
    })
    .await;
    assert_eq!(bed.body("counter").await.unwrap(), TOTAL.to_string());
}

async fn increment(store: &Arc<Store>) -> Result<Option<u64>, StoreFault> {
    let mut unit = store.begin();
    let count: usize = read(&mut unit, "counter").await?.unwrap().parse().unwrap();
    write(&mut unit, "counter", &(count + 1).to_string());
    unit.commit().await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn readers_never_see_two_halves_of_different_commits() {
    let bed = Bed::open("halves").await;
    bed.put("left", "0").await;
    bed.put("right", "0").await;
    bed.race(|store, writer| async move {
        for number in 0..ROUNDS {
            if writer == 0 {
                let mut unit = store.begin();
                write(&mut unit, "left", &number.to_string());
                write(&mut unit, "right", &number.to_string());
                unit.commit().await.unwrap();
            }
            let mut unit = store.begin();
            let Ok(left) = read(&mut unit, "left").await else { continue };
            let Ok(right) = read(&mut unit, "right").await else { continue };
            if committed(unit.commit().await) {
                assert_eq!(left, right);
            }
        }
    })
    .await;
}

//! A snapshot of data that a writer changes meanwhile.

use super::*;
use crate::Address;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

fn pair(number: u32) -> [Address; 2] {
    [data(&format!("left/{number}")), data(&format!("right/{number}"))]
}

/// A writer beside a snapshot. Each round is one commit, which writes the number of the round,
/// counted from 1, to every tenth pair.
#[derive(Default)]
struct Rounds {
    completed: AtomicU32,
    stop: AtomicBool,
}

impl Rounds {
    async fn write(&self, store: &Arc<Store>) {
        while !self.stop.load(Ordering::Relaxed) {
            let body = (self.completed() + 1).to_string().into_bytes();
            let mut unit = store.begin();
            for address in (0..20).flat_map(|number| pair(number * 10)) {
                unit.put(address, body.clone(), IndexColumns::default());
            }
            unit.commit().await.unwrap();
            self.completed.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn completed(&self) -> u32 {
        self.completed.load(Ordering::Relaxed)
    }

    async fn wait_for(&self, least: u32) {
        let reached = async {
            while self.completed() < least {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        };
        tokio::time::timeout(PATIENCE, reached).await.expect("the writer goes on");
    }
}

/// Takes a snapshot, of which the writer completes two rounds between the first and the second
/// piece.
async fn take_during(rounds: &Rounds, store: &Arc<Store>) -> Vec<u8> {
    rounds.wait_for(1).await;
    let mut stream = store.snapshot(origin()).await.unwrap();
    let mut bytes = next(&mut stream).await.unwrap().unwrap();
    rounds.wait_for(rounds.completed() + 2).await;
    while let Some(piece) = next(&mut stream).await {
        bytes.extend_from_slice(&piece.unwrap());
    }
    bytes
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn snapshot_under_writes_is_one_commit() {
    let scratch = ScratchDirectory::new();
    let store = scratch.open().await;
    for number in 0..200 {
        let mut unit = store.begin();
        for address in pair(number) {
            unit.put(address, vec![b'0'; 8_192], IndexColumns::default());
        }
        unit.commit().await.unwrap();
    }
    let rounds = Arc::new(Rounds::default());
    let writer = {
        let (store, rounds) = (Arc::clone(&store), Arc::clone(&rounds));
        tokio::spawn(async move { rounds.write(&store).await })
    };
    let bytes = take_during(&rounds, &store).await;
    rounds.stop.store(true, Ordering::Relaxed);
    writer.await.unwrap();
    let path = saved(&scratch, &bytes);
    let mut bodies = std::collections::BTreeMap::new();
    let mut keep = |opened: OpenedRecord<'_>| {
        bodies.insert(opened.address.key.clone(), opened.body.to_vec());
    };
    let share = SealKey::from_bytes([1; 32]).share();
    let report = check_snapshot(&path, vec![share], &mut keep).await.unwrap();
    assert_eq!((report.opened, report.damages.len()), (Some(report.records), 0));
    let found: std::collections::BTreeSet<&[u8]> =
        (0..20).map(|number| bodies[&format!("left/{}", number * 10)].as_slice()).collect();
    assert_eq!(found.len(), 1, "all of one commit");
    for number in 0..200 {
        assert_eq!(bodies[&format!("left/{number}")], bodies[&format!("right/{number}")]);
    }
    let round: u32 = std::str::from_utf8(found.first().unwrap()).unwrap().parse().unwrap();
    let last = rounds.completed();
    assert!((1..last).contains(&round), "round {round} of {last}");
}

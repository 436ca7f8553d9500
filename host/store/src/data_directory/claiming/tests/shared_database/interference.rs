//! Measurement of the commits of two nodes that interfere although their records are unrelated.

use super::*;
use crate::RecordBody;
use bulkhead_place::write_failure::WriteFailure;
use bulkhead_record::committed_state::StateQuestions;
use bulkhead_record::record::Record;
use bulkhead_record::rows::SealedRow;

/// Commits of each node.
const EACH: usize = 200;

/// Commits records of mount `m` with these keys, one after the other. Returns the number of
/// transactions that the other node interfered with.
async fn count_interfered(store: Arc<Store>, keys: Vec<String>) -> usize {
    let mut interfered = 0;
    for (number, key) in keys.iter().enumerate() {
        // Of another size each time: the bytes of the mount change.
        let body = RecordBody::new(vec![0; 50 + number % 50]);
        let record = Record::unwritten(body, IndexColumns::default());
        let row = SealedRow::of(store.seal(), &data(key), &record).unwrap();
        let writes = || GroupWrites { puts: vec![&row], ..GroupWrites::default() };
        loop {
            let stamps = [&row.address].into();
            let questions = StateQuestions { stamps, ..StateQuestions::default() };
            match store.database().commit_group(questions, |_| Some(writes())).await {
                Ok(_) => break,
                Err(WriteFailure::Interfered) => interfered += 1,
                Err(other) => panic!("{}", StoreFault::from(other)),
            }
        }
    }
    interfered
}

/// Lets both nodes write at the same time. Returns the interfered share of all transactions.
async fn interfered_share(pair: &Pair, keys_of: impl Fn(&str, usize) -> String) -> f64 {
    let nodes = [("a", &pair.one), ("z", &pair.other)].map(|(name, store)| {
        let keys = (0..EACH).map(|number| keys_of(name, number)).collect();
        tokio::spawn(count_interfered(Arc::clone(store), keys))
    });
    let mut interfered = 0;
    for node in nodes {
        interfered += node.await.unwrap();
    }
    interfered as f64 / (interfered + 2 * EACH) as f64
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn writes_to_one_mount_rarely_interfere() {
    let pair = Pair::open_with(IDLE, IDLE).await;
    // Records beside each other in the index would interfere for another reason.
    let mut unit = pair.one.begin();
    for number in 0..2_000 {
        unit.put(data(&format!("m/b{number:06}")), vec![0; 99], IndexColumns::default());
    }
    unit.commit().await.unwrap();
    let inserted = interfered_share(&pair, |name, number| format!("m/{name}{number:06}")).await;
    let updated =
        interfered_share(&pair, |name, number| format!("m/{name}{:06}", number % 9)).await;
    let sizes = "SELECT sum(2 * octet_length(key) + octet_length(sealed) + 64)::bigint \
                 FROM record WHERE key LIKE 'm/%'";
    let summed = numbers(&pair.one, sizes).await[0];
    assert_eq!(pair.one.stored_bytes().await.unwrap()["m"], u64::try_from(summed).unwrap());
    assert!(inserted < 0.1 && updated < 0.1, "{inserted} {updated}");
}

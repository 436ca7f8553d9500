//! Tests of nodes whose commits take long, as with a slow disk or a distant standby.

use super::*;
use bulkhead_place::steady_clock::steady_milliseconds;

/// Lets each commit that waits for the flush take as long as `pg_sleep` of the seconds.
fn slow_commits(seconds: f32) -> String {
    format!(
        "CREATE OR REPLACE FUNCTION delay() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN \
             IF current_setting('synchronous_commit') <> 'off' THEN \
                 PERFORM pg_sleep({seconds}); END IF; RETURN NULL; END $$; \
         DROP TRIGGER IF EXISTS delay ON progress; DROP TRIGGER IF EXISTS delay ON node; \
         CREATE CONSTRAINT TRIGGER delay AFTER INSERT OR UPDATE ON progress \
             DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION delay(); \
         CREATE CONSTRAINT TRIGGER delay AFTER UPDATE ON node \
             DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION delay()"
    )
}

async fn delay_commits(pair: &Pair, seconds: f32) {
    let Database::Postgres(database) = pair.one.database() else { panic!("no server") };
    database.edit(&slow_commits(seconds)).await;
}

/// Waits until a node has stored a longer proof time.
async fn await_longer_proof_times(pair: &Pair) {
    for store in [&pair.one, &pair.other] {
        while store.data().database.other_nodes().await.unwrap()[0].proof_time
            <= Duration::from_millis(700)
        {
            store.data().changes.await_next().await.unwrap();
        }
        // The node counts the proof after its answer.
        store.data().changes.await_fresh().await.unwrap();
    }
}

/// A progress that waits for the flush would let reads of memory wait, too.
#[tokio::test]
async fn slow_commits_do_not_delay_reads() {
    let pair = Pair::open_with(IDLE, IDLE).await;
    put(&pair.one, data("a"), "1").await;
    delay_commits(&pair, 0.3).await;
    await_longer_proof_times(&pair).await;
    let begun = steady_milliseconds();
    let (mut reads, mut late) = (0, 0);
    while steady_milliseconds() - begun < 2_000 {
        for store in [&pair.one, &pair.other] {
            let read = std::time::Instant::now();
            assert_eq!(body(store, &data("a")).await.unwrap(), "1");
            let is_late = read.elapsed() > Duration::from_millis(200);
            late += u32::from(is_late || store.data().changes.check().is_err());
            reads += 1;
        }
        tokio::task::yield_now().await;
    }
    // A busy machine delays some reads; the commits would delay each one.
    assert!(late * 20 <= reads, "{late} of {reads} reads were late");
}

#[tokio::test]
async fn slow_commit_is_in_force_soon_afterwards() {
    let pair = Pair::open_with(IDLE, IDLE).await;
    let policy = Address::new(Space::Core, "policy");
    put(&pair.one, policy.clone(), "0").await;
    delay_commits(&pair, 0.3).await;
    await_longer_proof_times(&pair).await;
    for round in 1..5 {
        let begun = steady_milliseconds();
        put(&pair.one, policy.clone(), &round.to_string()).await;
        let taken = steady_milliseconds() - begun;
        assert!((300..800).contains(&taken), "the progress of the other node waits: {taken}");
        assert_eq!(body(&pair.other, &policy).await.unwrap(), round.to_string());
    }
}

/// A node that reads an old primary server stores no proof there.
#[tokio::test]
async fn node_without_proofs_is_out_before_writer_answers() {
    let pair = Pair::open_with(IDLE, IDLE).await;
    let policy = Address::new(Space::Core, "policy");
    put(&pair.one, policy.clone(), "0").await;
    delay_commits(&pair, 0.3).await;
    await_longer_proof_times(&pair).await;
    let cut_off = pair.other.data();
    let Database::Postgres(database) = &cut_off.database else { panic!("no server") };
    let stored = pair.one.data().database.other_nodes().await.unwrap()[0].proof_time;
    // Neither reads nor proofs of the node reach the database of the writer.
    let proving = database.proofs().occupy().await;
    let reading = cut_off.changes.hold_reading().await;
    let begun = steady_milliseconds();
    put(&pair.one, policy.clone(), "1").await;
    let taken = Duration::from_millis(steady_milliseconds() - begun);
    assert!(cut_off.changes.check().is_err(), "nothing from memory");
    assert!(taken > stored, "{taken:?} {stored:?}");
    drop((proving, reading));
    assert_eq!(body(&pair.other, &policy).await.unwrap(), "1");
}

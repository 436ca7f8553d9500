//! Connections that read, and their limits.

use std::sync::Arc;

use super::*;
use crate::testing::ScratchDirectory;

async fn opened() -> (ScratchDirectory, Arc<crate::Store>) {
    let scratch = ScratchDirectory::of_files();
    let store = scratch.open().await;
    (scratch, store)
}

async fn count(readers: &ReaderPool) -> Result<i64, sqlx::Error> {
    let count = async |connection: &mut SqliteConnection| {
        sqlx::query_scalar("SELECT count(*) FROM meta").fetch_one(connection).await
    };
    readers.read(count).await
}

#[tokio::test]
async fn connection_is_reused_unless_failed_or_abandoned() {
    let (_scratch, store) = opened().await;
    let readers = store.database().sqlite().readers();
    let idle = || sync::lock(&readers.idle).len();
    let before = count(readers).await.unwrap();
    assert_eq!(idle(), 1);
    let failing = async |connection: &mut SqliteConnection| {
        sqlx::query("SELECT nonsense").execute(connection).await.map(drop)
    };
    assert!(readers.read(failing).await.is_err());
    assert_eq!(idle(), 0);
    assert_eq!(count(readers).await.unwrap(), before);
    let left = readers.read(async |_| {
        std::future::pending::<()>().await;
        Ok::<(), sqlx::Error>(())
    });
    tokio::select! {
        biased;
        _ = left => unreachable!("it waits for ever"),
        () = tokio::task::yield_now() => {}
    }
    assert_eq!(idle(), 0);
    assert_eq!(count(readers).await.unwrap(), before);
}

#[tokio::test]
async fn readers_are_bounded_and_next_waits() {
    let (_scratch, store) = opened().await;
    let database = store.database().sqlite();
    let (holding, release) = (Arc::new(Semaphore::new(0)), Arc::new(Semaphore::new(0)));
    let hold = || async {
        let hold = async |_: &mut SqliteConnection| {
            holding.add_permits(1);
            drop(release.acquire().await);
            Ok::<(), sqlx::Error>(())
        };
        database.readers().read(hold).await.unwrap();
    };
    let all = futures_util::future::join_all((0..=READERS).map(|_| hold()));
    let check = async {
        drop(holding.acquire_many(READERS).await);
        assert_eq!(holding.available_permits(), READERS as usize, "the last one waits");
        release.add_permits(READERS as usize + 1);
    };
    tokio::join!(all, check);
    database.readers().close().await;
    let refused = count(database.readers()).await;
    assert!(matches!(refused, Err(sqlx::Error::PoolClosed)), "{refused:?}");
}

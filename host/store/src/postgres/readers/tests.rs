//! Tests of the reading connections after the writer lost its server.

use tokio::sync::SemaphorePermit;

use super::SessionPool;
use crate::database::Database;
use crate::testing::{ScratchDirectory, TestDatabase, data, put};

impl SessionPool {
    /// Takes all places, as slow requests do.
    pub(crate) async fn occupy(&self) -> SemaphorePermit<'_> {
        self.places.acquire_many(self.size).await.unwrap()
    }
}

/// Idle readers may lead to the old primary server, and would serve old data.
#[tokio::test]
async fn readers_are_replaced_when_writer_lost_its_server() {
    let scratch = ScratchDirectory::on(TestDatabase::Postgres);
    let store = scratch.open().await;
    let Database::Postgres(database) = store.database() else { panic!("no server") };
    let readers = database.readers();
    store.database().find_row(&data("a")).await.unwrap();
    let (generation, idle) = readers.take_idle();
    let in_use = idle.unwrap();
    put(&store, data("a"), "1").await;
    assert_eq!(readers.take_idle().0, generation, "nothing was lost");
    let writers = "SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity \
                   WHERE application_name = current_schema() AND query LIKE '%COMMIT'";
    assert_eq!(database.query(writers).await.len(), 1);
    put(&store, data("a"), "2").await;
    readers.give_back(generation, in_use);
    let (later, idle) = readers.take_idle();
    assert!(later > generation && idle.is_none());
    assert!(store.database().find_row(&data("a")).await.unwrap().is_some());
}

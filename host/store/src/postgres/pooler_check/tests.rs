//! Tests behind `PgBouncer`.

use crate::postgres::server_connector::connect;
use crate::testing::{ScratchDirectory, TestDatabase, TestPooler, body, data, put};
use crate::{SealKey, Store, StoreFault, StoreOptions};
use bulkhead_place::options::DatabaseChoice;
use bulkhead_place::postgres_place::{PostgresPlace, PostgresServer, PostgresTlsMode};

/// A directory whose store is behind a pooler.
fn behind(mode: &str) -> (TestPooler, ScratchDirectory, StoreOptions) {
    let (pooler, scratch) = (TestPooler::start(mode), ScratchDirectory::on(TestDatabase::Postgres));
    let DatabaseChoice::Postgres(place) = scratch.options().database else { panic!("no server") };
    let servers = vec![PostgresServer { host: "127.0.0.1".to_owned(), port: pooler.port }];
    let database = DatabaseChoice::Postgres(Box::new(PostgresPlace { servers, ..*place }));
    let options = StoreOptions { database, ..scratch.options() };
    (pooler, scratch, options)
}

#[tokio::test]
async fn store_works_behind_pooler_in_session_mode() {
    let (_pooler, _scratch, options) = behind("session");
    let key = || SealKey::from_bytes([1; 32]);
    let store = Store::open(options.clone(), key()).await.unwrap();
    put(&store, data("a"), "1").await;
    store.close().await;
    drop(store);
    let store = Store::open(options, key()).await.unwrap();
    assert_eq!(body(&store, &data("a")).await.as_deref(), Some("1"));
    store.close().await;
}

/// `PgBouncer` has no TLS unless TLS is configured.
#[tokio::test]
async fn session_without_tls_is_opened_only_if_permitted() {
    let (_pooler, _scratch, options) = behind("session");
    let DatabaseChoice::Postgres(mut place) = options.database else { panic!("no server") };
    place.tls.mode = PostgresTlsMode::Prefer;
    connect(&place).await.unwrap();
    place.tls.mode = PostgresTlsMode::Require;
    let said = connect(&place).await.err().unwrap().describe();
    assert!(said.contains("the server has no TLS"), "{said}");
}

#[tokio::test]
async fn pooler_without_sessions_is_refused() {
    for mode in ["transaction", "statement"] {
        let (_pooler, scratch, options) = behind(mode);
        let fault = Store::open(options.clone(), SealKey::from_bytes([1; 32])).await.err().unwrap();
        let is_clear = |fault: &StoreFault| fault.to_string().contains("pool_mode = session");
        assert!(is_clear(&fault), "{mode}: {fault}");
        // Nothing was written, and the statements of the first attempt are left at the server.
        let fault = Store::open(options, SealKey::from_bytes([1; 32])).await.err().unwrap();
        assert!(is_clear(&fault), "{mode}: {fault}");
        scratch.open().await.close().await;
    }
}

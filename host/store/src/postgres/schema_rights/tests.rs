//! Tests of schemas that are missing, or whose user has few rights.

use super::*;
use crate::postgres::meta_table::creation;
use crate::testing::{ScratchDirectory, TestDatabase, administer, body, data, put};
use crate::{DataDirectory, SealKey, Store, StoreOptions};
use bulkhead_place::options::DatabaseChoice;

/// Returns a place of a new user without rights, in a schema of the administrator.
fn scratch() -> (ScratchDirectory, PostgresPlace) {
    let scratch = ScratchDirectory::on(TestDatabase::Postgres);
    let DatabaseChoice::Postgres(place) = scratch.options().database else { panic!("no server") };
    let user = format!("user_{}", place.schema);
    administer(&format!("CREATE ROLE {user} LOGIN PASSWORD 'hull-8241'"));
    (scratch, PostgresPlace { user, table: "bulkhead".to_owned(), ..*place })
}

fn options(scratch: &ScratchDirectory, place: &PostgresPlace) -> StoreOptions {
    let database = DatabaseChoice::Postgres(Box::new(place.clone()));
    StoreOptions { database, ..scratch.options() }
}

async fn refusal(scratch: &ScratchDirectory, place: &PostgresPlace) -> String {
    match DataDirectory::hold(options(scratch, place)).await.err().unwrap() {
        StoreFault::Refused(said) => said,
        other => panic!("{other}"),
    }
}

/// Initialises and uses a store, and opens the store again.
async fn use_twice(scratch: &ScratchDirectory, place: &PostgresPlace) {
    let store = Store::open(options(scratch, place), SealKey::from_bytes([1; 32])).await.unwrap();
    put(&store, data("a"), "1").await;
    store.close().await;
    drop(store);
    let store = Store::open(options(scratch, place), SealKey::from_bytes([1; 32])).await.unwrap();
    assert_eq!(body(&store, &data("a")).await.as_deref(), Some("1"));
}

#[tokio::test]
async fn missing_schema_is_refused_with_its_statement() {
    let (scratch, place) = scratch();
    let place = PostgresPlace { schema: format!("no {}", place.schema), ..place };
    let said = refusal(&scratch, &place).await;
    let statement = format!("CREATE SCHEMA \"{}\" AUTHORIZATION \"{}\"", place.schema, place.user);
    assert!(said.contains(&statement), "{said}");
    administer(&statement);
    use_twice(&scratch, &place).await;
}

#[tokio::test]
async fn tables_of_an_administrator_are_used() {
    let (scratch, place) = scratch();
    let said = refusal(&scratch, &place).await;
    let (sentence, statements) = said.split_once('\n').unwrap();
    assert!(sentence.contains("may not create tables in schema"), "{said}");
    administer(&format!("SET ROLE bulkhead;\n{statements}"));
    use_twice(&scratch, &place).await;
}

#[tokio::test]
async fn user_without_rights_on_tables_is_refused() {
    let (scratch, place) = scratch();
    let administrator = PostgresPlace { user: "bulkhead".to_owned(), ..place.clone() };
    use_twice(&scratch, &administrator).await;
    let said = refusal(&scratch, &place).await;
    let (sentence, grants) = said.split_once('\n').unwrap();
    assert!(sentence.contains("may not read and write them all"), "{said}");
    administer(&format!("GRANT USAGE ON SCHEMA {} TO {}", place.schema, place.user));
    assert_eq!(refusal(&scratch, &place).await, said);
    administer(grants);
    use_twice(&scratch, &place).await;
}

/// Two servers initialise tables of an administrator at the same time.
#[tokio::test]
async fn tables_of_an_administrator_are_initialised_once() {
    let (scratch, place) = scratch();
    let place = PostgresPlace { user: "bulkhead".to_owned(), ..place };
    let tables = TableNames::of(&place);
    administer(&creation(&tables));
    let other = ScratchDirectory::of_files();
    let open = |scratch: &ScratchDirectory, byte| {
        Store::open(options(scratch, &place), SealKey::from_bytes([byte; 32]))
    };
    let (first, second) = tokio::join!(open(&scratch, 1), open(&other, 2));
    assert!(first.is_ok() != second.is_ok());
}

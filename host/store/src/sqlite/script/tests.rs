//! Batches of statements and their answers.

use sqlx::{Connection as _, Row as _};

use super::*;

async fn connection() -> SqliteConnection {
    SqliteConnection::connect(":memory:").await.unwrap()
}

#[tokio::test]
async fn each_statement_has_own_values_and_rows() {
    let mut connection = connection().await;
    for _ in 0..2 {
        let mut script = StatementBatch::default();
        script.add("SELECT ? UNION ALL SELECT ?");
        script.bind(1).unwrap();
        script.bind(2).unwrap();
        script.add("SELECT ? WHERE FALSE");
        script.bind(3).unwrap();
        script.add(&format!("SELECT ? + ? -- {}", "long ".repeat(LONG_STATEMENT_BYTES)));
        script.bind(4).unwrap();
        script.bind(None::<i64>).unwrap();
        script.add("SELECT ?");
        script.bind(5).unwrap();
        script.add_first("SELECT 0");
        assert_eq!((script.len(), script.turns.len()), (5, 3));
        let answers = script.run(&mut connection).await.ok().unwrap();
        let numbers = |rows: &Vec<SqliteRow>| {
            rows.iter().map(|row| row.get::<Option<i64>, _>(0)).collect::<Vec<_>>()
        };
        assert_eq!(
            answers.iter().map(numbers).collect::<Vec<_>>(),
            [vec![Some(0)], vec![Some(1), Some(2)], vec![], vec![None], vec![Some(5)]]
        );
    }
}

#[tokio::test]
async fn a_statement_without_an_answer_is_a_failure() {
    let mut script = StatementBatch::default();
    // The comment ends late, so there is no second statement.
    script.add("SELECT 1 --");
    script.add("SELECT 2");
    let failed = script.run(&mut connection().await).await.err().unwrap();
    assert!(matches!(failed.error, sqlx::Error::WorkerCrashed), "{}", failed.error);
    assert_eq!(failed.done, 1);
}

#[tokio::test]
async fn first_failure_ends_batch_and_counts_done_statements() {
    let mut connection = connection().await;
    let mut script = StatementBatch::default();
    script.add("CREATE TABLE t (one INTEGER PRIMARY KEY)");
    script.add("INSERT INTO t VALUES (?)");
    script.bind(1).unwrap();
    script.add("INSERT INTO t VALUES (?)");
    script.bind(1).unwrap();
    script.add("DELETE FROM t");
    let failed = script.run(&mut connection).await.err().unwrap();
    assert_eq!(failed.done, 2);
    assert!(failed.error.to_string().contains("UNIQUE"), "{}", failed.error);
    let count = sqlx::query_scalar::<_, i64>("SELECT count(*) FROM t");
    assert_eq!(count.fetch_one(&mut connection).await.unwrap(), 1);
}

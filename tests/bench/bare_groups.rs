//! Bare grouped inserts: the rows of many clients, a transaction for each group.
//!
//! The groups are those of the store's committer: while a group is written, the next group
//! collects; after a group, the writer yields while clients submit more units. A transaction has
//! three messages: the begin, one statement for all rows, and the commit. There is no check of any
//! kind.

use crate::stored_rows::{COLUMNS, StoredRow};
use sqlx::postgres::PgConnection;
use sqlx::{AssertSqlSafe, Connection as _};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::sync::oneshot;

/// Maximum number of units of a group, as of the committer.
const MOST_UNITS: usize = 128;

/// Rows to insert together, and the channel for the end.
struct PendingUnit {
    rows: Vec<StoredRow>,
    answer: oneshot::Sender<()>,
}

/// The rate of units, and the number of units in a group.
#[derive(Clone, Copy)]
pub struct GroupedRate {
    pub per_second: f64,
    pub a_group: f64,
}

/// Inserts copies of `unit` into the table for `time`. Each of the clients submits a unit when its
/// previous unit is stored. Returns the session and the rate.
pub async fn insert_units(
    session: PgConnection,
    (table, unit): (&str, &[StoredRow]),
    clients: usize,
    time: Duration,
) -> (PgConnection, GroupedRate) {
    let (queue, waiting) = unbounded_channel();
    let writer = tokio::spawn(write_groups(session, waiting, insertion(table)));
    let (unit, began) = (Arc::new(unit.to_vec()), Instant::now());
    let clients: Vec<_> = (0..clients)
        .map(|_| tokio::spawn(submit(queue.clone(), Arc::clone(&unit), (began, time))))
        .collect();
    drop(queue);
    let mut units = 0;
    for client in clients {
        units += client.await.expect("no client failed");
    }
    let per_second = f64::from(units) / began.elapsed().as_secs_f64();
    let (session, groups) = writer.await.expect("the writer did not fail");
    (session, GroupedRate { per_second, a_group: f64::from(units) / f64::from(groups) })
}

/// Submits units one after the other, and returns their number.
async fn submit(
    queue: UnboundedSender<PendingUnit>,
    unit: Arc<Vec<StoredRow>>,
    (began, time): (Instant, Duration),
) -> u32 {
    let mut units = 0;
    while began.elapsed() < time {
        let rows = unit.iter().map(StoredRow::fresh).collect();
        let (answer, end) = oneshot::channel();
        assert!(queue.send(PendingUnit { rows, answer }).is_ok(), "the writer lives");
        end.await.expect("the unit is stored");
        units += 1;
    }
    units
}

/// Writes groups until all clients are gone. Returns the session and the number of groups.
async fn write_groups(
    mut session: PgConnection,
    mut waiting: UnboundedReceiver<PendingUnit>,
    insertion: String,
) -> (PgConnection, u32) {
    let mut groups = 0;
    while let Some(first) = waiting.recv().await {
        let mut group = vec![first];
        while group.len() < MOST_UNITS
            && let Ok(unit) = waiting.try_recv()
        {
            group.push(unit);
        }
        let rows: Vec<&StoredRow> = group.iter().flat_map(|unit| &unit.rows).collect();
        write(&mut session, &rows, &insertion).await;
        for unit in group {
            unit.answer.send(()).expect("the client waits");
        }
        groups += 1;
        await_arrivals(&waiting).await;
    }
    (session, groups)
}

/// Waits while clients submit units.
async fn await_arrivals(queue: &UnboundedReceiver<PendingUnit>) {
    let mut waiting = queue.len();
    loop {
        tokio::task::yield_now().await;
        if queue.len() == waiting || queue.len() >= MOST_UNITS {
            return;
        }
        waiting = queue.len();
    }
}

fn insertion(table: &str) -> String {
    format!(
        "INSERT INTO {table} ({COLUMNS}) SELECT {COLUMNS} FROM unnest($1::smallint[], \
         $2::text[], $3::bytea[], $4::bigint[], $5::text[], $6::text[], $7::bigint[], \
         $8::bigint[], $9::bytea[]) AS given ({COLUMNS})"
    )
}

async fn write(session: &mut PgConnection, rows: &[&StoredRow], insertion: &str) {
    let each = rows.iter();
    let insert = sqlx::query(AssertSqlSafe(insertion.to_owned()))
        .bind(each.clone().map(|row| row.space).collect::<Vec<_>>())
        .bind(each.clone().map(|row| row.key.as_str()).collect::<Vec<_>>())
        .bind(each.clone().map(|row| row.stamp.as_slice()).collect::<Vec<_>>())
        .bind(each.clone().map(|row| row.due).collect::<Vec<_>>())
        .bind(each.clone().map(|row| row.lane.as_str()).collect::<Vec<_>>())
        .bind(each.clone().map(|row| row.owner.as_str()).collect::<Vec<_>>())
        .bind(each.clone().map(|row| row.created).collect::<Vec<_>>())
        .bind(each.clone().map(|row| row.modified).collect::<Vec<_>>())
        .bind(each.map(|row| row.sealed.as_slice()).collect::<Vec<_>>());
    let mut transaction = session.begin().await.expect("a transaction begins");
    insert.execute(&mut *transaction).await.expect("the rows are written");
    transaction.commit().await.expect("the transaction commits");
}

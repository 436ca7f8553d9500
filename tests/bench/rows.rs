//! The records in a snapshot, compared with the records in a database one by one.
//!
//! Both have their rows in the order of `rowid`, so that two streams are compared and nothing is
//! held in memory.

use sqlx::sqlite::{SqliteConnectOptions, SqliteRow};
use sqlx::{AssertSqlSafe, ConnectOptions as _, Row as _, SqliteConnection};
use std::collections::BTreeMap;
use std::io::{BufReader, ErrorKind, Read};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};

/// Kind of a row of `record` in a snapshot.
const RECORD_KIND: u8 = 2;

/// Number of rows that are read from the database at once.
const PAGE: i64 = 10_000;

/// The result of a comparison.
pub struct Comparison {
    /// Number of records that are equal in every column.
    pub equal: u64,
    /// Number of records that one side lacks, or that differ.
    pub different: u64,
}

/// Compares every record of the snapshot in `file` with the database of the data directory `data`,
/// which no server may use.
pub async fn compare(file: &Path, data: &Path) -> Comparison {
    let mut database = SqliteConnectOptions::new()
        .filename(data.join("bulkhead.db"))
        .read_only(true)
        .connect()
        .await
        .expect("the database can be read");
    let mut snapshot = SnapshotRows::open(file);
    let (mut last, mut count) = (0, 0);
    let mut differing: BTreeMap<Vec<u8>, i8> = BTreeMap::new();
    loop {
        let page = page(&mut database, last).await;
        let Some((end, _)) = page.last() else { break };
        last = *end;
        for (_, stored) in page {
            let saved = snapshot.next();
            count += 1;
            if saved.as_ref() == Some(&stored) {
                continue;
            }
            // A record that was deleted or written again shifts the order.
            *differing.entry(stored).or_default() += 1;
            saved.into_iter().for_each(|saved| *differing.entry(saved).or_default() -= 1);
        }
        differing.retain(|_, balance| *balance != 0);
    }
    for saved in snapshot.by_ref() {
        *differing.entry(saved).or_default() -= 1;
    }
    snapshot.end();
    let different = differing.values().map(|balance| u64::from(balance.unsigned_abs())).sum();
    let missing: u64 = differing.values().map(|balance| u64::from(*balance > 0)).sum();
    Comparison { equal: count - missing, different }
}

/// Returns the next rows of the database after the row `last`, in the form of a snapshot.
async fn page(database: &mut SqliteConnection, last: i64) -> Vec<(i64, Vec<u8>)> {
    let text = format!(
        "SELECT rowid, space, key, stamp, due, lane, owner, created, modified, sealed FROM record \
         WHERE rowid > {last} ORDER BY rowid LIMIT {PAGE}"
    );
    let rows = sqlx::query(AssertSqlSafe(text)).fetch_all(database).await;
    rows.expect("the database can be read")
        .iter()
        .map(|row| (row.get("rowid"), encoded(row)))
        .collect()
}

/// Encodes a row as `docs/snapshots.md` describes a row of a snapshot.
fn encoded(row: &SqliteRow) -> Vec<u8> {
    let mut bytes = row.get::<i64, _>("space").to_be_bytes().to_vec();
    let field = |bytes: &mut Vec<u8>, content: &[u8]| {
        let length = u32::try_from(content.len()).expect("a record is smaller");
        bytes.extend(length.to_be_bytes());
        bytes.extend(content);
    };
    let number = |bytes: &mut Vec<u8>, value: Option<i64>| {
        bytes.push(u8::from(value.is_some()));
        bytes.extend(value.iter().flat_map(|value| value.to_be_bytes()));
    };
    field(&mut bytes, row.get::<String, _>("key").as_bytes());
    field(&mut bytes, &row.get::<Vec<u8>, _>("stamp"));
    number(&mut bytes, row.get("due"));
    field(&mut bytes, row.get::<String, _>("lane").as_bytes());
    field(&mut bytes, row.get::<String, _>("owner").as_bytes());
    number(&mut bytes, row.get("created"));
    number(&mut bytes, row.get("modified"));
    field(&mut bytes, &row.get::<Vec<u8>, _>("sealed"));
    bytes
}

/// The records of a snapshot, in order, and the process of `tar` that reads the archive.
struct SnapshotRows {
    output: BufReader<ChildStdout>,
    tar: Child,
}

impl SnapshotRows {
    /// Lets `tar` write the parts with rows, in the order of the archive.
    fn open(file: &Path) -> Self {
        let mut tar = Command::new("tar");
        tar.arg("-xzOf").arg(file).args(["--wildcards", "state.*.bin"]).stdout(Stdio::piped());
        let mut tar = tar.spawn().expect("tar can be started");
        let output = tar.stdout.take().expect("the output is piped");
        Self { output: BufReader::with_capacity(1 << 20, output), tar }
    }

    /// Asserts that `tar` read the whole archive without an error.
    fn end(mut self) {
        let status = self.tar.wait().expect("tar is a child");
        assert!(status.success(), "tar cannot read the snapshot: {status}");
    }
}

impl Iterator for SnapshotRows {
    type Item = Vec<u8>;

    fn next(&mut self) -> Option<Vec<u8>> {
        loop {
            let mut head = [0; 5];
            match self.output.read_exact(&mut head) {
                Ok(()) => {}
                Err(error) if error.kind() == ErrorKind::UnexpectedEof => return None,
                Err(error) => panic!("the output of tar cannot be read: {error}"),
            }
            let [kind, length @ ..] = head;
            let length = usize::try_from(u32::from_be_bytes(length)).expect("a row fits memory");
            let mut rest = vec![0; length];
            self.output.read_exact(&mut rest).expect("a row is complete");
            if kind == RECORD_KIND {
                return Some(rest);
            }
        }
    }
}

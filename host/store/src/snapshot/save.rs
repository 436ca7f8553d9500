//! Taking a snapshot: a task reads the database in a single transaction and hands out the file in
//! pieces.
//!
//! This file prevents a snapshot that mixes two commits: all rows are read in one read transaction
//! on a connection of its own. Readers and the writer go on. The pieces wait for their reader, so
//! that a snapshot of any size needs memory for a few pieces; if the reader goes away, the task
//! ends and closes the connection.

use std::path::Path;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bulkhead_wire::byte_stream::ByteSource;
use bulkhead_wire::failure::Failure;
use futures_util::TryStreamExt as _;
use tokio::sync::mpsc;

use crate::database::DatabaseReader;
use crate::identity::StoreIdentity;
use crate::open_data::OpenData;
use crate::snapshot_places::SnapshotPlace;
use crate::store::Store;
use bulkhead_record::archive::{
    ArchiveWriter, MANIFEST_NAME, PART_BYTES, SUMS_PURPOSE, state_name,
};
use bulkhead_record::fault::StoreFault;
use bulkhead_record::meta_rows::MetaRows;
use bulkhead_record::row_format::{push_identity, push_record};
use bulkhead_record::snapshot_manifest::SnapshotManifest;

/// Number of pieces that wait for the reader.
const WAITING_PIECES: usize = 1;

/// Maximum time of a snapshot. The database keeps the changes made meanwhile in its write-ahead
/// log, and the log cannot shrink before the end.
const SNAPSHOT_TIME: Duration = Duration::from_secs(3_600);

/// Origin of a snapshot, for the manifest.
pub struct SnapshotOrigin {
    /// Version of the server.
    pub server_version: String,
    /// Store time in milliseconds since 1970.
    pub store_time: u64,
    /// The same time in RFC 3339.
    pub taken_at: String,
}

/// A piece on the way to the reader.
enum SnapshotPiece {
    Bytes(Vec<u8>),
    /// The end of a complete snapshot.
    Last(Vec<u8>),
    Failed(StoreFault),
}

/// The bytes of a snapshot. Dropping the stream ends the snapshot.
pub struct SnapshotStream {
    pieces: mpsc::Receiver<SnapshotPiece>,
    is_over: bool,
}

impl ByteSource for SnapshotStream {
    fn poll_chunk(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<Vec<u8>, Failure>>> {
        if self.is_over {
            return Poll::Ready(None);
        }
        let piece = std::task::ready!(self.pieces.poll_recv(context));
        let (is_over, piece) = match piece {
            Some(SnapshotPiece::Bytes(bytes)) => (false, Ok(bytes)),
            Some(SnapshotPiece::Last(bytes)) => (true, Ok(bytes)),
            Some(SnapshotPiece::Failed(fault)) => (true, Err(fault.into())),
            None => (true, Err(interrupted().into())),
        };
        self.is_over = is_over;
        Poll::Ready(Some(piece))
    }
}

impl Store {
    /// Begins a snapshot of the newest commit. The file is sealed as on disk, and `origin` is part
    /// of the manifest.
    ///
    /// # Errors
    /// [`StoreFault::Unavailable`] if two snapshots are being taken already, or the database cannot
    /// be read.
    pub async fn snapshot(&self, origin: SnapshotOrigin) -> Result<SnapshotStream, StoreFault> {
        let data = self.data();
        let place = data.snapshots.take()?;
        let mut reader = data.database.begin_snapshot().await?;
        let begun = begin(&mut reader, &data, origin).await;
        let (manifest, identity_rows) = match begun {
            Ok(begun) => begun,
            Err(fault) => {
                reader.close().await;
                return Err(fault);
            }
        };
        let (sender, pieces) = mpsc::channel(WAITING_PIECES);
        let task = SnapshotTask { data, reader, manifest, identity_rows };
        tokio::spawn(task.run(place, sender));
        Ok(SnapshotStream { pieces, is_over: false })
    }
}

/// Rows of `meta`: name and value.
pub(super) type IdentityRows = Vec<(String, Vec<u8>)>;

/// Reads the identity of the store and the numbers of the manifest.
async fn begin(
    reader: &mut DatabaseReader,
    data: &OpenData,
    origin: SnapshotOrigin,
) -> Result<(SnapshotManifest, MetaRows), StoreFault> {
    let rows = reader.identity_rows().await?;
    let records = reader.count_records().await?;
    let identity = StoreIdentity::of_rows(&rows, Path::new("the database"))?;
    let number = |name: &str| std::str::from_utf8(rows.get(name)?).ok()?.parse().ok();
    let manifest = SnapshotManifest {
        format: number("format").unwrap_or_default(),
        // The row is absent if only the first script was applied.
        schema: number("schema").unwrap_or(1),
        cluster_id: identity.cluster_name(),
        store_time: origin.store_time,
        taken_at: origin.taken_at,
        server_version: origin.server_version,
        records,
        identity_rows: u64::try_from(rows.len()).unwrap_or_default(),
        key_term: data.seal.status().term.into(),
    };
    Ok((manifest, rows))
}

/// A snapshot in progress, in its transaction.
struct SnapshotTask {
    data: Arc<OpenData>,
    reader: DatabaseReader,
    manifest: SnapshotManifest,
    identity_rows: MetaRows,
}

impl SnapshotTask {
    async fn run(mut self, mut place: SnapshotPlace, pieces: mpsc::Sender<SnapshotPiece>) {
        let written = tokio::select! {
            biased;
            () = place.closed() => Err(StoreFault::Unavailable(
                "the store was closed during the snapshot; unseal the server, then take another \
                 snapshot"
                    .to_owned(),
            )),
            () = tokio::time::sleep(SNAPSHOT_TIME) => Err(StoreFault::Unavailable(format!(
                "the snapshot took longer than {} s and was ended; read the snapshot faster",
                SNAPSHOT_TIME.as_secs()
            ))),
            written = self.write(&pieces) => written,
        };
        self.reader.close().await;
        if let Err(fault) = written {
            // Without this piece the end of the channel tells the reader.
            drop(pieces.try_send(SnapshotPiece::Failed(fault)));
        }
    }

    async fn write(&mut self, pieces: &mpsc::Sender<SnapshotPiece>) -> Result<(), StoreFault> {
        let mut archive = ArchiveWriter::default();
        archive.add(MANIFEST_NAME, self.manifest.to_json().to_string().as_bytes()).map_err(full)?;
        let (mut part, mut parts) = (Vec::new(), 0_u64);
        for (name, value) in &self.identity_rows {
            push_identity(&mut part, name, value)?;
        }
        let mut records = self.reader.records();
        while let Some(record) = records.try_next().await? {
            push_record(&mut part, &record?)?;
            if part.len() >= PART_BYTES {
                (archive, part) = add_part(archive, state_name(parts), part).await?;
                send(pieces, SnapshotPiece::Bytes(archive.take())).await?;
                part.clear();
                parts += 1;
            }
        }
        drop(records);
        if !part.is_empty() {
            (archive, _) = add_part(archive, state_name(parts), part).await?;
            send(pieces, SnapshotPiece::Bytes(archive.take())).await?;
        }
        let hashes = self.data.seal.hashes();
        let last = archive.finish(|sums| hashes.keyed_hash(SUMS_PURPOSE, sums)).map_err(full)?;
        send(pieces, SnapshotPiece::Last(last)).await
    }
}

/// Adds a part to the archive, and returns both. A thread of its own works on the part: hash and
/// checksum take milliseconds, in which a thread of the runtime would serve no request.
async fn add_part(
    mut archive: ArchiveWriter,
    name: String,
    part: Vec<u8>,
) -> Result<(ArchiveWriter, Vec<u8>), StoreFault> {
    let adding = move || archive.add(&name, &part).map(|()| (archive, part));
    let added = tokio::task::spawn_blocking(adding).await;
    added.map_err(|_| interrupted())?.map_err(full)
}

async fn send(
    pieces: &mpsc::Sender<SnapshotPiece>,
    piece: SnapshotPiece,
) -> Result<(), StoreFault> {
    pieces.send(piece).await.map_err(|_| interrupted())
}

fn interrupted() -> StoreFault {
    StoreFault::Unavailable("the snapshot was interrupted; take another snapshot".to_owned())
}

fn full(error: std::io::Error) -> StoreFault {
    StoreFault::Unavailable(format!("the snapshot cannot be written: {error}"))
}

//! Large values in the store: components and their compiled code, in pieces below the component's
//! digest.
//!
//! The pieces are written before the row with their digest, so a reader of the row finds all
//! pieces.

use super::builds::RecentBuilds;
use bulkhead_sandbox::compiled::{AuthenticCode, BUILD, UnsealedFile};
use bulkhead_sandbox::component::digest;
use bulkhead_store::{Address, IndexColumns, Space, Store, StoreFault};
use bulkhead_wire::failure::{Failure, FailureKind};
use bulkhead_wire::stored;
use bulkhead_wire::stored::Stored;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::io;
use std::ops::Range;
use std::sync::Arc;

/// Maximum size of a piece, in bytes.
const PIECE_BYTES: usize = 256 << 10;
/// Maximum number of pieces per commit.
const PIECES_PER_COMMIT: usize = 4;

/// The length and the authentication tag of stored code.
#[derive(Serialize, Deserialize)]
struct CodeTag {
    bytes: usize,
    tag: String,
}

stored!(CodeTag, "compiled-code", reads_stored_compiled_code);

fn wasm(digest: &str) -> String {
    format!("wasm/{digest}/")
}

fn code(digest: &str) -> String {
    format!("code/{digest}/{BUILD}/")
}

fn tag_address(digest: &str) -> Address {
    Address::new(Space::Blob, format!("made/{digest}/{BUILD}"))
}

/// Stores a component.
pub(super) async fn put_wasm(
    store: &Arc<Store>,
    digest: &str,
    bytes: &[u8],
) -> Result<(), Failure> {
    let read = |range: Range<usize>| Ok(bytes.get(range).unwrap_or_default().to_vec());
    put(store, &wasm(digest), bytes.len(), read).await
}

/// Returns the component with the digest `wanted`, or `None` if the stored pieces do not match the
/// digest.
pub(super) async fn wasm_of(
    store: &Arc<Store>,
    wanted: &str,
    bytes: usize,
) -> Result<Option<Vec<u8>>, Failure> {
    let mut found = Vec::new();
    let append = |piece: &[u8]| {
        found.extend_from_slice(piece);
        Ok(())
    };
    let is_whole = get(store, &wasm(wanted), bytes, append).await?;
    Ok(Some(found).filter(|found| is_whole && digest(found) == wanted))
}

/// Stores compiled code with its authentication tag.
pub(super) async fn put_code(
    store: &Arc<Store>,
    digest: &str,
    made_now: &AuthenticCode,
) -> Result<(), Failure> {
    put(store, &code(digest), made_now.bytes(), |range| made_now.read(range)).await?;
    let row = CodeTag { bytes: made_now.bytes(), tag: made_now.tag(store, digest) };
    let mut unit = store.begin();
    unit.put(tag_address(digest), row.to_bytes()?, IndexColumns::default());
    unit.commit().await?;
    Ok(())
}

/// Stored code, or the reason for its absence.
pub(super) enum StoredCode {
    Authentic(AuthenticCode),
    /// This build has not compiled the component yet.
    Absent,
    /// The stored code was altered or damaged.
    NotAuthentic,
}

/// Reports whether this build has compiled the component before. The code itself is not read.
pub(super) async fn has_code(store: &Arc<Store>, digest: &str) -> Result<bool, Failure> {
    match store.begin().get(&tag_address(digest)).await {
        Err(StoreFault::Damaged(_)) => Ok(false),
        found => Ok(found?.is_some()),
    }
}

/// Returns the code of a component, compiled by this build. The pieces go into the sealed file that
/// is mapped, so the code is in memory once.
///
/// # Errors
/// 503 if the store cannot be read, or the system has no memory or descriptor left.
pub(super) async fn code_of(store: &Arc<Store>, digest: &str) -> Result<StoredCode, Failure> {
    let row = match store.begin().get(&tag_address(digest)).await {
        Err(StoreFault::Damaged(_)) => return Ok(StoredCode::NotAuthentic),
        found => found?,
    };
    let Some(row) = row else { return Ok(StoredCode::Absent) };
    let Ok(CodeTag { bytes, tag }) = CodeTag::from_bytes(&row.body) else {
        return Ok(StoredCode::NotAuthentic);
    };
    let mut file = UnsealedFile::new().map_err(no_file)?;
    if !get(store, &code(digest), bytes, |piece| file.append(piece)).await? {
        return Ok(StoredCode::NotAuthentic);
    }
    let authentic = AuthenticCode::open(store, digest, file, &tag).map_err(no_file)?;
    Ok(authentic.map_or(StoredCode::NotAuthentic, StoredCode::Authentic))
}

/// Deletes the stored bytes of components other than `used_digests`, after a removal or an
/// interrupted upload, and the code from other builds than this one and the one before.
pub(super) async fn delete_unused(
    store: &Arc<Store>,
    used_digests: &BTreeSet<String>,
) -> Result<(), Failure> {
    let builds = RecentBuilds::record_build(store).await?;
    let mut scan = store.scan(Space::Blob, "");
    while let Some(page) = scan.page().await? {
        let is_kept = |address: &Address| {
            let mut parts = address.key.split('/');
            let (kind, digest, build) =
                (parts.next(), parts.next().unwrap_or_default(), parts.next());
            let is_of_kept_build = || builds.keep(build.unwrap_or_default());
            used_digests.contains(digest) && (kind == Some("wasm") || is_of_kept_build())
        };
        let mut unit = store.begin();
        page.into_iter()
            .filter(|address| !is_kept(address))
            .for_each(|address| unit.delete(address));
        unit.commit().await?;
    }
    Ok(())
}

fn piece_address(prefix: &str, number: usize) -> Address {
    Address::new(Space::Blob, format!("{prefix}{number:05}"))
}

/// Stores `length` bytes, each piece as `read` returns it.
async fn put(
    store: &Arc<Store>,
    prefix: &str,
    length: usize,
    read: impl Fn(Range<usize>) -> io::Result<Vec<u8>>,
) -> Result<(), Failure> {
    let pieces: Vec<usize> = (0..length.div_ceil(PIECE_BYTES)).collect();
    for some in pieces.chunks(PIECES_PER_COMMIT) {
        let mut unit = store.begin();
        for number in some {
            let begin = number * PIECE_BYTES;
            let part = read(begin..length.min(begin + PIECE_BYTES)).map_err(no_file)?;
            unit.put(piece_address(prefix, *number), part, IndexColumns::default());
        }
        unit.commit().await?;
    }
    Ok(())
}

/// Passes the stored pieces to `append`, in order. Returns false if a piece is missing or cannot be
/// opened, or if the total length is not `bytes`.
async fn get(
    store: &Arc<Store>,
    prefix: &str,
    bytes: usize,
    mut append: impl FnMut(&[u8]) -> io::Result<()>,
) -> Result<bool, Failure> {
    let mut length = 0;
    for number in 0..bytes.div_ceil(PIECE_BYTES) {
        match store.begin().get(&piece_address(prefix, number)).await {
            Ok(Some(part)) => {
                length += part.body.len();
                append(&part.body).map_err(no_file)?;
            }
            Ok(None) | Err(StoreFault::Damaged(_)) => return Ok(false),
            Err(fault) => return Err(fault.into()),
        }
    }
    Ok(length == bytes)
}

/// Returns the failure of a system without memory or descriptors for a plugin's code.
fn no_file(error: io::Error) -> Failure {
    Failure::new(FailureKind::Unavailable, format!("no memory for the code of a plugin: {error}"))
}

//! Large values in the store: components and their compiled code, in pieces below the component's
//! digest.
//!
//! The pieces are written before the row with their digest, so a reader of the row finds all
//! pieces.

use super::builds::Builds;
use bulkhead_sandbox::compiled::{AuthenticCode, BUILD};
use bulkhead_sandbox::component::digest;
use bulkhead_store::{Address, Index, Space, Store, StoreFault};
use bulkhead_wire::failure::Failure;
use bulkhead_wire::stored;
use bulkhead_wire::stored::Stored;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::sync::Arc;

/// Maximum size of a piece, in bytes.
const PIECE: usize = 256 << 10;
/// Maximum number of pieces per commit.
const TOGETHER: usize = 4;

/// The length and the authentication tag of stored code.
#[derive(Serialize, Deserialize)]
struct Made {
    bytes: usize,
    tag: String,
}

stored!(Made, "compiled-code", reads_stored_compiled_code);

fn wasm(digest: &str) -> String {
    format!("wasm/{digest}/")
}

fn code(digest: &str) -> String {
    format!("code/{digest}/{BUILD}/")
}

fn made(digest: &str) -> Address {
    Address::new(Space::Blob, format!("made/{digest}/{BUILD}"))
}

/// Stores a component.
pub(super) async fn put_wasm(
    store: &Arc<Store>,
    digest: &str,
    bytes: &[u8],
) -> Result<(), Failure> {
    put(store, &wasm(digest), bytes).await
}

/// Returns the component with the digest `wanted`, or `None` if the stored pieces do not match the
/// digest.
pub(super) async fn wasm_of(
    store: &Arc<Store>,
    wanted: &str,
    bytes: usize,
) -> Result<Option<Vec<u8>>, Failure> {
    let found = get(store, &wasm(wanted), bytes).await?;
    Ok(found.filter(|found| digest(found) == wanted))
}

/// Stores compiled code with its authentication tag.
pub(super) async fn put_code(
    store: &Arc<Store>,
    digest: &str,
    made_now: &AuthenticCode,
) -> Result<(), Failure> {
    put(store, &code(digest), made_now.bytes()).await?;
    let row = Made { bytes: made_now.bytes().len(), tag: made_now.tag(store, digest) };
    let mut unit = store.begin();
    unit.put(made(digest), row.to_bytes()?, Index::default());
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
    match store.begin().get(&made(digest)).await {
        Err(StoreFault::Damaged(_)) => Ok(false),
        found => Ok(found?.is_some()),
    }
}

/// Returns the code of a component, compiled by this build.
pub(super) async fn code_of(store: &Arc<Store>, digest: &str) -> Result<StoredCode, Failure> {
    let row = match store.begin().get(&made(digest)).await {
        Err(StoreFault::Damaged(_)) => return Ok(StoredCode::NotAuthentic),
        found => found?,
    };
    let Some(row) = row else { return Ok(StoredCode::Absent) };
    let Ok(Made { bytes, tag }) = Made::from_bytes(&row.body) else {
        return Ok(StoredCode::NotAuthentic);
    };
    let found = get(store, &code(digest), bytes).await?;
    let authentic = found.and_then(|found| AuthenticCode::open(store, digest, found, &tag));
    Ok(authentic.map_or(StoredCode::NotAuthentic, StoredCode::Authentic))
}

/// Deletes the stored bytes of components other than `kept`, after a removal or an interrupted
/// upload, and the code from other builds than this one and the one before.
pub(super) async fn sweep(store: &Arc<Store>, kept: &BTreeSet<String>) -> Result<(), Failure> {
    let builds = Builds::note(store).await?;
    let mut scan = store.scan(Space::Blob, "");
    while let Some(page) = scan.page().await? {
        let is_kept = |address: &Address| {
            let mut parts = address.key.split('/');
            let (kind, digest, build) =
                (parts.next(), parts.next().unwrap_or_default(), parts.next());
            let is_of_kept_build = || builds.keep(build.unwrap_or_default());
            kept.contains(digest) && (kind == Some("wasm") || is_of_kept_build())
        };
        let mut unit = store.begin();
        page.into_iter()
            .filter(|address| !is_kept(address))
            .for_each(|address| unit.delete(address));
        unit.commit().await?;
    }
    Ok(())
}

fn piece(prefix: &str, number: usize) -> Address {
    Address::new(Space::Blob, format!("{prefix}{number:05}"))
}

async fn put(store: &Arc<Store>, prefix: &str, bytes: &[u8]) -> Result<(), Failure> {
    let pieces: Vec<(usize, &[u8])> = bytes.chunks(PIECE).enumerate().collect();
    for some in pieces.chunks(TOGETHER) {
        let mut unit = store.begin();
        some.iter().for_each(|(number, part)| {
            unit.put(piece(prefix, *number), part.to_vec(), Index::default())
        });
        unit.commit().await?;
    }
    Ok(())
}

/// Returns `None` if a piece is missing or cannot be opened, or if the total length is not `bytes`.
async fn get(store: &Arc<Store>, prefix: &str, bytes: usize) -> Result<Option<Vec<u8>>, Failure> {
    let mut whole = Vec::new();
    for number in 0..bytes.div_ceil(PIECE) {
        match store.begin().get(&piece(prefix, number)).await {
            Ok(Some(part)) => whole.extend_from_slice(&part.body),
            Ok(None) | Err(StoreFault::Damaged(_)) => return Ok(None),
            Err(fault) => return Err(fault.into()),
        }
    }
    Ok(Some(whole).filter(|whole| whole.len() == bytes))
}

//! Files that would fill memory, disk or time, files with contradicting rows, and restores that end
//! early.

use super::restoring::{archived, copy_of, prepare, refusal, with_identity};
use super::*;
use std::sync::atomic::{AtomicUsize, Ordering};

fn read(archive: ArchiveWriter) -> String {
    let bytes = archive.finish(|_| String::new()).unwrap();
    match read_snapshot(bytes.as_slice(), |_| Ok(())) {
        Err(StoreFault::Refused(text)) => text,
        other => panic!("{other:?}"),
    }
}

fn begun(manifest: &SnapshotManifest) -> ArchiveWriter {
    let mut archive = ArchiveWriter::default();
    archive.add("meta.json", manifest.to_json().to_string().as_bytes()).unwrap();
    archive
}

fn manifest() -> SnapshotManifest {
    SnapshotManifest {
        format: 2,
        schema: 5,
        cluster_id: "cluster".to_owned(),
        store_time: 1,
        taken_at: "2027-01-15T08:00:00Z".to_owned(),
        server_version: "0.1.0".to_owned(),
        records: 0,
        identity_rows: 0,
        key_term: 1,
    }
}

#[test]
fn large_entries_are_refused_before_reading() {
    let mut archive = ArchiveWriter::default();
    archive.add("meta.json", &vec![b' '; (64 << 10) + 1]).unwrap();
    assert!(read(archive).contains("longer than 65536 bytes"));
    let mut archive = begun(&manifest());
    archive.add("SHA256SUMS", &vec![b' '; 1 << 20]).unwrap();
    assert!(read(archive).contains("digests in SHA256SUMS"));
    let bytes = begun(&manifest()).finish(|_| "a".repeat(65)).unwrap();
    let refused = read_snapshot(bytes.as_slice(), |_| Ok(()));
    assert!(matches!(refused, Err(StoreFault::Refused(text)) if text.contains("than 64 bytes")));
}

#[test]
fn short_part_must_be_the_last() {
    let mut archive = begun(&manifest());
    archive.add("state.00000000.bin", &[]).unwrap();
    archive.add("state.00000001.bin", &[]).unwrap();
    assert!(read(archive).contains("out of order"));
}

#[test]
fn large_identity_is_refused_at_its_row() {
    let mut part = Vec::new();
    bulkhead_record::row_format::push_identity(&mut part, "large", &vec![0; 1 << 20]).unwrap();
    bulkhead_record::row_format::push_identity(&mut part, "later", b"").unwrap();
    let mut archive = begun(&manifest());
    archive.add("state.00000000.bin", &part).unwrap();
    let bytes = archive.finish(|_| String::new()).unwrap();
    let mut count = 0;
    let refused = read_snapshot(bytes.as_slice(), |_| {
        count += 1;
        Ok(())
    });
    assert!(matches!(refused, Err(StoreFault::Refused(text)) if text.contains("too large")));
    assert_eq!(count, 0);
}

#[test]
fn long_manifest_text_is_never_repeated() {
    for text in ["v".repeat(65), "v\nlevel=error".to_owned()] {
        let changed = SnapshotManifest { server_version: text.clone(), ..manifest() };
        let refused = read(begun(&changed));
        assert!(refused.contains("\"server_version\"") && !refused.contains(&text), "{refused}");
    }
}

#[tokio::test]
async fn mark_in_future_is_refused() {
    let (scratch, elsewhere) = (ScratchDirectory::of_files(), ScratchDirectory::of_files());
    let store = filled(&scratch).await;
    let (bytes, _) = take(&store).await;
    let now = store.now();
    store.close().await;
    drop(store);
    let directory = scratch.hold().await;
    let (summary, rows) = rows_of(&bytes);
    let ahead = |days: u64| (now.max(1_800_000_000_000) + days * 86_400_000).to_string();
    let marked = |days: u64| {
        let mark = ahead(days).into_bytes();
        let rows = with_identity(&rows, move |name, value| {
            Some(if name == "time" { mark.clone() } else { value.to_vec() })
        });
        archived(&elsewhere, &summary.manifest, &rows)
    };
    assert!(refusal(prepare(&directory, &marked(2)).await).contains("a day ahead"));
    drop(prepare(&directory, &marked(0)).await.unwrap());
}

#[tokio::test]
async fn restore_ends_when_asked_and_leaves_nothing() {
    let scratch = ScratchDirectory::of_files();
    let bytes = take_and_close(&scratch).await;
    let snapshot = saved(&scratch, &bytes);
    let directory = scratch.hold().await;
    let before = scratch.files();
    let rows = rows_of(&bytes).1.len();
    // In the first reading, in the second reading, and before the last batch.
    for allowed in [0, rows + 1, 2 * rows] {
        let left = AtomicUsize::new(allowed);
        let may_continue = move || {
            left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1))
                .is_ok()
        };
        let conditions = RestoreConditions::any().lasting_while(may_continue);
        let ended = directory.prepare_restore(&snapshot, conditions).await.err();
        assert!(
            matches!(&ended, Some(StoreFault::Unavailable(text)) if text.contains("interrupted")),
            "{allowed}: {ended:?}"
        );
        assert!(scratch.files() == before, "{allowed}");
    }
}

#[tokio::test]
async fn snapshot_with_contradicting_rows_is_refused() {
    let (scratch, elsewhere) = (ScratchDirectory::of_files(), ScratchDirectory::of_files());
    let bytes = take_and_close(&scratch).await;
    let directory = scratch.hold().await;
    let before = scratch.files();
    let (summary, rows) = rows_of(&bytes);
    let manifest = summary.manifest;
    let set = |row: &'static str, new: &'static [u8]| {
        with_identity(&rows, |name, value| Some(if name == row { new } else { value }.to_vec()))
    };
    let twice = |row: &SnapshotRow| {
        rows.iter().map(copy_of).chain([copy_of(row)]).collect::<Vec<SnapshotRow>>()
    };
    let other = SnapshotManifest { cluster_id: "another".to_owned(), ..manifest.clone() };
    let many = (0..300).map(|number| SnapshotRow::Identity(format!("row-{number}"), Vec::new()));
    for (rows, manifest, part) in [
        (twice(rows.last().unwrap()), &manifest, "two rows have the same name"),
        (twice(&rows[0]), &manifest, "two rows have the same name"),
        (set("format", b"1"), &manifest, "another format"),
        (set("schema", b"99"), &manifest, "knows schemas up to"),
        (set("schema", b"0"), &manifest, "not a number"),
        (set("schema", b"x"), &manifest, "not a number"),
        (set("restored", b""), &other, "another cluster"),
        (set("cluster", b"short"), &manifest, "identity are incomplete"),
        (many.chain(rows.iter().map(copy_of)).collect(), &manifest, "too many"),
        (
            with_identity(&rows, |name, value| (name != "keyring").then(|| value.to_vec())),
            &manifest,
            "identity are incomplete",
        ),
    ] {
        let path = archived(&elsewhere, manifest, &rows);
        let text = refusal(prepare(&directory, &path).await);
        assert!(text.contains(part) && text.contains("nothing was changed"), "{part}: {text}");
        assert!(scratch.files() == before, "{part}");
    }
}

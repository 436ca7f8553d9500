//! Tests of scans over keys.

use super::*;
use crate::IndexColumns;
use crate::testing::{ScratchDirectory, data, put, put_indexed};

fn keys(page: Vec<Address>) -> Vec<String> {
    page.into_iter().map(|address| address.key).collect()
}

async fn pages(mut scan: PrefixScan) -> Vec<Vec<String>> {
    let mut pages = Vec::new();
    while let Some(page) = scan.page().await.unwrap() {
        pages.push(keys(page));
    }
    pages
}

async fn owned(mut scan: OwnedScan) -> Vec<Vec<String>> {
    let mut pages = Vec::new();
    while let Some(page) = scan.page().await.unwrap() {
        pages.push(keys(page));
    }
    pages
}

async fn filled(scratch: &ScratchDirectory) -> Arc<Store> {
    let store = scratch.open().await;
    for key in ["b/1", "a/1", "a/3", "a/2"] {
        let index = IndexColumns { owner: "token".into(), ..IndexColumns::default() };
        put_indexed(&store, data(key), "x", index).await;
    }
    put(&store, data("a/0"), "of nobody").await;
    put(&store, Address::new(Space::Core, "a/9"), "of another kind").await;
    store
}

#[tokio::test]
async fn walk_gives_each_prefix_key_once_in_order() {
    let scratch = ScratchDirectory::new();
    let store = filled(&scratch).await;
    for (limit, expected) in [
        (2, vec![vec!["a/0", "a/1"], vec!["a/2", "a/3"]]),
        (3, vec![vec!["a/0", "a/1", "a/2"], vec!["a/3"]]),
        (99, vec![vec!["a/0", "a/1", "a/2", "a/3"]]),
    ] {
        assert_eq!(pages(store.scan(Space::Data, "a/").by(limit)).await, expected, "by {limit}");
    }
    for nothing in [store.scan(Space::Data, "c"), store.scan(Space::Data, "a").by(0)] {
        assert!(pages(nothing).await.is_empty());
    }
}

#[tokio::test]
async fn owner_records_are_listed_once_in_creation_order() {
    let scratch = ScratchDirectory::new();
    let store = filled(&scratch).await;
    let scan = |owner: &str| store.scan_owned(Space::Data, owner);
    assert_eq!(owned(scan("token").by(3)).await, [vec!["b/1", "a/1", "a/3"], vec!["a/2"]]);
    assert_eq!(owned(scan("token").by(4)).await, [["b/1", "a/1", "a/3", "a/2"]]);
    for nothing in [scan(""), scan("nobody"), scan("token").by(0)] {
        assert!(owned(nothing).await.is_empty());
    }
    // A record that leaves its owner is left out; a rewritten record keeps its place.
    let index = IndexColumns { owner: "token".into(), ..IndexColumns::default() };
    put_indexed(&store, data("b/1"), "y", index).await;
    put(&store, data("a/1"), "on its own").await;
    assert_eq!(owned(scan("token")).await, [["b/1", "a/3", "a/2"]]);
}

#[tokio::test]
async fn scan_continues_at_given_key_even_after_end() {
    let scratch = ScratchDirectory::new();
    let store = filled(&scratch).await;
    let mut scan = store.scan(Space::Data, "");
    assert_eq!(scan.page().await.unwrap().unwrap().len(), 5);
    assert_eq!(scan.page().await.unwrap(), None);
    scan.skip_to("a/\u{10ffff}");
    assert_eq!(scan.page().await.unwrap().unwrap(), [data("b/1")]);
    scan.skip_to("z");
    assert_eq!(scan.page().await.unwrap(), None);
}

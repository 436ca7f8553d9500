//! Tests of the names of nodes that share a database.

use std::sync::Arc;
use std::time::Duration;

use super::{IDLE, expire, initialised, key, refusal};
use crate::clock::StoreClock;
use crate::data_directory::DataDirectory;
use crate::testing::{ScratchDirectory, data, numbers, put};
use crate::{LivingNode, NodeDescription, NodeSharing, Store, StoreFault, StoreOptions};
use bulkhead_place::claim_watch::ClaimTimes;

fn named(scratch: &ScratchDirectory, node_id: &str) -> StoreOptions {
    let api_address = format!("https://{node_id}:8200");
    let versions = ("1.21.0", "0.1.0");
    let node = NodeDescription::on_this_machine((node_id, &api_address), versions);
    StoreOptions { sharing: NodeSharing::Shared, node, ..scratch.options() }
}

async fn open_named(
    options: StoreOptions,
    claim_times: ClaimTimes,
) -> Result<Arc<Store>, StoreFault> {
    let mut directory = DataDirectory::hold_uninspected(options, StoreClock::system()).unwrap();
    directory.claim_times = claim_times;
    directory.inspect().await?;
    Arc::new(directory).open(key()).await
}

fn ids(nodes: &[LivingNode]) -> Vec<&str> {
    nodes.iter().map(|node| node.description.node_id.as_str()).collect()
}

#[tokio::test]
async fn each_node_lists_all_with_descriptions() {
    let scratch = initialised().await;
    let beside = scratch.beside();
    let times = ClaimTimes::default();
    let one = open_named(named(&scratch, "a"), times).await.unwrap();
    let other = open_named(named(&beside, "b"), times).await.unwrap();
    put(&one, data("x"), "1").await;
    for (store, own) in [(&one, "a"), (&other, "b")] {
        let nodes = store.nodes().await.unwrap();
        assert_eq!(ids(&nodes), ["a", "b"], "the oldest first");
        for node in &nodes {
            assert_eq!(node.is_self, node.description.node_id == own);
            assert!(node.silence < Duration::from_secs(60) && node.age < Duration::from_secs(600));
            assert!(node.last_commit > 0);
        }
        assert_eq!(nodes[0].description, named(&scratch, "a").node);
    }
    while other.nodes().await.unwrap()[1].unread_commits > 0 {
        other.data().changes.await_next().await.unwrap();
    }
    other.close().await;
    assert_eq!(ids(&one.nodes().await.unwrap()), ["a"]);
}

#[tokio::test]
async fn node_that_works_alone_lists_nothing() {
    let scratch = initialised().await;
    let store = scratch.open().await;
    assert_eq!(store.nodes().await, Ok(Vec::new()));
    store.close().await;
    assert!(store.nodes().await.is_err());
}

#[tokio::test]
async fn second_node_of_same_name_is_refused() {
    let scratch = initialised().await;
    let (beside, third) = (scratch.beside(), scratch.beside());
    let busy = ClaimTimes { renewal: Duration::from_millis(30), ..IDLE };
    let one = open_named(named(&scratch, "a"), busy).await.unwrap();
    let before = numbers(&one, "SELECT count(*) FROM node").await;
    for text in [
        refusal(DataDirectory::hold(named(&beside, "a")).await),
        refusal(open_named(named(&third, "a"), IDLE).await),
        refusal(DataDirectory::examine_claim(&named(&third, "a")).await),
    ] {
        let process = format!("process {} on host ", std::process::id());
        for part in ["node_id \"a\"", "belongs to another node", "https://a:8200", &process] {
            assert!(text.contains(part), "{text}");
        }
    }
    assert_eq!(numbers(&one, "SELECT count(*) FROM node").await, before);
    put(&one, data("x"), "1").await;
    one.close().await;
    open_named(named(&third, "a"), IDLE).await.unwrap();
}

#[tokio::test]
async fn dead_node_leaves_its_name() {
    let scratch = initialised().await;
    let beside = scratch.beside();
    let dead = open_named(named(&scratch, "a"), IDLE).await.unwrap();
    expire(&scratch).await;
    let hasty = ClaimTimes { renewal: Duration::from_millis(30), ..IDLE };
    let next = open_named(named(&beside, "a"), hasty).await.unwrap();
    assert_eq!(ids(&next.nodes().await.unwrap()), ["a"], "the claim of the dead node has ended");
    let mut unit = dead.begin();
    unit.put(data("x"), b"1".to_vec(), crate::IndexColumns::default());
    assert!(unit.commit().await.is_err());
}

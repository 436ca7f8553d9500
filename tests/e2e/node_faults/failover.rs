//! The primary dies under two nodes, and its synchronous standby takes over: both nodes serve again
//! without a restart, and every acknowledged write is there.

use super::SOON;
use bulkhead_tests::database_nodes::{NodeSeal, connection_url};
use bulkhead_tests::postgres::acts::ServerEnd;
use bulkhead_tests::wait::{StopOnDrop, until_true};
use bulkhead_tests::{Client, DatabaseNodes, Postgres};
use serde_json::json;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread;

/// Writes of one client, each to a secret of its own.
#[derive(Default)]
struct NumberedWrites {
    /// Number of the last acknowledged write.
    acknowledged: AtomicU32,
    missing: AtomicU32,
}

impl NumberedWrites {
    /// Writes until `stop`. A write that is not acknowledged is sent again.
    fn run(&self, (root, name): (&Client, &str), stop: &AtomicBool) {
        let mut number = 1;
        while !stop.load(Ordering::SeqCst) {
            let answer =
                root.write(&format!("secret/{name}/{number}"), &json!({ "round": number }));
            match answer.status {
                204 => {
                    self.acknowledged.store(number, Ordering::SeqCst);
                    number += 1;
                }
                503 => drop(self.missing.fetch_add(1, Ordering::SeqCst)),
                status => panic!("a write answered {status}: {answer:?}"),
            }
        }
    }

    fn wait_for_more(&self) {
        let least = self.acknowledged.load(Ordering::SeqCst) + 10;
        until_true("writes go on", SOON, || self.acknowledged.load(Ordering::SeqCst) >= least);
    }
}

#[test]
fn both_nodes_serve_after_promotion_and_lose_nothing() {
    let database = Postgres::start();
    let standby = database.add_standby();
    let places = format!("127.0.0.1:{},127.0.0.1:{standby}", database.port);
    let url = connection_url(&database, &places) + "&target_session_attrs=read-write";
    let group = DatabaseNodes::start(&[url.clone(), url], NodeSeal::Shares);
    let roots = [0, 1].map(|index| group.root(index));
    let (writes, stop) =
        ([NumberedWrites::default(), NumberedWrites::default()], AtomicBool::new(false));
    thread::scope(|scope| {
        let _stop = StopOnDrop(&stop);
        for ((work, root), name) in writes.iter().zip(&roots).zip(["one", "two"]) {
            let stop = &stop;
            scope.spawn(move || work.run((root, name), stop));
        }
        writes.iter().for_each(NumberedWrites::wait_for_more);
        database.end(ServerEnd::Killed);
        for work in &writes {
            until_true("the outage shows", SOON, || work.missing.load(Ordering::SeqCst) > 0);
        }
        database.promote_standby();
        writes.iter().for_each(NumberedWrites::wait_for_more);
    });
    for (work, name) in writes.iter().zip(["one", "two"]) {
        for number in 1..=work.acknowledged.load(Ordering::SeqCst) {
            for root in &roots {
                let read = root.read(&format!("secret/{name}/{number}")).expect(200);
                assert_eq!(read.body["data"]["round"], number);
            }
        }
    }
    for node in &group.nodes {
        assert!(!node.printed().contains("database-claim-lost"), "{}", node.printed());
    }
}

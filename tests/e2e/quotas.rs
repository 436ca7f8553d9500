//! Lease-count quotas before a real database: what has no place is refused before it is asked.

use crate::world::World;
use bulkhead_tests::wait::until_true;
use serde_json::json;
use std::thread;
use std::time::Duration;

#[test]
fn a_client_in_a_loop_gets_as_many_users_as_the_quota_allows_and_no_more() {
    let world = World::new();
    let quota = json!({ "path": "database/creds/reader", "max_leases": 3 });
    world.root.write("sys/quotas/lease-count/readers", &quota).expect(204);
    let statuses: Vec<u16> = thread::scope(|scope| {
        let ask = || world.root.read("database/creds/reader").status;
        let asking: Vec<_> = (0..12).map(|_| scope.spawn(ask)).collect();
        asking.into_iter().map(|one| one.join().expect("a client ends")).collect()
    });
    assert_eq!(statuses.iter().filter(|status| **status == 200).count(), 3, "{statuses:?}");
    assert_eq!(statuses.iter().filter(|status| **status == 429).count(), 9, "{statuses:?}");
    assert_eq!(world.postgres.users().len(), 3);

    // Refused before the database is asked, and the rest of the mount is not affected.
    world.role("writer", json!({}));
    world.credential("writer");
    let paused = world.postgres.pause();
    let refused = world.root.read("database/creds/reader").expect(429);
    assert!(refused.errors().contains("lease count quota exceeded"), "{refused:?}");
    drop(paused);

    world.root.write("sys/leases/revoke-prefix/database/creds/reader", &json!({})).expect(204);
    until_true("leases that ended make room", Duration::from_secs(20), || {
        world.root.read("database/creds/reader").status == 200
    });
}

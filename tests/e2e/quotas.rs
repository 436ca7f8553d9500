//! Lease-count quotas before a real database: a request over the quota does not reach the database.

use crate::world::World;
use bulkhead_tests::wait::until_true;
use serde_json::json;
use std::thread;
use std::time::Duration;

#[test]
fn lease_quota_limits_users_of_looping_client() {
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

    // The request does not reach the database, and other roles are not affected.
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

#[test]
fn client_over_rate_is_refused_with_retry_after() {
    let world = World::new();
    let root = &world.root;
    let quota = json!({ "path": "database", "rate": 3, "interval": "1h" });
    root.write("sys/quotas/rate-limit/slow", &quota).expect(204);
    for _ in 0..3 {
        root.read("database/roles/reader").expect(200);
    }
    let refused = root.read("database/roles/reader").expect(429);
    assert!(refused.errors().contains("rate limit quota exceeded"), "{refused:?}");
    assert!(refused.retry_after.is_some_and(|seconds| seconds > 600), "{refused:?}");
    // The rest of the API is not affected, and the quota can be removed.
    root.read("sys/mounts").expect(200);
    root.delete("sys/quotas/rate-limit/slow").expect(204);
    root.read("database/roles/reader").expect(200);
}

#[test]
fn global_quota_survives_restart_and_is_removable() {
    let mut world = World::new();
    let quota = json!({ "rate": 2, "interval": "1h", "block_interval": "1h" });
    world.root.write("sys/quotas/rate-limit/all", &quota).expect(204);
    world.bulkhead.kill();
    world.bulkhead.start_again();
    let root = world.bulkhead.root();
    let statuses: Vec<u16> = (0..4).map(|_| root.read("sys/mounts").status).collect();
    assert_eq!(statuses, [200, 200, 429, 429]);
    root.read("sys/health").expect(200);
    root.read("sys/quotas/rate-limit/all").expect(200);
    root.delete("sys/quotas/rate-limit/all").expect(204);
    root.read("sys/mounts").expect(200);
}

#[test]
fn a_bad_rate_is_refused() {
    let world = World::new();
    for (fields, why) in [
        (json!({ "rate": 0 }), "would refuse every request"),
        (json!({ "rate": -1 }), "is not a number"),
        (json!({ "rate": "many" }), "\"many\""),
        (json!({}), "rate is missing"),
        (json!({ "rate": 1, "interval": 0 }), "interval is 0 s"),
        (json!({ "rate": 1, "path": "nowhere" }), "invalid mount path"),
        (json!({ "rate": 1, "role": "reader" }), "role cannot be limited"),
    ] {
        let refused = world.root.write("sys/quotas/rate-limit/odd", &fields).expect(400);
        assert!(refused.errors().contains(why), "{fields}: {refused:?}");
    }
    world.root.read("sys/quotas/rate-limit/odd").expect(404);
}

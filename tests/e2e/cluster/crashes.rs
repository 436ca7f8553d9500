//! The server is killed while it issues tokens: the next start removes unfinished objects, and
//! every remaining object has a lease.

use super::{ClusterStage, RULES};
use bulkhead_tests::wait::until_true;
use serde_json::json;
use std::time::Duration;

/// Delay that each kill adds, so that kills hit before and after each object. A token of mode 3
/// takes tens of milliseconds.
const STEP: Duration = Duration::from_millis(4);
const DEATHS: u32 = 16;

#[test]
fn a_server_killed_between_objects_leaves_none_behind() {
    let mut stage = ClusterStage::with_rights(3);
    stage.role("three", json!({"generated_role_rules": RULES}));
    for death in 0..DEATHS {
        let root = stage.bulkhead.root();
        let asking =
            std::thread::spawn(
                move || {
                    while root.attempt("POST", "cluster/creds/three", b"{}").is_ok() {}
                },
            );
        until_true("the first token is under way", Duration::from_secs(20), || {
            !stage.namespace.made().is_empty()
        });
        std::thread::sleep(STEP * death);
        stage.bulkhead.kill();
        asking.join().expect("a caller whose server dies does not panic");
        stage.bulkhead.start_again();
        let root = stage.bulkhead.root();
        // The answer is 503 while the API server may still create an object of a lease.
        let answer = root.write("sys/leases/revoke-prefix/cluster", &json!({"sync": true}));
        assert!(matches!(answer.status, 204 | 503), "{answer:?}");
        until_true("nothing is left", Duration::from_secs(30), || {
            stage.namespace.made().is_empty()
        });
    }
    stage.assert_silent(&stage.token);
}

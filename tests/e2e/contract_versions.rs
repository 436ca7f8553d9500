//! Contract versions: a component built for any released minor version runs on this server.

use crate::world::World;
use bulkhead_tests::paths::guest;
use bulkhead_tests::wait::until_true;
use serde_json::json;
use std::time::Duration;

/// Longest wait for background work.
const SOON: Duration = Duration::from_secs(20);

/// A component for each released minor version.
const RELEASED: [(&str, &str); 1] = [("built-for-1-0", "@1.0.0")];

#[test]
fn a_component_of_each_released_minor_version_runs() {
    let world = World::empty();
    let root = &world.root;
    for (name, version) in RELEASED {
        let component = guest(name);
        let names = |text: &str| component.windows(text.len()).any(|part| part == text.as_bytes());
        assert!(names(&format!("bulkhead:plugin/storage{version}")), "{name} is built for it");
        root.upload("sys/plugins/catalog/secret/first", &component).expect(204);
        root.write("sys/mounts/third", &json!({ "type": "first" })).expect(204);
        for count in 1..=2 {
            let counted = root.read("third/count").expect(200);
            assert_eq!(counted.body["data"]["count"], json!(count), "{name}");
        }
        let state = |what: &str| root.read("third/state").expect(200).body["data"][what].clone();
        root.read("third/timer");
        until_true("its timer rings", SOON, || state("rung") == json!(true));
        let lease = root.read("third/lease").expect(200);
        assert_eq!(lease.text("password"), "of the first");
        assert_eq!(state("revoked"), json!(false));
        root.write("sys/leases/revoke", &json!({ "lease_id": lease.lease() })).expect(204);
        assert_eq!(state("revoked"), json!(true));
        root.delete("sys/mounts/third").expect(204);
        root.delete("sys/plugins/catalog/secret/first").expect(204);
    }
}

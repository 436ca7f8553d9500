//! The disk of the database server is full. Root gives the tables a small file system; without
//! root, a trigger fails like the server without space, at the write and at the commit.

use super::place::StorePlace;
use bulkhead_tests::Postgres;
use serde_json::json;

/// Size of the file system of the tables.
const MEGABYTES: u32 = 16;

/// A trigger that fails with the code of a full disk.
const FULL: &str = "CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS
    $$ BEGIN RAISE EXCEPTION 'could not extend file: No space left on device'
       USING ERRCODE = '53100'; END $$;
    CREATE CONSTRAINT TRIGGER full_disk AFTER INSERT OR UPDATE ON bulkhead_record ";

#[test]
fn simulated_full_disk_is_a_condition() {
    let mut place = StorePlace::shared("simulated_space");
    for when in ["NOT DEFERRABLE", "DEFERRABLE INITIALLY DEFERRED"] {
        place.work_in_peace();
        place.database.query(&format!("{FULL} {when} FOR EACH ROW EXECUTE FUNCTION refuse()"));
        let refused = place.store.wait_until_refused("disk-full");
        assert!(refused.errors().contains("disk of the database server is full"), "{refused:?}");
        for _ in 0..4 {
            place.work.step(&place.store.root()).expect("an answer");
        }
        place.database.query("DROP FUNCTION refuse() CASCADE");
        place.work_in_peace();
    }
    // A stored write soon after a refusal does not end the condition.
    assert_eq!(place.store.conditions(), ["disk-full"]);
    place.work_until_healthy();
    assert_eq!(place.store.count_lines("health-degraded"), 1);
    place.assert_nothing_is_lost();
}

#[test]
fn full_database_disk_refuses_writes_until_space_returns() {
    if !may_mount() {
        return;
    }
    let postgres = Postgres::start();
    postgres.add_small_tablespace(MEGABYTES);
    let mut place = StorePlace::start(&postgres, "little_space");
    place.database.query(
        "ALTER TABLE bulkhead_record SET TABLESPACE small; \
         CREATE TABLE filling (content bytea) TABLESPACE small; \
         ALTER TABLE filling ALTER content SET STORAGE EXTERNAL",
    );
    place.work_in_peace();
    for size in [1_000_000, 50_000] {
        let fill = format!("INSERT INTO filling SELECT decode(repeat('00', {size}), 'hex')");
        while place.database.try_query(&fill).is_ok() {}
    }
    let (root, value) = (place.store.root(), json!({ "value": "x".repeat(100_000) }));
    let mut writes = 0..100;
    let refused = writes.find_map(|number| {
        place.work.step(&root).expect("an answer");
        let answer = root.write(&format!("kv/large-{number}"), &value);
        (answer.status != 204).then_some(answer)
    });
    let refused = refused.expect("the disk is full").refused(503, "disk of the database server");
    assert_eq!(place.store.conditions(), ["disk-full"], "{refused:?}");
    root.read("kv/large-0");
    place.database.query("DROP TABLE filling");
    place.work_until_healthy();
    root.write("kv/large", &value).expect(204);
    place.assert_nothing_is_lost();
}

/// Returns true for root with the right to mount.
fn may_mount() -> bool {
    let mut unshare = std::process::Command::new("unshare");
    unshare.args(["--mount", "true"]).stderr(std::process::Stdio::null());
    unshare.status().is_ok_and(|status| status.success())
}

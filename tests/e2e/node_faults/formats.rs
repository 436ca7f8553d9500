//! Data of a newer format than the binary's, as after an upgrade of another node.

use super::{SOON, round_of, write_round};
use bulkhead_tests::database_nodes::{NodeSeal, url_at};
use bulkhead_tests::operators::seal_status;
use bulkhead_tests::wait::until_true;
use bulkhead_tests::{DatabaseNodes, Postgres};
use serde_json::json;

/// All rows of all tables, in a text that shows a change.
const CONTENT: &str = "SELECT
    (SELECT md5(string_agg(t::text, ',' ORDER BY t::text)) FROM bulkhead_meta AS t),
    (SELECT md5(string_agg(t::text, ',' ORDER BY t::text)) FROM bulkhead_record AS t),
    (SELECT md5(string_agg(t::text, ',' ORDER BY t::text)) FROM bulkhead_node AS t),
    (SELECT md5(string_agg(t::text, ',' ORDER BY t::text)) FROM bulkhead_change AS t)";

fn set_format(database: &Postgres, number: u32) {
    database.query(&format!("UPDATE bulkhead_meta SET value = '{number}' WHERE name = 'format'"));
}

/// Returns two nodes, and the format of their data.
fn two_nodes() -> (Postgres, DatabaseNodes, u32) {
    let database = Postgres::start();
    let urls = [0; 2].map(|_| url_at(&database, database.port));
    let group = DatabaseNodes::start(&urls, NodeSeal::Shares);
    write_round(&group.root(0), "secret/a", 1);
    let format = "SELECT convert_from(value, 'UTF8') FROM bulkhead_meta WHERE name = 'format'";
    let format = database.query(format).parse().expect("a number");
    (database, group, format)
}

#[test]
fn newer_format_refuses_a_start_and_changes_nothing() {
    let (database, mut group, format) = two_nodes();
    assert!(group.nodes.iter_mut().all(|node| node.stop()));
    set_format(&database, format + 1);
    let before = database.query(CONTENT);
    for index in 0..2 {
        let printed = group.nodes[index].printed().len();
        let status = group.nodes[index].start_with(&[]).expect_err("the server does not start");
        assert_eq!(status.code(), Some(1));
        for part in [format!("have format {},", format + 1), "use the version".to_owned()] {
            group.nodes[index].wait_for_print_after(printed, &part);
        }
    }
    assert_eq!(database.query(CONTENT), before);
    set_format(&database, format);
    (0..2).for_each(|index| group.start_again(index));
    assert_eq!(round_of(&group.root(1), "secret/a"), 1);
}

/// Another node may upgrade the data while a node of an earlier version runs. The earlier node goes
/// on, and does not open the data again.
#[test]
fn running_node_serves_newer_format_until_sealed() {
    let (database, mut group, format) = two_nodes();
    let [one, other] = [0, 1].map(|index| group.root(index));
    set_format(&database, format + 1);
    write_round(&one, "secret/a", 2);
    until_true("the other node reads it", SOON, || round_of(&other, "secret/a") == 2);
    other.write("sys/seal", &json!({})).expect(204);
    let nobody = group.nodes[1].client(None);
    let keys = &group.operators.keys[..group.operators.threshold];
    let (last, others) = keys.split_last().expect("a key");
    for key in others {
        nobody.write("sys/unseal", &json!({ "key": key })).expect(200);
    }
    let newer = format!("the data have format {}, and this version reads", format + 1);
    nobody.write("sys/unseal", &json!({ "key": last })).refused(503, &newer);
    assert_eq!(seal_status(&group.nodes[1])["sealed"], true);
    group.nodes[1].wait_for_print(&newer);
    assert_eq!(round_of(&one, "secret/a"), 2);
    set_format(&database, format);
    assert!(group.nodes[1].stop());
    group.start_again(1);
    assert_eq!(round_of(&group.root(1), "secret/a"), 2);
}

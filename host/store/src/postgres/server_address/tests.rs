//! Names of tables and addresses.

use super::*;

#[test]
fn schema_is_quoted_in_table_names() {
    let place = PostgresPlace::from_url("postgresql://u@h/d").unwrap();
    let place = PostgresPlace { schema: "a\"; DROP TABLE b".into(), ..place };
    let names = TableNames::of(&place);
    assert_eq!(names.record, "\"a\"\"; DROP TABLE b\".\"bulkhead_record\"");
}

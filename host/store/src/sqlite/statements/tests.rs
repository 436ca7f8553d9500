//! Statements with bound values.

use std::collections::BTreeSet;

use super::*;
use crate::testing::{ScratchDirectory, plan};

#[tokio::test]
async fn checking_and_deleting_never_walk_the_table() {
    let scratch = ScratchDirectory::of_files();
    let store = scratch.open().await;
    for text in [address_join(3, "stamp"), delete_text(3)] {
        let plan = plan(&store, &text).await;
        assert!(plan.contains("(space=? AND key=?)"), "{plan}");
        assert!(!plan.contains("SCAN record"), "{plan}");
    }
    let plan = plan(&store, &put_text(3)).await;
    assert!(!plan.contains("SCAN record") && !plan.contains("TEMP"), "{plan}");
}

#[test]
fn any_number_of_rows_needs_few_forms() {
    for text in [(|rows| address_join(rows, "stamp")) as fn(usize) -> String, put_text, delete_text]
    {
        let forms: BTreeSet<String> = (1..=MOST_ROWS).map(text).collect();
        assert_eq!(forms.len(), 8);
    }
}

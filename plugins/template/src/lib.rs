//! A secrets engine that stores texts by name: a starting point for your own engine.
//!
//! The table lists the paths and their fields. The host checks requests against the table before a
//! handler runs, generates LIST, help and OpenAPI from the table, and omits secret fields from the
//! audit log.

use bulkhead_sdk::table::{Field, Row, delete, list, read, write};
use bulkhead_sdk::{Answer, Call, Failure, Host, MountedPlugin, SecretsEngine};
use serde::{Deserialize, Serialize};

struct Shelf;

impl MountedPlugin for Shelf {
    const NAME: &'static str = "shelf";
    const VERSION: &'static str = env!("CARGO_PKG_VERSION");
    const SCHEMA: u32 = 1;
    const ABOUT: &'static str = "Keeps texts by name.";
    const TABLE: &'static [Row] = &[
        read("items/{name}", show).about("Reads an item.").fields(&[NAME]),
        write("items/{name}", keep)
            .about("Writes an item.")
            .fields(&[NAME, ITEM])
            .existence("item/{name}"),
        delete("items/{name}", remove).about("Removes an item.").fields(&[NAME]),
        list("items", "item/").about("Lists the names of items."),
    ];
}

impl SecretsEngine for Shelf {}

const NAME: &[Field] = &[Field::name_of("name", "the item's name")];
const ITEM: &[Field] = &[Field::text("text", "text to store").required().secret()];

#[derive(Default, Serialize, Deserialize)]
struct Item {
    text: String,
}

// This test reads the records of earlier versions in `fixtures/records/item.jsonl`.
bulkhead_sdk::stored!(Item, "item", reads_stored_items);

fn show(host: &dyn Host, call: &Call) -> Result<Answer, Failure> {
    let item: Item = host.storage().get(&key(call))?.ok_or_else(Failure::absent)?;
    Answer::data(&item)
}

fn keep(host: &dyn Host, call: &Call) -> Result<Answer, Failure> {
    let mut item: Item = host.storage().get(&key(call))?.unwrap_or_default();
    call.merge("text", &mut item.text)?;
    host.storage().put(&key(call), &item)?;
    Ok(Answer::nothing())
}

fn remove(host: &dyn Host, call: &Call) -> Result<Answer, Failure> {
    host.storage().delete(&key(call))?;
    Ok(Answer::nothing())
}

fn key(call: &Call) -> String {
    format!("item/{}", call.text("name"))
}

bulkhead_sdk::export_secrets_engine!(Shelf);

#[cfg(test)]
mod tests {
    use super::*;
    use bulkhead_sdk::testbed::TestBed;
    use serde_json::json;

    #[test]
    fn stored_items_are_shown_listed_and_removed() {
        let bed = TestBed::<Shelf>::new().unwrap();
        bed.write("items/milk", &json!({ "text": "two bottles" })).unwrap();
        assert_eq!(bed.read("items/milk").unwrap().data["text"], "two bottles");
        assert_eq!(bed.list("items").unwrap().data["keys"], json!(["milk"]));
        bed.delete("items/milk").unwrap();
        assert!(bed.read("items/milk").is_err());
    }
}
